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

mod cells;
mod entry;
mod inline;

pub use entry::How;
pub(crate) use entry::{Entry, Lines};
pub(crate) use inline::{
    depth, guard_near_top, hold_top, is_top, pop, pop_scope_entry, probe_soon, push, put_back, release_top,
    should_probe, take, top_context, top_has, top_has_one_guard, top_is_unheld,
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
/// entries above. An entry that it only held has ended if its context was destroyed meanwhile.
/// Otherwise the driver is asked, when the entry comes to the top, whether it is current.
pub(crate) fn release_guard(serial: u64, made_entry: bool) {
    let Some(index) = find(serial) else { return };
    inline::change(index, |entry| {
        entry.guards = entry.guards.saturating_sub(1);
        if !entry.has_ended() && (made_entry || entry.is_tombstone()) {
            entry.ended_from = serial;
        }
        entry.look = entry.guards == 0;
    });
    end_from(index + 1);
}

/// Ends all entries from this index on. Those that are known to have ended are skipped, so that guards which are dropped in
/// the order in which they were made do not look at each other's entries again and again.
fn end_from(first: usize) {
    let Some(lowest) = inline::get(first).map(|entry| entry.serial) else { return };
    let (top, mut above) = (depth() - 1, depth());
    while above > first {
        let mut from = 0;
        inline::change(above - 1, |entry| {
            if !entry.has_ended() {
                entry.ended_from = entry.serial;
            }
            from = entry.ended_from;
        });
        above = if from <= lowest { first } else { find(from).unwrap_or(first) };
    }
    inline::change(top, |entry| entry.ended_from = entry.ended_from.min(lowest));
}

/// Takes the top entry off in three cases: it has ended, it has to be looked at, or a scope above it
/// is over within which its context died. The caller has it [let go](Entry::let_go) once the driver
/// has popped it, and puts it back if it stays.
pub(crate) fn take_ended(scope_is_over: bool) -> Option<Entry> {
    let goes =
        |top: &Entry| top.guards == 0 && (top.has_ended() || top.look || scope_is_over && top.died_within());
    let entry = top().filter(goes)?;
    take();
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

/// Adds an entry that is to be popped as soon as nothing holds it.
pub(crate) fn push_ended(context: &Handle, location: &'static Location<'static>) {
    let serial = push(context, How::Pushed, location, 0);
    inline::change(depth() - 1, |entry| entry.ended_from = serial);
}

/// Removes found entries from the top, which are no longer on the driver's stack.
pub(crate) fn forget_found() {
    while top().is_some_and(|top| top.how == How::Found && top.guards == 0) {
        pop();
    }
}

/// The topmost entry that a guard holds, and its index.
pub(crate) fn topmost_held() -> Option<(usize, Entry)> {
    let held = |index| inline::get(index).filter(|entry| entry.guards > 0).map(|entry| (index, entry));
    (0..depth()).rev().find_map(held)
}

/// Whether an entry with this index or above it has this raw handle.
pub(crate) fn has_from(index: usize, raw: CUcontext) -> bool {
    (index..depth()).filter_map(inline::get).any(|entry| ptr::eq(entry.context.raw(), raw))
}

/// This thread has the green context of the top entry, which was just made, until that entry is removed; at the latest until
/// the thread ends.
pub(crate) fn top_takes() {
    if let Some(top) = depth().checked_sub(1) {
        inline::change(top, |entry| entry.takes = true);
    }
    inline::let_go_at_end();
}

/// Whether the top entry was made by custack.
pub(crate) fn top_is_own() -> bool {
    top().is_some_and(|top| top.how != How::Found)
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
