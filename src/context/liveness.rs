//! Who may give a context handle to the driver while another thread destroys the context.
//!
//! The driver dereferences the handles it gets, so a destroyed one must never reach it, and no check can be made by
//! asking it. Each handle that the driver ever gave out has one [`Record`], which is never freed: a generation that
//! is alive (its id), or none. A handle of custack is a record and an id; it is good while the record says so.
//!
//! Between the check and the call no other thread may destroy the context. A lock or a counter would be written by
//! every thread that enters, and cost hundreds of nanoseconds on 16 of them. So each thread has a slot of its own,
//! on a cache line of its own, in which it announces the record that it is about to use; then it checks the record.
//! The destroyer takes the life first, and then waits until no slot announces the record. Whatever the order, one
//! of the two sees the other: that is what the sequentially consistent operations are for.
//!
//! The announcement covers the call, not the scope: once a handle is on a stack, the driver itself keeps the memory
//! behind it, and answers 709.

// The one place that vouches for a handle; see the two `SAFETY` lines.
#![allow(unsafe_code)]

use crate::driver::Live;
use crate::driver::ffi::CUcontext;
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

/// What is known of one handle value of the driver.
pub(super) struct Record {
    raw: usize,
    alive: AtomicU64,
}

/// No context has this id.
const NOBODY: u64 = 0;

impl Record {
    pub(super) const fn new(raw: usize) -> Record {
        Record { raw, alive: AtomicU64::new(NOBODY) }
    }

    pub(super) fn raw(&self) -> CUcontext {
        self.raw as CUcontext
    }

    #[inline]
    pub(super) fn is_alive(&self, id: u64) -> bool {
        id != NOBODY && self.alive.load(Ordering::Acquire) == id
    }

    /// From now on the handle stands for the context with this id, and for no earlier one.
    pub(super) fn bring_to_life(&self, id: u64) {
        self.alive.store(id, Ordering::SeqCst);
    }

    /// Calls `f` with the handle while nobody can destroy the context; `None`, without a call, if it is destroyed.
    #[inline]
    pub(super) fn protect<R>(&'static self, id: u64, f: impl FnOnce(Live<'_>) -> R) -> Option<R> {
        with_slot(|slot| {
            let _announced = slot.announce(self);
            if id == NOBODY || self.alive.load(Ordering::SeqCst) != id {
                return None;
            }
            // SAFETY: the context was alive after the announcement, so a destroyer that comes now waits for the
            // announcement to go (`Killed::wait`), and it stands until `f` has returned.
            Some(f(unsafe { Live::new(self.raw()) }))
        })
    }

    /// Takes the life of the context, so that nobody can begin to enter it; `None` if it has none any more.
    pub(super) fn take_life(&'static self, id: u64) -> Option<Killed> {
        let taken = self.alive.compare_exchange(id, NOBODY, Ordering::SeqCst, Ordering::SeqCst);
        (id != NOBODY && taken.is_ok()).then_some(Killed { record: self, id })
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
    /// Waits until the threads that are entering the context have done so.
    ///
    /// The wait is for driver calls that are under way on other threads, a push or a set of some ten nanoseconds.
    pub(super) fn wait(self) -> Killed {
        // Pairs with the fence in `claim`: a slot that this walk misses was made by a thread that finds no life.
        fence(Ordering::SeqCst);
        for slot in slots() {
            let mut spins = 0;
            while slot.entering.load(Ordering::SeqCst) == self.record.address() {
                spins += 1;
                if spins < 100 { std::hint::spin_loop() } else { std::thread::yield_now() }
            }
        }
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
        let _ = self.record.alive.compare_exchange(NOBODY, self.id, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// A thread's announcement; two lines wide, because processors fetch lines in pairs.
#[repr(align(128))]
struct Slot {
    entering: AtomicUsize,
    taken: AtomicBool,
    next: OnceLock<&'static Slot>,
}

/// Takes the announcement back, also if the closure under it panics.
struct Announced<'a>(&'a Slot);

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        self.0.entering.store(0, Ordering::Release);
    }
}

impl Slot {
    #[inline]
    fn announce(&self, record: &Record) -> Announced<'_> {
        self.entering.swap(record.address(), Ordering::SeqCst);
        Announced(self)
    }

    fn try_take(&self) -> bool {
        self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

/// The first of a list that only grows: slots are reused by later threads, never freed.
static FIRST: OnceLock<&'static Slot> = OnceLock::new();

fn slots() -> impl Iterator<Item = &'static Slot> {
    std::iter::successors(FIRST.get().copied(), |slot| slot.next.get().copied())
}

/// A slot for this thread alone, until `taken` is cleared.
fn claim() -> &'static Slot {
    if let Some(slot) = slots().find(|slot| slot.try_take()) {
        return slot;
    }
    let mine: &'static Slot = Box::leak(Box::new(Slot {
        entering: AtomicUsize::new(0),
        taken: AtomicBool::new(true),
        next: OnceLock::new(),
    }));
    let mut end = &FIRST;
    while end.set(mine).is_err() {
        if let Some(slot) = end.get() {
            end = &slot.next;
        }
    }
    fence(Ordering::SeqCst);
    mine
}

/// The slot that a thread keeps while it lives.
struct Mine(Cell<Option<&'static Slot>>);

impl Drop for Mine {
    fn drop(&mut self) {
        if let Some(slot) = self.0.get() {
            slot.taken.store(false, Ordering::Release);
        }
    }
}

thread_local! {
    static MINE: Mine = const { Mine(Cell::new(None)) };
}

#[inline]
fn with_slot<R>(f: impl FnOnce(&'static Slot) -> R) -> R {
    let mine = MINE.try_with(|mine| match mine.0.get() {
        Some(slot) => slot,
        None => {
            let slot = claim();
            mine.0.set(Some(slot));
            slot
        }
    });
    match mine {
        Ok(slot) if slot.entering.load(Ordering::Relaxed) == 0 => f(slot),
        // The thread is ending, and its slot belongs to others: take one for this call alone.
        _ => {
            let slot = claim();
            let result = f(slot);
            slot.taken.store(false, Ordering::Release);
            result
        }
    }
}
