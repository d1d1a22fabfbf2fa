//! What keeps a context from being destroyed: host memory that the driver gave out, which goes with its context.
//!
//! An owner that lets go of a pinned context takes its life, so that nobody enters it any more; the driver destroys
//! it when the last pin is gone.

use super::destroy::destroy_held;
use super::liveness::Killed;
use super::unowned::UnownedContext;
use crate::driver::driver;
use crate::driver::ffi::CUdevice;
use crate::error::{CudaError, CudaResult};
use crate::report;
use lazy_static::lazy_static;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is done when the last pin is gone.
pub(super) enum Later {
    Destroy(Killed),
    Release(Killed, CUdevice),
}

#[derive(Default)]
struct Pins {
    count: usize,
    later: Option<Later>,
}

lazy_static! {
    /// By the number of the context.
    static ref PINS: Mutex<HashMap<u64, Pins>> = Mutex::new(HashMap::new());
}

fn pins() -> MutexGuard<'static, HashMap<u64, Pins>> {
    PINS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a context from being destroyed while it exists.
#[derive(Debug)]
pub(crate) struct Pin(UnownedContext);

impl UnownedContext {
    /// Keeps the context from being destroyed. Whoever destroys takes the life first and looks for pins then, so one
    /// of the two sees the other.
    pub(crate) fn pin(&self) -> CudaResult<Pin> {
        let mut pins = pins();
        self.usable()?;
        pins.entry(self.id()).or_default().count += 1;
        Ok(Pin(self.clone()))
    }
}

/// Puts off what would end the context, if it is pinned; else gives it back to be done now.
pub(super) fn put_off(context: &UnownedContext, later: Later) -> Option<Later> {
    match pins().get_mut(&context.id()) {
        Some(pins) => {
            pins.later = Some(later);
            None
        }
        None => Some(later),
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = pins();
        let Some(of) = pins.get_mut(&self.0.id()) else { return };
        of.count -= 1;
        if of.count > 0 {
            return;
        }
        let later = pins.remove(&self.0.id()).and_then(|of| of.later);
        drop(pins);
        let result = match (later, driver()) {
            (Some(Later::Destroy(killed)), Ok(driver)) => {
                destroy_held(driver, killed.wait(), self.0.as_raw())
            }
            (Some(Later::Release(killed, device)), Ok(driver)) => {
                drop(killed.wait());
                driver.primary_ctx_release(device)
            }
            _ => Ok(()),
        };
        match result {
            Ok(()) | Err(CudaError::Deinitialized) => {}
            Err(error) => report::warn(format_args!("{} could not be destroyed: {error}", self.0)),
        }
    }
}
