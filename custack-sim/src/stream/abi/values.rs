//! The C functions with which streams write values of memory and wait for them.

// C functions that read and write through the pointers that they get.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::abi::{c_abi, call};
use crate::machine::*;
use crate::memory::Step;
use custack_sys::ffi::*;
use std::os::raw::{c_uint, c_ulonglong, c_void};

/// An operation of a batch: its kind, and in the same word the flags of those without an address; then the address, the
/// value, and the flags of those with one.
type Described = [u64; 6];

fn step([kind, address, value, flags, ..]: Described) -> Step {
    const BARRIER: u32 = 6;
    const FLUSH: u32 = 3;
    let (number, alone) = (kind as u32, (kind >> 32) as u32);
    let flags = if matches!(number, BARRIER | FLUSH) { alone } else { flags as u32 };
    Step { kind: number, address, value, flags }
}

/// The operations of a batch.
///
/// # Safety
///
/// There are `count` operations at this address.
pub(crate) unsafe fn steps_at(operations: *mut c_void, count: c_uint) -> Vec<Step> {
    let described = operations.cast::<Described>();
    // SAFETY: the caller guarantees `count` of them.
    (0..count as usize).map(|at| step(unsafe { described.add(at).read() })).collect()
}

c_abi! {
    fn cuStreamWaitValue32_v2(stream: CUstream, address: CUdeviceptr, value: c_uint, flags: c_uint) {
        call(|m| m.batch(stream.addr(), vec![Step::wait(false, address, value.into(), flags)], 0))
    }
    fn cuStreamWaitValue64_v2(stream: CUstream, address: CUdeviceptr, value: c_ulonglong, flags: c_uint) {
        call(|m| m.batch(stream.addr(), vec![Step::wait(true, address, value, flags)], 0))
    }
    fn cuStreamWriteValue32_v2(stream: CUstream, address: CUdeviceptr, value: c_uint, flags: c_uint) {
        call(|m| m.batch(stream.addr(), vec![Step::write(false, address, value.into(), flags)], 0))
    }
    fn cuStreamWriteValue64_v2(stream: CUstream, address: CUdeviceptr, value: c_ulonglong, flags: c_uint) {
        call(|m| m.batch(stream.addr(), vec![Step::write(true, address, value, flags)], 0))
    }
    fn cuStreamBatchMemOp_v2(stream: CUstream, count: c_uint, operations: *mut c_void, flags: c_uint) {
        call(|m| {
            m.stream_of(stream.addr())?;
            m.capturing(stream.addr())?;
            if operations.is_null() && count > 0 {
                return m.misuse(INVALID_VALUE, "operations of a stream are needed, and got NULL");
            }
            m.batch(stream.addr(), steps_at(operations, count), flags)
        })
    }
}
