//! The simulated driver, and the instruments.

use crate::error::DriverError;
use custack_sim::StartError;
use custack_sys::{Table, ffi::CUresult};

/// Why this thread's last call was refused with this status, in a sentence.
type Explain = fn(CUresult) -> Option<String>;

pub(super) fn start() -> Result<(Table, Explain), DriverError> {
    Ok((custack_sim::start()?, custack_sim::why_refused))
}

/// The table with the instruments, if they are wanted.
pub(super) fn instrumented(table: Table, is_simulated: bool) -> Result<Table, DriverError> {
    Ok(custack_sim::instrumented(table, is_simulated)?)
}

impl From<StartError> for DriverError {
    fn from(error: StartError) -> DriverError {
        match error {
            StartError::UnknownDeviceCount { value } => DriverError::UnknownDeviceCount { value },
            StartError::UnknownFault { value, why } => DriverError::UnknownFault { value, why },
        }
    }
}
