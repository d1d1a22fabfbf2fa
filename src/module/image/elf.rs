//! Checks machine code: an ELF file as NVIDIA's compilers write it, with nothing in it that is not known.
//!
//! The driver believes what an ELF file says: a name, a link, a symbol or an offset that leads outside of where it should ends
//! the process. So each number of the file is checked against what it refers to. The format is not documented. What is
//! here is what ptxas 11.8 to 13.5, nvlink and NVRTC write for devices of compute capability 3.5 to 9.0. What is not here is
//! refused, as is code for later devices, which has parts for a further compiler that is in the driver (Mercury).

use super::bytes::{Bytes, Wrong};
use super::header::{HEADER, PROGRAM_HEADER, SECTION_HEADER, check_program_headers, headers};
use super::symbols::{FUNCTION, Symbol, symbols_of};
use super::{contents, info};
use std::collections::HashSet;

/// A section, as its header says.
pub(super) struct Section<'a> {
    pub(super) name: &'a str,
    link: u64,
    pub(super) info: u64,
    pub(super) size: u64,
    pub(super) bytes: Bytes<'a>,
}

pub(super) struct Elf<'a> {
    pub(super) sections: Vec<Section<'a>>,
    pub(super) symbols: Vec<Symbol<'a>>,
    /// The names of the symbols.
    pub(super) strings: Bytes<'a>,
}

const STRINGS: u32 = 3;
const RELOCATIONS: u32 = 9;
const RELOCATIONS_WITH_ADDENDS: u32 = 4;
/// Sections that occupy memory on the device but no bytes in the file: ELF's own kind, and those that NVIDIA's
/// compilers add for global memory, shared memory, and reserved shared memory.
const WITHOUT_BYTES: [u32; 4] = [8, 0x7000_0007, 0x7000_000a, 0x7000_0015];
/// Flags: the number that a header has for information is that of a section; how many barriers code has.
const INFO_IS_A_SECTION: u64 = 0x40;
const BARRIERS: u64 = 0x7f0_0000;
const CODE: u64 = 6;
/// More than any device has.
pub(super) const MOST_MEMORY: u64 = 1 << 47;
pub(super) const LARGEST_ALIGNMENT: u64 = 1 << 16;

/// What the information of a section is.
#[derive(Clone, Copy, PartialEq)]
enum Info {
    Zero,
    FirstGlobal,
    /// The symbol of the function, and how many registers it has.
    Function,
    /// The function's section, with the name that this section has after its own.
    Text,
    TextOrZero,
    /// The section whose contents are to be changed, with the name that this section has after its own.
    Target,
    Compatibility,
}

