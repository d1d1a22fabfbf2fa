//! The C functions of places that have memory: those that advise about managed memory and tell what was advised, and
//! those of the places' pools.

// C functions that read and write through the pointers that they get.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::abi::{c_abi, call, give_first};
use crate::machine::*;
use crate::memory::lock;
use crate::memory::managed::Location;
use crate::memory::pools::default_at;
use custack_sys::ffi::*;
use std::os::raw::{c_int, c_uint, c_void};

c_abi! {
    fn cuMemGetDefaultMemPool(pool: *mut CUmemoryPool, location: *mut CUmemLocation, kind: c_uint) {
        give_first(pool, |m| {
            let (place, managed) = m.place_asked(location.as_ref().copied(), kind)?;
            Ok(default_at(place, managed) as CUmemoryPool)
        })
    }
    fn cuMemGetMemPool(pool: *mut CUmemoryPool, location: *mut CUmemLocation, kind: c_uint) {
        give_first(pool, |m| {
            let (place, managed) = m.place_asked(location.as_ref().copied(), kind)?;
            Ok(lock().current_at(place, managed) as CUmemoryPool)
        })
    }
    fn cuMemSetMemPool(location: *mut CUmemLocation, kind: c_uint, pool: CUmemoryPool) {
        call(|m| {
            m.ready()?;
            m.may_wait()?;
            if pool.is_null() {
                return m.refuse(INVALID_VALUE, "the pool is NULL");
            }
            let asked = m.place_asked(location.as_ref().copied(), kind)?;
            m.set_pool_of(asked, pool.addr())
        })
    }
    fn cuMemPrefetchAsync(address: CUdeviceptr, size: usize, device: CUdevice, stream: CUstream) {
        call(|m| {
            let to = Location::of_device(device);
            m.may_prefetch((address, size), to, stream.addr())?;
            m.prefetch((address, size), to, 0, stream.addr())
        })
    }
    fn cuMemPrefetchAsync_v2(address: CUdeviceptr, size: usize, location: CUmemLocation, flags: c_uint, stream: CUstream) {
        call(|m| m.prefetch((address, size), Location::new(location.kind, location.id), flags, stream.addr()))
    }
    fn cuMemAdvise(address: CUdeviceptr, size: usize, advice: c_uint, device: CUdevice) {
        call(|m| {
            let at = Location::of_device(device);
            m.may_advise((address, size), advice, at)?;
            m.advise((address, size), advice, at)
        })
    }
    fn cuMemAdvise_v2(address: CUdeviceptr, size: usize, advice: c_uint, location: CUmemLocation) {
        call(|m| {
            let advised = m.advise((address, size), advice, Location::new(location.kind, location.id));
            // The older function has a status of its own for devices that there are not.
            advised.map_err(|status| if status == INVALID_DEVICE { INVALID_VALUE } else { status })
        })
    }
    fn cuMemRangeGetAttribute(data: *mut c_void, room: usize, attribute: c_uint, address: CUdeviceptr, size: usize) {
        call(|m| {
            m.ready()?;
            if data.is_null() {
                return m.refuse(INVALID_VALUE, "the pointer for the attribute is NULL");
            }
            let numbers = m.range_attribute((address, size), attribute, room)?;
            numbers.iter().enumerate().for_each(|(at, number)| data.cast::<c_int>().add(at).write(*number));
            Ok(())
        })
    }
    fn cuMemRangeGetAttributes(data: *mut *mut c_void, rooms: *mut usize, attributes: *mut c_uint, count: usize, address: CUdeviceptr, size: usize) {
        call(|m| {
            m.ready()?;
            if data.is_null() || rooms.is_null() || attributes.is_null() || count == 0 {
                return m.refuse(INVALID_VALUE, format_args!("{count} attributes of managed memory, or NULL"));
            }
            let mut answers = Vec::new();
            for at in 0..count {
                let (to, room, attribute) = (data.add(at).read(), rooms.add(at).read(), attributes.add(at).read());
                if to.is_null() {
                    return m.refuse(INVALID_VALUE, "a pointer for an attribute is NULL");
                }
                answers.push((to, m.range_attribute((address, size), attribute, room)?));
            }
            for (to, numbers) in answers {
                numbers.iter().enumerate().for_each(|(at, number)| to.cast::<c_int>().add(at).write(*number));
            }
            Ok(())
        })
    }
    fn cuStreamAttachMemAsync(stream: CUstream, address: CUdeviceptr, size: usize, flags: c_uint) {
        call(|m| m.attach_memory(stream.addr(), address, size, flags))
    }
}
