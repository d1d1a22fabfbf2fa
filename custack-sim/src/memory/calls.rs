//! The calls on pools and on memory in the order of streams.

use super::allocation::Kind;
use super::pool::{Made, NO_ACCESS, Place, READ_WRITE};
use super::{key, lock};
use crate::machine::*;
use crate::stream::{Moment, Stream};
use custack_sys::ffi::{CUmemAccessDesc, CUmemLocation, CUmemPoolProps};
use std::sync::Arc;

const PINNED: u32 = 1;
const MANAGED: u32 = 2;
const FILE_DESCRIPTOR: u32 = 1;
const NOWHERE: u32 = 0;
const ON_DEVICE: u32 = 1;
const HOST: u32 = 2;
const NODE: u32 = 3;
const READ: u32 = 1;
/// An H200 accepts a limit of 2^40 bytes, which is more than it has, and refuses this.
const TOO_LARGE: usize = 1 << 50;

/// Memory of a pool that is free when this is dropped, as it is when the stream gets there, and also when the stream's
/// context has ended before: the pool lives on, and who gets the memory next waits for this.
struct Leaving {
    address: u64,
    moment: Arc<Moment>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        lock().ceases_to_be(self.address);
        self.moment.comes();
    }
}

impl Machine {
    /// Does this in the order of the stream, or now if the stream is idle.
    fn do_in_order(
        &mut self,
        handle: usize,
        stream: &Stream,
        waits: Vec<Arc<Moment>>,
        work: impl FnOnce() + Send + 'static,
    ) -> Answer<()> {
        let waits: Vec<_> = waits.into_iter().filter(|moment| moment.time().is_none()).collect();
        if waits.is_empty() && stream.queue.is_idle() && self.comes_after(handle, stream).is_empty() {
            work();
            return Ok(());
        }
        self.enqueue(handle, stream, move || {
            waits.iter().for_each(|moment| moment.wait());
            work();
            Ok(())
        })
    }

    pub(super) fn allocate_in_order(
        &mut self,
        has_out: bool,
        size: usize,
        pool: Option<usize>,
        stream: usize,
    ) -> Answer<u64> {
        let found = self.stream_of(stream)?;
        let captures = self.capturing(stream)?;
        if !captures {
            self.may_wait()?;
        }
        if !has_out {
            return self.refuse(INVALID_VALUE, "an allocation needs a pointer for its address, and got NULL");
        }
        let device = self.healthy(found.context)?.device;
        let pool = pool.unwrap_or_else(|| lock().current_pool(device));
        self.check_pool(pool)?;
        self.is_no_opened_pool(pool)?;
        if captures {
            let (fits, nowhere) = lock()
                .pool(pool)
                .map_or((false, false), |pool| (pool.made.is_for_graphs(), pool.made.is_nowhere()));
            if size > 0 && nowhere {
                return self.refuse(INVALID_VALUE, "graphs allocate no managed memory that is at no place");
            }
            if size > 0 && !fits {
                return self
                    .refuse(NOT_SUPPORTED, "graphs allocate memory of a device, and share it with none");
            }
            return self.captured_allocation(stream, size);
        }
        if size == 0 {
            return Ok(0);
        }
        let got = lock().allocate_in(pool, size, found.context, key(&found));
        match got {
            Ok((at, waits)) => {
                self.do_in_order(stream, &found, waits, move || lock().comes_to_be(at, size))?;
                Ok(at)
            }
            Err(why) => self.refuse(OUT_OF_MEMORY, why),
        }
    }

    pub(super) fn free_in_order(&mut self, address: u64, stream: usize) -> Answer<()> {
        let found = self.stream_of(stream)?;
        if self.capturing(stream)? {
            return self.captured_free(stream, address);
        }
        self.may_wait()?;
        if address == 0 {
            return Ok(());
        }
        if lock().is_of_graph(address) {
            lock().free_of_graph(address);
            return self.do_in_order(stream, &found, Vec::new(), move || lock().gone_of_graph(address));
        }
        let of_pool = lock().user_of(address).is_some();
        if of_pool {
            let moment = Arc::new(Moment::default());
            let mut memory = lock();
            let freed = memory.order.free(key(&found), Arc::clone(&moment));
            memory.free_in(address, Some(freed));
            drop(memory);
            let leaving = Leaving { address, moment };
            return self.do_in_order(stream, &found, Vec::new(), move || drop(leaving));
        }
        let is_managed = lock().owner(address, &[Kind::Managed]).is_some();
        if is_managed {
            return self.refuse(NOT_SUPPORTED, "managed memory is not freed in the order of a stream");
        }
        if lock().owner(address, &[Kind::Device]).is_none() {
            return self.refuse(INVALID_VALUE, format_args!("no memory begins at {address:#x}"));
        }
        self.do_in_order(stream, &found, Vec::new(), move || lock().free(address))
    }

