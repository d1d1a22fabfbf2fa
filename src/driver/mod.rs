//! Which driver runs, and the one place where a driver's status becomes a `Result`.
//!
//! Two things fill the [`Table`] of driver functions: the NVIDIA driver, opened at run time, and (with the cargo
//! feature `sim`) a simulated one, `sim`. Everything above works on the table and does not know which it is.
//!
//! The environment variable `CUSTACK_DRIVER` chooses: `cuda` (the NVIDIA driver; also when unset, so that no
//! program lands on the simulator by accident), `sim`, or `auto` (the NVIDIA driver if it loads and finds a device,
//! else the simulated one). [`choose`] does the same from code, before the first use. `CUSTACK_LIBCUDA` names the
//! library to open instead of the usual ones.
//!
//! ```
//! let driver = custack::driver::current()?;
//! println!("running on {driver}");
//! # Ok::<(), custack::error::DriverError>(())
//! ```

// The calls themselves are in the rooms below; this file only declares them.
mod contexts;
mod devices;
pub mod ffi;
mod memories;
mod modules;
mod native;
mod streams;
mod table;
mod top;
mod version;

#[cfg(feature = "sim")]
pub mod account;
#[cfg(feature = "sim")]
pub mod sim;

pub(crate) use contexts::{Held, Live};
pub(crate) use memories::Order;
/// The capture mode under which what is forbidden during captures is allowed.
pub(crate) const RELAXED: u32 = 2;
pub(crate) use modules::Shape;
pub use table::{FUNCTIONS, SINCE, Table};
pub use version::CudaApiVersion;

use crate::error::{CudaError, CudaResult, DriverError};
use crate::fence;
use ffi::{CUDA_SUCCESS, CUresult};
use std::cell::Cell;
use std::fmt;
use std::num::NonZero;
use std::str::FromStr;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Which driver to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Choice {
    /// The NVIDIA driver.
    Cuda,
    /// The simulated driver.
    Sim,
    /// The NVIDIA driver if it loads and finds a device, else the simulated one.
    Auto,
}

impl FromStr for Choice {
    type Err = DriverError;

    /// Reads `cuda`, `sim` or `auto`.
    ///
    /// # Errors
    ///
    /// [`DriverError::UnknownChoice`] for anything else.
    fn from_str(text: &str) -> Result<Choice, DriverError> {
        match text {
            "cuda" => Ok(Choice::Cuda),
            "sim" => Ok(Choice::Sim),
            "auto" => Ok(Choice::Auto),
            other => Err(DriverError::UnknownChoice { value: other.to_owned() }),
        }
    }
}

/// A driver in use.
pub struct Driver {
    table: Table,
    simulated: bool,
    library: String,
}

impl Driver {
    /// The driver's functions, for what the safe rooms of this crate do not cover.
    ///
    /// Foreign code that calls them moves this thread's context stack behind custack's back; custack bears that
    /// (see [`context`](crate::context)).
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

    /// The newest CUDA version that the driver supports, as `cuDriverGetVersion` gives it; works before
    /// [`init`](crate::init).
    ///
    /// # Errors
    ///
    /// What the driver answers; [`NotPermitted`](CudaError::NotPermitted) in a host function.
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

// A `OnceLock` beside a lock, not a lazy value: a lazy value would keep a failure for ever, and a library that was
// missing at the first try may be there at the next.
static RUNNING: OnceLock<Driver> = OnceLock::new();
static STARTING: Mutex<()> = Mutex::new(());

/// The driver that runs; starts the one that `CUSTACK_DRIVER` names if none does yet.
///
/// # Errors
///
/// [`DriverError`]: what was tried, and what to do. A failure is not kept: the next call tries again.
pub fn current() -> Result<&'static Driver, DriverError> {
    if let Some(driver) = RUNNING.get() {
        return Ok(driver);
    }
    let choice = match std::env::var_os("CUSTACK_DRIVER") {
        Some(value) => value.to_string_lossy().parse()?,
        None => Choice::Cuda,
    };
    start(choice)
}

/// Chooses the driver, whatever `CUSTACK_DRIVER` says, and starts it.
///
/// # Errors
///
/// [`DriverError::AlreadyRunning`] if another driver is in use already; else why this one could not be had.
///
/// ```
/// use custack::driver::{self, Choice};
///
/// let driver = driver::choose(Choice::Sim)?;
/// assert!(driver.is_simulated());
/// assert!(driver::choose(Choice::Cuda).is_err());
/// # Ok::<(), custack::error::DriverError>(())
/// ```
pub fn choose(choice: Choice) -> Result<&'static Driver, DriverError> {
    let driver = start(choice)?;
    let wanted = match choice {
        Choice::Cuda if driver.simulated => "NVIDIA",
        Choice::Sim if !driver.simulated => "simulated",
        _ => return Ok(driver),
    };
    Err(DriverError::AlreadyRunning { wanted, running: driver.name() })
}

fn start(choice: Choice) -> Result<&'static Driver, DriverError> {
    let _one_at_a_time = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(driver) = RUNNING.get() {
        return Ok(driver);
    }
    let chosen = match choice {
        Choice::Cuda => native_driver()?,
        Choice::Sim => simulated_driver()?,
        Choice::Auto => match native_driver() {
            Ok(driver) if driver.init(0).and_then(|()| driver.device_get_count()).is_ok_and(|n| n > 0) => {
                driver
            }
            Ok(driver) => simulated_driver().unwrap_or(driver),
            Err(reason) => simulated_driver().map_err(|_| reason)?,
        },
    };
    // Before the program has many threads, if it has not yet: see there.
    fence::register();
    Ok(RUNNING.get_or_init(|| counted(chosen)))
}

