//! Changing single nodes of an executable graph.

// Keys that were looked up become handles, and who gives a node addresses promises that they are right.
#![allow(unsafe_code)]

use super::work::kernel;
use super::{CopyParams, FillParams, Graph, GraphExec, Node, kept};
use crate::context::UnownedContext;
use crate::driver::ffi::{CUgraphExec, CUgraphNode};
use crate::driver::{Driver, Held};
use crate::error::{CudaError, CudaResult};
use crate::event::Event;
use crate::function::{BlockSize, Function, GridSize};
use std::os::raw::c_void;
use std::sync::Arc;

/// What changes one node: it changes the launches that come, and neither those that were given before nor the graph. The
/// graph is the one that the executable was made of, which tells which node it is.
///
/// What is kept for it is kept as long as the executable, and until its last launch is over.
impl GraphExec {
    /// Has a kernel node launch this.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](CudaError::InvalidHandle) for a node of another graph than the executable was made of;
    /// [`InvalidValue`](CudaError::InvalidValue) for a node of another kind, and for what such a node cannot become.
    ///
    /// # Safety
    ///
    /// As [`Graph::add_kernel`], for what is launched from now on.
    #[doc(alias("cuGraphExecKernelNodeSetParams", "cuGraphExecKernelNodeSetParams_v2"))]
    #[allow(clippy::too_many_arguments, reason = "those of a launch, and three")]
    pub unsafe fn set_kernel<G: Into<GridSize>, B: Into<BlockSize>>(
        &mut self,
        graph: &mut Graph,
        node: Node,
        function: &Function<'_>,
        grid: G,
        block: B,
        shared_mem_bytes: u32,
        args: &[*mut c_void],
        keep: impl Send + 'static,
    ) -> CudaResult<()> {
        function.refuse_another_count(args.len())?;
        let params = kernel(function, grid.into(), block.into(), shared_mem_bytes).raw(args);
        self.set(graph, node, function.context(), keep, |driver, exec, node| {
            // SAFETY: the caller's promise.
            unsafe { driver.graph_exec_kernel_node_set_params(exec, node, &params) }
        })
    }

    /// Has a copy node copy this.
    ///
    /// # Errors
    ///
    /// As [`set_kernel`](Self::set_kernel).
    ///
    /// # Safety
    ///
    /// As [`Graph::add_copy`], for what is launched from now on.
    #[doc(alias = "cuGraphExecMemcpyNodeSetParams")]
    pub unsafe fn set_copy(
        &mut self,
        graph: &mut Graph,
        node: Node,
        params: &CopyParams,
        keep: impl Send + 'static,
    ) -> CudaResult<()> {
        let (context, params) = (graph.context().clone(), params.raw());
        self.set(graph, node, &context, keep, |driver, exec, node| {
            // SAFETY: the caller's promise.
            context.lease(|live| unsafe {
                driver.graph_exec_memcpy_node_set_params(exec, node, &params, live)
            })?
        })
    }

    /// Has a fill node fill this.
    ///
    /// # Errors
    ///
    /// As [`set_kernel`](Self::set_kernel).
    ///
    /// # Safety
    ///
    /// As [`Graph::add_fill`], for what is launched from now on.
    #[doc(alias = "cuGraphExecMemsetNodeSetParams")]
    pub unsafe fn set_fill(
        &mut self,
        graph: &mut Graph,
        node: Node,
        params: &FillParams,
        keep: impl Send + 'static,
    ) -> CudaResult<()> {
        let (context, params) = (graph.context().clone(), params.raw());
        self.set(graph, node, &context, keep, |driver, exec, node| {
            // SAFETY: the caller's promise.
            context.lease(|live| unsafe {
                driver.graph_exec_memset_node_set_params(exec, node, &params, live)
            })?
        })
    }

