//! Images: the text in them. That is the image itself, or the PTX of a fatbin that suits the simulated device best.
//!
//! A fatbin is a header, and entries one after the other: a header each, with what kind of code it is and for which
//! devices, and the code, compressed or not. NVIDIA does not document it; this is what the `fatbinary` of CUDA 13.5 and
//! the library nvFatbin of 12.4 write, and `cuobjdump` shows of it. An image is data from anywhere: each size in it is
//! checked before it is used, and what unpacks is bounded.

use super::{INVALID_IMAGE, NO_BINARY_FOR_GPU};
use crate::ptx::Refusal;
use custack_sys::ffi::CUresult;
use std::borrow::Cow;
use std::io::Read;
use std::ops::Range;

pub(super) const ELF: &[u8] = b"\x7fELF";
pub(super) const FATBIN: &[u8] = &[0x50, 0xed, 0x55, 0xba];
/// A struct that a compiler writes into a program: this number, a version, and the address of a fatbin.
pub(super) const WRAPPER: &[u8] = &[0xb1, 0x43, 0x62, 0x46];
pub(super) const FATBIN_HEADER: usize = 16;

/// The simulated device's compute capability, as targets have it.
const CAPABILITY: u32 = 90;
/// An entry's header without its name and its options.
const ENTRY_HEADER: usize = 64;
/// More than any fatbin has, and no more than a slice may have.
const LONGEST: u64 = if usize::BITS < 64 { 1 << 30 } else { 1 << 32 };
/// More than any program's text has. What is compressed can be a thousand times as long as the image.
const MOST: u64 = 256 << 20;

/// Bits of an entry's flags.
const OTHERWISE_COMPRESSED: u64 = 0x1000;
const LZ4: u64 = 0x2000;
const ZSTD: u64 = 0x8000;
const FOR_ONE_ARCHITECTURE: u64 = 0x10_0000;
const FOR_ONE_FAMILY: u64 = 0x20_0000;

/// Kinds of entries.
const PTX: u16 = 1;
const CUBIN: u16 = 2;
/// Several entries of one kind, which are compressed together; their headers follow this entry's own.
const SEVERAL: u16 = 256;

fn refused(status: CUresult, why: impl Into<String>) -> Refusal {
    Refusal { status, line: None, why: why.into() }
}

/// A fatbin, or an entry, whose parts are not there. An H200 answers a fatbin that is cut with this status.
fn incomplete(what: &str) -> Refusal {
    refused(NO_BINARY_FOR_GPU, format!("the fatbin is damaged: {what} is not within it"))
}

/// The text that an image is, or has in it.
pub(super) fn text(image: &[u8]) -> Result<Cow<'_, str>, Refusal> {
    if image.starts_with(FATBIN) {
        return match text_of_fatbin(image)? {
            Cow::Borrowed(bytes) => checked(up_to_nul(bytes)).map(Cow::Borrowed),
            Cow::Owned(bytes) => checked(up_to_nul(&bytes)).map(|text| Cow::Owned(text.to_owned())),
        };
    }
    if image.starts_with(ELF) {
        let why = format!("the image is machine code, but the simulated device runs PTX only: {ADVICE}");
        return Err(refused(NO_BINARY_FOR_GPU, why));
    }
    if image.starts_with(WRAPPER) {
        let why = "the image is the wrapper of a fatbin, which libraries alone may be made of, if there is a fatbin where it says";
        return Err(refused(INVALID_IMAGE, why));
    }
    checked(up_to_nul(image)).map(Cow::Borrowed)
}

const ADVICE: &str =
    "build with PTX instead of it or beside it, for example with `-gencode arch=compute_80,code=compute_80`";

fn up_to_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn checked(bytes: &[u8]) -> Result<&str, Refusal> {
    let why = "the image is neither a text nor machine code";
    std::str::from_utf8(bytes).map_err(|_| refused(INVALID_IMAGE, why))
}

/// The little-endian number of `size` bytes at `at`.
fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(size)?)?;
    Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// Like [`number`], as an index.
fn size_at(bytes: &[u8], at: usize, size: usize) -> Option<usize> {
    usize::try_from(number(bytes, at, size)?).ok()
}

/// How long the fatbin is that has this header; nothing if none is so long.
pub(super) fn length_of_fatbin(header: &[u8]) -> Option<usize> {
    let length = size_at(header, 6, 2)?.checked_add(size_at(header, 8, 8)?)?;
    (length as u64 <= LONGEST).then_some(length)
}

