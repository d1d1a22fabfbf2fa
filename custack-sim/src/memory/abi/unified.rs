//! The C functions that copy between addresses of whatever kind, and those of arrays with one row.

// C functions that read and write through the pointers that they get.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::abi::{c_abi, give, give_first};
use crate::graph::{Copy, Side};
use crate::machine::*;
use crate::memory::copies::{self, End};
use crate::memory::{HostMemory, lock, rows};
use custack_sys::ffi::*;
use std::os::raw::c_void;

/// What a copy calls an array.
const ARRAY: u32 = 3;

/// What an address is an address of: the host's, if the driver does not know it.
///
/// # Safety
///
/// As for `cuMemcpy`.
unsafe fn end(address: u64, size: usize) -> End {
    if lock().is_devices(address) {
        return End::Device(address);
    }
    // SAFETY: as the caller guarantees.
    End::Host(unsafe { HostMemory::new(address as usize, size) })
}

/// # Safety
///
/// As for `cuMemcpyHtoA`.
unsafe fn host(address: *const c_void, size: usize) -> Side {
    // SAFETY: as the caller guarantees.
    End::Host(unsafe { HostMemory::new(address.addr(), size) }).into()
}

/// The bytes of an array's row from offset `at` on.
fn row(array: CUarray, at: usize) -> Side {
    Side { kind: ARRAY, array: array.addr(), start: [at, 0, 0], ..End::Device(0).into() }
}

fn copy(to: Side, from: Side, size: usize, stream: Option<usize>) -> CUresult {
    rows::copy_slices(Copy { context: 0, home: 0, to, from, extent: [size, 1, 1] }, stream)
}

c_abi! {
    fn cuMemcpy(to: CUdeviceptr, from: CUdeviceptr, size: usize) { copies::copy(end(to, size), end(from, size), size, None) }
    fn cuMemcpyAsync(to: CUdeviceptr, from: CUdeviceptr, size: usize, stream: CUstream) {
        copies::copy_unified(end(to, size), end(from, size), size, stream.addr())
    }
    fn cuMemcpyHtoA_v2(to: CUarray, at: usize, from: *const c_void, size: usize) {
        copy(row(to, at), host(from, size), size, None)
    }
    fn cuMemcpyHtoAAsync_v2(to: CUarray, at: usize, from: *const c_void, size: usize, stream: CUstream) {
        copy(row(to, at), host(from, size), size, Some(stream.addr()))
    }
    fn cuMemcpyAtoH_v2(to: *mut c_void, from: CUarray, at: usize, size: usize) {
        copy(host(to, size), row(from, at), size, None)
    }
    fn cuMemcpyAtoHAsync_v2(to: *mut c_void, from: CUarray, at: usize, size: usize, stream: CUstream) {
        copy(host(to, size), row(from, at), size, Some(stream.addr()))
    }
    fn cuMemcpyDtoA_v2(to: CUarray, at: usize, from: CUdeviceptr, size: usize) {
        copy(row(to, at), End::Device(from).into(), size, None)
    }
    fn cuMemcpyAtoD_v2(to: CUdeviceptr, from: CUarray, at: usize, size: usize) {
        copy(End::Device(to).into(), row(from, at), size, None)
    }
    fn cuMemcpyAtoA_v2(to: CUarray, to_at: usize, from: CUarray, from_at: usize, size: usize) {
        copy(row(to, to_at), row(from, from_at), size, None)
    }
    fn cuArrayCreate_v2(array: *mut CUarray, descriptor: *const CUDA_ARRAY_DESCRIPTOR) {
        give(array, |m| {
            if descriptor.is_null() {
                return m.refuse(INVALID_VALUE, "the descriptor of the array is NULL");
            }
            let CUDA_ARRAY_DESCRIPTOR { Width, Height, Format, NumChannels } = descriptor.read();
            let flat = CUDA_ARRAY3D_DESCRIPTOR { Width, Height, Depth: 0, Format, NumChannels, Flags: 0 };
            m.create_array(!array.is_null(), flat).map(|handle| handle as CUarray)
        })
    }
    fn cuArrayGetDescriptor_v2(descriptor: *mut CUDA_ARRAY_DESCRIPTOR, array: CUarray) {
        give_first(descriptor, |m| {
            let CUDA_ARRAY3D_DESCRIPTOR { Width, Height, Format, NumChannels, .. } = m.array(array.addr())?.descriptor;
            Ok(CUDA_ARRAY_DESCRIPTOR { Width, Height, Format, NumChannels })
        })
    }
}
