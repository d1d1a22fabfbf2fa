//! The thread's own book of what it did to its context stack: a cache and a checker, never the truth.
//!
//! The driver shows only the top of its stack. Other code may move it without custack's knowing, so nothing here is
//! believed without the driver's word: a top that this book says is current is compared with `cuCtxGetCurrent`, an
//! entry that is taken off with the handle that `cuCtxPopCurrent` gives.
//!
//! No borrow of the book is held across a driver call or any code of the user's.

use super::unowned::UnownedContext;
use crate::driver::ffi::CUcontext;
use crate::report;
use std::cell::RefCell;
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
    doomed: bool,
    serial: u64,
}

/// A guard's way back to its entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    index: usize,
    serial: u64,
}

struct Model {
    entries: Vec<Entry>,
    next_serial: u64,
}

thread_local! {
    static MODEL: RefCell<Model> = const { RefCell::new(Model { entries: Vec::new(), next_serial: 0 }) };
}

/// `None` while the thread ends and the book is gone; everything then works without it, at the price of knowing
/// less about foreign changes.
#[inline]
fn with<R>(f: impl FnOnce(&mut Model) -> R) -> Option<R> {
    MODEL.try_with(|model| model.try_borrow_mut().ok().map(|mut model| f(&mut model))).ok().flatten()
}

impl Model {
    fn push(&mut self, context: UnownedContext, how: How, place: &'static Location<'static>) -> &mut Entry {
        let serial = self.next_serial;
        self.next_serial += 1;
        self.entries.push(Entry { context, how, place, guards: 0, doomed: false, serial });
        let top = self.entries.len() - 1;
        &mut self.entries[top]
    }

    fn find(&self, token: Token) -> Option<usize> {
        match self.entries.get(token.index) {
            Some(entry) if entry.serial == token.serial => Some(token.index),
            _ => self.entries.iter().position(|entry| entry.serial == token.serial),
        }
    }
}

/// Notes an entry that the driver's stack has got.
pub(super) fn push(context: &UnownedContext, how: How, place: &'static Location<'static>) {
    with(|model| model.push(context.clone(), how, place).guards);
}

/// Notes an entry that a guard made and stands on.
#[inline]
pub(super) fn push_entered(context: &UnownedContext, place: &'static Location<'static>) -> Option<Token> {
    with(|model| {
        let entry = model.push(context.clone(), How::Entered, place);
        entry.guards = 1;
        let serial = entry.serial;
        Token { index: model.entries.len() - 1, serial }
    })
}

/// Whether the book says that this context is current.
#[inline]
pub(super) fn says_current(context: &UnownedContext) -> bool {
    with(|model| model.entries.last().is_some_and(|top| top.context == *context)).unwrap_or(false)
}

/// Lets one more guard stand on the top entry, if that is the context's.
#[inline]
pub(super) fn stand_on_top(context: &UnownedContext) -> Option<Token> {
    with(|model| {
        let index = model.entries.len().checked_sub(1)?;
        let top = &mut model.entries[index];
        (top.context == *context).then(|| {
            top.guards += 1;
            Token { index, serial: top.serial }
        })
    })
    .flatten()
}

/// Ends a guard's standing. Everything that its scope put on the stack is doomed: its own entry if it made one, and
/// whatever lies above. True if something can be taken off.
#[inline]
pub(super) fn step_off(token: Token, made_entry: bool) -> bool {
    with(|model| {
        let Some(index) = model.find(token) else { return false };
        model.entries[index].guards = model.entries[index].guards.saturating_sub(1);
        for entry in &mut model.entries[index + usize::from(!made_entry)..] {
            entry.doomed = true;
        }
        model.entries.last().is_some_and(|top| top.doomed && top.guards == 0)
    })
    .unwrap_or(false)
}

/// Takes the top entry out of the book if its time has come; with it what then lies on top, as far as is known.
pub(super) fn take_doomed() -> Option<(Entry, Option<UnownedContext>)> {
    with(|model| {
        model.entries.last().filter(|top| top.doomed && top.guards == 0)?;
        let entry = model.entries.pop()?;
        Some((entry, model.entries.last().map(|below| below.context.clone())))
    })
    .flatten()
}

/// Puts back what could not be taken off the driver's stack; it goes when the next guard ends.
pub(super) fn put_back(entry: Entry) {
    with(|model| model.entries.push(entry));
}

pub(super) fn top() -> Option<Entry> {
    with(|model| model.entries.last().cloned()).flatten()
}

/// The entry under the top.
pub(super) fn below_top() -> Option<UnownedContext> {
    with(|model| model.entries.iter().nth_back(1).map(|entry| entry.context.clone())).flatten()
}

pub(super) fn pop() {
    with(|model| model.entries.pop());
}

/// Forgets the entries on top that are of this handle: they are off the driver's stack.
pub(super) fn forget_tops(raw: CUcontext) {
    with(|model| {
        while model.entries.last().is_some_and(|top| ptr::eq(top.context.as_raw(), raw)) {
            model.entries.pop();
        }
    });
}

/// What `set_current` does: replaces the top, or makes the first entry.
pub(super) fn set_top(context: &UnownedContext, place: &'static Location<'static>) {
    with(|model| {
        model.entries.pop();
        model.push(context.clone(), How::Set, place);
    });
}

pub(super) fn depth() -> usize {
    with(|model| model.entries.len()).unwrap_or(0)
}

pub(super) fn entries() -> Vec<Entry> {
    with(|model| model.entries.clone()).unwrap_or_default()
}

impl Drop for Model {
    /// The thread ends: what it leaves on its stack is worth a report. The usual worker of a RustaCUDA program sets a
    /// context and ends, which is well; what was pushed or entered should have been taken off.
    fn drop(&mut self) {
        if self.entries.is_empty() {
            return;
        }
        let lines = Lines(&self.entries);
        let text = format_args!("a thread ended with contexts on its stack, top first:\n{lines}");
        if self.entries.iter().all(|entry| entry.how == How::Set) {
            report::debug(text);
        } else {
            report::warn(text);
        }
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
