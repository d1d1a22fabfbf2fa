//! What the sections of a cubin have in them, but for the attributes of [`info`](super::info).

use super::bytes::{Bytes, Wrong};
use super::elf::{Elf, Section};
use super::info::{Attribute, Holds, attributes};
use super::symbols::{FUNCTION, OBJECT, RESOURCE, SECTION};

/// Whether relocations of this name change this section.
#[inline]
pub(super) fn is_target(target: Option<&Section<'_>>, name: &str) -> bool {
    let rest = name.strip_prefix(".rela").or_else(|| name.strip_prefix(".rel"));
    let Some((target, rest)) = target.zip(rest) else { return false };
    let changes = [".text.", ".nv.constant", ".nv.global.init", ".debug_", ".nv_debug_"];
    changes.iter().any(|begin| target.name.starts_with(begin)) && target.name == rest
}

/// The kinds of relocations of code, data and debug information, each with the kinds of the symbols that it may take.
const IN_CODE: &[(u32, &[u8])] = &[
    (12, &[FUNCTION]),
    (13, &[OBJECT]),
    (14, &[OBJECT]),
    (42, &[FUNCTION]),
    (43, &[OBJECT]),
    (44, &[OBJECT]),
    (55, &[RESOURCE]),
    (56, &[OBJECT, FUNCTION, RESOURCE]),
    (57, &[OBJECT, FUNCTION, RESOURCE]),
    (58, &[FUNCTION]),
    (59, &[RESOURCE]),
    (64, &[RESOURCE]),
    (66, &[RESOURCE]),
    (74, &[RESOURCE]),
    (75, &[FUNCTION]),
    (114, &[OBJECT]),
];
const IN_DATA: &[(u32, &[u8])] = &[(1, &[FUNCTION]), (2, &[OBJECT, FUNCTION]), (102, &[FUNCTION])];
const IN_DEBUG: &[(u32, &[u8])] =
    &[(1, &[SECTION]), (2, &[OBJECT, FUNCTION, SECTION]), (4, &[OBJECT]), (73, &[FUNCTION])];

/// More than an addend is from the symbol.
const MOST_ADDEND: u64 = 1 << 31;

/// Checks that each relocation is of a known kind, changes bytes of the section, and takes a symbol of the right kind.
#[inline]
pub(super) fn check_relocations(
    elf: &Elf<'_>,
    entries: Bytes<'_>,
    size: u64,
    target: &Section<'_>,
) -> Result<(), Wrong> {
    // How many bytes are changed at the most, and what these begin at a multiple of.
    let (known, width, alignment) = match target.name {
        name if name.starts_with(".text.") => (IN_CODE, 16, 8),
        name if name.contains("debug") => (IN_DEBUG, 8, 1),
        _ => (IN_DATA, 8, 4),
    };
    for entry in entries.0.chunks_exact(size as usize).map(Bytes) {
        let (at, kind, symbol) = (entry.number(0, 8)?, entry.number(8, 4)? as u32, entry.number(12, 4)?);
        let addend = if size > 16 { entry.number(16, 8)? as i64 } else { 0 };
        let taken = elf.symbols.get(symbol as usize).map_or(0, |symbol| symbol.kind);
        let fits = known.iter().any(|known| known.0 == kind && known.1.contains(&taken));
        let within = target.bytes.part(at, width).is_ok() && at % alignment == 0;
        if !fits || !within || addend.unsigned_abs() > MOST_ADDEND {
            return Err(format!("a relocation at {at}, of kind {kind} and with symbol {symbol}, is none"));
        }
    }
    Ok(())
}

/// Whether this is the place of a name that describes the type of a function: each begins so.
#[inline]
fn is_type(elf: &Elf<'_>, at: u64) -> bool {
    at > 0
        && elf.strings.number(at - 1, 1) == Ok(0)
        && elf.strings.text(at).is_ok_and(|name| name.starts_with('#'))
}

#[inline]
fn is_function(elf: &Elf<'_>, index: u64) -> bool {
    elf.symbols.get(index as usize).is_some_and(|symbol| symbol.kind == FUNCTION)
}

/// Checks pairs of a function and its type.
#[inline]
pub(super) fn check_types(elf: &Elf<'_>, pairs: Bytes<'_>) -> Result<(), Wrong> {
    for pair in pairs.0.chunks_exact(8).map(Bytes) {
        let (function, is) = (pair.number(0, 4)?, pair.number(4, 4)?);
        if !is_function(elf, function) || !is_type(elf, is) {
            return Err(format!("the function {function} is not of the type {is}"));
        }
    }
    Ok(())
}

