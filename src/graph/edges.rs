//! Queries of a graph, and its edges.

// Keys that were looked up become handles.
#![allow(unsafe_code)]

use super::{CopyParams, EdgeData, FillParams, Graph, KernelParams, Node, NodeKind};
use crate::driver::ffi::{CUdeviceptr, CUevent, CUgraph, CUgraphNode};
use crate::driver::{Driver, Edge, Held};
use crate::error::{CudaError, CudaResult, keep_note};
use std::collections::HashSet;

/// A query of a node.
type Ask<R> = fn(&Driver, Held<'_, CUgraphNode>) -> CudaResult<R>;

impl Graph {
    /// All nodes, in the order in which they were added.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
    #[doc(alias = "cuGraphGetNodes")]
    #[inline]
    pub fn nodes(&mut self) -> CudaResult<Vec<Node>> {
        let raw = self.with(Driver::graph_get_nodes)?;
        Ok(raw.into_iter().map(|raw| self.nodes.key(raw)).collect())
    }

    /// The nodes that depend on no other.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
    #[doc(alias = "cuGraphGetRootNodes")]
    #[inline]
    pub fn root_nodes(&mut self) -> CudaResult<Vec<Node>> {
        let raw = self.with(Driver::graph_get_root_nodes)?;
        Ok(raw.into_iter().map(|raw| self.nodes.key(raw)).collect())
    }

    /// All edges, each from the earlier node to the later.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
    #[doc(alias("cuGraphGetEdges", "cuGraphGetEdges_v2"))]
    #[inline]
    pub fn edges(&mut self) -> CudaResult<Vec<(Node, Node, EdgeData)>> {
        let raw = self.with(Driver::graph_get_edges)?;
        let keys = |(from, to, data)| (self.nodes.key(from), self.nodes.key(to), EdgeData::of(data));
        Ok(raw.into_iter().map(keys).collect())
    }

    /// The nodes that this one depends on.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](crate::error::CudaError::InvalidHandle) for a node of another graph.
    #[doc(alias("cuGraphNodeGetDependencies", "cuGraphNodeGetDependencies_v2"))]
    #[inline]
    pub fn dependencies(&mut self, node: Node) -> CudaResult<Vec<(Node, EdgeData)>> {
        self.nodes.find(node)?;
        let edges = self.edges()?.into_iter();
        Ok(edges.filter(|(_, to, _)| *to == node).map(|(from, _, data)| (from, data)).collect())
    }

    /// The nodes that depend on this one.
    ///
    /// # Errors
    ///
    /// Like [`dependencies`](Self::dependencies).
    #[doc(alias("cuGraphNodeGetDependentNodes", "cuGraphNodeGetDependentNodes_v2"))]
    #[inline]
    pub fn dependents(&mut self, node: Node) -> CudaResult<Vec<(Node, EdgeData)>> {
        self.nodes.find(node)?;
        let edges = self.edges()?.into_iter();
        Ok(edges.filter(|(from, _, _)| *from == node).map(|(_, to, data)| (to, data)).collect())
    }

    /// Makes each later node wait for its earlier one. If one edge cannot be added, none is.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](crate::error::CudaError::InvalidHandle) for a node of another graph;
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for an edge that exists already, or that is given twice; an
    /// error of the driver. A cycle is an error only of [`instantiate`](Self::instantiate).
    #[doc(alias("cuGraphAddDependencies", "cuGraphAddDependencies_v2"))]
    #[inline]
    pub fn add_edges(&mut self, edges: &[(Node, Node, EdgeData)]) -> CudaResult<()> {
        let edges = self.raw_edges(edges)?;
        self.with(|driver, graph| {
            refuse_some(driver, graph, &edges, true)?;
            let after = driver.graph_count_edges(graph)? + edges.len();
            driver.graph_add_dependencies(graph, &edges).inspect_err(|_| {
                let _note = keep_note();
                // The driver has added all of them, or none.
                if driver.graph_count_edges(graph) == Ok(after) {
                    let _ = driver.graph_remove_dependencies(graph, &edges);
                }
            })
        })
    }

    /// Removes edges. If one cannot be removed, none is.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](crate::error::CudaError::InvalidHandle) for a node of another graph;
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for an edge that does not exist, or that is given twice; an
    /// error of the driver.
    #[doc(alias("cuGraphRemoveDependencies", "cuGraphRemoveDependencies_v2"))]
    #[inline]
    pub fn remove_edges(&mut self, edges: &[(Node, Node, EdgeData)]) -> CudaResult<()> {
        let edges = self.raw_edges(edges)?;
        self.with(|driver, graph| {
            refuse_some(driver, graph, &edges, false)?;
            let before = driver.graph_count_edges(graph)?;
            driver.graph_remove_dependencies(graph, &edges).inspect_err(|_| {
                let _note = keep_note();
                if driver.graph_count_edges(graph).map(|after| after + edges.len()) == Ok(before) {
                    let _ = driver.graph_add_dependencies(graph, &edges);
                }
            })
        })
    }

    #[inline]
    fn raw_edges(&self, edges: &[(Node, Node, EdgeData)]) -> CudaResult<Vec<Edge>> {
        let raw = |(from, to, data): &(Node, Node, EdgeData)| {
            Ok((self.nodes.find(*from)?, self.nodes.find(*to)?, data.raw()))
        };
        edges.iter().map(raw).collect()
    }

    /// What the node does.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](crate::error::CudaError::InvalidHandle) for a node of another graph.
    #[doc(alias = "cuGraphNodeGetType")]
    #[inline]
    pub fn kind(&mut self, node: Node) -> CudaResult<NodeKind> {
        self.ask(node, Driver::graph_node_get_type).map(NodeKind::from_raw)
    }

    /// What a kernel node launches.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](crate::error::CudaError::InvalidHandle) for a node of another graph;
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for a node of another kind.
    #[doc(alias("cuGraphKernelNodeGetParams", "cuGraphKernelNodeGetParams_v2"))]
    #[inline]
    pub fn kernel(&mut self, node: Node) -> CudaResult<KernelParams> {
        self.ask_of(node, NodeKind::Kernel, Driver::graph_kernel_node_get_params)
            .map(|raw| KernelParams::of(&raw))
    }

    /// What a copy node copies.
    ///
    /// # Errors
    ///
    /// Like [`kernel`](Self::kernel); [`NotSupported`](crate::error::CudaError::NotSupported) for a captured copy of
    /// several slices, or of part of an array.
    #[doc(alias = "cuGraphMemcpyNodeGetParams")]
    #[inline]
    pub fn copy(&mut self, node: Node) -> CudaResult<CopyParams> {
        let raw = self.ask_of(node, NodeKind::Copy, Driver::graph_memcpy_node_get_params)?;
        CopyParams::of(&raw)
    }

    /// What a fill node fills.
    ///
    /// # Errors
    ///
    /// Like [`kernel`](Self::kernel).
    #[doc(alias = "cuGraphMemsetNodeGetParams")]
    #[inline]
    pub fn fill(&mut self, node: Node) -> CudaResult<FillParams> {
        self.ask_of(node, NodeKind::Fill, Driver::graph_memset_node_get_params)
            .map(|raw| FillParams::of(&raw))
    }

    /// The driver's handle of the event that a node records or waits for.
    ///
    /// # Errors
    ///
    /// Like [`kernel`](Self::kernel).
    #[doc(alias("cuGraphEventRecordNodeGetEvent", "cuGraphEventWaitNodeGetEvent"))]
    #[inline]
    pub fn event(&mut self, node: Node) -> CudaResult<CUevent> {
        match self.records(node)? {
            true => self.ask(node, Driver::graph_event_record_node_get_event),
            false => self.ask(node, Driver::graph_event_wait_node_get_event),
        }
    }

    /// The address and the size in bytes of a node's allocation.
    ///
    /// # Errors
    ///
    /// Like [`kernel`](Self::kernel).
    #[doc(alias = "cuGraphMemAllocNodeGetParams")]
    #[inline]
    pub fn allocation(&mut self, node: Node) -> CudaResult<(CUdeviceptr, usize)> {
        let raw = self.ask_of(node, NodeKind::Allocation, Driver::graph_mem_alloc_node_get_params)?;
        Ok((raw.dptr, raw.bytesize))
    }

    /// The address that a node frees.
    ///
    /// # Errors
    ///
    /// Like [`kernel`](Self::kernel).
    #[doc(alias = "cuGraphMemFreeNodeGetParams")]
    #[inline]
    pub fn freed(&mut self, node: Node) -> CudaResult<CUdeviceptr> {
        self.ask_of(node, NodeKind::Free, Driver::graph_mem_free_node_get_params)
    }

    /// A clone of the graph of a child node. It keeps what that graph keeps.
    ///
    /// # Errors
    ///
    /// Like [`kernel`](Self::kernel).
    #[doc(alias = "cuGraphChildGraphNodeGetGraph")]
    #[inline]
    pub fn child(&mut self, node: Node) -> CudaResult<Graph> {
        let pins = self.owned.more_pins()?;
        let child = self.ask_of(node, NodeKind::Child, Driver::graph_child_graph_node_get_graph)?;
        // SAFETY: the driver owns it, and it lives as long as the node, which is of this borrowed graph.
        let raw = self.with(|driver, _| driver.graph_clone(unsafe { Held::new(child) }))?;
        Ok(Graph::of(raw, super::Nodes::new(), pins))
    }

    #[inline]
    fn ask<R>(&mut self, node: Node, ask: Ask<R>) -> CudaResult<R> {
        let raw = self.nodes.find(node)?;
        // SAFETY: the key was looked up in this graph.
        self.with(|driver, _| ask(driver, unsafe { Held::new(raw) }))
    }

    /// Queries a node of this kind; for some other kinds the driver would return a meaningless value.
    #[inline]
    fn ask_of<R>(&mut self, node: Node, wanted: NodeKind, ask: Ask<R>) -> CudaResult<R> {
        let kind = self.kind(node)?;
        if kind != wanted {
            return Err(
                CudaError::InvalidValue.note(format_args!("to use a node of {kind:?} as one of {wanted:?}"))
            );
        }
        self.ask(node, ask)
    }
}

/// Refuses edges that cannot all be added, or removed: the driver would change those before the first that is there
/// already, or that is not there.
#[inline]
fn refuse_some(driver: &Driver, graph: Held<'_, CUgraph>, edges: &[Edge], adds: bool) -> CudaResult<()> {
    if edges.len() < 2 {
        return Ok(());
    }
    let ends = |(from, to, _): &Edge| (*from, *to);
    let mut there: HashSet<_> = driver.graph_get_edges(graph)?.iter().map(ends).collect();
    let mut change = |edge| if adds { there.insert(edge) } else { there.remove(&edge) };
    let Some(at) = edges.iter().position(|edge| !change(ends(edge))) else { return Ok(()) };
    let (asked, why) = if adds { ("add", "is there already") } else { ("remove", "is not there") };
    let count = edges.len();
    Err(CudaError::InvalidValue.note(format_args!("to {asked} {count} edges: that at index {at} {why}")))
}
