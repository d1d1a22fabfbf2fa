//! The C functions that share device memory with other processes.

// C functions that read and write through the pointers that they get.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::driver::ffi::*;
use crate::sim::abi::{c_abi, call, give, put, wait_for_current_work};
use crate::sim::machine::*;
use std::os::raw::c_uint;
use std::thread::sleep;
use std::time::Duration;

/// Memory that is shared for the first time is moved when nothing uses it; so often it is looked whether that is so.
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
    fn cuIpcCloseMemHandle(address: CUdeviceptr) {
        wait_for_current_work();
        call(|m| m.close_ipc_memory(address))
    }
}
