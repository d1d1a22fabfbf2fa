//! An allocation with real contents.

// Allocations are raw memory, because the program gets pointers to page-locked and managed memory.
#![allow(unsafe_code)]

use super::addresses::GRANULE;
use crate::sim::machine::Handle;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::HashMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sim) enum Kind {
    Device,
    /// A variable of a module.
    Variable,
    /// A variable of a module that the host can use.
    ManagedVariable,
    Managed,
    Locked,
    /// What a launch of a graph has allocated.
    Graph,
    /// The program's own memory, page-locked in place.
    Registered,
    /// What a pool has of the device's memory.
    Pool,
}

impl Kind {
    /// Whether its addresses are the host's.
    pub(super) fn is_hosts(self) -> bool {
        matches!(self, Kind::Managed | Kind::ManagedVariable | Kind::Locked | Kind::Registered)
    }
}

pub(super) struct Allocation {
    pub(super) kind: Kind,
    pub(super) context: Handle,
    pub(super) size: usize,
    /// Those that page-locked memory was asked for with.
    pub(super) flags: u32,
    pub(super) contents: Contents,
}

pub(super) enum Contents {
    /// At this host address.
    Whole(usize),
    /// As well, and the program's own.
    Programs(usize),
    /// In pages, allocated when written: a program may allocate more than a laptop has.
    Pages(HashMap<usize, Box<[u8]>>),
}

const PAGE: usize = 1 << 16;
/// Larger device memory is stored in pages.
const MOST_WHOLE: usize = 1 << 24;

fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size, GRANULE as usize).ok()
}

impl Allocation {
    pub(super) fn new(kind: Kind, context: Handle, size: usize) -> Option<Allocation> {
        let flags = 0;
        if !kind.is_hosts() && size > MOST_WHOLE {
            return Some(Allocation {
                kind,
                context,
                size,
                flags,
                contents: Contents::Pages(HashMap::new()),
            });
        }
        let layout = layout(size).filter(|layout| layout.size() > 0)?;
        // SAFETY: the layout is not of size zero.
        let start = unsafe { alloc_zeroed(layout) } as usize;
        (start != 0).then_some(Allocation { kind, context, size, flags, contents: Contents::Whole(start) })
    }

    /// The program's own memory, which it keeps as long as it is registered, as CUDA asks.
    pub(super) fn registered(context: Handle, start: usize, size: usize, flags: u32) -> Allocation {
        Allocation { kind: Kind::Registered, context, size, flags, contents: Contents::Programs(start) }
    }

    /// Reads bytes from `at` on, as many as are contiguous; unwritten ones are zero.
    pub(super) fn read(&self, at: usize, into: &mut [u8]) {
        match &self.contents {
            Contents::Whole(start) | Contents::Programs(start) => {
                // SAFETY: `start` points to `size` bytes, zeroed or written, and `find` has checked that these are
                // among them.
                into.copy_from_slice(unsafe {
                    std::slice::from_raw_parts((start + at) as *const u8, into.len())
                });
            }
            Contents::Pages(pages) => {
                let mut done = 0;
                while done < into.len() {
                    let (page, within) = ((at + done) / PAGE, (at + done) % PAGE);
                    let count = (PAGE - within).min(into.len() - done);
                    let piece = &mut into[done..done + count];
                    match pages.get(&page) {
                        Some(page) => piece.copy_from_slice(&page[within..within + count]),
                        None => piece.fill(0),
                    }
                    done += count;
                }
            }
        }
    }

    /// Has `f` write `size` bytes from `at` on, piece by piece; the first argument of `f` is the offset of the piece.
    pub(super) fn write(&mut self, at: usize, size: usize, f: impl Fn(usize, &mut [u8])) {
        match &mut self.contents {
            Contents::Whole(start) | Contents::Programs(start) => {
                // SAFETY: as in `read`; CUDA requires that the program does not use the memory meanwhile.
                f(0, unsafe { std::slice::from_raw_parts_mut((*start + at) as *mut u8, size) })
            }
            Contents::Pages(pages) => {
                let mut done = 0;
                while done < size {
                    let (page, within) = ((at + done) / PAGE, (at + done) % PAGE);
                    let count = (PAGE - within).min(size - done);
                    let page = pages.entry(page).or_insert_with(|| vec![0; PAGE].into());
                    f(done, &mut page[within..within + count]);
                    done += count;
                }
            }
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let (Contents::Whole(start), Some(layout)) = (&self.contents, layout(self.size)) {
            // SAFETY: allocated with this layout, and dropped once.
            unsafe { dealloc(*start as *mut u8, layout) }
        }
    }
}
