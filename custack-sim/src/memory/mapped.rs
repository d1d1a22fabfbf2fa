//! Memory that the program maps by itself: addresses that are reserved, memory that has none, and which of it is where.
//!
//! What lies side by side at addresses that a device may use is one allocation for whoever uses it, though the memory under
//! it may be of several handles.

use super::allocation::Allocation;
use super::storage::{Part, Storage};
use super::{Kind, Memory};
use crate::shared::{Content, Shared};
use custack_sys::ffi::CUmemLocation;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Memory is made and mapped in multiples of this.
pub(super) const GRANULARITY: usize = 2 << 20;
/// The type of handles that are descriptors of files.
pub(super) const DESCRIPTOR: u32 = 1;
const FIRST_HANDLE: u64 = 0x5349_5600_0000;
const HANDLE_STEP: u64 = 0x40;

/// What memory is made as. That it may be compressed is a wish, which is not granted.
#[derive(Clone, Copy)]
pub(crate) struct Properties {
    pub(super) kind: u32,
    pub(super) handles: u32,
    pub(super) location: CUmemLocation,
    pub(super) direct: u8,
    pub(super) usage: u16,
}

/// Addresses that the program has reserved.
#[derive(Clone, Copy)]
struct Reserved {
    size: usize,
    /// What was taken to have them aligned.
    taken: (u64, usize),
}

/// Memory without an address.
pub(super) struct Physical {
    pub(super) made: Properties,
    storage: Arc<Storage>,
    size: usize,
    /// Whether it was opened under a handle, which made no memory.
    is_opened: bool,
    /// How often it has to be released.
    references: usize,
    number: u64,
}

/// Where memory is mapped.
#[derive(Clone)]
struct Mapping {
    size: usize,
    handle: u64,
    /// The devices that may use it.
    access: BTreeSet<i32>,
}

/// What is known of an address that is reserved.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// The reservation.
    pub(super) start: u64,
    pub(super) size: usize,
    /// The mapping: where it begins, its length and its handle.
    pub(super) mapping: Option<(u64, usize, u64)>,
}

#[derive(Default)]
pub(super) struct Mapped {
    reserved: BTreeMap<u64, Reserved>,
    physical: BTreeMap<u64, Physical>,
    /// By address.
    mappings: BTreeMap<u64, Mapping>,
    made: u64,
    /// The bytes of the device's memory that were made.
    used: usize,
}

impl Mapped {
    pub(super) fn count(&self) -> usize {
        self.physical.len()
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    pub(super) fn physical(&self, handle: u64) -> Option<&Physical> {
        self.physical.get(&handle).filter(|found| found.references > 0)
    }

    fn last_before(&self, address: u64) -> Option<(u64, Reserved)> {
        let (start, found) = self.reserved.range(..=address).next_back()?;
        (address - start < found.size as u64).then_some((*start, *found))
    }

    pub(super) fn place(&self, address: u64) -> Option<Place> {
        let (start, Reserved { size, .. }) = self.last_before(address)?;
        let below = self.mappings.range(..=address).next_back();
        let mapping = below.filter(|(at, it)| address - **at < it.size as u64);
        Some(Place { start, size, mapping: mapping.map(|(at, it)| (*at, it.size, it.handle)) })
    }

    /// Whether these addresses are all of one reservation.
    pub(super) fn is_reserved(&self, address: u64, size: usize) -> bool {
        let end = address.checked_add(size as u64);
        self.last_before(address)
            .zip(end)
            .is_some_and(|((start, found), end)| end <= start + found.size as u64)
    }

    fn inside(&self, address: u64, size: usize) -> Vec<u64> {
        self.mappings.range(address..address.saturating_add(size as u64)).map(|(at, _)| *at).collect()
    }

    pub(super) fn has_mappings(&self, address: u64, size: usize) -> bool {
        let before = self.mappings.range(..address).next_back();
        before.is_some_and(|(at, it)| at + it.size as u64 > address) || !self.inside(address, size).is_empty()
    }

    /// Whether whole mappings are at all of these addresses.
    pub(super) fn is_covered(&self, address: u64, size: usize) -> bool {
        let mut next = address;
        for at in self.inside(address, size) {
            if at != next {
                return false;
            }
            next += self.mappings[&at].size as u64;
        }
        size > 0 && address.checked_add(size as u64) == Some(next)
    }

    /// How many of these addresses are of the reservation of the first one, if no mapping has others, too.
    pub(super) fn reserved_up_to(&self, address: u64, size: usize) -> Option<usize> {
        let (start, found) = self.last_before(address)?;
        let size = size.min((start + found.size as u64 - address) as usize);
        let begins = self.place(address)?.mapping.is_none_or(|(at, ..)| at == address);
        let last = self.place(address + size.checked_sub(1)? as u64)?.mapping;
        let ends = last.is_none_or(|(at, length, _)| at + length as u64 <= address + size as u64);
        (begins && ends).then_some(size)
    }

    pub(super) fn may_use(&self, address: u64, device: i32) -> Option<bool> {
        let (at, ..) = self.place(address)?.mapping?;
        Some(self.mappings[&at].access.contains(&device))
    }

    pub(super) fn is_reservation(&self, address: u64, size: usize) -> bool {
        self.reserved.get(&address).is_some_and(|found| found.size == size)
    }
}

impl Memory {
    /// Reserves addresses; `None` if not enough of them are left.
    pub(super) fn reserve(&mut self, size: usize, alignment: usize) -> Option<u64> {
        let length = size + alignment;
        let taken = self.addresses.allocate(length)?;
        let start = taken.next_multiple_of(alignment as u64);
        self.mapped.reserved.insert(start, Reserved { size, taken: (taken, length) });
        Some(start)
    }

