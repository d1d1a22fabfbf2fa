//! Graphs: operations and their order, launched as one.
//!
//! A graph belongs to no context; its kernels, copies, fills and events do. Instantiating takes a snapshot, the
//! executable graph, and a launch is one piece of work of a stream, in which the branches run side by side.

pub(super) mod abi;
mod attributes;
mod clone;
mod dot;
mod edges;
mod executable;
mod instantiate;
mod launch;
mod memory;
mod nodes;
mod operation;
mod update;
mod users;

pub(super) use edges::Edge;
pub(super) use executable::Executable;
pub(super) use instantiate::ERROR;
pub(super) use operation::{Copy, Fill, Host, Kernel, Operation, Parameters, Side};
pub(super) use users::run_destructors;

use super::machine::*;
use super::stream::ILLEGAL_STATE;
use std::collections::{BTreeMap, BTreeSet};
use users::{Held, UserObject};

/// Outside the range of the handles of contexts and their objects.
const FIRST: usize = 0x5349_4700_0000;
const STEP: usize = 0x40;

/// All graphs, executables and user objects, by handle. Handles are not reused.
#[derive(Default)]
pub(super) struct Graphs {
    graphs: BTreeMap<usize, Graph>,
    /// The graph of each node.
    nodes: BTreeMap<usize, usize>,
    executables: BTreeMap<usize, Executable>,
    users: BTreeMap<usize, UserObject>,
    made: usize,
    graphs_made: usize,
}

#[derive(Default)]
struct Graph {
    /// In the order in which they were made.
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    /// The graph that it is a clone of.
    origin: usize,
    /// The node that it is the child graph of, or 0.
    embedded_in: usize,
    users: BTreeMap<usize, Held>,
    /// The nodes that come after none, the latest first.
    roots: Vec<usize>,
    /// The nodes that come before none, the latest first.
    leaves: Vec<usize>,
    /// It was asked to allocate, whether a node came of it or not.
    tried_memory: bool,
    /// Where an executable allocates that was made of it: whoever uses that frees it.
    made: BTreeSet<u64>,
    /// A stream captures into it.
    captured_into: bool,
    /// The number of the captures into it, if there was one.
    pub(super) capture: Option<u64>,
    /// Its number in the driver's texts.
    number: usize,
}

struct Node {
    handle: usize,
    operation: Operation,
    /// The node of the original that it is a clone of, or 0.
    origin: usize,
}

impl Graphs {
    fn next(&mut self) -> usize {
        self.made += 1;
        FIRST + self.made * STEP
    }

    fn insert(&mut self, handle: usize, graph: Graph) {
        self.graphs_made += 1;
        self.graphs.insert(handle, Graph { number: self.graphs_made, ..graph });
    }

    /// Graphs, executables and user objects that are there; child graphs go with their parents.
    pub(super) fn count(&mut self) -> usize {
        let graphs = self.graphs.values().filter(|graph| graph.embedded_in == 0).count();
        self.users.retain(|_, user| user.is_held());
        graphs + self.executables.len() + self.users.len()
    }
}

impl Graph {
    /// The edges of a node have changed: it may have become a root or a leaf, or be none any more.
    fn note_ends(&mut self, node: usize) {
        let is_root = self.edges.iter().all(|edge| edge.to != node);
        let is_leaf = self.edges.iter().all(|edge| edge.from != node);
        for (list, is_in) in [(&mut self.roots, is_root), (&mut self.leaves, is_leaf)] {
            match list.iter().position(|it| *it == node) {
                Some(at) if !is_in => {
                    list.remove(at);
                }
                None if is_in => list.insert(0, node),
                _ => {}
            }
        }
    }

    fn position(&self, node: usize) -> Option<usize> {
        self.nodes.iter().position(|it| it.handle == node)
    }

    fn node(&self, node: usize) -> Option<&Node> {
        self.nodes.iter().find(|it| it.handle == node)
    }
}

impl Machine {
    fn graph(&mut self, handle: usize) -> Answer<&mut Graph> {
        self.ready()?;
        if handle == 0 {
            return self.refuse(INVALID_VALUE, "the graph is NULL");
        }
        if !self.graphs.graphs.contains_key(&handle) {
            return self.refuse(INVALID_VALUE, format_args!("{handle:#x} is no graph"));
        }
        self.graphs.graphs.get_mut(&handle).ok_or(INVALID_VALUE)
    }

    /// The graph of a node.
    fn graph_of(&mut self, node: usize) -> Answer<usize> {
        self.ready()?;
        if node == 0 {
            return self.refuse(INVALID_VALUE, "the node is NULL");
        }
        match self.graphs.nodes.get(&node) {
            Some(graph) => Ok(*graph),
            None => self.misuse(INVALID_VALUE, format_args!("{node:#x} is no node")),
        }
    }

    fn operation(&mut self, node: usize) -> Answer<&mut Operation> {
        let graph = self.graph_of(node)?;
        let graph = self.graph(graph)?;
        let found = graph.nodes.iter_mut().find(|it| it.handle == node);
        Ok(&mut found.ok_or(INVALID_VALUE)?.operation)
    }

    pub(super) fn create_graph(&mut self, has_out: bool, flags: u32) -> Answer<usize> {
        self.ready()?;
        if !has_out || flags != 0 {
            return self.refuse(INVALID_VALUE, "a graph has no flags, and needs a pointer for its handle");
        }
        Ok(self.new_graph())
    }

