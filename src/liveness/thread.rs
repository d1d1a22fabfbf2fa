//! The calling thread's [`Participant`], which it keeps for its lifetime.

use super::participant::{Participant, Participants};
use crate::fence;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::AtomicPtr;

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

/// Whether the thread's thread-locals are being destroyed, or are about to be.
pub(crate) fn is_ending() -> bool {
    SENTINEL.try_with(|_| ()).is_err()
}

/// Calls `f` with a participant that no other thread uses.
#[inline]
pub(super) fn participate<R>(f: impl FnOnce(&'static Participant) -> R) -> R {
    match MINE.get() {
        Some(participant) => f(participant),
        None => participate_anew(f),
    }
}

#[cold]
fn participate_anew<R>(f: impl FnOnce(&'static Participant) -> R) -> R {
    if is_ending() {
        return participate_once(f);
    }
    fence::register();
    let participant = PARTICIPANTS.join();
    MINE.set(Some(participant));
    f(participant)
}

/// Uses a temporary participant: the thread is ending, or all cells of its own are in use.
#[cold]
pub(super) fn participate_once<R>(f: impl FnOnce(&'static Participant) -> R) -> R {
    struct GiveUp(&'static Participant);
    impl Drop for GiveUp {
        fn drop(&mut self) {
            self.0.give_up();
        }
    }
    let once = GiveUp(PARTICIPANTS.join());
    f(once.0)
}
