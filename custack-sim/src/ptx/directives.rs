//! The directives between a kernel's parameters and its body: they limit how it may be launched.

use super::Refusal;
use super::reader::Reader;
use super::tokens::Token;
use super::unknown;

/// The sizes of a block and of a cluster that a kernel requires or allows, and limits on its resources.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Directives {
    /// `.maxntid`: the product of its sizes.
    pub(crate) most_threads: Option<u64>,
    /// `.reqntid`.
    pub(crate) block: Option<[u32; 3]>,
    /// `.reqnctapercluster`.
    pub(crate) cluster: Option<[u32; 3]>,
    /// `.explicitcluster`: a launch must say how large a cluster is, if the kernel does not.
    pub(crate) explicit_cluster: bool,
    /// `.maxclusterrank`.
    pub(crate) most_blocks_of_cluster: Option<u32>,
    /// `.blocksareclusters`: a launch says how many clusters there are, and not blocks.
    pub(super) blocks_are_clusters: bool,
    /// `.maxnreg`.
    pub(super) most_registers: Option<u32>,
    /// `.minnctapersm`: the number of blocks that are to run at once on a multiprocessor.
    pub(super) blocks_at_once: Option<u32>,
}

/// The words that begin another declaration: a prototype before one of them needs no semicolon.
const OUTSIDE: &[&str] = &[
    ".alias", ".common", ".const", ".entry", ".extern", ".file", ".func", ".global", ".section", ".shared",
    ".visible", ".weak",
];

/// Reads up to the body and takes its opening brace. A prototype ends with a semicolon and has no body: then false.
pub(super) fn directives(reader: &mut Reader<'_>) -> Result<(Directives, bool), Refusal> {
    let mut found = Directives::default();
    loop {
        if reader.takes('{') {
            return Ok((found, true));
        }
        if reader.takes(';') {
            return Ok((found, false));
        }
        if reader.peek().and_then(Token::word).is_some_and(|word| OUTSIDE.contains(&word)) {
            return Ok((found, false));
        }
        match reader.next()?.word() {
            Some(".maxntid") => {
                found.most_threads =
                    Some(sizes(reader)?.iter().fold(1, |all: u64, size| all.saturating_mul((*size).into())))
            }
            Some(".reqntid") => found.block = Some(sizes(reader)?),
            Some(".reqnctapercluster") => found.cluster = Some(sizes(reader)?),
            Some(".explicitcluster") => found.explicit_cluster = true,
            Some(".maxclusterrank") => found.most_blocks_of_cluster = u32::try_from(reader.int()?).ok(),
            Some(".maxnreg") => found.most_registers = u32::try_from(reader.int()?).ok(),
            Some(".minnctapersm" | ".maxnctapersm") => {
                found.blocks_at_once = u32::try_from(reader.int()?).ok();
            }
            // Hints for a compiler.
            Some(".abi_preserve" | ".abi_preserve_control") => {
                reader.int()?;
            }
            Some(".blocksareclusters") => found.blocks_are_clusters = true,
            Some(".noreturn" | ".unified") => {}
            Some(".pragma") => drop(reader.until(';')?),
            Some(".loc") => reader.pass_line(),
            Some(other) => return Err(unknown(format!("the directive {other} of a kernel"))),
            None => return Err(super::wrong("`{` is missing before the code")),
        }
    }
}

/// One, two or three sizes.
fn sizes(reader: &mut Reader<'_>) -> Result<[u32; 3], Refusal> {
    let mut sizes = [1; 3];
    for size in &mut sizes {
        *size = u32::try_from(reader.int()?).unwrap_or(u32::MAX);
        if !reader.takes(',') {
            break;
        }
    }
    Ok(sizes)
}
