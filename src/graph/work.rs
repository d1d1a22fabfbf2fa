//! Nodes with addresses: kernels, copies and fills.

// The caller guarantees that such a node is valid whenever it runs.
#![allow(unsafe_code)]

use super::kept::Kept;
use super::{CopyParams, FillParams, Graph, KernelParams, Node};
use crate::error::CudaResult;
use crate::function::{BlockSize, Function, GridSize};
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
        self.owned.pin(function.context())?;
        let params = kernel(function, grid.into(), block.into(), shared_mem_bytes).raw(args);
        self.add_keeping(after, Kept::for_its_drop, keep, |driver, graph, after, _| {
            // SAFETY: as the caller guarantees.
            unsafe { driver.graph_add_kernel_node(graph, after, &params) }
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
        self.owned.pin(function.context())?;
        let params = kernel(function, grid.into(), block.into(), shared_mem_bytes).raw(args);
        self.set_keeping(node, Kept::for_its_drop, keep, |driver, node, _| {
            // SAFETY: as the caller guarantees.
            unsafe { driver.graph_kernel_node_set_params(node, &params) }
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

pub(super) fn kernel(function: &Function<'_>, grid: GridSize, block: BlockSize, shared: u32) -> KernelParams {
    KernelParams { function: function.as_raw(), grid, block, shared_mem_bytes: shared }
}
