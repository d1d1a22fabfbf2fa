//! A queue of jobs for one worker, and waiting until all of them are done.
//!
//! This file is compiled twice, as [`life`](super::life) is.

use super::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::collections::VecDeque;

pub(super) struct Queue<J> {
    state: Mutex<State<J>>,
    changed: Condvar,
}

pub(super) struct State<J> {
    jobs: VecDeque<J>,
    /// Jobs that are in the queue or being done.
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

    /// Whether the caller is to start the worker, because there is none.
    pub(super) fn wants_worker(&self) -> bool {
        !std::mem::replace(&mut self.lock().has_worker, true)
    }

    /// The worker could not be started. Who waits for it by now is told.
    pub(super) fn has_no_worker(&self) {
        self.lock().has_worker = false;
        self.changed.notify_all();
    }

    /// For the worker: the next job, when there is one.
    pub(super) fn next(&self) -> J {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return job;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// For the worker: the job that it took is done.
    pub(super) fn done(&self) {
        let mut state = self.lock();
        state.pending -= 1;
        if state.pending == 0 {
            self.changed.notify_all();
        }
    }

    /// Waits until no job is left; false if there are some and no worker.
    pub(super) fn wait(&self) -> bool {
        let mut state = self.lock();
        while state.pending > 0 && state.has_worker {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.pending == 0
    }
}
