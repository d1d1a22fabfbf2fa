//! Updating an executable from a graph.

use super::executable::UPDATE_FAILURE;
use super::parts::Parts;
use super::{Operation, Side};
use crate::machine::*;
use crate::memory;
use custack_sys::ffi::CUresult;
use std::collections::BTreeMap;
use std::sync::Arc;

// Why an executable was not updated, as the driver numbers it.
const TOPOLOGY_CHANGED: u32 = 2;
const TYPE_CHANGED: u32 = 3;
const PARAMETERS_CHANGED: u32 = 5;
const FUNCTION_CHANGE: u32 = 7;
const ATTRIBUTES_CHANGED: u32 = 8;

/// Why an executable stays as it was: the number of the reason, and the nodes that it is about, or 0.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Difference {
    pub(crate) reason: u32,
    pub(crate) node: usize,
    pub(crate) from: usize,
}

/// For each level of an executable the level of the graph that takes it, and for each place in it the place of the node.
pub(super) type Pairs = BTreeMap<usize, (usize, Vec<usize>)>;

/// Two levels that are being paired.
struct Pairing {
    old: usize,
    new: usize,
    /// For each old place the new one, and which new ones are taken.
    places: Vec<Option<usize>>,
    taken: Vec<bool>,
    /// Pairs of places that are not looked at yet.
    open: Vec<(usize, usize)>,
}

impl Pairing {
    fn new((before, old): (&Parts, usize), (after, new): (&Parts, usize)) -> Result<Pairing, Difference> {
        let (was, is) = (&before.levels[old], &after.levels[new]);
        if was.nodes.len() != is.nodes.len() || was.leaves.len() > is.leaves.len() {
            return Err(topology(0));
        }
        if let Some(more) = is.leaves.get(was.leaves.len()) {
            return Err(topology(is.nodes[*more].node));
        }
        let (places, taken) = (vec![None; was.nodes.len()], vec![false; was.nodes.len()]);
        // From the nodes that come before none, the latest first, up to those that they come after.
        let open = was.leaves.iter().copied().zip(is.leaves.iter().copied()).rev().collect();
        Ok(Pairing { old, new, places, taken, open })
    }
}

fn topology(node: usize) -> Difference {
    Difference { reason: TOPOLOGY_CHANGED, node, from: 0 }
}

impl Machine {
    /// All of it or nothing.
    pub(crate) fn update(&mut self, executable: usize, graph: usize) -> (CUresult, Difference) {
        let answer = self.try_update(executable, graph);
        match answer {
            Ok(None) => (0, Difference::default()),
            Ok(Some(difference)) => {
                let why = format!("the graph differs from the executable: reason {}", difference.reason);
                (self.refuse::<()>(UPDATE_FAILURE, why).err().unwrap_or(UPDATE_FAILURE), difference)
            }
            Err(status) => (status, Difference::default()),
        }
    }

    fn try_update(&mut self, executable: usize, graph: usize) -> Answer<Option<Difference>> {
        self.executable(executable)?;
        if self.graph(graph)?.embedded_in != 0 {
            return self.refuse(INVALID_VALUE, "an update from a child graph");
        }
        let allocates = self.has_memory_nodes(graph)?;
        if allocates && self.is_made_with_memory(graph, executable) {
            return self.refuse(NOT_SUPPORTED, "a graph that allocates has one executable at a time");
        }
        let parts = match self.parts(graph) {
            Ok(parts) => parts,
            Err(not_made) if not_made.node != 0 => {
                return Ok(Some(Difference { reason: TOPOLOGY_CHANGED, ..Difference::default() }));
            }
            Err(not_made) => return Err(not_made.status),
        };
        let before = Arc::clone(&self.executable(executable)?.parts);
        let pairs = match self.pairs((&before, 0), &parts)? {
            Ok(pairs) => pairs,
            Err(difference) => return Ok(Some(difference)),
        };
        self.check_parts(&parts)?;
        self.note_made(graph);
        let found = self.executable(executable)?;
        // It stays the one executable of a graph that allocates after an update from one that does not.
        if allocates {
            (found.graph, found.allocates) = (graph, true);
        }
        Arc::make_mut(&mut found.parts).take_over(&parts, pairs);
        found.let_go(before.levels[0].users.clone());
        Ok(None)
    }

