//! Checks images before they reach the driver.
//!
//! `cuModuleLoadDataEx` takes an address without a length, reads a text up to its NUL, and believes what machine code says of
//! itself: one wrong number in it ends the process. So an image from safe code is copied and zeros are appended, and
//! machine code is checked whole (see [`elf`] and [`fatbin`]). What custack does not know is refused; the unsafe functions
//! load it unchecked.

mod bytes;
mod contents;
mod elf;
mod fatbin;
mod header;
mod info;
mod symbols;

use crate::error::{CudaError, CudaResult};
use bytes::{Bytes, Wrong};
use std::borrow::Cow;

pub(super) const ELF: &[u8] = b"\x7fELF";
pub(super) const FATBIN: &[u8] = &[0x50, 0xed, 0x55, 0xba];
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
#[inline]
pub(crate) fn checked(image: &[u8]) -> CudaResult<Vec<u8>> {
    kept(image).map(|kept| padded(&kept))
}

/// The same bytes for the driver, which the caller vouches for.
#[inline]
pub(crate) fn padded(image: &[u8]) -> Vec<u8> {
    let is_code = [ELF, FATBIN, FATBIN_WRAPPER].iter().any(|magic| image.starts_with(magic));
    let text = image.iter().position(|byte| *byte == 0).unwrap_or(image.len());
    let mut bytes = image.to_vec();
    if !is_code && image[text..].iter().all(|byte| *byte == 0) {
        bytes.truncate(text);
        bytes.extend(end_of_line(text));
    }
    bytes.resize(bytes.len() + PADDING, 0);
    bytes
}

/// What a text of this length ends with, so that its length is no multiple of 8. Where code is to have
/// debug information or lines, NVIDIA's driver (580) copies a text to as many bytes, rounded up to a
/// multiple of 8, and writes the NUL behind them.
#[inline]
fn end_of_line(length: usize) -> Option<u8> {
    (length % 8 == 0).then_some(b'\n')
}

/// Like [`checked`], for a text, in which machine code would end at its first zero.
#[inline]
pub(super) fn checked_text(text: &[u8]) -> CudaResult<Vec<u8>> {
    if text.starts_with(ELF) || text.starts_with(FATBIN) {
        return Err(CudaError::InvalidImage.note(format_args!(
            "to load a text of {} bytes that begins as machine code, which no text holds",
            text.len()
        )));
    }
    checked(text)
}

/// The part of the image that the driver reads, with nothing compressed.
#[inline]
pub(super) fn kept(image: &[u8]) -> CudaResult<Cow<'_, [u8]>> {
    let kept = if image.starts_with(ELF) {
        elf::check(Bytes(image)).map(|()| image.into())
    } else if image.starts_with(FATBIN) {
        fatbin::rebuilt(Bytes(image)).map(Cow::from)
    } else if image.starts_with(FATBIN_WRAPPER) {
        Err("a fatbin's wrapper, which contains a pointer".to_owned())
    } else {
        text(image).map(Cow::from)
    };
    kept.map_err(|why| {
        CudaError::InvalidImage.note(format_args!("to load an image of {} bytes: {why}", image.len()))
    })
}

/// The text before the first NUL.
#[inline]
fn text(image: &[u8]) -> Result<&[u8], Wrong> {
    let text = image.split(|byte| *byte == 0).next().unwrap_or_default();
    let is_of_text = |char: char| !char.is_control() || char.is_ascii_whitespace();
    match std::str::from_utf8(text) {
        Ok(chars) if chars.chars().all(is_of_text) => Ok(text),
        _ => Err(format!("neither a text nor a known kind of machine code: it begins with {:#04x}", text[0])),
    }
}
