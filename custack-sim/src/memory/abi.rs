//! The C ABI of the memory chapter, arrays included.

// C functions that read and write through the pointers that they get.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

mod copied;
mod interprocess;
mod mapping;
mod places;
mod pointer;
mod unified;

pub(crate) use interprocess::*;
pub(crate) use mapping::*;
pub(crate) use places::*;
pub(crate) use pointer::*;
pub(crate) use unified::*;

use super::copies::{self, End};
use super::host::is_there;
use super::rows;
use super::{HostMemory, Kind, lock};
use crate::abi::{c_abi, call, give, give_first, put, wait_for_current_work, wait_for_work};
use crate::device::TOTAL_MEMORY;
use crate::machine::*;
use crate::stream::in_host_function;
use custack_sys::ffi::*;
use std::os::raw::{c_int, c_uint, c_void};

/// What is not allocated is at no address.
///
/// # Safety
///
/// As for `cuMemAlloc`: `out` is NULL or valid for a write.
unsafe fn put_unless_host_function(out: *mut CUdeviceptr) {
    if !in_host_function() {
        // SAFETY: as the caller guarantees.
        unsafe { put(out, 0) };
    }
}

/// # Safety
///
/// As for `cuMemAlloc`: `out` is NULL or valid for a write.
unsafe fn allocate(out: *mut CUdeviceptr, size: usize, kind: Kind, flags: u32) -> CUresult {
    // SAFETY: as the caller guarantees.
    unsafe {
        put_unless_host_function(out);
        give(out, |m| {
            let managed = kind == Kind::Managed;
            let flags_fit = if managed { (1..=2).contains(&flags) } else { flags == 0 };
            let fits = !out.is_null() && size != 0 && flags_fit;
            let check = |m: &mut Machine| match fits {
                true => Ok(()),
                false => {
                    m.refuse(INVALID_VALUE, format_args!("{size} bytes of memory, with flags {flags:#x}"))
                }
            };
            // The arguments are checked first for managed memory, and last for other memory.
            if managed {
                check(m)?;
            }
            let context = m.healthy_current()?;
            m.may_wait()?;
            check(m)?;
            match lock().allocate(kind, context, size) {
                Some(address) => Ok(address),
                None => m.refuse(OUT_OF_MEMORY, format_args!("there are no {size} bytes left")),
            }
        })
    }
}

fn free(address: u64, kinds: &[Kind]) -> CUresult {
    let of_pool = || lock().user_of(address).filter(|_| kinds.contains(&Kind::Device));
    // The driver frees memory when earlier work is done, but for memory of a pool, which the program has to wait for.
    if of_pool().is_none() {
        wait_for_current_work();
    }
    call(|m| {
        if let Some(owner) = of_pool() {
            // It may be used and freed when the context in whose stream it was allocated is gone.
            match m.healthy(owner) {
                Err(CONTEXT_IS_DESTROYED) | Ok(_) => {}
                Err(status) => return Err(status),
            }
            lock().free_at_once(address);
            return Ok(());
        }
        let owner = lock().owner(address, kinds);
        let Some(owner) = owner else {
            m.ready()?;
            if kinds.contains(&Kind::Locked) {
                m.healthy_current()?;
                return m.refuse(INVALID_VALUE, format_args!("no page-locked memory begins at {address:#x}"));
            }
            return m.refuse(INVALID_VALUE, format_args!("no memory begins at {address:#x}"));
        };
        m.healthy(owner)?;
        lock().free(address);
        Ok(())
    })
}

/// Rows may be aligned to this.
const PITCH: usize = 512;
/// `CU_MEMHOSTREGISTER_READ_ONLY`
const READ_ONLY: c_uint = 8;
/// A switch of a pool has 4 bytes, and a number of bytes has 8.
fn is_switch(attribute: c_uint) -> bool {
    (1..=3).contains(&attribute)
}

const DEVICE: &[Kind] = &[Kind::Device, Kind::Managed, Kind::Graph];

