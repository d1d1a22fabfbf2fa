//! What keeps a context from being destroyed: host memory that the driver gave out, which goes with its context.
//!
//! An owner that lets go of a pinned context takes its life, so that nobody enters it any more; the driver destroys
//! it when the last pin is gone.

use super::liveness::Killed;
use super::unowned::UnownedContext;
use crate::driver::ffi::CUdevice;
use crate::error::CudaResult;
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

/// Counts one pin more, unless the context is destroyed. Whoever destroys takes the life first and looks for pins then,
/// so one of the two sees the other.
pub(super) fn add(context: &UnownedContext) -> CudaResult<()> {
    let mut pins = pins();
    context.usable()?;
    pins.entry(context.id()).or_default().count += 1;
    Ok(())
}

/// Counts one pin less; with the last one, what was put off.
pub(super) fn remove(context: &UnownedContext) -> Option<Later> {
    let mut pins = pins();
    let of = pins.get_mut(&context.id())?;
    of.count -= 1;
    if of.count > 0 {
        return None;
    }
    pins.remove(&context.id()).and_then(|of| of.later)
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
