//! Where the outcome of work waits for its future, or a future's waker for the outcome.
//!
//! Wakers are values of the program: they are cloned, dropped and called without the lock.
//!
//! This file is compiled twice: in the crate, and in the tests with a model checker's primitives.

use super::sync::{AtomicBool, Mutex, MutexGuard, Ordering, PoisonError};
use std::mem;
use std::task::{Poll, Waker};

pub(super) struct Slot<O> {
    state: Mutex<State<O>>,
    /// Set after the outcome, for those who look without the lock.
    is_done: AtomicBool,
    /// What becomes of an outcome that nobody wants.
    unwanted: fn(O),
}

enum State<O> {
    Waiting(Option<Waker>),
    Done(O),
    /// Or not wanted any more.
    Taken,
}

impl<O> Slot<O> {
    pub(super) fn new(unwanted: fn(O)) -> Slot<O> {
        Slot { state: Mutex::new(State::Waiting(None)), is_done: AtomicBool::new(false), unwanted }
    }

    fn lock(&self) -> MutexGuard<'_, State<O>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Acquire)
    }

    /// Called once. The caller wakes who waits.
    #[must_use]
    pub(super) fn complete(&self, outcome: O) -> Option<Waker> {
        let mut state = self.lock();
        let State::Waiting(waker) = &mut *state else {
            drop(state);
            (self.unwanted)(outcome);
            return None;
        };
        let waker = waker.take();
        *state = State::Done(outcome);
        drop(state);
        self.is_done.store(true, Ordering::Release);
        waker
    }

    /// # Panics
    ///
    /// If the outcome was taken before.
    pub(super) fn poll(&self, waker: &Waker) -> Poll<O> {
        let mut new = if self.is_done() { None } else { Some(waker.clone()) };
        let before = {
            let mut state = self.lock();
            match &mut *state {
                State::Waiting(old) => {
                    mem::swap(old, &mut new);
                    return Poll::Pending;
                }
                State::Done(_) | State::Taken => mem::replace(&mut *state, State::Taken),
            }
        };
        match before {
            State::Done(outcome) => Poll::Ready(outcome),
            State::Waiting(_) | State::Taken => panic!("a completion was polled after it was ready"),
        }
    }

    /// Nobody wants the outcome any more, nor is the waker called from now on, which is returned.
    pub(super) fn abandon(&self) -> Option<Waker> {
        let before = mem::replace(&mut *self.lock(), State::Taken);
        match before {
            State::Waiting(waker) => waker,
            State::Done(outcome) => {
                (self.unwanted)(outcome);
                None
            }
            State::Taken => None,
        }
    }
}
