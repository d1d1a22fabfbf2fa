//! Makes this thread's stack in the driver what the shadow stack says, after a call that failed or
//! a change by other code.
//!
//! The driver shows only the top. So this pops until what it has seen has one likely explanation,
//! and then pushes what is missing. Nothing is remembered between two attempts: one that fails is
//! begun anew, from whatever the stack is then.

use crate::driver::ffi::CUcontext;
use crate::driver::{Driver, Live};
use crate::error::{CudaResult, twice};
use crate::liveness::{Handle, Lease, LeaseOn, Origin, registry};
use crate::report;
use crate::shadow_stack::{self, Entry};
use std::cell::Cell;
use std::cmp::Reverse;
use std::iter;
use std::mem;
use std::ptr;

/// How many entries of other code on the expected ones are told apart.
const MOST_ADDED: usize = 2;

thread_local! {
    /// What is known since the last attempt to restore the stack failed.
    static LAST: Cell<Known> = const { Cell::new(Known::ALL) };
}

/// What may be on the stack: the first `left` of the expected entries, and on them `added` others.
#[derive(Debug, Clone, Copy)]
struct Guess {
    left: usize,
    added: usize,
}

impl Guess {
    /// What is current after this many pops, if it is one of the expected entries.
    fn shows(self, expected: &[Entry], pops: usize) -> Option<CUcontext> {
        let at = (self.left + self.added).checked_sub(pops + 1).filter(|at| *at < self.left)?;
        Some(expected[at].context.raw())
    }

    fn agrees(self, expected: &[Entry], seen: &[CUcontext]) -> bool {
        let at_bottom = seen.last().is_some_and(|now| now.is_null());
        let same = |(pops, raw): (usize, &CUcontext)| {
            self.shows(expected, pops).is_none_or(|expected| ptr::eq(expected, *raw))
        };
        (!at_bottom || self.left + self.added < seen.len()) && seen.iter().enumerate().all(same)
    }

    /// How many changes it takes at least, beside those pops of custack's of which it is unsure. A
    /// set is one change.
    fn changes(self, expected: usize, unsure: usize) -> usize {
        self.added.max((expected - self.left).saturating_sub(unsure))
    }

    /// How much of what was seen is among the expected entries.
    fn matches(self, expected: &[Entry], seen: &[CUcontext]) -> usize {
        (0..seen.len()).filter(|pops| self.shows(expected, *pops).is_some()).count()
    }

    /// The better of two guesses with as many changes has more matches, and what was popped above
    /// them.
    fn rank(self, expected: &[Entry], seen: &[CUcontext]) -> impl Ord {
        (Reverse(self.matches(expected, seen)), self.added.abs_diff(seen.len() - 1))
    }
}

/// The guesses that agree with what was seen: the handles that were popped, and the current one
/// last.
fn agreeing(expected: &[Entry], seen: &[CUcontext]) -> Vec<Guess> {
    let lefts = (0..=expected.len()).rev();
    lefts
        .flat_map(|left| (0..=MOST_ADDED).map(move |added| Guess { left, added }))
        .filter(|guess| guess.agrees(expected, seen))
        .collect()
}

/// The best guess: one that something confirms, if there is any, and of these the one with the
/// fewest changes. Also returns whether one more look could show a better one.
fn best(expected: &[Entry], unsure: usize, doubt: usize, seen: &[CUcontext]) -> (Guess, bool) {
    let mut guesses = agreeing(expected, seen);
    let changes = |guess: &Guess| guess.changes(expected.len(), unsure);
    let is_confirmed = |guess: &Guess| guess.matches(expected, seen) > 0;
    guesses.sort_by_key(|guess| (!is_confirmed(guess), changes(guess), guess.rank(expected, seen)));
    let best = guesses.first().copied().unwrap_or(Guess { left: 0, added: 0 });
    if is_confirmed(&best) || changes(&best) == 0 {
        guesses.retain(|guess| changes(guess) <= changes(&best) + doubt);
    }
    let mut pops = seen.len()..expected.len() + MOST_ADDED;
    let differ = pops
        .any(|pops| guesses.iter().any(|guess| guess.shows(expected, pops) != best.shows(expected, pops)));
    (best, differ)
}