    pub(super) fn unreserve(&mut self, start: u64) {
        if let Some(Reserved { taken: (at, length), .. }) = self.mapped.reserved.remove(&start) {
            self.addresses.release(at, length);
        }
    }

    /// `None` if there is not so much left.
    pub(super) fn make_physical(&mut self, size: usize, made: Properties) -> Option<u64> {
        if !self.has_room(size as u64) {
            return None;
        }
        let shared =
            (made.handles & DESCRIPTOR != 0).then(|| Shared::new(Content::Memory, size).ok()).flatten();
        let storage = match shared {
            Some(shared) => Storage::of_processes(shared),
            None => Storage::new(size, false)?,
        };
        self.mapped.used += size;
        Some(self.add_physical(storage, made, false))
    }

    /// Memory that this process, or another one, has made.
    pub(super) fn open_physical(&mut self, shared: Shared) -> u64 {
        let location = CUmemLocation { kind: 1, id: 0 };
        let made = Properties { kind: 1, handles: 0, location, direct: 0, usage: 0 };
        self.add_physical(Storage::of_processes(shared), made, true)
    }

    fn add_physical(&mut self, storage: Storage, made: Properties, is_opened: bool) -> u64 {
        self.mapped.made += 1;
        let handle = FIRST_HANDLE + self.mapped.made * HANDLE_STEP;
        let (number, size) = (super::allocation::next_number(), storage.size());
        let storage = Arc::new(storage);
        self.mapped
            .physical
            .insert(handle, Physical { made, storage, size, is_opened, references: 1, number });
        handle
    }

    /// A descriptor of the memory, with which it can be opened; `None` for what may not be.
    pub(super) fn descriptor_of(&self, handle: u64) -> Option<std::io::Result<i32>> {
        let found = self.mapped.physical.get(&handle).filter(|it| it.made.handles & DESCRIPTOR != 0)?;
        let none = || Err(std::io::ErrorKind::Unsupported.into());
        Some(found.storage.shared().map_or_else(none, Shared::descriptor))
    }

    pub(super) fn retain_physical(&mut self, handle: u64) {
        if let Some(found) = self.mapped.physical.get_mut(&handle) {
            found.references += 1;
        }
    }

    pub(super) fn release_physical(&mut self, handle: u64) {
        if let Some(found) = self.mapped.physical.get_mut(&handle) {
            found.references = found.references.saturating_sub(1);
        }
        self.free_unneeded(handle);
    }

    /// Memory goes when it is neither referred to nor mapped.
    fn free_unneeded(&mut self, handle: u64) {
        let mapped = self.mapped.mappings.values().any(|it| it.handle == handle);
        if self.mapped.physical.get(&handle).is_some_and(|found| found.references == 0 && !mapped) {
            if let Some(gone) = self.mapped.physical.remove(&handle) {
                self.mapped.used -= if gone.is_opened { 0 } else { gone.size };
            }
        }
    }

    /// It must not be accessed before access is granted.
    pub(super) fn map(&mut self, address: u64, size: usize, handle: u64) {
        self.mapped.mappings.insert(address, Mapping { size, handle, access: BTreeSet::new() });
    }

    pub(super) fn unmap(&mut self, address: u64, size: usize) {
        for at in self.mapped.inside(address, size) {
            if let Some(gone) = self.mapped.mappings.remove(&at) {
                self.free_unneeded(gone.handle);
            }
        }
        self.lay_out(address);
    }

    pub(super) fn grant(&mut self, address: u64, size: usize, device: i32, granted: bool) {
        for (_, mapping) in self.mapped.mappings.range_mut(address..address.saturating_add(size as u64)) {
            if granted {
                mapping.access.insert(device);
            } else {
                mapping.access.remove(&device);
            }
        }
        self.lay_out(address);
    }

    /// Makes one allocation of each run of mappings that lie side by side and may be used.
    fn lay_out(&mut self, address: u64) {
        let Some((start, Reserved { size, .. })) = self.mapped.last_before(address) else { return };
        let end = start + size as u64;
        let gone: Vec<u64> = self.held.range(start..end).map(|(at, _)| *at).collect();
        gone.into_iter().for_each(|at| drop(self.held.remove(at)));
        let mut run: Vec<Part> = Vec::new();
        let (mut first, mut next) = (start, start);
        let mut runs = Vec::new();
        for (at, mapping) in self.mapped.mappings.range(start..end) {
            if *at != next || mapping.access.is_empty() {
                runs.push((first, std::mem::take(&mut run)));
                first = *at;
            }
            next = *at + mapping.size as u64;
            if let (false, Some(found)) =
                (mapping.access.is_empty(), self.mapped.physical.get(&mapping.handle))
            {
                run.push(Part::new((at - first) as usize, mapping.size, Arc::clone(&found.storage)));
            } else {
                first = next;
            }
        }
        runs.push((first, run));
        for (at, parts) in runs.into_iter().filter(|(_, parts)| !parts.is_empty()) {
            let storage = Arc::new(Storage::of_parts(parts));
            self.held.insert(at, Allocation::mapped(storage));
        }
    }

    /// What the driver tells of an address that is mapped: the properties and the number of its memory.
    pub(super) fn mapped_at(&self, place: &Place) -> Option<(Properties, u64)> {
        let (_, _, handle) = place.mapping?;
        self.mapped.physical.get(&handle).map(|found| (found.made, found.number))
    }
}

impl Physical {
    pub(super) fn size(&self) -> usize {
        self.size
    }
}

impl Kind {
    pub(super) fn is_mapped(self) -> bool {
        self == Kind::Mapped
    }
}