    /// Where this location is.
    fn place_at(&mut self, location: CUmemLocation) -> Answer<Place> {
        match location.kind {
            ON_DEVICE => self.device(location.id).map(Place::Device).map_err(|_| INVALID_DEVICE),
            HOST => Ok(Place::Host),
            kind => self.refuse(INVALID_VALUE, format_args!("a location of type {kind}")),
        }
    }

    /// Where a pool may have its memory.
    fn place_of_pool(&mut self, location: CUmemLocation, managed: bool) -> Answer<Place> {
        match location.kind {
            NOWHERE if managed => Ok(Place::Anywhere),
            NODE if location.id == 0 => Ok(Place::Node),
            NODE => self.refuse(INVALID_VALUE, format_args!("there is no NUMA node {}", location.id)),
            kind if managed && kind > NODE => {
                self.refuse(NOT_SUPPORTED, format_args!("managed memory at a location of type {kind}"))
            }
            _ => self.place_at(location).map_err(|_| INVALID_VALUE),
        }
    }

    /// The place of which a call names the pool, and whether that has managed memory.
    pub(super) fn place_asked(
        &mut self,
        location: Option<CUmemLocation>,
        kind: u32,
    ) -> Answer<(Place, bool)> {
        self.ready()?;
        let Some(location) = location else {
            return self.refuse(INVALID_VALUE, "the location of a pool is NULL");
        };
        if location.kind > NODE {
            return self.refuse(NOT_SUPPORTED, format_args!("a location of type {}", location.kind));
        }
        if !matches!(kind, PINNED | MANAGED) {
            return self.refuse(INVALID_VALUE, format_args!("a pool of memory of type {kind}"));
        }
        let managed = kind == MANAGED;
        Ok((self.place_of_pool(location, managed)?, managed))
    }

    pub(super) fn set_pool_of(&mut self, (place, managed): (Place, bool), handle: usize) -> Answer<()> {
        self.check_pool(handle)?;
        let fits = lock().set_current_at(place, managed, handle);
        if !fits {
            return self.refuse(INVALID_VALUE, "not a memory pool of this place and this type of memory");
        }
        Ok(())
    }

    pub(super) fn create_pool(&mut self, properties: &CUmemPoolProps) -> Answer<usize> {
        self.ready()?;
        let unknown = properties.handleTypes & !FILE_DESCRIPTOR != 0;
        if !matches!(properties.allocType, PINNED | MANAGED)
            || unknown
            || properties.reserved.iter().any(|byte| *byte != 0)
        {
            return self.refuse(INVALID_VALUE, format_args!("a pool of {properties:?}"));
        }
        let (managed, shared) = (properties.allocType == MANAGED, properties.handleTypes != 0);
        // This is said before that a location is of no type at all.
        if managed && (properties.maxSize != 0 || shared) {
            return self.refuse(INVALID_VALUE, "managed memory is not shared, and not limited by a pool");
        }
        let place = self.place_of_pool(properties.location, managed)?;
        if shared && place == Place::Host {
            return self.refuse(INVALID_VALUE, "only memory of a device or of a NUMA node is shared");
        }
        if properties.maxSize >= TOO_LARGE {
            let why =
                format!("a pool of up to {} bytes; a limit is less than {TOO_LARGE}", properties.maxSize);
            return self.refuse(OUT_OF_MEMORY, why);
        }
        Ok(lock().create_pool(Made { place, managed, shared, most: properties.maxSize as u64 }))
    }

    /// Refuses what is no pool; the driver would follow the handle.
    pub(super) fn check_pool(&mut self, handle: usize) -> Answer<()> {
        self.ready()?;
        if handle == 0 {
            return self.refuse(INVALID_VALUE, "the pool is NULL");
        }
        let is_pool = lock().pool(handle).is_some();
        if is_pool {
            return Ok(());
        }
        let was_pool = lock().was_pool(handle);
        if was_pool {
            return self.refuse(INVALID_VALUE, format_args!("the memory pool {handle:#x} was destroyed"));
        }
        self.misuse(INVALID_VALUE, format_args!("{handle:#x} is no memory pool"))
    }

