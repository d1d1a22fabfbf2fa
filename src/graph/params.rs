//! The parameters of nodes.

use crate::driver::ffi::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUarray, CUdeviceptr, CUfunction,
};
use crate::error::{CudaError, CudaResult};
use crate::function::{BlockSize, GridSize};
use std::os::raw::c_void;
use std::ptr;

/// What a kernel node launches.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelParams {
    /// The driver's handle of the function; null if it is a library's kernel.
    pub function: CUfunction,
    /// The number of blocks.
    pub grid: GridSize,
    /// The number of threads in a block.
    pub block: BlockSize,
    /// The dynamic shared memory of a block, in bytes.
    pub shared_mem_bytes: u32,
}

impl KernelParams {
    #[inline]
    pub(super) fn of(raw: &CUDA_KERNEL_NODE_PARAMS) -> KernelParams {
        KernelParams {
            function: raw.func,
            grid: GridSize::xyz(raw.gridDimX, raw.gridDimY, raw.gridDimZ),
            block: BlockSize::xyz(raw.blockDimX, raw.blockDimY, raw.blockDimZ),
            shared_mem_bytes: raw.sharedMemBytes,
        }
    }

    /// The driver's form, with the arguments.
    #[inline]
    pub(super) fn raw(&self, args: &[*mut c_void]) -> CUDA_KERNEL_NODE_PARAMS {
        let KernelParams { function, grid, block, shared_mem_bytes } = self;
        CUDA_KERNEL_NODE_PARAMS {
            func: *function,
            gridDimX: grid.x,
            gridDimY: grid.y,
            gridDimZ: grid.z,
            blockDimX: block.x,
            blockDimY: block.y,
            blockDimZ: block.z,
            sharedMemBytes: *shared_mem_bytes,
            kernelParams: args.as_ptr().cast_mut(),
            extra: ptr::null_mut(),
            kern: ptr::null_mut(),
            ctx: ptr::null_mut(),
        }
    }
}

/// One side of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// Memory of the host.
    Host(*mut c_void),
    /// Memory of the device, or managed.
    Device(CUdeviceptr),
    /// An array, from its beginning.
    Array(CUarray),
}

const HOST: u32 = 1;
const DEVICE: u32 = 2;
const ARRAY: u32 = 3;
const UNIFIED: u32 = 4;

impl Place {
    #[inline]
    fn kind(self) -> u32 {
        match self {
            Place::Host(_) => HOST,
            Place::Device(_) => DEVICE,
            Place::Array(_) => ARRAY,
        }
    }

    #[inline]
    fn host(self) -> *mut c_void {
        if let Place::Host(at) = self { at } else { ptr::null_mut() }
    }

    #[inline]
    fn device(self) -> CUdeviceptr {
        if let Place::Device(at) = self { at } else { 0 }
    }

    #[inline]
    fn array(self) -> CUarray {
        if let Place::Array(array) = self { array } else { ptr::null_mut() }
    }

    #[inline]
    fn of(kind: u32, host: *mut c_void, device: CUdeviceptr, array: CUarray, offset: usize) -> Option<Place> {
        match kind {
            HOST => Some(Place::Host(host.wrapping_byte_add(offset))),
            DEVICE | UNIFIED => Some(Place::Device(device.wrapping_add(offset as u64))),
            ARRAY if offset == 0 => Some(Place::Array(array)),
            _ => None,
        }
    }
}

/// What a copy node copies: rows of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyParams {
    /// The source.
    pub from: Place,
    /// The destination.
    pub to: Place,
    /// The length of a row, in bytes.
    pub bytes: usize,
    /// Rows.
    pub rows: usize,
    /// The distance between rows of the source, in bytes; 0 with one row.
    pub from_pitch: usize,
    /// The distance between rows of the destination, in bytes; 0 with one row.
    pub to_pitch: usize,
}

impl CopyParams {
    /// A copy of contiguous bytes.
    #[inline]
    pub fn bytes(from: Place, to: Place, bytes: usize) -> CopyParams {
        CopyParams { from, to, bytes, rows: 1, from_pitch: 0, to_pitch: 0 }
    }

