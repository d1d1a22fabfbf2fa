//! An allocation with real contents.

use super::storage::Storage;
use crate::machine::Handle;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
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
    /// The contents of an array, at an address that no program is told.
    Array,
    /// What the program has mapped, and a device may use.
    Mapped,
    /// Another process's.
    Opened,
}

impl Kind {
    /// Whether its addresses are the host's.
    pub(super) fn is_hosts(self) -> bool {
        matches!(self, Kind::Managed | Kind::ManagedVariable | Kind::Locked | Kind::Registered)
    }

    /// Whether it takes of the device's memory when it is allocated: managed memory does only when it is used there, and what
    /// is mapped was taken before.
    pub(super) fn is_counted(self) -> bool {
        !matches!(self, Kind::Managed | Kind::Locked | Kind::Registered | Kind::Opened | Kind::Mapped)
    }
}

/// The number of the next allocation, or of the next piece of a pool.
pub(super) fn next_number() -> u64 {
    static MADE: AtomicU64 = AtomicU64::new(1);
    MADE.fetch_add(1, Ordering::Relaxed)
}

pub(super) struct Allocation {
    pub(super) kind: Kind,
    pub(super) context: Handle,
    pub(super) size: usize,
    /// Those that page-locked memory was asked for with.
    pub(super) flags: u32,
    /// No other allocation of the process has it.
    pub(super) number: u64,
    /// Views and copies keep it when the allocation is freed.
    pub(super) storage: Arc<Storage>,
}

impl Allocation {
    pub(super) fn new(kind: Kind, context: Handle, size: usize) -> Option<Allocation> {
        let storage = match kind {
            Kind::Managed => Storage::managed(size),
            _ => Storage::new(size, kind.is_hosts()),
        };
        let storage = Arc::new(storage?);
        Some(Allocation { kind, context, size, flags: 0, number: next_number(), storage })
    }

    /// The program's own memory, which it keeps as long as it is registered, as CUDA asks.
    pub(super) fn registered(context: Handle, start: usize, size: usize, flags: u32) -> Allocation {
        let storage = Arc::new(Storage::of_program(start, size));
        Allocation { kind: Kind::Registered, context, size, flags, number: next_number(), storage }
    }

    /// Memory that several processes have.
    pub(super) fn shared(kind: Kind, context: Handle, storage: Storage) -> Allocation {
        let (size, storage) = (storage.size(), Arc::new(storage));
        Allocation { kind, context, size, flags: 0, number: next_number(), storage }
    }

    /// Memory that the program has mapped, which is of no context.
    pub(super) fn mapped(storage: Arc<Storage>) -> Allocation {
        let size = storage.size();
        Allocation { kind: Kind::Mapped, context: 0, size, flags: 0, number: next_number(), storage }
    }

    /// How many bytes it takes of the device's memory.
    pub(super) fn counted(&self) -> usize {
        if self.kind.is_counted() { self.size } else { 0 }
    }

    /// Where it begins, if that is an address of the host's.
    pub(super) fn host_address(&self) -> Option<u64> {
        self.storage.start().filter(|_| self.kind.is_hosts()).map(|start| start as u64)
    }
}