    /// Makes an empty graph.
    pub(super) fn new_graph(&mut self) -> usize {
        let handle = self.graphs.next();
        self.graphs.insert(handle, Graph::default());
        handle
    }

    pub(super) fn destroy_graph(&mut self, handle: usize) -> Answer<()> {
        let graph = self.graph(handle)?;
        if graph.embedded_in != 0 {
            return self.refuse(INVALID_VALUE, "cuGraphDestroy of a graph that is a child");
        }
        if graph.captured_into {
            return self.refuse(ILLEGAL_STATE, "cuGraphDestroy of a graph that a stream captures into");
        }
        self.drop_graph(handle);
        Ok(())
    }

    /// Removes a graph and its child graphs.
    pub(super) fn drop_graph(&mut self, handle: usize) {
        let Some(graph) = self.graphs.graphs.remove(&handle) else { return };
        for node in graph.nodes {
            self.graphs.nodes.remove(&node.handle);
            self.drop_operation(handle, node.operation);
        }
    }

    fn drop_operation(&mut self, graph: usize, operation: Operation) {
        match operation {
            Operation::Child(child) => self.drop_graph(child),
            Operation::Allocate(allocation) => self.drop_allocation(graph, &allocation),
            _ => {}
        }
    }

    /// The number of the graph's captures, which is this one if there was none.
    pub(super) fn number_of_captures(&mut self, graph: usize, new: u64) -> u64 {
        let graph = self.graphs.graphs.get_mut(&graph);
        graph.map_or(new, |graph| *graph.capture.get_or_insert(new))
    }

    pub(super) fn set_captured_into(&mut self, graph: usize, captured: bool) {
        if let Some(graph) = self.graphs.graphs.get_mut(&graph) {
            graph.captured_into = captured;
        }
    }

    /// Whether one node of a graph is another, or comes before it.
    pub(super) fn comes_before(&self, graph: usize, node: usize, end: usize) -> bool {
        self.graphs.graphs.get(&graph).is_some_and(|graph| graph.reaches(node, end))
    }

    /// Adds a node after others of the same graph, which are distinct.
    pub(super) fn add_node(&mut self, graph: usize, after: &[Edge], operation: Operation) -> Answer<usize> {
        let handle = self.graphs.next();
        let graph_of = self.graph(graph)?;
        graph_of.nodes.push(Node { handle, operation, origin: 0 });
        graph_of.edges.extend(after.iter().map(|edge| Edge { to: handle, ..*edge }));
        graph_of.note_ends(handle);
        after.iter().for_each(|edge| graph_of.note_ends(edge.from));
        self.graphs.nodes.insert(handle, graph);
        Ok(handle)
    }

    pub(super) fn destroy_node(&mut self, node: usize) -> Answer<()> {
        let graph = self.graph_of(node)?;
        if self.graph(graph)?.captured_into {
            return self.refuse(ILLEGAL_STATE, "a node of a graph that a stream captures into");
        }
        if self.has_memory_nodes(graph)? {
            return self.refuse(NOT_SUPPORTED, "nodes of a graph that allocates or frees stay");
        }
        let found = self.graph(graph)?;
        let beside = |edge: &&Edge| edge.from == node || edge.to == node;
        let others: Vec<_> =
            found.edges.iter().filter(beside).flat_map(|edge| [edge.from, edge.to]).collect();
        found.edges.retain(|edge| edge.from != node && edge.to != node);
        others.into_iter().for_each(|other| found.note_ends(other));
        found.roots.retain(|root| *root != node);
        found.leaves.retain(|leaf| *leaf != node);
        let at = found.position(node).ok_or(INVALID_VALUE)?;
        let gone = found.nodes.remove(at);
        self.graphs.nodes.remove(&node);
        self.drop_operation(graph, gone.operation);
        Ok(())
    }

    pub(super) fn node_type(&mut self, node: usize) -> Answer<u32> {
        self.operation(node).map(|operation| operation.number())
    }

    pub(super) fn nodes_of(&mut self, graph: usize) -> Answer<Vec<usize>> {
        Ok(self.graph(graph)?.nodes.iter().map(|node| node.handle).collect())
    }

    pub(super) fn roots_of(&mut self, graph: usize) -> Answer<Vec<usize>> {
        Ok(self.graph(graph)?.roots.clone())
    }

    pub(super) fn child_of(&mut self, node: usize) -> Answer<usize> {
        match self.operation(node)? {
            Operation::Child(child) => Ok(*child),
            _ => self.refuse(INVALID_VALUE, "the node has no child graph"),
        }
    }

    /// The graph is copied, with its children and what it keeps.
    pub(super) fn add_child(
        &mut self,
        has_out: bool,
        graph: usize,
        after: &[Edge],
        child: usize,
    ) -> Answer<usize> {
        let embedded = self.graph(child)?.embedded_in != 0;
        if graph == child {
            return self.misuse(INVALID_VALUE, "a graph as a child of its own");
        }
        if !has_out {
            return self.refuse(INVALID_VALUE, "a node needs a pointer for its handle, and got NULL");
        }
        if embedded || self.has_memory_nodes(child)? {
            return self.refuse(
                NOT_SUPPORTED,
                "a graph that allocates or frees, or is a child already, is no child",
            );
        }
        self.dependencies(graph, after)?;
        let copy = self.copy_graph(child)?;
        let node = self.add_node(graph, after, Operation::Child(copy))?;
        self.graph(copy)?.embedded_in = node;
        Ok(node)
    }
}
