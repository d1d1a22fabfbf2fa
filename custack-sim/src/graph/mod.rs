//! Graphs: operations and their order, launched as one.
//!
//! A graph belongs to no context; its kernels, copies, fills and events do. Instantiating takes a snapshot, the
//! executable graph, and a launch is one piece of work of a stream, in which the branches run side by side.

pub(super) mod abi;
mod attributes;
mod clone;
mod dot;
mod edges;
mod ends;
mod executable;
mod instantiate;
mod launch;
mod memory;
mod nodes;
mod operation;
mod parts;
mod update;
mod users;

pub(super) use edges::Edge;
pub(super) use executable::Executable;
pub(super) use instantiate::ERROR;
pub(super) use operation::{Copy, Fill, Host, Kernel, Operation, Parameters, Side};
pub(super) use users::run_destructors;

use super::machine::*;
use super::stream::ILLEGAL_STATE;
use clone::Later;
use ends::Ends;
use std::collections::{BTreeMap, BTreeSet};
use users::{Held, UserObject};

/// Outside the range of the handles of contexts and their objects.
const FIRST: usize = 0x5349_4700_0000;
const STEP: usize = 0x40;

/// All graphs, executables and user objects, by handle. Handles are not reused.
#[derive(Default)]
pub(super) struct Graphs {
    graphs: BTreeMap<usize, Graph>,
    /// Those that nothing has looked at since they were copied.
    later: BTreeMap<usize, Later>,
    /// The graph of each node.
    nodes: BTreeMap<usize, usize>,
    executables: BTreeMap<usize, Executable>,
    users: BTreeMap<usize, UserObject>,
    made: usize,
    graphs_made: usize,
}

#[derive(Default)]
struct Graph {
    /// By handle, which is the order in which they were made.
    nodes: BTreeMap<usize, Node>,
    /// How many of them allocate or free.
    memory_nodes: usize,
    /// The graph that it is a clone of.
    origin: usize,
    /// The node that it is the child graph of, or 0.
    embedded_in: usize,
    users: BTreeMap<usize, Held>,
    /// The nodes that come after none.
    roots: Ends,
    /// The nodes that come before none.
    leaves: Ends,
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

#[derive(Clone)]
struct Node {
    operation: Operation,
    /// The node of the original that it is a clone of, or 0.
    origin: usize,
    /// The edges to it, and those from it, in the order in which they were made.
    to: Vec<Edge>,
    from: Vec<Edge>,
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

impl Machine {
    fn graph(&mut self, handle: usize) -> Answer<&mut Graph> {
        self.ready()?;
        if handle == 0 {
            return self.refuse(INVALID_VALUE, "the graph is NULL");
        }
        self.look_into(handle);
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
        Ok(&mut graph.nodes.get_mut(&node).ok_or(INVALID_VALUE)?.operation)
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
        let mut open = vec![handle];
        while let Some(graph) = open.pop() {
            self.graphs.later.remove(&graph);
            for (node, gone) in self.graphs.graphs.remove(&graph).unwrap_or_default().nodes {
                self.graphs.nodes.remove(&node);
                open.extend(gone.operation.child());
            }
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

    /// These nodes of a graph, and all that come before one of them.
    pub(super) fn up_to(&self, graph: usize, ends: impl Iterator<Item = usize>) -> BTreeSet<usize> {
        self.graphs.graphs.get(&graph).map_or_else(BTreeSet::new, |graph| graph.up_to(ends))
    }

    /// Adds a node after others of the same graph, which are distinct.
    pub(super) fn add_node(&mut self, graph: usize, after: &[Edge], operation: Operation) -> Answer<usize> {
        let handle = self.graphs.next();
        let graph_of = self.graph(graph)?;
        graph_of.memory_nodes += usize::from(operation.is_of_memory());
        graph_of.nodes.insert(handle, Node { operation, origin: 0, to: Vec::new(), from: Vec::new() });
        graph_of.note_ends(handle);
        after.iter().for_each(|edge| graph_of.add(Edge { to: handle, ..*edge }));
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
        let gone = found.nodes.remove(&node).ok_or(INVALID_VALUE)?;
        for edge in &gone.to {
            found.nodes.entry(edge.from).and_modify(|before| before.from.retain(|it| it.to != node));
            found.note_ends(edge.from);
        }
        for edge in &gone.from {
            found.nodes.entry(edge.to).and_modify(|after| after.to.retain(|it| it.from != node));
            found.note_ends(edge.to);
        }
        found.note_ends(node);
        self.graphs.nodes.remove(&node);
        if let Some(child) = gone.operation.child() {
            self.drop_graph(child);
        }
        Ok(())
    }

    pub(super) fn node_type(&mut self, node: usize) -> Answer<u32> {
        self.operation(node).map(|operation| operation.number())
    }

    pub(super) fn nodes_of(&mut self, graph: usize) -> Answer<Vec<usize>> {
        Ok(self.graph(graph)?.nodes.keys().copied().collect())
    }

    pub(super) fn roots_of(&mut self, graph: usize) -> Answer<Vec<usize>> {
        Ok(self.graph(graph)?.roots.iter().collect())
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
        if let Some(copy) = self.graphs.later.get_mut(&copy) {
            copy.embedded_in = node;
        }
        Ok(node)
    }
}
