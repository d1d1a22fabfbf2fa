//! Random safe programs: owners, handles, guards and scopes on three threads, in any order, against a small oracle of
//! what must be current on each thread and what each call must answer.

use crate::harness::{current, device, drain, is_simulated, other, run_alone};
use custack::context::{Context, ContextFlags, ContextStack, CurrentContext, UnownedContext};
use custack::driver::sim;
use custack::error::{CudaError, CudaResult};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

const THREADS: usize = 3;

/// What one thread does next. Numbers choose among the contexts made so far, alive or not, and the guards it has.
#[derive(Debug, Clone, Copy)]
enum Act {
    Create,
    DropOwner(usize),
    Push(usize),
    Pop,
    Set(usize),
    Unset,
    Enter(usize),
    Leave(usize),
    /// A scope that pushes another context and panics.
    PanicInScope(usize, usize),
    /// Other code sets another context within a scope.
    ForeignSetInScope(usize, usize),
    Synchronize(usize),
    SynchronizeCurrent,
}

fn acts(creates: u32) -> impl Strategy<Value = Act> {
    let any = || any::<usize>();
    prop_oneof![
        creates => Just(Act::Create),
        creates => any().prop_map(Act::DropOwner),
        12 => any().prop_map(Act::Push),
        14 => Just(Act::Pop),
        8 => any().prop_map(Act::Set),
        4 => Just(Act::Unset),
        22 => any().prop_map(Act::Enter),
        20 => any().prop_map(Act::Leave),
        4 => (any(), any()).prop_map(|(a, b)| Act::PanicInScope(a, b)),
        4 => (any(), any()).prop_map(|(a, b)| Act::ForeignSetInScope(a, b)),
        8 => any().prop_map(Act::Synchronize),
        4 => Just(Act::SynchronizeCurrent),
    ]
}

/// An entry of a thread's stack, as the documentation has it.
#[derive(Debug, Clone, Copy)]
struct Entry {
    context: usize,
    guards: usize,
    doomed: bool,
    serial: usize,
}

#[derive(Debug, Default)]
struct Oracle {
    alive: Vec<bool>,
    stacks: [Vec<Entry>; THREADS],
    /// The serial of the entry that each guard stands on, and whether it made it.
    guards: [Vec<(usize, bool)>; THREADS],
    serials: usize,
}

impl Oracle {
    fn push(&mut self, thread: usize, context: usize, guards: usize) -> usize {
        self.serials += 1;
        self.stacks[thread].push(Entry { context, guards, doomed: false, serial: self.serials });
        self.serials
    }

    fn sweep(&mut self, thread: usize) {
        while self.stacks[thread].last().is_some_and(|top| top.doomed && top.guards == 0) {
            self.stacks[thread].pop();
        }
    }

    fn usable(&self, context: usize) -> CudaResult<()> {
        if self.alive[context] { Ok(()) } else { Err(CudaError::ContextIsDestroyed) }
    }

    fn held(&self, thread: usize) -> Option<usize> {
        self.stacks[thread].last().filter(|top| top.guards > 0).map(|top| top.context)
    }

