//! The C types of graphs, and of the pools that graphs allocate from.

use super::{CUarray, CUcontext, CUdeviceptr, CUfunction, CUhostFn, CUstream};
use std::os::raw::{c_int, c_uint, c_ushort, c_void};

/// A graph.
pub type CUgraph = *mut c_void;
/// A node of a graph.
pub type CUgraphNode = *mut c_void;
/// An executable graph.
pub type CUgraphExec = *mut c_void;
/// What a graph keeps for the program, and tells it when it does so no more.
pub type CUuserObject = *mut c_void;

/// A kernel and what to launch it with: the parameters of a kernel node, and of those functions whose symbols end in
/// `_v2`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_snake_case)]
pub struct CUDA_KERNEL_NODE_PARAMS {
    /// The function, or null if there is a kernel.
    pub func: CUfunction,
    /// Blocks in a row.
    pub gridDimX: c_uint,
    /// Rows of blocks.
    pub gridDimY: c_uint,
    /// Slices of blocks.
    pub gridDimZ: c_uint,
    /// Threads in a row.
    pub blockDimX: c_uint,
    /// Rows of threads.
    pub blockDimY: c_uint,
    /// Slices of threads.
    pub blockDimZ: c_uint,
    /// Bytes of shared memory that are given at launch.
    pub sharedMemBytes: c_uint,
    /// Pointers to the arguments, or null.
    pub kernelParams: *mut *mut c_void,
    /// The arguments in one piece, or null.
    pub extra: *mut *mut c_void,
    /// The kernel of a library, or null if there is a function.
    pub kern: *mut c_void,
    /// The context of the kernel; null is the current one.
    pub ctx: CUcontext,
}

/// What a memset node fills, and with what.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_snake_case)]
pub struct CUDA_MEMSET_NODE_PARAMS {
    /// Where.
    pub dst: CUdeviceptr,
    /// Bytes from one row to the next; not used with one row.
    pub pitch: usize,
    /// What to write.
    pub value: c_uint,
    /// Bytes of an element: 1, 2 or 4.
    pub elementSize: c_uint,
    /// Elements in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// What a host node calls, and with what.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_snake_case)]
pub struct CUDA_HOST_NODE_PARAMS {
    /// The function.
    pub fn_: CUhostFn,
    /// What it is called with.
    pub userData: *mut c_void,
}

/// A copy in up to three dimensions. The types of memory are numbers: 1 the host, 2 the device, 3 an array, 4 whatever
/// the address says.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_snake_case)]
pub struct CUDA_MEMCPY3D {
    /// Where to begin in a row.
    pub srcXInBytes: usize,
    /// With which row to begin.
    pub srcY: usize,
    /// With which slice to begin.
    pub srcZ: usize,
    /// The level of detail; 0.
    pub srcLOD: usize,
    /// What kind of memory.
    pub srcMemoryType: c_uint,
    /// The address, if it is the host.
    pub srcHost: *const c_void,
    /// The address, if it is the device.
    pub srcDevice: CUdeviceptr,
    /// The array, if it is one.
    pub srcArray: CUarray,
    /// Null.
    pub reserved0: *mut c_void,
    /// Bytes from one row to the next.
    pub srcPitch: usize,
    /// Rows from one slice to the next.
    pub srcHeight: usize,
    /// As of the source.
    pub dstXInBytes: usize,
    /// As of the source.
    pub dstY: usize,
    /// As of the source.
    pub dstZ: usize,
    /// As of the source.
    pub dstLOD: usize,
    /// As of the source.
    pub dstMemoryType: c_uint,
    /// As of the source.
    pub dstHost: *mut c_void,
    /// As of the source.
    pub dstDevice: CUdeviceptr,
    /// As of the source.
    pub dstArray: CUarray,
    /// Null.
    pub reserved1: *mut c_void,
    /// As of the source.
    pub dstPitch: usize,
    /// As of the source.
    pub dstHeight: usize,
    /// Bytes of a row to copy.
    pub WidthInBytes: usize,
    /// Rows to copy.
    pub Height: usize,
    /// Slices to copy.
    pub Depth: usize,
}

/// Where memory is.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_snake_case)]
pub struct CUmemLocation {
    /// What kind of place; 1 is a device.
    pub kind: c_uint,
    /// Which one of them.
    pub id: c_int,
}

/// Who may reach memory.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_snake_case)]
pub struct CUmemAccessDesc {
    /// From where.
    pub location: CUmemLocation,
    /// 0 not at all, 1 to read, 3 to read and write.
    pub flags: c_uint,
}

/// What a pool of memory is like.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_snake_case)]
pub struct CUmemPoolProps {
    /// The type of allocation; 1 is pinned.
    pub allocType: c_uint,
    /// The handles under which it can be shared.
    pub handleTypes: c_uint,
    /// Where its memory is.
    pub location: CUmemLocation,
    /// The security attributes on Windows.
    pub win32SecurityAttributes: *mut c_void,
    /// The most bytes; 0 lets the system decide.
    pub maxSize: usize,
    /// What it is used for.
    pub usage: c_ushort,
    /// Whether other devices than GPUs reach it directly, since CUDA 13.
    pub gpuDirectRDMACapable: u8,
    /// Zeros.
    pub reserved: [u8; 53],
}

/// What a memory allocation node allocates.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_snake_case)]
pub struct CUDA_MEM_ALLOC_NODE_PARAMS {
    /// What pool it is from.
    pub poolProps: CUmemPoolProps,
    /// Who else may reach it, or null.
    pub accessDescs: *const CUmemAccessDesc,
    /// How many they are.
    pub accessDescCount: usize,
    /// Bytes.
    pub bytesize: usize,
    /// Where it is: the driver writes it.
    pub dptr: CUdeviceptr,
}

/// Which part of one node comes before which part of another.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_snake_case)]
pub struct CUgraphEdgeData {
    /// The moment of the earlier node: 0 is its end.
    pub from_port: u8,
    /// The part of the later node: 0 is the whole.
    pub to_port: u8,
    /// The type of the edge: 0 is a full dependency.
    pub kind: u8,
    /// Zeros.
    pub reserved: [u8; 5],
}

/// What became of updating an executable graph.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_snake_case)]
pub struct CUgraphExecUpdateResultInfo {
    /// 0 if it was updated, else why not.
    pub result: c_uint,
    /// The node that kept it from being updated, or null.
    pub errorNode: CUgraphNode,
    /// The node that an edge comes from, if an edge kept it, or null.
    pub errorFromNode: CUgraphNode,
}

/// How to make an executable graph, and what became of it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_snake_case)]
pub struct CUDA_GRAPH_INSTANTIATE_PARAMS {
    /// The flags.
    pub flags: u64,
    /// Where to upload it, if the flags say so.
    pub hUploadStream: CUstream,
    /// The node that kept it from being made, or null: the driver writes it.
    pub hErrNode_out: CUgraphNode,
    /// 0 if it was made, else why not: the driver writes it.
    pub result_out: c_uint,
}

/// The parameters of a node of any type.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_snake_case)]
pub struct CUgraphNodeParams {
    /// The type of the node.
    pub kind: c_uint,
    /// Zeros.
    pub reserved0: [c_int; 3],
    /// The parameters of a node of this type, from the beginning.
    pub data: [u64; 29],
    /// Zero.
    pub reserved2: i64,
}
