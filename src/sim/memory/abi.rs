//! The C ABI of the memory chapter, arrays included.

// C functions that read and write through the pointers they are given.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::copies::{self, End};
use super::{HostMemory, Kind, lock};
use crate::driver::ffi::*;
use crate::sim::abi::{c_abi, call, give, give_first, put, wait_for_current_work};
use crate::sim::device::TOTAL_MEMORY;
use crate::sim::machine::{INVALID_VALUE, OUT_OF_MEMORY};
use std::os::raw::{c_uint, c_void};

/// # Safety
///
/// As `cuMemAlloc`'s: `out` is NULL or may be written.
unsafe fn allocate(out: *mut CUdeviceptr, size: usize, kind: Kind, flags: u32) -> CUresult {
    // SAFETY: the caller guarantees it.
    unsafe {
        give(out, |m| {
            let context = m.healthy_current()?;
            let flags_fit = if kind == Kind::Managed { (1..=2).contains(&flags) } else { flags == 0 };
            if out.is_null() || size == 0 || !flags_fit {
                return m
                    .refuse(INVALID_VALUE, format_args!("{size} bytes of memory, with flags {flags:#x}"));
            }
            match lock().allocate(kind, context, size) {
                Some(address) => Ok(address),
                None => m.refuse(OUT_OF_MEMORY, format_args!("there are no {size} bytes left")),
            }
        })
    }
}

fn free(address: u64, kinds: &[Kind]) -> CUresult {
    // The driver frees when the work before is done.
    wait_for_current_work();
    call(|m| {
        let owner = lock().owner(address, kinds);
        let Some(owner) = owner else {
            m.healthy_current()?;
            let kinds = if kinds.contains(&Kind::Locked) { "page-locked memory" } else { "memory" };
            return m.refuse(INVALID_VALUE, format_args!("no {kinds} begins at {address:#x}"));
        };
        m.healthy(owner)?;
        lock().free(address);
        Ok(())
    })
}

const DEVICE: &[Kind] = &[Kind::Device, Kind::Managed, Kind::Graph];

c_abi! {
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        call(|m| {
            m.healthy_current()?;
            let used = lock().used();
            put(free, TOTAL_MEMORY - used);
            put(total, TOTAL_MEMORY);
            Ok(())
        })
    }
    fn cuMemAlloc_v2(address: *mut CUdeviceptr, size: usize) { allocate(address, size, Kind::Device, 0) }
    fn cuMemFree_v2(address: CUdeviceptr) {
        if address == 0 {
            return call(|m| m.healthy_current().map(|_| ()));
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
    fn cuMemsetD8_v2(to: CUdeviceptr, byte: u8, size: usize) { copies::fill(to, byte, size, None) }
    fn cuMemsetD8Async(to: CUdeviceptr, byte: u8, size: usize, stream: CUstream) {
        copies::fill(to, byte, size, Some(stream.addr()))
    }
    fn cuArray3DCreate_v2(array: *mut CUarray, descriptor: *const CUDA_ARRAY3D_DESCRIPTOR) {
        give(array, |m| {
            if descriptor.is_null() {
                return m.refuse(INVALID_VALUE, "an array needs a descriptor, and got NULL");
            }
            m.create_array(!array.is_null(), descriptor.read()).map(|handle| handle as CUarray)
        })
    }
    fn cuArray3DGetDescriptor_v2(descriptor: *mut CUDA_ARRAY3D_DESCRIPTOR, array: CUarray) {
        give_first(descriptor, |m| m.array(array.addr()).map(|array| array.descriptor))
    }
    fn cuArrayDestroy(array: CUarray) { call(|m| m.destroy_array(array.addr())) }
}
