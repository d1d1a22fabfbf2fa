//! Old functions, each of which is a newer one with other arguments.

#![allow(non_snake_case, reason = "they have the names of C")]

use super::driver::{call, per_thread};
use custack_sys::Table;
use custack_sys::ffi::*;
use std::os::raw::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr::{null, null_mut};

/// Why an executable was not updated.
const TOPOLOGY: c_uint = 2;
const NOT_SUPPORTED: c_uint = 6;
/// The type of nodes with operations on values of memory.
const BATCH: c_uint = 12;
/// The words of the parameters of such a node.
const WORDS: usize = 4;

/// `cuGraphInstantiate` of CUDA 10, which tells what is wrong with the graph by a node and a text.
///
/// # Safety
///
/// As CUDA's manual says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphInstantiate(
    executable: *mut CUgraphExec,
    graph: CUgraph,
    node: *mut CUgraphNode,
    text: *mut c_char,
    length: usize,
) -> CUresult {
    let mut asked = CUDA_GRAPH_INSTANTIATE_PARAMS {
        flags: 0,
        hUploadStream: std::ptr::null_mut(),
        hErrNode_out: std::ptr::null_mut(),
        result_out: 0,
    };
    // SAFETY: the arguments are the caller's own, but for the parameters, which are here.
    let status = call(|table| unsafe { (table.cuGraphInstantiateWithParams)(executable, graph, &mut asked) });
    // SAFETY: what is not NULL may be written, and a text of some length has a first byte.
    unsafe {
        if let Some(node) = node.as_mut() {
            *node = asked.hErrNode_out;
        }
        if let Some(first) = text.as_mut().filter(|_| length > 0) {
            *first = 0;
        }
    }
    status
}

/// `cuGraphInstantiate_v2` of CUDA 11, which is the same.
///
/// # Safety
///
/// As CUDA's manual says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphInstantiate_v2(
    executable: *mut CUgraphExec,
    graph: CUgraph,
    node: *mut CUgraphNode,
    text: *mut c_char,
    length: usize,
) -> CUresult {
    // SAFETY: the arguments are the caller's own.
    unsafe { cuGraphInstantiate(executable, graph, node, text, length) }
}

/// `cuGraphExecUpdate` of CUDA 10.2, which tells a node and a reason.
///
/// # Safety
///
/// As CUDA's manual says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecUpdate(
    executable: CUgraphExec,
    graph: CUgraph,
    node: *mut CUgraphNode,
    reason: *mut c_uint,
) -> CUresult {
    // SAFETY: integers and pointers, of which zeros are values.
    let mut info: CUgraphExecUpdateResultInfo = unsafe { std::mem::zeroed() };
    // SAFETY: the arguments are the caller's own, but for the information, which is here.
    let status = call(|table| unsafe { (table.cuGraphExecUpdate_v2)(executable, graph, &mut info) });
    // SAFETY: what is not NULL may be written.
    unsafe {
        if let Some(node) = node.as_mut() {
            *node = info.errorNode;
        }
        if let Some(reason) = reason.as_mut() {
            // Another number of nodes was no topology of its own then.
            let no_node = info.result == TOPOLOGY && info.errorNode.is_null();
            *reason = if no_node { NOT_SUPPORTED } else { info.result };
        }
    }
    status
}

/// The parameters of a node of any type that have these of a node with operations on values of memory.
///
/// # Safety
///
/// `params` is not NULL, and may be read.
unsafe fn any(params: *const c_void) -> CUgraphNodeParams {
    let mut data = [0; 29];
    // SAFETY: the caller guarantees the parameters, which are `WORDS` words; the last of them has only 4 bytes.
    unsafe { std::ptr::copy_nonoverlapping(params.cast::<u8>(), data.as_mut_ptr().cast(), WORDS * 8 - 4) };
    CUgraphNodeParams { kind: BATCH, reserved0: [0 as c_int; 3], data, reserved2: 0 }
}

/// Calls with the parameters, unless they are NULL.
///
/// # Safety
///
/// `params` is NULL or may be read.
unsafe fn with(
    params: *const c_void,
    f: impl FnOnce(&Table, &mut CUgraphNodeParams) -> CUresult,
) -> CUresult {
    const INVALID_VALUE: CUresult = 1;
    if params.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: not NULL, and the caller guarantees the rest.
    let mut params = unsafe { any(params) };
    call(|table| f(table, &mut params))
}

