//! Runs of equal entries on top of the driver's stack, which can be counted only by popping them.

use super::{Driver, Live};
use crate::driver::ffi::CUcontext;
use crate::error::{CudaResult, twice};
use std::ptr;

impl Driver {
    pub(crate) fn is_current(&self, raw: CUcontext) -> CudaResult<bool> {
        Ok(ptr::eq(self.ctx_get_current()?, raw))
    }

    /// Pops while the handle is current; a failed call is retried once.
    pub(crate) fn pop_while_current(&self, raw: CUcontext) -> CudaResult<()> {
        let mut failures = 0;
        loop {
            let step = match self.is_current(raw) {
                Ok(false) => return Ok(()),
                Ok(true) => self.ctx_pop_current().map(|_| ()),
                Err(error) => Err(error),
            };
            if let Err(error) = step {
                failures += 1;
                if failures > 1 {
                    return Err(error);
                }
            }
        }
    }

    /// Leaves `count` entries of this context on top, after a push or a pop that returned an error and may have taken
    /// effect: with an equal entry below, the driver's answers do not show whether it did. A failure is retried once.
    pub(crate) fn set_run(&self, live: Live<'_>, count: usize) -> CudaResult<()> {
        twice(|| {
            self.pop_while_current(live.raw())?;
            (0..count).try_for_each(|_| self.ctx_push_current(live))
        })
    }
}
