//! Nodes with addresses: kernels, copies and fills.

// The caller guarantees that such a node is valid whenever it runs.
#![allow(unsafe_code)]

use super::kept::Kept;
use super::{CopyParams, FillParams, Graph, KernelParams, Node};
use crate::driver::{Driver, Held, NotAdded, Shape};
use crate::error::{CudaError, CudaResult};
use crate::function::{BlockSize, Function, GridSize, LaunchConfig, refuse_impossible};
use std::os::raw::c_void;

impl Graph {
    /// Adds a node that launches the kernel. The call copies the arguments' values. The graph keeps `keep`.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](crate::error::CudaError::InvalidHandle) for a node of another graph;
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for a grid or block that the device does not allow.
    ///
    /// # Safety
    ///
    /// `args` has one pointer for each parameter of the kernel, to a value of its type. The kernel's module stays
    /// loaded as long as the graph, or anything made from it, exists. At every launch the memory that the kernel uses
    /// is allocated, and there is no data race on it. `keep` can own what this needs: the module, the buffers.
    ///
    /// ```
    /// use custack::graph::{Graph, InstantiateFlags};
    /// use custack::memory::{CopyDestination, DeviceBuffer};
    /// use custack::module::Module;
    /// use custack::stream::{Stream, StreamFlags};
    /// use std::sync::Arc;
    ///
    /// let context = custack::quick_init()?;
    /// let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    /// let module = Arc::new(Module::load_from_file(c"examples/kernels.ptx")?);
    /// let x = Arc::new(DeviceBuffer::from_slice(&[1.0f32, 2.0, 3.0])?);
    /// let y = Arc::new(DeviceBuffer::from_slice(&[10.0f32; 3])?);
    ///
    /// // A pointer for each parameter: `saxpy` takes a factor, two addresses, and the number of values there.
    /// let (mut factor, mut x_at, mut y_at, mut count) = (2.0f32, x.as_ptr(), y.as_ptr(), 3u32);
    /// let args =
    ///     [(&raw mut factor).cast(), (&raw mut x_at).cast(), (&raw mut y_at).cast(), (&raw mut count).cast()];
    /// let saxpy = module.get_function(c"saxpy")?;
    /// let keep = (Arc::clone(&module), Arc::clone(&x), Arc::clone(&y));
    ///
    /// let mut graph = Graph::new(&context)?;
    /// // SAFETY: the arguments have the types of the parameters; the graph keeps the module and the buffers, and nothing
    /// // else uses them while it runs.
    /// unsafe { graph.add_kernel(&[], &saxpy, 1, 32, 0, &args, keep) }?;
    /// graph.instantiate(InstantiateFlags::empty())?.launch(&stream)?;
    /// stream.synchronize()?;
    ///
    /// let mut result = [0.0; 3];
    /// y.copy_to(&mut result)?;
    /// assert_eq!(result, [12.0, 14.0, 16.0]);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuGraphAddKernelNode", "cuGraphAddKernelNode_v2"))]
    #[allow(clippy::too_many_arguments, reason = "those of a launch, and two")]
    #[inline]
    pub unsafe fn add_kernel<G: Into<GridSize>, B: Into<BlockSize>>(
        &mut self,
        after: &[Node],
        function: &Function<'_>,
        grid: G,
        block: B,
        shared_mem_bytes: u32,
        args: &[*mut c_void],
        keep: impl Send + 'static,
    ) -> CudaResult<Node> {
        function.refuse_another_count(args.len())?;
        self.owned.pin(function.context())?;
        let params = kernel(function, grid.into(), block.into(), shared_mem_bytes);
        let raw = params.raw(args);
        self.add_keeping(after, Kept::for_its_drop, keep, |driver, graph, after, _| {
            // SAFETY: as the caller guarantees.
            let added = unsafe { driver.graph_add_kernel_node(graph, after, &raw) };
            added.map_err(|not| NotAdded { error: refused(driver, function, &params, not.error), ..not })
        })
    }

