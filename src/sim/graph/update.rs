//! Updating an executable to what a graph is now.

use super::executable::{Parts, UPDATE_FAILURE, take_over};
use super::{Operation, Side};
use crate::driver::ffi::CUresult;
use crate::sim::machine::*;

// Why an executable was not updated, as the driver numbers it.
const TOPOLOGY_CHANGED: u32 = 2;
const TYPE_CHANGED: u32 = 3;
const PARAMETERS_CHANGED: u32 = 5;
const FUNCTION_CHANGE: u32 = 7;

/// Why an executable stays as it was: the number of the reason, and the nodes that it is about, or 0.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::sim) struct Difference {
    pub(in crate::sim) reason: u32,
    pub(in crate::sim) node: usize,
    pub(in crate::sim) from: usize,
}

impl Machine {
    /// All of it or nothing.
    pub(in crate::sim) fn update(&mut self, executable: usize, graph: usize) -> (CUresult, Difference) {
        let answer = self.try_update(executable, graph);
        match answer {
            Ok(None) => (0, Difference::default()),
            Ok(Some(difference)) => {
                let why = format!("the graph differs from the executable: reason {}", difference.reason);
                (self.refuse::<()>(UPDATE_FAILURE, why).err().unwrap_or(UPDATE_FAILURE), difference)
            }
            Err(status) => (status, Difference { reason: super::executable::ERROR, ..Difference::default() }),
        }
    }

    fn try_update(&mut self, executable: usize, graph: usize) -> Answer<Option<Difference>> {
        self.executable(executable)?;
        self.graph(graph)?;
        let parts = match self.parts(graph) {
            Ok(parts) => parts,
            Err(not_made) if not_made.node != 0 => {
                return Ok(Some(Difference { reason: TOPOLOGY_CHANGED, ..Difference::default() }));
            }
            Err(not_made) => return Err(not_made.status),
        };
        let before = self.executable(executable)?.parts.clone();
        let difference = self.difference(&before, &parts)?;
        if difference.is_none() {
            self.executable(executable)?.parts = take_over(&before, parts);
        }
        Ok(difference)
    }

    /// What keeps an executable from becoming like this.
    pub(super) fn difference(&mut self, before: &Parts, after: &Parts) -> Answer<Option<Difference>> {
        let topology = Difference { reason: TOPOLOGY_CHANGED, ..Difference::default() };
        if before.nodes.len() != after.nodes.len() {
            return Ok(Some(topology));
        }
        for (old, new) in before.nodes.iter().zip(&after.nodes) {
            if old.after != new.after {
                return Ok(Some(Difference { node: new.node, ..topology }));
            }
            let reason = match old.operation.number() == new.operation.number() {
                true => self.why_not(&old.operation, &new.operation)?,
                false => TYPE_CHANGED,
            };
            if reason != 0 {
                return Ok(Some(Difference { reason, node: new.node, from: 0 }));
            }
            if let Some(difference) = self.difference(&old.child, &new.child)? {
                return Ok(Some(difference));
            }
        }
        Ok(None)
    }

    /// Why an operation cannot take the place of one of its type, or 0.
    pub(super) fn why_not(&mut self, before: &Operation, after: &Operation) -> Answer<u32> {
        let same = match (before, after) {
            (Operation::Kernel(old), Operation::Kernel(new)) => {
                return Ok(if old.context == new.context { 0 } else { FUNCTION_CHANGE });
            }
            (Operation::Copy(old), Operation::Copy(new)) => old.kinds() == new.kinds(),
            (Operation::Fill(old), Operation::Fill(new)) => (old.height > 1) == (new.height > 1),
            (Operation::Record(old), Operation::Record(new))
            | (Operation::Wait(old), Operation::Wait(new)) => {
                self.event_of(*old)?.context == self.event_of(*new)?.context
            }
            (Operation::Allocate(old), Operation::Allocate(new)) => old == new,
            (Operation::Free(old), Operation::Free(new)) => old == new,
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