    /// Has a host function's node call this function.
    ///
    /// # Errors
    ///
    /// As [`set_kernel`](Self::set_kernel).
    #[doc(alias = "cuGraphExecHostNodeSetParams")]
    pub fn set_host_func(
        &mut self,
        graph: &mut Graph,
        node: Node,
        f: impl FnMut() + Send + 'static,
    ) -> CudaResult<()> {
        let context = graph.context().clone();
        let (keep, params) = kept::host_function(f);
        self.set(graph, node, &context, keep, |driver, exec, node| {
            // SAFETY: the executable keeps the function.
            unsafe { driver.graph_exec_host_node_set_params(exec, node, &params) }
        })
    }

    /// Has a node that records or waits for an event do so with this one.
    ///
    /// # Errors
    ///
    /// As [`set_kernel`](Self::set_kernel); [`ContextIsDestroyed`](CudaError::ContextIsDestroyed) for the event's.
    #[doc(alias("cuGraphExecEventRecordNodeSetEvent", "cuGraphExecEventWaitNodeSetEvent"))]
    pub fn set_event(&mut self, graph: &mut Graph, node: Node, event: &Arc<Event>) -> CudaResult<()> {
        let records = graph.records(node)?;
        self.set(graph, node, event.context(), Arc::clone(event), |driver, exec, node| {
            event.inner().with(|_, event| match records {
                true => driver.graph_exec_event_record_node_set_event(exec, node, event),
                false => driver.graph_exec_event_wait_node_set_event(exec, node, event),
            })
        })
    }

    /// Has a child node be the other graph, which must differ in parameters alone.
    ///
    /// # Errors
    ///
    /// As [`set_kernel`](Self::set_kernel).
    #[doc(alias = "cuGraphExecChildGraphNodeSetParams")]
    pub fn set_child(&mut self, graph: &mut Graph, node: Node, child: &mut Graph) -> CudaResult<()> {
        let pins = child.more_pins()?;
        let context = child.context().clone();
        let set = self.set(graph, node, &context, (), |driver, exec, node| {
            child.with(|_, child| driver.graph_exec_child_graph_node_set_params(exec, node, child))
        });
        self.pin(pins);
        set
    }

    /// Has a kernel, copy or fill node do nothing, or something again (CUDA 11.6 and later).
    ///
    /// # Errors
    ///
    /// As [`set_kernel`](Self::set_kernel).
    #[doc(alias = "cuGraphNodeSetEnabled")]
    pub fn set_enabled(&mut self, graph: &mut Graph, node: Node, enabled: bool) -> CudaResult<()> {
        let context = graph.context().clone();
        self.set(graph, node, &context, (), |driver, exec, node| {
            driver.graph_node_set_enabled(exec, node, enabled)
        })
    }

    /// Whether the node does something.
    ///
    /// # Errors
    ///
    /// As [`set_kernel`](Self::set_kernel).
    #[doc(alias = "cuGraphNodeGetEnabled")]
    pub fn is_enabled(&mut self, graph: &mut Graph, node: Node) -> CudaResult<bool> {
        let raw = self.find(graph, node)?;
        graph.with(|_, _| {
            // SAFETY: the key was looked up in the graph, which is borrowed.
            self.with(|driver, exec| driver.graph_node_get_enabled(exec, unsafe { Held::new(raw) }))
        })
    }

    fn find(&self, graph: &Graph, node: Node) -> CudaResult<CUgraphNode> {
        if graph.nodes.graph() != self.source {
            return Err(CudaError::InvalidHandle
                .note(format_args!("to change {node:?} in an executable that was made of another graph")));
        }
        graph.nodes.find(node)
    }

    /// Sets a node, for which something is kept and which is of this context from now on.
    fn set(
        &mut self,
        graph: &mut Graph,
        node: Node,
        context: &UnownedContext,
        keep: impl Send + 'static,
        set: impl FnOnce(&Driver, Held<'_, CUgraphExec>, Held<'_, CUgraphNode>) -> CudaResult<()>,
    ) -> CudaResult<()> {
        let raw = self.find(graph, node)?;
        self.usable()?;
        self.pin(vec![context.pinned(|_| Ok(()))?.1]);
        self.keep(keep);
        graph.inside(|_, _| {
            // SAFETY: the key was looked up in the graph, which is borrowed.
            self.with(|driver, exec| set(driver, exec, unsafe { Held::new(raw) }))
        })
    }
}
