//! The C functions that take the parameters of a node of any type, and the attributes of kernel nodes.

// C functions that read and write through the pointers that they get.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::after;
use super::nodes::{self, context_of};
use super::params::{copy, fill, host, kernel};
use crate::abi::{c_abi, call, give};
use crate::graph::Operation;
use crate::machine::*;
use crate::stream::abi::steps_at;
use custack_sys::ffi::*;
use std::os::raw::{c_uint, c_void};

/// Types of nodes.
const KERNEL: c_uint = 0;
const COPY: c_uint = 1;
const FILL: c_uint = 2;
const HOST: c_uint = 3;
const CHILD: c_uint = 4;
const EMPTY: c_uint = 5;
const WAIT: c_uint = 6;
const RECORD: c_uint = 7;
const ALLOCATE: c_uint = 10;
const FREE: c_uint = 11;
const BATCH: c_uint = 12;
const LAST: c_uint = 13;

/// Where the parameters of the type are.
fn params_at<T>(params: *mut CUgraphNodeParams) -> *mut T {
    params.wrapping_byte_add(std::mem::offset_of!(CUgraphNodeParams, data)).cast()
}

/// The type, if there is such a node.
///
/// # Safety
///
/// `params` is NULL or may be read.
unsafe fn kind_of(m: &mut Machine, params: *mut CUgraphNodeParams) -> Answer<c_uint> {
    m.ready()?;
    if params.is_null() {
        return m.refuse(INVALID_VALUE, "parameters are needed, and got NULL");
    }
    // SAFETY: not NULL, and the caller guarantees the rest.
    let CUgraphNodeParams { kind, reserved0, reserved2, .. } = unsafe { params.read() };
    if kind > LAST || reserved0 != [0; 3] || reserved2 != 0 {
        return m.refuse(INVALID_VALUE, format_args!("a node of type {kind}, or what is reserved is not 0"));
    }
    Ok(kind)
}

/// What a node is to do: in this context, if the parameters name none, and with clusters of this size, if its attributes
/// say one.
///
/// # Safety
///
/// What CUDA requires of the parameters of this type.
unsafe fn operation(
    m: &mut Machine,
    kind: c_uint,
    params: *mut CUgraphNodeParams,
    context: CUcontext,
    cluster: Option<[u32; 3]>,
) -> Answer<Operation> {
    let or = |named: CUcontext| if named.is_null() { context } else { named };
    // SAFETY: the caller guarantees the parameters of the type, which each arm reads.
    unsafe {
        match kind {
            KERNEL => kernel(m, params_at(params), cluster),
            COPY => {
                let at = params_at::<u8>(params);
                let named = at.add(8).cast::<CUcontext>().read();
                copy(m, at.add(16).cast(), or(named))
            }
            FILL => {
                let named = params_at::<u8>(params).add(size_of::<CUDA_MEMSET_NODE_PARAMS>());
                fill(m, params_at(params), or(named.cast::<CUcontext>().read()))
            }
            HOST => host(m, params_at(params)),
            EMPTY => Ok(Operation::Empty),
            WAIT | RECORD => {
                let event = params_at::<CUevent>(params).read().addr();
                m.check_event(event)?;
                Ok(if kind == WAIT { Operation::Wait(event) } else { Operation::Record(event) })
            }
            BATCH => {
                let (named, count, list, flags) = batch_at(params_at(params));
                // Its operations are in no context but that which it names.
                if named.is_null() || list.is_null() {
                    return m.refuse(INVALID_VALUE, "a context and operations are needed, and got NULL");
                }
                let context = m.named_context(named.addr())?;
                m.checked_batch(context, steps_at(list, count), flags).map(Operation::Batch)
            }
            _ => m.refuse(NOT_SUPPORTED, format_args!("the parameters of a node of type {kind}")),
        }
    }
}

/// The context, the number of operations, where they are, and the flags.
///
/// # Safety
///
/// They may be read.
unsafe fn batch_at(params: *mut u8) -> (CUcontext, c_uint, *mut c_void, c_uint) {
    // SAFETY: as the caller guarantees.
    unsafe {
        let context = params.cast::<CUcontext>().read();
        let count = params.add(8).cast::<c_uint>().read();
        let list = params.add(16).cast::<*mut c_void>().read();
        (context, count, list, params.add(24).cast::<c_uint>().read())
    }
}

/// Nodes that allocate, free or are a graph come after whole nodes only.
///
/// # Safety
///
/// `edges` is NULL or has `count` places.
unsafe fn are_plain(m: &mut Machine, edges: *const CUgraphEdgeData, count: usize) -> Answer<()> {
    // SAFETY: the caller guarantees the places.
    let plain = |at: usize| unsafe {
        let CUgraphEdgeData { from_port, to_port, kind, .. } = edges.add(at).read();
        [from_port, to_port, kind] == [0; 3]
    };
    if edges.is_null() || (0..count).all(plain) {
        return Ok(());
    }
    m.refuse(INVALID_VALUE, "a node that allocates, frees or is a graph comes after whole nodes")
}

