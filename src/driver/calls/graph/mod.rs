//! The calls of the graph chapter with Rust's types.

// Calls through C function pointers; see `ask!` for what makes them sound, and `Held` for the handles.
#![allow(unsafe_code)]

mod capture;
mod exec;
mod keep;

use super::{Shape, ask, made};
use crate::driver::ffi::*;
use crate::driver::{Driver, Held, Live};
use crate::error::{CudaError, CudaResult, keep_note};
use std::mem;
use std::ptr;

/// The nodes that a new node comes after, as the driver takes them.
#[derive(Clone, Copy)]
pub(crate) struct After<'a>(&'a [CUgraphNode]);

impl<'a> After<'a> {
    /// # Safety
    ///
    /// They are nodes of the graph of the call, and none of them is destroyed.
    pub(crate) unsafe fn new(nodes: &'a [CUgraphNode]) -> After<'a> {
        After(nodes)
    }
}

/// A graph of the driver's, as it is held for a call.
type Graph<'a> = Held<'a, CUgraph>;
/// A node, as it is held for a call.
type Node<'a> = Held<'a, CUgraphNode>;
/// An executable graph, as it is held for a call.
type Exec<'a> = Held<'a, CUgraphExec>;

/// The result of a query that returns several nodes: first their number, then the nodes.
fn listed<T: Copy>(
    empty: T,
    mut ask: impl FnMut(*mut T, &mut usize) -> CudaResult<()>,
) -> CudaResult<Vec<T>> {
    let mut count = 0;
    ask(ptr::null_mut(), &mut count)?;
    let mut all = vec![empty; count];
    if count > 0 {
        ask(all.as_mut_ptr(), &mut count)?;
        all.truncate(count);
    }
    Ok(all)
}

/// Two nodes, and the data of their edge.
pub(crate) type Edge = (CUgraphNode, CUgraphNode, CUgraphEdgeData);

/// An edge that orders the whole of two nodes.
pub(crate) const FULL: CUgraphEdgeData =
    CUgraphEdgeData { from_port: 0, to_port: 0, kind: 0, reserved: [0; 5] };

/// A parameter of a node that is written through a pointer.
macro_rules! parameter {
    ($(#[$doc:meta])* $get:ident = $name:ident -> $ty:ty) => {
        $(#[$doc])*
        pub(crate) fn $get(&self, node: Node<'_>) -> CudaResult<$ty> {
            // SAFETY: numbers, pointers and functions that may be null: zeros are values of it.
            let mut value: $ty = unsafe { mem::zeroed() };
            ask!(self.$name(node.raw(), &mut value))?;
            Ok(value)
        }
    };
}

/// Why a node was not added.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotAdded {
    pub(crate) error: CudaError,
    /// The graph has the node all the same, because the driver destroys none in a graph that allocates or frees memory.
    pub(crate) stays: bool,
}

impl From<CudaError> for NotAdded {
    fn from(error: CudaError) -> NotAdded {
        NotAdded { error, stays: false }
    }
}

/// The result of adding a node.
pub(crate) type Added = Result<CUgraphNode, NotAdded>;

/// Defines a method that adds a node to a graph, after others.
macro_rules! add {
    ($(#[$doc:meta])* $(($unsafe:tt))? $add:ident = $name:ident($($arg:ident: $ty:ty => $value:expr),*)) => {
        $(#[$doc])*
        pub(crate) $($unsafe)? fn $add(&self, graph: Graph<'_>, after: After<'_>, $($arg: $ty),*) -> Added {
            let mut node = ptr::null_mut();
            let asked = ask!(self.$name(&mut node, graph.raw(), after.0.as_ptr(), after.0.len(), $($value),*));
            self.added(asked, node)
        }
    };
}

impl Driver {
    /// A node that the driver adds, or the error. A driver that fails after it has added the node has written it; then it
    /// is taken out again, if the driver does that.
    fn added(&self, asked: CudaResult<()>, node: CUgraphNode) -> Added {
        asked.map(|()| node).map_err(|error| {
            let _note = keep_note();
            // SAFETY: added a moment ago, and given to no one.
            let taken_out = || self.graph_destroy_node(unsafe { Held::new(node) });
            NotAdded { error, stays: !node.is_null() && taken_out().is_err() }
        })
    }

    pub(crate) fn graph_create(&self) -> CudaResult<CUgraph> {
        let mut graph = ptr::null_mut();
        made!(self, ask!(self.cuGraphCreate(&mut graph, 0)), graph, graph_destroy)
    }

    pub(crate) fn graph_destroy(&self, graph: Graph<'_>) -> CudaResult<()> {
        ask!(self.cuGraphDestroy(graph.raw()))
    }

    pub(crate) fn graph_clone(&self, graph: Graph<'_>) -> CudaResult<CUgraph> {
        let mut clone = ptr::null_mut();
        made!(self, ask!(self.cuGraphClone(&mut clone, graph.raw())), clone, graph_destroy)
    }

    pub(crate) fn graph_node_find_in_clone(
        &self,
        original: Node<'_>,
        clone: Graph<'_>,
    ) -> CudaResult<CUgraphNode> {
        let mut node = ptr::null_mut();
        ask!(self.cuGraphNodeFindInClone(&mut node, original.raw(), clone.raw()))?;
        Ok(node)
    }

    pub(crate) fn graph_get_nodes(&self, graph: Graph<'_>) -> CudaResult<Vec<CUgraphNode>> {
        listed(ptr::null_mut(), |nodes, count| ask!(self.cuGraphGetNodes(graph.raw(), nodes, count)))
    }

    pub(crate) fn graph_get_root_nodes(&self, graph: Graph<'_>) -> CudaResult<Vec<CUgraphNode>> {
        listed(ptr::null_mut(), |nodes, count| ask!(self.cuGraphGetRootNodes(graph.raw(), nodes, count)))
    }

    /// All edges. A driver of before CUDA 12.3 knows one kind.
    pub(crate) fn graph_get_edges(&self, graph: Graph<'_>) -> CudaResult<Vec<Edge>> {
        let graph = graph.raw();
        let none: CUgraphNode = ptr::null_mut();
        let (nowhere, mut count) = (ptr::null_mut(), 0);
        let old = match ask!(self.cuGraphGetEdges_v2(graph, nowhere, nowhere, ptr::null_mut(), &mut count)) {
            Err(CudaError::CallRequiresNewerDriver) => {
                ask!(self.cuGraphGetEdges(graph, nowhere, nowhere, &mut count))?;
                true
            }
            other => other.map(|()| false)?,
        };
        let (mut from, mut to, mut data) = (vec![none; count], vec![none; count], vec![FULL; count]);
        let (at, end) = (from.as_mut_ptr(), to.as_mut_ptr());
        if count > 0 && old {
            ask!(self.cuGraphGetEdges(graph, at, end, &mut count))?;
        } else if count > 0 {
            ask!(self.cuGraphGetEdges_v2(graph, at, end, data.as_mut_ptr(), &mut count))?;
        }
        Ok(from
            .into_iter()
            .zip(to)
            .zip(data)
            .take(count)
            .map(|((from, to), data)| (from, to, data))
            .collect())
    }

    /// How many edges there are.
    pub(crate) fn graph_count_edges(&self, graph: Graph<'_>) -> CudaResult<usize> {
        let (graph, nowhere, mut count) = (graph.raw(), ptr::null_mut(), 0);
        match ask!(self.cuGraphGetEdges_v2(graph, nowhere, nowhere, ptr::null_mut(), &mut count)) {
            Err(CudaError::CallRequiresNewerDriver) => {
                ask!(self.cuGraphGetEdges(graph, nowhere, nowhere, &mut count))?;
            }
            other => other?,
        }
        Ok(count)
    }

    /// Adds edges between nodes of the graph, which the caller has looked up.
    pub(crate) fn graph_add_dependencies(&self, graph: Graph<'_>, edges: &[Edge]) -> CudaResult<()> {
        let (from, to, data) = parts(edges);
        let (graph, from, to, count) = (graph.raw(), from.as_ptr(), to.as_ptr(), edges.len());
        if all_full(edges) {
            return ask!(self.cuGraphAddDependencies(graph, from, to, count));
        }
        ask!(self.cuGraphAddDependencies_v2(graph, from, to, data.as_ptr(), count))
    }

    /// Removes edges between nodes of the graph, which the caller has looked up.
    pub(crate) fn graph_remove_dependencies(&self, graph: Graph<'_>, edges: &[Edge]) -> CudaResult<()> {
        let (from, to, data) = parts(edges);
        let (graph, from, to, count) = (graph.raw(), from.as_ptr(), to.as_ptr(), edges.len());
        if all_full(edges) {
            return ask!(self.cuGraphRemoveDependencies(graph, from, to, count));
        }
        ask!(self.cuGraphRemoveDependencies_v2(graph, from, to, data.as_ptr(), count))
    }

    pub(crate) fn graph_destroy_node(&self, node: Node<'_>) -> CudaResult<()> {
        ask!(self.cuGraphDestroyNode(node.raw()))
    }

    parameter!(graph_node_get_type = cuGraphNodeGetType -> u32);
    parameter!(graph_kernel_node_get_params = cuGraphKernelNodeGetParams_v2 -> CUDA_KERNEL_NODE_PARAMS);
    parameter!(graph_memcpy_node_get_params = cuGraphMemcpyNodeGetParams -> CUDA_MEMCPY3D);
    parameter!(graph_memset_node_get_params = cuGraphMemsetNodeGetParams -> CUDA_MEMSET_NODE_PARAMS);
    parameter!(graph_child_graph_node_get_graph = cuGraphChildGraphNodeGetGraph -> CUgraph);
    parameter!(graph_event_record_node_get_event = cuGraphEventRecordNodeGetEvent -> CUevent);
    parameter!(graph_event_wait_node_get_event = cuGraphEventWaitNodeGetEvent -> CUevent);
    parameter!(graph_mem_alloc_node_get_params = cuGraphMemAllocNodeGetParams -> CUDA_MEM_ALLOC_NODE_PARAMS);
    parameter!(graph_mem_free_node_get_params = cuGraphMemFreeNodeGetParams -> CUdeviceptr);

    add!(graph_add_empty_node = cuGraphAddEmptyNode());
    add!(
        /// # Safety
        ///
        /// The function is valid, the pointers are to its arguments, and the caller guarantees what it does.
        (unsafe) graph_add_kernel_node = cuGraphAddKernelNode_v2(params: &CUDA_KERNEL_NODE_PARAMS => params)
    );
    /// Like [`graph_add_kernel_node`](Self::graph_add_kernel_node), with the options of a launch.
    ///
    /// # Safety
    ///
    /// As there.
    pub(crate) unsafe fn graph_add_configured_node(
        &self,
        graph: Graph<'_>,
        after: After<'_>,
        params: &CUDA_KERNEL_NODE_PARAMS,
        options: &Shape,
    ) -> Added {
        // SAFETY: as the caller guarantees.
        let raw = unsafe { self.graph_add_kernel_node(graph, after, params) }?;
        // SAFETY: added in the line above.
        let set = self.graph_kernel_node_set_options(unsafe { Held::new(raw) }, options);
        self.added(set, raw)
    }

    /// Gives a kernel node the options of a launch.
    pub(crate) fn graph_kernel_node_set_options(&self, node: Node<'_>, options: &Shape) -> CudaResult<()> {
        let (attributes, count) = options.attributes();
        attributes[..count].iter().try_for_each(|CUlaunchAttribute { id, value, .. }| {
            ask!(self.cuGraphKernelNodeSetAttribute(node.raw(), *id, value.as_ptr().cast()))
        })
    }

    add!(
        /// # Safety
        ///
        /// The copy is valid at every launch of the graph.
        (unsafe) graph_add_memcpy_node =
            cuGraphAddMemcpyNode(params: &CUDA_MEMCPY3D => params, context: Live<'_> => context.raw())
    );
    add!(
        /// # Safety
        ///
        /// The fill is valid at every launch of the graph.
        (unsafe) graph_add_memset_node =
            cuGraphAddMemsetNode(params: &CUDA_MEMSET_NODE_PARAMS => params, context: Live<'_> => context.raw())
    );
    add!(
        /// # Safety
        ///
        /// The function may be called with its data as often as the graph is launched, on any thread.
        (unsafe) graph_add_host_node = cuGraphAddHostNode(params: &CUDA_HOST_NODE_PARAMS => params)
    );
    add!(graph_add_child_graph_node = cuGraphAddChildGraphNode(child: Graph<'_> => child.raw()));
    add!(graph_add_event_record_node = cuGraphAddEventRecordNode(event: Held<'_, CUevent> => event.raw()));
    add!(graph_add_event_wait_node = cuGraphAddEventWaitNode(event: Held<'_, CUevent> => event.raw()));
    add!(graph_add_mem_alloc_node = cuGraphAddMemAllocNode(params: &mut CUDA_MEM_ALLOC_NODE_PARAMS => params));
    add!(graph_add_mem_free_node = cuGraphAddMemFreeNode(address: CUdeviceptr => address));

    /// # Safety
    ///
    /// Like [`graph_add_kernel_node`](Self::graph_add_kernel_node).
    pub(crate) unsafe fn graph_kernel_node_set_params(
        &self,
        node: Node<'_>,
        params: &CUDA_KERNEL_NODE_PARAMS,
    ) -> CudaResult<()> {
        ask!(self.cuGraphKernelNodeSetParams_v2(node.raw(), params))
    }

    /// # Safety
    ///
    /// Like [`graph_add_memcpy_node`](Self::graph_add_memcpy_node).
    pub(crate) unsafe fn graph_memcpy_node_set_params(
        &self,
        node: Node<'_>,
        params: &CUDA_MEMCPY3D,
    ) -> CudaResult<()> {
        ask!(self.cuGraphMemcpyNodeSetParams(node.raw(), params))
    }

    /// # Safety
    ///
    /// Like [`graph_add_memset_node`](Self::graph_add_memset_node).
    pub(crate) unsafe fn graph_memset_node_set_params(
        &self,
        node: Node<'_>,
        params: &CUDA_MEMSET_NODE_PARAMS,
    ) -> CudaResult<()> {
        ask!(self.cuGraphMemsetNodeSetParams(node.raw(), params))
    }

    /// # Safety
    ///
    /// Like [`graph_add_host_node`](Self::graph_add_host_node).
    pub(crate) unsafe fn graph_host_node_set_params(
        &self,
        node: Node<'_>,
        params: &CUDA_HOST_NODE_PARAMS,
    ) -> CudaResult<()> {
        ask!(self.cuGraphHostNodeSetParams(node.raw(), params))
    }

    pub(crate) fn graph_event_record_node_set_event(
        &self,
        node: Node<'_>,
        event: Held<'_, CUevent>,
    ) -> CudaResult<()> {
        ask!(self.cuGraphEventRecordNodeSetEvent(node.raw(), event.raw()))
    }

    pub(crate) fn graph_event_wait_node_set_event(
        &self,
        node: Node<'_>,
        event: Held<'_, CUevent>,
    ) -> CudaResult<()> {
        ask!(self.cuGraphEventWaitNodeSetEvent(node.raw(), event.raw()))
    }
}

fn all_full(edges: &[Edge]) -> bool {
    edges.iter().all(|(_, _, data)| (data.from_port, data.to_port, data.kind) == (0, 0, 0))
}

fn parts(edges: &[Edge]) -> (Vec<CUgraphNode>, Vec<CUgraphNode>, Vec<CUgraphEdgeData>) {
    let from = edges.iter().map(|edge| edge.0).collect();
    let to = edges.iter().map(|edge| edge.1).collect();
    (from, to, edges.iter().map(|edge| edge.2).collect())
}
