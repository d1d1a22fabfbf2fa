//! The ends of a graph: nodes that come after none, or before none.

use super::Graph;
use std::collections::BTreeMap;

/// Nodes at one end, in the order in which they came to be there.
#[derive(Default, Clone)]
pub(super) struct Ends {
    by_number: BTreeMap<usize, usize>,
    numbers: BTreeMap<usize, usize>,
    last: usize,
}

impl Ends {
    fn note(&mut self, node: usize, is_there: bool) {
        if !is_there {
            let number = self.numbers.remove(&node);
            number.map(|number| self.by_number.remove(&number));
        } else if !self.numbers.contains_key(&node) {
            self.last += 1;
            self.numbers.insert(node, self.last);
            self.by_number.insert(self.last, node);
        }
    }

    /// The latest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        self.by_number.values().rev().copied()
    }

    /// The same of a copy of the graph, whose nodes come first in the pairs.
    pub(super) fn of_copy(&self, made: &BTreeMap<usize, (usize, usize)>) -> Ends {
        let mut copy = Ends::default();
        self.by_number
            .values()
            .filter_map(|node| made.get(node))
            .for_each(|(node, _)| copy.note(*node, true));
        copy
    }
}

impl Graph {
    /// The edges of a node have changed: it may have come to an end of the graph, or have left it.
    pub(super) fn note_ends(&mut self, node: usize) {
        let found = self.nodes.get(&node);
        self.roots.note(node, found.is_some_and(|it| it.to.is_empty()));
        self.leaves.note(node, found.is_some_and(|it| it.from.is_empty()));
    }
}