    /// Sets the kernel and the arguments of a kernel node. The graph keeps `keep` instead of what it kept for the node
    /// before. What was made from the graph before is not affected.
    ///
    /// # Errors
    ///
    /// Like [`add_kernel`](Self::add_kernel).
    ///
    /// # Safety
    ///
    /// Like [`add_kernel`](Self::add_kernel).
    ///
    /// ```
    /// use custack::graph::{Graph, InstantiateFlags};
    /// use custack::memory::{CopyDestination, DeviceBuffer};
    /// use custack::module::Module;
    /// use custack::stream::{Stream, StreamFlags};
    ///
    /// let context = custack::quick_init()?;
    /// let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    /// let module = Module::load_from_file(c"examples/kernels.ptx")?;
    /// let saxpy = module.get_function(c"saxpy")?;
    /// let x = DeviceBuffer::from_slice(&[1.0f32, 2.0, 3.0])?;
    /// let y = DeviceBuffer::from_slice(&[10.0f32; 3])?;
    ///
    /// let (mut factor, mut x_at, mut y_at, mut count) = (2.0f32, x.as_ptr(), y.as_ptr(), 3u32);
    /// let mut args =
    ///     [(&raw mut factor).cast(), (&raw mut x_at).cast(), (&raw mut y_at).cast(), (&raw mut count).cast()];
    /// let mut graph = Graph::new(&context)?;
    /// // SAFETY: the arguments have the types of the parameters; module and buffers live until the end of this example.
    /// let node = unsafe { graph.add_kernel(&[], &saxpy, 1, 32, 0, &args, ()) }?;
    ///
    /// // The node has copied 2. From here on it multiplies by 5.
    /// let mut five = 5.0f32;
    /// args[0] = (&raw mut five).cast();
    /// // SAFETY: as above.
    /// unsafe { graph.set_kernel(node, &saxpy, 1, 32, 0, &args, ()) }?;
    /// graph.instantiate(InstantiateFlags::empty())?.launch(&stream)?;
    /// stream.synchronize()?;
    ///
    /// let mut result = [0.0; 3];
    /// y.copy_to(&mut result)?;
    /// assert_eq!(result, [15.0, 20.0, 25.0]);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuGraphKernelNodeSetParams", "cuGraphKernelNodeSetParams_v2"))]
    #[allow(clippy::too_many_arguments, reason = "those of a launch, and two")]
    #[inline]
    pub unsafe fn set_kernel<G: Into<GridSize>, B: Into<BlockSize>>(
        &mut self,
        node: Node,
        function: &Function<'_>,
        grid: G,
        block: B,
        shared_mem_bytes: u32,
        args: &[*mut c_void],
        keep: impl Send + 'static,
    ) -> CudaResult<()> {
        function.refuse_another_count(args.len())?;
        self.owned.pin(function.context())?;
        let params = kernel(function, grid.into(), block.into(), shared_mem_bytes);
        let raw = params.raw(args);
        self.set_keeping(node, Kept::for_its_drop, keep, |driver, node, _| {
            // SAFETY: as the caller guarantees.
            let set = unsafe { driver.graph_kernel_node_set_params(node, &raw) };
            set.map_err(|error| refused(driver, function, &params, error))
        })
    }

