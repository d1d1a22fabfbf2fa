//! What stands for the simulated driver and the instruments in a build without them.

use crate::error::DriverError;
use custack_sys::{Table, ffi::CUresult};

type Explain = fn(CUresult) -> Option<String>;

pub(super) const fn start() -> Result<(Table, Explain), DriverError> {
    Err(DriverError::SimulatorNotBuilt)
}

pub(super) const fn instrumented(table: Table, _is_simulated: bool) -> Result<Table, DriverError> {
    Ok(table)
}