/// What sections there are: the name, where `*` is the rest of it, the kinds, the flags, the size of an entry, the name of the
/// section that the link names, and what the information is.
type Rule = (&'static str, &'static [u32], u64, u64, &'static str, Info);

const RULES: &[Rule] = &[
    (".shstrtab", &[STRINGS], 0, 0, "", Info::Zero),
    (".strtab", &[STRINGS], 0, 0, "", Info::Zero),
    (".symtab", &[2], 0, 24, ".strtab", Info::FirstGlobal),
    (".text.*", &[1], CODE, 0, ".symtab", Info::Function),
    (".nv.info", &[0x7000_0000], 0, 0, ".symtab", Info::Zero),
    (".nv.info.*", &[0x7000_0000], 0, 0, ".symtab", Info::Text),
    (".nv.constant0.*", &[1, 0x7000_0064], 2, 0, "", Info::Text),
    (".nv.constant2.*", &[1, 0x7000_0066], 2, 0, "", Info::Text),
    (".nv.constant3", &[1, 0x7000_0067], 2, 0, "", Info::Zero),
    (".nv.constant4", &[1, 0x7000_0068], 2, 0, "", Info::Zero),
    (".nv.global", &[8, 0x7000_0007], 3, 0, "", Info::Zero),
    (".nv.global.init", &[1, 0x7000_0008], 3, 0, "", Info::Zero),
    (".nv.shared.*", &[8, 0x7000_000a, 0x7000_0015], 3, 0, "", Info::TextOrZero),
    (".nv.callgraph", &[0x7000_0001], 0, 8, ".symtab", Info::Zero),
    (".nv.prototype", &[0x7000_0002], 0, 8, ".symtab", Info::Zero),
    (".nv.rel.action", &[0x7000_000b], 0, 8, "", Info::Zero),
    (".nv.compat", &[0x7000_0086], 0, 0, "", Info::Zero),
    (".note.nv.tkinfo", &[7], 0x200_0000, 0, "", Info::Zero),
    (".note.nv.cuinfo", &[7], 0x100_0000, 0, ".note.nv.tkinfo", Info::Compatibility),
    (".debug_*", &[1], 0, 0, "", Info::Zero),
    (".nv_debug_*", &[1], 0, 0, "", Info::Zero),
    (".nv_debug.shared", &[8], 3, 0, "", Info::Zero),
    (".rel.*", &[RELOCATIONS], 0, 16, ".symtab", Info::Target),
    (".rela.*", &[RELOCATIONS_WITH_ADDENDS], 0, 24, ".symtab", Info::Target),
];

/// The rule for a name, and what stands for `*` in it.
#[inline]
fn rule(name: &str) -> Option<(&'static Rule, &str)> {
    let rest = |rule: &Rule| match rule.0.strip_suffix('*') {
        Some(begin) => name.strip_prefix(begin),
        None => (rule.0 == name).then_some(""),
    };
    RULES.iter().find_map(|rule| Some((rule, rest(rule)?)))
}

/// Checks the whole file.
#[inline]
pub(super) fn check(image: Bytes<'_>) -> Result<(), Wrong> {
    let (sections, strings) = sections(image)?;
    let find = |name: &str| sections.iter().position(|section| section.name == name);
    let noted = image.number(0x33, 1)?;
    if noted != 0 && find(".note.nv.cuinfo") != usize::try_from(noted).ok() {
        return Err(format!("its flags name section {noted} as the note about its code, which it is not"));
    }
    let symbols = find(".symtab").ok_or("it has no symbols")?;
    let symbols = symbols_of(&sections, symbols, strings)?;
    let elf = Elf { sections, symbols, strings };
    for (index, section) in elf.sections.iter().enumerate().skip(1) {
        let wrong = |why| format!("its section {}: {why}", section.name);
        check_section(&elf, index, section).map_err(wrong)?;
    }
    info::check(&elf)
}

/// The sections, if each is known and lies within the file, and the names of the symbols.
#[inline]
fn sections(image: Bytes<'_>) -> Result<(Vec<Section<'_>>, Bytes<'_>), Wrong> {
    let [program_headers, headers] = headers(image)?;
    let names = image.number(0x3e, 2)?;
    let at = |index: u64| image.part(headers.0 + index * SECTION_HEADER, SECTION_HEADER);
    let count = headers.1;
    if names == 0 || names >= count {
        return Err(format!("the names are in section {names} of {count}"));
    }
    let names = at(names)?;
    let names = image.part(names.number(0x18, 8)?, names.number(0x20, 8)?)?;
    if at(0)?.0.iter().any(|byte| *byte != 0) {
        return Err("its first section is not empty".to_owned());
    }
    let mut sections = vec![Section { name: "", link: 0, info: 0, size: 0, bytes: Bytes(&[]) }];
    let mut taken = vec![(0, HEADER), (headers.0, count * SECTION_HEADER)];
    taken.extend((program_headers.1 > 0).then_some((program_headers.0, program_headers.1 * PROGRAM_HEADER)));
    let mut seen = HashSet::new();
    for index in 1..count {
        let (section, place) =
            section(image, at(index)?, names).map_err(|why| format!("its section {index}: {why}"))?;
        if !seen.insert(section.name) {
            return Err(format!("it has two sections {}", section.name));
        }
        taken.extend((place.1 > 0).then_some(place));
        sections.push(section);
    }
    check_program_headers(image, program_headers, &taken)?;
    taken.sort_unstable();
    if let Some(pair) = taken.windows(2).find(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
        return Err(format!("two of its parts overlap at {}", pair[1].0));
    }
    let strings = sections.iter().find(|section| section.name == ".strtab").ok_or("it has no names")?.bytes;
    Ok((sections, strings))
}

/// A section by its header, and its place in the file.
#[inline]
fn section<'a>(
    image: Bytes<'a>,
    header: Bytes<'_>,
    names: Bytes<'a>,
) -> Result<(Section<'a>, (u64, u64)), Wrong> {
    let field = |at, size| header.number(at, size);
    let name = names.text(field(0, 4)?)?;
    let (rule, _) = rule(name).ok_or_else(|| format!("{name:?} is not one that custack knows"))?;
    let (kind, flags, offset, size) = (field(4, 4)? as u32, field(8, 8)?, field(0x18, 8)?, field(0x20, 8)?);
    let counted = if rule.2 == CODE { BARRIERS } else { INFO_IS_A_SECTION };
    if !rule.1.contains(&kind) || flags & !counted != rule.2 || field(0x38, 8)? != rule.3 {
        return Err(format!("{name} is not as it should be: kind {kind:#x}, flags {flags:#x}"));
    }
    let alignment = field(0x30, 8)?;
    if !alignment.is_power_of_two() || alignment > LARGEST_ALIGNMENT || field(0x10, 8)? != 0 {
        return Err(format!("{name} is aligned to {alignment} bytes"));
    }
    let has_bytes = !WITHOUT_BYTES.contains(&kind);
    let bytes = image.part(offset, if has_bytes { size } else { 0 })?;
    if size >= MOST_MEMORY || offset % alignment != 0 || rule.3 > 0 && size % rule.3 != 0 {
        return Err(format!("{name} has {size} bytes at {offset}"));
    }
    let section = Section { name, link: field(0x28, 4)?, info: field(0x2c, 4)?, size, bytes };
    Ok((section, (offset, bytes.0.len() as u64)))
}

