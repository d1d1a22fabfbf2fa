//! The C ABI of executable graphs.

use super::params::{copy, fill, host, kernel};
use crate::abi::{c_abi, call, give, give_first};
use crate::graph::{ERROR, Operation};
use crate::machine::*;
use custack_sys::ffi::*;
use std::os::raw::{c_uint, c_ulonglong};

c_abi! {
    fn cuGraphInstantiateWithFlags(executable: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong) {
        give(executable, |m| {
            m.instantiate_plain(!executable.is_null(), graph.addr(), flags).map(|it| it as CUgraphExec)
        })
    }
    fn cuGraphInstantiateWithParams(executable: *mut CUgraphExec, graph: CUgraph, params: *mut CUDA_GRAPH_INSTANTIATE_PARAMS) {
        if let Some(params) = params.as_mut() {
            params.result_out = ERROR;
            params.hErrNode_out = std::ptr::null_mut();
        }
        give(executable, |m| {
            let Some(params) = params.as_mut() else {
                return m.refuse(INVALID_VALUE, "parameters are needed, and got NULL");
            };
            let stream = params.hUploadStream.addr();
            let made = m.instantiate(!executable.is_null(), graph.addr(), params.flags, stream);
            let (reason, node) = made.as_ref().map_or_else(|not_made| (not_made.reason, not_made.node), |_| (0, 0));
            params.result_out = reason;
            params.hErrNode_out = node as CUgraphNode;
            made.map(|it| it as CUgraphExec).map_err(|not_made| not_made.status)
        })
    }
    fn cuGraphExecGetFlags(executable: CUgraphExec, flags: *mut c_ulonglong) {
        give_first(flags, |m| m.executable_flags(executable.addr()))
    }
    fn cuGraphExecKernelNodeSetParams_v2(executable: CUgraphExec, node: CUgraphNode, params: *const CUDA_KERNEL_NODE_PARAMS) {
        call(|m| {
            let cluster = m.part(executable.addr(), node.addr())?.operation.cluster();
            m.change(executable.addr(), node.addr(), 0, |m| kernel(m, params, cluster))
        })
    }
    fn cuGraphExecMemcpyNodeSetParams(executable: CUgraphExec, node: CUgraphNode, params: *const CUDA_MEMCPY3D, context: CUcontext) {
        call(|m| m.change(executable.addr(), node.addr(), 1, |m| copy(m, params, context)))
    }
    fn cuGraphExecMemsetNodeSetParams(executable: CUgraphExec, node: CUgraphNode, params: *const CUDA_MEMSET_NODE_PARAMS, context: CUcontext) {
        call(|m| {
            m.change(executable.addr(), node.addr(), 2, |m| {
                let named = m.named_context(context.addr())?;
                fill(m, params, named as CUcontext)
            })
        })
    }
    fn cuGraphExecHostNodeSetParams(executable: CUgraphExec, node: CUgraphNode, params: *const CUDA_HOST_NODE_PARAMS) {
        call(|m| m.change(executable.addr(), node.addr(), 3, |m| host(m, params)))
    }
    fn cuGraphExecChildGraphNodeSetParams(executable: CUgraphExec, node: CUgraphNode, child: CUgraph) {
        call(|m| m.change_child(executable.addr(), node.addr(), child.addr()))
    }
    fn cuGraphExecEventRecordNodeSetEvent(executable: CUgraphExec, node: CUgraphNode, event: CUevent) {
        call(|m| {
            m.change(executable.addr(), node.addr(), 7, |m| {
                m.check_event(event.addr()).map(|()| Operation::Record(event.addr()))
            })
        })
    }
    fn cuGraphExecEventWaitNodeSetEvent(executable: CUgraphExec, node: CUgraphNode, event: CUevent) {
        call(|m| {
            m.change(executable.addr(), node.addr(), 6, |m| m.check_event(event.addr()).map(|()| Operation::Wait(event.addr())))
        })
    }
    fn cuGraphNodeSetEnabled(executable: CUgraphExec, node: CUgraphNode, enabled: c_uint) {
        call(|m| m.enable(executable.addr(), node.addr(), enabled != 0))
    }
    fn cuGraphNodeGetEnabled(executable: CUgraphExec, node: CUgraphNode, enabled: *mut c_uint) {
        give_first(enabled, |m| m.is_enabled(executable.addr(), node.addr()))
    }
    fn cuGraphExecUpdate_v2(executable: CUgraphExec, graph: CUgraph, info: *mut CUgraphExecUpdateResultInfo) {
        call(|m| {
            let (status, difference) = m.update(executable.addr(), graph.addr());
            if let Some(info) = info.as_mut() {
                info.result = difference.reason;
                info.errorNode = difference.node as CUgraphNode;
                info.errorFromNode = difference.from as CUgraphNode;
            }
            if status == CUDA_SUCCESS { Ok(()) } else { Err(status) }
        })
    }
    fn cuGraphUpload(executable: CUgraphExec, stream: CUstream) {
        call(|m| m.upload_graph(executable.addr(), stream.addr()))
    }
    fn cuGraphLaunch(executable: CUgraphExec, stream: CUstream) {
        call(|m| m.launch_graph(executable.addr(), stream.addr()))
    }
    fn cuGraphExecDestroy(executable: CUgraphExec) { call(|m| m.destroy_executable(executable.addr())) }
}
