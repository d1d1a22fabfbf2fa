//! The calling thread's [`Participant`], which it keeps while it lives.

use super::participant::{Participant, Participants};
use crate::fence;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::AtomicPtr;

pub(super) static PARTICIPANTS: Participants = Participants::of(AtomicPtr::new(ptr::null_mut()));

// The cell has no destructor, so reading it costs nothing; the sentinel beside it gives the participant up when the
// thread ends.
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

/// Whether the thread's own things are being destroyed already, or as good as.
pub(crate) fn is_ending() -> bool {
    SENTINEL.try_with(|_| ()).is_err()
}

/// Calls `f` with a participant that nobody else uses.
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

/// With a participant for this once: the thread is ending, or uses more at once than one has cells for.
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
