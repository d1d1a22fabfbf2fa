//! A queue of jobs for one worker, and a wait until all of them are done, and all that is expected.
//!
//! This file is compiled twice, like [`life`](super::life).

use super::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::collections::VecDeque;

pub(super) struct Queue<J> {
    state: Mutex<State<J>>,
    changed: Condvar,
}

pub(super) struct State<J> {
    jobs: VecDeque<J>,
    /// Jobs that are queued or running, and what is expected.
    pending: usize,
    has_worker: bool,
}

impl<J> State<J> {
    pub(super) const fn new() -> State<J> {
        State { jobs: VecDeque::new(), pending: 0, has_worker: false }
    }
}

impl<J> Queue<J> {
    pub(super) const fn of(state: Mutex<State<J>>, changed: Condvar) -> Queue<J> {
        Queue { state, changed }
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, job: J) {
        let mut state = self.lock();
        state.jobs.push_back(job);
        state.pending += 1;
        self.changed.notify_all();
    }

    /// What is to be waited for is going on elsewhere, until [`done`](Self::done) is called.
    pub(super) fn expect(&self) {
        self.lock().pending += 1;
    }

    /// Whether the caller must start the worker, because there is none.
    pub(super) fn wants_worker(&self) -> bool {
        !std::mem::replace(&mut self.lock().has_worker, true)
    }

    /// Records that the worker could not be started, and wakes the threads that wait for it.
    pub(super) fn has_no_worker(&self) {
        self.lock().has_worker = false;
        self.changed.notify_all();
    }

    /// Called by the worker: waits for the next job.
    pub(super) fn next(&self) -> J {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return job;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The job that the worker took is done, or what was expected has come.
    pub(super) fn done(&self) {
        let mut state = self.lock();
        state.pending -= 1;
        if state.pending == 0 {
            self.changed.notify_all();
        }
    }

    /// Waits until nothing is left; returns false if jobs are left and there is no worker.
    pub(super) fn wait(&self) -> bool {
        let mut state = self.lock();
        while state.pending > 0 && (state.has_worker || state.jobs.is_empty()) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.pending == 0
    }
}