    /// Like [`add_kernel`](Self::add_kernel), launched as the configuration says: also cooperative, in clusters, or with a
    /// priority, which [`USE_NODE_PRIORITY`](super::InstantiateFlags::USE_NODE_PRIORITY) makes count.
    ///
    /// # Errors
    ///
    /// Like [`add_kernel`](Self::add_kernel); [`InvalidClusterSize`](CudaError::InvalidClusterSize) for clusters that do not
    /// divide the grid; [`NotSupported`](CudaError::NotSupported) for a launch that may begin before earlier work has ended,
    /// which is a property of the [edge](super::EdgeData).
    ///
    /// # Safety
    ///
    /// Like [`add_kernel`](Self::add_kernel).
    ///
    /// ```
    /// use custack::function::LaunchConfig;
    /// use custack::graph::Graph;
    /// use custack::module::Module;
    ///
    /// let context = custack::quick_init()?;
    /// let module = Module::load_from_bytes(
    ///     b".version 7.0 .target sm_70 .address_size 64 .visible .entry nothing() { ret; }",
    /// )?;
    /// let nothing = module.get_function(c"nothing")?;
    /// let mut graph = Graph::new(&context)?;
    /// let config = LaunchConfig::new(4, 32).cooperative(true).priority(-1);
    /// // SAFETY: the kernel does nothing, and its module lives longer than the graph.
    /// let node = unsafe { graph.add_kernel_configured(&[], &nothing, &config, &[], ()) }?;
    /// assert_eq!(graph.kernel(node)?.grid.x, 4);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuGraphAddKernelNode", "cuGraphAddKernelNode_v2", "cuGraphKernelNodeSetAttribute"))]
    #[inline]
    pub unsafe fn add_kernel_configured(
        &mut self,
        after: &[Node],
        function: &Function<'_>,
        config: &LaunchConfig,
        args: &[*mut c_void],
        keep: impl Send + 'static,
    ) -> CudaResult<Node> {
        function.refuse_another_count(args.len())?;
        let (shape, params) = configured(function, config)?;
        self.owned.pin(function.context())?;
        let raw = params.raw(args);
        self.add_keeping(after, Kept::for_its_drop, keep, |driver, graph, after, _| {
            // SAFETY: as the caller guarantees.
            let added = unsafe { driver.graph_add_configured_node(graph, after, &raw, &shape) };
            added.map_err(|not| NotAdded { error: refused(driver, function, &params, not.error), ..not })
        })
    }

    /// Like [`set_kernel`](Self::set_kernel), launched as the configuration says. Options that it does not set are as they
    /// were.
    ///
    /// # Errors
    ///
    /// Like [`add_kernel_configured`](Self::add_kernel_configured).
    ///
    /// # Safety
    ///
    /// Like [`add_kernel`](Self::add_kernel).
    #[doc(alias("cuGraphKernelNodeSetParams", "cuGraphKernelNodeSetAttribute"))]
    #[inline]
    pub unsafe fn set_kernel_configured(
        &mut self,
        node: Node,
        function: &Function<'_>,
        config: &LaunchConfig,
        args: &[*mut c_void],
        keep: impl Send + 'static,
    ) -> CudaResult<()> {
        function.refuse_another_count(args.len())?;
        let (shape, params) = configured(function, config)?;
        self.owned.pin(function.context())?;
        let raw = params.raw(args);
        self.set_keeping(node, Kept::for_its_drop, keep, |driver, node, _| {
            // SAFETY: as the caller guarantees.
            let set = unsafe { driver.graph_kernel_node_set_params(node, &raw) };
            let set = set.and_then(|()| driver.graph_kernel_node_set_options(node, &shape));
            set.map_err(|error| refused(driver, function, &params, error))
        })
    }

    /// Adds a node that copies memory, in the graph's context. The graph keeps `keep`.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](crate::error::CudaError::InvalidHandle) for a node of another graph;
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for a copy that is not possible.
    ///
    /// # Safety
    ///
    /// At every launch of what is made from the graph both sides are allocated, and there is no data race on them.
    /// `keep` can own the buffers.
    #[doc(alias = "cuGraphAddMemcpyNode")]
    #[inline]
    pub unsafe fn add_copy(
        &mut self,
        after: &[Node],
        params: &CopyParams,
        keep: impl Send + 'static,
    ) -> CudaResult<Node> {
        let (context, params) = (self.context().clone(), params.raw());
        self.add_keeping(after, Kept::for_its_drop, keep, |driver, graph, after, _| {
            // SAFETY: as the caller guarantees.
            unsafe { driver.graph_add_memcpy_node(graph, after, &params, context.lease()?.live()) }
        })
    }

