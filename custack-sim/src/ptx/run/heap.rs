//! The heap from which kernels allocate. Each context has one, from the first launch of a kernel that uses it.

use crate::machine::{self, Handle};
use crate::memory::{self, Kind};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

const STEP: u64 = 16;

/// The parts of a heap.
struct Heap {
    start: u64,
    /// The sizes of the allocated and of the free parts, by address.
    used: BTreeMap<u64, u64>,
    free: BTreeMap<u64, u64>,
}

static HEAPS: Mutex<BTreeMap<Handle, Heap>> = Mutex::new(BTreeMap::new());

fn heaps() -> MutexGuard<'static, BTreeMap<Handle, Heap>> {
    HEAPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes sure that the context has its heap, before a kernel that may use it sees the memory.
pub(super) fn prepare(context: Handle) {
    let size = machine::lock().heap_size(context).unwrap_or(0);
    let mut heaps = heaps();
    let mut memory = memory::lock();
    if heaps.get(&context).is_some_and(|heap| memory.owner(heap.start, &[Kind::Variable]) == Some(context)) {
        return;
    }
    heaps.remove(&context);
    if let Some(start) = memory.allocate(Kind::Variable, context, size) {
        heaps.insert(
            context,
            Heap { start, used: BTreeMap::new(), free: BTreeMap::from([(start, size as u64)]) },
        );
    }
}

/// Allocates memory; the result is 0 if there is not enough.
pub(super) fn allocate(context: Handle, size: u64) -> u64 {
    let mut heaps = heaps();
    let Some(heap) = heaps.get_mut(&context) else { return 0 };
    let Some(size) = size.max(1).checked_next_multiple_of(STEP) else { return 0 };
    let Some((at, length)) =
        heap.free.iter().find(|(_, length)| **length >= size).map(|(at, length)| (*at, *length))
    else {
        return 0;
    };
    heap.free.remove(&at);
    if length > size {
        heap.free.insert(at + size, length - size);
    }
    heap.used.insert(at, size);
    at
}

/// Frees an allocation. Null and addresses that were not allocated are ignored.
pub(super) fn free(context: Handle, at: u64) {
    let mut heaps = heaps();
    let Some(heap) = heaps.get_mut(&context) else { return };
    let Some(size) = heap.used.remove(&at) else { return };
    let (mut begin, mut end) = (at, at + size);
    if let Some(length) = heap.free.remove(&end) {
        end += length;
    }
    let before = heap.free.range(..begin).next_back().map(|(start, length)| (*start, start + length));
    if let Some((start, _)) = before.filter(|(_, stop)| *stop == begin) {
        begin = start;
    }
    heap.free.insert(begin, end - begin);
}
