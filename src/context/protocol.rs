//! The protocol by which entering a context and destroying it exclude each other, apart from what it protects.
//!
//! This file is compiled twice: here over the standard atomics, and in the tests over those of a model checker, which
//! tries every order of the steps below. So it takes them from `super::sync`.
//!
//! One who enters writes what it is about to use into its own slot, and then looks whether it lives. One who destroys
//! takes the life, and then looks into every slot. Each has a barrier between its two steps, so at least one sees the
//! other; [`barrier`](super::barrier) says what kind, and who pays for it.

use super::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering, announce, everyone_sees, pause};

/// Whose life a handle stands for at present: the id of a context, or nobody's.
pub(super) struct Life(pub(super) AtomicU64);

/// No context has this id.
pub(super) const NOBODY: u64 = 0;

impl Life {
    #[inline]
    pub(super) fn is(&self, id: u64) -> bool {
        id != NOBODY && self.0.load(Ordering::Acquire) == id
    }

    pub(super) fn begin(&self, id: u64) {
        self.0.store(id, Ordering::SeqCst);
    }

    /// Ends the life, so that nobody can begin to enter; false if it was over, or another's.
    pub(super) fn take(&self, id: u64) -> bool {
        id != NOBODY && self.0.compare_exchange(id, NOBODY, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Gives a life back that was taken, unless another has begun.
    pub(super) fn give_back(&self, id: u64) {
        let _ = self.0.compare_exchange(NOBODY, id, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// A thread's announcement; two cache lines wide, because processors fetch lines in pairs.
#[repr(align(128))]
pub(super) struct Slot {
    /// What its thread is entering, or 0.
    pub(super) entering: AtomicUsize,
    /// Whether a thread has it.
    pub(super) taken: AtomicBool,
}

/// Takes the announcement back, also if what was done under it panics.
struct Announced<'a>(&'a Slot);

impl Drop for Announced<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.entering.store(0, Ordering::Release);
    }
}

impl Slot {
    /// Does `f` while nobody can destroy `what`; `None`, and nothing done, if that is over.
    #[inline]
    pub(super) fn enter<R>(&self, what: usize, life: &Life, id: u64, f: impl FnOnce() -> R) -> Option<R> {
        announce(&self.entering, what);
        let _announced = Announced(self);
        if id == NOBODY || life.0.load(Ordering::SeqCst) != id {
            return None;
        }
        Some(f())
    }

    /// Whether nothing is announced, so that the slot can be used.
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        self.entering.load(Ordering::Relaxed) == 0
    }

    pub(super) fn give_up(&self) {
        self.taken.store(false, Ordering::Release);
    }
}

/// All slots, and how many were ever used: nobody need look behind those.
pub(super) struct Slots<const N: usize> {
    pub(super) slots: [Slot; N],
    pub(super) used: AtomicUsize,
}

impl<const N: usize> Slots<N> {
    /// A slot for the calling thread alone, until it is given up; `None` if all are taken.
    pub(super) fn claim(&self) -> Option<&Slot> {
        let free = |slot: &Slot| {
            slot.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let at = self.slots.iter().position(free)?;
        self.used.fetch_max(at + 1, Ordering::SeqCst);
        Some(&self.slots[at])
    }

    /// After a life was taken: waits until those who entered before have done what they entered for.
    pub(super) fn wait_until_left(&self, what: usize) {
        everyone_sees();
        for slot in &self.slots[..self.used.load(Ordering::SeqCst)] {
            let mut looks = 0;
            while slot.entering.load(Ordering::SeqCst) == what {
                looks += 1;
                pause(looks);
            }
        }
    }
}
