//! Checks images before they reach the driver.
//!
//! `cuModuleLoadDataEx` takes an address without a length: it reads a text up to its NUL, and machine code as far as
//! the headers say. So an image from safe code is copied and a NUL is appended, and machine code is checked first:
//! every part that its headers refer to must be within the image. The contents of the parts are not checked.

use crate::error::{CudaError, CudaResult};
use std::fmt::Display;

const ELF: &[u8] = b"\x7fELF";
const FATBIN: &[u8] = &[0x50, 0xed, 0x55, 0xba];
/// A compiler embeds this in a program: a magic number, and a pointer to the fatbin.
const FATBIN_WRAPPER: &[u8] = &[0xb1, 0x43, 0x62, 0x46];

/// Zeros after an image: a driver that reads as many bytes as a header has, to recognise the kind of image, finds that
/// many even after the shortest text.
const PADDING: usize = 64;

/// The bytes for the driver: a text with its NUL, or complete machine code.
///
/// # Errors
///
/// [`InvalidImage`](CudaError::InvalidImage), with a note that says what is wrong.
pub(crate) fn checked(image: &[u8]) -> CudaResult<Vec<u8>> {
    let length = image.len();
    let kept = kept(image).map_err(|why| {
        CudaError::InvalidImage.note(format_args!("to load an image of {length} bytes: {why}"))
    })?;
    let mut bytes = Vec::with_capacity(kept.len() + PADDING);
    bytes.extend_from_slice(kept);
    bytes.resize(kept.len() + PADDING, 0);
    Ok(bytes)
}

/// Like [`checked`], for a text, in which machine code would end at its first zero.
pub(super) fn checked_text(text: &[u8]) -> CudaResult<Vec<u8>> {
    if text.starts_with(ELF) || text.starts_with(FATBIN) {
        return Err(CudaError::InvalidImage.note(format_args!(
            "to load a text of {} bytes that begins as machine code, which no text holds",
            text.len()
        )));
    }
    checked(text)
}

/// Why an image is refused.
type Wrong = String;

/// The part of the image that the driver reads.
fn kept(image: &[u8]) -> Result<&[u8], Wrong> {
    if image.starts_with(ELF) {
        elf(image).map(|()| image)
    } else if image.starts_with(FATBIN) {
        fatbin(image).map(|()| image)
    } else if image.starts_with(FATBIN_WRAPPER) {
        Err("a fatbin's wrapper, which contains a pointer".to_owned())
    } else {
        let end = image.iter().position(|byte| *byte == 0).unwrap_or(image.len());
        let text = &image[..end];
        match text.first() {
            Some(first) if !first.is_ascii_graphic() && !first.is_ascii_whitespace() => {
                Err(format!("neither a text nor a known kind of machine code: it begins with {first:#04x}"))
            }
            _ => Ok(text),
        }
    }
}