/// Checks what a section refers to, and its contents.
#[inline]
fn check_section(elf: &Elf<'_>, index: usize, section: &Section<'_>) -> Result<(), Wrong> {
    let Some((rule, rest)) = rule(section.name) else { return Err("it is not known".to_owned()) };
    let named = |index: u64| usize::try_from(index).ok().and_then(|index| elf.sections.get(index));
    let is_text = || named(section.info).and_then(|it| it.name.strip_prefix(".text.")) == Some(rest);
    let linked = named(section.link).map(|section| section.name);
    if linked != Some(rule.4) {
        return Err(format!("its link is section {}, {linked:?}", section.link));
    }
    let points = match rule.5 {
        Info::Zero => section.info == 0,
        Info::FirstGlobal => true,
        Info::Function => {
            let symbol = elf.symbols.get(section.info as usize & 0xff_ffff);
            let own = symbol.filter(|symbol| symbol.kind == FUNCTION && symbol.section == Some(index));
            own.is_some_and(|symbol| symbol.name == rest) && section.size > 0 && section.size % 64 == 0
        }
        Info::Text => is_text(),
        Info::TextOrZero => section.info == 0 || is_text(),
        Info::Target => contents::is_target(named(section.info), section.name),
        Info::Compatibility => {
            section.info == 0 || named(section.info).is_some_and(|it| it.name == ".nv.compat")
        }
    };
    if !points {
        return Err(format!("its information {:#x} is not what it should be", section.info));
    }
    match (rule.5, section.name) {
        (Info::Target, _) => {
            let Some(target) = named(section.info) else { return Err("it changes nothing".to_owned()) };
            contents::check_relocations(elf, section.bytes, rule.3, target)
        }
        (_, ".nv.callgraph") => contents::check_calls(elf, section.bytes),
        (_, ".nv.prototype") => contents::check_types(elf, section.bytes),
        (_, ".nv.rel.action") => contents::check_actions(section.bytes),
        (_, ".nv.compat") => contents::check_compatibility(section.bytes),
        (_, name) if name.starts_with(".note.") => contents::check_notes(section.bytes),
        _ => Ok(()),
    }
}
