//! The text of an error, and the note of what was asked that each thread keeps.

use super::CudaError;
use std::cell::{Cell, RefCell};
use std::{fmt, mem};

type Note = RefCell<Option<(CudaError, String)>>;

thread_local! {
    static NOTE: Note = const { RefCell::new(None) };
    /// Whether there is a note. It has no destructor, so reading it costs a load, which every destructor pays.
    static IS_NOTED: Cell<bool> = const { Cell::new(false) };
}

impl CudaError {
    /// What this thread asked for when it last got this error, and what was wrong with it: "to ...".
    ///
    /// The note belongs to the thread, not to the error. So print an error, or take its text, on the thread that got it
    /// and before the next call: an error that was kept while the same error came up again shows the later note, and on
    /// another thread it shows that thread's, or none. Destructors leave the note as it is. `None` when this thread's
    /// last failure was another error.
    ///
    /// ```
    /// # fn main() -> Result<(), custack::error::CudaError> {
    /// use custack::device::Device;
    ///
    /// custack::init(custack::CudaFlags::empty())?;
    /// let error = Device::get_device(99).unwrap_err();
    /// assert!(error.detail().unwrap().contains("device 99"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn detail(self) -> Option<String> {
        let read = |note: &Note| {
            let note = note.try_borrow().ok()?;
            note.as_ref().filter(|(error, _)| *error == self).map(|(_, text)| text.clone())
        };
        NOTE.try_with(read).ok().flatten()
    }

    /// Writes this thread's note, which begins with "to", and returns the error.
    #[cold]
    pub(crate) fn note(self, detail: fmt::Arguments<'_>) -> CudaError {
        let write = |note: &Note| {
            if let Ok(mut note) = note.try_borrow_mut() {
                *note = Some((self, detail.to_string()));
                IS_NOTED.set(true);
            }
        };
        // A thread that is ending has no note any more; the error itself is still correct.
        let _ = NOTE.try_with(write);
        self
    }

    /// As [`note`](Self::note), in place of what was noted so far, such as the driver call, whose reason stays. What
    /// could not be used, such as a context that is destroyed, is a reason too.
    #[cold]
    pub(crate) fn note_before(self, detail: fmt::Arguments<'_>) -> CudaError {
        let so_far = self.detail();
        let so_far = so_far.as_deref().unwrap_or_default();
        match (so_far.split_once(": "), so_far.strip_prefix("to use ")) {
            (Some((_asked, why)), _) => self.note(format_args!("{detail}: {why}")),
            (None, Some(what)) => self.note(format_args!("{detail}: it cannot use {what}")),
            (None, None) => self.note(detail),
        }
    }
}

/// This thread's note as it was, and is again when this value is dropped.
pub(crate) struct KeptNote(Option<(CudaError, String)>);

/// For destructors: what one cannot do it reports, and it is not what the program asked for last.
#[inline]
pub(crate) fn keep_note() -> KeptNote {
    KeptNote(if IS_NOTED.get() { replace(None) } else { None })
}

impl Drop for KeptNote {
    #[inline]
    fn drop(&mut self) {
        if self.0.is_some() || IS_NOTED.get() {
            replace(self.0.take());
        }
    }
}

#[cold]
fn replace(note: Option<(CudaError, String)>) -> Option<(CudaError, String)> {
    let exchange = |noted: &Note| {
        let mut noted = noted.try_borrow_mut().ok()?;
        IS_NOTED.set(note.is_some());
        mem::replace(&mut *noted, note)
    };
    NOTE.try_with(exchange).ok().flatten()
}

impl std::error::Error for CudaError {}

// From the table, never from the driver. Not by thiserror's derive, which writes an arm for each of a hundred variants,
// all with the same text: that was a twelfth of the whole crate's code before optimisation.
impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            CudaError::NoDriver(reason) => return write!(f, "{reason}"),
            CudaError::UnexpectedValue { function, value } => {
                return write!(f, "{function} returned {value}, which has no name in custack");
            }
            _ => {}
        }
        // "This thread" and not "the call": the error may be older than the note, and the sentence is true all the same.
        match self.detail() {
            Some(detail) => write!(f, "this thread failed {detail} ({})", Meaning(*self, true)),
            None => write!(f, "{}", Meaning(*self, false)),
        }
    }
}

/// What the error means, whoever got it; if it is within parentheses, without any of its own.
struct Meaning(CudaError, bool);

impl fmt::Display for Meaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            CudaError::InvalidMemoryAllocation => {
                f.write_str("the size of the allocation is zero or overflows")
            }
            CudaError::HeldByGuard => f.write_str("a living guard holds the entry of the context stack"),
            CudaError::Unrecognized(code) => {
                write!(f, "the driver answered error {code}, which is newer than custack")
            }
            CudaError::__Nonexhaustive => f.write_str("not an error"),
            driver => match driver.row() {
                Some((_, code, symbol, text)) if self.1 => write!(f, "CUDA_ERROR_{symbol}, {code}: {text}"),
                Some((_, code, symbol, text)) => write!(f, "{text} (CUDA_ERROR_{symbol}, {code})"),
                None => Ok(()),
            },
        }
    }
}

impl fmt::Debug for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
