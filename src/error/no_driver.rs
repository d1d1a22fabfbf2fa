//! Why no driver could be loaded.

use custack_sys::{Attempt, LoadError, Tried};
use std::fmt;

/// Why no driver could be loaded, or why the chosen one cannot be used.
///
/// `Debug` prints the same text as `Display`, because a `main` that returns an error prints it, and it is the first
/// thing that a user without a driver reads.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The driver's library was not found, or could not be loaded.
    #[error("no CUDA driver was found: {}. {WITHOUT_DRIVER}", Tried(tried))]
    LibraryNotFound {
        /// Every name that was tried, in order.
        tried: Vec<Attempt>,
    },
    /// The library was loaded, but is not a CUDA driver: it lacks a function that every driver has.
    #[error("{library} is not a CUDA driver: it has no {symbol}. {WITHOUT_DRIVER}")]
    MissingSymbol {
        /// The library.
        library: String,
        /// The function that it lacks.
        symbol: String,
    },
    /// The environment variable `CUSTACK_DRIVER` has an unknown value.
    #[error("CUSTACK_DRIVER={value}: expected `cuda`, `sim` or `auto`")]
    UnknownChoice {
        /// Its value.
        value: String,
    },
    /// The environment variable `CUSTACK_SIM_DEVICES` is not a number of devices that the simulated driver can
    /// have.
    #[error("CUSTACK_SIM_DEVICES={value}: expected a number from 0 to 64")]
    UnknownDeviceCount {
        /// Its value.
        value: String,
    },
    /// The environment variable `CUSTACK_FAIL` asks for a fault that cannot be injected, for example in a function that
    /// the driver does not have.
    #[error("CUSTACK_FAIL={value}: {why}")]
    UnknownFault {
        /// Its value.
        value: String,
        /// What is wrong with it.
        why: String,
    },
    /// The simulated driver was chosen, but this build does not include it.
    #[error(
        "the simulated driver was chosen, but custack was built without its feature `sim`; Cargo.toml takes it as \
         `custack = {{ version = \"0.1\", features = [\"sim\"] }}`"
    )]
    SimulatorNotBuilt,
    /// This process was forked while its parent started a driver, and none works here.
    #[error("this process was forked while a driver was being started, and no driver works in such a child")]
    Forked,
    /// A driver was chosen while another was already in use.
    #[error(
        "the {wanted} driver was chosen after the {running} driver had been used; choose before the first call"
    )]
    AlreadyRunning {
        /// What was chosen.
        wanted: &'static str,
        /// What is running.
        running: &'static str,
    },
}

impl fmt::Debug for DriverError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

const WITHOUT_DRIVER: &str = "Install the NVIDIA driver, or name its library in CUSTACK_LIBCUDA; to run without a GPU, \
     set CUSTACK_DRIVER=sim (this takes custack's feature `sim`)";

impl From<LoadError> for DriverError {
    fn from(error: LoadError) -> DriverError {
        match error {
            LoadError::NotFound(tried) => DriverError::LibraryNotFound { tried },
            LoadError::MissingSymbol { library, symbol } => {
                DriverError::MissingSymbol { library, symbol: symbol.to_owned() }
            }
        }
    }
}