    /// Sets the parameters of a copy node. The graph keeps `keep` instead of what it kept for the node before.
    ///
    /// # Errors
    ///
    /// Like [`add_copy`](Self::add_copy).
    ///
    /// # Safety
    ///
    /// Like [`add_copy`](Self::add_copy).
    #[doc(alias = "cuGraphMemcpyNodeSetParams")]
    #[inline]
    pub unsafe fn set_copy(
        &mut self,
        node: Node,
        params: &CopyParams,
        keep: impl Send + 'static,
    ) -> CudaResult<()> {
        let params = params.raw();
        self.set_keeping(node, Kept::for_its_drop, keep, |driver, node, _| {
            // SAFETY: as the caller guarantees.
            unsafe { driver.graph_memcpy_node_set_params(node, &params) }
        })
    }

    /// Adds a node that fills memory of the device, in the graph's context. The graph keeps `keep`.
    ///
    /// # Errors
    ///
    /// Like [`add_copy`](Self::add_copy).
    ///
    /// # Safety
    ///
    /// Like [`add_copy`](Self::add_copy), for the memory that is filled.
    #[doc(alias = "cuGraphAddMemsetNode")]
    #[inline]
    pub unsafe fn add_fill(
        &mut self,
        after: &[Node],
        params: &FillParams,
        keep: impl Send + 'static,
    ) -> CudaResult<Node> {
        let (context, params) = (self.context().clone(), params.raw());
        self.add_keeping(after, Kept::for_its_drop, keep, |driver, graph, after, _| {
            // SAFETY: as the caller guarantees.
            unsafe { driver.graph_add_memset_node(graph, after, &params, context.lease()?.live()) }
        })
    }

    /// Sets the parameters of a fill node. The graph keeps `keep` instead of what it kept for the node before.
    ///
    /// # Errors
    ///
    /// Like [`add_copy`](Self::add_copy).
    ///
    /// # Safety
    ///
    /// Like [`add_fill`](Self::add_fill).
    #[doc(alias = "cuGraphMemsetNodeSetParams")]
    #[inline]
    pub unsafe fn set_fill(
        &mut self,
        node: Node,
        params: &FillParams,
        keep: impl Send + 'static,
    ) -> CudaResult<()> {
        let params = params.raw();
        self.set_keeping(node, Kept::for_its_drop, keep, |driver, node, _| {
            // SAFETY: as the caller guarantees.
            unsafe { driver.graph_memset_node_set_params(node, &params) }
        })
    }
}

#[inline]
pub(super) fn kernel(function: &Function<'_>, grid: GridSize, block: BlockSize, shared: u32) -> KernelParams {
    KernelParams { function: function.as_raw(), grid, block, shared_mem_bytes: shared }
}

/// The options and the parameters of a node that launches as the configuration says.
#[inline]
fn configured(function: &Function<'_>, config: &LaunchConfig) -> CudaResult<(Shape, KernelParams)> {
    let shape = config.shape();
    refuse_impossible(&shape)?;
    if shape.more.programmatic {
        return Err(CudaError::NotSupported
            .note(format_args!("to begin a node before an earlier one has ended, which its edge says")));
    }
    Ok((shape, kernel(function, config.grid(), config.block(), shape.shared)))
}

/// The error of a kernel node that the driver refused, with the reason if it can be found.
#[cold]
pub(super) fn refused(
    driver: &Driver,
    function: &Function<'_>,
    params: &KernelParams,
    error: CudaError,
) -> CudaError {
    let KernelParams { grid, block, shared_mem_bytes, .. } = params;
    let shape = Shape::plain([grid.x, grid.y, grid.z], [block.x, block.y, block.z], *shared_mem_bytes);
    // SAFETY: the function's module is borrowed or its library kept, and its context is pinned.
    function.refused("to make a node launch", driver, unsafe { Held::new(function.as_raw()) }, shape, error)
}
