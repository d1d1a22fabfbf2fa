//! Memory: allocations with real contents and bounds.
//!
//! Device memory has addresses of its own, far from any mapped address, so a program that dereferences one on the host
//! crashes here as it does on a GPU. Page-locked and managed memory is host memory, at host addresses; the device finds
//! it there by unified addressing.

pub(super) mod abi;
mod addresses;
mod allocation;
mod apart;
mod array;
mod batch;
mod block;
mod calls;
mod copies;
mod held;
mod host;
mod interprocess;
mod managed;
mod mapped;
mod mapping;
mod of_graph;
mod order;
mod pointer;
mod pool;
mod pools;
mod reach;
mod rows;
mod shared_pools;
mod storage;
mod turn;
mod view;
mod words;

pub(super) use addresses::Reserved;
pub(super) use allocation::Kind;
pub(super) use apart::KernelRuns;
pub(super) use array::{Array, channel_size};
pub(super) use batch::{Batch, Step};
pub(super) use copies::{End, NO_ROOM, fill_bytes, transfer};
pub(super) use host::HostMemory;
pub(super) use order::key;
pub(super) use pools::default_pool;
pub(super) use view::{Region, View, view};
#[allow(unused_imports)]
pub(super) use words::{Word, alone};

use super::machine::Handle;
use super::shared::Shared;
use super::texture::Bound;
use addresses::Addresses;
use allocation::Allocation;
use apart::Apart;
use held::Held;
use interprocess::Opened;
use lazy_static::lazy_static;
use managed::Managed;
use mapped::Mapped;
use of_graph::OfGraphs;
use order::Order;
use pools::Pools;
use reach::Reach;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use storage::Storage;

const TOTAL: usize = super::device::TOTAL_MEMORY;
/// More than this of the host's memory is not put among the device's addresses, for which that would leave no room.
const LARGE: usize = 1 << 40;

pub(super) struct Memory {
    held: Held,
    pub(crate) addresses: Addresses,
    /// Where the memory begins that launches of graphs have allocated.
    of_graphs: OfGraphs,
    pools: Pools,
    pub(super) order: Order,
    /// The numbers of the allocations on which synchronous work was asked to synchronize.
    synchronizing: BTreeSet<u64>,
    managed: Managed,
    mapped: Mapped,
    opened: Opened,
    pub(crate) reach: Reach,
    pub(crate) apart: Apart,
}

lazy_static! {
    static ref MEMORY: Mutex<Memory> = Mutex::new(Memory {
        held: Held::default(),
        addresses: Addresses::new(),
        of_graphs: OfGraphs::new(),
        pools: Pools::default(),
        order: Order::default(),
        synchronizing: BTreeSet::new(),
        managed: Managed::default(),
        mapped: Mapped::default(),
        opened: Opened::default(),
        reach: Reach::default(),
        apart: Apart::default(),
    });
}

pub(super) fn lock() -> MutexGuard<'static, Memory> {
    MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The context in which a node works on this memory: that of the memory, or the named one for what is of none.
pub(crate) fn home_of(address: u64, named: Handle) -> Handle {
    let own = lock().context_of(address);
    if own == 0 { named } else { own }
}

impl Memory {
    /// Allocates at least one byte and returns the address; `None` if there is not enough memory.
    pub(super) fn allocate(&mut self, kind: Kind, context: Handle, size: usize) -> Option<u64> {
        if kind.is_counted() && !self.has_room(size as u64) {
            return None;
        }
        if kind == Kind::Managed && self.apart.wanted {
            if let Some(address) = self.allocate_apart(context, size) {
                return Some(address);
            }
        }
        let allocation = Allocation::new(kind, context, size)?;
        let address = match allocation.host_address() {
            Some(address) if size > LARGE && self.addresses.overlap(address, size) => return None,
            Some(address) => address,
            None => self.addresses.allocate(size)?,
        };
        self.held.insert(address, allocation);
        Some(address)
    }

    /// Host memory of the program's own that the device may use by itself from now on, if it is there; else what a part of
    /// it is already.
    pub(super) fn register(
        &mut self,
        context: Handle,
        Range { start, end }: Range<usize>,
        flags: u32,
        is_there: bool,
    ) -> Option<Kind> {
        let before = self.held.range(..end as u64).next_back();
        if let Some((_, found)) = before.filter(|(at, found)| **at + found.size as u64 > start as u64) {
            return Some(found.kind);
        }
        if is_there {
            self.held.insert(start as u64, Allocation::registered(context, start, end - start, flags));
        }
        None
    }

    /// Page-locked memory that has this address of the host's, and where it begins.
    fn locked_at(&self, address: usize) -> Option<(u64, &Allocation)> {
        self.held
            .at(address as u64)
            .filter(|(_, found)| matches!(found.kind, Kind::Locked | Kind::Registered))
    }