/// What an entry has: code for some devices.
struct Code<'a> {
    kind: u16,
    target: Target,
    packed: Packed<'a>,
    /// Where it is in what is unpacked, if that has more than it.
    part: Option<Range<usize>>,
}

/// Which devices code is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    capability: u32,
    suffix: Suffix,
}

/// What a target has after its number. The more special one is the better one, where it fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Suffix {
    None,
    Family,
    Architecture,
}

impl Target {
    fn fits(self) -> bool {
        match self.suffix {
            Suffix::None => self.capability <= CAPABILITY,
            // Families begin with later devices, so that none has this one.
            Suffix::Family => false,
            Suffix::Architecture => self.capability == CAPABILITY,
        }
    }

    fn name(self) -> String {
        let suffix = match self.suffix {
            Suffix::None => "",
            Suffix::Family => "f",
            Suffix::Architecture => "a",
        };
        format!("{}{suffix}", self.capability)
    }
}

impl Code<'_> {
    fn describe(&self) -> String {
        let target = self.target.name();
        match self.kind {
            PTX => format!("PTX for compute_{target}"),
            CUBIN => format!("machine code for sm_{target}"),
            kind => format!("code of kind {kind} for sm_{target}"),
        }
    }
}

fn text_of_fatbin(image: &[u8]) -> Result<Cow<'_, [u8]>, Refusal> {
    let codes = codes(image)?;
    let fitting = codes.iter().filter(|code| code.kind == PTX && code.target.fits());
    // Of equal ones the first.
    let Some(best) = fitting.rev().max_by_key(|code| code.target) else {
        let mut has: Vec<_> = codes.iter().take(12).map(Code::describe).collect();
        if has.is_empty() {
            has.push("nothing".to_owned());
        }
        let has = has.join(", ");
        let why = format!(
            "the fatbin has {has}; the simulated device runs PTX for compute_{CAPABILITY} or lower: {ADVICE}"
        );
        return Err(refused(NO_BINARY_FOR_GPU, why));
    };
    let unpacked = best.packed.unpack()?;
    let Some(part) = best.part.clone() else { return Ok(unpacked) };
    let missing = || incomplete("the part of an entry with several");
    match unpacked {
        Cow::Borrowed(bytes) => bytes.get(part).map(Cow::Borrowed).ok_or_else(missing),
        Cow::Owned(bytes) => bytes.get(part).map(|bytes| Cow::Owned(bytes.to_vec())).ok_or_else(missing),
    }
}

/// What all entries have.
fn codes(image: &[u8]) -> Result<Vec<Code<'_>>, Refusal> {
    let missing = || incomplete("what its header says");
    let begin = size_at(image, 6, 2).ok_or_else(missing)?;
    let end = length_of_fatbin(image).ok_or_else(missing)?;
    if begin < FATBIN_HEADER {
        return Err(incomplete("its header"));
    }
    let mut rest = image.get(begin..end).ok_or_else(missing)?;
    let mut codes = Vec::new();
    while !rest.is_empty() {
        let header = size_at(rest, 4, 4).filter(|header| *header >= ENTRY_HEADER);
        let sizes = header.zip(size_at(rest, 8, 8)).filter(|(header, _)| *header <= rest.len());
        let (header, size) = sizes.ok_or_else(|| incomplete("an entry's header"))?;
        let (header, after) = rest.split_at(header);
        let payload = after.get(..size).ok_or_else(|| incomplete("an entry's code"))?;
        let packed = Packed::new(header, payload).ok_or_else(|| incomplete("an entry's code"))?;
        if number(header, 0, 2) == Some(u64::from(SEVERAL)) {
            let parts = parts(&header[ENTRY_HEADER..], &packed);
            codes.extend(parts.ok_or_else(|| incomplete("an entry's list of parts"))?);
        } else {
            let (kind, target) = what(header).ok_or_else(|| incomplete("an entry's header"))?;
            codes.push(Code { kind, target, packed, part: None });
        }
        rest = after.get(size..).unwrap_or_default();
    }
    Ok(codes)
}

