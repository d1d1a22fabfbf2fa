//! Executable graphs: snapshots that can be launched.

use super::{Graph, Operation};
use crate::driver::ffi::CUresult;
use crate::sim::machine::*;
use crate::sim::stream::{Moment, Queue};
use std::sync::Arc;

use super::instantiate::{INVALID_STRUCTURE, NotMade};
use super::update::Pairs;
use super::users::{Destructor, run_destructors};
use lazy_static::lazy_static;

lazy_static! {
    /// The driver's thread that releases what launched executables kept.
    static ref DRIVER: Arc<Queue> = Arc::default();
}

pub(super) const AUTO_FREE: u64 = 1;

/// A copy of a graph at its instantiation, and later changes.
pub(in crate::sim) struct Executable {
    /// The one that it was made from, or an allocating one that it was updated from since.
    pub(super) graph: usize,
    /// The context that it was instantiated in, and is destroyed with.
    pub(super) context: Handle,
    pub(super) flags: u64,
    pub(super) parts: Parts,
    /// The graph was one that allocates, when it was made or updated from it.
    pub(super) allocates: bool,
    /// When its last launch is done.
    pub(super) last: Option<Arc<Moment>>,
}

/// Nodes in topological order, and what is kept for them.
#[derive(Clone, Default)]
pub(super) struct Parts {
    pub(super) nodes: Vec<Part>,
    /// The places of those that come before none, in the graph's order.
    pub(super) leaves: Vec<usize>,
    pub(super) users: Vec<Arc<Destructor>>,
}

#[derive(Clone)]
pub(super) struct Part {
    /// The node that it was made from.
    pub(super) node: usize,
    pub(super) operation: Operation,
    /// Places in the list, all of them before this one's.
    pub(super) after: Vec<usize>,
    pub(super) enabled: bool,
    /// The nodes of its child graph.
    pub(super) child: Parts,
}

impl Parts {
    /// The part that was made from a node, in child graphs too.
    pub(super) fn find(&mut self, node: usize) -> Option<&mut Part> {
        for part in &mut self.nodes {
            if part.node == node {
                return Some(part);
            }
            if let Some(found) = part.child.find(node) {
                return Some(found);
            }
        }
        None
    }

    pub(super) fn operations(&self) -> Vec<&Operation> {
        self.nodes
            .iter()
            .flat_map(|part| [&part.operation].into_iter().chain(part.child.operations()))
            .collect()
    }
}

impl Machine {
    /// The parts of a launch, or a node of a cycle.
    pub(super) fn parts(&mut self, graph: usize) -> Result<Parts, NotMade> {
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
        let place = |node: usize| order.iter().position(|it| *it == node);
        let leaves = found.leaves.iter().filter_map(|leaf| place(*leaf)).collect();
        let mut nodes = Vec::new();
        for node in &order {
            let after =
                found.edges.iter().filter(|edge| edge.to == *node).filter_map(|edge| place(edge.from));
            let Some(operation) = found.node(*node).map(|it| it.operation.clone()) else { continue };
            let after = after.collect();
            nodes.push(Part { node: *node, operation, after, enabled: true, child: Parts::default() });
        }
        for part in &mut nodes {
            if let Operation::Child(child) = part.operation {
                part.child = self.parts(child)?;
            }
        }
        Ok(Parts { nodes, leaves, users })
    }

    /// Checks that what all nodes use still exists.
    pub(super) fn check_parts(&mut self, parts: &Parts) -> Answer<()> {
        parts.operations().into_iter().try_for_each(|operation| self.check_alive(operation))
    }

    /// Checks that what a node uses still exists.
    fn check_alive(&mut self, operation: &Operation) -> Answer<()> {
        let context = match operation {
            Operation::Record(event) | Operation::Wait(event) => match self.objects.get(*event) {
                Some(Object::Event(event)) => Some(event.context),
                _ => None,
            },
            Operation::Kernel(kernel) => self.objects.get(kernel.function).map(|_| kernel.told_context()),
            other => {
                let context = other.context();
                if context != 0 && !self.is_alive(context) {
                    return self.misuse(
                        INVALID_CONTEXT,
                        "a graph is instantiated with a copy or a fill of a destroyed context",
                    );
                }
                // A fill that was captured has not been checked before.
                if let Operation::Fill(fill) = other {
                    self.check_fill(fill)?;
                }
                return Ok(());
            }
        };
        match context.is_some_and(|context| self.is_alive(context)) {
            true => Ok(()),
            false => self.misuse(INVALID_HANDLE, "a graph uses a function or an event that is destroyed"),
        }
    }

    pub(super) fn is_alive(&mut self, context: Handle) -> bool {
        self.get(context).is_some_and(|context| context.alive)
    }

    pub(super) fn executable(&mut self, handle: usize) -> Answer<&mut Executable> {
        self.ready()?;
        let found = self.graphs.executables.get(&handle);
        let Some((context, nodes)) = found.map(|found| (found.context, found.parts.nodes.len())) else {
            return self.refuse(INVALID_VALUE, format_args!("{handle:#x} is no executable graph"));
        };
        // One without nodes has nothing in its context.
        if nodes > 0 && !self.is_alive(context) {
            return self.misuse(CONTEXT_IS_DESTROYED, "an executable graph after its context");
        }
        self.graphs.executables.get_mut(&handle).ok_or(INVALID_VALUE)
    }