    pub(super) fn destroy_pool(&mut self, handle: usize) -> Answer<()> {
        self.check_pool(handle)?;
        let is_default = lock().is_default(handle);
        if is_default {
            return self.refuse(INVALID_VALUE, "a default pool is not destroyed");
        }
        let is_used = lock().pool(handle).is_some_and(|pool| pool.opened.is_some() && pool.used > 0);
        if is_used {
            return self.refuse(INVALID_VALUE, "memory is open in a pool of another process");
        }
        lock().destroy_pool(handle);
        Ok(())
    }

    /// Refuses a pool that was opened: only memory is opened in it.
    fn is_no_opened_pool(&mut self, handle: usize) -> Answer<()> {
        let is_opened = lock().pool(handle).is_some_and(|pool| pool.opened.is_some());
        if is_opened {
            return self.refuse(INVALID_VALUE, "memory is only opened in a pool of another process");
        }
        Ok(())
    }

    pub(super) fn set_pool_attribute(&mut self, handle: usize, attribute: u32, value: u64) -> Answer<()> {
        self.check_pool(handle)?;
        self.is_no_opened_pool(handle)?;
        let mut memory = lock();
        let Some(pool) = memory.pool(handle) else { return Err(INVALID_VALUE) };
        match attribute {
            1..=3 => pool.reuse[attribute as usize - 1] = i32::from(value != 0),
            4 => pool.threshold = value,
            6 if value == 0 => pool.reserved_high = pool.reserved,
            8 if value == 0 => pool.used_high = pool.used,
            _ => {
                drop(memory);
                return self
                    .refuse(INVALID_VALUE, format_args!("attribute {attribute} of a pool, to {value}"));
            }
        }
        Ok(())
    }

    pub(super) fn pool_attribute(&mut self, handle: usize, attribute: u32) -> Answer<u64> {
        self.check_pool(handle)?;
        self.is_no_opened_pool(handle)?;
        let mut memory = lock();
        let Some(pool) = memory.pool(handle) else { return Err(INVALID_VALUE) };
        Ok(match attribute {
            1..=3 => pool.reuse[attribute as usize - 1] as u64,
            4 => pool.threshold,
            5 => pool.reserved,
            6 => pool.reserved_high,
            7 => pool.used,
            8 => pool.used_high,
            _ => {
                drop(memory);
                return self.refuse(INVALID_VALUE, format_args!("attribute {attribute} of a pool"));
            }
        })
    }

    pub(super) fn trim_pool(&mut self, handle: usize, keep: u64) -> Answer<()> {
        self.check_pool(handle)?;
        self.is_no_opened_pool(handle)?;
        lock().trim_pool(handle, keep);
        Ok(())
    }

    pub(super) fn set_pool_access(&mut self, handle: usize, access: &[CUmemAccessDesc]) -> Answer<()> {
        self.check_pool(handle)?;
        let Some(made) = lock().pool(handle).map(|pool| pool.made) else { return Err(INVALID_VALUE) };
        let of_device = matches!(made.own_place(), Some(Place::Device(_)));
        for grant in access {
            let kind = grant.location.kind;
            if of_device && kind != ON_DEVICE {
                return self.refuse(NOT_SUPPORTED, format_args!("a location of type {kind}"));
            }
            if grant.flags == READ {
                return self.refuse(NOT_SUPPORTED, "access only to read");
            }
            // A NUMA node of the host is the host.
            let place = match (kind, grant.location.id) {
                (NODE, 0) => Place::Host,
                _ => self.place_at(grant.location)?,
            };
            let refused = match (grant.flags, made.own_place()) {
                (READ_WRITE, _) => None,
                (NO_ACCESS, Some(own)) if own == place && of_device => Some(INVALID_DEVICE),
                (NO_ACCESS, Some(_)) if place == Place::Host => Some(NOT_SUPPORTED),
                (NO_ACCESS, _) => None,
                _ => Some(INVALID_VALUE),
            };
            if let Some(status) = refused {
                return self.refuse(status, format_args!("access {} of {place:?}", grant.flags));
            }
            if let Some(pool) = lock().pool(handle) {
                pool.grant(place, grant.flags);
            }
        }
        Ok(())
    }

    pub(super) fn pool_access(&mut self, handle: usize, location: CUmemLocation) -> Answer<u32> {
        self.check_pool(handle)?;
        let place = self.place_at(location).map_err(|_| INVALID_VALUE)?;
        lock().pool(handle).map(|pool| pool.access_of(place)).ok_or(INVALID_VALUE)
    }
}
