//! Random programs of futures, streams and their contexts, against an oracle that knows which work may be over.

use super::{Counting, held, poll, stream};
use crate::harness::{owned_by, parked, run_alone, within};
use custack::context::Context;
use custack::future::{Completion, InContext, InContextExt};
use custack::stream::Stream;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::task::{Poll, Waker};
use std::thread::JoinHandle;

/// Numbers that look random (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

/// One of the ways to await: by itself, or in a task that runs in the context.
enum Waiting {
    Completion(Completion<Arc<()>>),
    Task(Pin<Box<InContext<Completion<Arc<()>>>>>),
}

impl Waiting {
    /// Whether it was ready with the work's value.
    fn poll(&mut self, waker: &Waker) -> Poll<bool> {
        match self {
            Waiting::Completion(completion) => poll(completion, waker).map(|result| result.is_ok()),
            Waiting::Task(task) => poll(task, waker).map(|result| result.is_ok_and(|inner| inner.is_ok())),
        }
    }
}

struct Work {
    /// Its place among all that was submitted: a driver may call one host function at a time.
    number: usize,
    kept: Arc<()>,
    woken: Arc<Counting>,
    waker: Waker,
    waiting: Option<Waiting>,
    polled: bool,
    forgotten: bool,
}

struct Program {
    random: Random,
    contexts: Vec<Option<Context>>,
    streams: Vec<Option<Stream>>,
    /// What holds up the work, the first submitted first.
    gates: VecDeque<Sender<()>>,
    submitted: usize,
    work: Vec<Work>,
    /// The driver destroys a context only when the work of all contexts is done, so these wait for the gates.
    destroying: Vec<JoinHandle<()>>,
}

impl Program {
    fn new(seed: u64) -> Program {
        let contexts = [parked(), parked()];
        let of = |at: usize| contexts[at % 2].scoped(|_| Ok(stream())).unwrap();
        let streams = (0..4).map(|at| Some(of(at))).collect();
        let contexts = contexts.map(Some).into();
        let (gates, work, destroying) = (VecDeque::new(), Vec::new(), Vec::new());
        Program { random: Random(seed), contexts, streams, gates, submitted: 0, work, destroying }
    }

    /// How many of the submitted pieces of work may be over.
    fn opened(&self) -> usize {
        self.submitted - self.gates.len()
    }

    fn step(&mut self) {
        let at = self.random.below(self.work.len().max(1));
        match self.random.below(16) {
            0..=5 => self.submit(),
            6..=8 => drop(self.gates.pop_front()),
            9..=11 if !self.work.is_empty() => {
                let work = &mut self.work[at];
                if let Some(waiting) = &mut work.waiting {
                    let polled = waiting.poll(&work.waker);
                    // A task whose context is gone is ready with that error, and has not asked about the work.
                    work.polled |= polled.is_pending();
                    if polled == Poll::Ready(true) {
                        work.waiting = None;
                    }
                }
            }
            12 if !self.work.is_empty() => drop(self.work[at].waiting.take()),
            13 if !self.work.is_empty() => {
                let work = &mut self.work[at];
                // Forgotten before anybody asked, it would keep everything for ever.
                if work.polled && work.waiting.is_some() {
                    std::mem::forget(work.waiting.take());
                    work.forgotten = true;
                }
            }
            14 if self.random.below(4) == 0 => {
                let at = self.random.below(self.streams.len());
                self.streams[at] = None;
            }
            15 if self.random.below(8) == 0 => {
                let at = self.random.below(self.contexts.len());
                let context = self.contexts[at].take();
                self.destroying.push(std::thread::spawn(move || drop(context)));
            }
            _ => {}
        }
        self.check();
    }

    fn submit(&mut self) {
        let at = self.random.below(self.streams.len());
        let (Some(stream), Some(context)) = (&self.streams[at], &self.contexts[at % 2]) else { return };
        let kept = Arc::new(());
        let value = Arc::clone(&kept);
        let mut gate = None;
        let submitted = stream.enqueue_async(|stream| {
            gate = Some(held(stream));
            Ok(value)
        });
        self.gates.extend(gate);
        let completion = submitted.unwrap();
        let waiting = match self.random.below(3) {
            0 => Waiting::Task(Box::pin(completion.in_context(context))),
            _ => Waiting::Completion(completion),
        };
        let (woken, waker) = Counting::waker();
        let (number, waiting) = (self.submitted, Some(waiting));
        self.work.push(Work { number, kept, woken, waker, waiting, polled: false, forgotten: false });
        self.submitted += 1;
    }

    fn check(&self) {
        for work in self.work.iter().filter(|work| work.number >= self.opened()) {
            let owners = (Arc::strong_count(&work.kept), work.woken.count());
            assert_eq!(owners, (2, 0), "work {} of {} is not over", work.number, self.submitted);
        }
    }

    /// All work ends; then each future has its value, or its value is gone.
    fn end(mut self) {
        self.gates.clear();
        for mut work in std::mem::take(&mut self.work) {
            match work.waiting.take() {
                Some(Waiting::Completion(completion)) => assert_eq!(completion.wait().map(drop), Ok(())),
                // Its context may be gone, which ends the task and not the work.
                Some(task) => drop(task),
                None if work.forgotten => {
                    work.woken.reaches(1);
                    continue;
                }
                None => {}
            }
            owned_by(&work.kept, 1);
        }
        self.destroying.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn random_programs_of_futures_lose_nothing_and_free_nothing_early() {
    within(300, || {
        run_alone(|| {
            for seed in 0..60 {
                let mut program = Program::new(seed);
                (0..60).for_each(|_| program.step());
                program.end();
            }
        });
    });
}
