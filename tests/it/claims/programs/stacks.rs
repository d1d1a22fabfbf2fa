//! The rule of scopes: what is on each thread's stack, according to the documentation.

use super::THREADS;
use custack::error::{CudaError, CudaResult};

/// An entry of a thread's stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) context: usize,
    guards: usize,
    ended: bool,
    /// How many contexts had died when its first guard was made; most entries have no guard.
    since: usize,
    serial: usize,
}

/// The entry that a guard holds, and whether the guard made it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guard {
    serial: usize,
    made: bool,
}

/// A context of the program, or one life of the primary one.
#[derive(Debug, Clone)]
pub(super) struct Life {
    pub(super) alive: bool,
    /// The ordinal of its death, from 1; 0 while it is alive.
    pub(super) died: usize,
    pub(super) primary: bool,
    /// How many owners the program has: one, or the shares of the primary context.
    pub(super) owners: usize,
    /// It is dead, and may or may not still exist in the driver.
    pub(super) lingers: bool,
}

/// The stacks of the threads; the last is that of short-lived threads.
#[derive(Debug, Clone, Default)]
pub(super) struct Stacks {
    pub(super) contexts: Vec<Life>,
    pub(super) of: [Vec<Entry>; THREADS + 1],
    pub(super) guards: [Vec<Guard>; THREADS + 1],
    serials: usize,
    deaths: usize,
}

impl Stacks {
    pub(super) fn top(&self, thread: usize) -> Option<usize> {
        self.of[thread].last().map(|top| top.context)
    }

    fn is_dead(&self, entry: &Entry) -> bool {
        !self.contexts[entry.context].alive
    }

    pub(super) fn usable(&self, context: usize) -> CudaResult<()> {
        if self.contexts[context].alive { Ok(()) } else { Err(CudaError::ContextIsDestroyed) }
    }

    fn held(&self, thread: usize) -> Option<usize> {
        self.of[thread].last().filter(|top| top.guards > 0).map(|top| top.context)
    }

    fn put(&mut self, thread: usize, context: usize, guards: usize) -> usize {
        self.serials += 1;
        let since = if guards > 0 { self.deaths } else { usize::MAX };
        let serial = self.serials;
        self.of[thread].push(Entry { context, guards, ended: false, since, serial });
        serial
    }

    pub(super) fn create(&mut self, thread: usize) {
        self.contexts.push(Life { alive: true, died: 0, primary: false, owners: 1, lingers: false });
        self.put(thread, self.contexts.len() - 1, 0);
    }

    pub(super) fn push(&mut self, thread: usize, context: usize) -> CudaResult<()> {
        self.usable(context)?;
        self.put(thread, context, 0);
        Ok(())
    }

    pub(super) fn pop(&mut self, thread: usize) -> CudaResult<usize> {
        if self.held(thread).is_some() {
            return Err(CudaError::HeldByGuard);
        }
        self.of[thread].pop().map(|top| top.context).ok_or(CudaError::InvalidContext)
    }

    pub(super) fn set(&mut self, thread: usize, context: usize) -> CudaResult<()> {
        if self.held(thread).is_some_and(|held| held != context) {
            return Err(CudaError::HeldByGuard);
        }
        self.usable(context)?;
        if self.top(thread) != Some(context) {
            self.of[thread].pop();
            self.put(thread, context, 0);
        }
        Ok(())
    }

    pub(super) fn unset(&mut self, thread: usize) -> CudaResult<()> {
        if self.held(thread).is_some() {
            return Err(CudaError::HeldByGuard);
        }
        self.of[thread].pop();
        Ok(())
    }

    pub(super) fn enter(&mut self, thread: usize, context: usize) -> CudaResult<Guard> {
        self.usable(context)?;
        let deaths = self.deaths;
        if let Some(top) = self.of[thread].last_mut().filter(|top| top.context == context) {
            if top.guards == 0 {
                top.since = deaths;
            }
            top.guards += 1;
            return Ok(Guard { serial: top.serial, made: false });
        }
        Ok(Guard { serial: self.put(thread, context, 1), made: true })
    }

    pub(super) fn leave(&mut self, thread: usize, guard: Guard) {
        let Some(at) = self.of[thread].iter().position(|entry| entry.serial == guard.serial) else { return };
        let dead = self.is_dead(&self.of[thread][at]);
        self.of[thread][at].guards -= 1;
        self.of[thread][at].ended |= guard.made || dead;
        self.of[thread][at + 1..].iter_mut().for_each(|entry| entry.ended = true);
        self.sweep(thread);
    }

    /// Pops what has ended, and tombstones that thereby come to the top.
    fn sweep(&mut self, thread: usize) {
        let mut since = usize::MAX;
        while let Some(top) = self.of[thread].last().filter(|top| top.guards == 0) {
            if !(top.ended || self.contexts[top.context].died > since) {
                break;
            }
            since = since.min(top.since);
            self.of[thread].pop();
        }
        // The scope of what stays is over. Until it is on top, what was destroyed within it may still go.
        if let Some(top) = self.of[thread].last_mut().filter(|top| top.guards == 0) {
            top.since = usize::MAX;
        }
    }

    /// The context is dead for all threads.
    pub(super) fn end(&mut self, context: usize, lingers: bool) {
        self.deaths += 1;
        self.contexts[context].alive = false;
        self.contexts[context].died = self.deaths;
        self.contexts[context].lingers = lingers;
    }

    /// What the thread that dropped the owner loses from its stack.
    pub(super) fn clear(&mut self, thread: usize) {
        while self.of[thread].last().is_some_and(|top| top.guards == 0 && self.is_dead(top)) {
            self.of[thread].pop();
        }
        self.sweep(thread);
    }

    /// Whether a dead context lies on the stack.
    pub(super) fn has_dead(&self, thread: usize) -> bool {
        self.of[thread].iter().any(|entry| self.is_dead(entry))
    }

    /// Whether a dead context lies on the stack twice in a row: then a failed call does not show whether it popped one.
    pub(super) fn has_dead_run(&self, thread: usize, raws: &[usize]) -> bool {
        let same = |pair: &[Entry]| raws[pair[0].context] == raws[pair[1].context];
        let dead = |pair: &[Entry]| pair.iter().any(|entry| self.is_dead(entry));
        self.of[thread].windows(2).any(|pair| same(pair) && dead(pair))
    }
}
