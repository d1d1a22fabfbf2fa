//! The phase of a context: one atomic word for each record, and the count of its pins.
//!
//! A context goes through five phases, in one direction. It is *alive* until its owner ends its life; then it is
//! *retiring*: every handle is dead, but the driver still has it, because leases or pins are out. One thread is *claiming*
//! it, for the short time in which it looks for leases; if one turns up, it is retiring again, and otherwise *being
//! destroyed*; finally it is *dead*. Id and phase share one atomic word, so a handle, which knows its id, is checked with one
//! load and one comparison.
//!
//! This file is compiled twice: here with the standard atomics, and in the tests with those of a model checker, which
//! runs the steps in every order. So it imports them from `super::sync`.

use super::sync::{AtomicU64, AtomicUsize, Ordering, pause};

/// No context has this id.
pub(super) const NO_ID: u64 = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Dead = 0,
    Alive = 1,
    Retiring = 2,
    Claiming = 3,
    Destroying = 4,
}

/// The bits of the phase.
const BITS: u32 = 3;

const fn word(id: u64, phase: Phase) -> u64 {
    id << BITS | phase as u64
}

/// Two cache lines, because processors fetch lines in pairs: users read the word and must not wait for threads that
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

    /// The phase of the context with this id; dead if the record serves another context by now.
    #[inline]
    pub(super) fn phase(&self, id: u64) -> Phase {
        let now = self.word.0.load(Ordering::SeqCst);
        // Nearly always it is alive.
        match now ^ (id << BITS) {
            1 => Phase::Alive,
            2 => Phase::Retiring,
            3 => Phase::Claiming,
            4 => Phase::Destroying,
            _ => Phase::Dead,
        }
    }

    /// Whether the context with this id is dead.
    #[inline]
    pub(super) fn is_dead(&self, id: u64) -> bool {
        let phase = self.word.0.load(Ordering::SeqCst) ^ (id << BITS);
        phase == Phase::Dead as u64 || phase > Phase::Destroying as u64
    }

    /// Like [`phase`](Self::phase), but never claiming: waits until the thread that claims the context has found out whether it
    /// can destroy it. That thread finds a lease that the caller has published before.
    #[inline]
    pub(super) fn settled_phase(&self, id: u64) -> Phase {
        let mut looks = 0;
        loop {
            match self.phase(id) {
                Phase::Claiming => {
                    looks += 1;
                    pause(looks);
                }
                phase => return phase,
            }
        }
    }

    /// The id of the context that is retiring in this record, if any.
    #[inline]
    pub(super) fn retiring(&self) -> Option<u64> {
        let now = self.word.0.load(Ordering::SeqCst);
        (now & ((1 << BITS) - 1) == Phase::Retiring as u64).then_some(now >> BITS)
    }

    /// The id of the context that the record serves now.
    pub(super) fn id(&self) -> u64 {
        self.word.0.load(Ordering::SeqCst) >> BITS
    }

    pub(super) fn begin(&self, id: u64) {
        self.word.0.store(word(id, Phase::Alive), Ordering::SeqCst);
    }

    /// Advances to the next phase; returns false, and changes nothing, if the context is not in phase `from`.
    pub(super) fn step(&self, id: u64, from: Phase, to: Phase) -> bool {
        id != NO_ID
            && self
                .word
                .0
                .compare_exchange(word(id, from), word(id, to), Ordering::SeqCst, Ordering::SeqCst)
                .is_ok()
    }

    /// Adds a pin. The caller holds a lease on the living context, so no thread can have destroyed it.
    #[inline]
    pub(super) fn pin(&self) {
        self.pins.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Removes a pin; returns true if it was the last.
    #[inline]
    pub(super) fn unpin(&self) -> bool {
        self.pins.0.fetch_sub(1, Ordering::SeqCst) == 1
    }

    pub(super) fn is_pinned(&self) -> bool {
        self.pins.0.load(Ordering::SeqCst) > 0
    }

    /// Claims the retiring context for the one thread that destroys it; false if leases or pins are out. Whoever gives
    /// back the last of them tries again, and one of the two succeeds: either this call sees that the lease or pin is
    /// gone, or that thread sees that the context is retiring. `heavy` is the destroyer's side of the fence; `drain`
    /// waits for the hazards on this record; `leased` says whether any thread has a lease on it.
    pub(super) fn claim(
        &self,
        id: u64,
        heavy: impl Fn(),
        drain: impl Fn(),
        leased: impl Fn() -> bool,
    ) -> bool {
        loop {
            if self.is_pinned() || !self.step(id, Phase::Retiring, Phase::Claiming) {
                return false;
            }
            heavy();
            drain();
            if !leased() && !self.is_pinned() {
                return self.step(id, Phase::Claiming, Phase::Destroying);
            }
            self.step(id, Phase::Claiming, Phase::Retiring);
            heavy();
            if leased() || self.is_pinned() {
                return false;
            }
        }
    }
}

/// The number of the thread that has a green context on its stack; 0 if none has.
pub(super) struct Holder(AtomicU64);

impl Holder {
    pub(super) const fn of(thread: AtomicU64) -> Holder {
        Holder(thread)
    }

    /// The record serves a new context. A thread may still have the earlier one on its stack, destroyed.
    pub(super) fn begin(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Takes the context for this thread. True if no thread had it, false if this thread has it already, and an error if
    /// another has it.
    pub(super) fn take(&self, thread: u64) -> Result<bool, ()> {
        match self.0.compare_exchange(0, thread, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => Ok(true),
            Err(holder) if holder == thread => Ok(false),
            Err(_) => Err(()),
        }
    }

    /// This thread has it no longer. Does nothing where the record serves a later context, which another thread has: what
    /// this thread has of that one is above the earlier one on its stack, and was let go before.
    pub(super) fn let_go(&self, thread: u64) {
        let _ = self.0.compare_exchange(thread, 0, Ordering::Release, Ordering::Relaxed);
    }
}
