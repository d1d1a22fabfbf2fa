//! The C functions of memory that the program maps by itself.

// C functions that read and write through the pointers that they get.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::abi::{c_abi, call, give_first};
use crate::machine::*;
use crate::memory::mapped::Properties;
use custack_sys::ffi::*;
use std::os::raw::{c_int, c_uint, c_ulonglong, c_void};
use std::ptr::null_mut;

/// Reads what is needed behind a pointer.
///
/// # Safety
///
/// It is NULL or may be read.
unsafe fn given<T: Copy>(machine: &mut Machine, from: *const T) -> Answer<T> {
    machine.ready()?;
    if from.is_null() {
        return machine.refuse(INVALID_VALUE, "properties or a location are needed, and got NULL");
    }
    // SAFETY: not NULL, and the caller guarantees the rest.
    Ok(unsafe { from.read() })
}

/// # Safety
///
/// As for [`given`].
unsafe fn properties_at(machine: &mut Machine, from: *const CUmemAllocationProp) -> Answer<Properties> {
    // SAFETY: as the caller guarantees.
    let it = unsafe { given(machine, from)? };
    let CUmemAllocationProp { kind, location, usage, .. } = it;
    Ok(Properties {
        kind,
        handles: it.requestedHandleTypes,
        location,
        direct: it.gpuDirectRDMACapable,
        usage,
    })
}

fn told(it: Properties) -> CUmemAllocationProp {
    CUmemAllocationProp {
        kind: it.kind,
        requestedHandleTypes: it.handles,
        location: it.location,
        win32HandleMetaData: null_mut(),
        compressionType: 0,
        gpuDirectRDMACapable: it.direct,
        usage: it.usage,
        reserved: [0; 4],
    }
}

c_abi! {
    fn cuMemAddressReserve(address: *mut CUdeviceptr, size: usize, alignment: usize, hint: CUdeviceptr, flags: c_ulonglong) {
        give_first(address, |m| m.reserve_addresses(size, alignment, hint, flags))
    }
    fn cuMemAddressFree(address: CUdeviceptr, size: usize) { call(|m| m.free_addresses(address, size)) }
    fn cuMemCreate(handle: *mut c_ulonglong, size: usize, properties: *const CUmemAllocationProp, flags: c_ulonglong) {
        give_first(handle, |m| {
            let properties = properties_at(m, properties)?;
            m.create_memory(size, &properties, flags)
        })
    }
    fn cuMemRelease(handle: c_ulonglong) { call(|m| m.release_memory(handle)) }
    fn cuMemMap(address: CUdeviceptr, size: usize, offset: usize, handle: c_ulonglong, flags: c_ulonglong) {
        call(|m| m.map_memory((address, size), offset, handle, flags))
    }
    fn cuMemUnmap(address: CUdeviceptr, size: usize) { call(|m| m.unmap_memory(address, size)) }
    fn cuMemSetAccess(address: CUdeviceptr, size: usize, access: *const CUmemAccessDesc, count: usize) {
        call(|m| {
            if access.is_null() || count == 0 {
                return m.refuse(INVALID_VALUE, "the devices to which access is granted are needed, and there are none");
            }
            m.set_access(address, size, std::slice::from_raw_parts(access, count))
        })
    }
    fn cuMemGetAccess(flags: *mut c_ulonglong, location: *const CUmemLocation, address: CUdeviceptr) {
        give_first(flags, |m| {
            let location = given(m, location)?;
            m.access_at(address, location).map(c_ulonglong::from)
        })
    }
    fn cuMemGetAllocationGranularity(size: *mut usize, properties: *const CUmemAllocationProp, option: c_uint) {
        give_first(size, |m| {
            let properties = properties_at(m, properties)?;
            m.granularity(&properties, option)
        })
    }
    fn cuMemGetAllocationPropertiesFromHandle(properties: *mut CUmemAllocationProp, handle: c_ulonglong) {
        give_first(properties, |m| m.memory_of(handle).map(|(made, _)| told(made)))
    }
    fn cuMemRetainAllocationHandle(handle: *mut c_ulonglong, address: *mut c_void) {
        give_first(handle, |m| m.retain_memory_at(address.addr() as u64))
    }
    fn cuMemExportToShareableHandle(shared: *mut c_void, handle: c_ulonglong, kind: c_uint, flags: c_ulonglong) {
        call(|m| {
            let descriptor = m.export_memory(!shared.is_null(), handle, kind, flags)?;
            shared.cast::<c_int>().write(descriptor);
            Ok(())
        })
    }
    fn cuMemImportFromShareableHandle(handle: *mut c_ulonglong, shared: *mut c_void, kind: c_uint) {
        // The descriptor itself is in the pointer.
        give_first(handle, |m| {
            if shared.is_null() {
                return m.refuse(INVALID_VALUE, "memory whose descriptor is 0, which is no pointer");
            }
            m.import_memory(shared.addr() as c_int, kind)
        })
    }
}
