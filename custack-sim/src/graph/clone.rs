//! Copies of graphs.

use super::edges::Edge;
use super::{Graph, Node, Operation};
use crate::machine::*;
use std::collections::{BTreeMap, VecDeque};

/// A copy of a graph that is being made. Child graphs are copied with a list of these, as deep as they are.
struct Copying {
    graph: usize,
    copy: usize,
    embedded_in: usize,
    /// The nodes that are not copied yet.
    left: VecDeque<(usize, Operation)>,
    /// The copies of the others, and their operations.
    made: BTreeMap<usize, usize>,
    operations: Vec<Operation>,
}

impl Machine {
    pub(crate) fn clone_graph(&mut self, has_out: bool, graph: usize) -> Answer<usize> {
        self.graph(graph)?;
        if !has_out {
            return self.refuse(INVALID_VALUE, "a clone needs a pointer for its handle, and got NULL");
        }
        if self.has_memory_nodes(graph)? {
            return self.refuse(NOT_SUPPORTED, "a graph that allocates or frees is not cloned");
        }
        let nodes = &self.graph(graph)?.nodes;
        let contexts = nodes.values().filter(|node| matches!(node.operation, Operation::Kernel(_)));
        let contexts: Vec<_> = contexts.map(|node| node.operation.context()).collect();
        if contexts.into_iter().any(|context| !self.is_alive(context)) {
            return self
                .misuse(CONTEXT_IS_DESTROYED, "a clone of a graph with kernels of a destroyed context");
        }
        self.copy_graph(graph)
    }

    /// Copies a graph and its child graphs; the copy keeps what the original keeps.
    pub(super) fn copy_graph(&mut self, graph: usize) -> Answer<usize> {
        let mut open = vec![self.begin_copy(graph, 0)?];
        while let Some(last) = open.last_mut() {
            let Some((origin, operation)) = last.left.pop_front() else {
                let Some(done) = open.pop() else { break };
                let copy = done.copy;
                self.end_copy(done)?;
                if open.is_empty() {
                    return Ok(copy);
                }
                continue;
            };
            let handle = self.graphs.next();
            self.graphs.nodes.insert(handle, last.copy);
            last.made.insert(origin, handle);
            if let Operation::Child(child) = operation {
                let child = self.begin_copy(child, handle)?;
                last.operations.push(Operation::Child(child.copy));
                open.push(child);
            } else {
                last.operations.push(operation);
            }
        }
        Err(INVALID_VALUE)
    }

    fn begin_copy(&mut self, graph: usize, embedded_in: usize) -> Answer<Copying> {
        let copy = self.graphs.next();
        let nodes = self.graph(graph)?.nodes.iter();
        let left = nodes.map(|(handle, node)| (*handle, node.operation.clone())).collect();
        Ok(Copying { graph, copy, embedded_in, left, made: BTreeMap::new(), operations: Vec::new() })
    }

    fn end_copy(
        &mut self,
        Copying { graph, copy, embedded_in, made, operations, .. }: Copying,
    ) -> Answer<()> {
        let original = self.graph(graph)?;
        let moved =
            |edge: &Edge| Some(Edge { from: *made.get(&edge.from)?, to: *made.get(&edge.to)?, ..*edge });
        let edges = |edges: &[Edge]| edges.iter().filter_map(moved).collect();
        let nodes = original.nodes.iter().zip(operations).filter_map(|((origin, node), operation)| {
            let node = Node { operation, origin: *origin, to: edges(&node.to), from: edges(&node.from) };
            Some((*made.get(origin)?, node))
        });
        let nodes = nodes.collect();
        let (roots, leaves) = (original.roots.of_copy(&made), original.leaves.of_copy(&made));
        let users = original.users.clone();
        let copied = Graph { nodes, origin: graph, embedded_in, roots, leaves, users, ..Graph::default() };
        self.graphs.insert(copy, copied);
        Ok(())
    }

    /// The copy of a node in a clone.
    pub(crate) fn find_in_clone(&mut self, has_out: bool, original: usize, clone: usize) -> Answer<usize> {
        let from = self.graph_of(original)?;
        let clone = self.graph(clone)?;
        let of = clone.origin == from;
        let found =
            clone.nodes.iter().find(|(_, node)| of && node.origin == original).map(|(handle, _)| *handle);
        match found.filter(|_| has_out) {
            Some(node) => Ok(node),
            None => self.refuse(INVALID_VALUE, "the graph is no clone that has such a node"),
        }
    }
}
