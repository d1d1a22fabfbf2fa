//! The outcome of awaited work, on its way from the thread that asked the driver to the one that awaits it.

use super::slot::Slot;
use crate::error::{CudaError, CudaResult};
use crate::liveness::Expected;

pub(super) type Outcome<T> = Result<T, Failed>;

/// Where it waits for its future. Once that is dropped, it is expected to be retired.
pub(super) type Place<T> = Slot<Outcome<T>, Expected>;

/// An error with what the thread that got it knows of it: what was asked, and which kernel failed. Such notes belong to threads.
pub(super) struct Failed {
    error: CudaError,
    asked: String,
}

impl Failed {
    /// With the note of this thread, which has just got the error.
    pub(super) fn new(error: CudaError) -> Failed {
        Failed { error, asked: error.last_asked().unwrap_or_default() }
    }

    /// The error, whose note is this thread's from now on.
    #[cold]
    fn told(self) -> CudaError {
        self.error.note(format_args!("{}", self.asked));
        self.error.note_before(format_args!("to await work"))
    }
}

/// What the future is ready with.
pub(super) fn told<T>(outcome: Outcome<T>) -> CudaResult<T> {
    outcome.map_err(Failed::told)
}
