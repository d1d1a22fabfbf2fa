//! Starts the simulated driver, or adds the instruments to another.

use crate::instrument::{self, Simulator, watch};
use crate::{MOST_DEVICES, last_refusal, misuses, stacks_left, stream::timeline, table};
use custack_sys::{Table, variable};
use std::fmt;

/// A variable of the environment asks for what cannot be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartError {
    /// `CUSTACK_SIM_DEVICES` is not a number of devices that the machine can have.
    UnknownDeviceCount {
        /// Its value.
        value: String,
    },
    /// `CUSTACK_FAIL` asks for a fault that cannot be injected.
    UnknownFault {
        /// Its value.
        value: String,
        /// What is wrong with it.
        why: String,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::UnknownDeviceCount { value } => {
                write!(f, "CUSTACK_SIM_DEVICES={value}: expected a number from 0 to {MOST_DEVICES}")
            }
            StartError::UnknownFault { value, why } => write!(f, "CUSTACK_FAIL={value}: {why}"),
        }
    }
}

impl std::error::Error for StartError {}

/// The simulated driver's table with the instruments, as the environment asks for them.
///
/// # Errors
///
/// [`StartError`] if a variable asks for what cannot be done.
pub fn start() -> Result<Table, StartError> {
    if let Some(value) = variable("CUSTACK_SIM_DEVICES") {
        let value = value.to_string_lossy().into_owned();
        if !value.parse().is_ok_and(|count: usize| count <= MOST_DEVICES) {
            return Err(StartError::UnknownDeviceCount { value });
        }
    }
    instrumented(table(), true)
}

/// A driver's table with the instruments, if the environment asks for one, or the program by
/// [`enable`](instrument::enable); always, if it is the simulated driver's.
///
/// The first table of a process is the one that all its instruments call.
///
/// # Errors
///
/// [`StartError::UnknownFault`].
pub fn instrumented(table: Table, is_simulated: bool) -> Result<Table, StartError> {
    let simulator = Simulator { why: last_refusal, misuses, stacks: stacks_left };
    let is_watched = watch::from_environment(is_simulated.then_some(simulator))?;
    if is_watched {
        timeline::tell(timeline::Timeline { name: watch::name_of_work, done: watch::work_done });
    }
    Ok(instrument::layered(table, is_simulated || is_watched || instrument::is_enabled()))
}