/// Checks lists of calls, each of which begins with a mark: what functions call directly, whose addresses of which types they
/// call or take, and which functions these are.
#[inline]
pub(super) fn check_calls(elf: &Elf<'_>, pairs: Bytes<'_>) -> Result<(), Wrong> {
    const MARKS: [u64; 4] = [0xffff_ffff, 0xffff_fffe, 0xffff_fffd, 0xffff_fffc];
    let mut marks = 0;
    for pair in pairs.0.chunks_exact(8).map(Bytes) {
        let (caller, called) = (pair.number(0, 4)?, pair.number(4, 4)?);
        let fits = match (caller, marks) {
            (0, marks) => MARKS.get(marks) == Some(&called),
            (_, 1 | 4) => is_function(elf, caller) && is_function(elf, called),
            (_, marks) => marks > 0 && is_function(elf, caller) && is_type(elf, called),
        };
        if !fits {
            return Err(format!("it has {caller:#x} call {called:#x}"));
        }
        marks += usize::from(caller == 0);
    }
    if marks >= 3 { Ok(()) } else { Err(format!("it has {marks} lists")) }
}

/// The two lists of how relocations change code, which are the same in each file.
#[inline]
pub(super) fn check_actions(bytes: Bytes<'_>) -> Result<(), Wrong> {
    const LATER: &[u8] = &[0x73, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11, 0x25, 0, 5, 0x36];
    const FIRST: &[u8] = &[0x4b, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 8, 0x10, 0x0a, 0x2f, 0x22];
    const LAST: &[u8] = &[0, 0, 0, 0x14, 0x2c, 0, 0, 0, 3, 0, 0, 0x0c, 0, 0, 0, 0];
    let between = (0u8..24).flat_map(|at| [at / 8, 0, at % 8 * 8, 8, 0, 0, 0, 0]);
    let earlier = FIRST.iter().copied().chain(between).chain(LAST.iter().copied());
    let is_known = bytes.0 == LATER || bytes.0.iter().copied().eq(earlier);
    if is_known { Ok(()) } else { Err("it is not a list that custack knows".to_owned()) }
}

/// What a file says of itself.
const COMPATIBILITY: &[Attribute] = &[
    (2, 2, Holds::Value(0xff)),
    (2, 3, Holds::Value(0xff)),
    (2, 5, Holds::Value(0xff)),
    (2, 6, Holds::Value(0xff)),
    (2, 9, Holds::Value(0xff)),
    (2, 0xc, Holds::Value(0xff)),
    (3, 7, Holds::Value(0xffff)),
    (3, 0xd, Holds::Value(0xffff)),
    (3, 0xe, Holds::Value(0xffff)),
    (4, 0xb, Holds::Words(2)),
];

#[inline]
pub(super) fn check_compatibility(bytes: Bytes<'_>) -> Result<(), Wrong> {
    attributes(bytes, COMPATIBILITY).map(|_| ())
}

const OWNER: &[u8] = b"NVIDIA Corp\0";
/// Kinds of notes: about the code, and about the compiler.
const ABOUT_CODE: u64 = 1000;
const ABOUT_TOOL: u64 = 2000;
/// In the latter, numbers before the texts: a version, and where each text begins.
const NUMBERS: u64 = 24;

/// Checks notes, one after the other: a linker keeps those of what it links.
#[inline]
pub(super) fn check_notes(bytes: Bytes<'_>) -> Result<(), Wrong> {
    const OWNER_END: u64 = 12 + OWNER.len() as u64;
    let mut rest = bytes;
    while !rest.0.is_empty() {
        let (owner, size, kind) = (rest.number(0, 4)?, rest.number(4, 4)?, rest.number(8, 4)?);
        let about = rest.part(OWNER_END, size)?;
        let is_whole = match kind {
            ABOUT_CODE => size == 8,
            ABOUT_TOOL => {
                let texts = about.from(NUMBERS)?;
                let begin = about.part(4, NUMBERS - 4)?.words().all(|at| texts.text(at.into()).is_ok());
                about.number(0, 4)? == 2 && begin
            }
            _ => false,
        };
        if owner != OWNER.len() as u64 || rest.part(12, owner)?.0 != OWNER || !is_whole {
            return Err(format!("it has a note that is none of NVIDIA's of a known kind, {kind}"));
        }
        rest = rest.from(OWNER_END + size.next_multiple_of(4))?;
    }
    Ok(())
}
