//! The C structs that say what copies of rows and slices copy.

// Reads through the pointers that the callers of C functions passed.
#![allow(unsafe_code)]

use crate::abi::call;
use crate::graph::abi::copy_of;
use crate::machine::*;
use crate::memory::HostMemory;
use crate::memory::block::{NoRoom, collected};
use crate::memory::copies::End;
use crate::memory::rows::{self, Side};
use custack_sys::ffi::{CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_SUCCESS, CUresult};
use std::os::raw::c_uint;
use std::ptr::null_mut;

/// What a copy calls an array.
const ARRAY: c_uint = 3;
/// Most rows that are copied at once.
const MOST_ROWS: usize = 1 << 24;

/// One side of a copy of rows, which is at no known place if it is `None`.
///
/// # Safety
///
/// As `cuMemcpy2D`'s.
unsafe fn side(
    (kind, host, device): (c_uint, usize, u64),
    (x, y, pitch): (usize, usize, usize),
    (width, height): (usize, usize),
) -> Result<Option<Side>, NoRoom> {
    let pitch = if pitch == 0 { x + width } else { pitch };
    let row = |row: usize| {
        let at = y.wrapping_add(row).wrapping_mul(pitch).wrapping_add(x);
        match kind {
            // SAFETY: the caller vouches for each row.
            1 if host == 0 => Some(End::Host(unsafe { HostMemory::new(0, width) })),
            // SAFETY: the caller vouches for each row.
            1 => Some(End::Host(unsafe { HostMemory::new(host.wrapping_add(at), width) })),
            2 | 4 => Some(End::Device(device.wrapping_add(at as u64))),
            _ => None,
        }
    };
    let rows = collected(height, (0..height).map_while(row))?;
    Ok((rows.len() == height).then_some(Side { rows, pitch, x }))
}

/// # Safety
///
/// As `cuMemcpy2D`'s.
pub(super) unsafe fn copy_rows(copy: *const CUDA_MEMCPY2D, stream: Option<usize>) -> CUresult {
    let status = call(|m| m.may_copy_in(stream));
    if status != CUDA_SUCCESS {
        return status;
    }
    if copy.is_null() {
        return call(|m| m.refuse(INVALID_VALUE, "what to copy is needed, and got NULL"));
    }
    // SAFETY: not NULL, and the caller vouches for the rest.
    let it = unsafe { copy.read() };
    if [it.srcMemoryType, it.dstMemoryType].contains(&ARRAY) {
        // SAFETY: as the caller guarantees.
        return rows::copy_slices(unsafe { copy_of(&in_one_slice(&it), 0) }, stream);
    }
    let size = (it.WidthInBytes, it.Height);
    // SAFETY: the caller vouches for the rows.
    let sides = unsafe {
        let from = (it.srcMemoryType, it.srcHost.addr(), it.srcDevice);
        let to = (it.dstMemoryType, it.dstHost.addr(), it.dstDevice);
        let height = size.1.min(MOST_ROWS);
        let from = side(from, (it.srcXInBytes, it.srcY, it.srcPitch), (size.0, height));
        let to = side(to, (it.dstXInBytes, it.dstY, it.dstPitch), (size.0, height));
        to.and_then(|to| Ok(to.zip(from?)))
    };
    match sides {
        Ok(Some((to, from))) => rows::copy_rows(to, from, size.0, stream),
        Err(no_room) => call(|m| m.with_room(Err(no_room))),
        Ok(None) => call(|m| {
            m.healthy_current()?;
            m.refuse(INVALID_VALUE, "rows are copied between the host, the device and arrays")
        }),
    }
}

/// The same copy, of one slice.
fn in_one_slice(it: &CUDA_MEMCPY2D) -> CUDA_MEMCPY3D {
    CUDA_MEMCPY3D {
        srcXInBytes: it.srcXInBytes,
        srcY: it.srcY,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: it.srcMemoryType,
        srcHost: it.srcHost,
        srcDevice: it.srcDevice,
        srcArray: it.srcArray,
        reserved0: null_mut(),
        srcPitch: it.srcPitch,
        srcHeight: 0,
        dstXInBytes: it.dstXInBytes,
        dstY: it.dstY,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: it.dstMemoryType,
        dstHost: it.dstHost,
        dstDevice: it.dstDevice,
        dstArray: it.dstArray,
        reserved1: null_mut(),
        dstPitch: it.dstPitch,
        dstHeight: 0,
        WidthInBytes: it.WidthInBytes,
        Height: it.Height,
        Depth: 1,
    }
}

/// # Safety
///
/// As `cuMemcpy3D`'s.
pub(super) unsafe fn copy_slices(copy: *const CUDA_MEMCPY3D, stream: Option<usize>) -> CUresult {
    let status = call(|m| m.may_copy_in(stream));
    if status != CUDA_SUCCESS {
        return status;
    }
    if copy.is_null() {
        return call(|m| m.refuse(INVALID_VALUE, "what to copy is needed, and got NULL"));
    }
    // SAFETY: not NULL, and the caller vouches for the rest.
    rows::copy_slices(unsafe { copy_of(&copy.read(), 0) }, stream)
}
