//! Memory: allocations with real contents and real bounds.
//!
//! Device memory has addresses of its own, far from anything that is mapped, so a program that follows one on the host
//! crashes here as it does on a GPU. Page-locked and managed memory is the host's, at the host's addresses; the device
//! finds it there, as unified addressing has it.

// Allocations are raw memory, since page-locked and managed memory is given to the program as such; and the program's
// own memory is read and written through the pointers it passes.
#![allow(unsafe_code)]

use super::addresses::{Addresses, GRANULE};
use super::machine::Handle;
use lazy_static::lazy_static;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

const TOTAL: usize = super::device::TOTAL_MEMORY;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Device,
    /// A variable of a module.
    Variable,
    Managed,
    Locked,
}

struct Allocation {
    kind: Kind,
    context: Handle,
    size: usize,
    contents: Contents,
}

enum Contents {
    /// At this address of the host's.
    Whole(usize),
    /// In pages, as far as they were written: a program may allocate what a GPU has and a laptop has not.
    Pages(HashMap<usize, Box<[u8]>>),
}

const PAGE: usize = 1 << 16;
/// Device memory beyond this comes in pages.
const MOST_WHOLE: usize = 1 << 24;

pub(super) struct Memory {
    by_address: BTreeMap<u64, Allocation>,
    pub(super) addresses: Addresses,
    used: usize,
}

lazy_static! {
    static ref MEMORY: Mutex<Memory> =
        Mutex::new(Memory { by_address: BTreeMap::new(), addresses: Addresses::new(), used: 0 });
}

pub(super) fn lock() -> MutexGuard<'static, Memory> {
    MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
}

fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size, GRANULE as usize).ok()
}

impl Allocation {
    fn new(kind: Kind, context: Handle, size: usize) -> Option<Allocation> {
        if matches!(kind, Kind::Device | Kind::Variable) && size > MOST_WHOLE {
            return Some(Allocation { kind, context, size, contents: Contents::Pages(HashMap::new()) });
        }
        let layout = layout(size).filter(|layout| layout.size() > 0)?;
        // SAFETY: the layout is not of size zero.
        let place = unsafe { alloc_zeroed(layout) } as usize;
        (place != 0).then_some(Allocation { kind, context, size, contents: Contents::Whole(place) })
    }

