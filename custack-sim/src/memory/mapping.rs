//! The calls on memory that the program maps by itself: what they check, and in which order.

use super::lock;
use super::mapped::{DESCRIPTOR, GRANULARITY, Properties};
use crate::machine::*;
use crate::shared::{Content, Shared};
use custack_sys::ffi::{CUmemAccessDesc, CUmemLocation};

const PINNED: u32 = 1;
const ON_DEVICE: u32 = 1;
const HOST: u32 = 2;
const NODE: u32 = 3;
/// Handles that another system has, and such as no machine here has the parts for.
const WINDOWS: u32 = 2 | 4;
const FABRIC: u32 = 8;
const PAGE: usize = 4096;
/// More addresses than these are not reserved at once.
const MOST_RESERVED: usize = 1 << 46;
pub(super) const NO_ACCESS: u32 = 0;
pub(super) const READ: u32 = 1;
pub(super) const READ_WRITE: u32 = 3;

impl Machine {
    pub(super) fn reserve_addresses(
        &mut self,
        size: usize,
        alignment: usize,
        hint: u64,
        flags: u64,
    ) -> Answer<u64> {
        self.ready()?;
        let aligned = alignment == 0 || alignment.is_power_of_two();
        if size == 0 || size % GRANULARITY != 0 || hint % PAGE as u64 != 0 || !aligned || flags != 0 {
            let why = format!(
                "to reserve {size} addresses at {hint:#x}, aligned to {alignment}, with flags {flags:#x}"
            );
            return self.refuse(INVALID_VALUE, why);
        }
        let few = size <= MOST_RESERVED && alignment <= MOST_RESERVED;
        let reserved = few.then(|| lock().reserve(size, alignment.max(GRANULARITY))).flatten();
        match reserved {
            Some(start) => Ok(start),
            None => self.refuse(OUT_OF_MEMORY, format_args!("there are no {size} addresses left")),
        }
    }

    pub(super) fn free_addresses(&mut self, start: u64, size: usize) -> Answer<()> {
        self.ready()?;
        let (known, used) = {
            let memory = lock();
            (memory.mapped.is_reservation(start, size), memory.mapped.has_mappings(start, size))
        };
        if !known || used {
            let why = format!(
                "{size} addresses from {start:#x} were not reserved so, or something is mapped there"
            );
            return self.refuse(INVALID_VALUE, why);
        }
        lock().unreserve(start);
        Ok(())
    }

    /// Whether there is memory with these properties.
    fn check_properties(&mut self, it: &Properties) -> Answer<()> {
        match it.location.kind {
            ON_DEVICE => self.device(it.location.id).map(|_| ())?,
            HOST | NODE => return self.refuse(NOT_SUPPORTED, "memory of the host's that the program maps"),
            kind => return self.refuse(INVALID_VALUE, format_args!("memory at a location of type {kind}")),
        }
        if it.kind != PINNED || it.handles & WINDOWS != 0 {
            let (kind, handles) = (it.kind, it.handles);
            return self.refuse(
                INVALID_VALUE,
                format_args!("memory of type {kind}, with handles of types {handles:#x}"),
            );
        }
        if it.handles & FABRIC != 0 {
            return self.refuse(NOT_PERMITTED, "memory of a fabric");
        }
        if it.usage != 0 {
            return self.refuse(NOT_SUPPORTED, "memory for the tiles of arrays");
        }
        Ok(())
    }

    pub(super) fn granularity(&mut self, properties: &Properties, option: u32) -> Answer<usize> {
        self.ready()?;
        if option > 1 {
            return self.refuse(INVALID_VALUE, format_args!("{option} is no kind of granularity"));
        }
        self.check_properties(properties).map(|()| GRANULARITY)
    }

    pub(super) fn create_memory(&mut self, size: usize, properties: &Properties, flags: u64) -> Answer<u64> {
        self.ready()?;
        if flags != 0 || size == 0 || size % GRANULARITY != 0 {
            let why = format!(
                "{size} bytes of memory, which is made in multiples of {GRANULARITY}, with flags {flags:#x}"
            );
            return self.refuse(INVALID_VALUE, why);
        }
        self.check_properties(properties)?;
        let got = lock().make_physical(size, *properties);
        match got {
            Some(handle) => Ok(handle),
            None => self.refuse(OUT_OF_MEMORY, format_args!("there are no {size} bytes left")),
        }
    }

    /// The properties and the size of the memory of a handle.
    pub(super) fn memory_of(&mut self, handle: u64) -> Answer<(Properties, usize)> {
        self.ready()?;
        let found = lock().mapped.physical(handle).map(|found| (found.made, found.size()));
        match found {
            Some(found) => Ok(found),
            None => self.refuse(INVALID_VALUE, format_args!("{handle:#x} is no memory, or was released")),
        }
    }

    pub(super) fn release_memory(&mut self, handle: u64) -> Answer<()> {
        self.memory_of(handle)?;
        lock().release_physical(handle);
        Ok(())
    }

