//! The C ABI of the graph chapter.

// C functions that read and write through the pointers they are given.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc, unused_variables)]

use crate::driver::ffi::*;
use crate::sim::abi::{c_abi, call};
use crate::sim::machine::NOT_SUPPORTED;
use std::os::raw::{c_char, c_uint, c_ulonglong, c_void};

fn not_yet() -> CUresult {
    call(|m| m.refuse(NOT_SUPPORTED, "graphs are not modelled"))
}

c_abi! {
    fn cuGraphCreate(graph: *mut CUgraph, flags: c_uint) { not_yet() }
    fn cuGraphDestroy(graph: CUgraph) { not_yet() }
    fn cuGraphClone(clone: *mut CUgraph, graph: CUgraph) { not_yet() }
    fn cuGraphNodeFindInClone(node: *mut CUgraphNode, original: CUgraphNode, clone: CUgraph) { not_yet() }
    fn cuGraphNodeGetType(node: CUgraphNode, kind: *mut c_uint) { not_yet() }
    fn cuGraphGetNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) { not_yet() }
    fn cuGraphGetRootNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) { not_yet() }
    fn cuGraphGetEdges(graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, count: *mut usize) { not_yet() }
    fn cuGraphGetEdges_v2(graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, edges: *mut CUgraphEdgeData, count: *mut usize) { not_yet() }
    fn cuGraphNodeGetDependencies(node: CUgraphNode, nodes: *mut CUgraphNode, count: *mut usize) { not_yet() }
    fn cuGraphNodeGetDependencies_v2(node: CUgraphNode, nodes: *mut CUgraphNode, edges: *mut CUgraphEdgeData, count: *mut usize) { not_yet() }
    fn cuGraphNodeGetDependentNodes(node: CUgraphNode, nodes: *mut CUgraphNode, count: *mut usize) { not_yet() }
    fn cuGraphNodeGetDependentNodes_v2(node: CUgraphNode, nodes: *mut CUgraphNode, edges: *mut CUgraphEdgeData, count: *mut usize) { not_yet() }
    fn cuGraphAddDependencies(graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, count: usize) { not_yet() }
    fn cuGraphAddDependencies_v2(graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, edges: *const CUgraphEdgeData, count: usize) { not_yet() }
    fn cuGraphRemoveDependencies(graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, count: usize) { not_yet() }
    fn cuGraphRemoveDependencies_v2(graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, edges: *const CUgraphEdgeData, count: usize) { not_yet() }
    fn cuGraphDestroyNode(node: CUgraphNode) { not_yet() }
    fn cuGraphAddEmptyNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize) { not_yet() }
    fn cuGraphAddKernelNode_v2(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *const CUDA_KERNEL_NODE_PARAMS) { not_yet() }
    fn cuGraphKernelNodeGetParams_v2(node: CUgraphNode, params: *mut CUDA_KERNEL_NODE_PARAMS) { not_yet() }
    fn cuGraphKernelNodeSetParams_v2(node: CUgraphNode, params: *const CUDA_KERNEL_NODE_PARAMS) { not_yet() }
    fn cuGraphAddMemcpyNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *const CUDA_MEMCPY3D, context: CUcontext) { not_yet() }
    fn cuGraphMemcpyNodeGetParams(node: CUgraphNode, params: *mut CUDA_MEMCPY3D) { not_yet() }
    fn cuGraphMemcpyNodeSetParams(node: CUgraphNode, params: *const CUDA_MEMCPY3D) { not_yet() }
    fn cuGraphAddMemsetNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *const CUDA_MEMSET_NODE_PARAMS, context: CUcontext) { not_yet() }
    fn cuGraphMemsetNodeGetParams(node: CUgraphNode, params: *mut CUDA_MEMSET_NODE_PARAMS) { not_yet() }
    fn cuGraphMemsetNodeSetParams(node: CUgraphNode, params: *const CUDA_MEMSET_NODE_PARAMS) { not_yet() }
    fn cuGraphAddHostNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *const CUDA_HOST_NODE_PARAMS) { not_yet() }
    fn cuGraphHostNodeGetParams(node: CUgraphNode, params: *mut CUDA_HOST_NODE_PARAMS) { not_yet() }
    fn cuGraphHostNodeSetParams(node: CUgraphNode, params: *const CUDA_HOST_NODE_PARAMS) { not_yet() }
    fn cuGraphAddChildGraphNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, child: CUgraph) { not_yet() }
    fn cuGraphChildGraphNodeGetGraph(node: CUgraphNode, child: *mut CUgraph) { not_yet() }
    fn cuGraphAddEventRecordNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, event: CUevent) { not_yet() }
    fn cuGraphEventRecordNodeGetEvent(node: CUgraphNode, event: *mut CUevent) { not_yet() }
    fn cuGraphEventRecordNodeSetEvent(node: CUgraphNode, event: CUevent) { not_yet() }
    fn cuGraphAddEventWaitNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, event: CUevent) { not_yet() }
    fn cuGraphEventWaitNodeGetEvent(node: CUgraphNode, event: *mut CUevent) { not_yet() }
    fn cuGraphEventWaitNodeSetEvent(node: CUgraphNode, event: CUevent) { not_yet() }
    fn cuGraphAddMemAllocNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *mut CUDA_MEM_ALLOC_NODE_PARAMS) { not_yet() }
    fn cuGraphMemAllocNodeGetParams(node: CUgraphNode, params: *mut CUDA_MEM_ALLOC_NODE_PARAMS) { not_yet() }
    fn cuGraphAddMemFreeNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, address: CUdeviceptr) { not_yet() }
    fn cuGraphMemFreeNodeGetParams(node: CUgraphNode, address: *mut CUdeviceptr) { not_yet() }
    fn cuGraphInstantiateWithFlags(executable: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong) { not_yet() }
    fn cuGraphInstantiateWithParams(executable: *mut CUgraphExec, graph: CUgraph, params: *mut CUDA_GRAPH_INSTANTIATE_PARAMS) { not_yet() }
    fn cuGraphExecGetFlags(executable: CUgraphExec, flags: *mut c_ulonglong) { not_yet() }
    fn cuGraphExecKernelNodeSetParams_v2(executable: CUgraphExec, node: CUgraphNode, params: *const CUDA_KERNEL_NODE_PARAMS) { not_yet() }
    fn cuGraphExecMemcpyNodeSetParams(executable: CUgraphExec, node: CUgraphNode, params: *const CUDA_MEMCPY3D, context: CUcontext) { not_yet() }
    fn cuGraphExecMemsetNodeSetParams(executable: CUgraphExec, node: CUgraphNode, params: *const CUDA_MEMSET_NODE_PARAMS, context: CUcontext) { not_yet() }
    fn cuGraphExecHostNodeSetParams(executable: CUgraphExec, node: CUgraphNode, params: *const CUDA_HOST_NODE_PARAMS) { not_yet() }
    fn cuGraphExecChildGraphNodeSetParams(executable: CUgraphExec, node: CUgraphNode, child: CUgraph) { not_yet() }
    fn cuGraphExecEventRecordNodeSetEvent(executable: CUgraphExec, node: CUgraphNode, event: CUevent) { not_yet() }
    fn cuGraphExecEventWaitNodeSetEvent(executable: CUgraphExec, node: CUgraphNode, event: CUevent) { not_yet() }
    fn cuGraphNodeSetEnabled(executable: CUgraphExec, node: CUgraphNode, enabled: c_uint) { not_yet() }
    fn cuGraphNodeGetEnabled(executable: CUgraphExec, node: CUgraphNode, enabled: *mut c_uint) { not_yet() }
    fn cuGraphExecUpdate_v2(executable: CUgraphExec, graph: CUgraph, info: *mut CUgraphExecUpdateResultInfo) { not_yet() }
    fn cuGraphUpload(executable: CUgraphExec, stream: CUstream) { not_yet() }
    fn cuGraphLaunch(executable: CUgraphExec, stream: CUstream) { not_yet() }
    fn cuGraphExecDestroy(executable: CUgraphExec) { not_yet() }
    fn cuGraphDebugDotPrint(graph: CUgraph, path: *const c_char, flags: c_uint) { not_yet() }
    fn cuUserObjectCreate(object: *mut CUuserObject, data: *mut c_void, destroy: CUhostFn, count: c_uint, flags: c_uint) { not_yet() }
    fn cuUserObjectRetain(object: CUuserObject, count: c_uint) { not_yet() }
    fn cuUserObjectRelease(object: CUuserObject, count: c_uint) { not_yet() }
    fn cuGraphRetainUserObject(graph: CUgraph, object: CUuserObject, count: c_uint, flags: c_uint) { not_yet() }
    fn cuGraphReleaseUserObject(graph: CUgraph, object: CUuserObject, count: c_uint) { not_yet() }
}
