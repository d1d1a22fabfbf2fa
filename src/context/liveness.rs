//! Who may give a context handle to the driver while another thread destroys the context.
//!
//! The driver dereferences the handles it gets, so a destroyed one must never reach it, and no check can be made by
//! asking it. Each handle that the driver ever gave out has one [`Record`], which is never freed: a generation that
//! is alive (its id), or none. A handle of custack is a record and an id; it is good while the record says so.
//!
//! Between the check and the call no other thread may destroy the context. A lock or a counter would be written by
//! every thread that enters, and cost hundreds of nanoseconds on 16 of them. So each thread announces what it is
//! about to use in a slot of its own, on a cache line of its own; [`protocol`](super::protocol) says how that excludes
//! a destroyer.
//!
//! The announcement covers the call, not the scope: once a handle is on a stack, the driver itself keeps the memory
//! behind it, and answers 709.

// The one place that vouches for a handle; see the two `SAFETY` lines.
#![allow(unsafe_code)]

use super::barrier;
use super::protocol::{Life, Slot, Slots};
use crate::driver::Live;
use crate::driver::ffi::CUcontext;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Mutex, PoisonError};

/// What is known of one handle value of the driver. On lines of its own: who enters reads it, and must not wait for
/// those who write what happens to lie beside it.
#[repr(align(128))]
pub(super) struct Record {
    raw: usize,
    life: Life,
}

impl Record {
    pub(super) const fn new(raw: usize) -> Record {
        Record { raw, life: Life(AtomicU64::new(super::protocol::NOBODY)) }
    }

    #[inline]
    pub(super) fn raw(&self) -> CUcontext {
        self.raw as CUcontext
    }

    #[inline]
    pub(super) fn is_alive(&self, id: u64) -> bool {
        self.life.is(id)
    }

    /// From now on the handle stands for the context with this id, and for no earlier one.
    pub(super) fn bring_to_life(&self, id: u64) {
        self.life.begin(id);
    }

    /// Calls `f` with the handle while nobody can destroy the context; `None`, without a call, if it is destroyed.
    #[inline]
    pub(super) fn protect<R>(&'static self, id: u64, f: impl FnOnce(Live<'_>) -> R) -> Option<R> {
        // SAFETY: within `enter` the context lives, and a destroyer that comes now waits until `f` has returned.
        with_slot(|slot| slot.enter(self.address(), &self.life, id, || f(unsafe { Live::new(self.raw()) })))
    }

    /// Takes the life of the context, so that nobody can begin to enter it; `None` if it has none any more.
    pub(super) fn take_life(&'static self, id: u64) -> Option<Killed> {
        self.life.take(id).then_some(Killed { record: self, id })
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

/// A context that nobody can begin to enter, and that the driver has not destroyed yet: the one who holds this may.
pub(super) struct Killed {
    record: &'static Record,
    id: u64,
}

impl Killed {
    /// Waits until the threads that are entering the context have done so: for driver calls that are under way, a
    /// push or a set of some ten nanoseconds.
    pub(super) fn wait(self) -> Killed {
        SLOTS.wait_until_left(self.record.address());
        self
    }

    /// The handle, for the calls that destroy the context.
    pub(super) fn live(&self) -> Live<'_> {
        // SAFETY: only the one holder of `Killed` can destroy the context now, and it ends its life in custack's
        // books by dropping this value; until `ctx_destroy` has succeeded the handle is good.
        unsafe { Live::new(self.record.raw()) }
    }

    /// Gives the life back: the driver did not destroy the context. Does nothing if the handle stands for a later
    /// context by now.
    pub(super) fn revive(self) {
        self.record.life.give_back(self.id);
    }
}

/// So many threads enter contexts without waiting for each other; beyond them, one at a time.
const MOST_THREADS: usize = 1024;

static SLOTS: Slots<MOST_THREADS> = Slots {
    slots: [const { Slot { entering: AtomicUsize::new(0), taken: AtomicBool::new(false) } }; MOST_THREADS],
    used: AtomicUsize::new(0),
};

// The slot that a thread keeps while it lives. The cell has no destructor, so reading it costs nothing; the sentinel
// beside it gives the slot up when the thread ends.
thread_local! {
    static MINE: Cell<Option<&'static Slot>> = const { Cell::new(None) };
    static SENTINEL: Sentinel = const { Sentinel };
}

struct Sentinel;

impl Drop for Sentinel {
    fn drop(&mut self) {
        if let Some(slot) = MINE.take() {
            slot.give_up();
        }
    }
}

#[inline]
fn with_slot<R>(f: impl FnOnce(&'static Slot) -> R) -> R {
    match MINE.get() {
        Some(slot) if slot.is_free() => f(slot),
        _ => with_another_slot(f),
    }
}

#[cold]
fn with_another_slot<R>(f: impl FnOnce(&'static Slot) -> R) -> R {
    if MINE.get().is_none() && SENTINEL.try_with(|_| ()).is_ok() {
        barrier::settle();
        // The last one is for those who find none; see below.
        MINE.set(SLOTS.claim().filter(|slot| !std::ptr::eq(*slot, &SLOTS.slots[MOST_THREADS - 1])));
    }
    match MINE.get() {
        Some(slot) if slot.is_free() => f(slot),
        // The thread is ending, and its slot belongs to others; or there are too many threads.
        _ => with_a_slot_for_once(f),
    }
}

#[cold]
fn with_a_slot_for_once<R>(f: impl FnOnce(&'static Slot) -> R) -> R {
    static LAST: Mutex<()> = Mutex::new(());
    let last = &SLOTS.slots[MOST_THREADS - 1];
    if let Some(slot) = SLOTS.claim().filter(|slot| !std::ptr::eq(*slot, last)) {
        let result = f(slot);
        slot.give_up();
        return result;
    }
    let _one_at_a_time = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    f(last)
}
