//! Which driver runs, and the one place where a driver's status becomes a `Result`.
//!
//! The [`Table`] of driver functions has two implementations: the NVIDIA driver, opened at run time, and (with the
//! cargo feature `sim`) a simulated one, `custack::sim`. Everything above uses the table and does not know which one it
//! is.
//!
//! The environment variable `CUSTACK_DRIVER` selects it: `cuda` (the NVIDIA driver; also when unset, so that no program
//! gets the simulator by accident), `sim`, or `auto` (the NVIDIA driver if it loads and finds a device, else the
//! simulated one). [`choose`] does the same from code, before the first use. `CUSTACK_LIBCUDA` names the library to
//! open instead of the usual ones.
//!
//! With the feature `sim` three more variables observe whatever driver runs, without a change of the program:
//!
//! * `CUSTACK_TRACE=FILE` writes a timeline of every driver call by thread, and of the work of the simulated driver's
//!   streams, which <https://ui.perfetto.dev> opens.
//! * `CUSTACK_REPORT=FILE` writes at the end of the program which functions were called how often, which calls were refused
//!   and why, and what was left behind and where it was made.
//! * `CUSTACK_FAIL=cuMemAlloc_v2:3:2` makes the third call of that function fail with the error 2, without reaching the
//!   driver. A value that names no driver function is an error of the first call.
//!
//! ```
//! let driver = custack::driver::current()?;
//! println!("running on {driver}");
//! # Ok::<(), custack::error::DriverError>(())
//! ```
//!
//! No driver works in the child of a fork, if its parent has used one: see [this page](crate::device::processes).

mod calls;
mod handles;
mod host_function;
#[cfg(feature = "sim")]
pub mod instrument;
mod last_kernel;
mod numbered;
mod select;
#[cfg_attr(not(feature = "sim"), path = "not_simulated.rs")]
mod simulated;
mod stack_top;
mod version;

pub(crate) use calls::{Added, After, Edge, NotAdded};
pub(crate) use calls::{Fill, Jit, More, Order, RELAXED, Shape, Told};
pub(crate) use custack_sys::fork::{Counted, Locked, OrOwn, is_child, lock, read, write};
pub(crate) use handles::{Held, Live};
pub(crate) use host_function::{as_host_function, do_first, in_host_function, refuse_in_host_function};
pub(crate) use last_kernel::KernelName;
pub(crate) use numbered::{Numbered, numbered};
pub use select::{Choice, choose, current};
pub(crate) use select::{driver, driver_to_drop, running};
pub use version::CudaApiVersion;

#[doc(hidden)]
pub use custack_sys::ARGUMENTS;
pub use custack_sys::{FUNCTIONS, SINCE, Table, ffi};

use crate::error::{CudaError, CudaResult};
use ffi::{CUDA_SUCCESS, CUresult};
use std::cell::Cell;
use std::fmt;
use std::num::NonZero;

/// Why no driver is used in the child of a fork.
const FORKED: &str =
    "this process was forked after the driver was started, and no driver works in such a child";

/// Refuses what would wait for threads or locks of the parent of a fork.
pub(crate) fn refuse_in_child() -> CudaResult<()> {
    if is_child() {
        return Err(CudaError::NotInitialized.note(format_args!("to use the driver: {FORKED}")));
    }
    Ok(())
}

/// A driver in use.
pub struct Driver {
    table: Table,
    simulated: bool,
    library: String,
    /// Why the simulated driver refused this thread's last call with this status, in a sentence.
    explain: Option<fn(CUresult) -> Option<String>>,
}

impl Driver {
    /// The driver's functions, for what the safe modules of this crate do not cover.
    ///
    /// Code that calls them changes this thread's context stack behind custack's back; custack can handle that (see
    /// [`context`](crate::context)).
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Whether this is the simulated driver.
    pub fn is_simulated(&self) -> bool {
        self.simulated
    }

    /// Where the driver was loaded from: a file, or `simulated`.
    pub fn library(&self) -> &str {
        &self.library
    }

    /// The newest CUDA version that the driver supports, as `cuDriverGetVersion` returns it; works before
    /// [`init`](crate::init).
    ///
    /// # Errors
    ///
    /// Any error of the driver; [`NotPermitted`](CudaError::NotPermitted) in a host function.
    #[doc(alias = "cuDriverGetVersion")]
    pub fn version(&self) -> CudaResult<CudaApiVersion> {
        refuse_in_host_function()?;
        self.driver_get_version().map(CudaApiVersion::from_raw)
    }

    fn name(&self) -> &'static str {
        if self.simulated { "simulated" } else { "NVIDIA" }
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} driver", self.name())?;
        if let Ok(version) = self.version() {
            write!(f, ", CUDA {version}")?;
        }
        if !self.simulated {
            write!(f, ", {}", self.library)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("simulated", &self.simulated).field("library", &self.library).finish()
    }
}

/// A driver's status as a `Result`; the note names the function.
#[inline]
fn check(function: &'static str, status: CUresult) -> CudaResult<()> {
    if status == CUDA_SUCCESS { Ok(()) } else { Err(failed(function, status)) }
}

thread_local! {
    /// A call that failed, and whether it is known to be what broke a capture.
    static FAILED: Cell<(Option<(&'static str, CUresult)>, bool)> = const { Cell::new((None, false)) };
}

/// The call of this thread since the last time that most likely broke a capture: the first that was refused because of
/// one, else the last that failed before calls answered that it is broken.
pub(crate) fn take_what_broke() -> Option<(&'static str, CUresult)> {
    FAILED.take().0
}

fn remember(function: &'static str, status: CUresult) {
    const BROKEN: CUresult = 901;
    match (FAILED.get(), status) {
        ((_, true), _) => {}
        ((before, _), BROKEN) => FAILED.set((before, true)),
        (_, status) => FAILED.set((Some((function, status)), (900..=907).contains(&status))),
    }
}

#[cold]
fn failed(function: &'static str, status: CUresult) -> CudaError {
    let error = CudaError::from_code(status).unwrap_or(CudaError::UnknownError);
    remember(function, status);
    if error == CudaError::NotReady {
        // An answer, which most callers expect.
        return error;
    }
    if is_child() {
        return error.note(format_args!("to call {function}: {}", FORKED));
    }
    if error == CudaError::CallRequiresNewerDriver {
        let since = FUNCTIONS.iter().zip(SINCE).find(|(name, _)| **name == function);
        let since = CudaApiVersion::from_raw(since.map_or(0, |(_, since)| *since));
        return error.note(format_args!("to call {function}: it came with CUDA {since}"));
    }
    let explained = running().and_then(|driver| driver.explain?(status));
    if let Some(why) = explained.filter(|why| !error.text().contains(&**why)) {
        return error.note(format_args!("to call {function}: {why}"));
    }
    match last_kernel::blamed_for(status) {
        Some(kernel) => {
            error.note(format_args!("to call {function}; the last kernel it launched is {kernel}"))
        }
        None => error.note(format_args!("to call {function}")),
    }
}

/// A status that is not success, before it becomes an error. An error includes a note and is eight times as large; the
/// calls that every scope makes return this type, and only the cold path makes an error from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failed(NonZero<CUresult>);

impl Failed {
    #[inline]
    fn unless(status: CUresult) -> Result<(), Failed> {
        NonZero::new(status).map_or(Ok(()), |status| Err(Failed(status)))
    }

    pub(crate) fn is(self, error: CudaError) -> bool {
        error.code() == self.0.get()
    }

    /// The error, with a note that names the function.
    #[cold]
    pub(crate) fn of(self, function: &'static str) -> CudaError {
        failed(function, self.0.get())
    }
}