c_abi! {
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        call(|m| {
            m.healthy_current()?;
            let left = lock().left();
            put(free, left as usize);
            put(total, TOTAL_MEMORY);
            Ok(())
        })
    }
    fn cuMemAlloc_v2(address: *mut CUdeviceptr, size: usize) { allocate(address, size, Kind::Device, 0) }
    fn cuMemFree_v2(address: CUdeviceptr) {
        if address == 0 {
            return call(|m| m.ready());
        }
        free(address, DEVICE)
    }
    fn cuMemAllocManaged(address: *mut CUdeviceptr, size: usize, flags: c_uint) {
        allocate(address, size, Kind::Managed, flags)
    }
    fn cuMemAllocHost_v2(memory: *mut *mut c_void, size: usize) {
        allocate(memory.cast::<CUdeviceptr>(), size, Kind::Locked, 0)
    }
    fn cuMemFreeHost(memory: *mut c_void) { free(memory.addr() as u64, &[Kind::Locked]) }
    fn cuMemAllocPitch_v2(address: *mut CUdeviceptr, pitch: *mut usize, width: usize, height: usize, element: c_uint) {
        give(address, |m| {
            let context = m.healthy_current()?;
            let row = width.checked_next_multiple_of(PITCH);
            let size = row.and_then(|row| row.checked_mul(height)).filter(|size| *size > 0);
            if address.is_null() || pitch.is_null() || size.is_none() || ![4, 8, 16].contains(&element) {
                return m.refuse(
                    INVALID_VALUE,
                    format_args!("{height} rows of {width} bytes, in elements of {element}, or no pointer"),
                );
            }
            let got = size.and_then(|size| lock().allocate(Kind::Device, context, size));
            let Some(got) = got else {
                return m.refuse(OUT_OF_MEMORY, format_args!("there is no room for {height} rows of {width} bytes"));
            };
            pitch.write(row.unwrap_or(0));
            Ok(got)
        })
    }
    fn cuMemHostAlloc(memory: *mut *mut c_void, size: usize, flags: c_uint) {
        if flags & !7 != 0 {
            return call(|m| {
                m.healthy_current()?;
                m.refuse(INVALID_VALUE, format_args!("{flags:#x} are no flags of page-locked memory"))
            });
        }
        let status = allocate(memory.cast::<CUdeviceptr>(), size, Kind::Locked, 0);
        if status == CUDA_SUCCESS {
            lock().set_flags(memory.read().addr() as u64, flags);
        }
        status
    }
    fn cuMemHostGetDevicePointer_v2(address: *mut CUdeviceptr, memory: *mut c_void, flags: c_uint) {
        give_first(address, |m| {
            m.healthy_current()?;
            let found = lock().flags_of(memory.addr());
            if flags != 0 || found.is_none() {
                return m.refuse(INVALID_VALUE, format_args!("{memory:p} is no page-locked memory"));
            }
            Ok(memory.addr() as u64)
        })
    }
    fn cuMemHostGetFlags(flags: *mut c_uint, memory: *mut c_void) {
        give_first(flags, |m| {
            m.healthy_current()?;
            match lock().flags_of(memory.addr()) {
                // All page-locked memory is mapped, as addresses are unified.
                Some(flags) => Ok(flags | 2),
                None => m.refuse(INVALID_VALUE, format_args!("{memory:p} is no page-locked memory")),
            }
        })
    }
    fn cuMemHostRegister_v2(memory: *mut c_void, size: usize, flags: c_uint) {
        call(|m| {
            let context = m.healthy_current()?;
            if memory.is_null() || size == 0 || flags & !0xB != 0 {
                return m.refuse(
                    INVALID_VALUE,
                    format_args!("to register {size} bytes at {memory:p}, with flags {flags:#x}"),
                );
            }
            let Some(end) = memory.addr().checked_add(size) else {
                let why = format!("to register {size} bytes at {memory:p}, which is more than there can be");
                return m.refuse(INVALID_VALUE, why);
            };
            let is_there = is_there(memory.addr(), end, flags & READ_ONLY == 0);
            match lock().register(context, memory.addr()..end, flags & 1, is_there) {
                None if !is_there => {
                    let why = format!("to register {size} bytes at {memory:p}, where the program has no memory that the device may write, or read only");
                    m.refuse(INVALID_VALUE, why)
                }
                None => Ok(()),
                Some(kind) => {
                    let why = format!("a part of the {size} bytes at {memory:p} is page-locked or managed already");
                    let registered = kind == Kind::Registered;
                    m.refuse(if registered { HOST_MEMORY_ALREADY_REGISTERED } else { INVALID_VALUE }, why)
                }
            }
        })
    }
    fn cuMemHostUnregister(memory: *mut c_void) {
        wait_for_current_work();
        call(|m| {
            let owner = lock().owner(memory.addr() as u64, &[Kind::Registered]);
            let Some(owner) = owner else {
                m.ready()?;
                let why = format!("no memory that begins at {memory:p} was registered");
                let is_locked = memory.is_null() || lock().is_locked(memory.addr());
                return m.refuse(if is_locked { INVALID_VALUE } else { HOST_MEMORY_NOT_REGISTERED }, why);
            };
            m.healthy(owner)?;
            lock().free(memory.addr() as u64);
            Ok(())
        })
    }
    fn cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, size: usize) {
        copies::copy(End::Device(to), End::Host(HostMemory::new(from.addr(), size)), size, None)
    }
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, size: usize) {
        copies::copy(End::Host(HostMemory::new(to.addr(), size)), End::Device(from), size, None)
    }
    fn cuMemcpyDtoD_v2(to: CUdeviceptr, from: CUdeviceptr, size: usize) {
        copies::copy(End::Device(to), End::Device(from), size, None)
    }
    fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, size: usize, stream: CUstream) {
        copies::copy(End::Device(to), End::Host(HostMemory::new(from.addr(), size)), size, Some(stream.addr()))
    }
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, size: usize, stream: CUstream) {
        copies::copy(End::Host(HostMemory::new(to.addr(), size)), End::Device(from), size, Some(stream.addr()))
    }
    fn cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, size: usize, stream: CUstream) {
        copies::copy(End::Device(to), End::Device(from), size, Some(stream.addr()))
    }
    fn cuMemcpyPeer(to: CUdeviceptr, to_context: CUcontext, from: CUdeviceptr, from_context: CUcontext, size: usize) {
        copies::copy_peer((to, to_context.addr()), (from, from_context.addr()), size, None)
    }
    fn cuMemcpyPeerAsync(to: CUdeviceptr, to_context: CUcontext, from: CUdeviceptr, from_context: CUcontext, size: usize, stream: CUstream) {
        copies::copy_peer((to, to_context.addr()), (from, from_context.addr()), size, Some(stream.addr()))
    }
    fn cuMemcpy2D_v2(copy: *const CUDA_MEMCPY2D) { copied::copy_rows(copy, None) }
    fn cuMemcpy2DUnaligned_v2(copy: *const CUDA_MEMCPY2D) { copied::copy_rows(copy, None) }
    fn cuMemcpy2DAsync_v2(copy: *const CUDA_MEMCPY2D, stream: CUstream) {
        copied::copy_rows(copy, Some(stream.addr()))
    }
    fn cuMemcpy3D_v2(copy: *const CUDA_MEMCPY3D) { copied::copy_slices(copy, None) }
    fn cuMemcpy3DAsync_v2(copy: *const CUDA_MEMCPY3D, stream: CUstream) {
        copied::copy_slices(copy, Some(stream.addr()))
    }
    fn cuMemsetD8_v2(to: CUdeviceptr, byte: u8, size: usize) { copies::fill(to, &byte.to_ne_bytes(), size, None) }
    fn cuMemsetD8Async(to: CUdeviceptr, byte: u8, size: usize, stream: CUstream) {
        copies::fill(to, &byte.to_ne_bytes(), size, Some(stream.addr()))
    }
    fn cuMemsetD2D8_v2(to: CUdeviceptr, pitch: usize, byte: u8, width: usize, height: usize) {
        rows::fill_rows((to, pitch), &byte.to_ne_bytes(), (width, height), None)
    }
    fn cuMemsetD2D8Async(to: CUdeviceptr, pitch: usize, byte: u8, width: usize, height: usize, stream: CUstream) {
        rows::fill_rows((to, pitch), &byte.to_ne_bytes(), (width, height), Some(stream.addr()))
    }
    fn cuMemsetD16_v2(to: CUdeviceptr, value: u16, count: usize) { copies::fill(to, &value.to_ne_bytes(), count, None) }
    fn cuMemsetD16Async(to: CUdeviceptr, value: u16, count: usize, stream: CUstream) {
        copies::fill(to, &value.to_ne_bytes(), count, Some(stream.addr()))
    }
    fn cuMemsetD2D16_v2(to: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize) {
        rows::fill_rows((to, pitch), &value.to_ne_bytes(), (width, height), None)
    }
    fn cuMemsetD2D16Async(to: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize, stream: CUstream) {
        rows::fill_rows((to, pitch), &value.to_ne_bytes(), (width, height), Some(stream.addr()))
    }
    fn cuMemsetD32_v2(to: CUdeviceptr, value: c_uint, count: usize) { copies::fill(to, &value.to_ne_bytes(), count, None) }
    fn cuMemsetD32Async(to: CUdeviceptr, value: c_uint, count: usize, stream: CUstream) {
        copies::fill(to, &value.to_ne_bytes(), count, Some(stream.addr()))
    }
    fn cuMemsetD2D32_v2(to: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize) {
        rows::fill_rows((to, pitch), &value.to_ne_bytes(), (width, height), None)
    }
    fn cuMemsetD2D32Async(to: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize, stream: CUstream) {
        rows::fill_rows((to, pitch), &value.to_ne_bytes(), (width, height), Some(stream.addr()))
    }
    fn cuMemAllocAsync(address: *mut CUdeviceptr, size: usize, stream: CUstream) {
        put_unless_host_function(address);
        give(address, |m| m.allocate_in_order(!address.is_null(), size, None, stream.addr()))
    }
    fn cuMemAllocFromPoolAsync(address: *mut CUdeviceptr, size: usize, pool: CUmemoryPool, stream: CUstream) {
        put_unless_host_function(address);
        give(address, |m| m.allocate_in_order(!address.is_null(), size, Some(pool.addr()), stream.addr()))
    }
    fn cuMemFreeAsync(address: CUdeviceptr, stream: CUstream) { call(|m| m.free_in_order(address, stream.addr())) }
    fn cuMemPoolCreate(pool: *mut CUmemoryPool, properties: *const CUmemPoolProps) {
        give_first(pool, |m| {
            if properties.is_null() {
                return m.refuse(INVALID_VALUE, "a pool needs properties, and got NULL");
            }
            m.create_pool(&properties.read()).map(|handle| handle as CUmemoryPool)
        })
    }
    fn cuMemPoolDestroy(pool: CUmemoryPool) { call(|m| m.destroy_pool(pool.addr())) }
    fn cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: c_uint, value: *mut c_void) {
        call(|m| {
            if value.is_null() {
                return m.refuse(INVALID_VALUE, "the attribute needs a value, and got NULL");
            }
            let value = if is_switch(attribute) {
                value.cast::<c_int>().read() as u32 as u64
            } else {
                value.cast::<u64>().read()
            };
            m.set_pool_attribute(pool.addr(), attribute, value)
        })
    }
    fn cuMemPoolGetAttribute(pool: CUmemoryPool, attribute: c_uint, value: *mut c_void) {
        call(|m| {
            if value.is_null() {
                return m.refuse(INVALID_VALUE, "the answer needs a pointer, and got NULL");
            }
            let found = m.pool_attribute(pool.addr(), attribute)?;
            if is_switch(attribute) {
                value.cast::<c_int>().write(found as c_int);
            } else {
                value.cast::<u64>().write(found);
            }
            Ok(())
        })
    }
    fn cuMemPoolTrimTo(pool: CUmemoryPool, bytes: usize) { call(|m| m.trim_pool(pool.addr(), bytes as u64)) }
    fn cuMemPoolSetAccess(pool: CUmemoryPool, access: *const CUmemAccessDesc, count: usize) {
        call(|m| {
            if access.is_null() {
                return m.refuse(INVALID_VALUE, "whom to grant access is needed, and got NULL");
            }
            m.set_pool_access(pool.addr(), std::slice::from_raw_parts(access, count))
        })
    }
    fn cuMemPoolGetAccess(flags: *mut c_uint, pool: CUmemoryPool, location: *mut CUmemLocation) {
        give_first(flags, |m| {
            if location.is_null() {
                return m.refuse(INVALID_VALUE, "access is from somewhere, and got NULL");
            }
            m.pool_access(pool.addr(), location.read())
        })
    }
    fn cuArray3DCreate_v2(array: *mut CUarray, descriptor: *const CUDA_ARRAY3D_DESCRIPTOR) {
        give(array, |m| {
            if descriptor.is_null() {
                return m.refuse(INVALID_VALUE, "the descriptor of the array is NULL");
            }
            m.create_array(!array.is_null(), descriptor.read()).map(|handle| handle as CUarray)
        })
    }
    fn cuArray3DGetDescriptor_v2(descriptor: *mut CUDA_ARRAY3D_DESCRIPTOR, array: CUarray) {
        give_first(descriptor, |m| m.array(array.addr()).map(|array| array.descriptor))
    }
    fn cuArrayDestroy(array: CUarray) {
        // As for memory, earlier work is done first.
        let context = crate::machine::lock().context_of_array(array.addr());
        wait_for_work(context);
        call(|m| m.destroy_array(array.addr()))
    }
}
