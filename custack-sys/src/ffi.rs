//! The C types of the driver's interface: handles from `cuda-driver-sys`, and what CUDA 10.2's bindings lack. Without the
//! feature `rustacuda` the handles are custack's own types.
//!
//! Every enum of the C header is an integer here. A driver newer than this crate may return a number that no Rust enum
//! has, and reading it as one would be undefined behaviour.

mod graph;
#[cfg(not(feature = "rustacuda"))]
mod handles;
mod library;
mod memory;
mod texture;

pub use graph::*;
pub use library::*;
pub use memory::*;
pub use texture::*;

use std::os::raw::{c_char, c_int, c_uint, c_void};

#[cfg(not(feature = "rustacuda"))]
pub use handles::*;

#[cfg(feature = "rustacuda")]
pub use cuda_driver_sys::{
    CUarray, CUcontext, CUdevice, CUdeviceptr, CUdevprop, CUevent, CUfunction, CUmodule, CUstream, CUuuid,
};

/// What every driver function returns: 0, or the number of an error.
pub type CUresult = c_uint;

/// The status of a call that succeeded.
pub const CUDA_SUCCESS: CUresult = 0;

/// A pool of device memory.
pub type CUmemoryPool = *mut c_void;
/// A registered notification.
pub type CUasyncCallbackHandle = *mut c_void;
/// A green context.
pub type CUgreenCtx = *mut c_void;
/// What a green context is made from: resources that were put together. The driver never frees it.
pub type CUdevResourceDesc = *mut c_void;
/// The function that the driver calls with a notification.
pub type CUasyncCallback =
    Option<unsafe extern "C" fn(info: *mut c_void, user_data: *mut c_void, callback: CUasyncCallbackHandle)>;

/// The function that the driver calls when a stream gets to it, with the stream's status.
pub type CUstreamCallback =
    Option<unsafe extern "C" fn(stream: CUstream, status: CUresult, user_data: *mut c_void)>;
/// The function that the driver calls when a stream gets to it, unless the context is in error.
pub type CUhostFn = Option<unsafe extern "C" fn(user_data: *mut c_void)>;

/// A function that returns how much dynamic shared memory a block of this size needs, in bytes.
pub type CUoccupancyB2DSize = Option<unsafe extern "C" fn(block_size: c_int) -> usize>;

/// The stream that stands for the legacy default stream of the current context.
pub const CU_STREAM_LEGACY: CUstream = std::ptr::without_provenance_mut(1);
/// The stream that stands for the calling thread's own default stream of the current context.
pub const CU_STREAM_PER_THREAD: CUstream = std::ptr::without_provenance_mut(2);

/// An event as another process can be told of it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CUipcEventHandle {
    /// Private to the driver.
    pub reserved: [c_char; 64],
}

/// Memory as another process can be told of it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CUipcMemHandle {
    /// Private to the driver.
    pub reserved: [c_char; 64],
}

/// Memory of a pool as another process can be told of it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CUmemPoolPtrExportData {
    /// Private to the driver.
    pub reserved: [c_char; 64],
}

/// The properties of an array, with its format as a number.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(non_snake_case)]
pub struct CUDA_ARRAY3D_DESCRIPTOR {
    /// Elements in a row.
    pub Width: usize,
    /// Rows, or 0.
    pub Height: usize,
    /// Slices or layers, or 0.
    pub Depth: usize,
    /// The number of the format.
    pub Format: c_uint,
    /// Channels of an element: 1, 2 or 4.
    pub NumChannels: c_uint,
    /// The flags.
    pub Flags: c_uint,
}

/// The kind of execution affinity that is a number of multiprocessors.
pub const CU_EXEC_AFFINITY_TYPE_SM_COUNT: c_uint = 0;

/// A kind of execution affinity and its value, as `cuCtxGetExecAffinity` writes it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct CUexecAffinityParam {
    /// The kind: [`CU_EXEC_AFFINITY_TYPE_SM_COUNT`] is the only one so far.
    pub kind: c_uint,
    /// The number of multiprocessors.
    pub sm_count: c_uint,
}

/// The parameters of `cuCtxCreate_v4` besides flags and device.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CUctxCreateParams {
    /// The requested execution affinities, or null.
    pub exec_affinity_params: *mut CUexecAffinityParam,
    /// The number of affinities.
    pub num_exec_affinity_params: c_int,
    /// The graphics queue to share, or null.
    pub cig_params: *mut c_void,
}

/// The kind of device resource that is a set of multiprocessors.
pub const CU_DEV_RESOURCE_TYPE_SM: c_uint = 1;

/// The kind that says how the work queues of a context are chosen (CUDA 13.1).
pub const CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG: c_uint = 1000;

/// The flag with which every green context is made.
pub const CU_GREEN_CTX_DEFAULT_STREAM: c_uint = 1;

/// A resource of a device, as `cuDeviceGetDevResource` writes it. In the newest headers its last field is a pointer.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub struct CUdevResource {
    /// The kind: [`CU_DEV_RESOURCE_TYPE_SM`] or [`CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG`].
    pub kind: c_uint,
    /// Private to the driver.
    pub internal: [u8; 92],
    /// The number of multiprocessors, the size of the smallest partition, and the partition's alignment. Of work queues:
    /// the device, how much of its work runs at once, and the scope, as in [`CUdevWorkqueueConfigResource`].
    pub sm: [c_uint; 3],
    /// Reserved by the header for other kinds.
    pub reserved: [c_uint; 9],
}

/// How the work queues of a context are chosen, at the place of a [`CUdevResource`]'s multiprocessors (CUDA 13.1).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CUdevWorkqueueConfigResource {
    /// The device.
    pub device: CUdevice,
    /// How many pieces of work in the order of streams are expected to run at once.
    pub limit: c_uint,
    /// With whom the queues are shared.
    pub scope: c_uint,
}

/// What one group of a split is to be like (CUDA 13.1).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CU_DEV_SM_RESOURCE_GROUP_PARAMS {
    /// The number of multiprocessors.
    pub count: c_uint,
    /// How many of them are scheduled together.
    pub coscheduled: c_uint,
    /// How many are to be scheduled together if possible.
    pub preferred: c_uint,
    /// Flags.
    pub flags: c_uint,
    /// The part of the device that they are of.
    pub locality: c_uint,
    /// Reserved, and zero.
    pub reserved: [c_uint; 11],
}
