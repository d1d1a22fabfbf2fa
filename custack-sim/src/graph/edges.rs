//! Edges between nodes.

use super::{Graph, Operation};
use crate::machine::*;
use custack_sys::ffi::{CUgraphEdgeData, CUresult};
use std::collections::{BTreeMap, BTreeSet};

/// Returned if a query without edge data would lose it.
pub(super) const LOSSY_QUERY: CUresult = 402;
const PROGRAMMATIC: u8 = 1;

/// An edge: the later node depends on the earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) data: Data,
}

/// The port of the earlier node, the port of the later one, and the type of the edge; all 0 for a full dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Data {
    pub(crate) from_port: u8,
    pub(crate) to_port: u8,
    pub(crate) kind: u8,
    pub(crate) reserved: [u8; 5],
}

impl From<CUgraphEdgeData> for Data {
    fn from(it: CUgraphEdgeData) -> Data {
        Data { from_port: it.from_port, to_port: it.to_port, kind: it.kind, reserved: it.reserved }
    }
}

impl From<Data> for CUgraphEdgeData {
    fn from(it: Data) -> CUgraphEdgeData {
        CUgraphEdgeData { from_port: it.from_port, to_port: it.to_port, kind: it.kind, reserved: it.reserved }
    }
}

impl Edge {
    /// An edge to a node that does not exist yet.
    pub(crate) fn after(from: usize, data: Data) -> Edge {
        Edge { from, to: 0, data }
    }

    pub(crate) fn plain(from: usize) -> Edge {
        Edge::after(from, Data::default())
    }
}

impl Graph {
    fn has_edge(&self, from: usize, to: usize) -> bool {
        let (Some(before), Some(after)) = (self.nodes.get(&from), self.nodes.get(&to)) else { return false };
        let fewer = if before.from.len() < after.to.len() { &before.from } else { &after.to };
        fewer.iter().any(|edge| (edge.from, edge.to) == (from, to))
    }

    /// Adds an edge between two nodes that are there.
    pub(super) fn add(&mut self, edge: Edge) {
        self.nodes.entry(edge.from).and_modify(|node| node.from.push(edge));
        self.nodes.entry(edge.to).and_modify(|node| node.to.push(edge));
        self.note_ends(edge.from);
        self.note_ends(edge.to);
    }

    fn remove(&mut self, edge: &Edge) {
        let is_it = |it: &Edge| (it.from, it.to) == (edge.from, edge.to);
        self.nodes.entry(edge.from).and_modify(|node| node.from.retain(|it| !is_it(it)));
        self.nodes.entry(edge.to).and_modify(|node| node.to.retain(|it| !is_it(it)));
        self.note_ends(edge.from);
        self.note_ends(edge.to);
    }

    /// These nodes, and all that come before one of them.
    pub(super) fn up_to(&self, ends: impl Iterator<Item = usize>) -> BTreeSet<usize> {
        let mut open: Vec<usize> = ends.collect();
        let mut seen: BTreeSet<usize> = open.iter().copied().collect();
        while let Some(node) = open.pop() {
            let before = self.nodes.get(&node).into_iter().flat_map(|node| &node.to);
            open.extend(before.map(|edge| edge.from).filter(|before| seen.insert(*before)));
        }
        seen
    }

    /// The nodes in topological order; `None` if there is a cycle.
    pub(super) fn in_order(&self) -> Option<Vec<usize>> {
        let mut waits: BTreeMap<usize, usize> =
            self.nodes.iter().map(|(node, it)| (*node, it.to.len())).collect();
        let mut order: Vec<usize> =
            waits.iter().filter(|(_, waits)| **waits == 0).map(|(node, _)| *node).collect();
        let mut at = 0;
        while at < order.len() {
            for edge in &self.nodes.get(&order[at])?.from {
                let waits = waits.get_mut(&edge.to)?;
                *waits -= 1;
                if *waits == 0 {
                    order.push(edge.to);
                }
            }
            at += 1;
        }
        (order.len() == self.nodes.len()).then_some(order)
    }
}

impl Machine {
    /// Checks the dependencies of a new node: nodes of its graph, each once.
    pub(crate) fn dependencies(&mut self, graph: usize, after: &[Edge]) -> Answer<()> {
        self.graph(graph)?;
        let mut known = BTreeSet::new();
        for edge in after {
            if edge.from == 0 || !known.insert(edge.from) || self.graph_of(edge.from)? != graph {
                return self
                    .refuse(INVALID_VALUE, "a node comes after nodes of its own graph, once after each");
            }
        }
        Ok(())
    }

