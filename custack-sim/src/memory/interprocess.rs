//! Device memory that other processes of this machine open under a handle.

use super::allocation::{Allocation, Kind};
use super::storage::Storage;
use super::{Memory, lock};
use crate::machine::*;
use crate::shared::{Bytes, Content, Name, Shared};
use std::collections::BTreeMap;
use std::io;

const KIND: [u8; 8] = *b"SIMMEMRY";
/// The only flags that there are.
const LAZY_PEER_ACCESS: u32 = 1;

/// Memory of another process that this one has opened.
struct Open {
    address: u64,
    context: Handle,
    times: usize,
}

#[derive(Default)]
pub(super) struct Opened(BTreeMap<Name, Open>);

impl Memory {
    /// Where other processes find the device memory that begins here; `None` while something uses it, because it is moved
    /// for the first one that asks.
    fn share(&mut self, start: u64) -> io::Result<Option<Name>> {
        let moved = self.held.moved(start, |storage| {
            let shared = Storage::of_processes(Shared::new(Content::Memory, storage.size())?);
            storage.copy_to_zeros(&shared).map_err(|_| io::ErrorKind::OutOfMemory)?;
            Ok(shared)
        })?;
        let shared = || self.held.get(&start)?.storage.shared().map(Shared::name);
        if moved { shared().transpose() } else { Ok(None) }
    }

    fn device_memory_at(&self, address: u64) -> Option<u64> {
        self.held.at(address).filter(|(_, found)| found.kind == Kind::Device).map(|(start, _)| start)
    }

    /// The entry of what is open at this address.
    fn opened_at(&mut self, address: u64) -> Option<&mut Open> {
        // What was open in a context that is gone is not, any more.
        let held = &self.held;
        let is_open = |open: &Open| held.get(&open.address).is_some_and(|it| it.kind == Kind::Opened);
        self.opened.0.retain(|_, open| is_open(open));
        self.opened.0.values_mut().find(|open| open.address == address)
    }
}

impl Machine {
    /// The handle of the memory that has this address; `None` while something uses it.
    pub(super) fn ipc_memory_handle(&mut self, has_out: bool, address: u64) -> Answer<Option<Bytes>> {
        self.healthy_current()?;
        let start = lock().device_memory_at(address).filter(|_| has_out);
        let Some(start) = start else {
            let why =
                format!("no memory of this process's device is at {address:#x}, or the pointer is NULL");
            return self.refuse(INVALID_VALUE, why);
        };
        let shared = lock().share(start);
        match shared {
            Ok(name) => Ok(name.map(|name| name.to_bytes(KIND))),
            Err(why) => self.refuse(NOT_SUPPORTED, format_args!("to share memory with processes: {why}")),
        }
    }

    /// The address at which this process has the memory now.
    pub(super) fn open_ipc_memory(&mut self, has_out: bool, handle: Bytes, flags: u32) -> Answer<u64> {
        let context = self.healthy_current()?;
        let name = Name::from_bytes(KIND, &handle).filter(|_| has_out && flags == LAZY_PEER_ACCESS);
        let Some(name) = name else {
            let why = format!("not a handle of memory, flags {flags:#x}, or NULL for the address");
            return self.refuse(INVALID_VALUE, why);
        };
        if name.is_own() {
            return self.refuse(INVALID_CONTEXT, "the memory is of this very process");
        }
        lock().opened_at(0);
        if let Some(open) = lock().opened.0.get_mut(&name) {
            if open.context != context {
                return self.refuse(INVALID_HANDLE, "the memory is open in another context");
            }
            open.times += 1;
            return Ok(open.address);
        }
        let shared = match Shared::open(&name) {
            Ok(shared) => shared,
            Err(why) => {
                let why = format!("process {} does not have the memory: {why}", name.process);
                return self.refuse(INVALID_VALUE, why);
            }
        };
        let mut memory = lock();
        let Some(address) = memory.addresses.allocate(name.size as usize) else {
            drop(memory);
            return self.refuse(OUT_OF_MEMORY, format_args!("there are no {} addresses left", name.size));
        };
        let storage = Storage::of_processes(shared);
        memory.held.insert(address, Allocation::shared(Kind::Opened, context, storage));
        memory.opened.0.insert(name, Open { address, context, times: 1 });
        Ok(address)
    }

    /// What was opened several times is closed as often.
    pub(super) fn close_ipc_memory(&mut self, address: u64) -> Answer<()> {
        self.healthy_current()?;
        let left = lock().opened_at(address).map(|open| {
            open.times -= 1;
            open.times
        });
        match left {
            None => self
                .refuse(INVALID_VALUE, format_args!("no memory of another process is open at {address:#x}")),
            Some(0) => {
                lock().free(address);
                lock().opened_at(0);
                Ok(())
            }
            Some(_) => Ok(()),
        }
    }
}
