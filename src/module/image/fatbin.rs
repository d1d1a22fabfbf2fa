//! Checks fatbins, and writes them anew.
//!
//! A fatbin is a header, and entries one after the other: a header each, and the code, which may be compressed. The driver
//! gets a fatbin in which nothing is compressed, so that it reads the very bytes that were checked.

use super::bytes::{Bytes, Wrong};
use super::{elf, end_of_line, text};
use std::io::Read;

const HEADER: u64 = 16;
/// An entry's header without its name and its options.
const ENTRY_HEADER: u64 = 64;
/// More than any fatbin has in all. What is compressed can be a thousand times as long as the image.
const MOST: u64 = 256 << 20;

/// Kinds of entries.
const PTX: u64 = 1;
const CUBIN: u64 = 2;
/// Several entries of one kind, which are compressed together; their headers follow this entry's own.
const SEVERAL: u64 = 256;

/// Flags of an entry: how its code is compressed, and others.
const OTHERWISE_COMPRESSED: u64 = 0x1000;
const LZ4: u64 = 0x2000;
const ZSTD: u64 = 0x8000;
const COMPRESSED: u64 = OTHERWISE_COMPRESSED | LZ4 | ZSTD;
const KNOWN: u64 = COMPRESSED | 0x30_0fff;

/// The checked fatbin, with nothing compressed.
#[inline]
pub(super) fn rebuilt(image: Bytes<'_>) -> Result<Vec<u8>, Wrong> {
    if (image.number(4, 2)?, image.number(6, 2)?) != (1, HEADER) {
        return Err("its header is not that of a fatbin".to_owned());
    }
    let mut rest = image.part(HEADER, image.number(8, 8)?)?;
    let mut entries = Vec::new();
    for index in 0u64.. {
        if rest.0.is_empty() {
            break;
        }
        rest = entry(rest, &mut entries).map_err(|why| format!("its entry {index}: {why}"))?;
    }
    let size = entries.len() as u64;
    let mut fatbin = image.part(0, HEADER)?.0.to_vec();
    fatbin[8..].copy_from_slice(&size.to_le_bytes());
    fatbin.append(&mut entries);
    Ok(fatbin)
}

/// Writes the first entry, and returns the others.
#[inline]
fn entry<'a>(entries: Bytes<'a>, to: &mut Vec<u8>) -> Result<Bytes<'a>, Wrong> {
    let (header, size) = (entries.number(4, 4)?, entries.number(8, 8)?);
    let (own, payload) = (entries.part(0, header)?, entries.part(header, size)?);
    let code = unpacked(own, payload, MOST.saturating_sub(to.len() as u64))?;
    if own.number(0, 2)? == SEVERAL {
        several(own.from(ENTRY_HEADER)?, Bytes(&code), to)?;
    } else {
        write(own, Bytes(&code), to)?;
    }
    entries.from(header + size)
}

/// The code of an entry, without compression, which may then have this many bytes.
#[inline]
fn unpacked(header: Bytes<'_>, payload: Bytes<'_>, most: u64) -> Result<Vec<u8>, Wrong> {
    let (compressed, flags, length) =
        (header.number(0x10, 4)?, header.number(0x28, 8)?, header.number(0x38, 8)?);
    if flags & !KNOWN != 0 || (flags & COMPRESSED != 0 && length > most) {
        return Err(format!(
            "custack does not know its flags {flags:#x}, or that something has {length} bytes"
        ));
    }
    let packed = if compressed == 0 { payload } else { payload.part(0, compressed)? }.0;
    let damaged = || "it cannot be unpacked".to_owned();
    let code = match flags & COMPRESSED {
        0 => return Ok(payload.0.to_vec()),
        LZ4 => {
            // A byte unpacks to 255 at most: more need not be allocated.
            let mut code = vec![0; (length as usize).min(packed.len().saturating_mul(256))];
            let written = lz4_flex::block::decompress_into(packed, &mut code).map_err(|_| damaged())?;
            code.truncate(written);
            code
        }
        ZSTD => {
            let mut code = Vec::new();
            let decoder = ruzstd::StreamingDecoder::new(packed).map_err(|_| damaged())?;
            decoder.take(length + 1).read_to_end(&mut code).map_err(|_| damaged())?;
            code
        }
        other => return Err(format!("custack cannot unpack what is compressed so ({other:#x})")),
    };
    if code.len() as u64 == length { Ok(code) } else { Err(damaged()) }
}