    /// Only between two kernels can the later one start before the earlier one ends.
    pub(crate) fn check_data(&mut self, edge: &Edge, to_kernel: bool) -> Answer<()> {
        let data = edge.data;
        if data == Data::default() {
            return Ok(());
        }
        let from_kernel = matches!(self.operation(edge.from)?, Operation::Kernel(_));
        let good = data.reserved == [0; 5]
            && data.to_port == 0
            && from_kernel
            && match data.kind {
                0 => data.from_port == 0,
                PROGRAMMATIC => (1..=2).contains(&data.from_port) && to_kernel,
                _ => false,
            };
        match good {
            true => Ok(()),
            false => self.refuse(INVALID_VALUE, format_args!("{data:?} is no edge between these nodes")),
        }
    }

    fn check_edge(&mut self, graph: usize, edge: &Edge) -> Answer<()> {
        if edge.from == 0 || edge.to == 0 {
            return self.refuse(INVALID_VALUE, "an edge is between two nodes, and got NULL");
        }
        if self.graph_of(edge.from)? != graph || self.graph_of(edge.to)? != graph || edge.from == edge.to {
            return self.refuse(INVALID_VALUE, "an edge is between two nodes of one graph");
        }
        Ok(())
    }

    /// Adds edges one after the other, if all are between nodes and have good data: those before the first one that is
    /// there already stay.
    pub(crate) fn add_edges(&mut self, graph: usize, edges: &[Edge]) -> Answer<()> {
        self.graph(graph)?;
        for edge in edges {
            self.check_edge(graph, edge)?;
            let to_kernel = matches!(self.operation(edge.to)?, Operation::Kernel(_));
            self.check_data(edge, to_kernel)?;
        }
        for edge in edges {
            if self.graph(graph)?.has_edge(edge.from, edge.to) {
                return self.refuse(INVALID_VALUE, "the graph has the edge already");
            }
            self.graph(graph)?.add(*edge);
        }
        Ok(())
    }

    pub(crate) fn may_lose_edges(&mut self, graph: usize) -> Answer<()> {
        if self.has_memory_nodes(graph)? {
            return self.refuse(NOT_SUPPORTED, "edges of a graph that allocates or frees stay");
        }
        Ok(())
    }

    /// Removes edges one after the other, if all are between nodes: those before the first one that is not there go.
    pub(crate) fn remove_edges(&mut self, graph: usize, edges: &[Edge]) -> Answer<()> {
        edges.iter().try_for_each(|edge| self.check_edge(graph, edge))?;
        for edge in edges {
            // The edge data is not checked.
            if !self.graph(graph)?.has_edge(edge.from, edge.to) {
                return self.refuse(INVALID_VALUE, "the graph has no such edge");
            }
            self.graph(graph)?.remove(edge);
        }
        Ok(())
    }

    /// All edges, ordered by their earlier nodes.
    pub(crate) fn edges_of(&mut self, graph: usize) -> Answer<Vec<Edge>> {
        Ok(self.graph(graph)?.nodes.values().flat_map(|node| node.from.iter().copied()).collect())
    }

    /// The edges to a node, in the order in which they were made.
    pub(crate) fn edges_to(&mut self, node: usize) -> Answer<Vec<Edge>> {
        let graph = self.graph_of(node)?;
        Ok(self.graph(graph)?.nodes.get(&node).map_or_else(Vec::new, |node| node.to.clone()))
    }

    /// The edges from a node.
    pub(crate) fn edges_from(&mut self, node: usize) -> Answer<Vec<Edge>> {
        let graph = self.graph_of(node)?;
        Ok(self.graph(graph)?.nodes.get(&node).map_or_else(Vec::new, |node| node.from.clone()))
    }

    /// Refuses a query without edge data if an edge has some.
    pub(crate) fn check_lossless(&mut self, edges: &[Edge]) -> Answer<()> {
        if edges.iter().all(|edge| edge.data == Data::default()) {
            return Ok(());
        }
        self.refuse(LOSSY_QUERY, "an edge is more than that one node comes after the other")
    }
}
