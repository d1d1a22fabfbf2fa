//! How work comes to the thread that looks at it: kept by its future until somebody asks, then put into the thread's inbox.
//!
//! This file is compiled twice: in the crate, and in the tests with a model checker's primitives.

use super::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, PoisonError};
use std::mem;
use std::time::Instant;

/// Work that no thread polls yet; it is handed over once, by whichever thread comes first.
pub(super) struct Kept<W>(Mutex<Option<W>>);

impl<W> Kept<W> {
    /// `None` for what is over already.
    pub(super) fn new(work: Option<W>) -> Kept<W> {
        Kept(Mutex::new(work))
    }

    /// Gives it to the function, which is called without the lock, unless it was taken before.
    pub(super) fn hand_over(&self, to: impl FnOnce(W)) {
        let work = self.lock().take();
        if let Some(work) = work {
            to(work);
        }
    }

    /// Whether no thread has taken it yet.
    pub(super) fn is_kept(&mut self) -> bool {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Polls it here, if no thread has taken it; true if it is done and gone.
    pub(super) fn look(&mut self, is_over: impl FnOnce(&mut W) -> bool) -> bool {
        let work = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        let is_over = work.as_mut().is_some_and(is_over);
        if is_over {
            *work = None;
        }
        is_over
    }

    fn lock(&self) -> MutexGuard<'_, Option<W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a thread is to look at, and whether it sleeps until there is something.
pub(super) struct Inbox<W> {
    state: Mutex<State<W>>,
    arrived: Condvar,
    /// How much is in it, for those who look without the lock.
    count: AtomicUsize,
}

struct State<W> {
    new: Vec<W>,
    is_asleep: bool,
}

impl<W> Inbox<W> {
    pub(super) fn new() -> Inbox<W> {
        let state = Mutex::new(State { new: Vec::new(), is_asleep: false });
        Inbox { state, arrived: Condvar::new(), count: AtomicUsize::new(0) }
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Wakes the thread if it sleeps; a notification costs a system call even if no thread waits for it.
    pub(super) fn add(&self, work: W) {
        let is_asleep = {
            let mut state = self.lock();
            state.new.push(work);
            self.count.store(state.new.len(), Ordering::Release);
            mem::take(&mut state.is_asleep)
        };
        if is_asleep {
            self.arrived.notify_one();
        }
    }

    /// What is in it, for the one thread that empties it. It waits for something, at most until then.
    pub(super) fn take(&self, until: Option<Instant>) -> Vec<W> {
        let mut state = self.lock();
        while state.new.is_empty() {
            let pause = until.map(|until| until.saturating_duration_since(Instant::now()));
            if pause.is_some_and(|pause| pause.is_zero()) {
                break;
            }
            state.is_asleep = true;
            state = match pause {
                Some(pause) => {
                    self.arrived.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
            state.is_asleep = false;
        }
        self.count.store(0, Ordering::Relaxed);
        mem::take(&mut state.new)
    }

    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
