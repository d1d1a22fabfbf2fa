//! The texts of errors: what an error means, and what was asked for in one failure.

use super::CudaError;
use std::error::Error;
use std::fmt;

/// One failure: the error, and what was asked for, in a value that can be kept and sent to other threads.
///
/// Make it on the thread that got the error: with `?` in a function that returns `Result<_, Failure>`, with
/// `map_err(Failure::from)`, or with [`CudaError::failure`]. It has the text of this thread's last failure with this
/// error. If the thread has had the error before, the text says that it is that of the last of several such failures,
/// as the error may be of an earlier one.
///
/// `Debug` prints the same text as `Display`, because a `main` that returns an error prints it.
///
/// ```
/// use custack::device::Device;
/// use custack::error::{CudaError, Failure};
///
/// fn name(ordinal: u32) -> Result<String, Failure> {
///     custack::init(custack::CudaFlags::empty())?;
///     Ok(Device::get_device(ordinal)?.name()?)
/// }
///
/// let failure = std::thread::spawn(|| name(99)).join().unwrap().unwrap_err();
/// assert_eq!(failure.error(), CudaError::InvalidDevice);
/// assert!(failure.to_string().starts_with("failed to get device 99; there are "));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Failure {
    error: CudaError,
    asked: Option<String>,
    is_one_of_several: bool,
}

impl Failure {
    /// The error.
    pub fn error(&self) -> CudaError {
        self.error
    }

    /// What was asked for, and what was wrong with it: "to ...". `None` if that is not known, or if the thread has had
    /// the error more than once, so that it may be that of another failure.
    ///
    /// ```
    /// use custack::device::Device;
    ///
    /// custack::init(custack::CudaFlags::empty())?;
    /// let failure = Device::get_device(99).unwrap_err().failure();
    /// assert!(failure.asked().unwrap().starts_with("to get device 99"));
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    pub fn asked(&self) -> Option<&str> {
        self.asked.as_deref().filter(|_| !self.is_one_of_several)
    }
}

impl CudaError {
    /// This error with the text of the failure, on the thread that got it; see [`Failure`].
    #[cold]
    pub fn failure(self) -> Failure {
        let noted = self.with_note(|note| (note.asked.clone(), note.is_one_of_several));
        let (asked, several) = noted.map_or((None, false), |(asked, several)| (Some(asked), several));
        Failure { error: self, asked, is_one_of_several: several }
    }
}

// There is no `From` back: with a second one for `CudaError` the compiler could not infer the error type of closures that
// end with `Ok`.
impl From<CudaError> for Failure {
    fn from(error: CudaError) -> Failure {
        error.failure()
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.asked, self.is_one_of_several) {
            (Some(asked), false) => write!(f, "failed {asked} ({})", Meaning(self.error, true)),
            (Some(asked), true) => write!(f, "{}; the last of several such failures: {asked}", self.error),
            (None, _) => fmt::Display::fmt(&self.error, f),
        }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for CudaError {}

/// What the error means, whichever failure it is of; [`Failure`] has what was asked for.
// From the table, never from the driver. Not by thiserror's derive, which writes an arm for each of a hundred variants,
// all with the same text: that was a twelfth of the whole crate's code before optimisation.
impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Meaning(*self, false))
    }
}

/// What a `main` that returns an error prints, and `unwrap`: what the error means, and what this thread asked for when it
/// last got it.
impl fmt::Debug for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        self.last_asked().map_or(Ok(()), |asked| write!(f, "; this thread's last such failure: {asked}"))
    }
}

/// What the error means; if it is within parentheses, without any of its own.
struct Meaning(CudaError, bool);

impl fmt::Display for Meaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            CudaError::NoDriver(reason) => write!(f, "{reason}"),
            CudaError::UnexpectedValue { function, value } => {
                write!(f, "{function} returned {value}, which custack does not take")
            }
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
