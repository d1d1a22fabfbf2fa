//! What kernels see of the memory: they read and write it on any number of threads, without the lock of what is allocated.

use super::block::NoRoom;
use super::held::{Bindings, Extent, check};
use super::lock;
use super::storage::{ROW, Storage};
use super::words::Word;
use crate::machine::Handle;
use crate::texture::Bound;
use std::sync::Arc;

/// What a launch sees of the memory: what is there when it begins. What is freed meanwhile stays as long as the view.
#[derive(Clone)]
pub(crate) struct View(Arc<Seen>);

struct Seen {
    /// In the order of their addresses.
    regions: Vec<Region>,
    /// All allocations, in the order of their addresses.
    extents: Vec<Extent>,
    /// Memory of contexts on other devices without access: where it begins, its length and its device.
    closed: Vec<(u64, u64, usize)>,
    bound: Arc<Bindings>,
}

/// Contiguous addresses that a kernel may use: an allocation, or a piece of a pool that is there.
#[derive(Clone)]
pub(crate) struct Region {
    start: u64,
    size: u64,
    /// Where the storage begins.
    origin: u64,
    storage: Arc<Storage>,
}

/// The memory as it is now, as kernels of this context see it.
pub(crate) fn view(context: Handle) -> View {
    let mut memory = lock();
    let closed = memory.reach.closed_to(context);
    memory.held.view(&closed)
}

impl View {
    pub(super) fn new(mut regions: Vec<Region>, extents: Vec<Extent>, bound: Arc<Bindings>) -> View {
        regions.sort_unstable_by_key(|region| region.start);
        View(Arc::new(Seen { regions, extents, closed: Vec::new(), bound }))
    }

    /// The same without this memory, which begins at addresses of other devices.
    pub(super) fn without(&self, closed: Vec<(u64, u64, usize)>) -> View {
        if closed.is_empty() {
            return self.clone();
        }
        let is_open = |region: &&Region| closed.iter().all(|(start, ..)| *start != region.origin);
        let regions = self.0.regions.iter().filter(is_open).cloned().collect();
        let (extents, bound) = (self.0.extents.clone(), Arc::clone(&self.0.bound));
        View(Arc::new(Seen { regions, extents, closed, bound }))
    }

    /// The texture or surface of this context that has this handle.
    pub(crate) fn bound(&self, handle: u64, context: Handle) -> Option<&Bound> {
        self.0.bound.get(&handle).filter(|(of, _)| *of == context).map(|(_, bound)| bound)
    }

    /// The memory that contains all these bytes; else what is wrong.
    #[inline]
    pub(crate) fn find(&self, address: u64, size: usize) -> Result<&Region, String> {
        let regions = &self.0.regions;
        let count = regions.partition_point(|region| region.start <= address);
        match regions[..count].last() {
            Some(region) if region.contains(address, size) => Ok(region),
            below => Err(self.wrong(address, size, below)),
        }
    }

    #[cold]
    fn wrong(&self, address: u64, size: usize, below: Option<&Region>) -> String {
        let is_there = |(start, size, _): &&(u64, u64, usize)| address.wrapping_sub(*start) < *size;
        if let Some((.., device)) = self.0.closed.iter().find(is_there) {
            return format!(
                "{size} bytes at {address:#x}, on device {device}, to whose memory the kernel's context has no access \
                 (cuCtxEnablePeerAccess)"
            );
        }
        let there = below.map(|region| (region.start, region.size as usize));
        let count = self.0.extents.partition_point(|extent| extent.start <= address);
        let extent = self.0.extents[..count].last().copied();
        let checked = check((address, size), extent, there);
        checked.err().unwrap_or_else(|| format!("{size} bytes at {address:#x}"))
    }
}

impl Region {
    pub(super) fn new(start: u64, size: usize, origin: u64, storage: Arc<Storage>) -> Region {
        Region { start, size: size as u64, origin, storage }
    }

    #[inline]
    pub(crate) fn contains(&self, address: u64, size: usize) -> bool {
        let at = address.wrapping_sub(self.start);
        at <= self.size && size as u64 <= self.size - at
    }

    #[inline]
    fn at(&self, address: u64) -> usize {
        address.wrapping_sub(self.origin) as usize
    }

    /// Reads a word. Here and below, panics if the address is not aligned to its size, or not in the storage.
    #[inline]
    pub(crate) fn load<T: Word>(&self, address: u64) -> T {
        self.storage.load(self.at(address))
    }

    #[inline]
    pub(crate) fn store<T: Word>(&self, address: u64, value: T) -> Result<(), NoRoom> {
        self.storage.store(self.at(address), value)
    }

    /// Replaces the value by that of the function, which may be called several times, in one step; returns the old one.
    #[inline]
    pub(crate) fn update<T: Word>(&self, address: u64, f: impl FnMut(T) -> T) -> Result<T, NoRoom> {
        self.storage.update(self.at(address), f)
    }

    /// Reads words that are one after the other; false if they are not all here, in one place and aligned.
    #[inline]
    pub(crate) fn load_row<T: Word>(&self, address: u64, into: &mut [T; ROW]) -> bool {
        self.contains(address, ROW * T::SIZE) && self.storage.load_row(self.at(address), into)
    }

    /// Writes words that are one after the other; false if they are not all here, in one place and aligned, or there is no
    /// room for them.
    #[inline]
    pub(crate) fn store_row<T: Word>(&self, address: u64, from: &[T; ROW]) -> bool {
        self.contains(address, ROW * T::SIZE) && self.storage.store_row(self.at(address), from)
    }
}
