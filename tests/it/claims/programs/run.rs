//! Runs a program: its threads, one act at a time, and what goes on beside them.

use super::act::Act;
use super::oracle::Oracle;
use super::perform::{Actor, Seen, Shared, lock};
use super::world::World;
use super::{Program, THREADS};
use crate::harness::{is_simulated, other, parked};
use custack::context::wait_until_retired;
use custack::driver::instrument;
use custack::error::{CudaError, CudaResult};
use custack::sim;
use custack::stream::Stream;
use std::cell::RefCell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// No act takes this long.
const LONG: Duration = Duration::from_secs(30);

struct Crew {
    world: Shared,
    orders: Vec<(Sender<Act>, Receiver<Vec<Seen>>)>,
    waited: Receiver<CudaResult<()>>,
    threads: Vec<JoinHandle<()>>,
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    Builder::new().name(name.to_owned()).spawn(body).unwrap()
}

impl Crew {
    fn new(most: usize) -> Crew {
        let (waiter, streams) = channel::<Arc<Stream>>();
        let (tell, waited) = channel();
        let world = Shared::default();
        (lock(&world).most, lock(&world).waiter) = (most, Some(waiter));
        let mut crew = Crew { world, orders: Vec::new(), waited, threads: Vec::new() };
        crew.threads.push(spawn("waiter", move || {
            for stream in streams {
                let result = stream.synchronize();
                drop(stream);
                let _ = tell.send(result);
            }
        }));
        for _ in 0..THREADS {
            let (order, orders) = channel();
            let (reports, report) = channel();
            let world = Arc::clone(&crew.world);
            crew.threads.push(spawn("program", move || {
                let mut actor = Actor::new(world);
                for act in orders {
                    actor.act(&act);
                    if reports.send(std::mem::take(&mut actor.seen)).is_err() {
                        break;
                    }
                }
            }));
            crew.orders.push((order, report));
        }
        crew
    }

    fn turn(&self, thread: usize, act: &Act) -> Result<Vec<Seen>, String> {
        let (order, report) = &self.orders[thread];
        order.send(act.clone()).map_err(|_| "a thread is gone")?;
        report.recv_timeout(LONG).map_err(|error| format!("{act:?} on thread {thread}: no answer: {error}"))
    }

    /// Waits for callbacks, and for threads that wait for streams.
    fn join_callbacks(&self, oracle: &mut Oracle) -> Result<(), String> {
        let called = std::mem::take(&mut lock(&self.world).called);
        for called in called {
            if let Some(problem) =
                called.recv_timeout(LONG).map_err(|error| format!("a callback: {error}"))?
            {
                return Err(problem);
            }
        }
        oracle.callbacks_done();
        for context in std::mem::take(&mut oracle.waiting) {
            let waited = self.waited.recv_timeout(LONG).map_err(|error| format!("the waiter: {error}"))?;
            let dead = !oracle.stacks.contexts[context].alive;
            if waited.is_err() && !(dead && waited == Err(CudaError::ContextIsDestroyed)) {
                return Err(format!("waiting for a stream of context {context}: {waited:?}"));
            }
        }
        Ok(())
    }

    fn step(&self, oracle: &mut Oracle, thread: usize, act: &Act) -> Result<(), String> {
        if oracle.touches(thread, act) {
            self.join_callbacks(oracle)?;
        }
        if let Act::Ending { late, before, dying } = act {
            return self.ending(oracle, *late, before, dying);
        }
        let seen = self.turn(thread, act)?;
        oracle.judge(thread, act, &mut seen.iter())
    }

    fn ending(&self, oracle: &mut Oracle, late: bool, before: &[Act], dying: &[Act]) -> Result<(), String> {
        let (tell, seen) = channel();
        let world = Arc::clone(&self.world);
        let all = dying.iter().chain([&Act::LeaveAll, &Act::Drain]).cloned().collect::<Vec<_>>();
        let (first, then) = (before.to_vec(), all.clone());
        let thread = spawn("ending", move || {
            if late {
                // Destroyed after custack's thread-locals that are made from here on.
                LAST_WORDS.with(|_| ());
            }
            let mut actor = Actor::new(world);
            first.iter().for_each(|act| actor.act(act));
            let _ = custack::context::ContextStack::depth();
            LAST_WORDS.with(|last| last.replace(Some(LastWords { actor: Some(actor), acts: then, tell })));
        });
        thread.join().map_err(|_| "a short-lived thread panicked")?;
        let seen: Vec<Seen> =
            seen.recv_timeout(LONG).map_err(|_| "a destructor of a thread-local panicked")?;
        let mut seen = seen.iter();
        let result = before.iter().chain(&all).try_for_each(|act| oracle.judge(THREADS, act, &mut seen));
        oracle.stacks.of[THREADS].clear();
        oracle.stacks.guards[THREADS].clear();
        result
    }
}

