//! The shadow stack: custack's mirror of this thread's context stack.
//!
//! The driver keeps a stack of contexts for each thread and shows only its top. The mirror records the rest: for each
//! entry its context, how and where in the source it was pushed, and the guards that hold it. The mirror is a cache and
//! a checker, never the truth, because other code changes the driver's stack without custack's knowledge: what it says
//! is current is compared with `cuCtxGetCurrent`, and an entry that is popped with the handle that `cuCtxPopCurrent`
//! returns. Nothing here calls the driver; [`context`](crate::context) does, and keeps the mirror up to date.
//!
//! # The rule
//!
//! *After a scope, the thread's stack is what it was before it, minus what was destroyed meanwhile. While a guard
//! lives, no call of custack removes or replaces its entry.*
//!
//! So a guard holds its entry. If the context is destroyed, the entry stays as a *tombstone*, also on the driver's
//! stack, where every call returns the error that the context is destroyed. When the guard is dropped, whatever its
//! scope put on the stack has *ended*: its own entry, if it made one, and all entries above. An ended entry is popped
//! when it is on top and no guard holds it. So is a tombstone that thereby comes to the top, if its context was
//! destroyed within the scope. An entry that a scope found and no guard holds any more is compared
//! with what is current.
//!
//! The mirror has no destructor and works while the thread ends. No borrow of it is held across a driver call or the
//! user's code.

mod entry;
mod inline;

pub use entry::How;
pub(crate) use entry::{Entry, LOOK, Lines, NEVER};
pub(crate) use inline::{
    depth, guard_near_top, hold_top, is_top, pop, pop_scope_entry, probe_soon, push, put_back, release_top,
    should_probe, top_context, top_has, top_has_one_guard, top_is_unheld,
};

use crate::driver::ffi::CUcontext;
use crate::liveness::Handle;
use crate::report;
use std::panic::Location;
use std::ptr;

/// The index of the entry with this serial number. Serial numbers grow upwards.
fn find(serial: u64) -> Option<usize> {
    let (mut low, mut high) = (0, depth());
    while low < high {
        let middle = low + (high - low) / 2;
        if inline::get(middle)?.serial < serial { low = middle + 1 } else { high = middle }
    }
    inline::get(low).filter(|entry| entry.serial == serial).map(|_| low)
}

/// Removes a guard from its entry, and ends what its scope put on the stack: its own entry if it made one, and all
/// entries above. An entry that it only held has ended if its context was destroyed meanwhile;
/// otherwise the last guard leaves it to be [looked at](LOOK).
pub(crate) fn release_guard(serial: u64, made_entry: bool) {
    let Some(index) = find(serial) else { return };
    inline::change(index, |entry| {
        entry.guards = entry.guards.saturating_sub(1);
        entry.ended |= made_entry || entry.is_tombstone();
        if entry.guards == 0 && !entry.ended {
            (entry.ended, entry.since) = (true, LOOK);
        }
    });
    for above in index + 1..depth() {
        inline::change(above, |entry| {
            entry.ended = true;
            entry.since = if entry.since == LOOK { NEVER } else { entry.since };
        });
    }
}

/// Removes the top entry if it has ended, or if its context died after the first `since` deaths.
pub(crate) fn take_ended(since: u64) -> Option<Entry> {
    let goes =
        |top: &Entry| top.guards == 0 && (top.ended || top.is_tombstone() && top.context.died_after(since));
    let entry = top().filter(goes)?;
    pop();
    Some(entry)
}

pub(crate) fn top() -> Option<Entry> {
    inline::get(depth().checked_sub(1)?)
}

/// How many entries on top have this raw handle.
pub(crate) fn run(raw: CUcontext) -> usize {
    let same = |index: &usize| inline::get(*index).is_some_and(|entry| ptr::eq(entry.context.raw(), raw));
    (0..depth()).rev().take_while(same).count()
}

/// Replaces the top entry, or makes the first one, as `set_current` does.
pub(crate) fn set_top(context: Handle, location: &'static Location<'static>) {
    pop();
    push(&context, How::Set, location, 0);
}

/// Removes found entries from the top, which are no longer on the driver's stack.
pub(crate) fn forget_found() {
    while top().is_some_and(|top| top.how == How::Found && top.guards == 0) {
        pop();
    }
}

pub(crate) fn entries() -> Vec<Entry> {
    (0..depth()).filter_map(inline::get).collect()
}

/// Reports what a thread leaves on its stack when it ends. A typical worker of a RustaCUDA program sets a context and
/// ends, which is not worth a warning; pushed and entered contexts should have been popped.
fn thread_ends(entries: &[Entry]) {
    if entries.iter().all(|entry| entry.how == How::Found) {
        return;
    }
    let lines = Lines(entries);
    let is_fault = !entries.iter().all(|entry| matches!(entry.how, How::Set | How::Found));
    let report = if is_fault { report::warn } else { report::debug };
    report(format_args!("a thread ended with contexts on its stack, top first:\n{lines}"));
}
