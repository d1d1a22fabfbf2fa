//! Launches: the nodes of a graph run in their order, independent ones in parallel.

use super::executable::{AUTO_FREE, Part, Parts};
use super::operation::{Kernel, Operation};
use super::users::run_destructors;
use crate::sim::machine::*;
use crate::sim::memory;
use crate::sim::stream::Moment;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// What a launch has of its own: the moments of the events, by node.
type Moments = BTreeMap<usize, Arc<Moment>>;

impl Machine {
    /// Submits a launch as one piece of work of the stream, after the executable's earlier launches.
    pub(in crate::sim) fn launch_graph(&mut self, executable: usize, stream: usize) -> Answer<()> {
        let to = self.stream_of(stream)?;
        self.no_node(stream)?;
        let found = self.executable(executable)?;
        let (graph, parts, flags) = (found.graph, found.parts.clone(), found.flags);
        for operation in parts.operations() {
            match operation {
                Operation::Batch(batch) => self.check_addresses(batch)?,
                Operation::Kernel(kernel) => self.has_green(kernel)?,
                _ => {}
            }
        }
        self.launch_memory(graph, &parts.operations(), to.context, flags & AUTO_FREE != 0)?;
        let mut moments = Moments::new();
        self.note_events(&parts, &mut moments)?;
        let done = Arc::new(Moment::default());
        let before = self.executable(executable)?.last.replace(Arc::clone(&done));
        let context = to.context;
        let after = self.comes_after(stream, &to);
        to.queue.push(Box::new(move || {
            after.iter().chain(&before).for_each(|moment| moment.wait());
            if lock().error_of(context) == 0 {
                run(&parts, &moments, context);
                // A node that frees may have come before the one that allocates.
                let freed = parts.operations().into_iter().filter_map(Operation::freed);
                freed.for_each(|address| memory::lock().gone_of_graph(address));
            } else {
                moments.values().for_each(|moment| moment.comes());
            }
            done.comes();
            drop(parts);
            run_destructors();
        }));
        Ok(())
    }

    /// The driver follows the green context of a kernel that was captured in one.
    fn has_green(&mut self, kernel: &Kernel) -> Answer<()> {
        if kernel.green != 0 && !self.is_alive(kernel.green) {
            return self
                .misuse(CONTEXT_IS_DESTROYED, "the launch of a kernel whose green context is destroyed");
        }
        Ok(())
    }

    /// The events that are recorded have a moment to come, and those that are waited for have had theirs.
    fn note_events(&mut self, parts: &Parts, moments: &mut Moments) -> Answer<()> {
        for part in &parts.nodes {
            match part.operation {
                Operation::Record(event) => {
                    self.event_of(event)?;
                    let moment = self.next_moment(event);
                    moments.insert(part.node, moment);
                }
                Operation::Wait(event) => {
                    if let Some(moment) = self.event_of(event)?.moment() {
                        moments.insert(part.node, moment);
                    }
                }
                _ => self.note_events(&part.child, moments)?,
            }
        }
        Ok(())
    }

    pub(in crate::sim) fn upload_graph(&mut self, executable: usize, stream: usize) -> Answer<()> {
        self.stream_of(stream)?;
        self.no_node(stream)?;
        self.executable(executable).map(|_| ())
    }
}

/// The progress of a launch: how many nodes each node still waits for, and which nodes are ready.
struct Progress {
    waits: Vec<usize>,
    ready: Vec<usize>,
}

struct Run<'a> {
    parts: &'a Parts,
    moments: &'a Moments,
    context: Handle,
    progress: Mutex<Progress>,
}

/// Does all the work, on as many threads as there are nodes that can be done at once.
fn run(parts: &Parts, moments: &Moments, context: Handle) {
    let waits: Vec<usize> = parts.nodes.iter().map(|part| part.after.len()).collect();
    let ready = (0..waits.len()).filter(|at| waits[*at] == 0).collect();
    let progress = Mutex::new(Progress { waits, ready });
    let run = Run { parts, moments, context, progress };
    thread::scope(|scope| run.work(scope));
}

impl Run<'_> {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs ready nodes until none is left; other threads run the other ready nodes.
    fn work<'scope>(&'scope self, scope: &'scope thread::Scope<'scope, '_>) {
        loop {
            let mut progress = self.lock();
            let Some(at) = progress.ready.pop() else {
                // Whoever ends a node takes what is ready then, so there is nothing to wait for.
                return;
            };
            let others = std::mem::take(&mut progress.ready);
            drop(progress);
            for other in others {
                let alone = move || self.one(other, scope);
                // If no thread can be made, the branches run one after the other.
                if thread::Builder::new().spawn_scoped(scope, alone).is_err() {
                    self.one(other, scope);
                }
            }
            self.node(at);
        }
    }

    fn one<'scope>(&'scope self, at: usize, scope: &'scope thread::Scope<'scope, '_>) {
        self.node(at);
        self.work(scope);
    }

    /// Runs a node, and marks the nodes that are then ready.
    fn node(&self, at: usize) {
        let part = &self.parts.nodes[at];
        if part.enabled {
            self.operate(part);
        }
        let mut progress = self.lock();
        for (other, part) in self.parts.nodes.iter().enumerate() {
            if part.after.contains(&at) {
                progress.waits[other] -= 1;
                if progress.waits[other] == 0 {
                    progress.ready.push(other);
                }
            }
        }
    }

    /// Nothing more runs in a context in error, but the moments pass.
    fn operate(&self, part: &Part) {
        let moment = self.moments.get(&part.node);
        match &part.operation {
            Operation::Record(_) => moment.iter().for_each(|moment| moment.comes()),
            Operation::Wait(_) => moment.iter().for_each(|moment| moment.wait()),
            Operation::Child(_) => run(&part.child, self.moments, self.context),
            Operation::Allocate(it) => memory::lock().there_of_graph(it.address, it.size, self.context),
            Operation::Free(address) => memory::lock().gone_of_graph(*address),
            operation => {
                let own = operation.context();
                let context = if own == 0 { self.context } else { own };
                if lock().error_of(context) != 0 {
                    return;
                }
                if let Err(error) = operation.run() {
                    lock().put_in_error(context, error);
                }
            }
        }
    }
}