thread_local!(static LAST_WORDS: RefCell<Option<LastWords>> = const { RefCell::new(None) });

/// What a thread does when it ends.
struct LastWords {
    actor: Option<Actor>,
    acts: Vec<Act>,
    tell: Sender<Vec<Seen>>,
}

impl Drop for LastWords {
    fn drop(&mut self) {
        let mut actor = self.actor.take().unwrap();
        self.acts.iter().for_each(|act| actor.act(act));
        let _ = self.tell.send(std::mem::take(&mut actor.seen));
    }
}

/// What is left in the process: contexts, shares, allocations, objects, misuses.
fn left() -> [i64; 5] {
    let (allocations, objects) =
        if is_simulated() { (sim::allocations() as i64, sim::objects() as i64) } else { (0, 0) };
    let misuses = if is_simulated() { sim::misuses() as i64 } else { 0 };
    [instrument::contexts_alive(), instrument::primary_retains(), allocations, objects, misuses]
}

/// Runs the program and returns the number of steps, or what went wrong and where.
pub(super) fn check(program: &Program, most: usize) -> Result<usize, String> {
    let before = left();
    let crew = Crew::new(most);
    let mut oracle = Oracle::new(most);
    let (mut result, mut steps) = (Ok(()), 0);
    for (step, (thread, act)) in program.iter().enumerate() {
        result = crew.step(&mut oracle, *thread, act).map_err(|error| format!("step {step}: {error}"));
        steps = step + 1;
        if result.is_err() || oracle.lost {
            break;
        }
    }
    for thread in 0..THREADS {
        for act in [Act::LeaveAll, Act::ReadAll, Act::Drain] {
            result = result.and_then(|()| crew.step(&mut oracle, thread, &act));
        }
    }
    result = result.and_then(|()| crew.join_callbacks(&mut oracle));
    finish(crew);
    let kept = left()[1];
    (before[1]..kept).for_each(|_| other::release_primary());
    result?;
    let after = [left()[0], kept, left()[2], left()[3], left()[4]];
    for at in 0..5 {
        let may_leak = [0, oracle.leaks[2], oracle.leaks[0], oracle.leaks[1], 0][at] as i64;
        if !(before[at]..=before[at] + may_leak).contains(&after[at]) {
            return Err(format!(
                "contexts, shares, allocations, objects, misuses: {before:?} before, {after:?} after; may leak {:?}",
                oracle.leaks
            ));
        }
    }
    Ok(steps)
}

/// Everything is dropped, and destroyed.
fn finish(crew: Crew) {
    let Crew { world, orders, threads, .. } = crew;
    drop(orders);
    lock(&world).waiter = None;
    threads.into_iter().for_each(|thread| drop(thread.join()));
    drop::<World>(std::mem::take(&mut *lock(&world)));
    wait_until_retired().unwrap();
}

/// More threads than any fixed table holds enter a context at once, while its owner is dropped.
pub(super) fn crowd() {
    const MANY: usize = 1100;
    let ctx = parked();
    let handle = ctx.get_unowned();
    let (inside, gone) = (Barrier::new(MANY + 1), Barrier::new(MANY + 1));
    std::thread::scope(|scope| {
        for _ in 0..MANY {
            let body = || {
                let guard = handle.enter().unwrap();
                inside.wait();
                gone.wait();
                assert_eq!(handle.synchronize(), Err(CudaError::ContextIsDestroyed));
                drop(guard);
                assert_eq!(sim::depth(), 0);
            };
            Builder::new().stack_size(128 << 10).spawn_scoped(scope, body).unwrap();
        }
        inside.wait();
        drop(ctx);
        gone.wait();
    });
}
