//! The handles of the driver, and its oldest structs, for builds without `cuda-driver-sys`. They have the same names and
//! layouts as there.

use std::os::raw::{c_char, c_int, c_ulonglong};

/// Declares what the driver gives out pointers to.
macro_rules! opaque {
    ($($(#[$doc:meta])* $handle:ident to $name:ident;)*) => {$(
        /// What only the driver can look into.
        #[repr(C)]
        #[derive(Debug, Clone, Copy)]
        pub struct $name {
            _unused: [u8; 0],
        }
        $(#[$doc])*
        pub type $handle = *mut $name;
    )*};
}

opaque! {
    /// A context.
    CUcontext to CUctx_st;
    /// A module.
    CUmodule to CUmod_st;
    /// A kernel of a module.
    CUfunction to CUfunc_st;
    /// An array.
    CUarray to CUarray_st;
    /// An event.
    CUevent to CUevent_st;
    /// A stream.
    CUstream to CUstream_st;
}

/// The number of a device.
pub type CUdevice = c_int;
/// An address of a device.
pub type CUdeviceptr = c_ulonglong;

/// The identity of a device.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct CUuuid {
    /// Its bytes, in the order in which they are printed.
    pub bytes: [c_char; 16],
}

/// The properties of a device that the oldest drivers knew.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[allow(non_snake_case)]
pub struct CUdevprop {
    /// Threads in a block, at most.
    pub maxThreadsPerBlock: c_int,
    /// A block's extent in each dimension, at most.
    pub maxThreadsDim: [c_int; 3],
    /// A grid's extent in each dimension, at most.
    pub maxGridSize: [c_int; 3],
    /// Bytes of shared memory for a block.
    pub sharedMemPerBlock: c_int,
    /// Bytes of constant memory.
    pub totalConstantMemory: c_int,
    /// Threads of a warp.
    pub SIMDWidth: c_int,
    /// The largest distance of two rows in bytes.
    pub memPitch: c_int,
    /// Registers for a block.
    pub regsPerBlock: c_int,
    /// The frequency of the clock in kHz.
    pub clockRate: c_int,
    /// The alignment of textures in bytes.
    pub textureAlign: c_int,
}
