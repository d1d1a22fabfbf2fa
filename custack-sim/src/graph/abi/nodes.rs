//! The C ABI of nodes: making them, and setting and querying their parameters.

use super::after;
use super::params::{copy, fill, given, host, kernel, params_of};
use crate::abi::{c_abi, call, give, give_first};
use crate::graph::Operation;
use crate::graph::memory::PoolAsked;
use crate::machine::*;
use custack_sys::ffi::*;
use std::os::raw::{c_uint, c_void};
use std::ptr::{null, null_mut};

/// Adds a node and returns its handle.
///
/// # Safety
///
/// `out` is NULL or may be written, and `nodes` is NULL or has `count` places.
unsafe fn add(
    out: *mut CUgraphNode,
    graph: CUgraph,
    nodes: *const CUgraphNode,
    count: usize,
    operation: impl FnOnce(&mut Machine) -> Answer<Operation>,
) -> CUresult {
    // SAFETY: as the caller guarantees.
    unsafe {
        give(out, |m| {
            let after = after(m, nodes, null(), count)?;
            m.add_operation(!out.is_null(), graph.addr(), &after, operation).map(|it| it as CUgraphNode)
        })
    }
}

/// Notes an attempt to add a node that allocates or frees, which the graph remembers even if it fails, unless there is
/// no place for the node's handle.
///
/// # Safety
///
/// `nodes` is NULL or has `count` places.
unsafe fn note_memory(out: *mut CUgraphNode, graph: CUgraph, nodes: *const CUgraphNode, count: usize) {
    call(|m| {
        // SAFETY: as the caller guarantees.
        let after = unsafe { after(m, nodes, null(), count) };
        if let (Ok(after), false, Ok(())) = (after, out.is_null(), m.may_have_memory(graph.addr())) {
            m.note_memory(graph.addr(), &after);
        }
        Ok(())
    });
}

/// Changes of parameters stay in the context that the node has.
pub(super) fn context_of(m: &mut Machine, node: CUgraphNode) -> Answer<CUcontext> {
    m.node_context(node.addr()).map(|context| context as CUcontext)
}