    /// The flags that page-locked memory was made with.
    pub(super) fn flags_of(&self, address: usize) -> Option<u32> {
        self.locked_at(address).map(|(_, found)| found.flags)
    }

    pub(super) fn set_flags(&mut self, address: u64, flags: u32) {
        self.held.set_flags(address, flags);
    }

    /// The context of the allocation that begins at this address and has one of these kinds.
    pub(super) fn owner(&self, address: u64, kinds: &[Kind]) -> Option<Handle> {
        let lives = |kind| kind != Kind::Graph || self.is_of_graph(address);
        let found = self.held.get(&address)?;
        (kinds.contains(&found.kind) && lives(found.kind)).then_some(found.context)
    }

    pub(super) fn free(&mut self, address: u64) {
        self.forget_of_graph(address);
        if let Some(gone) = self.held.remove(address) {
            self.synchronizing.remove(&gone.number);
            self.managed.forget(gone.number);
            self.apart.forget(address);
            // The other kinds have host addresses, which are returned to the host.
            if matches!(gone.kind, Kind::Device | Kind::Variable | Kind::Array | Kind::Opened) {
                self.addresses.release(address, gone.size);
            }
        }
    }

    /// Frees everything that the context has.
    pub(super) fn free_all(&mut self, context: Handle) {
        let of = |allocation: &Allocation| allocation.context == context;
        let gone: Vec<u64> = self.held.iter().filter(|(_, it)| of(it)).map(|(at, _)| *at).collect();
        gone.into_iter().for_each(|address| self.free(address));
        self.held.unbind_if(|of| of == context);
    }

    /// Kernels that begin from now on find a texture or a surface of the context under this handle.
    pub(super) fn bind(&mut self, handle: u64, context: Handle, bound: Bound) {
        self.held.bind(handle, context, bound);
    }

    pub(super) fn unbind(&mut self, handle: u64) {
        self.held.unbind(handle);
    }

    /// Bytes of device memory that nothing has.
    fn left(&self) -> u64 {
        TOTAL.saturating_sub(self.held.used() + self.mapped.used()) as u64
    }

    /// Whether the device has this much left. Before it has not, it takes back what pools have and nothing uses; it does not
    /// wait for frees that are still to come.
    fn has_room(&mut self, size: u64) -> bool {
        if size > self.left() {
            self.release_unused();
        }
        size <= self.left()
    }

    /// How many of the program's allocations are not freed.
    pub(super) fn count(&self) -> usize {
        let own = |found: &&Allocation| {
            let apart = Kind::Variable == found.kind || found.kind == Kind::ManagedVariable;
            !apart && !matches!(found.kind, Kind::Pool | Kind::Array | Kind::Mapped)
        };
        self.held.values().filter(own).count() + self.count_pieces() + self.mapped.count()
    }

    /// The context of the memory that has this address; 0 for what is of none, as that of a pool.
    pub(crate) fn context_of(&self, address: u64) -> Handle {
        let found = self.held.at(address).filter(|(_, it)| it.kind != Kind::Pool);
        found.map_or(0, |(_, it)| it.context)
    }

    /// Whether a call may name these bytes: all of them in one allocation.
    pub(crate) fn check(&self, address: u64, size: usize) -> Result<(), String> {
        if self.held.at(address).is_some_and(|(_, found)| found.kind == Kind::Pool) {
            return self.check_used(address, size);
        }
        self.held.find(address, size).map(|_| ())
    }

    /// What has these bytes, which work touches now, and their offset in it; else what is wrong. It stays when it is
    /// freed meanwhile, so who copies much lets go of the lock first.
    fn storage_of(&self, address: u64, size: usize) -> Result<(Arc<Storage>, usize), String> {
        let (allocation, at) = self.held.find(address, size)?;
        Ok((Arc::clone(&allocation.storage), at))
    }

    pub(super) fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), String> {
        let (storage, at) = self.storage_of(address, bytes.len())?;
        storage.write(at, bytes).map_err(|_| NO_ROOM.to_owned())
    }

    /// Whether a copy that may be between any addresses takes this one for the device's: what the driver has allocated,
    /// and what it had, or may allocate. A process whose stack has no limit maps its own memory among these addresses.
    pub(crate) fn is_devices(&self, address: u64) -> bool {
        self.held.at(address).is_some() || self.addresses.has(address) && !host::is_mapped(address as usize)
    }

    /// Whether host memory at this address is page-locked or managed, so that the device can access it by itself.
    pub(super) fn is_locked(&self, address: usize) -> bool {
        self.held.at(address as u64).is_some_and(|(_, found)| found.kind.is_hosts())
    }
}
