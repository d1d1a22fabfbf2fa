//! The calls of the initialisation and version chapters with Rust types.

// Calls through C function pointers; see `ask!` for what makes them sound.
#![allow(unsafe_code)]

use super::ask;
use crate::driver::Driver;
use crate::error::CudaResult;

impl Driver {
    #[inline]
    pub(crate) fn init(&self, flags: u32) -> CudaResult<()> {
        ask!(self.cuInit(flags))
    }

    pub(in crate::driver) fn driver_get_version(&self) -> CudaResult<i32> {
        let mut version = 0;
        ask!(self.cuDriverGetVersion(&mut version))?;
        Ok(version)
    }
}
