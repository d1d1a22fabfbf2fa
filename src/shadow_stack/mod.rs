//! The shadow stack: this thread's mirror of its context stack.
//!
//! The driver keeps a stack of contexts for each thread and shows only its top. The mirror remembers the rest: for each
//! entry the context, how and where in the source it came there, and the guards that stand on it. It is a cache and a
//! checker, never the truth, because other code moves the driver's stack without custack's knowing: a top that the
//! mirror says is current is compared with `cuCtxGetCurrent`, an entry that is taken off with the handle that
//! `cuCtxPopCurrent` gives. Nothing here calls the driver; [`context`](crate::context) does, and keeps the mirror in
//! step.
//!
//! # The rule
//!
//! *After a scope, the thread's stack is what it was before it, less what was destroyed meanwhile. While a guard lives,
//! no call of custack's takes or replaces its entry.*
//!
//! So a guard marks its entry as held. If the context is destroyed the entry stays, as a *tombstone*, on the driver's
//! stack too, where every call answers that the context is destroyed. When the guard goes, whatever its scope put on
//! the stack has *ended*: its own entry, if it made one, and all above. What has ended is taken off when it is on top and
//! no guard stands on it; and so is a tombstone that comes to the top by that, if it became one within the scope. What
//! other code put there and custack only found, other code takes off.
//!
//! The mirror has no destructor and works while the thread ends. No borrow of it is held across a driver call or any
//! code of the user's.

mod entry;
mod inline;

pub use entry::How;
pub(crate) use entry::{Entry, Lines, NEVER};
pub(crate) use inline::{
    depth, guard_below_top, is_time_to_look, is_top, look_soon, pop, pop_and_look, push, put_back,
    stand_on_top, step_off_top, top_context, top_has, top_has_one_guard, top_is_free,
};

use crate::driver::ffi::CUcontext;
use crate::liveness::Handle;
use crate::report;
use std::panic::Location;
use std::ptr;

/// The index of the entry with this serial number; the numbers grow upwards.
fn find(serial: u64) -> Option<usize> {
    let (mut low, mut high) = (0, depth());
    while low < high {
        let middle = low + (high - low) / 2;
        if inline::get(middle)?.serial < serial { low = middle + 1 } else { high = middle }
    }
    inline::get(low).filter(|entry| entry.serial == serial).map(|_| low)
}

/// Lets a guard step off its entry, and ends what its scope put on the stack: its own entry if it made one, and all
/// above. An entry that it found there has ended if its context was destroyed meanwhile.
pub(crate) fn step_off(serial: u64, made_entry: bool) {
    let Some(index) = find(serial) else { return };
    let mut found = false;
    inline::change(index, |entry| {
        entry.guards = entry.guards.saturating_sub(1);
        entry.ended |= made_entry || entry.is_tombstone();
        if entry.guards == 0 && !entry.ended {
            entry.since = NEVER;
        }
        found = !made_entry && entry.how == How::Found;
    });
    for above in index + 1..depth() {
        // What was found on what was found, other code put in its place.
        found &= inline::get(above).is_some_and(|entry| entry.how == How::Found);
        inline::change(above, |entry| entry.ended |= !found);
    }
}

/// Takes the top entry out if it has ended, or its context was destroyed later than `since`.
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

/// How many entries on top have this handle of the driver's.
pub(crate) fn run(raw: CUcontext) -> usize {
    let same = |index: &usize| inline::get(*index).is_some_and(|entry| ptr::eq(entry.context.raw(), raw));
    (0..depth()).rev().take_while(same).count()
}

/// What `set_current` does: replaces the top, or makes the first entry.
pub(crate) fn set_top(context: Handle, location: &'static Location<'static>) {
    pop();
    push(&context, How::Set, location, 0);
}

/// Forgets entries of other code's on top, which are not there any more.
pub(crate) fn forget_found() {
    while top().is_some_and(|top| top.how == How::Found && top.guards == 0) {
        pop();
    }
}

pub(crate) fn entries() -> Vec<Entry> {
    (0..depth()).filter_map(inline::get).collect()
}

/// The thread ends: what it leaves on its stack is worth a report. The usual worker of a RustaCUDA program sets a
/// context and ends, which is no fault; what was pushed or entered should have been taken off.
fn thread_ends(entries: &[Entry]) {
    if entries.iter().all(|entry| entry.how == How::Found) {
        return;
    }
    let lines = Lines(entries);
    let is_fault = !entries.iter().all(|entry| matches!(entry.how, How::Set | How::Found));
    let report = if is_fault { report::warn } else { report::debug };
    report(format_args!("a thread ended with contexts on its stack, top first:\n{lines}"));
}
