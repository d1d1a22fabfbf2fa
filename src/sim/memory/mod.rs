//! Memory: allocations with real contents and bounds.
//!
//! Device memory has addresses of its own, far from any mapped address, so a program that dereferences one on the host
//! crashes here as it does on a GPU. Page-locked and managed memory is host memory, at host addresses; the device finds
//! it there by unified addressing.

pub(super) mod abi;
mod addresses;
mod allocation;
mod array;
mod calls;
mod copies;
mod host;
mod of_graph;
mod order;
mod pool;
mod pools;
mod rows;

pub(super) use allocation::Kind;
pub(super) use array::Array;
pub(super) use copies::{End, read, write};
pub(super) use host::HostMemory;
pub(super) use order::key;
pub(super) use pools::default_pool;

use super::machine::Handle;
use addresses::{Addresses, GRANULE};
use allocation::{Allocation, Contents};
use lazy_static::lazy_static;
use of_graph::OfGraphs;
use order::Order;
use pools::Pools;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

const TOTAL: usize = super::device::TOTAL_MEMORY;

pub(super) struct Memory {
    by_address: BTreeMap<u64, Allocation>,
    pub(in crate::sim) addresses: Addresses,
    used: usize,
    /// Where the memory begins that launches of graphs have allocated.
    of_graphs: OfGraphs,
    pools: Pools,
    pub(super) order: Order,
}

lazy_static! {
    static ref MEMORY: Mutex<Memory> = Mutex::new(Memory {
        by_address: BTreeMap::new(),
        addresses: Addresses::new(),
        used: 0,
        of_graphs: OfGraphs::new(),
        pools: Pools::default(),
        order: Order::default(),
    });
}

pub(super) fn lock() -> MutexGuard<'static, Memory> {
    MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Memory {
    /// Allocates at least one byte and returns the address; `None` if there is not enough memory.
    pub(super) fn allocate(&mut self, kind: Kind, context: Handle, size: usize) -> Option<u64> {
        if size as u64 > self.left() {
            return None;
        }
        let allocation = Allocation::new(kind, context, size)?;
        let address = match allocation.contents {
            Contents::Whole(start) if kind.is_hosts() => start as u64,
            _ => self.addresses.allocate(size),
        };
        self.used += size;
        self.by_address.insert(address, allocation);
        Some(address)
    }

    /// Host memory of the program's own that the device may use by itself from now on; else what a part of it is
    /// already.
    pub(super) fn register(
        &mut self,
        context: Handle,
        start: usize,
        size: usize,
        flags: u32,
    ) -> Option<Kind> {
        let end = (start + size) as u64;
        let before = self.by_address.range(..end).next_back();
        if let Some((_, found)) = before.filter(|(at, found)| **at + found.size as u64 > start as u64) {
            return Some(found.kind);
        }
        self.by_address.insert(start as u64, Allocation::registered(context, start, size, flags));
        None
    }

    /// Page-locked memory that has this address of the host's, and where it begins.
    fn locked_at(&self, address: usize) -> Option<(u64, &Allocation)> {
        let (start, found) = self.by_address.range(..=address as u64).next_back()?;
        let inside = address as u64 - start < found.size as u64;
        (inside && matches!(found.kind, Kind::Locked | Kind::Registered)).then_some((*start, found))
    }

    /// The flags that page-locked memory was made with.
    pub(super) fn flags_of(&self, address: usize) -> Option<u32> {
        self.locked_at(address).map(|(_, found)| found.flags)
    }

    pub(super) fn set_flags(&mut self, address: u64, flags: u32) {
        if let Some(found) = self.by_address.get_mut(&address) {
            found.flags = flags;
        }
    }

    /// The context of the allocation that begins at this address and has one of these kinds.
    pub(super) fn owner(&self, address: u64, kinds: &[Kind]) -> Option<Handle> {
        let lives = |kind| kind != Kind::Graph || self.is_of_graph(address);
        let found = self.by_address.get(&address)?;
        (kinds.contains(&found.kind) && lives(found.kind)).then_some(found.context)
    }

    pub(super) fn free(&mut self, address: u64) {
        self.free_of_graph(address);
        if let Some(gone) = self.by_address.remove(&address) {
            if gone.kind != Kind::Registered {
                self.used -= gone.size;
            }
            // The other kinds have host addresses, which are returned to the host.
            if matches!(gone.kind, Kind::Device | Kind::Variable) {
                self.addresses.release(address, gone.size);
            }
        }
    }

    /// Frees everything that the context has.
    pub(super) fn free_all(&mut self, context: Handle) {
        let of = |allocation: &Allocation| allocation.context == context;
        let gone: Vec<u64> = self.by_address.iter().filter(|(_, it)| of(it)).map(|(at, _)| *at).collect();
        gone.into_iter().for_each(|address| self.free(address));
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Bytes of device memory that nothing has.
    fn left(&self) -> u64 {
        TOTAL.saturating_sub(self.used) as u64
    }

    /// How many of the program's allocations are not freed.
    pub(super) fn count(&self) -> usize {
        let own =
            |found: &&Allocation| !matches!(found.kind, Kind::Variable | Kind::ManagedVariable | Kind::Pool);
        self.by_address.values().filter(own).count() + self.count_pieces()
    }

    /// The context of the memory that has this address; 0 for what is of none, as that of a pool.
    pub(in crate::sim) fn context_of(&self, address: u64) -> Handle {
        let below = self.by_address.range(..=address).next_back();
        let found = below.filter(|(start, it)| address - **start < it.size as u64 && it.kind != Kind::Pool);
        found.map_or(0, |(_, it)| it.context)
    }

    /// Whether the address is in what a pool has of the device's memory.
    fn is_pooled(&self, address: u64) -> bool {
        let below = self.by_address.range(..=address).next_back();
        below.is_some_and(|(start, found)| found.kind == Kind::Pool && address - start < found.size as u64)
    }

    /// The allocation that contains all these bytes, and their offset in it; else what is wrong.
    fn find(&mut self, address: u64, size: usize) -> Result<(&mut Allocation, usize), String> {
        if self.is_pooled(address) {
            self.check_there(address, size)?;
        }
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

    /// Whether a call may name these bytes: all of them in one allocation.
    pub(in crate::sim) fn check(&mut self, address: u64, size: usize) -> Result<(), String> {
        if self.is_pooled(address) {
            return self.check_used(address, size);
        }
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

    /// Fills with a pattern, over and over.
    pub(super) fn fill(&mut self, address: u64, pattern: &[u8], size: usize) -> Result<(), String> {
        let (allocation, at) = self.find(address, size)?;
        allocation.write(at, size, |from, piece| {
            for (offset, byte) in piece.iter_mut().enumerate() {
                *byte = pattern[(from + offset) % pattern.len()];
            }
        });
        Ok(())
    }

    /// Whether host memory at this address is page-locked or managed, so that the device can access it by itself.
    pub(super) fn is_locked(&self, address: usize) -> bool {
        let below = self.by_address.range(..=address as u64).next_back();
        below
            .is_some_and(|(start, found)| address as u64 - start < found.size as u64 && found.kind.is_hosts())
    }
}
