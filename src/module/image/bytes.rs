//! Numbers, parts and names in bytes that come from anywhere.

/// Why an image is refused.
pub(super) type Wrong = String;

#[derive(Clone, Copy)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    #[inline]
    pub(super) fn part(self, at: u64, size: u64) -> Result<Bytes<'a>, Wrong> {
        let range = || Some(usize::try_from(at).ok()?..usize::try_from(at.checked_add(size)?).ok()?);
        let part = range().and_then(|range| self.0.get(range)).map(Bytes);
        part.ok_or_else(|| format!("a part of it would have {size} bytes at {at} of {}", self.0.len()))
    }

    #[inline]
    pub(super) fn from(self, at: u64) -> Result<Bytes<'a>, Wrong> {
        self.part(at, (self.0.len() as u64).saturating_sub(at))
    }

    /// The little-endian number of `size` bytes at `at`.
    #[inline]
    pub(super) fn number(self, at: u64, size: u64) -> Result<u64, Wrong> {
        Ok(self.part(at, size)?.0.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// The printable text up to its NUL.
    #[inline]
    pub(super) fn text(self, at: u64) -> Result<&'a str, Wrong> {
        let bytes = self.from(at)?.0;
        let end = bytes.iter().position(|byte| *byte == 0);
        let text = end.and_then(|end| std::str::from_utf8(&bytes[..end]).ok());
        let printable = text.filter(|text| !text.contains(|char: char| char.is_control()));
        printable.ok_or_else(|| format!("there is no name at {at}"))
    }

    /// The numbers of 32 bits that it consists of.
    #[inline]
    pub(super) fn words(self) -> impl Iterator<Item = u32> + use<'a> {
        self.0
            .chunks_exact(4)
            .map(|word| word.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    }
}
