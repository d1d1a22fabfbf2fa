//! The headers of a cubin, and of its segments.

use super::bytes::{Bytes, Wrong};
use super::elf::MOST_MEMORY;

pub(super) const HEADER: u64 = 64;
pub(super) const PROGRAM_HEADER: u64 = 56;
/// More than any compiler writes.
const MOST_PROGRAM_HEADERS: u64 = 64;
pub(super) const SECTION_HEADER: u64 = 64;
/// An object file, and a linked one.
const TYPES: [u64; 2] = [1, 2];
const CUDA: u64 = 190;
/// The system and its version, with the versions of the file that these have.
const FORMATS: [([u8; 2], std::ops::RangeInclusive<u64>); 2] = [([0x33, 7], 100..=199), ([0x41, 8], 1..=1)];
/// The compute capabilities, ten times the major number plus the minor one.
const CAPABILITIES: [u64; 16] = [35, 37, 50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90];

/// Where the program headers are, and how many, and the section headers.
#[inline]
pub(super) fn headers(image: Bytes<'_>) -> Result<[(u64, u64); 2], Wrong> {
    let ident = image.part(0, 16)?.0;
    let field = |at, size| image.number(at, size);
    if ident[4..7] != [2, 1, 1] || ident[9..] != [0; 7] {
        return Err("it is not a 64-bit little-endian ELF file".to_owned());
    }
    let format = FORMATS.iter().find(|format| format.0 == ident[7..9]);
    let version = field(0x14, 4)?;
    if !format.is_some_and(|format| format.1.contains(&version)) || field(0x12, 2)? != CUDA {
        return Err(format!(
            "it is no cubin of a known format, but of {:?} and version {version}",
            &ident[7..9]
        ));
    }
    let flags = field(0x30, 4)?;
    let known = |capability: u64| CAPABILITIES.contains(&capability);
    let [low, next, virtual_one, top] = [0, 8, 16, 24].map(|bit| flags >> bit & 0xff);
    let is_known = match ident[7] {
        0x33 => known(low) && [5, 0xd].contains(&next) && known(virtual_one) && top == 0,
        // The number of a section, which is looked at below.
        _ => low & !8 == 4 && known(next) && virtual_one == 0 && top > 0,
    };
    if !is_known {
        return Err(format!("it is for a device that custack does not know, by its flags {flags:#x}"));
    }
    if !TYPES.contains(&field(0x10, 2)?) || field(0x18, 8)? != 0 {
        return Err("it is no object file and no linked one".to_owned());
    }
    let (program_count, count) = (field(0x38, 2)?, field(0x3c, 2)?);
    if program_count > MOST_PROGRAM_HEADERS {
        return Err(format!("it has {program_count} program headers"));
    }
    let sizes = (field(0x34, 2)?, field(0x36, 2)?, field(0x3a, 2)?);
    if sizes != (HEADER, if program_count > 0 { PROGRAM_HEADER } else { sizes.1 }, SECTION_HEADER) {
        return Err(format!("its headers have {sizes:?} bytes"));
    }
    if program_count == 0 && (field(0x20, 8)? != 0 || ![0, PROGRAM_HEADER].contains(&sizes.1)) {
        return Err("it has no program headers, but says where they are".to_owned());
    }
    let (programs, sections) = (field(0x20, 8)?, field(0x28, 8)?);
    image.part(programs, program_count * PROGRAM_HEADER)?;
    image.part(sections, count * SECTION_HEADER)?;
    Ok([(programs, program_count), (sections, count)])
}

/// Kinds of segments: what is loaded, and the program headers themselves.
const LOADED: u64 = 1;
const HEADERS: u64 = 6;

/// A segment begins where a part of the file does, and ends within the file.
#[inline]
pub(super) fn check_program_headers(
    image: Bytes<'_>,
    (at, count): (u64, u64),
    parts: &[(u64, u64)],
) -> Result<(), Wrong> {
    for index in 0..count {
        let header = image.part(at + index * PROGRAM_HEADER, PROGRAM_HEADER)?;
        let field = |at, size| header.number(at, size);
        let (offset, in_file, in_memory) = (field(8, 8)?, field(0x20, 8)?, field(0x28, 8)?);
        image.part(offset, in_file)?;
        let is_whole = match field(0, 4)? {
            HEADERS => offset == at && in_file == count * PROGRAM_HEADER && in_memory == in_file,
            LOADED => {
                let begins = in_file == 0 || parts.iter().any(|part| part.0 == offset);
                begins && (in_file..MOST_MEMORY).contains(&in_memory)
            }
            _ => false,
        };
        let rest = (field(0x10, 8)?, field(0x18, 8)?, field(0x30, 8)?);
        if !is_whole || rest != (0, 0, 8) || !(4..=6).contains(&field(4, 4)?) {
            return Err(format!("its segment {index} is not of a known kind, or not a part of it"));
        }
    }
    Ok(())
}