/// Writes the entries that were compressed together: how many, how long the list is, and the headers, which have the place
/// in what is unpacked instead of their own size.
#[inline]
fn several(list: Bytes<'_>, code: Bytes<'_>, to: &mut Vec<u8>) -> Result<(), Wrong> {
    let (count, mut rest) = (list.number(0, 4)?, list.part(0, list.number(4, 4)?)?.from(8)?);
    let mut left = code.0.len() as u64;
    for _ in 0..count {
        let own = rest.part(0, length_of_header(rest)?)?;
        let size = own.number(8, 8)?;
        left = left.checked_sub(size).ok_or("its entries have more bytes than it has")?;
        write(own, code.part(own.number(4, 4)?, size)?, to)?;
        rest = rest.from(own.0.len() as u64)?;
    }
    Ok(())
}

/// Where the name of an entry is in its header, and where its options, and how long they are; nothing if there are none.
#[inline]
fn texts(header: Bytes<'_>) -> Result<[(u64, u64); 2], Wrong> {
    let options = header.number(0x14, 4)?;
    let size = if options == 0 { 0 } else { header.number(options + 4, 4)? };
    let options = if options == 0 { 0 } else { header.number(options, 4)? };
    Ok([(header.number(0x20, 4)?, header.number(0x24, 4)?), (options, size)])
}

/// How long a header is that does not say so: with its texts, each with a NUL, and padded to 8 bytes.
#[inline]
fn length_of_header(header: Bytes<'_>) -> Result<u64, Wrong> {
    let ends = texts(header)?.map(|(at, size)| if at == 0 { 0 } else { at + size + 1 });
    Ok(ENTRY_HEADER.max(ends[0]).max(ends[1]).next_multiple_of(8))
}

/// Checks and writes an entry without compression.
#[inline]
fn write(header: Bytes<'_>, code: Bytes<'_>, to: &mut Vec<u8>) -> Result<(), Wrong> {
    let length = header.0.len() as u64;
    if length < ENTRY_HEADER || length % 8 != 0 {
        return Err(format!("its header has {length} bytes"));
    }
    let (kind, texts) = (header.number(0, 2)?, texts(header)?);
    if kind == PTX && texts[1].0 == 0 {
        return Err("it does not say where its options are, which each PTX does".to_owned());
    }
    for (at, size) in texts.into_iter().filter(|text| *text != (0, 0)) {
        let text = header.text(at)?;
        if at < ENTRY_HEADER || text.len() as u64 != size {
            return Err("its name or its options are not in its header".to_owned());
        }
    }
    let mut code = match kind {
        CUBIN => {
            elf::check(code)?;
            code.0.to_vec()
        }
        PTX if code.0.contains(&0) => {
            let text = text(code.0)?;
            text.iter().copied().chain(end_of_line(text.len())).chain([0]).collect()
        }
        kind => return Err(format!("it is no cubin and no complete PTX, but of kind {kind}")),
    };
    code.resize(code.len().next_multiple_of(8), 0);
    let begin = to.len();
    to.extend_from_slice(header.0);
    let mut put = |at: usize, bytes: &[u8]| to[begin + at..begin + at + bytes.len()].copy_from_slice(bytes);
    put(4, &(length as u32).to_le_bytes());
    put(8, &(code.len() as u64).to_le_bytes());
    put(0x10, &[0; 4]);
    put(0x28, &(header.number(0x28, 8)? & !COMPRESSED).to_le_bytes());
    put(0x30, &[0; 16]);
    to.append(&mut code);
    Ok(())
}