c_abi! {
    fn cuGraphAddEmptyNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize) {
        add(node, graph, after, count, |_| Ok(Operation::Empty))
    }
    fn cuGraphAddKernelNode_v2(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *const CUDA_KERNEL_NODE_PARAMS) {
        // What is wrong with the kernel is said before what is wrong with the graph.
        let mut operation = None;
        let status = call(|m| kernel(m, params, None).map(|found| operation = Some(found)));
        match operation {
            Some(operation) => add(node, graph, after, count, |_| Ok(operation)),
            None => status,
        }
    }
    fn cuGraphKernelNodeGetParams_v2(node: CUgraphNode, params: *mut CUDA_KERNEL_NODE_PARAMS) {
        give_first(params, |m| {
            let it = m.node_kernel(node.addr())?;
            let kern = m.kernel_of_function(it.function).unwrap_or(0) as CUkernel;
            let pointers = it.parameters.addresses.as_ptr().cast::<*mut c_void>().cast_mut();
            let extra = it.parameters.piece.as_ref().map_or(null(), |(list, _)| list.as_ptr());
            Ok(CUDA_KERNEL_NODE_PARAMS {
                func: it.function as CUfunction,
                gridDimX: it.grid[0],
                gridDimY: it.grid[1],
                gridDimZ: it.grid[2],
                blockDimX: it.block[0],
                blockDimY: it.block[1],
                blockDimZ: it.block[2],
                sharedMemBytes: it.shared as c_uint,
                kernelParams: if it.parameters.addresses.is_empty() { null_mut() } else { pointers },
                extra: extra.cast::<*mut c_void>().cast_mut(),
                kern,
                ctx: it.told_context() as CUcontext,
            })
        })
    }
    fn cuGraphKernelNodeSetParams_v2(node: CUgraphNode, params: *const CUDA_KERNEL_NODE_PARAMS) {
        call(|m| {
            let cluster = m.operation(node.addr())?.cluster();
            m.set_operation(node.addr(), 0, |m| kernel(m, params, cluster))
        })
    }
    fn cuGraphAddMemcpyNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *const CUDA_MEMCPY3D, context: CUcontext) {
        add(node, graph, after, count, |m| copy(m, params, context))
    }
    fn cuGraphMemcpyNodeGetParams(node: CUgraphNode, params: *mut CUDA_MEMCPY3D) {
        give_first(params, |m| m.node_copy(node.addr()).map(|copy| params_of(&copy)))
    }
    fn cuGraphMemcpyNodeSetParams(node: CUgraphNode, params: *const CUDA_MEMCPY3D) {
        call(|m| {
            let context = context_of(m, node)?;
            m.set_operation(node.addr(), 1, |m| copy(m, params, context))
        })
    }
    fn cuGraphAddMemsetNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *const CUDA_MEMSET_NODE_PARAMS, context: CUcontext) {
        add(node, graph, after, count, |m| fill(m, params, context))
    }
    fn cuGraphMemsetNodeGetParams(node: CUgraphNode, params: *mut CUDA_MEMSET_NODE_PARAMS) {
        give_first(params, |m| {
            let it = m.node_fill(node.addr())?;
            let (dst, pitch, value, elementSize) = (it.to, it.pitch, it.value, it.element);
            Ok(CUDA_MEMSET_NODE_PARAMS { dst, pitch, value, elementSize, width: it.width, height: it.height })
        })
    }
    fn cuGraphMemsetNodeSetParams(node: CUgraphNode, params: *const CUDA_MEMSET_NODE_PARAMS) {
        call(|m| {
            let context = context_of(m, node)?;
            m.set_operation(node.addr(), 2, |m| fill(m, params, context))
        })
    }
    fn cuGraphAddHostNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *const CUDA_HOST_NODE_PARAMS) {
        add(node, graph, after, count, |m| host(m, params))
    }
    fn cuGraphHostNodeGetParams(node: CUgraphNode, params: *mut CUDA_HOST_NODE_PARAMS) {
        give_first(params, |m| {
            let it = m.node_host(node.addr())?;
            Ok(CUDA_HOST_NODE_PARAMS { fn_: it.function, userData: it.data as *mut c_void })
        })
    }
    fn cuGraphHostNodeSetParams(node: CUgraphNode, params: *const CUDA_HOST_NODE_PARAMS) {
        call(|m| m.set_operation(node.addr(), 3, |m| host(m, params)))
    }
    fn cuGraphAddChildGraphNode(node: *mut CUgraphNode, graph: CUgraph, nodes: *const CUgraphNode, count: usize, child: CUgraph) {
        give(node, |m| {
            let after = after(m, nodes, null(), count)?;
            m.add_child(!node.is_null(), graph.addr(), &after, child.addr()).map(|it| it as CUgraphNode)
        })
    }
    fn cuGraphAddEventRecordNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, event: CUevent) {
        add(node, graph, after, count, |m| m.check_event(event.addr()).map(|()| Operation::Record(event.addr())))
    }
    fn cuGraphEventRecordNodeGetEvent(node: CUgraphNode, event: *mut CUevent) {
        give_first(event, |m| m.node_event(node.addr(), true).map(|it| it as CUevent))
    }
    fn cuGraphEventRecordNodeSetEvent(node: CUgraphNode, event: CUevent) {
        call(|m| {
            m.set_operation(node.addr(), 7, |m| m.check_event(event.addr()).map(|()| Operation::Record(event.addr())))
        })
    }
    fn cuGraphAddEventWaitNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, event: CUevent) {
        add(node, graph, after, count, |m| m.check_event(event.addr()).map(|()| Operation::Wait(event.addr())))
    }
    fn cuGraphEventWaitNodeGetEvent(node: CUgraphNode, event: *mut CUevent) {
        give_first(event, |m| m.node_event(node.addr(), false).map(|it| it as CUevent))
    }
    fn cuGraphEventWaitNodeSetEvent(node: CUgraphNode, event: CUevent) {
        call(|m| m.set_operation(node.addr(), 6, |m| m.check_event(event.addr()).map(|()| Operation::Wait(event.addr()))))
    }
    fn cuGraphAddMemAllocNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *mut CUDA_MEM_ALLOC_NODE_PARAMS) {
        let mut address = 0;
        let asked = params.as_ref().map(|it| PoolAsked::new(&it.poolProps, it.bytesize));
        if asked.is_some_and(|asked| call(|m| m.check_allocation(&asked)) == CUDA_SUCCESS) {
            note_memory(node, graph, after, count);
        }
        let status = add(node, graph, after, count, |m| {
            let it = given(m, params.cast_const())?;
            m.check_allocation(&PoolAsked::new(&it.poolProps, it.bytesize))?;
            m.may_have_memory(graph.addr())?;
            let operation = m.allocation(it.bytesize, it.poolProps.location.id)?;
            if let Operation::Allocate(allocation) = &operation {
                address = allocation.address;
            }
            Ok(operation)
        });
        if status == CUDA_SUCCESS {
            (*params).dptr = address;
        }
        status
    }
    fn cuGraphMemAllocNodeGetParams(node: CUgraphNode, params: *mut CUDA_MEM_ALLOC_NODE_PARAMS) {
        give_first(params, |m| {
            let it = m.node_allocation(node.addr())?;
            let poolProps = CUmemPoolProps {
                allocType: 1,
                handleTypes: 0,
                location: CUmemLocation { kind: 1, id: it.device },
                win32SecurityAttributes: null_mut(),
                maxSize: 0,
                usage: 0,
                gpuDirectRDMACapable: 0,
                reserved: [0; 53],
            };
            let (accessDescs, accessDescCount) = (null(), 0);
            Ok(CUDA_MEM_ALLOC_NODE_PARAMS { poolProps, accessDescs, accessDescCount, bytesize: it.size, dptr: it.address })
        })
    }
    fn cuGraphAddMemFreeNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, address: CUdeviceptr) {
        note_memory(node, graph, after, count);
        add(node, graph, after, count, |m| {
            m.may_have_memory(graph.addr())?;
            m.check_free(graph.addr(), address)
        })
    }
    fn cuGraphMemFreeNodeGetParams(node: CUgraphNode, address: *mut CUdeviceptr) {
        give_first(address, |m| m.node_free(node.addr()))
    }
}
