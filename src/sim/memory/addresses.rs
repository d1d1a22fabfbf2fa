//! The addresses of device memory.

use std::collections::BTreeMap;

/// The start of device memory.
const FIRST: u64 = 0x0000_4D00_0000_0000;
/// Allocations are aligned to this, and followed by a gap of the same size.
pub(super) const GRANULE: u64 = 512;

/// The addresses that were allocated and, if addresses are reused, the free ranges.
pub(in crate::sim) struct Addresses {
    /// No address from here on was allocated yet.
    next: u64,
    again: bool,
    /// The length of each free range, by its start; no two of them are adjacent.
    free: BTreeMap<u64, u64>,
}

/// The address space of an allocation, including the gap after it.
fn span(size: usize) -> u64 {
    (size as u64).next_multiple_of(GRANULE) + GRANULE
}

impl Addresses {
    pub(super) fn new() -> Addresses {
        Addresses { next: FIRST, again: false, free: BTreeMap::new() }
    }

    /// Whether this was ever an address of the device's.
    pub(super) fn has(&self, address: u64) -> bool {
        (FIRST..self.next).contains(&address)
    }

    /// Whether addresses that are freed from now on are reused.
    pub(in crate::sim) fn reuse(&mut self, again: bool) {
        self.again = again;
        self.free.clear();
    }

    /// The first free range that fits, or a fresh one.
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

    /// Frees a range and merges it with free ranges on both sides, so that a larger allocation may fit next.
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