    /// What the act must answer; the stacks are afterwards what they must be.
    fn answer(&mut self, thread: usize, act: Act) -> CudaResult<()> {
        let count = self.alive.len().max(1);
        let top = self.stacks[thread].last().map(|top| top.context);
        match act {
            Act::Create => {
                self.alive.push(true);
                self.push(thread, self.alive.len() - 1, 0);
            }
            _ if self.alive.is_empty() => {}
            Act::DropOwner(n) => {
                let dead = n % count;
                if std::mem::replace(&mut self.alive[dead], false) {
                    let alive = &self.alive;
                    while self.stacks[thread].last().is_some_and(|top| !alive[top.context]) {
                        self.stacks[thread].pop();
                    }
                    self.sweep(thread);
                }
            }
            Act::Push(n) => {
                self.usable(n % count)?;
                self.push(thread, n % count, 0);
            }
            Act::Pop => {
                if self.held(thread).is_some() {
                    return Err(CudaError::HeldByGuard);
                }
                self.stacks[thread].pop().ok_or(CudaError::InvalidContext)?;
            }
            Act::Set(n) => {
                if self.held(thread).is_some_and(|held| held != n % count) {
                    return Err(CudaError::HeldByGuard);
                }
                self.usable(n % count)?;
                if top != Some(n % count) {
                    self.stacks[thread].pop();
                    self.push(thread, n % count, 0);
                }
            }
            Act::Unset => {
                if self.held(thread).is_some() {
                    return Err(CudaError::HeldByGuard);
                }
                self.stacks[thread].pop();
            }
            Act::Enter(n) => {
                self.usable(n % count)?;
                let guard = match self.stacks[thread].last_mut().filter(|top| top.context == n % count) {
                    Some(top) => {
                        top.guards += 1;
                        (top.serial, false)
                    }
                    None => (self.push(thread, n % count, 1), true),
                };
                self.guards[thread].push(guard);
            }
            Act::Leave(n) => {
                if !self.guards[thread].is_empty() {
                    let at = n % self.guards[thread].len();
                    let (serial, made) = self.guards[thread].swap_remove(at);
                    if let Some(at) = self.stacks[thread].iter().position(|entry| entry.serial == serial) {
                        self.stacks[thread][at].guards -= 1;
                        self.stacks[thread][at + usize::from(!made)..]
                            .iter_mut()
                            .for_each(|entry| entry.doomed = true);
                        self.sweep(thread);
                    }
                }
            }
            Act::PanicInScope(n, _) | Act::ForeignSetInScope(n, _) | Act::Synchronize(n) => {
                self.usable(n % count)?
            }
            Act::SynchronizeCurrent => self.usable(top.ok_or(CudaError::InvalidContext)?)?,
        }
        Ok(())
    }
}

/// The contexts, which all threads see; what is made stays, so that guards may borrow it.
#[derive(Default)]
struct Contexts {
    owners: Vec<Option<Context>>,
    handles: Vec<&'static UnownedContext>,
}

/// Does it for real.
fn perform(act: Act, all: &mut Contexts, guards: &mut Vec<CurrentContext<'static>>) -> CudaResult<()> {
    let count = all.handles.len();
    let handle = |n: usize| all.handles[n % count];
    match act {
        Act::Create => {
            let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, device())?;
            all.handles.push(Box::leak(Box::new(ctx.get_unowned())));
            all.owners.push(Some(ctx));
        }
        _ if count == 0 => {}
        Act::DropOwner(n) => drop(all.owners[n % count].take()),
        Act::Push(n) => ContextStack::push(handle(n))?,
        Act::Pop => ContextStack::pop().map(|_| ())?,
        Act::Set(n) => CurrentContext::set_current(handle(n))?,
        Act::Unset => CurrentContext::set_current(&null())?,
        Act::Enter(n) => guards.push(handle(n).enter()?),
        Act::Leave(n) => {
            if !guards.is_empty() {
                drop(guards.swap_remove(n % guards.len()));
            }
        }
        Act::PanicInScope(n, m) => {
            if !handle(n).is_alive() {
                return Err(CudaError::ContextIsDestroyed);
            }
            let scope = AssertUnwindSafe(|| {
                handle(n).scoped::<()>(|_| {
                    let _ = ContextStack::push(handle(m));
                    std::panic::resume_unwind(Box::new("on purpose"));
                })
            });
            assert!(catch_unwind(scope).is_err());
        }
        Act::ForeignSetInScope(n, m) => {
            let switches = current() != handle(n).as_raw();
            handle(n).scoped(|_| {
                if switches && handle(m).is_alive() {
                    other::set(handle(m).as_raw());
                }
                Ok(())
            })?;
        }
        Act::Synchronize(n) => handle(n).synchronize()?,
        Act::SynchronizeCurrent => CurrentContext::synchronize()?,
    }
    Ok(())
}

