//! Initialisation and version.

pub(super) mod abi;

use super::machine::*;
use std::os::raw::c_int;

/// What `cuDriverGetVersion` returns.
const DRIVER_VERSION: c_int = 13000;

impl Machine {
    /// The first check of nearly every function.
    pub(super) fn ready(&mut self) -> Answer<()> {
        if self.initialised {
            return Ok(());
        }
        self.refuse(NOT_INITIALIZED, "the driver is not initialised")
    }

    pub(super) fn init(&mut self, flags: u32) -> Answer<()> {
        if flags != 0 {
            return self.refuse(INVALID_VALUE, format_args!("cuInit takes no flags, but got {flags:#x}"));
        }
        if !self.initialised && !self.hides {
            self.hide_devices()?;
            let blocks = std::env::var("CUDA_LAUNCH_BLOCKING").ok().and_then(|text| text.parse().ok());
            self.launches_block = blocks.is_some_and(|number: u32| number != 0);
        }
        if self.devices.is_empty() {
            let why = if self.hides { "hidden from this process" } else { "configured away" };
            return self.refuse(NO_DEVICE, format_args!("all devices of the simulated machine are {why}"));
        }
        self.initialised = true;
        Ok(())
    }
}
