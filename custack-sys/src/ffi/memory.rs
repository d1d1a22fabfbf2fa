//! The C types of copies between rows, of arrays, and of memory that the program maps.

use super::{CUarray, CUdeviceptr, CUmemLocation};
use std::os::raw::{c_uint, c_ushort, c_void};

/// A copy of rows, each side with its own distance from row to row.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_snake_case)]
pub struct CUDA_MEMCPY2D {
    /// Bytes before the first one of each row.
    pub srcXInBytes: usize,
    /// Rows before the first one.
    pub srcY: usize,
    /// Where the source is: 1 on the host, 2 on the device, 3 in an array, 4 where its address says.
    pub srcMemoryType: c_uint,
    /// The source on the host.
    pub srcHost: *const c_void,
    /// The source on the device.
    pub srcDevice: CUdeviceptr,
    /// The source in an array.
    pub srcArray: CUarray,
    /// Bytes from row to row of the source.
    pub srcPitch: usize,
    /// Bytes before the first one of each row of the destination.
    pub dstXInBytes: usize,
    /// Rows before the first one.
    pub dstY: usize,
    /// Where the destination is, as for the source.
    pub dstMemoryType: c_uint,
    /// The destination on the host.
    pub dstHost: *mut c_void,
    /// The destination on the device.
    pub dstDevice: CUdeviceptr,
    /// The destination in an array.
    pub dstArray: CUarray,
    /// Bytes from row to row of the destination.
    pub dstPitch: usize,
    /// Bytes of a row that are copied.
    pub WidthInBytes: usize,
    /// Rows that are copied.
    pub Height: usize,
}

/// The properties of an array of rows, with its format as a number.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(non_snake_case)]
pub struct CUDA_ARRAY_DESCRIPTOR {
    /// Elements in a row.
    pub Width: usize,
    /// Rows, or 0.
    pub Height: usize,
    /// The number of the format.
    pub Format: c_uint,
    /// Channels of an element: 1, 2 or 4.
    pub NumChannels: c_uint,
}

/// What memory is like that the program maps by itself.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_snake_case)]
pub struct CUmemAllocationProp {
    /// The type of allocation; 1 is pinned.
    pub kind: c_uint,
    /// The handles under which it can be shared.
    pub requestedHandleTypes: c_uint,
    /// Where it is.
    pub location: CUmemLocation,
    /// The security attributes on Windows.
    pub win32HandleMetaData: *mut c_void,
    /// Whether it may be compressed.
    pub compressionType: u8,
    /// Whether other devices than GPUs reach it directly.
    pub gpuDirectRDMACapable: u8,
    /// What it is used for.
    pub usage: c_ushort,
    /// Zeros.
    pub reserved: [u8; 4],
}
