//! Copies of rows, in the driver's form.

use crate::driver::ffi::CUDA_MEMCPY2D;
use std::ptr;

/// One side of a copy of rows: where it begins, and its distance from row to row.
#[derive(Clone, Copy)]
pub(super) enum Rows {
    Host(*mut u8, usize),
    Device(u64, usize),
}

/// The driver's numbers for types of memory.
const ON_HOST: u32 = 1;
const ON_DEVICE: u32 = 2;

impl Rows {
    /// The type, the address on the host, that on the device, and the distance.
    fn parts(self) -> (u32, *mut u8, u64, usize) {
        match self {
            Rows::Host(at, pitch) => (ON_HOST, at, 0, pitch),
            Rows::Device(at, pitch) => (ON_DEVICE, ptr::null_mut(), at, pitch),
        }
    }
}

/// A copy of `height` rows of `bytes` bytes.
pub(super) fn copy(to: Rows, from: Rows, (bytes, height): (usize, usize)) -> CUDA_MEMCPY2D {
    let (from, to) = (from.parts(), to.parts());
    CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: from.0,
        srcHost: from.1.cast(),
        srcDevice: from.2,
        srcArray: ptr::null_mut(),
        srcPitch: from.3,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: to.0,
        dstHost: to.1.cast(),
        dstDevice: to.2,
        dstArray: ptr::null_mut(),
        dstPitch: to.3,
        WidthInBytes: bytes,
        Height: height,
    }
}
