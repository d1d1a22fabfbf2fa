//! Whether a context lives: a word for each record, and the count of its pins.
//!
//! A context goes through four phases, one way. It is *alive*; its owner lets go, and it is *retiring*: every handle is
//! dead, and the driver still has it, because leases or pins are out; one thread claims it, and it is *being
//! destroyed*, or retiring again if a lease turned up; then it is *dead*. Word and phase are one atomic number, so a
//! handle, which knows its id, is checked by one load and one comparison.
//!
//! This file is compiled twice: here over the standard atomics, and in the tests over those of a model checker, which
//! tries every order of the steps. So it takes them from `super::sync`.

use super::sync::{AtomicU64, AtomicUsize, Ordering};

/// No context has this id.
pub(super) const NOBODY: u64 = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Dead = 0,
    Alive = 1,
    Retiring = 2,
    Destroying = 3,
}

const fn word(id: u64, phase: Phase) -> u64 {
    id << 2 | phase as u64
}

/// Two cache lines, because processors fetch lines in pairs: users read the word, and must not wait for those who
/// count pins.
#[repr(align(128))]
pub(super) struct OwnLine<T>(pub(super) T);

pub(super) struct Life {
    word: OwnLine<AtomicU64>,
    pins: OwnLine<AtomicUsize>,
}

impl Life {
    pub(super) const fn of(word: AtomicU64, pins: AtomicUsize) -> Life {
        Life { word: OwnLine(word), pins: OwnLine(pins) }
    }

    #[inline]
    pub(super) fn is_alive(&self, id: u64) -> bool {
        self.word.0.load(Ordering::SeqCst) == word(id, Phase::Alive)
    }

    /// The phase of the context with this id; one whose record serves another by now is dead.
    #[inline]
    pub(super) fn phase(&self, id: u64) -> Phase {
        let now = self.word.0.load(Ordering::SeqCst);
        [Phase::Alive, Phase::Retiring, Phase::Destroying]
            .into_iter()
            .find(|phase| now == word(id, *phase))
            .unwrap_or(Phase::Dead)
    }

    /// The context that is retiring here, whichever it is.
    #[inline]
    pub(super) fn retiring(&self) -> Option<u64> {
        let now = self.word.0.load(Ordering::SeqCst);
        (now & 3 == Phase::Retiring as u64).then_some(now >> 2)
    }

    /// The id of the context that the record serves now.
    pub(super) fn id(&self) -> u64 {
        self.word.0.load(Ordering::SeqCst) >> 2
    }

    pub(super) fn begin(&self, id: u64) {
        self.word.0.store(word(id, Phase::Alive), Ordering::SeqCst);
    }

    /// Goes on to the next phase; false, and nothing done, if this is not where the context is.
    pub(super) fn step(&self, id: u64, from: Phase, to: Phase) -> bool {
        id != NOBODY
            && self
                .word
                .0
                .compare_exchange(word(id, from), word(id, to), Ordering::SeqCst, Ordering::SeqCst)
                .is_ok()
    }

    /// One pin more. The caller holds a lease on the living context, so nobody can have destroyed it.
    pub(super) fn pin(&self) {
        self.pins.0.fetch_add(1, Ordering::SeqCst);
    }

    /// One pin less; true if it was the last.
    pub(super) fn unpin(&self) -> bool {
        self.pins.0.fetch_sub(1, Ordering::SeqCst) == 1
    }

    pub(super) fn is_pinned(&self) -> bool {
        self.pins.0.load(Ordering::SeqCst) > 0
    }

    /// Claims the retiring context, for the one thread that destroys it; `None` if leases or pins are out. Whoever
    /// gives back the last of them tries again, so one of the two succeeds: either this sees the lease or the pin gone,
    /// or that thread sees the context retiring. `heavy` is the destroyer's side of the fence; `drain` waits for the
    /// hazards on this record; `leased` tells whether anybody has a lease on it.
    pub(super) fn claim(
        &self,
        id: u64,
        heavy: impl Fn(),
        drain: impl Fn(),
        leased: impl Fn() -> bool,
    ) -> bool {
        loop {
            if self.is_pinned() || !self.step(id, Phase::Retiring, Phase::Destroying) {
                return false;
            }
            heavy();
            drain();
            if !leased() && !self.is_pinned() {
                return true;
            }
            self.step(id, Phase::Destroying, Phase::Retiring);
            heavy();
            if leased() || self.is_pinned() {
                return false;
            }
        }
    }
}