/// The little-endian number of `size` bytes at `at`.
fn number(image: &[u8], at: u64, size: u64) -> Option<u64> {
    let bytes = part(image, at, size)?;
    Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

fn part(image: &[u8], at: u64, size: u64) -> Option<&[u8]> {
    let end = at.checked_add(size)?;
    image.get(usize::try_from(at).ok()?..usize::try_from(end).ok()?)
}

fn within(image: &[u8], at: u64, size: u64, what: impl Display) -> Result<&[u8], Wrong> {
    part(image, at, size).ok_or_else(|| format!("{what} would have {size} bytes at {at} of {}", image.len()))
}

/// A field of a header.
fn field(image: &[u8], at: u64, size: u64) -> Result<u64, Wrong> {
    number(image, at, size).ok_or_else(|| format!("a header ends before its byte {at}"))
}

const ELF_HEADER: u64 = 64;
const PROGRAM_HEADER: u64 = 56;
const SECTION_HEADER: u64 = 64;
/// In the file's header: the number is too large for its field.
const ELSEWHERE: u64 = 0xffff;

/// Sections that occupy memory on the device but no bytes in the file: ELF's own kind, and those that NVIDIA's
/// compilers add for global memory, shared memory, and reserved shared memory.
const WITHOUT_BYTES: [u64; 4] = [8, 0x7000_0007, 0x7000_000a, 0x7000_0015];
/// The type of an unused section header.
const NO_SECTION: u64 = 0;

/// Checks that the tables of program and section headers, and everything in the file that they refer to, are within the
/// image.
fn elf(image: &[u8]) -> Result<(), Wrong> {
    within(image, 0, ELF_HEADER, "the header of an ELF file")?;
    if image.get(4..6) != Some(&[2, 1]) {
        return Err("it is not a 64-bit little-endian ELF file".to_owned());
    }
    let (programs, sections) = (field(image, 0x20, 8)?, field(image, 0x28, 8)?);
    let (program_count, section_count) = (field(image, 0x38, 2)?, field(image, 0x3c, 2)?);
    if program_count == ELSEWHERE {
        return Err("it has more program headers than can be counted".to_owned());
    }
    // If a number is too large for its field, the first section's header has it. The tables must be valid both for a
    // reader that knows this and for one that does not.
    let names = field(image, 0x3e, 2)?;
    let extended = section_count == 0 && sections != 0;
    let first = if extended || names == ELSEWHERE {
        within(image, sections, SECTION_HEADER, "the first section header")?
    } else {
        &[]
    };
    let section_count = if extended { field(first, 0x20, 8)? } else { section_count };
    let far_names = if names == ELSEWHERE { field(first, 0x28, 4)? } else { names };
    for (what, at, each, is, count) in [
        ("program headers", programs, PROGRAM_HEADER, field(image, 0x36, 2)?, program_count),
        ("section headers", sections, SECTION_HEADER, field(image, 0x3a, 2)?, section_count),
    ] {
        if count > 0 && is != each {
            return Err(format!("its {what} have {is} bytes each"));
        }
        let size = each.checked_mul(count).ok_or_else(|| format!("it has {count} {what}"))?;
        if count > 0 {
            within(image, at, size, format_args!("its table of {count} {what}"))?;
        }
    }
    let names = names.max(far_names);
    if names >= section_count && names != 0 {
        return Err(format!("the names are in section {names} of {section_count}"));
    }
    // The tables are within the image, so no sum below can overflow.
    for index in 0..program_count {
        let header = programs + index * PROGRAM_HEADER;
        let (at, size) = (field(image, header + 8, 8)?, field(image, header + 0x20, 8)?);
        if size > 0 {
            within(image, at, size, format_args!("its segment {index}"))?;
        }
    }
    for index in 0..section_count {
        let header = sections + index * SECTION_HEADER;
        let kind = field(image, header + 4, 4)?;
        let (at, size) = (field(image, header + 0x18, 8)?, field(image, header + 0x20, 8)?);
        if size > 0 && kind != NO_SECTION && !WITHOUT_BYTES.contains(&kind) {
            within(image, at, size, format_args!("its section {index}"))?;
        }
    }
    Ok(())
}

const FATBIN_HEADER: u64 = 16;
const ENTRY_HEADER: u64 = 64;
/// The kind of an entry that is PTX.
const PTX: u64 = 1;
/// Flags of an entry, one for each compression method of its payload.
const COMPRESSED: u64 = 0x1000 | 0x2000 | 0x8000;

/// Checks that the header and each entry are as long as they say, and that an uncompressed payload is complete.
fn fatbin(image: &[u8]) -> Result<(), Wrong> {
    within(image, 0, FATBIN_HEADER, "the header of a fatbin")?;
    let (header, size) = (field(image, 6, 2)?, field(image, 8, 8)?);
    if header < FATBIN_HEADER {
        return Err(format!("the header of the fatbin has {header} bytes"));
    }
    let mut rest = within(image, header, size, "the part after the header")?;
    for index in 0u64.. {
        if rest.is_empty() {
            break;
        }
        rest = entry(rest).map_err(|why| format!("its entry {index}: {why}"))?;
    }
    Ok(())
}

/// Checks the first entry, and returns the others.
fn entry(entries: &[u8]) -> Result<&[u8], Wrong> {
    within(entries, 0, ENTRY_HEADER, "its header")?;
    let (kind, header, size) = (field(entries, 0, 2)?, field(entries, 4, 4)?, field(entries, 8, 8)?);
    if header < ENTRY_HEADER {
        return Err(format!("its header has {header} bytes"));
    }
    let payload = within(entries, header, size, "its payload")?;
    let own = within(entries, 0, header, "its header")?;
    within(payload, 0, field(entries, 0x10, 4)?, "its compressed payload")?;
    within(own, field(entries, 0x14, 4)?, 0, "the offset of its options")?;
    within(own, field(entries, 0x20, 4)?, field(entries, 0x24, 4)?, "its name")?;
    if payload.starts_with(ELF) {
        elf(payload)?;
    }
    let compressed = field(entries, 0x28, 8)? & COMPRESSED != 0;
    if kind == PTX && !compressed && !payload.contains(&0) {
        return Err("its text does not end".to_owned());
    }
    let end = header.checked_add(size).and_then(|end| usize::try_from(end).ok());
    Ok(end.and_then(|end| entries.get(end..)).unwrap_or_default())
}
