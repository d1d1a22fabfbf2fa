//! The calling thread's [`Participant`], which it keeps for its lifetime, and its number.

use super::participant::{Participant, Participants, Published, Publishes};
use crate::fence;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

pub(super) static PARTICIPANTS: Participants = Participants::of(AtomicPtr::new(ptr::null_mut()));

// The cell has no destructor, so reading it is free; the sentinel beside it gives the participant up when the thread
// ends.
thread_local! {
    static MINE: Cell<Option<&'static Participant>> = const { Cell::new(None) };
    static SENTINEL: Sentinel = const { Sentinel };
}

struct Sentinel;

impl Drop for Sentinel {
    fn drop(&mut self) {
        if let Some(participant) = MINE.take() {
            participant.give_up();
        }
    }
}

thread_local! {
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

/// The number of the calling thread, from 1; no other thread of this process has had it. It works to the end of the thread.
pub(crate) fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    if NUMBER.get() == 0 {
        NUMBER.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    NUMBER.get()
}

/// Whether the thread's thread-locals are being destroyed, or are about to be.
pub(crate) fn is_ending() -> bool {
    SENTINEL.try_with(|_| ()).is_err()
}

/// The participant that this thread has kept.
pub(super) fn own() -> Option<&'static Participant> {
    MINE.get()
}

/// What this thread publishes in one of its cells, until it is dropped.
pub(super) struct Publication<C: Publishes + 'static> {
    // Dropped in this order: a participant is given up when nothing is published in it.
    _published: Published<'static, C>,
    _temporary: Option<Temporary>,
}

/// Publishes `what` in a cell that `free_cell` finds.
#[inline]
pub(super) fn publish<C: Publishes>(
    free_cell: fn(&'static Participant) -> Option<&'static C>,
    what: C::What,
) -> Option<Publication<C>> {
    match MINE.get().and_then(free_cell) {
        Some(cell) => Some(Publication { _published: Published::new(cell, what), _temporary: None }),
        None => publish_elsewhere(free_cell, what),
    }
}

/// Publishes in a participant that this thread has only now joined, because it had none, or because all cells of its
/// own are in use.
#[cold]
fn publish_elsewhere<C: Publishes>(
    free_cell: fn(&'static Participant) -> Option<&'static C>,
    what: C::What,
) -> Option<Publication<C>> {
    if MINE.get().is_none() && !is_ending() {
        fence::register();
        MINE.set(Some(PARTICIPANTS.join()));
        return publish(free_cell, what);
    }
    let temporary = Temporary(PARTICIPANTS.join());
    let published = Published::new(free_cell(temporary.0)?, what);
    Some(Publication { _published: published, _temporary: Some(temporary) })
}

/// A participant for one publication.
struct Temporary(&'static Participant);

impl Drop for Temporary {
    fn drop(&mut self) {
        self.0.give_up();
    }
}
