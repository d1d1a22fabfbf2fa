//! The thread's own book of what it did to its context stack: a cache and a checker, never the truth.
//!
//! The driver shows only the top of its stack. Other code may move it without custack's knowing, so nothing here is
//! believed without the driver's word: a top that this book says is current is compared with `cuCtxGetCurrent`, an
//! entry that is taken off with the handle that `cuCtxPopCurrent` gives.
//!
//! No borrow of the book is held across a driver call or any code of the user's. When the thread ends the book is
//! closed; everything then works without it, at the price of knowing less about foreign changes.

use super::book;
use super::unowned::UnownedContext;
use crate::driver::ffi::CUcontext;
use crate::report;
use std::fmt;
use std::panic::Location;
use std::ptr;

/// How an entry came onto the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum How {
    /// By creating the context.
    Created,
    /// By [`ContextStack::push`](super::ContextStack::push).
    Pushed,
    /// By [`CurrentContext::set_current`](super::CurrentContext::set_current).
    Set,
    /// By [`enter`](super::UnownedContext::enter) or [`scoped`](super::UnownedContext::scoped).
    Entered,
}

/// One entry of the stack, as this thread made it.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) context: UnownedContext,
    pub(super) how: How,
    pub(super) place: &'static Location<'static>,
    /// How many living guards stand on it. It may not be taken off before they are gone.
    pub(super) guards: u32,
    /// The scope that it belongs to has ended: it goes when nothing stands on it or above it.
    pub(super) doomed: bool,
    /// The entry's number in the book: from 1, and growing upwards. A guard finds its entry by it.
    pub(super) serial: u64,
}

/// The index of the entry with this number; the numbers grow upwards.
fn find(serial: u64) -> Option<usize> {
    let (mut low, mut high) = (0, book::depth());
    while low < high {
        let middle = low + (high - low) / 2;
        if book::get(middle)?.serial < serial { low = middle + 1 } else { high = middle }
    }
    book::get(low).filter(|entry| entry.serial == serial).map(|_| low)
}

/// Ends a guard's standing. Everything that its scope put on the stack is doomed: its own entry if it made one, and
/// whatever lies above. True if something can be taken off.
pub(super) fn step_off(serial: u64, made_entry: bool) -> bool {
    let Some(index) = find(serial) else { return false };
    book::change(index, |entry| entry.guards = entry.guards.saturating_sub(1));
    for above in index + usize::from(!made_entry)..book::depth() {
        book::change(above, |entry| entry.doomed = true);
    }
    book::is_over()
}

/// Takes the top entry out of the book if its time has come; with it what then lies on top, as far as is known.
pub(super) fn take_doomed() -> Option<(Entry, Option<UnownedContext>)> {
    let entry = top().filter(|top| top.doomed && top.guards == 0)?;
    book::pop();
    Some((entry, top().map(|below| below.context)))
}

pub(super) fn top() -> Option<Entry> {
    book::get(book::depth().checked_sub(1)?)
}

/// The entry under the top.
pub(super) fn below_top() -> Option<UnownedContext> {
    book::get(book::depth().checked_sub(2)?).map(|entry| entry.context)
}

/// Forgets the entries on top that are of this handle: they are off the driver's stack.
pub(super) fn forget_tops(raw: CUcontext) {
    while top().is_some_and(|top| ptr::eq(top.context.as_raw(), raw)) {
        book::pop();
    }
}

/// What `set_current` does: replaces the top, or makes the first entry.
pub(super) fn set_top(context: &UnownedContext, place: &'static Location<'static>) {
    book::pop();
    book::push(context, How::Set, place, 0);
}

pub(super) fn entries() -> Vec<Entry> {
    (0..book::depth()).filter_map(book::get).collect()
}

/// The thread ends: what it leaves on its stack is worth a report. The usual worker of a RustaCUDA program sets a
/// context and ends, which is well; what was pushed or entered should have been taken off.
pub(super) fn thread_ends(entries: &[Entry]) {
    if entries.is_empty() {
        return;
    }
    let lines = Lines(entries);
    let text = format_args!("a thread ended with contexts on its stack, top first:\n{lines}");
    if entries.iter().all(|entry| entry.how == How::Set) {
        report::debug(text);
    } else {
        report::warn(text);
    }
}

/// A stack, one entry a line, the top first.
pub(super) struct Lines<'a>(pub(super) &'a [Entry]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, entry) in self.0.iter().enumerate().rev() {
            let how = match entry.how {
                How::Created => "created",
                How::Pushed => "pushed",
                How::Set => "set",
                How::Entered => "entered",
            };
            write!(f, "  {depth}: {}, {how} at {}", entry.context, entry.place)?;
            if entry.guards > 0 {
                write!(f, ", held by {}", if entry.guards == 1 { "a guard" } else { "guards" })?;
            }
            if depth > 0 {
                writeln!(f)?;
            }
        }
        Ok(())
    }
}
