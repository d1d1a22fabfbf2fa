//! What a program has made, and what the oracle knows of it.

use super::act::Thing;
use custack::context::{Context, UnownedContext};
use custack::event::Event;
use custack::function::Function;
use custack::graph::{Graph, GraphExec, Node};
use custack::library::{Kernel, Library};
use custack::memory::{DeviceBuffer, MemoryPool};
use custack::module::JitOptions;
use custack::stream::Stream;
use std::any::Any;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A kernel that writes one value, and one that does nothing.
pub(super) const CODE: &str = "
.version 7.0
.target sm_70
.address_size 64
.visible .entry put(.param .u64 to, .param .u32 value)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [to];
    ld.param.u32 %r1, [value];
    cvta.to.global.u64 %rd1, %rd1;
    st.global.u32 [%rd1], %r1;
    ret;
}
.visible .entry nothing(.param .u32 unused)
{
    ret;
}
";

/// The number of values in a cell.
pub(super) const LEN: usize = 4;

/// Slots of what was made; what is dropped, or used by a thread exclusively, leaves its slot empty.
pub(super) struct Slots<T>(Vec<Option<T>>);

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots(Vec::new())
    }
}

impl<T> Slots<T> {
    pub(super) fn add(&mut self, value: T) {
        self.0.push(Some(value));
    }

    /// One of the latest that are there.
    fn pick(&self, n: usize) -> Option<usize> {
        const LATEST: usize = 5;
        let there: Vec<_> = (0..self.0.len()).filter(|at| self.0[*at].is_some()).collect();
        let latest = &there[there.len().saturating_sub(LATEST)..];
        latest.get(n % latest.len().max(1)).copied()
    }

    pub(super) fn take(&mut self, n: usize) -> Option<(usize, T)> {
        let at = self.pick(n)?;
        self.0[at].take().map(|value| (at, value))
    }

    pub(super) fn take_if(&mut self, is_it: impl Fn(&T) -> bool) -> Option<(usize, T)> {
        let at = self.0.iter().position(|slot| slot.as_ref().is_some_and(&is_it))?;
        self.0[at].take().map(|value| (at, value))
    }

    pub(super) fn put(&mut self, at: usize, value: T) {
        self.0[at] = Some(value);
    }

    pub(super) fn get(&self, n: usize) -> Option<&T> {
        self.pick(n).and_then(|at| self.0[at].as_ref())
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }

    fn count(&self) -> usize {
        self.all().count()
    }
}

/// A value that must be dropped once, and a function that must be called as often as the oracle says.
#[derive(Default)]
pub(super) struct Counter {
    /// What it was made for.
    pub(super) made: String,
    pub(super) ran: AtomicUsize,
    pub(super) dropped: AtomicUsize,
    pub(super) expected: AtomicUsize,
    /// The contexts in which it was to be called; a call is not certain if one of them is destroyed.
    pub(super) contexts: Mutex<BTreeSet<usize>>,
}

pub(super) struct Token(pub(super) Arc<Counter>);

