//! Where the outcome of work waits for its future, or a future's waker for the outcome.
//!
//! Wakers are values of the program: they are cloned, dropped and called without the lock.
//!
//! This file is compiled twice: in the crate, and in the tests with a model checker's primitives.

use super::sync::{AtomicBool, Mutex, MutexGuard, Ordering, PoisonError};
use std::mem;
use std::task::{Poll, Waker};

/// `K` is kept while the outcome is unwanted, until the slot is dropped.
pub(super) struct Slot<O, K> {
    state: Mutex<State<O, K>>,
    /// Set after the outcome, for those who look without the lock.
    is_done: AtomicBool,
    /// What becomes of an outcome that nobody wants.
    unwanted: fn(O),
}

enum State<O, K> {
    Waiting(Option<Waker>),
    Done(O),
    Taken,
    Unwanted(Option<K>),
}

impl<O, K> Slot<O, K> {
    pub(super) fn new(unwanted: fn(O)) -> Slot<O, K> {
        Slot { state: Mutex::new(State::Waiting(None)), is_done: AtomicBool::new(false), unwanted }
    }

    fn lock(&self) -> MutexGuard<'_, State<O, K>> {
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
                State::Done(_) | State::Taken | State::Unwanted(_) => mem::replace(&mut *state, State::Taken),
            }
        };
        match before {
            State::Done(outcome) => Poll::Ready(outcome),
            _ => panic!("a completion was polled after it was ready"),
        }
    }

    /// Nobody wants the outcome any more, nor is the waker called from now on, which is returned. If there is no outcome yet,
    /// this is kept.
    pub(super) fn abandon(&self, keep: impl FnOnce() -> K) -> Option<Waker> {
        let before = {
            let mut state = self.lock();
            let keeps = matches!(*state, State::Waiting(_)).then(keep);
            mem::replace(&mut *state, keeps.map_or(State::Taken, |kept| State::Unwanted(Some(kept))))
        };
        match before {
            State::Waiting(waker) => waker,
            State::Done(outcome) => {
                (self.unwanted)(outcome);
                None
            }
            State::Taken | State::Unwanted(_) => None,
        }
    }

    /// What is kept because the outcome is unwanted.
    pub(super) fn take_kept(&self) -> Option<K> {
        if let State::Unwanted(kept) = &mut *self.lock() { kept.take() } else { None }
    }
}
