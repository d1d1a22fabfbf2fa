//! The addresses of device memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The addresses of device memory: below those at which the systems load programs and map memory, so that no address of
/// the host's is among them, unless the stack of the process has no limit.
const FIRST: u64 = 0x0000_1000_0000_0000;
const END: u64 = 0x0000_5400_0000_0000;
/// Allocations are aligned to this, and followed by a gap of the same size.
pub(super) const GRANULE: u64 = 512;

/// The addresses that were allocated, and the ranges that are free again.
pub(crate) struct Addresses {
    /// No address from here on was allocated yet.
    next: u64,
    again: bool,
    /// The length of each free range, by its start; no two of them are adjacent.
    free: BTreeMap<u64, u64>,
}

/// The addresses and the lengths of what is no longer reserved.
static RETURNED: Mutex<Vec<(u64, usize)>> = Mutex::new(Vec::new());

/// Addresses that nothing else is allocated at as long as this exists.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reserved {
    address: u64,
    size: usize,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // Whoever drops it may have locked the memory.
        RETURNED.lock().unwrap_or_else(PoisonError::into_inner).push((self.address, self.size));
    }
}

/// The address space of an allocation, including the gap after it.
fn span(size: usize) -> u64 {
    (size as u64).next_multiple_of(GRANULE) + GRANULE
}

impl Addresses {
    pub(super) fn new() -> Addresses {
        Addresses { next: FIRST, again: false, free: BTreeMap::new() }
    }

    /// Whether this may be an address of the device's.
    pub(super) fn has(&self, address: u64) -> bool {
        (FIRST..END).contains(&address)
    }

    /// Whether the device's addresses and these of the host's are partly the same.
    pub(super) fn overlap(&self, address: u64, size: usize) -> bool {
        address < END && address.saturating_add(size as u64) > FIRST
    }

    /// Whether addresses that are freed from now on are reused at once, and not only when there are no others.
    pub(crate) fn reuse(&mut self, again: bool) {
        self.again = again;
        self.take_back();
        self.free.clear();
    }

    /// Fresh addresses, or the first free range that fits; `None` if there is neither.
    pub(crate) fn allocate(&mut self, size: usize) -> Option<u64> {
        self.take_back();
        let wanted = span(size);
        let fits = |free: &BTreeMap<u64, u64>| {
            free.iter().find(|(_, length)| **length >= wanted).map(|(at, length)| (*at, *length))
        };
        let early = if self.again { fits(&self.free) } else { None };
        if early.is_none() && wanted <= END - self.next {
            self.next += wanted;
            return Some(self.next - wanted);
        }
        let (at, length) = early.or_else(|| fits(&self.free))?;
        self.free.remove(&at);
        if length > wanted {
            self.free.insert(at + wanted, length - wanted);
        }
        Some(at)
    }

    pub(crate) fn reserve(&mut self, size: usize) -> Option<(u64, Reserved)> {
        let address = self.allocate(size)?;
        Some((address, Reserved { address, size }))
    }

    fn take_back(&mut self) {
        let returned = std::mem::take(&mut *RETURNED.lock().unwrap_or_else(PoisonError::into_inner));
        returned.into_iter().for_each(|(address, size)| self.release(address, size));
    }

    /// Frees a range and merges it with free ranges on both sides, so that a larger allocation may fit next.
    pub(crate) fn release(&mut self, at: u64, size: usize) {
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
