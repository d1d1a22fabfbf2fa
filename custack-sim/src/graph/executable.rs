//! Executable graphs: snapshots that can be launched.

use super::Operation;
use super::parts::{Part, Parts};
use crate::machine::*;
use crate::stream::{Moment, Queue};
use custack_sys::ffi::CUresult;
use std::sync::Arc;

use super::users::{Destructor, run_destructors};
use lazy_static::lazy_static;

lazy_static! {
    /// The driver's thread that releases what launched executables kept.
    static ref DRIVER: Arc<Queue> = Arc::default();
}

pub(super) const AUTO_FREE: u64 = 1;

/// A copy of a graph at its instantiation, and later changes.
pub(crate) struct Executable {
    /// The one that it was made from, or an allocating one that it was updated from since.
    pub(super) graph: usize,
    /// The context that it was instantiated in, and is destroyed with.
    pub(super) context: Handle,
    pub(super) flags: u64,
    pub(super) parts: Arc<Parts>,
    /// The graph was one that allocates, when it was made or updated from it.
    pub(super) allocates: bool,
    /// When its last launch is done.
    pub(super) last: Option<Arc<Moment>>,
}

impl Machine {
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
        let Some((context, nodes)) = found.map(|found| (found.context, found.parts.levels[0].nodes.len()))
        else {
            return self.refuse(INVALID_VALUE, format_args!("{handle:#x} is no executable graph"));
        };
        // One without nodes has nothing in its context.
        if nodes > 0 && !self.is_alive(context) {
            return self.misuse(CONTEXT_IS_DESTROYED, "an executable graph after its context");
        }
        self.graphs.executables.get_mut(&handle).ok_or(INVALID_VALUE)
    }

    /// Running launches continue, and keep what they need.
    pub(crate) fn destroy_executable(&mut self, handle: usize) -> Answer<()> {
        self.executable(handle)?;
        if let Some(gone) = self.graphs.executables.remove(&handle) {
            gone.let_go(gone.parts.levels[0].users.clone());
        }
        Ok(())
    }

    pub(crate) fn executable_flags(&mut self, handle: usize) -> Answer<u64> {
        self.executable(handle).map(|executable| executable.flags)
    }

    pub(super) fn part(&mut self, executable: usize, node: usize) -> Answer<&Part> {
        if self.executable(executable)?.parts.find(node).is_none() {
            return self.refuse(INVALID_VALUE, "the executable graph was not made with this node");
        }
        self.executable(executable)?.parts.find(node).ok_or(INVALID_VALUE)
    }

    /// Launches that are under way keep what they have.
    fn part_mut(&mut self, executable: usize, node: usize) -> Answer<&mut Part> {
        Arc::make_mut(&mut self.executable(executable)?.parts).find_mut(node).ok_or(INVALID_VALUE)
    }

    /// Whether the node does nothing, of whose executables it is not asked whether they were made with it.
    pub(crate) fn is_empty_node(&mut self, node: usize) -> Answer<bool> {
        Ok(matches!(self.operation(node)?, Operation::Empty))
    }

    pub(crate) fn is_executable(&mut self, handle: usize) -> Answer<()> {
        self.executable(handle).map(|_| ())
    }

    /// Changes what a node of an executable does, as far as that can be changed.
    pub(crate) fn change(
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
        self.part_mut(executable, node)?.operation = operation;
        Ok(())
    }

    /// Only kernels, copies and fills can be disabled.
    fn can_be_disabled(&mut self, executable: usize, node: usize) -> Answer<&Part> {
        let works =
            |it: &Operation| matches!(it, Operation::Kernel(_) | Operation::Copy(_) | Operation::Fill(_));
        if !works(&self.part(executable, node)?.operation) {
            return self.refuse(INVALID_VALUE, "only kernels, copies and fills can be disabled");
        }
        self.part(executable, node)
    }

    pub(crate) fn enable(&mut self, executable: usize, node: usize, enabled: bool) -> Answer<()> {
        self.can_be_disabled(executable, node)?;
        self.part_mut(executable, node)?.enabled = enabled;
        Ok(())
    }

    pub(crate) fn is_enabled(&mut self, executable: usize, node: usize) -> Answer<u32> {
        self.can_be_disabled(executable, node).map(|part| part.enabled.into())
    }

    /// The graph that a node of an executable runs becomes like this one.
    pub(crate) fn change_child(&mut self, executable: usize, node: usize, child: usize) -> Answer<()> {
        if self.has_memory_nodes(child)? {
            return self.refuse(UPDATE_FAILURE, "a graph that allocates or frees is no child");
        }
        let before = Arc::clone(&self.executable(executable)?.parts);
        let parts = self.parts(child).map_err(|not_made| not_made.status)?;
        self.check_parts(&parts)?;
        let Some(level) = before.find(node).and_then(|part| part.child) else {
            return self.refuse(INVALID_VALUE, "the executable graph has no child graph for this node");
        };
        let Ok(pairs) = self.pairs((&before, level), &parts)? else {
            return self.refuse(UPDATE_FAILURE, "the child graph has other nodes or edges");
        };
        drop(before);
        Arc::make_mut(&mut self.executable(executable)?.parts).take_over(&parts, pairs);
        Ok(())
    }
}

/// The status of an executable that cannot be changed to what is asked.
pub(super) const UPDATE_FAILURE: CUresult = 910;

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
