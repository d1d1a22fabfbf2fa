//! The C functions that share device memory with other processes.

// C functions that read and write through the pointers that they get.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::abi::{c_abi, call, give, give_first, put, wait_for_current_work};
use crate::machine::*;
use custack_sys::ffi::*;
use std::os::raw::{c_int, c_uint, c_ulonglong, c_void};
use std::thread::sleep;
use std::time::Duration;

/// Memory that is shared for the first time is moved once nothing uses it: that is checked this many times, with this
/// pause in between.
const LOOKS: u32 = 200_000;
const BETWEEN: Duration = Duration::from_micros(50);

c_abi! {
    fn cuIpcGetMemHandle(handle: *mut CUipcMemHandle, address: CUdeviceptr) {
        for _ in 0..LOOKS {
            let mut found = None;
            let status = call(|m| m.ipc_memory_handle(!handle.is_null(), address).map(|bytes| found = bytes));
            match found {
                Some(reserved) => put(handle, CUipcMemHandle { reserved }),
                None if status == CUDA_SUCCESS => {
                    sleep(BETWEEN);
                    continue;
                }
                None => {}
            }
            return status;
        }
        call(|m| m.refuse(NOT_SUPPORTED, "memory is shared for the first time when no work uses it, and some does"))
    }
    fn cuIpcOpenMemHandle_v2(address: *mut CUdeviceptr, handle: CUipcMemHandle, flags: c_uint) {
        give(address, |m| m.open_ipc_memory(!address.is_null(), handle.reserved, flags))
    }
    fn cuMemPoolExportToShareableHandle(shared: *mut c_void, pool: CUmemoryPool, kind: c_uint, flags: c_ulonglong) {
        call(|m| {
            let descriptor = m.export_pool(!shared.is_null(), pool.addr(), kind, flags)?;
            shared.cast::<c_int>().write(descriptor);
            Ok(())
        })
    }
    fn cuMemPoolImportFromShareableHandle(pool: *mut CUmemoryPool, shared: *mut c_void, kind: c_uint, flags: c_ulonglong) {
        // The descriptor itself is in the pointer.
        give_first(pool, |m| {
            if shared.is_null() {
                return m.refuse(INVALID_VALUE, "a pool whose descriptor is 0, which is no pointer");
            }
            m.import_pool(shared.addr() as c_int, kind, flags).map(|it| it as CUmemoryPool)
        })
    }
    fn cuMemPoolExportPointer(data: *mut CUmemPoolPtrExportData, address: CUdeviceptr) {
        call(|m| {
            let reserved = m.export_piece(!data.is_null(), address)?;
            data.write(CUmemPoolPtrExportData { reserved });
            Ok(())
        })
    }
    fn cuMemPoolImportPointer(address: *mut CUdeviceptr, pool: CUmemoryPool, data: *mut CUmemPoolPtrExportData) {
        call(|m| {
            let bytes = if data.is_null() { [0; 64] } else { data.read().reserved };
            let at = m.import_piece(!address.is_null(), pool.addr(), &bytes)?;
            address.write(at);
            Ok(())
        })
    }
    fn cuIpcCloseMemHandle(address: CUdeviceptr) {
        wait_for_current_work();
        call(|m| m.close_ipc_memory(address))
    }
}
