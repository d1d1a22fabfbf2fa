//! Nodes that have addresses: kernels, copies, fills.

// Whoever adds such a node promises that it is right whenever it runs.
#![allow(unsafe_code)]

use super::{CopyParams, FillParams, Graph, KernelParams, Node};
use crate::error::CudaResult;
use crate::function::{BlockSize, Function, GridSize};
use std::os::raw::c_void;

impl Graph {
    /// Adds a node that launches the kernel. The arguments' values are copied now. `keep` is kept.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](crate::error::CudaError::InvalidHandle) for a node of another graph;
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for a size that the device cannot have.
    ///
    /// # Safety
    ///
    /// There is a pointer for each of the kernel's parameters, to a value of its type. The kernel's module is loaded as long
    /// as the graph and what is made from it are there. At every launch what the kernel does is right: the memory that it
    /// uses is there, and nothing else uses that meanwhile in a way that it does not bear. `keep` may be what makes this so:
    /// the module, the buffers.
    #[doc(alias("cuGraphAddKernelNode", "cuGraphAddKernelNode_v2"))]
    #[allow(clippy::too_many_arguments, reason = "those of a launch, and two")]
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
        self.pin(function.context())?;
        let params = kernel(function, grid.into(), block.into(), shared_mem_bytes).raw(args);
        self.add_keeping(after, keep, |driver, graph, after, _| {
            // SAFETY: the caller's promise.
            unsafe { driver.graph_add_kernel_node(graph, after, &params) }
        })
    }

    /// Gives a kernel node another kernel and other arguments. `keep` is kept, and what was kept for the node before no
    /// more; what was made from the graph before has what it had.
    ///
    /// # Errors
    ///
    /// As [`add_kernel`](Self::add_kernel).
    ///
    /// # Safety
    ///
    /// As [`add_kernel`](Self::add_kernel).
    #[doc(alias("cuGraphKernelNodeSetParams", "cuGraphKernelNodeSetParams_v2"))]
    #[allow(clippy::too_many_arguments, reason = "those of a launch, and two")]
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
        self.pin(function.context())?;
        let params = kernel(function, grid.into(), block.into(), shared_mem_bytes).raw(args);
        self.set_keeping(node, keep, |driver, node, _| {
            // SAFETY: the caller's promise.
            unsafe { driver.graph_kernel_node_set_params(node, &params) }
        })
    }

    /// Adds a node that copies memory, in the graph's context. `keep` is kept.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](crate::error::CudaError::InvalidHandle) for a node of another graph;
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for what cannot be copied.
    ///
    /// # Safety
    ///
    /// At every launch of what is made from the graph both sides are there, and nothing else uses them meanwhile in a way
    /// that the copy does not bear. `keep` may be what makes this so: the buffers.
    #[doc(alias = "cuGraphAddMemcpyNode")]
    pub unsafe fn add_copy(
        &mut self,
        after: &[Node],
        params: &CopyParams,
        keep: impl Send + 'static,
    ) -> CudaResult<Node> {
        let (context, params) = (self.context().clone(), params.raw());
        self.add_keeping(after, keep, |driver, graph, after, _| {
            // SAFETY: the caller's promise.
            context.lease(|live| unsafe { driver.graph_add_memcpy_node(graph, after, &params, live) })?
        })
    }

    /// Gives a copy node another copy. `keep` is kept, and what was kept for the node before no more.
    ///
    /// # Errors
    ///
    /// As [`add_copy`](Self::add_copy).
    ///
    /// # Safety
    ///
    /// As [`add_copy`](Self::add_copy).
    #[doc(alias = "cuGraphMemcpyNodeSetParams")]
    pub unsafe fn set_copy(
        &mut self,
        node: Node,
        params: &CopyParams,
        keep: impl Send + 'static,
    ) -> CudaResult<()> {
        let params = params.raw();
        self.set_keeping(node, keep, |driver, node, _| {
            // SAFETY: the caller's promise.
            unsafe { driver.graph_memcpy_node_set_params(node, &params) }
        })
    }

    /// Adds a node that fills memory of the device, in the graph's context. `keep` is kept.
    ///
    /// # Errors
    ///
    /// As [`add_copy`](Self::add_copy).
    ///
    /// # Safety
    ///
    /// As [`add_copy`](Self::add_copy), of what is filled.
    #[doc(alias = "cuGraphAddMemsetNode")]
    pub unsafe fn add_fill(
        &mut self,
        after: &[Node],
        params: &FillParams,
        keep: impl Send + 'static,
    ) -> CudaResult<Node> {
        let (context, params) = (self.context().clone(), params.raw());
        self.add_keeping(after, keep, |driver, graph, after, _| {
            // SAFETY: the caller's promise.
            context.lease(|live| unsafe { driver.graph_add_memset_node(graph, after, &params, live) })?
        })
    }

    /// Gives a fill node another fill. `keep` is kept, and what was kept for the node before no more.
    ///
    /// # Errors
    ///
    /// As [`add_copy`](Self::add_copy).
    ///
    /// # Safety
    ///
    /// As [`add_fill`](Self::add_fill).
    #[doc(alias = "cuGraphMemsetNodeSetParams")]
    pub unsafe fn set_fill(
        &mut self,
        node: Node,
        params: &FillParams,
        keep: impl Send + 'static,
    ) -> CudaResult<()> {
        let params = params.raw();
        self.set_keeping(node, keep, |driver, node, _| {
            // SAFETY: the caller's promise.
            unsafe { driver.graph_memset_node_set_params(node, &params) }
        })
    }
}

pub(super) fn kernel(function: &Function<'_>, grid: GridSize, block: BlockSize, shared: u32) -> KernelParams {
    KernelParams { function: function.as_raw(), grid, block, shared_mem_bytes: shared }
}
