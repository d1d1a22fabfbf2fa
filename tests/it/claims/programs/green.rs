//! Random programs of green contexts: owners that move between threads, guards of owners and handles, dropped in any
//! order or forgotten, on threads that end, beside other code and with calls that fail.

// Plays programs that keep an owner apart from its guards.
#![allow(unsafe_code)]

use super::act::Change;
use super::perform::foreign;
use super::stacks::{Guard, Life, Stacks};
use super::{THREADS, asked, rng};
use crate::context::green::green;
use crate::harness::{current, is_simulated, parked, run_alone, times};
use custack::context::{
    Context, ContextStack, CurrentContext, CurrentGreenContext, GreenContext, UnownedContext,
    wait_until_retired,
};
use custack::driver::instrument::{self, When};
use custack::error::{CudaError, CudaResult};
use custack::sim;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::RefCell;
use std::mem;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const ORDINARY: usize = 2;
const SLOTS: usize = 4;

#[derive(Debug, Clone)]
enum Act {
    /// By the owner in this slot.
    Enter(usize),
    /// By one of the latest handles, alive or not.
    EnterHandle(usize),
    Push(usize),
    Set(usize),
    Pop,
    Leave(usize),
    Forget(usize),
    /// Drops the owner in this slot.
    Drop(usize),
    ForeignInScope(usize, usize, Change),
    /// Driver calls of the act fail, all or those of one function: from this one on, so many.
    Faulty(Option<&'static str>, u64, u64, bool, Box<Act>),
    /// The thread ends; what it does from here on, it does in the destructor of a thread-local.
    Die,
    /// That destructor is over, and the guards are dropped, or forgotten.
    End(bool),
}

fn plain() -> impl Strategy<Value = Act> + Clone {
    let n = || 0..2520usize;
    let change = prop::sample::select(vec![
        Change::Set,
        Change::Push,
        Change::Pop,
        Change::PopAndPush,
        Change::Unset,
        Change::TwoPops,
    ]);
    prop_oneof![
        8 => (ORDINARY..SLOTS).prop_map(Act::Enter),
        6 => n().prop_map(Act::EnterHandle),
        3 => n().prop_map(Act::Push),
        2 => n().prop_map(Act::Set),
        3 => Just(Act::Pop),
        10 => n().prop_map(Act::Leave),
        1 => n().prop_map(Act::Forget),
        2 => (0..SLOTS).prop_map(Act::Drop),
        3 => (n(), n(), change).prop_map(|(a, b, change)| Act::ForeignInScope(a, b, change)),
    ]
}

fn acts() -> impl Strategy<Value = (usize, Act)> {
    let functions = ["cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuCtxGetCurrent"];
    let function = prop::option::of(prop::sample::select(functions.to_vec()));
    let faulty = (function, 1..5u64, 1..8u64, any::<bool>(), plain())
        .prop_map(|(which, nth, times, after, act)| Act::Faulty(which, nth, times, after, Box::new(act)));
    let act = prop_oneof![
        20 => plain(),
        4 => faulty,
        1 => Just(Act::Die),
        2 => any::<bool>().prop_map(Act::End),
    ];
    (0..THREADS, act)
}

enum Held {
    Owner { _it: CurrentGreenContext<'static> },
    Handle { _it: CurrentContext<'static> },
}

struct Owner(*mut GreenContext);

// SAFETY: one thread at a time uses it: the one whose turn it is.
unsafe impl Send for Owner {}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: made from a box, and no guard that borrows it lives.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

#[derive(Default)]
struct World {
    handles: Vec<&'static UnownedContext>,
    contexts: Vec<Option<Context>>,
    greens: Vec<Option<Owner>>,
    /// The contexts in the slots.
    slots: [usize; SLOTS],
}

impl World {
    /// Fills the slot with a new context.
    fn fill(&mut self, slot: usize) {
        self.slots[slot] = self.handles.len();
        let (context, green) =
            if slot < ORDINARY { (Some(parked()), None) } else { (None, Some(Box::new(green()))) };
        let handle = match (&context, &green) {
            (Some(context), _) => context.get_unowned(),
            (_, green) => green.as_ref().unwrap().handle().clone(),
        };
        self.handles.push(Box::leak(Box::new(handle)));
        self.contexts.push(context);
        self.greens.push(green.map(|green| Owner(Box::into_raw(green))));
    }

    fn pick(&self, n: usize) -> usize {
        self.handles.len() - 1 - n % self.handles.len().min(8)
    }
}

type Shared = Arc<Mutex<World>>;
type Seen = (CudaResult<()>, usize, Option<usize>, usize);

struct Actor {
    world: Shared,
    guards: Vec<Held>,
    orders: Receiver<Act>,
    tell: Sender<Seen>,
}

impl Actor {
    /// Performs orders until the thread is to die, or to end.
    fn serve(&mut self) {
        while let Ok(act) = self.orders.recv() {
            let result = match &act {
                Act::Faulty(which, nth, times, after, act) => {
                    let when = if *after { When::After } else { When::Before };
                    instrument::fail_times(*which, *nth, *times, 999, when);
                    let result = self.act(act);
                    instrument::disarm();
                    // The next call restores the stack.
                    drop(CurrentContext::get_current());
                    result
                }
                act => self.act(act),
            };
            let depth = is_simulated().then(sim::depth);
            let _ = self.tell.send((result, current().addr(), depth, ContextStack::depth()));
            if matches!(act, Act::Die | Act::End(_)) {
                return;
            }
        }
    }

    fn act(&mut self, act: &Act) -> CudaResult<()> {
        let handle = |n: usize| {
            let world = self.world.lock().unwrap();
            world.handles[world.pick(n)]
        };
        match *act {
            Act::Enter(slot) => {
                let owner = {
                    let world = self.world.lock().unwrap();
                    world.greens[world.slots[slot]].as_ref().map(|owner| owner.0)
                };
                // SAFETY: the slot is never empty, and the oracle has no guard borrow the owner.
                let guard = unsafe { &mut *owner.unwrap() }.enter()?;
                self.guards.push(Held::Owner { _it: guard });
            }
            Act::EnterHandle(n) => self.guards.push(Held::Handle { _it: handle(n).enter()? }),
            Act::Push(n) => ContextStack::push(handle(n))?,
            Act::Set(n) => CurrentContext::set_current(handle(n))?,
            Act::Pop => {
                ContextStack::pop()?;
            }
            Act::Leave(n) | Act::Forget(n) if !self.guards.is_empty() => {
                let guard = self.guards.swap_remove(n % self.guards.len());
                if matches!(act, Act::Forget(_)) { mem::forget(guard) } else { drop(guard) }
            }
            Act::Drop(slot) => {
                let mut world = self.world.lock().unwrap();
                let at = world.slots[slot];
                let gone = (world.contexts[at].take(), world.greens[at].take());
                drop(world);
                drop(gone);
            }
            Act::ForeignInScope(n, m, change) => return foreign(handle(n), handle(m), change),
            Act::End(true) => self.guards.drain(..).for_each(mem::forget),
            Act::End(false) => while self.guards.pop().is_some() {},
            _ => {}
        }
        Ok(())
    }
}

thread_local!(static DYING: Dying = const { Dying(RefCell::new(None)) });

/// In its destructor it goes on with what the thread has.
struct Dying(RefCell<Option<Actor>>);

impl Drop for Dying {
    fn drop(&mut self) {
        if let Some(mut actor) = self.0.take() {
            actor.serve();
            // Those that are left were forgotten, if any.
            actor.guards.drain(..).for_each(mem::forget);
        }
    }
}

struct Worker {
    order: Sender<Act>,
    seen: Receiver<Seen>,
    thread: JoinHandle<()>,
    is_dying: bool,
}

impl Worker {
    /// `late`: the thread-local is destroyed after custack's.
    fn new(world: &Shared, late: bool) -> Worker {
        let (order, orders) = channel();
        let (tell, seen) = channel();
        let world = Arc::clone(world);
        let thread = std::thread::spawn(move || {
            if late {
                DYING.with(|_| ());
            }
            let mut actor = Actor { world, guards: Vec::new(), orders, tell };
            actor.serve();
            DYING.with(|dying| dying.0.replace(Some(actor)));
        });
        Worker { order, seen, thread, is_dying: false }
    }

    fn turn(&self, act: &Act) -> Result<Seen, String> {
        self.order.send(act.clone()).map_err(|_| "the thread is gone")?;
        self.seen.recv_timeout(Duration::from_secs(30)).map_err(|_| "no answer".to_owned())
    }
}

#[derive(Default)]
struct Oracle {
    stacks: Stacks,
    /// Of each context, whether it is green, and whether a guard borrows its owner.
    green: Vec<bool>,
    borrowed: Vec<bool>,
    /// What each thread's guards are: those of owners have the context.
    owners: [Vec<Option<usize>>; THREADS],
}

impl Oracle {
    fn fill(&mut self, slot: usize) {
        self.stacks.contexts.push(Life { alive: true, died: 0, primary: false, owners: 1, lingers: false });
        self.green.push(slot >= ORDINARY);
        self.borrowed.push(false);
    }

    fn has_green(&self, except: usize, context: usize) -> bool {
        let on = |thread: usize| self.stacks.of[thread].iter().any(|entry| entry.context == context);
        (0..THREADS).any(|thread| thread != except && on(thread))
    }

    /// Whether the program may perform it: the owner is not borrowed.
    fn allows(&self, act: &Act, world: &World) -> bool {
        match act {
            Act::Enter(slot) | Act::Drop(slot) => !self.borrowed[world.slots[*slot]],
            // Other code's calls are not to fail, and a driver that destroys nothing keeps it.
            Act::Faulty(which, .., act) => {
                let may_fail = match **act {
                    Act::ForeignInScope(..) => false,
                    Act::Drop(_) => which.is_some(),
                    _ => true,
                };
                may_fail && self.allows(act, world)
            }
            _ => true,
        }
    }

    /// A handle makes only what is ordinary current.
    fn refused(&self, thread: usize, context: usize) -> CudaResult<()> {
        self.stacks.usable(context)?;
        let is_top = self.stacks.top(thread) == Some(context);
        if self.green[context] && !is_top { Err(CudaError::NotPermitted) } else { Ok(()) }
    }

    fn hold(&mut self, thread: usize, guard: Guard, owner: Option<usize>) {
        self.stacks.guards[thread].push(guard);
        self.owners[thread].push(owner);
    }

    fn perform(&mut self, thread: usize, act: &Act, world: &World) -> CudaResult<()> {
        match *act {
            Act::Enter(slot) => {
                let context = world.slots[slot];
                if self.stacks.top(thread) != Some(context) && self.has_green(thread, context) {
                    return Err(CudaError::HeldByGuard);
                }
                let guard = self.stacks.enter(thread, context)?;
                self.borrowed[context] = true;
                self.hold(thread, guard, Some(context));
            }
            Act::EnterHandle(n) => {
                self.refused(thread, world.pick(n))?;
                let guard = self.stacks.enter(thread, world.pick(n))?;
                self.hold(thread, guard, None);
            }
            Act::Push(n) => {
                let context = world.pick(n);
                self.stacks.usable(context)?;
                if self.green[context] {
                    return Err(CudaError::NotPermitted);
                }
                self.stacks.push(thread, context)?;
            }
            Act::Set(n) => {
                let context = world.pick(n);
                if self.green[context] {
                    self.refused(thread, context)?;
                }
                self.stacks.set(thread, context)?;
            }
            Act::Pop => {
                self.stacks.pop(thread)?;
            }
            Act::Leave(n) | Act::Forget(n) => {
                let count = self.stacks.guards[thread].len();
                if count > 0 {
                    self.give_up(thread, n % count, matches!(act, Act::Leave(_)));
                }
            }
            Act::Drop(slot) => {
                self.stacks.end(world.slots[slot], false);
                self.stacks.clear(thread);
            }
            Act::ForeignInScope(n, ..) => self.refused(thread, world.pick(n))?,
            Act::End(false) => {
                while let Some(last) = self.stacks.guards[thread].len().checked_sub(1) {
                    self.give_up(thread, last, true);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn give_up(&mut self, thread: usize, at: usize, leaves: bool) {
        let guard = self.stacks.guards[thread].swap_remove(at);
        if let Some(context) = self.owners[thread].swap_remove(at) {
            self.borrowed[context] = false;
        }
        if leaves {
            self.stacks.leave(thread, guard);
        }
    }
}

struct Program {
    world: Shared,
    oracle: Oracle,
    workers: Vec<Worker>,
}

impl Program {
    fn new() -> Program {
        let world = Shared::default();
        let mut oracle = Oracle::default();
        for slot in 0..SLOTS {
            world.lock().unwrap().fill(slot);
            oracle.fill(slot);
        }
        let workers = (0..THREADS).map(|at| Worker::new(&world, at % 2 == 0)).collect();
        Program { world, oracle, workers }
    }

    /// False if nothing can be told any more.
    fn step(&mut self, at: usize, thread: usize, act: &Act) -> Result<bool, String> {
        let Program { world, oracle, workers } = &mut *self;
        let is_dying = workers[thread].is_dying;
        if !oracle.allows(act, &world.lock().unwrap()) || is_dying && matches!(act, Act::Die) {
            return Ok(true);
        }
        let raws = |world: &World| world.handles.iter().map(|it| it.as_raw().addr()).collect::<Vec<_>>();
        let all = raws(&world.lock().unwrap());
        let before = oracle.stacks.clone();
        let inner = if let Act::Faulty(.., act) = act { act } else { act };
        let (owners, borrowed) = (oracle.owners.clone(), oracle.borrowed.clone());
        let expected = oracle.perform(thread, inner, &world.lock().unwrap());
        let run = before.has_dead_run(thread, &all) || oracle.stacks.has_dead_run(thread, &all);
        let seen = workers[thread].turn(act)?;
        let mut right = seen.0 == expected;
        if matches!(act, Act::Faulty(..)) {
            if run || before.has_dead(thread) || oracle.stacks.has_dead(thread) {
                return Ok(false);
            }
            // A call that failed has changed nothing.
            if seen.0 == Err(CudaError::UnknownError) {
                (oracle.stacks, oracle.owners, oracle.borrowed) = (before, owners, borrowed);
                right = true;
            }
        }
        let stack = &oracle.stacks.of[thread];
        let top = stack.last().map_or(0, |top| all[top.context]);
        right &= seen.1 == top && seen.2.is_none_or(|depth| depth == stack.len()) && seen.3 == stack.len();
        if !right {
            return Err(format!(
                "expected {expected:?}, {top:#x} current, {stack:?}; saw {seen:x?} of {all:x?}"
            ));
        }
        if matches!(act, Act::Die) {
            workers[thread].is_dying = true;
        }
        if matches!(act, Act::End(_)) {
            let ended = mem::replace(&mut workers[thread], Worker::new(world, at % 2 == 0));
            drop(ended.order);
            ended.thread.join().map_err(|_| "the thread panicked")?;
            oracle.stacks.of[thread].clear();
            while !oracle.stacks.guards[thread].is_empty() {
                oracle.give_up(thread, 0, false);
            }
        }
        if let Act::Drop(slot) = *inner {
            wait_until_retired().unwrap();
            world.lock().unwrap().fill(slot);
            oracle.fill(slot);
        }
        self.probe().map(|()| true)
    }

    /// Enters each green context here, which must be possible exactly if it is on no thread's stack.
    fn probe(&self) -> Result<(), String> {
        let world = self.world.lock().unwrap();
        for slot in ORDINARY..SLOTS {
            let at = world.slots[slot];
            let Some(owner) = world.greens[at].as_ref().filter(|_| !self.oracle.borrowed[at]) else {
                continue;
            };
            // SAFETY: no guard borrows it.
            let entered = unsafe { &mut *owner.0 }.enter().map(drop);
            let held = self.oracle.has_green(THREADS, at);
            if entered != if held { Err(CudaError::HeldByGuard) } else { Ok(()) } {
                return Err(format!("context {at} is held: {held}, and entering it gives {entered:?}"));
            }
        }
        Ok(())
    }
}

fn check(acts: &[(usize, Act)]) -> Result<(), String> {
    let mut program = Program::new();
    let mut result = Ok(true);
    for (at, (thread, act)) in acts.iter().enumerate() {
        result = program
            .step(at, *thread, act)
            .map_err(|error| format!("step {at}, thread {thread}, {act:?}: {error}"));
        if result != Ok(true) {
            break;
        }
    }
    for worker in program.workers {
        if worker.is_dying || worker.turn(&Act::Die).is_ok() {
            let _ = worker.turn(&Act::End(false));
        }
        drop(worker.order);
        let _ = worker.thread.join();
    }
    drop(program.world);
    wait_until_retired().unwrap();
    result.map(drop)
}

#[test]
fn random_programs_of_green_contexts_do_what_the_oracle_says() {
    run_alone(|| {
        let cases = asked("CUSTACK_PROGRAMS", if is_simulated() { times(30, 150) } else { 5 });
        let config =
            Config { cases, failure_persistence: None, max_shrink_iters: 5_000, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(config, rng());
        let programs = prop::collection::vec(acts(), 1..120);
        if let Err(error) = runner.run(&programs, |acts| check(&acts).map_err(TestCaseError::fail)) {
            panic!("{error}");
        }
    });
}
