//! Runs a program: its threads, one act at a time or all at once, and what must be left of it.

use super::act::{Act, Thing};
use super::actor::{Actor, Mail};
use super::world::{Ctx, Shared, World, lock};
use super::{Program, THREADS};
use crate::harness::{is_simulated, parked};
use custack::context::wait_until_retired;
use custack::driver::instrument;
use custack::sim;
use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// No act takes this long.
const LONG: Duration = Duration::from_secs(20);

struct Crew {
    world: Shared,
    mail: Vec<Sender<Mail>>,
    threads: Vec<JoinHandle<()>>,
    reply: Sender<Mail>,
    replies: Receiver<Mail>,
}

impl Crew {
    fn new() -> Crew {
        let world = Shared::default();
        for _ in 0..2 {
            let context = parked();
            let handle = context.get_unowned();
            lock(&world).contexts.push(Ctx { owner: Some(context), handle });
        }
        lock(&world).prepare();
        let (mail, mut boxes): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| channel()).unzip();
        let spawn = |me: usize| {
            let (world, all, mail) = (world.clone(), mail.clone(), boxes.remove(0));
            let actor = Actor { me, world, mail, all, frames: Vec::new(), stack: Vec::new() };
            Builder::new().name("program".to_owned()).spawn(move || actor.live()).unwrap()
        };
        let threads = (0..THREADS).map(spawn).collect();
        let (reply, replies) = channel();
        Crew { world, mail, threads, reply, replies }
    }

    fn order(&self, orders: Vec<(usize, Vec<Act>)>) -> Result<(), String> {
        let count = orders.len();
        for (thread, acts) in orders {
            self.mail[thread].send(Mail::Order(acts, self.reply.clone())).map_err(|_| "a thread is gone")?;
        }
        for _ in 0..count {
            self.replies.recv_timeout(LONG).map_err(|error| format!("no answer: {error}"))?;
        }
        let problems = std::mem::take(&mut lock(&self.world).problems);
        if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
    }

    fn step(&self, thread: usize, act: &Act) -> Result<(), String> {
        let Act::Together(all) = act else { return self.order(vec![(thread, vec![act.clone()])]) };
        lock(&self.world).loose = true;
        let result = self.order(all.iter().cloned().enumerate().collect());
        let mut world = lock(&self.world);
        (world.loose, world.may_fail) = (false, false);
        result
    }

    /// Waits for all work, reads everything, and drops it in the order that the number says.
    fn finish(&self, mut order: usize) -> Result<(), String> {
        let count = lock(&self.world).contexts.len();
        for n in 0..count {
            let world = lock(&self.world);
            let handle = world.is_alive(n).then(|| world.contexts[n].handle.clone());
            drop(world);
            if let Some(error) = handle.and_then(|handle| handle.synchronize().err()) {
                return Err(format!("waiting for context {n}: {error:?}"));
            }
        }
        self.order((0..5).map(|n| (n % THREADS, vec![Act::Read(n)])).collect())?;
        let world = lock(&self.world);
        let streams: Vec<_> = world.streams.all().cloned().collect();
        let alive: BTreeSet<_> = (0..count).filter(|at| world.is_alive(*at)).collect();
        drop(world);
        for (stream, context) in streams {
            if alive.contains(&context) && stream.capture_status() != Ok(custack::stream::CaptureStatus::None)
            {
                return Err(format!("{stream:?} captures at the end"));
            }
        }
        use Thing::*;
        let mut kinds = vec![Stream, Event, Pool, Library, Function, Cell, Graph, Executable];
        while !kinds.is_empty() {
            let kind = kinds.remove(order % kinds.len());
            order /= 2;
            loop {
                let taken = lock(&self.world).take(kind, 0);
                if taken.is_none() {
                    break;
                }
                drop(taken);
            }
        }
        self.counted(&alive)
    }

    /// Every value was dropped once, and every function called as often as expected.
    fn counted(&self, alive: &BTreeSet<usize>) -> Result<(), String> {
        let counters = std::mem::take(&mut lock(&self.world).counters);
        // What is kept goes some time after the last launch.
        let begun = Instant::now();
        let _ = wait_until_retired();
        for counter in counters {
            while counter.dropped.load(Ordering::SeqCst) == 0 && begun.elapsed() < Duration::from_secs(5) {
                std::thread::sleep(Duration::from_micros(200));
            }
            let [dropped, ran, expected] =
                [&counter.dropped, &counter.ran, &counter.expected].map(|it| it.load(Ordering::SeqCst));
            // A function may be called when its context is destroyed, or not.
            let certain = counter.contexts.lock().unwrap().is_subset(alive);
            if dropped != 1 {
                // Work of a destroyed context is dropped with it.
                if dropped > 1 || certain {
                    return Err(format!(
                        "a value was dropped {dropped} times, called {ran} times of {expected}: {}",
                        counter.made
                    ));
                }
            }
            if ran > expected || certain && ran != expected {
                return Err(format!("a function was called {ran} times, expected {expected}"));
            }
        }
        Ok(())
    }
}

/// What is left in the process: contexts, shares, allocations, objects, misuses.
fn left() -> [i64; 5] {
    let simulated = if is_simulated() {
        [sim::allocations() as i64, sim::objects() as i64, sim::misuses() as i64]
    } else {
        [0; 3]
    };
    let [allocations, objects, misuses] = simulated;
    [instrument::contexts_alive(), instrument::primary_retains(), allocations, objects, misuses]
}

/// Waits until nothing is left but this; returns what is.
fn settled(expected: [i64; 5]) -> [i64; 5] {
    let begun = Instant::now();
    while left()[..4] != expected[..4] && begun.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_micros(200));
    }
    left()
}

/// Runs the program and returns the number of acts, or what went wrong and where.
pub(super) fn check(program: &Program, order: usize) -> Result<usize, String> {
    wait_until_retired().unwrap();
    static FIRST: OnceLock<[i64; 5]> = OnceLock::new();
    // An earlier program that failed may have left something.
    let before = settled(*FIRST.get_or_init(left));
    let crew = Crew::new();
    let mut result = Ok(());
    for n in 0..4 {
        result = result.and_then(|()| crew.step(n % THREADS, &Act::MakeStream(n, n == 3)));
    }
    for (step, (thread, act)) in program.iter().enumerate() {
        result = result
            .and_then(|()| crew.step(*thread, act).map_err(|error| format!("step {step}, {act:?}: {error}")));
    }
    result = result.and_then(|()| crew.finish(order));
    if let Some(hangs) = result.as_ref().err().filter(|error| error.contains("no answer")) {
        // Shrinking this takes long.
        eprintln!("{hangs}, in the program {program:?}");
    }
    let Crew { world, mail, threads, .. } = crew;
    let steps = lock(&world).steps;
    mail.iter().for_each(|mail| drop(mail.send(Mail::End)));
    if result.is_ok() || !result.as_ref().is_err_and(|error| error.contains("no answer")) {
        for thread in threads {
            if thread.join().is_err() {
                result = result.and(Err("a thread panicked".to_owned()));
            }
        }
    }
    drop::<World>(std::mem::take(&mut *lock(&world)));
    wait_until_retired().unwrap();
    result?;
    let after = settled(before);
    if after != before {
        return Err(format!(
            "contexts, shares, allocations, objects, misuses: {before:?} before, {after:?} after"
        ));
    }
    Ok(steps)
}
