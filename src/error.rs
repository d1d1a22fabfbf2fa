//! Errors and their texts.
//!
//! * [`CudaError`] is what every call may return: one of the driver's error codes by name, or one of custack's own
//!   refusals ([`HeldByGuard`](CudaError::HeldByGuard), [`NoDriver`](CudaError::NoDriver), ...). A code without a name
//!   is kept as a number.
//! * [`Failure`] is one failure: an error with the text of what was asked for, which travels.
//! * [`DriverError`] says why no driver could be loaded: what was tried, and what to do.
//! * [`DropResult`] is the result of destroying a value by hand: the error and the value. A value that may be destroyed
//!   all the same comes back empty.
//!
//! # What was asked
//!
//! `CudaError` is `Copy` and carries a number, as in RustaCUDA, so it cannot hold the operands of the call that failed,
//! nor say which failure it is of. `Display` says what the number means. The operands stand beside it, in notes that each
//! thread keeps of its last failures (as `errno` does for C). A [`Failure`] takes them from there, so make it on the
//! thread that got the error, before the same error comes again: where `?` returns it from a function.
//!
//! `Debug` of a `CudaError` adds what the thread asked for when it last got this error, and says so: it is what `unwrap`
//! prints, and a `main` that returns it.
//!
//! ```
//! use custack::context::{Context, ContextFlags, ContextStack};
//! use custack::device::Device;
//! use custack::error::CudaError;
//!
//! custack::init(custack::CudaFlags::empty())?;
//! let owner = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
//! let handle = owner.get_unowned();
//! drop(owner);
//!
//! let error = ContextStack::push(&handle).unwrap_err();
//! assert_eq!((error, error.code()), (CudaError::ContextIsDestroyed, 709));
//! assert_eq!(error.to_string(), "the context is destroyed (CUDA_ERROR_CONTEXT_IS_DESTROYED, 709)");
//! let failure = error.failure();
//! assert!(failure.to_string().starts_with("failed to use context "));
//! assert!(failure.to_string().ends_with(" (CUDA_ERROR_CONTEXT_IS_DESTROYED, 709: the context is destroyed)"));
//! # Ok::<(), CudaError>(())
//! ```
//!
//! # Errors of earlier work
//!
//! The device works asynchronously, so a call may return the error of work that was submitted earlier. The errors of a
//! kernel (such as `IllegalAddress`) are permanent: later calls return them too.
//!
//! # Errors in destructors
//!
//! A destructor returns nothing. Its errors are reported through `tracing` (target `custack`), if that feature is on.

mod failure;
mod no_driver;
mod note;

pub use custack_sys::Attempt;
#[doc(hidden)]
pub use custack_sys::ERRORS;
pub use failure::Failure;
pub use no_driver::DriverError;
pub(crate) use note::{keep_note, twice};

/// The result of a call that may fail.
pub type CudaResult<T> = Result<T, CudaError>;

/// The result of destroying a value by hand: on failure the error, and the value.
pub type DropResult<T> = Result<(), (CudaError, T)>;

macro_rules! errors {
    ($($name:ident = $code:literal, $symbol:literal, $text:literal;)*) => {
        /// An error of the driver, or of custack before it called the driver.
        ///
        /// The variants with a number are the driver's `CUDA_ERROR_*`; [`code`](Self::code) returns the number. A
        /// number that this crate does not know is kept as [`Unrecognized`](Self::Unrecognized).
        ///
        /// ```
        /// use custack::error::CudaError;
        ///
        /// assert_eq!(CudaError::InvalidContext.code(), 201);
        /// assert_eq!(CudaError::from_code(4711), Some(CudaError::Unrecognized(4711)));
        /// assert!(CudaError::ContextIsDestroyed.to_string().contains("CUDA_ERROR_CONTEXT_IS_DESTROYED"));
        /// ```
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub enum CudaError {
            $(#[doc = concat!("`CUDA_ERROR_", $symbol, "` (", stringify!($code), "): ", $text, ".")] $name,)*
            /// A memory size overflows or is zero (100100, RustaCUDA's own number).
            InvalidMemoryAllocation,
            /// A living guard holds the entry of the context stack, so it cannot be removed or replaced (100200).
            HeldByGuard,
            /// No driver could be loaded (100201); the contained error says what was tried and what to do.
            NoDriver(&'static DriverError),
            /// The driver wrote a number that has no name in this crate, or an address where no memory can be (100202).
            UnexpectedValue {
                /// The driver function that wrote it.
                function: &'static str,
                /// The value.
                value: i64,
            },
            /// An error code of the driver that this crate does not know.
            Unrecognized(u32),
            #[doc(hidden)]
            __Nonexhaustive,
        }

        const TABLE: &[(CudaError, u32, &str, &str)] = &[$((CudaError::$name, $code, $symbol, $text)),*];

    };
}

custack_sys::for_each_error!(errors);

impl CudaError {
    /// The error for a status of the driver; `None` for 0, which is success.
    pub fn from_code(code: u32) -> Option<CudaError> {
        if code == 0 {
            return None;
        }
        let known = TABLE.binary_search_by_key(&code, |row| row.1);
        Some(known.map_or(CudaError::Unrecognized(code), |at| TABLE[at].0))
    }

    /// The number of this error: the driver's, or one above 100000 for custack's own.
    pub fn code(self) -> u32 {
        match self {
            CudaError::InvalidMemoryAllocation => 100_100,
            CudaError::HeldByGuard => 100_200,
            CudaError::NoDriver(_) => 100_201,
            CudaError::UnexpectedValue { .. } => 100_202,
            CudaError::__Nonexhaustive => 100_101,
            CudaError::Unrecognized(code) => code,
            driver => driver.row().map_or(999, |row| row.1),
        }
    }

    /// Whether a call was refused because of a capture.
    pub(crate) fn is_of_capture(self) -> bool {
        (CudaError::StreamCaptureUnsupported.code()..=CudaError::CapturedEvent.code()).contains(&self.code())
    }

    /// What the driver's number means; empty for custack's own.
    pub(crate) fn text(self) -> &'static str {
        self.row().map_or("", |row| row.3)
    }

    fn row(self) -> Option<&'static (CudaError, u32, &'static str, &'static str)> {
        TABLE.iter().find(|row| row.0 == self)
    }
}
