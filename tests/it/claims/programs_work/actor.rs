//! A thread of a program, and how threads ask each other.

use super::act::{Act, On};
use super::world::{Plan, Shared, Token, World, lock};
use crate::harness::{current, is_simulated};
use custack::context::{ContextStack, UnownedContext};
use custack::error::{CudaError, CudaResult};
use custack::graph::Capture;
use custack::sim;
use custack::stream::{LegacyStream, PerThreadStream, Stream};
use std::ops::Deref;
use std::panic::Location;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

pub(super) enum Mail {
    /// Does these, and answers.
    Order(Vec<Act>, Sender<Mail>),
    Done,
    End,
}

/// A capture that this thread is in.
pub(super) struct Frame {
    pub(super) context: usize,
    pub(super) plan: Plan,
    /// Something in the graph is not kept, so that it must not be launched.
    pub(super) abandon: bool,
}

pub(super) struct Actor {
    pub(super) me: usize,
    pub(super) world: Shared,
    pub(super) mail: Receiver<Mail>,
    /// The mail of all threads.
    pub(super) all: Vec<Sender<Mail>>,
    pub(super) frames: Vec<Frame>,
    /// The contexts on this thread's stack.
    pub(super) stack: Vec<usize>,
}

/// The capture in whose closure an act is.
pub(super) type Within<'a> = Option<&'a Capture<'a>>;

/// A stream, for one act.
pub(super) enum Lent<'a> {
    Own(Arc<Stream>),
    Captured(&'a Stream),
    Legacy(LegacyStream),
    PerThread(PerThreadStream),
}

impl Deref for Lent<'_> {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        match self {
            Lent::Own(stream) => stream,
            Lent::Captured(stream) => stream,
            Lent::Legacy(stream) => stream,
            Lent::PerThread(stream) => stream,
        }
    }
}

impl Lent<'_> {
    pub(super) fn is_own(&self) -> bool {
        matches!(self, Lent::Own(_))
    }
}

/// Whether captures lead to this error.
fn is_of_captures(error: CudaError) -> bool {
    (900..=908).contains(&error.code()) || error == CudaError::IllegalState
}

impl Actor {
    /// Does what it is told until no one is left that could tell it anything.
    pub(super) fn live(mut self) {
        let base: Vec<_> = (0..self.me).map(|_| 0).collect();
        for context in base {
            ContextStack::push(&self.handle(context)).unwrap();
            self.stack.push(context);
        }
        while let Ok(Mail::Order(acts, reply)) = self.mail.recv() {
            self.obey(&acts, &reply);
        }
        while ContextStack::depth() > 0 {
            ContextStack::pop().unwrap();
        }
    }

    fn obey(&mut self, acts: &[Act], reply: &Sender<Mail>) {
        acts.iter().for_each(|act| self.act(act, None));
        let _ = reply.send(Mail::Done);
    }

    /// Has another thread do it. Meanwhile this one does what others ask for.
    pub(super) fn elsewhere(&mut self, thread: usize, act: &Act) {
        let there = thread % self.all.len();
        if there == self.me {
            return self.act(act, None);
        }
        let order = Mail::Order(vec![act.clone()], self.all[self.me].clone());
        if self.all[there].send(order).is_err() {
            return;
        }
        loop {
            match self.mail.recv() {
                Ok(Mail::Order(acts, reply)) => self.obey(&acts, &reply),
                Ok(Mail::Done | Mail::End) | Err(_) => return,
            }
        }
    }

    pub(super) fn world<R>(&self, f: impl FnOnce(&mut World) -> R) -> R {
        f(&mut lock(&self.world))
    }

    pub(super) fn handle(&self, context: usize) -> UnownedContext {
        self.world(|world| world.contexts[context].handle.clone())
    }

    pub(super) fn problem(&self, text: String) {
        self.world(|world| world.problems.push(format!("thread {}: {text}", self.me)));
    }

    #[track_caller]
    pub(super) fn token(&self) -> Token {
        let (at, me) = (Location::caller().line(), self.me);
        self.world(|world| world.token(format!("line {at}, thread {me}, act {}", world.steps)))
    }

    /// The stream, and its context.
    pub(super) fn stream<'a>(&self, on: On, within: Within<'a>) -> Option<(Lent<'a>, usize)> {
        let own = |n| self.world(|world| world.streams.get(n).cloned());
        Some(match (on, within) {
            (On::Captured(_), Some(capture)) => (Lent::Captured(capture), self.frames.last()?.context),
            (On::Own(n) | On::Captured(n), _) => {
                let (stream, context) = own(n)?;
                (Lent::Own(stream), context)
            }
            (On::Legacy(n), _) => {
                let context = self.world(|world| world.context(n));
                (Lent::Legacy(LegacyStream::of(&self.handle(context))), context)
            }
            (On::PerThread(n), _) => {
                let context = self.world(|world| world.context(n));
                (Lent::PerThread(PerThreadStream::of(&self.handle(context))), context)
            }
        })
    }

    /// Compares a result with what the oracle allows: success if these contexts are alive and nothing captures.
    pub(super) fn judge<T>(
        &self,
        what: &str,
        result: &CudaResult<T>,
        needs: impl IntoIterator<Item = usize>,
        also: &[CudaError],
    ) {
        let (dead, open, loose) = self.world(|world| {
            let dead = needs.into_iter().any(|context| !world.is_alive(context));
            (dead, world.open > 0, world.loose)
        });
        let right = match result {
            Ok(_) => !dead || loose,
            Err(CudaError::ContextIsDestroyed) => dead || loose,
            Err(error) => also.contains(error) || (open || loose) && is_of_captures(*error),
        };
        if !right {
            let answer = result.as_ref().map(|_| ());
            let detail = result.as_ref().err().map(|error| crate::harness::said(*error));
            let log = sim::log().pop();
            self.problem(format!(
                "{what}: {answer:?} ({detail:?}, {log:?}), with a dead context {dead}, captures {open}"
            ));
        }
    }

    /// The thread's stack is what it was.
    pub(super) fn check_stack(&self, after: &Act) {
        let mirror = ContextStack::depth();
        let depth = if is_simulated() { sim::depth() } else { mirror };
        let top = self.stack.last().map(|at| (self.handle(*at), self.world(|world| world.is_alive(*at))));
        let expected = top.as_ref().map_or(std::ptr::null_mut(), |(handle, _)| handle.as_raw());
        let alive = top.is_none_or(|(_, alive)| alive);
        if (depth, mirror) != (self.stack.len(), self.stack.len()) || alive && current() != expected {
            let found = current();
            self.problem(format!(
                "after {after:?}: depth {depth}, mirror {mirror}, expected {}; {found:p}, expected {expected:p}",
                self.stack.len()
            ));
        }
    }

    pub(super) fn act(&mut self, act: &Act, within: Within<'_>) {
        self.world(|world| world.steps += 1);
        self.perform(act, within);
        self.check_stack(act);
    }
}