/// The kind of an entry's code, and its target.
fn what(header: &[u8]) -> Option<(u16, Target)> {
    let flags = number(header, 0x28, 8)?;
    let suffix = match flags {
        _ if flags & FOR_ONE_ARCHITECTURE != 0 => Suffix::Architecture,
        _ if flags & FOR_ONE_FAMILY != 0 => Suffix::Family,
        _ => Suffix::None,
    };
    let target = Target { capability: number(header, 0x1c, 4)? as u32, suffix };
    Some((number(header, 0, 2)? as u16, target))
}

/// The entries that are compressed together: how many, how long the list is, and the headers, which have the place in
/// what is unpacked instead of their own size.
fn parts<'a>(list: &'a [u8], packed: &Packed<'a>) -> Option<Vec<Code<'a>>> {
    let (count, mut at) = (number(list, 0, 4)?, 8usize);
    let list = list.get(..size_at(list, 4, 4)?)?;
    let mut codes = Vec::new();
    for _ in 0..count {
        let header = list.get(at..)?;
        let (kind, target) = what(header)?;
        let begin = size_at(header, 4, 4)?;
        let part = begin..begin.checked_add(size_at(header, 8, 8)?)?;
        codes.push(Code { kind, target, packed: *packed, part: Some(part) });
        at = at.checked_add(length_of_header(header)?)?;
    }
    Some(codes)
}

/// How long a header is that does not say so: with its name and its options, if there are any, each with a NUL, and
/// padded to 8 bytes.
fn length_of_header(header: &[u8]) -> Option<usize> {
    let name = (size_at(header, 0x20, 4)?, size_at(header, 0x24, 4)?);
    let options = match size_at(header, 0x14, 4)? {
        0 => (0, 0),
        at => (size_at(header, at, 4)?, size_at(header, at.checked_add(4)?, 4)?),
    };
    let ends = [name, options]
        .map(|(at, size)| if at == 0 { Some(0) } else { at.checked_add(size)?.checked_add(1) });
    ENTRY_HEADER.max(ends[0]?).max(ends[1]?).checked_next_multiple_of(8)
}

/// Bytes as a fatbin has them.
#[derive(Clone, Copy)]
struct Packed<'a> {
    bytes: &'a [u8],
    flags: u64,
    /// How long they are without compression.
    length: u64,
}

impl<'a> Packed<'a> {
    fn new(header: &[u8], payload: &'a [u8]) -> Option<Packed<'a>> {
        let (flags, length) = (number(header, 0x28, 8)?, number(header, 0x38, 8)?);
        // The payload is padded; nothing if it is not compressed.
        let compressed = size_at(header, 0x10, 4)?;
        let bytes = if compressed == 0 { payload } else { payload.get(..compressed)? };
        Some(Packed { bytes, flags, length })
    }

    fn unpack(self) -> Result<Cow<'a, [u8]>, Refusal> {
        let damaged = || {
            let why = "the fatbin is damaged: its PTX cannot be unpacked".to_owned();
            refused(INVALID_IMAGE, why)
        };
        if self.flags & (LZ4 | ZSTD | OTHERWISE_COMPRESSED) != 0 && self.length > MOST {
            let why = format!("the PTX of the fatbin would have {} bytes, which no text has", self.length);
            return Err(refused(INVALID_IMAGE, why));
        }
        if self.flags & LZ4 != 0 {
            // A byte unpacks to 255 at most: more need not be allocated.
            let most = self.bytes.len().saturating_mul(256);
            let mut to = vec![0; usize::try_from(self.length).unwrap_or(most).min(most)];
            let written = lz4_flex::block::decompress_into(self.bytes, &mut to).map_err(|_| damaged())?;
            to.truncate(written);
            Ok(Cow::Owned(to))
        } else if self.flags & ZSTD != 0 {
            let mut to = Vec::new();
            let decoder = ruzstd::StreamingDecoder::new(self.bytes).map_err(|_| damaged())?;
            decoder.take(self.length + 1).read_to_end(&mut to).map_err(|_| damaged())?;
            if to.len() as u64 > self.length { Err(damaged()) } else { Ok(Cow::Owned(to)) }
        } else if self.flags & OTHERWISE_COMPRESSED != 0 {
            let why = "the PTX of the fatbin is compressed as the simulated driver cannot unpack it";
            Err(refused(NO_BINARY_FOR_GPU, why))
        } else {
            Ok(Cow::Borrowed(self.bytes))
        }
    }
}