/// # Safety
///
/// As for `cuGraphAddNode`, of these types.
unsafe fn add_special(
    node: *mut CUgraphNode,
    graph: CUgraph,
    after: (*const CUgraphNode, usize),
    kind: c_uint,
    params: *mut CUgraphNodeParams,
) -> CUresult {
    // SAFETY: as the caller guarantees.
    unsafe {
        match kind {
            ALLOCATE => nodes::cuGraphAddMemAllocNode(node, graph, after.0, after.1, params_at(params)),
            FREE => {
                let address = params_at::<CUdeviceptr>(params).read();
                nodes::cuGraphAddMemFreeNode(node, graph, after.0, after.1, address)
            }
            _ => {
                let at = params_at::<u8>(params);
                let (child, moved) = (at.cast::<CUgraph>().read(), at.add(8).cast::<c_uint>().read() != 0);
                if moved {
                    return call(|m| m.refuse(NOT_SUPPORTED, "a child graph that is moved and not copied"));
                }
                nodes::cuGraphAddChildGraphNode(node, graph, after.0, after.1, child)
            }
        }
    }
}

c_abi! {
    fn cuGraphAddNode_v2(node: *mut CUgraphNode, graph: CUgraph, nodes: *const CUgraphNode, edges: *const CUgraphEdgeData, count: usize, params: *mut CUgraphNodeParams) {
        let mut kind = 0;
        let status = call(|m| {
            kind = kind_of(m, params)?;
            let of_kernel = params_at::<CUDA_KERNEL_NODE_PARAMS>(params);
            if kind == KERNEL && (*of_kernel).func.is_null() && (*of_kernel).kern.is_null() {
                return m.refuse(INVALID_HANDLE, "the function is NULL");
            }
            if matches!(kind, ALLOCATE | FREE | CHILD) { are_plain(m, edges, count) } else { Ok(()) }
        });
        if status != CUDA_SUCCESS {
            return status;
        }
        if matches!(kind, ALLOCATE | FREE | CHILD) {
            return add_special(node, graph, (nodes, count), kind, params);
        }
        give(node, |m| {
            let after = after(m, nodes, edges, count)?;
            let what = |m: &mut Machine| operation(m, kind, params, std::ptr::null_mut(), None);
            if kind == BATCH {
                if node.is_null() {
                    return m.refuse(INVALID_VALUE, "the pointer for the node is NULL");
                }
                // Its operations are looked at before it is asked whether it comes after a node twice, and after all else
                // that is asked of each of these nodes.
                m.dependencies(graph.addr(), &[])?;
                after.iter().try_for_each(|edge| m.dependencies(graph.addr(), &[*edge]))?;
                after.iter().try_for_each(|edge| m.check_data(edge, false))?;
                what(m)?;
            }
            m.add_operation(!node.is_null(), graph.addr(), &after, what).map(|it| it as CUgraphNode)
        })
    }
    fn cuGraphNodeSetParams(node: CUgraphNode, params: *mut CUgraphNodeParams) {
        call(|m| {
            let kind = kind_of(m, params)?;
            let context = context_of(m, node)?;
            let cluster = m.operation(node.addr())?.cluster();
            m.set_operation(node.addr(), kind, |m| operation(m, kind, params, context, cluster))
        })
    }
    fn cuGraphExecNodeSetParams(executable: CUgraphExec, node: CUgraphNode, params: *mut CUgraphNodeParams) {
        call(|m| {
            let kind = kind_of(m, params)?;
            if kind == CHILD {
                let child = params_at::<CUgraph>(params).read();
                return m.change_child(executable.addr(), node.addr(), child.addr());
            }
            if kind == EMPTY && m.is_empty_node(node.addr())? {
                return m.is_executable(executable.addr());
            }
            let context = context_of(m, node)?;
            let cluster = m.part(executable.addr(), node.addr())?.operation.cluster();
            m.change(executable.addr(), node.addr(), kind, |m| operation(m, kind, params, context, cluster))
        })
    }
    fn cuGraphKernelNodeCopyAttributes(to: CUgraphNode, from: CUgraphNode) {
        call(|m| m.copy_kernel_attributes(to.addr(), from.addr()))
    }
    fn cuGraphKernelNodeGetAttribute(node: CUgraphNode, attribute: c_uint, value: *mut c_void) {
        call(|m| {
            if value.is_null() {
                return m.refuse(INVALID_VALUE, "the pointer for the attribute is NULL");
            }
            let words = m.kernel_node_attribute(node.addr(), attribute)?;
            words.iter().enumerate().for_each(|(at, word)| value.cast::<u32>().add(at).write(*word));
            Ok(())
        })
    }
    fn cuGraphKernelNodeSetAttribute(node: CUgraphNode, attribute: c_uint, value: *const c_void) {
        call(|m| {
            if value.is_null() {
                return m.misuse(INVALID_VALUE, "the attribute needs a value, and got NULL");
            }
            let read = |at: usize| value.cast::<u32>().add(at).read();
            m.set_kernel_node_attribute(node.addr(), attribute, read)
        })
    }
}