/// `cuGraphAddBatchMemOpNode`, which is `cuGraphAddNode` for one type.
///
/// # Safety
///
/// As CUDA's manual says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphAddBatchMemOpNode(
    node: *mut CUgraphNode,
    graph: CUgraph,
    after: *const CUgraphNode,
    count: usize,
    params: *const c_void,
) -> CUresult {
    // SAFETY: the arguments are the caller's own.
    unsafe {
        with(params, |table, params| (table.cuGraphAddNode_v2)(node, graph, after, null(), count, params))
    }
}

/// `cuGraphBatchMemOpNodeSetParams`, which is `cuGraphNodeSetParams` for one type.
///
/// # Safety
///
/// As CUDA's manual says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphBatchMemOpNodeSetParams(
    node: CUgraphNode,
    params: *const c_void,
) -> CUresult {
    // SAFETY: the arguments are the caller's own.
    unsafe { with(params, |table, params| (table.cuGraphNodeSetParams)(node, params)) }
}

/// `cuGraphExecBatchMemOpNodeSetParams`, which is `cuGraphExecNodeSetParams` for one type.
///
/// # Safety
///
/// As CUDA's manual says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecBatchMemOpNodeSetParams(
    executable: CUgraphExec,
    node: CUgraphNode,
    params: *const c_void,
) -> CUresult {
    // SAFETY: the arguments are the caller's own.
    unsafe { with(params, |table, params| (table.cuGraphExecNodeSetParams)(executable, node, params)) }
}

/// `cuGraphAddNode` of CUDA 12.2, before edges had data.
///
/// # Safety
///
/// As CUDA's manual says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphAddNode(
    node: *mut CUgraphNode,
    graph: CUgraph,
    after: *const CUgraphNode,
    count: usize,
    params: *mut CUgraphNodeParams,
) -> CUresult {
    // SAFETY: the arguments are the caller's own.
    call(|table| unsafe { (table.cuGraphAddNode_v2)(node, graph, after, null(), count, params) })
}

/// `cuStreamBeginCapture` of CUDA 10.0, before captures had modes: no call is forbidden meanwhile.
///
/// # Safety
///
/// As CUDA's manual says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamBeginCapture(stream: CUstream) -> CUresult {
    const RELAXED: c_uint = 2;
    // SAFETY: the argument is the caller's own.
    call(|table| unsafe { (table.cuStreamBeginCapture_v2)(stream, RELAXED) })
}

/// `cuStreamGetCaptureInfo` of CUDA 10.1, which tells less.
///
/// # Safety
///
/// As CUDA's manual says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetCaptureInfo(
    stream: CUstream,
    capture: *mut c_uint,
    id: *mut c_ulonglong,
) -> CUresult {
    // SAFETY: the arguments are the caller's own, and what is NULL is not asked for.
    call(|table| unsafe {
        (table.cuStreamGetCaptureInfo_v2)(stream, capture, id, null_mut(), null_mut(), null_mut())
    })
}

/// The same with a default stream for each thread.
///
/// # Safety
///
/// As CUDA's manual says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamBeginCapture_ptsz(stream: CUstream) -> CUresult {
    // SAFETY: the argument is the caller's own, but for the stream.
    unsafe { cuStreamBeginCapture(per_thread(stream)) }
}

/// The same with a default stream for each thread.
///
/// # Safety
///
/// As CUDA's manual says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetCaptureInfo_ptsz(
    stream: CUstream,
    capture: *mut c_uint,
    id: *mut c_ulonglong,
) -> CUresult {
    // SAFETY: the arguments are the caller's own, but for the stream.
    unsafe { cuStreamGetCaptureInfo(per_thread(stream), capture, id) }
}

/// `cuGraphInstantiateWithParams`, whose stream is in what its last argument points to.
///
/// # Safety
///
/// As CUDA's manual says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphInstantiateWithParams_ptsz(
    executable: *mut CUgraphExec,
    graph: CUgraph,
    params: *mut CUDA_GRAPH_INSTANTIATE_PARAMS,
) -> CUresult {
    // SAFETY: a pointer that is not NULL points to parameters that may be read and written, as the caller promises.
    let stream = unsafe { params.as_mut() }.map(|it| &mut it.hUploadStream);
    let asked = stream.as_ref().map(|it| **it);
    if let Some(stream) = stream {
        *stream = per_thread(*stream);
    }
    // SAFETY: the arguments are the caller's own, but for the stream.
    let status = call(|table| unsafe { (table.cuGraphInstantiateWithParams)(executable, graph, params) });
    if let Some(asked) = asked {
        // SAFETY: as above. The caller finds the stream that it has given.
        unsafe { (*params).hUploadStream = asked };
    }
    status
}
