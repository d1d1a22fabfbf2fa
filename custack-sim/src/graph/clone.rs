//! Copies of graphs.

use super::edges::Edge;
use super::ends::Ends;
use super::users::Held;
use super::{Graph, Node, Operation, STEP};
use crate::machine::*;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What copies of a graph have in common: they are nodes of their own only once one is looked at. So graphs that are added
/// to each other again and again are not copied again and again.
struct Model {
    nodes: Vec<ModelNode>,
    roots: Ends,
    leaves: Ends,
    users: BTreeMap<usize, Held>,
    /// How many handles a copy takes, and how many graphs it is, with its child graphs.
    handles: usize,
    graphs: usize,
}

struct ModelNode {
    /// The node as it was in the graph that the model was made of.
    handle: usize,
    node: Node,
    child: Option<(Arc<Model>, Origin)>,
}

/// The graph that another is a copy of.
#[derive(Clone, Copy)]
struct Origin {
    graph: usize,
    /// It was a [`Later`] itself: its nodes have, or will have, the handles that follow its own.
    was_later: bool,
}

/// A copy that nothing has looked at yet.
pub(super) struct Later {
    model: Arc<Model>,
    origin: Origin,
    pub(super) embedded_in: usize,
    /// How many graphs were made before it.
    graphs_before: usize,
}

impl Drop for Model {
    /// Child graphs may be as deep as no stack is.
    fn drop(&mut self) {
        let children =
            |model: &mut Model| std::mem::take(&mut model.nodes).into_iter().filter_map(|it| it.child);
        let mut open: Vec<_> = children(self).collect();
        while let Some((model, _)) = open.pop() {
            if let Some(mut last) = Arc::into_inner(model) {
                open.extend(children(&mut last));
            }
        }
    }
}

/// A model that is being made. Those of child graphs are made with a list of these, as deep as they are.
struct Modeling {
    graph: usize,
    /// The nodes that are not looked at yet.
    left: VecDeque<(usize, Node)>,
    nodes: Vec<ModelNode>,
}

impl Modeling {
    /// Adds nodes up to one with a child graph that was looked at, which it returns.
    fn go_on(&mut self, later: &BTreeMap<usize, Later>) -> Option<usize> {
        while let Some((handle, node)) = self.left.pop_front() {
            let child = node.operation.child();
            let of_later = |graph: usize| {
                let origin = Origin { graph, was_later: true };
                Some((Arc::clone(&later.get(&graph)?.model), origin))
            };
            let known = child.and_then(of_later);
            let is_open = child.is_some() && known.is_none();
            self.nodes.push(ModelNode { handle, node, child: known });
            if is_open {
                return child;
            }
        }
        None
    }
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
        let copy = self.copy_graph(graph)?;
        self.look_into(copy);
        Ok(copy)
    }

    /// Copies a graph and its child graphs; the copy keeps what the original keeps.
    pub(super) fn copy_graph(&mut self, graph: usize) -> Answer<usize> {
        let model = self.model(graph)?;
        let handle = self.graphs.next();
        self.graphs.made += model.handles - 1;
        let graphs_before = self.graphs.graphs_made;
        self.graphs.graphs_made += model.graphs;
        let origin = Origin { graph, was_later: false };
        self.graphs.later.insert(handle, Later { model, origin, embedded_in: 0, graphs_before });
        Ok(handle)
    }

    fn model(&mut self, graph: usize) -> Answer<Arc<Model>> {
        let mut open = vec![self.begin_model(graph)?];
        while let Some(last) = open.last_mut() {
            if let Some(child) = last.go_on(&self.graphs.later) {
                let child = self.begin_model(child)?;
                open.push(child);
                continue;
            }
            let Some(done) = open.pop() else { break };
            let origin = Origin { graph: done.graph, was_later: false };
            let model = self.end_model(done)?;
            match open.last_mut().and_then(|parent| parent.nodes.last_mut()) {
                Some(node) => node.child = Some((model, origin)),
                None => return Ok(model),
            }
        }
        Err(INVALID_VALUE)
    }

    fn begin_model(&mut self, graph: usize) -> Answer<Modeling> {
        let left = self.graph(graph)?.nodes.iter().map(|(handle, node)| (*handle, node.clone())).collect();
        Ok(Modeling { graph, left, nodes: Vec::new() })
    }

    fn end_model(&mut self, Modeling { graph, nodes, .. }: Modeling) -> Answer<Arc<Model>> {
        let Graph { roots, leaves, users, .. } = self.graph(graph)?;
        let children = || nodes.iter().filter_map(|node| node.child.as_ref().map(|(model, _)| model));
        let handles = 1 + nodes.len() + children().map(|model| model.handles).sum::<usize>();
        let graphs = 1 + children().map(|model| model.graphs).sum::<usize>();
        let (roots, leaves, users) = (roots.clone(), leaves.clone(), users.clone());
        Ok(Arc::new(Model { nodes, roots, leaves, users, handles, graphs }))
    }

    /// Makes the nodes of a copy, whose child graphs are still to be looked at. A copy has the handles that follow its own:
    /// its nodes', each followed by those of its child graph.
    pub(super) fn look_into(&mut self, copy: usize) {
        let Some(Later { model, origin, embedded_in, graphs_before }) = self.graphs.later.remove(&copy)
        else {
            return;
        };
        let (mut offset, mut number) = (0, graphs_before);
        let (mut made, mut operations) = (BTreeMap::new(), Vec::new());
        for ModelNode { handle, node, child } in &model.nodes {
            offset += STEP;
            let new = copy + offset;
            let from = if origin.was_later { origin.graph + offset } else { *handle };
            made.insert(*handle, (new, from));
            self.graphs.nodes.insert(new, copy);
            let Some((model, of)) = child else {
                operations.push(node.operation.clone());
                continue;
            };
            offset += STEP;
            let of = if origin.was_later { Origin { graph: origin.graph + offset, ..origin } } else { *of };
            let later =
                Later { model: Arc::clone(model), origin: of, embedded_in: new, graphs_before: number };
            self.graphs.later.insert(copy + offset, later);
            operations.push(Operation::Child(copy + offset));
            offset += (model.handles - 1) * STEP;
            number += model.graphs;
        }
        let moved =
            |edge: &Edge| Some(Edge { from: made.get(&edge.from)?.0, to: made.get(&edge.to)?.0, ..*edge });
        let edges = |edges: &[Edge]| edges.iter().filter_map(moved).collect();
        let nodes =
            model.nodes.iter().zip(operations).filter_map(|(ModelNode { handle, node, .. }, operation)| {
                let (new, origin) = *made.get(handle)?;
                Some((new, Node { operation, origin, to: edges(&node.to), from: edges(&node.from) }))
            });
        let nodes = nodes.collect();
        let (roots, leaves) = (model.roots.of_copy(&made), model.leaves.of_copy(&made));
        let (users, number) = (model.users.clone(), number + 1);
        let origin = origin.graph;
        let graph = Graph { nodes, origin, embedded_in, roots, leaves, users, number, ..Graph::default() };
        self.graphs.graphs.insert(copy, graph);
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
