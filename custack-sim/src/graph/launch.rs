//! Launches: the nodes of a graph run in their order, independent ones in parallel.

use super::executable::AUTO_FREE;
use super::operation::{Kernel, Operation};
use super::parts::{Part, Parts};
use super::users::run_destructors;
use crate::machine::*;
use crate::memory;
use crate::stream::Moment;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// What a launch has of its own: the moments of the events, by node.
type Moments = BTreeMap<usize, Arc<Moment>>;

impl Machine {
    /// Submits a launch as one piece of work of the stream, after the executable's earlier launches.
    pub(crate) fn launch_graph(&mut self, executable: usize, stream: usize) -> Answer<()> {
        let to = self.stream_of(stream)?;
        self.no_node(stream)?;
        let found = self.executable(executable)?;
        let (graph, parts, flags) = (found.graph, Arc::clone(&found.parts), found.flags);
        let operations = parts.operations();
        for operation in &operations {
            match operation {
                Operation::Batch(batch) => self.check_addresses(batch)?,
                Operation::Kernel(kernel) => self.has_green(kernel)?,
                _ => {}
            }
        }
        self.launch_memory(graph, &operations, to.context, flags & AUTO_FREE != 0)?;
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
            } else {
                moments.values().for_each(|moment| moment.comes());
                let freed = parts.operations().into_iter().filter_map(Operation::freed);
                freed.for_each(|address| memory::lock().gone_of_graph(address));
            }
            let allocated = parts.operations().into_iter().filter_map(Operation::allocation);
            allocated.for_each(|it| memory::lock().over_of_graph(it.address));
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
        for part in parts.all() {
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
                _ => {}
            }
        }
        Ok(())
    }

    pub(crate) fn upload_graph(&mut self, executable: usize, stream: usize) -> Answer<()> {
        self.stream_of(stream)?;
        self.no_node(stream)?;
        self.reserve_for(executable)
    }
}

/// The most threads of a launch, as many as kernels are on a device at once. Branches that wait for more than these wait for
/// ever, as they may on a GPU.
const MOST_THREADS: usize = 128;

/// A node: the level and the place.
type At = (usize, usize);

/// The progress of a launch.
struct Progress {
    /// How many nodes each node still waits for.
    waits: Vec<Vec<usize>>,
    /// How many nodes of each level are not done.
    left: Vec<usize>,
    ready: Vec<At>,
    threads: usize,
}

struct Run<'a> {
    parts: &'a Parts,
    moments: &'a Moments,
    context: Handle,
    /// The places that come after each node.
    next: Vec<Vec<Vec<usize>>>,
    progress: Mutex<Progress>,
}

/// Does all the work, on as many threads as there are nodes that can be done at once, or as there may be.
fn run(parts: &Parts, moments: &Moments, context: Handle) {
    let mut next: Vec<_> = parts.levels.iter().map(|level| vec![Vec::new(); level.nodes.len()]).collect();
    for (level, next) in parts.levels.iter().zip(&mut next) {
        for (at, part) in level.nodes.iter().enumerate() {
            part.after.iter().for_each(|before| next[*before].push(at));
        }
    }
    let waits = parts.levels.iter().map(|level| level.nodes.iter().map(|part| part.after.len()).collect());
    let left = parts.levels.iter().map(|level| level.nodes.len()).collect();
    let progress = Progress { waits: waits.collect(), left, ready: Vec::new(), threads: 1 };
    let run = Run { parts, moments, context, next, progress: Mutex::new(progress) };
    run.begin(0, &mut run.lock());
    thread::scope(|scope| run.work(scope));
}

impl Run<'_> {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The nodes of a level that come after none are ready.
    fn begin(&self, level: usize, progress: &mut Progress) {
        let roots = (0..progress.waits[level].len()).filter(|at| progress.waits[level][*at] == 0);
        progress.ready.extend(roots.map(|at| (level, at)));
    }

    /// Runs ready nodes until none is left; other threads run the other ready nodes.
    fn work<'scope>(&'scope self, scope: &'scope thread::Scope<'scope, '_>) {
        loop {
            let mut progress = self.lock();
            let Some(at) = progress.ready.pop() else {
                // Whoever ends a node takes what is ready then, so there is nothing to wait for.
                progress.threads -= 1;
                return;
            };
            let more = !progress.ready.is_empty() && progress.threads < MOST_THREADS;
            progress.threads += usize::from(more);
            drop(progress);
            // If no thread can be made, the branches run one after the other.
            if more && thread::Builder::new().spawn_scoped(scope, || self.work(scope)).is_err() {
                self.lock().threads -= 1;
            }
            self.node(at);
        }
    }

    /// Runs a node, and marks the nodes that are then ready. One with a child graph is done when that is.
    fn node(&self, (level, at): At) {
        let part = &self.parts.levels[level].nodes[at];
        if part.enabled {
            self.operate(part);
        }
        let mut progress = self.lock();
        let child = part.child.filter(|child| progress.left[*child] > 0);
        if let Some(child) = child {
            return self.begin(child, &mut progress);
        }
        let mut done = Some((level, at));
        while let Some((level, at)) = done.take() {
            for next in &self.next[level][at] {
                progress.waits[level][*next] -= 1;
                if progress.waits[level][*next] == 0 {
                    progress.ready.push((level, *next));
                }
            }
            progress.left[level] -= 1;
            if progress.left[level] == 0 {
                done = self.parts.levels[level].parent;
            }
        }
    }

    /// Nothing more runs in a context in error, but the moments pass.
    fn operate(&self, part: &Part) {
        let moment = self.moments.get(&part.node);
        match &part.operation {
            Operation::Record(_) => moment.iter().for_each(|moment| moment.comes()),
            Operation::Wait(_) => moment.iter().for_each(|moment| moment.wait()),
            Operation::Child(_) => {}
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
