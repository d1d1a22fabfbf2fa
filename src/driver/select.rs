//! Selects the driver: by the environment, or by the program.

use super::host_function::{do_what_comes_first, in_host_function, may_call, refuse_in_host_function};
use super::{Driver, refuse_in_child, simulated};
use crate::error::{CudaError, CudaResult, DriverError};
use crate::fence;
use custack_sys::{fork, fork::Starting, variable};
use std::str::FromStr;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Which driver to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
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

    /// Parses `cuda`, `sim` or `auto`, in any case.
    ///
    /// # Errors
    ///
    /// [`DriverError::UnknownChoice`] for anything else.
    fn from_str(text: &str) -> Result<Choice, DriverError> {
        match text.to_ascii_lowercase().as_str() {
            "cuda" => Ok(Choice::Cuda),
            "sim" => Ok(Choice::Sim),
            "auto" => Ok(Choice::Auto),
            _ => Err(DriverError::UnknownChoice { value: text.to_owned() }),
        }
    }
}

// A `OnceLock` and a mutex, not a lazy value: a lazy value would keep a failure for ever, but a library that was
// missing at the first attempt may be there at the next.
static RUNNING: OnceLock<Driver> = OnceLock::new();
static STARTING: Mutex<()> = Mutex::new(());

/// The running driver; if none runs yet, starts the one that `CUSTACK_DRIVER` names.
///
/// # Errors
///
/// [`DriverError`]: what was tried, and what to do. A failure is not remembered: the next call tries again.
pub fn current() -> Result<&'static Driver, DriverError> {
    if let Some(driver) = RUNNING.get() {
        return Ok(driver);
    }
    let choice = match variable("CUSTACK_DRIVER") {
        Some(value) => value.to_string_lossy().parse()?,
        None => Choice::Cuda,
    };
    start(choice)
}

/// Selects the driver, whatever `CUSTACK_DRIVER` says, and starts it.
///
/// # Errors
///
/// [`DriverError::AlreadyRunning`] if another driver is in use already; otherwise why this one could not be started.
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
    if fork::is_child() {
        // A thread of the parent may have been about to start a driver.
        return RUNNING.get().ok_or(DriverError::Forked);
    }
    let starting = Starting::begin();
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
            native => match simulated_driver() {
                // Without a simulated driver it is the NVIDIA driver's state that the program has to know.
                Err(DriverError::SimulatorNotBuilt) => native?,
                simulated => simulated?,
            },
        },
    };
    // Early, because registering is slow once the program has many threads.
    fence::register();
    // Only the driver that is chosen in the end gets instruments, because they call the first table that they were given.
    let table = simulated::instrumented(chosen.table, chosen.simulated)?;
    let chosen = Driver { table, ..chosen };
    let running = RUNNING.get_or_init(|| chosen);
    starting.done();
    Ok(running)
}

fn native_driver() -> Result<Driver, DriverError> {
    let (table, library) = match variable("CUSTACK_LIBCUDA") {
        Some(name) => custack_sys::load_any(&[&*name])?,
        None => custack_sys::load()?,
    };
    Ok(Driver { table, simulated: false, library, explain: None })
}

fn simulated_driver() -> Result<Driver, DriverError> {
    let library = "simulated".to_owned();
    let (table, explain) = simulated::start()?;
    Ok(Driver { table, simulated: true, library, explain: Some(explain) })
}

/// The driver, if it is running already, and in this process.
#[inline]
pub(crate) fn running() -> Option<&'static Driver> {
    RUNNING.get().filter(|_| !fork::is_child())
}

/// The running driver, for the modules above; refused in a host function, where the driver refuses every call.
#[inline]
pub(crate) fn driver() -> CudaResult<&'static Driver> {
    match running() {
        Some(driver) if may_call() => Ok(driver),
        _ => {
            // By a pointer: before it inlines, the compiler searches all calls below each caller of this function for cycles,
            // and starting a driver makes many. That took a twentieth of the build. The optimiser makes the call direct.
            let start: fn() -> CudaResult<&'static Driver> = start_and_do_what_comes_first;
            start()
        }
    }
}

/// Like [`driver`], for destructors, which have no other chance: nothing is done first.
#[inline]
pub(crate) fn driver_to_drop() -> CudaResult<&'static Driver> {
    match running() {
        Some(driver) if !in_host_function() => Ok(driver),
        _ => start_or_say_why(),
    }
}

#[cold]
fn start_and_do_what_comes_first() -> CudaResult<&'static Driver> {
    let driver = start_or_say_why()?;
    do_what_comes_first(driver)?;
    Ok(driver)
}

#[cold]
fn start_or_say_why() -> CudaResult<&'static Driver> {
    refuse_in_child()?;
    refuse_in_host_function()?;
    current().map_err(|reason| CudaError::NoDriver(kept(reason)))
}

/// `CudaError` is `Copy`, so the reason that it points to must live for ever: each distinct reason is leaked once.
fn kept(reason: DriverError) -> &'static DriverError {
    static REASONS: Mutex<Vec<&'static DriverError>> = Mutex::new(Vec::new());
    let mut reasons = fork::lock(&REASONS);
    if let Some(same) = reasons.iter().find(|same| ***same == reason) {
        return same;
    }
    let reason: &'static DriverError = Box::leak(Box::new(reason));
    reasons.push(reason);
    reason
}
