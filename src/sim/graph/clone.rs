//! Copies of graphs.

use super::edges::Edge;
use super::{Graph, Node, Operation};
use crate::sim::machine::*;
use std::collections::BTreeMap;

impl Machine {
    pub(in crate::sim) fn clone_graph(&mut self, has_out: bool, graph: usize) -> Answer<usize> {
        self.graph(graph)?;
        if !has_out {
            return self.refuse(INVALID_VALUE, "a clone needs a pointer for its handle, and got NULL");
        }
        if self.has_memory_nodes(graph)? {
            return self.refuse(NOT_SUPPORTED, "a graph that allocates or frees is not cloned");
        }
        let nodes = &self.graph(graph)?.nodes;
        let contexts = nodes.iter().filter(|node| matches!(node.operation, Operation::Kernel(_)));
        let contexts: Vec<_> = contexts.map(|node| node.operation.context()).collect();
        if contexts.into_iter().any(|context| !self.is_alive(context)) {
            return self
                .misuse(CONTEXT_IS_DESTROYED, "a clone of a graph with kernels of a destroyed context");
        }
        self.copy_graph(graph)
    }

    /// Copies a graph and its child graphs; the copy keeps what the original keeps.
    pub(super) fn copy_graph(&mut self, graph: usize) -> Answer<usize> {
        let copy = self.graphs.next();
        let original = self.graph(graph)?;
        let users = original.users.clone();
        let edges = original.edges.clone();
        let (roots, leaves) = (original.roots.clone(), original.leaves.clone());
        let nodes: Vec<_> = original.nodes.iter().map(|node| (node.handle, node.operation.clone())).collect();
        let mut made = BTreeMap::new();
        let mut copies = Vec::new();
        for (origin, operation) in nodes {
            let handle = self.graphs.next();
            let operation = match operation {
                Operation::Child(child) => {
                    let child = self.copy_graph(child)?;
                    self.graph(child)?.embedded_in = handle;
                    Operation::Child(child)
                }
                other => other,
            };
            made.insert(origin, handle);
            self.graphs.nodes.insert(handle, copy);
            copies.push(Node { handle, operation, origin });
        }
        let moved =
            |edge: Edge| Some(Edge { from: *made.get(&edge.from)?, to: *made.get(&edge.to)?, ..edge });
        let edges = edges.into_iter().filter_map(moved).collect();
        let there = |list: Vec<usize>| list.iter().filter_map(|node| made.get(node).copied()).collect();
        let (roots, leaves) = (there(roots), there(leaves));
        let copied = Graph { nodes: copies, edges, origin: graph, roots, leaves, users, ..Graph::default() };
        self.graphs.insert(copy, copied);
        Ok(copy)
    }

    /// The copy of a node in a clone.
    pub(in crate::sim) fn find_in_clone(
        &mut self,
        has_out: bool,
        original: usize,
        clone: usize,
    ) -> Answer<usize> {
        let from = self.graph_of(original)?;
        let clone = self.graph(clone)?;
        let of = clone.origin == from;
        let found = clone.nodes.iter().find(|node| of && node.origin == original).map(|node| node.handle);
        match found.filter(|_| has_out) {
            Some(node) => Ok(node),
            None => self.refuse(INVALID_VALUE, "the graph is no clone that has such a node"),
        }
    }
}