    /// The same row repeated: `rows` rows, at these distances in bytes.
    #[inline]
    pub fn rows(self, rows: usize, from_pitch: usize, to_pitch: usize) -> CopyParams {
        CopyParams { rows, from_pitch, to_pitch, ..self }
    }

    #[inline]
    pub(super) fn raw(&self) -> CUDA_MEMCPY3D {
        let CopyParams { from, to, bytes, rows, from_pitch, to_pitch } = *self;
        CUDA_MEMCPY3D {
            srcXInBytes: 0,
            srcY: 0,
            srcZ: 0,
            srcLOD: 0,
            srcMemoryType: from.kind(),
            srcHost: from.host(),
            srcDevice: from.device(),
            srcArray: from.array(),
            reserved0: ptr::null_mut(),
            srcPitch: from_pitch,
            srcHeight: 0,
            dstXInBytes: 0,
            dstY: 0,
            dstZ: 0,
            dstLOD: 0,
            dstMemoryType: to.kind(),
            dstHost: to.host(),
            dstDevice: to.device(),
            dstArray: to.array(),
            reserved1: ptr::null_mut(),
            dstPitch: to_pitch,
            dstHeight: 0,
            WidthInBytes: bytes,
            Height: rows,
            Depth: 1,
        }
    }

    #[inline]
    pub(super) fn of(raw: &CUDA_MEMCPY3D) -> CudaResult<CopyParams> {
        let from = raw.srcXInBytes + raw.srcY * raw.srcPitch;
        let to = raw.dstXInBytes + raw.dstY * raw.dstPitch;
        let from = Place::of(raw.srcMemoryType, raw.srcHost.cast_mut(), raw.srcDevice, raw.srcArray, from);
        let to = Place::of(raw.dstMemoryType, raw.dstHost, raw.dstDevice, raw.dstArray, to);
        let (Some(from), Some(to), 0, 0, ..=1) = (from, to, raw.srcZ, raw.dstZ, raw.Depth) else {
            return Err(CudaError::NotSupported
                .note(format_args!("to describe a copy of several slices, or of a part of an array")));
        };
        let (bytes, rows) = (raw.WidthInBytes, raw.Height.max(1));
        let several = rows > 1;
        let pitch = |pitch| if several { pitch } else { 0 };
        let (from_pitch, to_pitch) = (pitch(raw.srcPitch), pitch(raw.dstPitch));
        Ok(CopyParams { from, to, bytes, rows, from_pitch, to_pitch })
    }
}

/// What a fill node fills: rows of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FillParams {
    /// The destination.
    pub to: CUdeviceptr,
    /// The value of each element.
    pub value: u32,
    /// The size of an element, in bytes: 1, 2 or 4.
    pub element_bytes: u32,
    /// Elements in a row.
    pub count: usize,
    /// Rows.
    pub rows: usize,
    /// The distance between rows, in bytes; 0 with one row.
    pub pitch: usize,
}

impl FillParams {
    /// A fill of `count` contiguous elements.
    #[inline]
    pub fn elements(to: CUdeviceptr, value: u32, element_bytes: u32, count: usize) -> FillParams {
        FillParams { to, value, element_bytes, count, rows: 1, pitch: 0 }
    }

    /// The same row repeated: `rows` rows, at this distance in bytes.
    #[inline]
    pub fn rows(self, rows: usize, pitch: usize) -> FillParams {
        FillParams { rows, pitch, ..self }
    }

    #[inline]
    pub(super) fn raw(&self) -> CUDA_MEMSET_NODE_PARAMS {
        let FillParams { to, value, element_bytes, count, rows, pitch } = *self;
        CUDA_MEMSET_NODE_PARAMS {
            dst: to,
            pitch,
            value,
            elementSize: element_bytes,
            width: count,
            height: rows,
        }
    }

    #[inline]
    pub(super) fn of(raw: &CUDA_MEMSET_NODE_PARAMS) -> FillParams {
        let rows = raw.height.max(1);
        let pitch = if rows > 1 { raw.pitch } else { 0 };
        FillParams {
            to: raw.dst,
            value: raw.value,
            element_bytes: raw.elementSize,
            count: raw.width,
            rows,
            pitch,
        }
    }
}
