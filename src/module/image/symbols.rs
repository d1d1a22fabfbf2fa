//! The symbols of a cubin.

use super::bytes::{Bytes, Wrong};
use super::elf::{LARGEST_ALIGNMENT, MOST_MEMORY, Section};
use std::collections::HashSet;

pub(super) struct Symbol<'a> {
    pub(super) name: &'a str,
    pub(super) kind: u8,
    /// The section in which it is defined.
    pub(super) section: Option<usize>,
}

/// Kinds of symbols.
pub(super) const OBJECT: u8 = 1;
pub(super) const FUNCTION: u8 = 2;
pub(super) const SECTION: u8 = 3;
/// NVIDIA's, for memory that has no address until a kernel is launched.
pub(super) const RESOURCE: u8 = 13;

const SYMBOL: usize = 24;
/// The kinds of symbols with their bindings (local, global and weak), and what else they are: these combinations occur.
const FORMS: &[(u8, &[u8])] = &[
    (0x00, &[0, 1]),
    (0x01, &[0, 1, 4]),
    (0x02, &[0]),
    (0x03, &[0]),
    (0x0d, &[0x20, 0x24, 0x40, 0x80, 0x81]),
    (0x11, &[0, 1, 4]),
    (0x12, &[0, 0x10]),
    (0x1d, &[0x20, 0x24, 0x40, 0x80]),
    (0x20, &[0xa0]),
    (0x21, &[0, 1, 4]),
    (0x22, &[0, 0x10]),
    (0x2d, &[0x20]),
];
/// Of a resource, in what else it is: the memory.
const MEMORY: u64 = 0xe0;
const MEMORIES: [(u64, &str); 3] = [(0x20, ".nv.global"), (0x40, ".nv.shared."), (0x80, ".nv.constant")];
/// The section of a symbol that another file defines, and of one that has memory once all are linked.
const UNDEFINED: u64 = 0;
const COMMON: u64 = 0xfff2;

#[inline]
pub(super) fn symbols_of<'a>(
    sections: &[Section<'a>],
    at: usize,
    strings: Bytes<'a>,
) -> Result<Vec<Symbol<'a>>, Wrong> {
    let (mut symbols, mut globals) = (Vec::new(), HashSet::new());
    for (index, entry) in sections[at].bytes.0.chunks_exact(SYMBOL).enumerate() {
        let symbol =
            symbol(sections, Bytes(entry), strings).map_err(|why| format!("its symbol {index}: {why}"))?;
        if index == 0 && entry.iter().any(|byte| *byte != 0) {
            return Err("its first symbol is not empty".to_owned());
        }
        if entry[4] >> 4 != 0 && !globals.insert(symbol.name) {
            return Err(format!("it has two symbols {}", symbol.name));
        }
        symbols.push(symbol);
    }
    if symbols.is_empty() || sections[at].info > symbols.len() as u64 {
        return Err("its symbols are not as many as it says".to_owned());
    }
    Ok(symbols)
}

#[inline]
fn symbol<'a>(sections: &[Section<'a>], entry: Bytes<'_>, strings: Bytes<'a>) -> Result<Symbol<'a>, Wrong> {
    let field = |at, size| entry.number(at, size);
    let name = strings.text(field(0, 4)?)?;
    let (info, other, index) = (field(4, 1)? as u8, field(5, 1)?, field(6, 2)?);
    let (kind, value, size) = (info & 0xf, field(8, 8)?, field(0x10, 8)?);
    if !FORMS.iter().any(|form| form.0 == info && form.1.iter().any(|it| u64::from(*it) == other)) {
        return Err(format!("{name} is of no known kind, {info:#x} and {other:#x}"));
    }
    let section = match index {
        UNDEFINED | COMMON => None,
        index => Some(usize::try_from(index).map_err(|_| "its section has no such number")?),
    };
    let memory = MEMORIES.iter().find(|memory| kind == RESOURCE && memory.0 == other & MEMORY);
    let is_there = |section: &Section<'_>| memory.is_none_or(|memory| section.name.starts_with(memory.1));
    let names = |section: &Section<'_>| {
        let of_kernel = name.strip_prefix(".nv.constant.optimizer");
        let is_constant = section.name.starts_with(".nv.constant");
        section.name == name || is_constant && of_kernel.is_some_and(|it| section.name.ends_with(it))
    };
    let end = value.checked_add(size).filter(|end| *end < MOST_MEMORY);
    let fits = match section.map(|index| sections.get(index)) {
        None => kind != SECTION && end.is_some(),
        Some(None) => false,
        Some(Some(section)) if !is_there(section) => false,
        Some(Some(section)) if kind == SECTION => {
            (value, size) == (0, 0) && !section.name.is_empty() && names(section)
        }
        // Of memory that is placed later it has the alignment.
        Some(Some(section)) if kind == RESOURCE && section.name.starts_with(".nv.shared.") => {
            value <= LARGEST_ALIGNMENT && size <= section.size
        }
        Some(Some(section)) if section.name == ".nv_debug.shared" => end.is_some(),
        Some(Some(section)) => {
            let belongs = kind != FUNCTION || section.name.starts_with(".text.");
            belongs && end.is_some_and(|end| end <= section.size)
        }
    };
    if fits {
        Ok(Symbol { name, kind, section })
    } else {
        Err(format!("{name} has {size} bytes at {value} of section {index}"))
    }
}
