//! Which addresses device memory gets.

use std::collections::BTreeMap;

/// Where device memory begins.
const FIRST: u64 = 0x0000_4D00_0000_0000;
/// Allocations are aligned to this, and there is a gap of as much behind each.
pub(super) const GRANULE: u64 = 512;

/// The addresses that were given out and, while they come again, the ranges that are free.
pub(in crate::sim) struct Addresses {
    /// Nothing from here on was given out yet.
    next: u64,
    again: bool,
    /// The length of each free range, by where it begins; no two of them touch.
    free: BTreeMap<u64, u64>,
}

/// How much of the address space an allocation takes, with the gap behind it.
fn span(size: usize) -> u64 {
    (size as u64).next_multiple_of(GRANULE) + GRANULE
}

impl Addresses {
    pub(super) fn new() -> Addresses {
        Addresses { next: FIRST, again: false, free: BTreeMap::new() }
    }

    /// Whether what is freed from now on is given out again.
    pub(in crate::sim) fn reuse(&mut self, again: bool) {
        self.again = again;
        self.free.clear();
    }

    /// The first free range that fits, or what was never given out.
    pub(in crate::sim) fn allocate(&mut self, size: usize) -> u64 {
        let wanted = span(size);
        let Some((at, length)) = self.free.iter().find(|(_, length)| **length >= wanted) else {
            self.next += wanted;
            return self.next - wanted;
        };
        let (at, length) = (*at, *length);
        self.free.remove(&at);
        if length > wanted {
            self.free.insert(at + wanted, length - wanted);
        }
        at
    }

    /// An allocation is gone. Its range joins the free ones on both sides, so that a larger one may fit next.
    pub(in crate::sim) fn release(&mut self, at: u64, size: usize) {
        if !self.again {
            return;
        }
        let (mut begin, mut end) = (at, at + span(size));
        if let Some(length) = self.free.remove(&end) {
            end += length;
        }
        let before = self.free.range(..begin).next_back().map(|(start, length)| (*start, start + length));
        if let Some((start, _)) = before.filter(|(_, stop)| *stop == begin) {
            begin = start;
        }
        self.free.insert(begin, end - begin);
    }
}