/// With the layer that counts, where it is wanted: only over the driver that is chosen in the end, as the layer calls
/// the first table that it was laid over.
#[cfg(feature = "sim")]
fn counted(chosen: Driver) -> Driver {
    let wanted = chosen.simulated || account::is_enabled();
    Driver { table: account::layered(chosen.table, wanted), ..chosen }
}

#[cfg(not(feature = "sim"))]
fn counted(chosen: Driver) -> Driver {
    chosen
}

fn native_driver() -> Result<Driver, DriverError> {
    let (table, library) = match std::env::var("CUSTACK_LIBCUDA") {
        Ok(name) => native::load_any(&[&name])?,
        Err(_) => native::load()?,
    };
    Ok(Driver { table, simulated: false, library })
}

#[cfg(feature = "sim")]
fn simulated_driver() -> Result<Driver, DriverError> {
    Ok(Driver { table: sim::table(), simulated: true, library: "simulated".to_owned() })
}

#[cfg(not(feature = "sim"))]
fn simulated_driver() -> Result<Driver, DriverError> {
    Err(DriverError::SimulatorNotBuilt)
}

/// The driver, if it runs already.
#[inline]
pub(crate) fn running() -> Option<&'static Driver> {
    RUNNING.get()
}

/// The running driver, for the rooms above; refused in a host function, where the driver refuses every call.
#[inline]
pub(crate) fn driver() -> CudaResult<&'static Driver> {
    match running() {
        Some(driver) if !in_host_function() => Ok(driver),
        _ => start_or_say_why(),
    }
}

thread_local! {
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread runs a function of the program's that the driver has called.
#[inline]
pub(crate) fn in_host_function() -> bool {
    IN_HOST_FUNCTION.get()
}

/// Runs a function of the program's that the driver has called.
pub(crate) fn as_host_function<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            IN_HOST_FUNCTION.set(self.0);
        }
    }
    let _restore = Restore(IN_HOST_FUNCTION.replace(true));
    f()
}

/// Refuses what a host function may not do, before the driver is asked.
pub(crate) fn refuse_in_host_function() -> CudaResult<()> {
    if !in_host_function() {
        return Ok(());
    }
    Err(CudaError::NotPermitted.note(format_args!("in a host function, where the driver refuses every call")))
}

#[cold]
fn start_or_say_why() -> CudaResult<&'static Driver> {
    refuse_in_host_function()?;
    current().map_err(|reason| CudaError::NoDriver(kept(reason)))
}

/// `CudaError` is `Copy`, so the reason it points to has to stay: each different one is kept once.
fn kept(reason: DriverError) -> &'static DriverError {
    static REASONS: Mutex<Vec<&'static DriverError>> = Mutex::new(Vec::new());
    let mut reasons = REASONS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = reasons.iter().find(|known| ***known == reason) {
        return known;
    }
    let reason: &'static DriverError = Box::leak(Box::new(reason));
    reasons.push(reason);
    reason
}

/// A driver's status as a `Result`; the note says which call it was.
#[inline]
fn check(function: &'static str, status: CUresult) -> CudaResult<()> {
    if status == CUDA_SUCCESS { Ok(()) } else { Err(failed(function, status)) }
}

#[cold]
fn failed(function: &'static str, status: CUresult) -> CudaError {
    let error = CudaError::from_code(status).unwrap_or(CudaError::UnknownError);
    error.note(format_args!("{function} answered {status}"))
}

/// A status that is no success, before it is an error. An error has room for what to say and is eight times as large;
/// the calls that every scope makes hand this on, and only the cold end makes an error of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failed(NonZero<CUresult>);

impl Failed {
    #[inline]
    fn unless(status: CUresult) -> Result<(), Failed> {
        NonZero::new(status).map_or(Ok(()), |status| Err(Failed(status)))
    }

    /// The error, with a note of which function it was.
    #[cold]
    pub(crate) fn of(self, function: &'static str) -> CudaError {
        failed(function, self.0.get())
    }
}

/// Calls one function of the table.
///
/// What makes this sound is the signature around it: numbers go in by value, the driver writes only through
/// pointers to locals of the type that the table's signature names, and a context handle can only come out of a
/// [`Live`], which stands for its being good.
macro_rules! ask {
    ($driver:ident.$function:ident($($arg:expr),* $(,)?)) => {
        // SAFETY: see the macro's own text: by-value numbers, pointers to live locals, handles from `Live`.
        $crate::driver::check(stringify!($function), unsafe { ($driver.table.$function)($($arg),*) })
    };
}
use ask;

/// As [`ask!`], for the calls that every scope makes.
macro_rules! ask_briefly {
    ($driver:ident.$function:ident($($arg:expr),* $(,)?)) => {
        // SAFETY: as `ask!`.
        $crate::driver::Failed::unless(unsafe { ($driver.table.$function)($($arg),*) })
    };
}
use ask_briefly;

/// The result of making something: the handle, or the error. A driver that fails after it has made it has written the
/// handle; then it is destroyed.
macro_rules! made {
    ($driver:ident, $asked:expr, $handle:ident, $destroy:ident) => {
        match $asked {
            Ok(()) => Ok($handle),
            Err(error) => {
                if !$handle.is_null() {
                    // SAFETY: made a moment ago, in the context that is current, and nobody has got it.
                    let _ = $driver.$destroy(unsafe { $crate::driver::Held::new($handle) });
                }
                Err(error)
            }
        }
    };
}
use made;
