//! What was asked for when a call failed: a note of each thread for each error that it got.

use super::{CudaError, CudaResult};
use std::cell::{Cell, RefCell};
use std::{fmt, mem};

/// The last failure of this thread with this error.
pub(super) struct Note {
    error: CudaError,
    /// What was asked, and what was wrong with it: "to ...".
    pub(super) asked: String,
    /// The thread has had this error before, which the program may still have.
    pub(super) is_one_of_several: bool,
}

type Notes = RefCell<Vec<Note>>;

thread_local! {
    static NOTES: Notes = const { RefCell::new(Vec::new()) };
    /// Whether there is a note. It has no destructor, so reading it costs a load, which every destructor pays.
    static IS_NOTED: Cell<bool> = const { Cell::new(false) };
}

/// Calls `f` with this thread's notes; `None` on a thread that is ending, which has none any more.
fn with<R>(f: impl FnOnce(&mut Vec<Note>) -> R) -> Option<R> {
    NOTES.try_with(|notes| notes.try_borrow_mut().ok().map(|mut notes| f(&mut notes))).ok().flatten()
}

impl CudaError {
    /// Calls `f` with this thread's note of this error.
    pub(super) fn with_note<R>(self, f: impl FnOnce(&Note) -> R) -> Option<R> {
        with(|notes| notes.iter().find(|note| note.error == self).map(f)).flatten()
    }

    /// What this thread asked for when it last got this error.
    pub(crate) fn last_asked(self) -> Option<String> {
        self.with_note(|note| note.asked.clone())
    }

    /// Notes a failure: what was asked, which begins with "to". Returns the error.
    #[cold]
    pub(crate) fn note(self, asked: fmt::Arguments<'_>) -> CudaError {
        self.write(asked, true)
    }

    /// Like [`note`](Self::note), for a failure that is noted already, for example as the driver call.
    #[cold]
    pub(crate) fn note_instead(self, asked: fmt::Arguments<'_>) -> CudaError {
        self.write(asked, false)
    }

    fn write(self, asked: fmt::Arguments<'_>, is_new: bool) -> CudaError {
        let asked = asked.to_string();
        with(|notes| {
            IS_NOTED.set(true);
            match notes.iter_mut().find(|note| note.error == self) {
                Some(note) => {
                    note.asked = asked;
                    note.is_one_of_several |= is_new;
                }
                None => notes.push(Note { error: self, asked, is_one_of_several: false }),
            }
        });
        self
    }

    /// Like [`note_instead`](Self::note_instead); the reason that was noted so far stays. What could not be used, such as
    /// a context that is destroyed, is a reason too.
    #[cold]
    pub(crate) fn note_before(self, asked: fmt::Arguments<'_>) -> CudaError {
        let so_far = self.last_asked().unwrap_or_default();
        match (so_far.split_once(": "), so_far.strip_prefix("to use ")) {
            (Some((_asked, why)), _) => self.note_instead(format_args!("{asked}: {why}")),
            (None, Some(what)) => self.note_instead(format_args!("{asked}: it cannot use {what}")),
            (None, None) => self.note_instead(asked),
        }
    }
}

/// This thread's notes as they were, and are again when this value is dropped.
pub(crate) struct KeptNote(Vec<Note>);

/// For what fails and is not returned: in destructors, which report it, and where custack tries again.
#[inline]
pub(crate) fn keep_note() -> KeptNote {
    KeptNote(if IS_NOTED.get() { replace(Vec::new()) } else { Vec::new() })
}

impl Drop for KeptNote {
    #[inline]
    fn drop(&mut self) {
        if !self.0.is_empty() || IS_NOTED.get() {
            replace(mem::take(&mut self.0));
        }
    }
}

#[cold]
fn replace(notes: Vec<Note>) -> Vec<Note> {
    let exchange = |noted: &mut Vec<Note>| {
        IS_NOTED.set(!notes.is_empty());
        mem::replace(noted, notes)
    };
    with(exchange).unwrap_or_default()
}

/// Tries again what failed. Only what fails in the end is noted.
#[inline]
pub(crate) fn twice<T>(mut attempt: impl FnMut() -> CudaResult<T>) -> CudaResult<T> {
    let first = {
        let _note = keep_note();
        attempt()
    };
    first.or_else(|_| attempt())
}
