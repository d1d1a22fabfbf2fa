//! The calls on executable graphs.

// Calls through C function pointers; see `ask!` for what makes them sound, and `Held` for the handles.
#![allow(unsafe_code)]

use super::{Exec, Graph, Node};
use crate::driver::calls::{ask, made};
use crate::driver::ffi::*;
use crate::driver::{Driver, Held, Live};
use crate::error::CudaResult;
use std::ptr;

impl Driver {
    pub(crate) fn graph_instantiate(&self, graph: Graph<'_>, flags: u64) -> CudaResult<CUgraphExec> {
        let mut exec = ptr::null_mut();
        made!(
            self,
            ask!(self.cuGraphInstantiateWithFlags(&mut exec, graph.raw(), flags)),
            exec,
            graph_exec_destroy
        )
    }

    /// Instantiates, and uploads in the stream.
    pub(crate) fn graph_instantiate_and_upload(
        &self,
        graph: Graph<'_>,
        flags: u64,
        stream: Held<'_, CUstream>,
    ) -> CudaResult<CUgraphExec> {
        const UPLOAD: u64 = 2;
        let mut exec = ptr::null_mut();
        let mut params = CUDA_GRAPH_INSTANTIATE_PARAMS {
            flags: flags | UPLOAD,
            hUploadStream: stream.raw(),
            hErrNode_out: ptr::null_mut(),
            result_out: 0,
        };
        let asked = ask!(self.cuGraphInstantiateWithParams(&mut exec, graph.raw(), &mut params));
        made!(self, asked, exec, graph_exec_destroy)
    }

    pub(crate) fn graph_exec_destroy(&self, exec: Exec<'_>) -> CudaResult<()> {
        ask!(self.cuGraphExecDestroy(exec.raw()))
    }

    pub(crate) fn graph_exec_get_flags(&self, exec: Exec<'_>) -> CudaResult<u64> {
        let mut flags = 0;
        ask!(self.cuGraphExecGetFlags(exec.raw(), &mut flags))?;
        Ok(flags)
    }

    #[inline]
    pub(crate) fn graph_launch(&self, exec: Exec<'_>, stream: Held<'_, CUstream>) -> CudaResult<()> {
        ask!(self.cuGraphLaunch(exec.raw(), stream.raw()))
    }

    pub(crate) fn graph_upload(&self, exec: Exec<'_>, stream: Held<'_, CUstream>) -> CudaResult<()> {
        ask!(self.cuGraphUpload(exec.raw(), stream.raw()))
    }

    /// The driver's answer, and, where it says why not, its reason and the node of the graph that it names.
    pub(crate) fn graph_exec_update(
        &self,
        exec: Exec<'_>,
        graph: Graph<'_>,
    ) -> (CudaResult<()>, u32, CUgraphNode) {
        let mut info = CUgraphExecUpdateResultInfo {
            result: 0,
            errorNode: ptr::null_mut(),
            errorFromNode: ptr::null_mut(),
        };
        let answer = ask!(self.cuGraphExecUpdate_v2(exec.raw(), graph.raw(), &mut info));
        (answer, info.result, info.errorNode)
    }

    /// # Safety
    ///
    /// Like [`graph_add_kernel_node`](Self::graph_add_kernel_node), of the graph that this was made of.
    pub(crate) unsafe fn graph_exec_kernel_node_set_params(
        &self,
        exec: Exec<'_>,
        node: Node<'_>,
        params: &CUDA_KERNEL_NODE_PARAMS,
    ) -> CudaResult<()> {
        ask!(self.cuGraphExecKernelNodeSetParams_v2(exec.raw(), node.raw(), params))
    }

    /// # Safety
    ///
    /// Like [`graph_add_memcpy_node`](Self::graph_add_memcpy_node).
    pub(crate) unsafe fn graph_exec_memcpy_node_set_params(
        &self,
        exec: Exec<'_>,
        node: Node<'_>,
        params: &CUDA_MEMCPY3D,
        context: Live<'_>,
    ) -> CudaResult<()> {
        ask!(self.cuGraphExecMemcpyNodeSetParams(exec.raw(), node.raw(), params, context.raw()))
    }

    /// # Safety
    ///
    /// Like [`graph_add_memset_node`](Self::graph_add_memset_node).
    pub(crate) unsafe fn graph_exec_memset_node_set_params(
        &self,
        exec: Exec<'_>,
        node: Node<'_>,
        params: &CUDA_MEMSET_NODE_PARAMS,
        context: Live<'_>,
    ) -> CudaResult<()> {
        ask!(self.cuGraphExecMemsetNodeSetParams(exec.raw(), node.raw(), params, context.raw()))
    }

    /// # Safety
    ///
    /// Like [`graph_add_host_node`](Self::graph_add_host_node).
    pub(crate) unsafe fn graph_exec_host_node_set_params(
        &self,
        exec: Exec<'_>,
        node: Node<'_>,
        params: &CUDA_HOST_NODE_PARAMS,
    ) -> CudaResult<()> {
        ask!(self.cuGraphExecHostNodeSetParams(exec.raw(), node.raw(), params))
    }

    pub(crate) fn graph_exec_child_graph_node_set_params(
        &self,
        exec: Exec<'_>,
        node: Node<'_>,
        child: Graph<'_>,
    ) -> CudaResult<()> {
        ask!(self.cuGraphExecChildGraphNodeSetParams(exec.raw(), node.raw(), child.raw()))
    }

    pub(crate) fn graph_exec_event_record_node_set_event(
        &self,
        exec: Exec<'_>,
        node: Node<'_>,
        event: Held<'_, CUevent>,
    ) -> CudaResult<()> {
        ask!(self.cuGraphExecEventRecordNodeSetEvent(exec.raw(), node.raw(), event.raw()))
    }

    pub(crate) fn graph_exec_event_wait_node_set_event(
        &self,
        exec: Exec<'_>,
        node: Node<'_>,
        event: Held<'_, CUevent>,
    ) -> CudaResult<()> {
        ask!(self.cuGraphExecEventWaitNodeSetEvent(exec.raw(), node.raw(), event.raw()))
    }

    pub(crate) fn graph_node_set_enabled(
        &self,
        exec: Exec<'_>,
        node: Node<'_>,
        enabled: bool,
    ) -> CudaResult<()> {
        ask!(self.cuGraphNodeSetEnabled(exec.raw(), node.raw(), u32::from(enabled)))
    }

    pub(crate) fn graph_node_get_enabled(&self, exec: Exec<'_>, node: Node<'_>) -> CudaResult<bool> {
        let mut enabled = 0;
        ask!(self.cuGraphNodeGetEnabled(exec.raw(), node.raw(), &mut enabled))?;
        Ok(enabled != 0)
    }
}