/// What `get_current` gives on a thread without a context.
fn null() -> UnownedContext {
    std::thread::spawn(|| CurrentContext::get_current().unwrap()).join().unwrap()
}

type Order = (Option<Act>, Contexts);
/// What it answered, what is current, how deep the stack is; and the contexts back.
type Report = (CudaResult<()>, usize, usize, Contexts);

fn thread_of_the_program(orders: &Receiver<Order>, reports: &Sender<Report>) {
    let mut guards = Vec::new();
    for (act, mut all) in orders {
        let result = match act {
            Some(act) => perform(act, &mut all, &mut guards),
            None => {
                guards.clear();
                Ok(())
            }
        };
        let report = (result, current().addr(), ContextStack::depth(), all);
        if reports.send(report).is_err() {
            break;
        }
    }
    drain();
}

/// Runs the program; says what went wrong at which step.
fn check(program: &[(usize, Act)]) -> Result<(), String> {
    let mut oracle = Oracle::default();
    let mut all = Contexts::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (order, orders) = channel();
                let (reports, report) = channel();
                scope.spawn(move || thread_of_the_program(&orders, &reports));
                (order, report)
            })
            .collect();
        let mut turn = |thread: usize, act: Option<Act>| {
            let (order, report): &(Sender<Order>, Receiver<Report>) = &threads[thread];
            order.send((act, std::mem::take(&mut all))).map_err(|_| "a thread is gone")?;
            let (result, current, depth, back) = report.recv().map_err(|_| "a thread panicked")?;
            all = back;
            let raws = all.handles.iter().map(|handle| handle.as_raw().addr()).collect::<Vec<_>>();
            Ok::<_, String>((result, current, depth, raws))
        };
        for (step, (thread, act)) in program.iter().enumerate() {
            let (result, current, depth, raws) = turn(*thread, Some(*act))?;
            let expected = oracle.answer(*thread, *act);
            let stack = &oracle.stacks[*thread];
            let top = stack.last().map_or(null_mut::<()>().addr(), |top| raws[top.context]);
            if (result, current, depth) != (expected, top, stack.len()) {
                return Err(format!(
                    "step {step}, thread {thread}, {act:?}: answered {result:?}, {current:#x} is current, {depth} deep; \
                     expected {expected:?}, {top:#x}, {stack:?}"
                ));
            }
        }
        for (thread, guards) in oracle.guards.iter().enumerate() {
            let left = guards.len();
            let (_, _, depth, _) = turn(thread, None)?;
            if depth > oracle.stacks[thread].len() {
                return Err(format!("thread {thread}: {depth} deep after its last {left} guards"));
            }
        }
        Ok(())
    })
}

fn run_programs(cases: u32, length: usize, creates: u32) {
    static STEPS: AtomicUsize = AtomicUsize::new(0);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 2000, ..Config::default() };
    let steps = prop::collection::vec((0..THREADS, acts(creates)), length / 2..length);
    let mut runner = TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let result = runner.run(&steps, |program| {
        let done = STEPS.fetch_add(program.len(), Ordering::Relaxed);
        if done / 100_000 != (done + program.len()) / 100_000 {
            println!("{} steps", done + program.len());
        }
        check(&program).map_err(TestCaseError::fail)
    });
    println!("programs: {cases} with {} steps", STEPS.load(Ordering::Relaxed));
    if let Err(error) = result {
        panic!("{error}");
    }
}

fn asked(name: &str, default: u32) -> u32 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn random_safe_programs_do_what_the_oracle_says() {
    run_alone(|| {
        sim::reuse_handles(true);
        let (cases, length, creates) = if is_simulated() { (1000, 160, 6) } else { (6, 1000, 1) };
        run_programs(
            asked("CUSTACK_PROGRAMS", cases),
            asked("CUSTACK_PROGRAM_LENGTH", length) as usize,
            creates,
        );
        sim::reuse_handles(false);
    });
}
