//! Bytes of the host, in which the simulated machine keeps what its memory has.

// Allocates raw memory, because the program gets pointers to page-locked and managed memory.
#![allow(unsafe_code)]

use super::Shared;
use super::addresses::GRANULE;
use std::alloc::{GlobalAlloc, Layout, System};

/// The host has no room for what is to be written. A program may allocate more than there is, as pages come to be when they
/// are written; so its write fails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoRoom;

/// Less than this is not asked about before.
pub(super) const LITTLE: usize = 1 << 24;

/// Whether the host has room for `size` bytes in small pieces, with some left for all else. It is asked before much is
/// written, because a process that has used up its memory is aborted at its next small allocation.
pub(super) fn check_room(size: usize) -> Result<(), NoRoom> {
    // Each piece needs a little more than its size.
    let enough = || Block::new(size.checked_add(size / 64)?.checked_add(LITTLE)?);
    if size <= LITTLE || enough().is_some() { Ok(()) } else { Err(NoRoom) }
}

/// Collects `count` elements, where the program chose the number; an error if the host has no room for them.
pub(crate) fn collected<T>(count: usize, elements: impl Iterator<Item = T>) -> Result<Vec<T>, NoRoom> {
    let mut all = Vec::new();
    all.try_reserve_exact(count).map_err(|_| NoRoom)?;
    all.extend(elements.take(count));
    Ok(all)
}

/// Bytes of the host, zeroed at first, and aligned as the device's memory is.
pub(super) struct Block {
    pub(super) start: usize,
    pub(super) owner: Owner,
}

/// What gives the bytes back when it is dropped.
pub(super) enum Owner {
    System(#[allow(dead_code, reason = "it is there to be dropped")] Allocated),
    Processes(Shared),
    /// More than the host has, perhaps.
    #[cfg(target_os = "linux")]
    Unreserved(#[allow(dead_code, reason = "it is there to be dropped")] memmap2::MmapRaw),
}

pub(super) struct Allocated(*mut u8, Layout);

// SAFETY: it is only what is given back in the end, by the one thread that drops it.
unsafe impl Send for Allocated {}
// SAFETY: as above.
unsafe impl Sync for Allocated {}

impl Block {
    /// The system's allocator writes no zeros itself, and so uses no memory before it is written, if it need not align it.
    /// That of the program may write them.
    pub(super) fn new(size: usize) -> Option<Block> {
        let align = GRANULE as usize;
        let room = size.checked_add(align).filter(|_| size > 0)?;
        let layout = Layout::from_size_align(room, align_of::<u64>()).ok()?;
        // SAFETY: the layout is not of size zero.
        let allocated = unsafe { System.alloc_zeroed(layout) };
        let start = allocated.expose_provenance().next_multiple_of(align);
        (!allocated.is_null()).then_some(Block { start, owner: Owner::System(Allocated(allocated, layout)) })
    }

    /// The same, for which the system reserves nothing, so that there may be more than it has.
    #[cfg(target_os = "linux")]
    pub(super) fn unreserved(size: usize) -> Option<Block> {
        let map = memmap2::MmapOptions::new().len(size).no_reserve_swap().map_anon().ok()?;
        let map = memmap2::MmapRaw::from(map);
        Some(Block { start: map.as_mut_ptr().expose_provenance(), owner: Owner::Unreserved(map) })
    }

    /// Other systems reserve nothing anyway, or refuse it.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn unreserved(size: usize) -> Option<Block> {
        Block::new(size)
    }

    /// Whether each page needs memory of the host's when it is written, and nothing tells which have some.
    pub(super) fn is_unreserved(&self) -> bool {
        #[cfg(target_os = "linux")]
        return matches!(self.owner, Owner::Unreserved(_));
        #[cfg(not(target_os = "linux"))]
        false
    }
}

impl Drop for Allocated {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and dropped once.
        unsafe { System.dealloc(self.0, self.1) }
    }
}
