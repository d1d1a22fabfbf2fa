//! Edges between nodes.

use super::{Graph, Operation};
use crate::driver::ffi::{CUgraphEdgeData, CUresult};
use crate::sim::machine::*;

/// Returned if a query without edge data would lose it.
pub(super) const LOSSY_QUERY: CUresult = 402;
const PROGRAMMATIC: u8 = 1;

/// An edge: the later node depends on the earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sim) struct Edge {
    pub(in crate::sim) from: usize,
    pub(in crate::sim) to: usize,
    pub(in crate::sim) data: Data,
}

/// The port of the earlier node, the port of the later one, and the type of the edge; all 0 for a full dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::sim) struct Data {
    pub(in crate::sim) from_port: u8,
    pub(in crate::sim) to_port: u8,
    pub(in crate::sim) kind: u8,
    pub(in crate::sim) reserved: [u8; 5],
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
    pub(in crate::sim) fn after(from: usize, data: Data) -> Edge {
        Edge { from, to: 0, data }
    }

    pub(in crate::sim) fn plain(from: usize) -> Edge {
        Edge::after(from, Data::default())
    }
}

impl Graph {
    fn has_edge(&self, from: usize, to: usize) -> bool {
        self.edges.iter().any(|edge| (edge.from, edge.to) == (from, to))
    }

    /// Whether a node is the other one, or comes before it.
    pub(super) fn reaches(&self, from: usize, to: usize) -> bool {
        let mut open = vec![to];
        let mut seen = Vec::new();
        while let Some(node) = open.pop() {
            if node == from {
                return true;
            }
            if !seen.contains(&node) {
                seen.push(node);
                open.extend(self.edges.iter().filter(|edge| edge.to == node).map(|edge| edge.from));
            }
        }
        false
    }

    /// The nodes in topological order; `None` if there is a cycle.
    pub(super) fn in_order(&self) -> Option<Vec<usize>> {
        let mut waits: Vec<usize> = self
            .nodes
            .iter()
            .map(|it| self.edges.iter().filter(|edge| edge.to == it.handle).count())
            .collect();
        let mut order = Vec::new();
        let mut at = 0;
        let mut ready: Vec<usize> = (0..self.nodes.len()).filter(|at| waits[*at] == 0).collect();
        while at < ready.len() {
            let node = self.nodes[ready[at]].handle;
            order.push(node);
            at += 1;
            for edge in self.edges.iter().filter(|edge| edge.from == node) {
                let to = self.position(edge.to)?;
                waits[to] -= 1;
                if waits[to] == 0 {
                    ready.push(to);
                }
            }
        }
        (order.len() == self.nodes.len()).then_some(order)
    }
}

impl Machine {
    /// Checks the dependencies of a new node: nodes of its graph, each once.
    pub(in crate::sim) fn dependencies(&mut self, graph: usize, after: &[Edge]) -> Answer<()> {
        self.graph(graph)?;
        for (at, edge) in after.iter().enumerate() {
            let twice = after[..at].iter().any(|other| other.from == edge.from);
            if edge.from == 0 || twice || self.graph_of(edge.from)? != graph {
                return self
                    .refuse(INVALID_VALUE, "a node comes after nodes of its own graph, once after each");
            }
        }
        Ok(())
    }

    /// Only between two kernels can the later one start before the earlier one ends.
    pub(in crate::sim) fn check_data(&mut self, edge: &Edge, to_kernel: bool) -> Answer<()> {
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

    /// Adds edges one after the other, if all are between nodes: those before the first one that is there already or
    /// has wrong data stay.
    pub(in crate::sim) fn add_edges(&mut self, graph: usize, edges: &[Edge]) -> Answer<()> {
        self.graph(graph)?;
        edges.iter().try_for_each(|edge| self.check_edge(graph, edge))?;
        edges.iter().try_for_each(|edge| self.add_edge(graph, edge))
    }

    fn add_edge(&mut self, graph: usize, edge: &Edge) -> Answer<()> {
        let to_kernel = matches!(self.operation(edge.to)?, Operation::Kernel(_));
        self.check_data(edge, to_kernel)?;
        if self.graph(graph)?.has_edge(edge.from, edge.to) {
            return self.refuse(INVALID_VALUE, "the graph has the edge already");
        }
        let graph = self.graph(graph)?;
        graph.edges.push(*edge);
        graph.note_ends(edge.from);
        graph.note_ends(edge.to);
        Ok(())
    }

    pub(in crate::sim) fn may_lose_edges(&mut self, graph: usize) -> Answer<()> {
        if self.has_memory_nodes(graph)? {
            return self.refuse(NOT_SUPPORTED, "edges of a graph that allocates or frees stay");
        }
        Ok(())
    }

    /// Removes edges one after the other, if all are between nodes: those before the first one that is not there go.
    pub(in crate::sim) fn remove_edges(&mut self, graph: usize, edges: &[Edge]) -> Answer<()> {
        edges.iter().try_for_each(|edge| self.check_edge(graph, edge))?;
        for edge in edges {
            let graph = self.graph(graph)?;
            // The edge data is not checked.
            let Some(at) = graph.edges.iter().position(|it| (it.from, it.to) == (edge.from, edge.to)) else {
                return self.refuse(INVALID_VALUE, "the graph has no such edge");
            };
            graph.edges.remove(at);
            graph.note_ends(edge.from);
            graph.note_ends(edge.to);
        }
        Ok(())
    }

    /// All edges, ordered by their earlier nodes.
    pub(in crate::sim) fn edges_of(&mut self, graph: usize) -> Answer<Vec<Edge>> {
        let graph = self.graph(graph)?;
        let of = |node: usize| graph.edges.iter().filter(move |edge| edge.from == node).copied();
        Ok(graph.nodes.iter().flat_map(|node| of(node.handle)).collect())
    }

    /// The edges to a node, in the order in which they were made.
    pub(in crate::sim) fn edges_to(&mut self, node: usize) -> Answer<Vec<Edge>> {
        let graph = self.graph_of(node)?;
        Ok(self.graph(graph)?.edges.iter().filter(|edge| edge.to == node).copied().collect())
    }

    /// The edges from a node.
    pub(in crate::sim) fn edges_from(&mut self, node: usize) -> Answer<Vec<Edge>> {
        let graph = self.graph_of(node)?;
        Ok(self.graph(graph)?.edges.iter().filter(|edge| edge.from == node).copied().collect())
    }

    /// Refuses a query without edge data if an edge has some.
    pub(in crate::sim) fn check_lossless(&mut self, edges: &[Edge]) -> Answer<()> {
        if edges.iter().all(|edge| edge.data == Data::default()) {
            return Ok(());
        }
        self.refuse(LOSSY_QUERY, "an edge is more than that one node comes after the other")
    }
}
