//! Functions of CUDA 10 and 11 for nodes that launch kernels, whose parameters know functions only: no kernels of libraries.

#![allow(non_snake_case, reason = "they have the names of C")]

use super::driver::call;
use custack_sys::ffi::*;
use std::os::raw::{c_uint, c_void};
use std::ptr::{null, null_mut};

const INVALID_VALUE: CUresult = 1;

/// The parameters of a node that launches a kernel, before there were kernels of libraries.
#[repr(C)]
pub struct CUDA_KERNEL_NODE_PARAMS_v1 {
    func: CUfunction,
    gridDim: [c_uint; 3],
    blockDim: [c_uint; 3],
    sharedMemBytes: c_uint,
    kernelParams: *mut *mut c_void,
    extra: *mut *mut c_void,
}

impl CUDA_KERNEL_NODE_PARAMS_v1 {
    /// The same for a function that knows kernels too.
    fn newer(&self) -> CUDA_KERNEL_NODE_PARAMS {
        let ([gridDimX, gridDimY, gridDimZ], [blockDimX, blockDimY, blockDimZ]) =
            (self.gridDim, self.blockDim);
        CUDA_KERNEL_NODE_PARAMS {
            func: self.func,
            gridDimX,
            gridDimY,
            gridDimZ,
            blockDimX,
            blockDimY,
            blockDimZ,
            sharedMemBytes: self.sharedMemBytes,
            kernelParams: self.kernelParams,
            extra: self.extra,
            kern: null_mut(),
            ctx: null_mut(),
        }
    }
}

/// Calls with the newer parameters, or with NULL for NULL.
///
/// # Safety
///
/// `params` is NULL or may be read.
unsafe fn with(
    params: *const CUDA_KERNEL_NODE_PARAMS_v1,
    f: impl FnOnce(&custack_sys::Table, *const CUDA_KERNEL_NODE_PARAMS) -> CUresult,
) -> CUresult {
    // SAFETY: the caller guarantees what is not NULL.
    let newer = unsafe { params.as_ref() }.map(CUDA_KERNEL_NODE_PARAMS_v1::newer);
    call(|table| f(table, newer.as_ref().map_or(null(), std::ptr::from_ref)))
}

/// Adds a node that launches a function.
///
/// # Safety
///
/// As CUDA's manual says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphAddKernelNode(
    node: *mut CUgraphNode,
    graph: CUgraph,
    after: *const CUgraphNode,
    count: usize,
    params: *const CUDA_KERNEL_NODE_PARAMS_v1,
) -> CUresult {
    // SAFETY: the arguments are the caller's own, but for the parameters, which are here.
    unsafe {
        with(params, |table, params| (table.cuGraphAddKernelNode_v2)(node, graph, after, count, params))
    }
}

/// Tells what a node launches.
///
/// # Safety
///
/// As CUDA's manual says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphKernelNodeGetParams(
    node: CUgraphNode,
    params: *mut CUDA_KERNEL_NODE_PARAMS_v1,
) -> CUresult {
    if params.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: integers and pointers, of which zeros are values.
    let mut newer: CUDA_KERNEL_NODE_PARAMS = unsafe { std::mem::zeroed() };
    // SAFETY: the node is the simulated driver's to check, and the parameters are here.
    let status = call(|table| unsafe { (table.cuGraphKernelNodeGetParams_v2)(node, &mut newer) });
    if status != 0 {
        return status;
    }
    if newer.func.is_null() {
        // SAFETY: the kernel is what the simulated driver has told, and the function is here.
        let status = call(|table| unsafe { (table.cuKernelGetFunction)(&mut newer.func, newer.kern.cast()) });
        if status != 0 {
            return status;
        }
    }
    let older = CUDA_KERNEL_NODE_PARAMS_v1 {
        func: newer.func,
        gridDim: [newer.gridDimX, newer.gridDimY, newer.gridDimZ],
        blockDim: [newer.blockDimX, newer.blockDimY, newer.blockDimZ],
        sharedMemBytes: newer.sharedMemBytes,
        kernelParams: newer.kernelParams,
        extra: newer.extra,
    };
    // SAFETY: not NULL, and the caller guarantees that it may be written.
    unsafe { params.write(older) };
    0
}

/// Changes what a node launches.
///
/// # Safety
///
/// As CUDA's manual says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphKernelNodeSetParams(
    node: CUgraphNode,
    params: *const CUDA_KERNEL_NODE_PARAMS_v1,
) -> CUresult {
    // SAFETY: the arguments are the caller's own, but for the parameters, which are here.
    unsafe { with(params, |table, params| (table.cuGraphKernelNodeSetParams_v2)(node, params)) }
}

/// Changes what a node of an executable graph launches.
///
/// # Safety
///
/// As CUDA's manual says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecKernelNodeSetParams(
    executable: CUgraphExec,
    node: CUgraphNode,
    params: *const CUDA_KERNEL_NODE_PARAMS_v1,
) -> CUresult {
    // SAFETY: the arguments are the caller's own, but for the parameters, which are here.
    unsafe {
        with(params, |table, params| (table.cuGraphExecKernelNodeSetParams_v2)(executable, node, params))
    }
}
