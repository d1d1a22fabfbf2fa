//! Changing single nodes of an executable graph.

// Keys that were looked up become handles, and the caller guarantees the addresses of a node.
#![allow(unsafe_code)]

use super::later::Later;
use super::work::{kernel, refused};
use super::{CopyParams, FillParams, Graph, GraphExec, Node, NodeKind, kept};
use crate::context::UnownedContext;
use crate::context::in_call::enter_graph;
use crate::driver::ffi::{CUgraphExec, CUgraphNode};
use crate::driver::{Driver, Held};
use crate::error::{CudaError, CudaResult};
use crate::event::Event;
use crate::function::{BlockSize, Function, GridSize};
use std::os::raw::c_void;
use std::sync::Arc;

/// Changes of single nodes affect later launches, but neither earlier ones nor the graph. `graph` is the graph that the
/// executable was instantiated from; it identifies the node.
///
/// What is kept for a node is kept until the executable is dropped and its last [launch](GraphExec::launch) is over.
/// Launches of the raw handle by other code are not seen.
impl GraphExec {
    /// Sets the kernel and the arguments of a kernel node.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](CudaError::InvalidHandle) for a node of a graph that the executable was not instantiated from;
    /// [`InvalidValue`](CudaError::InvalidValue) for a node of another kind, and for a change that the driver does not
    /// allow.
    ///
    /// # Safety
    ///
    /// Like [`Graph::add_kernel`], for later launches.
    ///
    /// The node of a captured launch is what the stream's next work would depend on:
    ///
    /// ```
    /// use custack::graph::InstantiateFlags;
    /// use custack::launch;
    /// use custack::memory::{CopyDestination, DeviceBuffer};
    /// use custack::module::Module;
    /// use custack::stream::{CaptureMode, Stream, StreamFlags};
    ///
    /// let _context = custack::quick_init()?;
    /// let module = Module::load_from_file(c"examples/kernels.ptx")?;
    /// let saxpy = module.get_function(c"saxpy")?;
    /// let mut stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    /// let x = DeviceBuffer::from_slice(&[1.0f32, 2.0, 3.0])?;
    /// let y = DeviceBuffer::from_slice(&[10.0f32; 3])?;
    /// let (mut x_at, mut y_at, mut count) = (x.as_ptr(), y.as_ptr(), 3u32);
    ///
    /// let mut launched = Vec::new();
    /// let mut graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
    ///     // SAFETY: the kernel takes a factor, two addresses, and the number of values there; module and buffers live
    ///     // until the end of this example.
    ///     unsafe { launch!(saxpy<<<1, 32, 0, capture>>>(2.0f32, x_at as u64, y_at as u64, count)) }?;
    ///     launched = capture.dependencies()?;
    ///     Ok(())
    /// })?;
    /// let (node, _edge) = launched[0];
    /// let mut executable = graph.instantiate(InstantiateFlags::empty())?;
    /// executable.launch(&stream)?; // adds 2, 4 and 6
    ///
    /// let mut factor = 5.0f32;
    /// let args =
    ///     [(&raw mut factor).cast(), (&raw mut x_at).cast(), (&raw mut y_at).cast(), (&raw mut count).cast()];
    /// // SAFETY: as above.
    /// unsafe { executable.set_kernel(&mut graph, node, &saxpy, 1, 32, 0, &args, ()) }?;
    /// executable.launch(&stream)?; // adds 5, 10 and 15
    /// stream.synchronize()?;
    ///
    /// let mut result = [0.0; 3];
    /// y.copy_to(&mut result)?;
    /// assert_eq!(result, [17.0, 24.0, 31.0]);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuGraphExecKernelNodeSetParams", "cuGraphExecKernelNodeSetParams_v2"))]
    #[allow(clippy::too_many_arguments, reason = "those of a launch, and three")]
    #[inline]
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
        let params = kernel(function, grid.into(), block.into(), shared_mem_bytes);
        let raw = params.raw(args);
        self.set(graph, node, function.context(), keep, |driver, exec, node| {
            // SAFETY: as the caller guarantees.
            let set = unsafe { driver.graph_exec_kernel_node_set_params(exec, node, &raw) };
            set.map_err(|error| refused(driver, function, &params, error))
        })
    }

    /// Sets the parameters of a copy node.
    ///
    /// # Errors
    ///
    /// Like [`set_kernel`](Self::set_kernel).
    ///
    /// # Safety
    ///
    /// Like [`Graph::add_copy`], for later launches.
    #[doc(alias = "cuGraphExecMemcpyNodeSetParams")]
    #[inline]
    pub unsafe fn set_copy(
        &mut self,
        graph: &mut Graph,
        node: Node,
        params: &CopyParams,
        keep: impl Send + 'static,
    ) -> CudaResult<()> {
        let (context, params) = (graph.context().clone(), params.raw());
        self.set(graph, node, &context, keep, |driver, exec, node| {
            // SAFETY: as the caller guarantees.
            unsafe { driver.graph_exec_memcpy_node_set_params(exec, node, &params, context.lease()?.live()) }
        })
    }

    /// Sets the parameters of a fill node.
    ///
    /// # Errors
    ///
    /// Like [`set_kernel`](Self::set_kernel).
    ///
    /// # Safety
    ///
    /// Like [`Graph::add_fill`], for later launches.
    #[doc(alias = "cuGraphExecMemsetNodeSetParams")]
    #[inline]
    pub unsafe fn set_fill(
        &mut self,
        graph: &mut Graph,
        node: Node,
        params: &FillParams,
        keep: impl Send + 'static,
    ) -> CudaResult<()> {
        let (context, params) = (graph.context().clone(), params.raw());
        self.set(graph, node, &context, keep, |driver, exec, node| {
            // SAFETY: as the caller guarantees.
            unsafe { driver.graph_exec_memset_node_set_params(exec, node, &params, context.lease()?.live()) }
        })
    }

    /// Sets the function of a host function's node.
    ///
    /// # Errors
    ///
    /// Like [`set_kernel`](Self::set_kernel).
    #[doc(alias = "cuGraphExecHostNodeSetParams")]
    #[inline]
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

    /// Sets the event of a node that records or waits for one.
    ///
    /// # Errors
    ///
    /// Like [`set_kernel`](Self::set_kernel); [`ContextIsDestroyed`](CudaError::ContextIsDestroyed) for the event's
    /// context.
    #[doc(alias("cuGraphExecEventRecordNodeSetEvent", "cuGraphExecEventWaitNodeSetEvent"))]
    #[inline]
    pub fn set_event(&mut self, graph: &mut Graph, node: Node, event: &Arc<Event>) -> CudaResult<()> {
        let records = graph.records(node)?;
        let handle = event.in_graph();
        self.set(graph, node, event.context(), Arc::clone(event), |driver, exec, node| {
            // Also for the event that the node had.
            let call = enter_graph()?;
            handle.with_in(&call, |_, event| match records {
                true => driver.graph_exec_event_record_node_set_event(exec, node, event),
                false => driver.graph_exec_event_wait_node_set_event(exec, node, event),
            })
        })
    }

    /// Sets the graph of a child node, which may differ in parameters only.
    ///
    /// # Errors
    ///
    /// Like [`set_kernel`](Self::set_kernel).
    #[doc(alias = "cuGraphExecChildGraphNodeSetParams")]
    #[inline]
    pub fn set_child(&mut self, graph: &mut Graph, node: Node, child: &mut Graph) -> CudaResult<()> {
        let pins = child.owned.more_pins()?;
        let context = child.context().clone();
        let set = self.set(graph, node, &context, (), |driver, exec, node| {
            let _call = enter_graph()?;
            child.with(|_, child| driver.graph_exec_child_graph_node_set_params(exec, node, child))
        });
        self.owned.add_pins(pins);
        set
    }

    /// Disables a kernel or copy node, or enables it again; a disabled one does nothing (CUDA 11.6 and later).
    ///
    /// # Errors
    ///
    /// Like [`set_kernel`](Self::set_kernel); [`NotSupported`](CudaError::NotSupported) for a fill node that is to be
    /// disabled: neither the nodes behind it nor the stream would wait for the work before it (seen on an H100). Instead,
    /// [set](Self::set_fill) it to memory that nothing uses.
    #[doc(alias = "cuGraphNodeSetEnabled")]
    #[inline]
    pub fn set_enabled(&mut self, graph: &mut Graph, node: Node, enabled: bool) -> CudaResult<()> {
        self.find(graph, node)?;
        if !enabled && graph.kind(node)? == NodeKind::Fill {
            return Err(CudaError::NotSupported.note(format_args!(
                "to disable a node that fills: a driver would wait for nothing that comes before it"
            )));
        }
        let context = graph.context().clone();
        self.set(graph, node, &context, (), |driver, exec, node| {
            driver.graph_node_set_enabled(exec, node, enabled)
        })
    }

    /// Whether the node is enabled.
    ///
    /// # Errors
    ///
    /// Like [`set_kernel`](Self::set_kernel).
    #[doc(alias = "cuGraphNodeGetEnabled")]
    #[inline]
    pub fn is_enabled(&mut self, graph: &mut Graph, node: Node) -> CudaResult<bool> {
        let raw = self.find(graph, node)?;
        graph.with(|_, _| {
            // SAFETY: the key was looked up in the graph, which is borrowed.
            self.owned.with(|driver, exec| driver.graph_node_get_enabled(exec, unsafe { Held::new(raw) }))
        })
    }

    #[inline]
    fn find(&self, graph: &Graph, node: Node) -> CudaResult<CUgraphNode> {
        if graph.nodes.graph() != self.source {
            return Err(CudaError::InvalidHandle
                .note(format_args!("to change {node:?} in an executable that was made of another graph")));
        }
        graph.nodes.find(node)
    }

    /// Sets a node, which is of this context from now on, and keeps something for it.
    #[inline]
    fn set(
        &mut self,
        graph: &mut Graph,
        node: Node,
        context: &UnownedContext,
        keep: impl Send + 'static,
        set: impl FnOnce(&Driver, Held<'_, CUgraphExec>, Held<'_, CUgraphNode>) -> CudaResult<()>,
    ) -> CudaResult<()> {
        let raw = self.find(graph, node)?;
        self.owned.usable()?;
        self.owned.pin(context)?;
        Later::keep(&mut self.later, keep);
        graph.inside(|_, _| {
            // SAFETY: the key was looked up in the graph, which is borrowed.
            self.owned.with(|driver, exec| set(driver, exec, unsafe { Held::new(raw) }))
        })
    }
}