    /// Pairs the nodes of a graph with the places of an executable, from a level on, or returns the difference that prevents an
    /// update. A child graph is paired when its node is, before all that is left.
    pub(super) fn pairs(
        &mut self,
        (before, level): (&Parts, usize),
        after: &Parts,
    ) -> Answer<Result<Pairs, Difference>> {
        let mut pairs = Pairs::new();
        let mut next = Some((level, 0));
        let mut pairings: Vec<Pairing> = Vec::new();
        loop {
            if let Some((old, new)) = next.take() {
                match Pairing::new((before, old), (after, new)) {
                    Ok(pairing) => pairings.push(pairing),
                    Err(difference) => return Ok(Err(difference)),
                }
            }
            let Some(pairing) = pairings.last_mut() else { return Ok(Ok(pairs)) };
            if pairing.open.is_empty() {
                let Some(places) = pairing.places.iter().copied().collect() else {
                    return Ok(Err(topology(0)));
                };
                pairs.insert(pairing.old, (pairing.new, places));
                pairings.pop();
                continue;
            }
            match self.pair(pairing, before, after)? {
                Ok(children) => next = children,
                Err(difference) => return Ok(Err(difference)),
            }
        }
    }

    /// Looks at the next pair of places; returns the levels of their child graphs.
    fn pair(
        &mut self,
        pairing: &mut Pairing,
        before: &Parts,
        after: &Parts,
    ) -> Answer<Result<Option<(usize, usize)>, Difference>> {
        let Some((old, new)) = pairing.open.pop() else { return Ok(Ok(None)) };
        if pairing.places[old] == Some(new) {
            return Ok(Ok(None));
        }
        let (was, is) = (&before.levels[pairing.old].nodes[old], &after.levels[pairing.new].nodes[new]);
        if pairing.places[old].is_some() || pairing.taken[new] {
            return Ok(Err(topology(is.node)));
        }
        let reason = match was.operation.number() == is.operation.number() {
            true if was.after.len() != is.after.len() => TOPOLOGY_CHANGED,
            true => self.why_not(&was.operation, &is.operation)?,
            false => TYPE_CHANGED,
        };
        if reason != 0 {
            return Ok(Err(Difference { reason, node: is.node, from: 0 }));
        }
        (pairing.places[old], pairing.taken[new]) = (Some(new), true);
        pairing.open.extend(was.after.iter().copied().zip(is.after.iter().copied()).rev());
        Ok(Ok(was.child.zip(is.child)))
    }

    /// Why an operation cannot take the place of one of its type, or 0.
    pub(super) fn why_not(&mut self, before: &Operation, after: &Operation) -> Answer<u32> {
        let same = match (before, after) {
            (Operation::Kernel(old), Operation::Kernel(new)) => {
                return Ok(
                    match (old.context == new.context, old.is_cooperative() == new.is_cooperative()) {
                        (true, true) => 0,
                        (true, false) => ATTRIBUTES_CHANGED,
                        (false, _) => FUNCTION_CHANGE,
                    },
                );
            }
            (Operation::Copy(old), Operation::Copy(new)) => {
                old.kinds() == new.kinds() && old.home == new.home
            }
            (Operation::Fill(old), Operation::Fill(new)) => {
                (old.height > 1) == (new.height > 1)
                    && (old.home == new.home || memory::lock().context_of(old.to) == 0)
            }
            (Operation::Record(old), Operation::Record(new))
            | (Operation::Wait(old), Operation::Wait(new)) => {
                self.event_of(*old)?.context == self.event_of(*new)?.context
            }
            // Each graph has an address of its own, at which the executable allocates from then on.
            (Operation::Allocate(old), Operation::Allocate(new)) => {
                (old.size, old.device) == (new.size, new.device)
            }
            (Operation::Free(old), Operation::Free(new)) => old == new,
            (Operation::Batch(old), Operation::Batch(new)) => {
                old.context == new.context && old.has_the_kinds_of(new)
            }
            _ => true,
        };
        Ok(if same { 0 } else { PARAMETERS_CHANGED })
    }
}

/// The name of where one side of a copy is.
pub(super) fn place(side: &Side) -> &'static str {
    match side.kind {
        1 => "H",
        2 => "D",
        3 => "A",
        _ => "U",
    }
}