    /// The bytes from `at` on, as many as there are in one piece but no more than asked; unwritten ones are zero.
    fn read(&self, at: usize, into: &mut [u8]) {
        match &self.contents {
            Contents::Whole(place) => {
                // SAFETY: `place` is `size` bytes, zeroed or written, and `find` has looked that these are among them.
                into.copy_from_slice(unsafe {
                    std::slice::from_raw_parts((place + at) as *const u8, into.len())
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

    /// Has `f` write `size` bytes from `at` on, a piece at a time; `f` is told where among them the piece begins.
    fn write(&mut self, at: usize, size: usize, f: impl Fn(usize, &mut [u8])) {
        match &mut self.contents {
            Contents::Whole(place) => {
                // SAFETY: as in `read`; that the program does not use the memory meanwhile is what CUDA asks of it.
                f(0, unsafe { std::slice::from_raw_parts_mut((*place + at) as *mut u8, size) })
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
        if let (Contents::Whole(place), Some(layout)) = (&self.contents, layout(self.size)) {
            // SAFETY: allocated with this layout, and dropped once.
            unsafe { dealloc(*place as *mut u8, layout) }
        }
    }
}

impl Memory {
    /// The address of so many bytes, at least one; `None` if there are not as many.
    pub(super) fn allocate(&mut self, kind: Kind, context: Handle, size: usize) -> Option<u64> {
        if size > TOTAL.saturating_sub(self.used) {
            return None;
        }
        let allocation = Allocation::new(kind, context, size)?;
        let address = match allocation.contents {
            Contents::Whole(place) if matches!(kind, Kind::Managed | Kind::Locked) => place as u64,
            _ => self.addresses.take(size),
        };
        self.used += size;
        self.by_address.insert(address, allocation);
        Some(address)
    }

    /// The context of what begins at this address and is one of these kinds.
    pub(super) fn owner(&self, address: u64, kinds: &[Kind]) -> Option<Handle> {
        self.by_address.get(&address).filter(|found| kinds.contains(&found.kind)).map(|found| found.context)
    }

    pub(super) fn free(&mut self, address: u64) {
        if let Some(gone) = self.by_address.remove(&address) {
            self.used -= gone.size;
            // The others' addresses are the host's, and go back to it.
            if matches!(gone.kind, Kind::Device | Kind::Variable) {
                self.addresses.give(address, gone.size);
            }
        }
    }

    /// Frees all that the context has.
    pub(super) fn free_all(&mut self, context: Handle) {
        let of = |allocation: &Allocation| allocation.context == context;
        let gone: Vec<u64> = self.by_address.iter().filter(|(_, it)| of(it)).map(|(at, _)| *at).collect();
        gone.into_iter().for_each(|address| self.free(address));
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// How many allocations the program has made and not freed.
    pub(super) fn count(&self) -> usize {
        self.by_address.values().filter(|allocation| allocation.kind != Kind::Variable).count()
    }

    /// The allocation that has all these bytes, and where in it they begin; else what is wrong with them.
    fn find(&mut self, address: u64, size: usize) -> Result<(&mut Allocation, usize), String> {
        let below = self.by_address.range_mut(..=address).next_back();
        let Some((start, allocation)) = below else {
            return Err(format!("{size} bytes at {address:#x}, where nothing is allocated"));
        };
        let at = address - start;
        if at >= allocation.size as u64 + GRANULE {
            return Err(format!("{size} bytes at {address:#x}, where nothing is allocated"));
        }
        let fits = (at as usize).checked_add(size).is_some_and(|end| end <= allocation.size);
        if fits {
            return Ok((allocation, at as usize));
        }
        let have = allocation.size;
        Err(format!("{size} bytes at {at} of an allocation of {have} bytes at {start:#x}"))
    }

    /// Whether all these bytes are in one allocation.
    pub(super) fn check(&mut self, address: u64, size: usize) -> Result<(), String> {
        self.find(address, size).map(|_| ())
    }

    pub(super) fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), String> {
        let (allocation, at) = self.find(address, into.len())?;
        allocation.read(at, into);
        Ok(())
    }

    pub(super) fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), String> {
        let (allocation, at) = self.find(address, bytes.len())?;
        allocation
            .write(at, bytes.len(), |from, piece| piece.copy_from_slice(&bytes[from..from + piece.len()]));
        Ok(())
    }

    pub(super) fn fill(&mut self, address: u64, byte: u8, size: usize) -> Result<(), String> {
        let (allocation, at) = self.find(address, size)?;
        allocation.write(at, size, |_, piece| piece.fill(byte));
        Ok(())
    }

    /// Whether host memory at this address is page-locked or managed, so that the device can get at it by itself.
    pub(super) fn is_locked(&self, address: usize) -> bool {
        let below = self.by_address.range(..=address as u64).next_back();
        below.is_some_and(|(start, found)| {
            address as u64 - start < found.size as u64 && matches!(found.kind, Kind::Managed | Kind::Locked)
        })
    }
}

/// Memory of the program's own, which it named in a call: an address and a length.
#[derive(Clone, Copy)]
pub(super) struct HostMemory {
    address: usize,
    size: usize,
}

impl HostMemory {
    /// # Safety
    ///
    /// The program promises, as CUDA asks, that these bytes may be read (and written, if it is a destination) until
    /// the call, or the work that the call enqueues, is done.
    pub(super) unsafe fn new(address: usize, size: usize) -> HostMemory {
        HostMemory { address, size }
    }

    pub(super) fn address(self) -> usize {
        self.address
    }

    pub(super) fn read(self) -> Vec<u8> {
        // SAFETY: the promise at `new`.
        unsafe { std::slice::from_raw_parts(self.address as *const u8, self.size) }.to_vec()
    }

    pub(super) fn write(self, bytes: &[u8]) {
        let size = self.size.min(bytes.len());
        // SAFETY: the promise at `new`; the bytes are a vector of the simulator's, which cannot overlap them.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.address as *mut u8, size) }
    }
}