impl Token {
    pub(super) fn ran(&self) {
        self.0.ran.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// Memory, which graphs may keep too.
pub(super) struct Cell {
    pub(super) id: usize,
    pub(super) memory: Arc<DeviceBuffer<u32>>,
    pub(super) context: usize,
    /// After the last use, with the context of its stream.
    pub(super) last: Option<(Arc<Event>, usize)>,
    /// `None` if the oracle does not know.
    pub(super) values: Option<[u32; LEN]>,
}

impl Cell {
    pub(super) fn address(&self) -> u64 {
        self.memory.as_ptr() as u64
    }
}

/// What a node of a graph does.
#[derive(Clone)]
pub(super) enum Effect {
    Nothing,
    Call(Arc<Counter>),
    Fill(usize, u32),
    Put(usize, u32),
    /// From the first to the second.
    Copy(usize, usize),
}

impl Effect {
    pub(super) fn cells(&self) -> Vec<usize> {
        match self {
            Effect::Nothing | Effect::Call(_) => vec![],
            Effect::Fill(cell, _) | Effect::Put(cell, _) => vec![*cell],
            Effect::Copy(from, to) => vec![*from, *to],
        }
    }

    /// What it does to the values that are known.
    pub(super) fn apply(&self, cells: &mut [&mut Cell]) {
        let find = |cells: &[&mut Cell], id: usize| cells.iter().position(|cell| cell.id == id);
        match *self {
            Effect::Nothing | Effect::Call(_) => {}
            Effect::Fill(cell, value) => {
                if let Some(at) = find(cells, cell) {
                    cells[at].values = Some([value; LEN]);
                }
            }
            Effect::Put(cell, value) => {
                if let Some(values) = find(cells, cell).and_then(|at| cells[at].values.as_mut()) {
                    values[0] = value;
                }
            }
            Effect::Copy(from, to) => {
                let values = find(cells, from).and_then(|at| cells[at].values);
                if let Some(at) = find(cells, to) {
                    cells[at].values = values;
                }
            }
        }
    }
}

#[derive(Clone)]
pub(super) struct Step {
    pub(super) node: Option<Node>,
    pub(super) effect: Effect,
}

/// What a graph does, one after the other.
#[derive(Clone, Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    pub(super) contexts: BTreeSet<usize>,
    /// Its last node is not known, so none is added behind it.
    pub(super) closed: bool,
    /// It may have other contexts, too.
    pub(super) vague: bool,
    /// It allocates memory: the driver refuses clones, a second executable, and to take nodes out.
    pub(super) allocates: bool,
}

pub(super) struct Built {
    pub(super) graph: Graph,
    pub(super) plan: Plan,
    pub(super) id: usize,
}

pub(super) struct Exec {
    pub(super) exec: GraphExec,
    pub(super) plan: Plan,
    /// The graph that it was made from.
    pub(super) of: usize,
}

pub(super) struct Ctx {
    pub(super) owner: Option<Context>,
    pub(super) handle: UnownedContext,
}

#[derive(Default)]
pub(super) struct World {
    /// The first is never dropped.
    pub(super) contexts: Vec<Ctx>,
    pub(super) streams: Slots<(Arc<Stream>, usize)>,
    pub(super) events: Slots<(Arc<Event>, usize)>,
    pub(super) pools: Slots<Arc<MemoryPool>>,
    pub(super) libraries: Slots<Library>,
    pub(super) functions: Slots<(Arc<Function<'static>>, usize)>,
    pub(super) cells: Slots<Cell>,
    pub(super) graphs: Slots<Built>,
    pub(super) execs: Slots<Exec>,
    pub(super) counters: Vec<Arc<Counter>>,
    /// A kernel that stays loaded and does nothing.
    pub(super) steady: Option<Kernel>,
    /// Cells that a thread is using.
    pub(super) busy: BTreeSet<usize>,
    pub(super) next: usize,
    /// How many captures are in progress, and whether one of them may be broken or not joined.
    pub(super) open: usize,
    pub(super) may_fail: bool,
    /// Threads work at the same time, so answers depend on their order.
    pub(super) loose: bool,
    pub(super) problems: Vec<String>,
    pub(super) steps: usize,
}

pub(super) type Shared = Arc<Mutex<World>>;

pub(super) fn lock(world: &Shared) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The limit of values of one kind.
const MANY: usize = 8;

impl World {
    pub(super) fn prepare(&mut self) {
        let library = Library::load(CODE.as_bytes(), &JitOptions::new()).unwrap();
        self.steady = Some(library.kernel(c"nothing").unwrap());
    }

    pub(super) fn id(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    pub(super) fn token(&mut self, made: String) -> Token {
        let counter = Arc::new(Counter { made, ..Counter::default() });
        self.counters.push(Arc::clone(&counter));
        Token(counter)
    }

    pub(super) fn is_alive(&self, context: usize) -> bool {
        self.contexts[context].owner.is_some()
    }

    /// One of the contexts, mostly one that is alive.
    pub(super) fn context(&self, n: usize) -> usize {
        let alive: Vec<_> = (0..self.contexts.len()).filter(|at| self.is_alive(*at)).collect();
        if n % 10 == 9 { n % self.contexts.len() } else { alive[n % alive.len()] }
    }

    pub(super) fn is_full(&self, thing: Thing) -> bool {
        let count = match thing {
            Thing::Stream => self.streams.count(),
            Thing::Event => self.events.count(),
            Thing::Pool => self.pools.count(),
            Thing::Library => self.libraries.count(),
            Thing::Function => self.functions.count(),
            Thing::Cell => self.cells.count(),
            Thing::Graph => self.graphs.count(),
            Thing::Executable => self.execs.count(),
        };
        count >= MANY
    }

    /// Takes one thing, which the caller drops.
    pub(super) fn take(&mut self, thing: Thing, n: usize) -> Option<Box<dyn Any + Send>> {
        fn boxed<T: Any + Send>(taken: Option<(usize, T)>) -> Option<Box<dyn Any + Send>> {
            taken.map(|(_, value)| -> Box<dyn Any + Send> { Box::new(value) })
        }
        match thing {
            Thing::Stream => {
                let stream = self.streams.take(n);
                if let Some((_, (stream, _))) = &stream {
                    // A stream that takes part in a capture takes it along.
                    let active = custack::stream::CaptureStatus::None;
                    self.may_fail |= self.open > 0 && stream.capture_status() != Ok(active);
                }
                boxed(stream)
            }
            Thing::Event => boxed(self.events.take(n)),
            Thing::Pool => boxed(self.pools.take(n)),
            Thing::Library => boxed(self.libraries.take(n)),
            Thing::Function => boxed(self.functions.take(n)),
            Thing::Cell => boxed(self.cells.take(n).map(|(at, cell)| (at, (cell.memory, cell.last)))),
            Thing::Graph => boxed(self.graphs.take(n).map(|(at, built)| (at, built.graph))),
            Thing::Executable => boxed(self.execs.take(n).map(|(at, exec)| (at, exec.exec))),
        }
    }
}
