//! Libraries, linking, and launches with attributes.

use super::CUstream;
use std::os::raw::{c_uint, c_void};

/// A library: device code that is of no context.
pub type CUlibrary = *mut c_void;
/// A kernel of a library.
pub type CUkernel = *mut c_void;
/// A linking that is under way.
pub type CUlinkState = *mut c_void;

/// A texture that device code has by a name, of which there are none any more.
pub type CUtexref = *mut c_void;
/// A surface that device code has by a name, of which there are none any more.
pub type CUsurfref = *mut c_void;

/// The launch attribute that has all blocks run at once.
pub const CU_LAUNCH_ATTRIBUTE_COOPERATIVE: c_uint = 2;
/// The launch attribute that is the size of a cluster, in blocks.
pub const CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: c_uint = 4;
/// The launch attribute that says how the blocks of a cluster are spread.
pub const CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: c_uint = 5;
/// The launch attribute that lets a kernel begin before the one before it has ended.
pub const CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: c_uint = 6;
/// The launch attribute that is the priority.
pub const CU_LAUNCH_ATTRIBUTE_PRIORITY: c_uint = 8;
/// The launch attribute that is the preferred share of shared memory, in percent.
pub const CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: c_uint = 14;

/// One more thing that a launch asks for.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CUlaunchAttribute {
    /// Which attribute.
    pub id: c_uint,
    /// Nothing.
    pub pad: [u8; 4],
    /// Its value, the first numbers of which count.
    pub value: [c_uint; 16],
}

/// How a kernel is launched.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_snake_case)]
pub struct CUlaunchConfig {
    /// Blocks of the grid in the first dimension.
    pub gridDimX: c_uint,
    /// In the second.
    pub gridDimY: c_uint,
    /// In the third.
    pub gridDimZ: c_uint,
    /// Threads of a block in the first dimension.
    pub blockDimX: c_uint,
    /// In the second.
    pub blockDimY: c_uint,
    /// In the third.
    pub blockDimZ: c_uint,
    /// Dynamic shared memory of a block, in bytes.
    pub sharedMemBytes: c_uint,
    /// The stream.
    pub hStream: CUstream,
    /// What else is asked for, or null.
    pub attrs: *mut CUlaunchAttribute,
    /// How many attributes there are.
    pub numAttrs: c_uint,
}