    /// Running launches continue, and keep what they need.
    pub(in crate::sim) fn destroy_executable(&mut self, handle: usize) -> Answer<()> {
        self.executable(handle)?;
        if let Some(gone) = self.graphs.executables.remove(&handle) {
            gone.let_go(gone.parts.users.clone());
        }
        Ok(())
    }

    pub(in crate::sim) fn executable_flags(&mut self, handle: usize) -> Answer<u64> {
        self.executable(handle).map(|executable| executable.flags)
    }

    fn part(&mut self, executable: usize, node: usize) -> Answer<&mut Part> {
        if self.executable(executable)?.parts.find(node).is_none() {
            return self.refuse(INVALID_VALUE, "the executable graph was not made with this node");
        }
        self.executable(executable)?.parts.find(node).ok_or(INVALID_VALUE)
    }

    /// Whether the node does nothing, of whose executables it is not asked whether they were made with it.
    pub(in crate::sim) fn is_empty_node(&mut self, node: usize) -> Answer<bool> {
        Ok(matches!(self.operation(node)?, Operation::Empty))
    }

    pub(in crate::sim) fn is_executable(&mut self, handle: usize) -> Answer<()> {
        self.executable(handle).map(|_| ())
    }

    /// Changes what a node of an executable does, as far as that can be changed.
    pub(in crate::sim) fn change(
        &mut self,
        executable: usize,
        node: usize,
        number: u32,
        operation: impl FnOnce(&mut Machine) -> Answer<Operation>,
    ) -> Answer<()> {
        if self.part(executable, node)?.operation.number() != number {
            return self.refuse(INVALID_VALUE, "parameters of another type than the node's");
        }
        let mut operation = operation(self)?;
        let before = self.part(executable, node)?.operation.clone();
        operation.keep_attributes(&before);
        let same_steps = match (&before, &operation) {
            (Operation::Batch(old), Operation::Batch(new)) => old.has_the_kinds_of(new),
            _ => true,
        };
        if !same_steps || self.why_not(&before, &operation)? != 0 {
            return self.refuse(INVALID_VALUE, "the node of the executable cannot be changed to this");
        }
        self.part(executable, node)?.operation = operation;
        Ok(())
    }

    /// Only kernels, copies and fills can be disabled.
    fn can_be_disabled(&mut self, executable: usize, node: usize) -> Answer<&mut Part> {
        let works =
            |it: &Operation| matches!(it, Operation::Kernel(_) | Operation::Copy(_) | Operation::Fill(_));
        if !works(&self.part(executable, node)?.operation) {
            return self.refuse(INVALID_VALUE, "only kernels, copies and fills can be disabled");
        }
        self.part(executable, node)
    }

    pub(in crate::sim) fn enable(&mut self, executable: usize, node: usize, enabled: bool) -> Answer<()> {
        self.can_be_disabled(executable, node)?.enabled = enabled;
        Ok(())
    }

    pub(in crate::sim) fn is_enabled(&mut self, executable: usize, node: usize) -> Answer<u32> {
        self.can_be_disabled(executable, node).map(|part| part.enabled.into())
    }

    /// The graph that a node of an executable runs becomes like this one.
    pub(in crate::sim) fn change_child(
        &mut self,
        executable: usize,
        node: usize,
        child: usize,
    ) -> Answer<()> {
        if self.has_memory_nodes(child)? {
            return self.refuse(UPDATE_FAILURE, "a graph that allocates or frees is no child");
        }
        let part = self.executable(executable)?.parts.find(node);
        let before =
            part.filter(|part| matches!(part.operation, Operation::Child(_))).map(|it| it.child.clone());
        let parts = self.parts(child).map_err(|not_made| not_made.status)?;
        self.check_parts(&parts)?;
        let Some(before) = before else {
            return self.refuse(INVALID_VALUE, "the executable graph has no child graph for this node");
        };
        let Ok(pairs) = self.pairs(&before, &parts)? else {
            return self.refuse(UPDATE_FAILURE, "the child graph has other nodes or edges");
        };
        self.part(executable, node)?.child = take_over(&before, parts, &pairs);
        Ok(())
    }
}

/// The status of an executable that cannot be changed to what is asked.
pub(super) const UPDATE_FAILURE: CUresult = 910;

/// Sets the new operations at the old places, by the pairs of places.
pub(super) fn take_over(before: &Parts, after: Parts, pairs: &Pairs) -> Parts {
    let moved = before.nodes.iter().zip(&pairs.0).map(|(old, (new, child))| {
        let new = &after.nodes[*new];
        let child = take_over(&old.child, new.child.clone(), child);
        Part { operation: new.operation.clone(), child, ..old.clone() }
    });
    Parts { nodes: moved.collect(), leaves: before.leaves.clone(), users: after.users }
}

impl Executable {
    /// Releases what was kept: at once if it was never launched, else on the driver's thread.
    pub(super) fn let_go(&self, users: Vec<Arc<Destructor>>) {
        let Some(last) = self.last.clone() else { return };
        DRIVER.push(Box::new(move || {
            last.wait();
            drop(users);
            run_destructors();
        }));
    }
}

impl Graph {
    /// A node of a cycle, or 0.
    fn in_a_circle(&self) -> usize {
        let in_circle =
            |node: usize| self.edges.iter().any(|edge| edge.from == node && self.reaches(edge.to, node));
        self.nodes.iter().map(|node| node.handle).find(|node| in_circle(*node)).unwrap_or(0)
    }
}
