//! Performs the acts, and returns what was observed.

use super::act::{Act, Change, pick};
use super::deeds::on_world;
use super::world::World;
use crate::harness::{current, drain, is_simulated, other};
use custack::context::{ContextStack, CurrentContext, UnownedContext};
use custack::driver::instrument::{self, When};
use custack::error::{CudaError, CudaResult};
use custack::sim;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The result of an act: nothing, or numbers that stand for it.
pub(super) type Answer = CudaResult<Vec<u32>>;

/// What was observed after an act, or after a part of one.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) answer: Answer,
    /// What is current, according to the driver.
    pub(super) current: usize,
    /// The depth of the driver's stack, where the driver tells it, and the depth of the shadow stack.
    pub(super) depth: Option<usize>,
    pub(super) mirror: usize,
    /// The raw handles of the contexts made so far.
    pub(super) raws: Vec<usize>,
    /// The driver's stack at the end, top first.
    pub(super) drained: Option<Vec<usize>>,
    /// Whether the requested fault was injected.
    pub(super) fired: bool,
}

pub(super) type Shared = Arc<Mutex<World>>;

pub(super) fn lock(world: &Shared) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread of a program.
pub(super) struct Actor {
    pub(super) world: Shared,
    pub(super) guards: Vec<CurrentContext<'static>>,
    pub(super) seen: Vec<Seen>,
}

impl Actor {
    pub(super) fn new(world: Shared) -> Actor {
        Actor { world, guards: Vec::new(), seen: Vec::new() }
    }

    fn note(&mut self, answer: Answer, fired: bool) {
        let raws = lock(&self.world).handles.iter().map(|handle| handle.as_raw().addr()).collect();
        self.seen.push(Seen {
            answer,
            current: current().addr(),
            depth: is_simulated().then(sim::depth),
            mirror: ContextStack::depth(),
            raws,
            drained: None,
            fired,
        });
    }

    pub(super) fn act(&mut self, act: &Act) {
        match act {
            Act::Scoped(n, acts) => self.scoped(*n, acts),
            Act::Faulty { code, after, nth, act } => {
                let when = if *after { When::After } else { When::Before };
                instrument::fail(None, *nth, *code, when);
                let answer = self.once(act);
                let fired = !instrument::disarm();
                self.note(answer, fired);
            }
            Act::Drain => {
                let drained = drain().into_iter().map(|raw| raw.addr()).collect();
                self.note(Ok(vec![]), false);
                self.seen.last_mut().unwrap().drained = Some(drained);
            }
            _ => {
                let answer = self.once(act);
                self.note(answer, false);
            }
        }
    }

    fn scoped(&mut self, n: usize, acts: &[Act]) {
        let Some(handle) = self.handle(n) else { return self.note(Ok(vec![]), false) };
        let result = handle.scoped(|_| {
            self.note(Ok(vec![]), false);
            acts.iter().for_each(|act| self.act(act));
            Ok(vec![])
        });
        self.note(result, false);
    }

    fn handle(&self, n: usize) -> Option<&'static UnownedContext> {
        let world = lock(&self.world);
        pick(n, world.handles.len()).map(|at| world.handles[at])
    }

    /// Like [`handle`](Self::handle), but only if there is one.
    fn with(
        &mut self,
        n: usize,
        f: impl FnOnce(&mut Actor, &'static UnownedContext) -> CudaResult<()>,
    ) -> Answer {
        match self.handle(n) {
            None => Ok(vec![]),
            Some(handle) => f(self, handle).map(|()| vec![]),
        }
    }

    fn once(&mut self, act: &Act) -> Answer {
        match *act {
            Act::Push(n) => self.with(n, |_, handle| ContextStack::push(handle)),
            Act::Pop => {
                let popped = ContextStack::pop()?;
                Ok(vec![lock(&self.world).index_of(&popped).map_or(0, |at| at as u32 + 1)])
            }
            Act::Set(n) => self.with(n, |_, handle| CurrentContext::set_current(handle)),
            Act::Unset => CurrentContext::set_current(&null()).map(|()| vec![]),
            Act::Enter(n) => self.with(n, |this, handle| {
                this.guards.push(handle.enter()?);
                Ok(())
            }),
            Act::Leave(n) => {
                if !self.guards.is_empty() {
                    drop(self.guards.swap_remove(n % self.guards.len()));
                }
                Ok(vec![])
            }
            Act::LeaveAll => {
                while let Some(guard) = self.guards.pop() {
                    drop(guard);
                }
                Ok(vec![])
            }
            Act::PanicInScope(n, m) => self.with(n, |this, handle| this.panic_in_scope(handle, m)),
            Act::ForeignInScope(n, m, change) => {
                self.with(n, |this, handle| foreign(handle, this.handle(m).unwrap(), change))
            }
            Act::Synchronize(n) => self.with(n, |_, handle| handle.synchronize()),
            Act::SynchronizeCurrent => CurrentContext::synchronize().map(|()| vec![]),
            Act::GetCurrent => {
                let current = CurrentContext::get_current()?;
                Ok(vec![lock(&self.world).index_of(&current).map_or(0, |at| at as u32 + 1)])
            }
            ref other => on_world(other, &mut lock(&self.world)),
        }
    }

    fn panic_in_scope(&mut self, handle: &'static UnownedContext, m: usize) -> CudaResult<()> {
        if !handle.is_alive() {
            return Err(CudaError::ContextIsDestroyed);
        }
        let other = self.handle(m).unwrap();
        let scope = AssertUnwindSafe(|| {
            handle.scoped::<()>(|_| {
                let _ = ContextStack::push(other);
                std::panic::resume_unwind(Box::new("on purpose"));
            })
        });
        assert!(catch_unwind(scope).is_err());
        Ok(())
    }
}

/// The handle that `get_current` returns on a thread without a context.
fn null() -> UnownedContext {
    thread_local!(static NULL: std::cell::RefCell<Option<UnownedContext>> = const { std::cell::RefCell::new(None) });
    let fresh = || std::thread::spawn(|| CurrentContext::get_current().unwrap()).join().unwrap();
    NULL.try_with(|null| null.borrow_mut().get_or_insert_with(fresh).clone()).unwrap_or_else(|_| fresh())
}

/// Other code changes the stack in a scope of this context.
pub(super) fn foreign(handle: &UnownedContext, other: &UnownedContext, change: Change) -> CudaResult<()> {
    handle.scoped(|_| {
        let snapshot = ContextStack::snapshot()?;
        let stack: Vec<_> = snapshot.entries().map(|entry| entry.context).collect();
        let count = |of: &UnownedContext| stack.iter().filter(|it| it.as_raw() == of.as_raw()).count();
        // What is destroyed cannot come back, and equal entries could be mistaken for each
        // other.
        let may_pop = stack.iter().all(|context| context.is_alive() && count(context) == 1);
        let may_push = other.is_alive() && count(other) == 0 && count(handle) == 1;
        match change {
            Change::Set if may_push => other::set(other.as_raw()),
            Change::Push if may_push => other::push(other.as_raw()),
            Change::PopAndPush if may_push => {
                let _ = other::pop();
                other::push(other.as_raw());
            }
            Change::Pop if may_pop => drop(other::pop()),
            Change::Unset if may_pop => other::set(std::ptr::null_mut()),
            Change::TwoPops if may_pop => drop((other::pop(), other::pop())),
            _ => {}
        }
        Ok(())
    })
}
