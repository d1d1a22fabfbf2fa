//! The C ABI of nodes: making them, and setting and querying their parameters.

use super::after;
use crate::driver::ffi::*;
use crate::sim::abi::{c_abi, call, give, give_first};
use crate::sim::function::Asked;
use crate::sim::function::abi::gather;
use crate::sim::graph::memory::PoolAsked;
use crate::sim::graph::{Copy, Fill, Host, Operation, Parameters, Side};
use crate::sim::machine::*;
use crate::sim::memory::{self, HostMemory};
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

/// Reads the parameters behind a pointer.
///
/// # Safety
///
/// `params` is NULL or may be read.
unsafe fn given<T: std::marker::Copy>(machine: &mut Machine, params: *const T) -> Answer<T> {
    if params.is_null() {
        return machine.refuse(INVALID_VALUE, "parameters are needed, and got NULL");
    }
    // SAFETY: not NULL, and the caller guarantees the rest.
    Ok(unsafe { params.read() })
}

/// # Safety
///
/// What CUDA requires of the pointers in the parameters.
pub(super) unsafe fn kernel(m: &mut Machine, params: *const CUDA_KERNEL_NODE_PARAMS) -> Answer<Operation> {
    // SAFETY: as the caller guarantees.
    let params = unsafe { given(m, params)? };
    if params.func.is_null() && params.kern.is_null() {
        return m.refuse(INVALID_HANDLE, "the function is NULL");
    }
    if m.top()? == 0 {
        return m.misuse(INVALID_CONTEXT, "a kernel node while no context is current");
    }
    let context = m.named_context(params.ctx.addr())?;
    let function = match params.func.is_null() {
        true => m.function_of_kernel_in(params.kern.addr(), context)?,
        false => params.func.addr(),
    };
    // SAFETY: as the caller guarantees.
    let gathered = unsafe { gather(m, function, params.kernelParams, params.extra) };
    // Of more parameters than the kernel has, a launch says something else than a node.
    let parameters: Parameters =
        gathered.map_err(|status| if status == OUT_OF_RESOURCES { INVALID_VALUE } else { status })?;
    let grid = [params.gridDimX, params.gridDimY, params.gridDimZ];
    let block = [params.blockDimX, params.blockDimY, params.blockDimZ];
    let asked = Asked {
        function,
        grid,
        block,
        shared: params.sharedMemBytes as usize,
        cooperative: false,
        cluster: None,
    };
    m.kernel(&asked, parameters).map(Operation::Kernel)
}

/// # Safety
///
/// What CUDA requires of the pointers in the parameters.
pub(super) unsafe fn copy(
    m: &mut Machine,
    params: *const CUDA_MEMCPY3D,
    context: CUcontext,
) -> Answer<Operation> {
    // SAFETY: as the caller guarantees.
    let it = unsafe { given(m, params)? };
    let context = m.named_context(context.addr())?;
    // SAFETY: as the caller guarantees.
    let copy = m.with_arrays(unsafe { copy_of(&it, context) })?;
    m.check_copy(&copy)?;
    Ok(Operation::Copy(copy.at_home()))
}

/// # Safety
///
/// What CUDA requires of the pointers in the parameters.
pub(in crate::sim) unsafe fn copy_of(it: &CUDA_MEMCPY3D, context: Handle) -> Copy {
    let extent = [it.WidthInBytes, it.Height, it.Depth];
    let side = |kind: u32,
                host: usize,
                device: u64,
                array: CUarray,
                start: [usize; 3],
                level,
                pitch,
                height| {
        let found =
            Side { kind, host: HostMemory::none(), device, array: array.addr(), start, level, pitch, height };
        let bytes = if kind == 1 { found.span(extent) } else { 0 };
        // SAFETY: the caller guarantees as many bytes as the parameters speak of.
        Side { host: unsafe { HostMemory::new(host, bytes) }, ..found }
    };
    let from = [it.srcXInBytes, it.srcY, it.srcZ];
    let from = side(
        it.srcMemoryType,
        it.srcHost.addr(),
        it.srcDevice,
        it.srcArray,
        from,
        it.srcLOD,
        it.srcPitch,
        it.srcHeight,
    );
    let to = [it.dstXInBytes, it.dstY, it.dstZ];
    let to = side(
        it.dstMemoryType,
        it.dstHost.addr(),
        it.dstDevice,
        it.dstArray,
        to,
        it.dstLOD,
        it.dstPitch,
        it.dstHeight,
    );
    Copy { context, home: 0, from, to, extent }
}

fn params_of(copy: &Copy) -> CUDA_MEMCPY3D {
    let Copy { from, to, extent, .. } = copy;
    CUDA_MEMCPY3D {
        srcXInBytes: from.start[0],
        srcY: from.start[1],
        srcZ: from.start[2],
        srcLOD: from.level,
        srcMemoryType: from.kind,
        srcHost: from.host.address() as *const c_void,
        srcDevice: from.told().0,
        srcArray: from.array as CUarray,
        reserved0: null_mut(),
        srcPitch: from.told().1,
        srcHeight: from.told().2,
        dstXInBytes: to.start[0],
        dstY: to.start[1],
        dstZ: to.start[2],
        dstLOD: to.level,
        dstMemoryType: to.kind,
        dstHost: to.host.address() as *mut c_void,
        dstDevice: to.told().0,
        dstArray: to.array as CUarray,
        reserved1: null_mut(),
        dstPitch: to.told().1,
        dstHeight: to.told().2,
        WidthInBytes: extent[0],
        Height: extent[1],
        Depth: extent[2],
    }
}

/// # Safety
///
/// `params` is NULL or may be read.
pub(super) unsafe fn fill(
    m: &mut Machine,
    params: *const CUDA_MEMSET_NODE_PARAMS,
    context: CUcontext,
) -> Answer<Operation> {
    // SAFETY: as the caller guarantees.
    let it = unsafe { given(m, params)? };
    if context.is_null() {
        m.check_home(it.dst)?;
    }
    let context = m.named_context(context.addr())?;
    let (to, pitch, value, element) = (it.dst, it.pitch, it.value, it.elementSize);
    let home = memory::lock().context_of(to);
    let fill = Fill { context, home, to, pitch, value, element, width: it.width, height: it.height };
    m.check_fill(&fill)?;
    Ok(Operation::Fill(fill))
}

/// # Safety
///
/// `params` is NULL or may be read.
pub(super) unsafe fn host(m: &mut Machine, params: *const CUDA_HOST_NODE_PARAMS) -> Answer<Operation> {
    // SAFETY: as the caller guarantees.
    let it = unsafe { given(m, params)? };
    m.check_host(Host { function: it.fn_, data: it.userData.addr() })
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
        let status = call(|m| kernel(m, params).map(|found| operation = Some(found)));
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
        call(|m| m.set_operation(node.addr(), 0, |m| kernel(m, params)))
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