    pub(super) fn map_memory(
        &mut self,
        (address, size): (u64, usize),
        offset: usize,
        handle: u64,
        flags: u64,
    ) -> Answer<()> {
        let (_, has) = self.memory_of(handle)?;
        let why = format!("{size} bytes of {has} from {offset} on, at {address:#x}, with flags {flags:#x}");
        if flags != 0 || size == 0 || address == 0 || address % GRANULARITY as u64 != 0 {
            return self.refuse(INVALID_VALUE, why);
        }
        if offset != 0 || size != has {
            return self.refuse(NOT_SUPPORTED, why);
        }
        let (reserved, used) = {
            let memory = lock();
            (memory.mapped.is_reserved(address, size), memory.mapped.has_mappings(address, size))
        };
        if !reserved || used {
            let why = format!("{size} addresses from {address:#x}, which are not reserved, or have memory");
            return self.refuse(INVALID_VALUE, why);
        }
        lock().map(address, size, handle);
        Ok(())
    }

    /// All of the mappings at these addresses, and of no others.
    fn whole_mappings(&mut self, address: u64, size: usize) -> Answer<()> {
        self.ready()?;
        let covered = address.checked_add(size as u64).is_some() && lock().mapped.is_covered(address, size);
        if covered {
            return Ok(());
        }
        self.refuse(INVALID_VALUE, format_args!("{size} bytes at {address:#x} are not what was mapped"))
    }

    /// Whatever is mapped there, which may be nothing, up to the end of what is reserved.
    pub(super) fn unmap_memory(&mut self, address: u64, size: usize) -> Answer<()> {
        self.ready()?;
        let whole = lock().mapped.reserved_up_to(address, size).filter(|_| size > 0);
        let Some(size) = whole else {
            let why =
                format!("{size} bytes at {address:#x}, which are not reserved or have a part of a mapping");
            return self.refuse(INVALID_VALUE, why);
        };
        lock().unmap(address, size);
        Ok(())
    }

    pub(super) fn set_access(&mut self, address: u64, size: usize, access: &[CUmemAccessDesc]) -> Answer<()> {
        self.whole_mappings(address, size)?;
        for CUmemAccessDesc { location, flags } in access {
            match location.kind {
                ON_DEVICE => self.device(location.id).map(|_| ())?,
                HOST | NODE => {
                    return self.refuse(NOT_SUPPORTED, "a device's memory that the host uses by itself");
                }
                kind => {
                    return self.refuse(INVALID_VALUE, format_args!("access from a location of type {kind}"));
                }
            }
            match *flags {
                NO_ACCESS | READ_WRITE => {}
                READ => return self.refuse(NOT_SUPPORTED, "access only to read"),
                flags => return self.refuse(INVALID_VALUE, format_args!("access {flags:#x}")),
            }
        }
        for CUmemAccessDesc { location, flags } in access {
            lock().grant(address, size, location.id, *flags == READ_WRITE);
        }
        Ok(())
    }

    pub(super) fn access_at(&mut self, address: u64, location: CUmemLocation) -> Answer<u32> {
        self.ready()?;
        if location.kind != ON_DEVICE {
            return self
                .refuse(INVALID_VALUE, format_args!("access from a location of type {}", location.kind));
        }
        self.device(location.id)?;
        let may = lock().mapped.may_use(address, location.id);
        match may {
            Some(may) => Ok(if may { READ_WRITE } else { NO_ACCESS }),
            None => self.refuse(INVALID_VALUE, format_args!("nothing is mapped at {address:#x}")),
        }
    }

    /// The handle of the memory that is mapped at an address, which then has to be released once more.
    pub(super) fn retain_memory_at(&mut self, address: u64) -> Answer<u64> {
        self.ready()?;
        let found = lock().mapped.place(address).and_then(|place| place.mapping);
        let Some((_, _, handle)) = found else {
            return self.refuse(INVALID_VALUE, format_args!("nothing is mapped at {address:#x}"));
        };
        lock().retain_physical(handle);
        Ok(handle)
    }

    /// A descriptor of the memory, with which this process and others open it.
    pub(super) fn export_memory(&mut self, has_out: bool, handle: u64, kind: u32, flags: u64) -> Answer<i32> {
        self.memory_of(handle)?;
        let found = lock().descriptor_of(handle).filter(|_| has_out && kind == DESCRIPTOR && flags == 0);
        match found {
            Some(Ok(descriptor)) => Ok(descriptor),
            Some(Err(why)) => self.refuse(NOT_SUPPORTED, format_args!("to share memory: {why}")),
            None => {
                let why = format!(
                    "a handle of type {kind} of memory not made for such, flags {flags:#x}, or NULL for it"
                );
                self.refuse(INVALID_VALUE, why)
            }
        }
    }

    pub(super) fn import_memory(&mut self, descriptor: i32, kind: u32) -> Answer<u64> {
        self.ready()?;
        if kind != DESCRIPTOR {
            let status = if [2, 4, 8].contains(&kind) { NOT_SUPPORTED } else { INVALID_VALUE };
            return self.refuse(status, format_args!("to open memory by a handle of type {kind}"));
        }
        match Shared::of_descriptor(Content::Memory, descriptor) {
            Ok(shared) => Ok(lock().open_physical(shared)),
            Err(why) => {
                let is_pool = Shared::of_descriptor(Content::Pool, descriptor).is_ok();
                let status = if is_pool { NOT_SUPPORTED } else { UNKNOWN };
                self.refuse(status, format_args!("the descriptor {descriptor} is not of memory: {why}"))
            }
        }
    }
}