/// What is known of the driver's stack before it is restored.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known {
    /// What a pop returned.
    popped: Option<CUcontext>,
    /// Whether a push or a pop of custack's failed, and may have taken effect all the same on the
    /// expected entries.
    unsure: bool,
    /// Whether an attempt to restore it failed, and how many of the expected entries the attempts
    /// may have popped. Then there may be fewer of several equal entries than the top shows.
    again: bool,
    missing: usize,
}

impl Known {
    const ALL: Known = Known { popped: None, unsure: false, again: false, missing: 0 };
    pub(super) const UNSURE: Known = Known { unsure: true, ..Known::ALL };

    pub(super) fn popped(raw: CUcontext) -> Known {
        Known { popped: Some(raw), ..Known::ALL }
    }

    /// Of the stack that could not be restored.
    pub(super) fn last() -> Known {
        Known { again: true, ..LAST.take() }
    }
}

struct Restoring<'a> {
    driver: &'a Driver,
    expected: Vec<Entry>,
    /// How many of the expected entries stay.
    keep: usize,
    known: Known,
    /// What was popped, and what is current last.
    seen: Vec<CUcontext>,
    /// No other thread destroys what was popped, until it is pushed again.
    kept: Vec<Lease>,
}

/// Makes the stack what the shadow stack says. The entry `gone`, which was removed from the shadow
/// stack, may still be on top.
#[cold]
pub(super) fn restore(driver: &Driver, gone: Option<&Entry>, known: Known) -> CudaResult<()> {
    let mut expected = shadow_stack::entries();
    let keep = expected.len();
    expected.extend(gone.cloned());
    let seen = known.popped.into_iter().collect();
    let mut restoring = Restoring { driver, expected, keep, known, seen, kept: Vec::new() };
    let lost = twice(|| restoring.attempt()).inspect_err(|_| {
        restoring.forget();
        LAST.set(restoring.known);
    })?;
    // What lies below the top is noticed when it is popped.
    if lost.last() == Some(&(keep.wrapping_sub(1))) && shadow_stack::top_is_unheld() {
        shadow_stack::pop();
    }
    for context in lost.iter().map(|at| restoring.expected[*at].context).filter(Handle::is_alive) {
        report::warn(format_args!(
            "{context} could not be made current again: other code made it, and may have destroyed it"
        ));
    }
    Ok(())
}

