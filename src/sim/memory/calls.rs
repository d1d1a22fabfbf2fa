//! The calls on pools and on memory in the order of streams.

use super::allocation::Kind;
use super::{key, lock};
use crate::driver::ffi::{CUmemAccessDesc, CUmemLocation, CUmemPoolProps};
use crate::sim::device::TOTAL_MEMORY;
use crate::sim::machine::*;
use crate::sim::stream::{Moment, Stream};
use std::sync::Arc;

const PINNED: u32 = 1;
const MANAGED: u32 = 2;
const FILE_DESCRIPTOR: u32 = 1;
const ON_DEVICE: u32 = 1;
const HOST: u32 = 2;
const NO_ACCESS: u32 = 0;
const READ: u32 = 1;
const READ_WRITE: u32 = 3;

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
        if captures {
            pool.map_or(Ok(()), |pool| self.check_pool(pool))?;
            return self.captured_allocation(stream, size);
        }
        let device = self.healthy(found.context)?.device;
        let pool = pool.unwrap_or_else(|| lock().current_pool(device));
        self.check_pool(pool)?;
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
            return self.do_in_order(stream, &found, Vec::new(), move || {
                lock().ceases_to_be(address);
                moment.comes();
            });
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

    /// The device of a location.
    fn device_at(&mut self, location: CUmemLocation) -> Answer<usize> {
        if location.kind != ON_DEVICE {
            return self.refuse(INVALID_VALUE, format_args!("a location of type {}", location.kind));
        }
        self.device(location.id).map_err(|_| INVALID_DEVICE)
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
        let of_host = properties.location.kind == HOST;
        let device =
            self.device_at(properties.location).or(if of_host { Ok(0) } else { Err(INVALID_VALUE) })?;
        let plain = properties.maxSize == 0 && properties.handleTypes == 0;
        if (properties.allocType == MANAGED || of_host) && !plain {
            return self
                .refuse(INVALID_VALUE, "only a pool of a device's own memory has a most size or handles");
        }
        if properties.maxSize > TOTAL_MEMORY {
            let why = format!("a pool of up to {} bytes, and there are {TOTAL_MEMORY}", properties.maxSize);
            return self.refuse(OUT_OF_MEMORY, why);
        }
        Ok(lock().create_pool(device, properties.maxSize as u64))
    }

    /// Refuses what is no pool; the driver would follow the handle.
    fn check_pool(&mut self, handle: usize) -> Answer<()> {
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
            return self.refuse(INVALID_VALUE, "a device's default pool is not destroyed");
        }
        lock().destroy_pool(handle);
        Ok(())
    }

    pub(super) fn set_pool_attribute(&mut self, handle: usize, attribute: u32, value: u64) -> Answer<()> {
        self.check_pool(handle)?;
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
        lock().trim_pool(handle, keep);
        Ok(())
    }

    pub(super) fn set_pool_access(&mut self, handle: usize, access: &[CUmemAccessDesc]) -> Answer<()> {
        self.check_pool(handle)?;
        for grant in access {
            if grant.location.kind != ON_DEVICE {
                return self
                    .refuse(NOT_SUPPORTED, format_args!("a location of type {}", grant.location.kind));
            }
            let device = self.device(grant.location.id)?;
            let own = lock().pool(handle).is_some_and(|pool| pool.device == device);
            let refused = match grant.flags {
                READ_WRITE => None,
                READ => own.then_some(NOT_SUPPORTED),
                NO_ACCESS => own.then_some(INVALID_DEVICE),
                _ => Some(INVALID_VALUE),
            };
            if let Some(status) = refused {
                return self.refuse(status, format_args!("access {} of device {device}", grant.flags));
            }
            if let Some(pool) = lock().pool(handle) {
                pool.access.insert(device, grant.flags);
            }
        }
        Ok(())
    }

    pub(super) fn pool_access(&mut self, handle: usize, location: CUmemLocation) -> Answer<u32> {
        self.check_pool(handle)?;
        let device = self.device_at(location).map_err(|_| INVALID_VALUE)?;
        let found = lock().pool(handle).map(|pool| {
            let own = if pool.device == device { READ_WRITE } else { NO_ACCESS };
            pool.access.get(&device).copied().unwrap_or(own)
        });
        found.ok_or(INVALID_VALUE)
    }
}
