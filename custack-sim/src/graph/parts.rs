//! What an executable consists of. Graphs may be children of each other to any depth, so nothing here calls itself for a
//! child.

use super::instantiate::{INVALID_STRUCTURE, NotMade};
use super::update::Pairs;
use super::users::Destructor;
use super::{Graph, Operation};
use crate::circles::on_circles;
use crate::machine::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The nodes of a graph and of its child graphs, and what is kept for them.
#[derive(Clone)]
pub(super) struct Parts {
    /// The graph, and then its child graphs, each before its own children.
    pub(super) levels: Vec<Level>,
    /// The level and the place of each node.
    places: BTreeMap<usize, (usize, usize)>,
}

/// One of the graphs.
#[derive(Clone)]
pub(super) struct Level {
    /// In topological order.
    pub(super) nodes: Vec<Part>,
    /// The places of those that come before none, in the graph's order.
    pub(super) leaves: Vec<usize>,
    pub(super) users: Vec<Arc<Destructor>>,
    /// The level and the place of the node whose child graph it is.
    pub(super) parent: Option<(usize, usize)>,
}

#[derive(Clone)]
pub(super) struct Part {
    /// The node that it was made from.
    pub(super) node: usize,
    pub(super) operation: Operation,
    /// Places in the level, all of them before this one's.
    pub(super) after: Vec<usize>,
    pub(super) enabled: bool,
    /// The level of its child graph.
    pub(super) child: Option<usize>,
}

impl Parts {
    /// The part that was made from a node, in child graphs too.
    pub(super) fn find(&self, node: usize) -> Option<&Part> {
        self.places.get(&node).map(|(level, at)| &self.levels[*level].nodes[*at])
    }

    pub(super) fn find_mut(&mut self, node: usize) -> Option<&mut Part> {
        self.places.get(&node).map(|(level, at)| &mut self.levels[*level].nodes[*at])
    }

    /// All nodes, those of a child graph after the node that has it.
    pub(super) fn all(&self) -> Vec<&Part> {
        let (mut all, mut open) = (Vec::new(), vec![(0, 0)]);
        while let Some((level, at)) = open.pop() {
            let Some(part) = self.levels[level].nodes.get(at) else { continue };
            all.push(part);
            open.push((level, at + 1));
            open.extend(part.child.map(|child| (child, 0)));
        }
        all
    }

    pub(super) fn operations(&self) -> Vec<&Operation> {
        self.all().into_iter().map(|part| &part.operation).collect()
    }

    /// Sets the new operations at the old places, by the pairs of places.
    pub(super) fn take_over(&mut self, after: &Parts, pairs: Pairs) {
        for (old, (new, places)) in pairs {
            let (level, new) = (&mut self.levels[old], &after.levels[new]);
            level.users.clone_from(&new.users);
            for (part, place) in level.nodes.iter_mut().zip(places) {
                part.operation = new.nodes[place].operation.clone();
            }
        }
    }
}

impl Machine {
    /// The parts of a launch, or a node of a cycle.
    pub(super) fn parts(&mut self, graph: usize) -> Result<Parts, NotMade> {
        let (mut levels, mut places): (Vec<Level>, _) = (Vec::new(), BTreeMap::new());
        let mut open: Vec<(usize, Option<(usize, usize)>)> = vec![(graph, None)];
        while let Some((graph, parent)) = open.pop() {
            let number = levels.len();
            if let Some((level, at)) = parent {
                levels[level].nodes[at].child = Some(number);
            }
            let level = self.level(graph, parent)?;
            for (at, part) in level.nodes.iter().enumerate().rev() {
                places.insert(part.node, (number, at));
                if let Operation::Child(child) = part.operation {
                    open.push((child, Some((number, at))));
                }
            }
            levels.push(level);
        }
        Ok(Parts { levels, places })
    }

    fn level(&mut self, graph: usize, parent: Option<(usize, usize)>) -> Result<Level, NotMade> {
        let Some(order) = self.graph(graph)?.in_order() else {
            let node = self.graph(graph)?.in_a_circle();
            let status = self.refuse::<()>(INVALID_VALUE, "the nodes wait for each other in a circle");
            return Err(NotMade {
                status: status.err().unwrap_or(INVALID_VALUE),
                reason: INVALID_STRUCTURE,
                node,
            });
        };
        let found = self.graph(graph)?;
        let users = found.users.values().map(|held| held.destructor()).collect();
        let places: BTreeMap<usize, usize> = order.iter().copied().zip(0..).collect();
        let leaves = found.leaves.iter().filter_map(|leaf| places.get(&leaf).copied()).collect();
        let nodes = order.iter().filter_map(|node| {
            let found = found.nodes.get(node)?;
            let after = found.to.iter().filter_map(|edge| places.get(&edge.from).copied()).collect();
            let operation = found.operation.clone();
            Some(Part { node: *node, operation, after, enabled: true, child: None })
        });
        Ok(Level { nodes: nodes.collect(), leaves, users, parent })
    }
}

impl Graph {
    /// A node of a cycle, or 0: the first one.
    fn in_a_circle(&self) -> usize {
        let nodes: Vec<usize> = self.nodes.keys().copied().collect();
        let places: BTreeMap<usize, usize> = nodes.iter().copied().zip(0..).collect();
        let next =
            |at: usize, nth: usize| places.get(&self.nodes.get(&nodes[at])?.from.get(nth)?.to).copied();
        let found = on_circles(nodes.len(), next);
        nodes.into_iter().zip(found).find(|(_, is_on)| *is_on).map_or(0, |(node, _)| node)
    }
}