impl Restoring<'_> {
    /// Returns which of the entries that should stay are not there and cannot come back.
    fn attempt(&mut self) -> CudaResult<Vec<usize>> {
        if self.known.unsure {
            self.forget();
        }
        let guess = self.look()?;
        let pops = self.seen.len() - 1;
        let mut left = guess.left.saturating_sub(pops.saturating_sub(guess.added));
        let is_bottom = self.seen[pops].is_null();
        if pops > 0 && guess.matches(&self.expected, &self.seen) == 0 && !(pops == 1 && is_bottom) {
            // Nothing is known: other code had changed what lies below before the scope. Within the
            // scope it replaced the top.
            left = self.expected.len().saturating_sub(1);
            for at in (1..pops).rev() {
                let context = self.find(self.seen[at]);
                self.push_again(context).inspect_err(|_| self.note_left(0))?;
            }
        }
        for _ in self.keep..left {
            self.driver.ctx_pop_current().inspect_err(|_| self.note_left(self.expected.len()))?;
        }
        let mut lost = Vec::new();
        for at in left..self.keep {
            // What was gone already, is destroyed later, and no guard holds does not come back.
            let entry = &self.expected[at];
            let goes = at >= guess.left && entry.guards == 0 && registry::is_retiring(entry.context);
            let context = Some(entry.context).filter(|_| !goes);
            if !self.push_again(context).inspect_err(|_| self.note_left(at))? {
                lost.push(at);
            }
        }
        Ok(lost)
    }

    /// Looks and pops until the best guess cannot become a better one, or nothing more may be
    /// popped.
    fn look(&mut self) -> CudaResult<Guess> {
        let mut failed = false;
        let least = usize::from(!self.known.unsure);
        let doubt = if mem::replace(&mut self.known.again, true) { self.known.missing.max(least) } else { 0 };
        loop {
            let now = self.driver.ctx_get_current().inspect_err(|_| {
                if failed {
                    self.forget();
                }
            })?;
            // A pop that failed has taken effect if what is current is another one. With an equal
            // entry below this is wrong, and does no harm: what is pushed again is what the shadow
            // stack has.
            if !failed || self.seen.last() != Some(&now) {
                self.seen.push(now);
            }
            let (guess, may_improve) = best(&self.expected, self.known.unsure.into(), doubt, &self.seen);
            if !may_improve || !self.keep_to_pop(now) {
                return Ok(guess);
            }
            let popped = self.driver.ctx_pop_current();
            if let (Err(error), true) = (popped, failed) {
                self.forget();
                return Err(error);
            }
            failed = popped.is_err();
        }
    }

    /// What was seen may have been popped, or not.
    fn forget(&mut self) {
        let seen = mem::take(&mut self.seen);
        self.known.missing += seen.into_iter().filter(|raw| self.is_expected(*raw)).count();
    }

    /// Notes how many of the expected entries were left before a call that failed.
    fn note_left(&mut self, left: usize) {
        self.known.unsure = true;
        self.known.missing = self.expected.len() - left;
        self.seen.clear();
    }

    /// False if the context is destroyed, or may be.
    fn push_again(&self, context: Option<Handle>) -> CudaResult<bool> {
        let driver = self.driver;
        let push = |it| while_alive(driver, it, |live| driver.ctx_push_current(live));
        let pushed = context.and_then(|context| self.lives(context).find_map(push));
        pushed.transpose().map(|pushed| pushed.is_some())
    }

    /// Keeps what is current from being destroyed, so that it can be popped to see what lies below.
    /// Returns whether it may be popped: it can be pushed again, or it is the first that is seen and
    /// not one of the expected ones.
    fn keep_to_pop(&mut self, now: CUcontext) -> bool {
        let is_strange = self.seen.len() == 1 && !self.is_expected(now);
        let kept = self.find(now).and_then(|context| {
            let is_alive = |life: &Handle| while_alive(self.driver, *life, |_| ()).is_some();
            self.lives(context).filter(is_alive).find_map(|life| life.lease(LeaseOn::Retiring))
        });
        let may_pop = !now.is_null() && (is_strange || kept.is_some());
        self.kept.extend(kept);
        may_pop
    }

    fn is_expected(&self, raw: CUcontext) -> bool {
        self.expected.iter().any(|entry| ptr::eq(entry.context.raw(), raw))
    }

    fn find(&self, raw: CUcontext) -> Option<Handle> {
        let entry = self.expected.iter().rfind(|entry| ptr::eq(entry.context.raw(), raw));
        entry.map(|entry| entry.context).or_else(|| registry::find(raw))
    }

    /// The context, and the other lives of a primary one, which keeps its handle: each of them may
    /// be the one that the driver still has it for.
    fn lives(&self, context: Handle) -> impl Iterator<Item = Handle> {
        let entries = self.expected.iter().rev().map(|entry| entry.context);
        let others = entries.chain(registry::find(context.raw()));
        let is_life = move |it: &Handle| it.origin() == Origin::Primary && ptr::eq(it.raw(), context.raw());
        iter::once(context).chain(others.filter(is_life))
    }
}

/// Calls `f` while nobody destroys the context; `None` if it is destroyed. Of a context that other
/// code made, custack does not know that, and the driver cannot be asked by its handle. It answers
/// for a primary one by the device.
fn while_alive<R>(driver: &Driver, context: Handle, f: impl FnOnce(Live<'_>) -> R) -> Option<R> {
    let lease = context.lease(LeaseOn::Retiring)?;
    if context.origin() != Origin::Foreign {
        return Some(f(lease.live()));
    }
    let device = context.device()?;
    driver.primary_ctx_get_state(device).ok().filter(|(_, is_active)| *is_active)?;
    let (_, raw) = driver.primary_ctx_retain(device);
    let result = ptr::eq(raw, context.raw()).then(|| f(lease.live()));
    if !raw.is_null() {
        if let Err(error) = driver.primary_ctx_release(device) {
            report::warn(format_args!("a share of {context} could not be released: {error:?}"));
        }
    }
    result
}
