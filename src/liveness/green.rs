//! Green contexts: which primary context each has, and how one is destroyed.
//!
//! A green context pins the primary context whose memory it uses, until the driver has destroyed the green one. So the
//! streams of a green context can still be destroyed when the program has dropped all its shares.

// Vouches for the handle of a green context that no other thread can destroy.
#![allow(unsafe_code)]

use super::lease::LeaseOn;
use super::record::{Handle, Origin};
use super::registry;
use super::thread::this_thread;
use crate::driver::ffi::{CUcontext, CUdevice, CUgreenCtx};
use crate::driver::{Driver, Held, Live};
use crate::error::{CudaError, CudaResult};

/// What is known of a green context that the driver has.
#[derive(Clone, Copy)]
pub(super) struct Green {
    /// The driver's handle of the green context, as a number.
    raw: usize,
    primary: Handle,
}

/// Registers a green context that was just made. The caller has a lease on the primary context.
pub(crate) fn created(
    raw: CUcontext,
    green: CUgreenCtx,
    device: CUdevice,
    primary: Handle,
    lease: Live<'_>,
) -> Handle {
    primary.pin(lease);
    registry::created_green(raw, device, Green { raw: green.addr(), primary })
}

impl Handle {
    #[inline]
    pub(crate) fn is_green(&self) -> bool {
        cfg!(feature = "green") && self.origin() == Origin::Green
    }

    /// The context that has the memory of this one: of a green context the primary one.
    #[inline]
    pub(crate) fn base(&self) -> Handle {
        if self.is_green() { self.primary() } else { *self }
    }

    #[cold]
    fn primary(&self) -> Handle {
        registry::green(*self).map_or(*self, |green| green.primary)
    }

    /// Takes the green context for the calling thread. True if no thread had it, false if this thread has it already, and
    /// an error if another has it.
    pub(crate) fn take(&self) -> Result<bool, ()> {
        self.record().holder.take(this_thread())
    }

    /// The green context is on this thread's stack no longer.
    #[cold]
    pub(crate) fn let_go(&self) {
        self.record().holder.let_go(this_thread());
    }

    /// Calls `f` with the green context's handle, while no thread can destroy it; `None` if it is destroyed.
    pub(crate) fn with_green<R>(
        &self,
        f: impl FnOnce(Held<'_, CUgreenCtx>) -> CudaResult<R>,
    ) -> Option<CudaResult<R>> {
        let _lease = self.lease(LeaseOn::Living)?;
        let green = registry::green(*self)?;
        // SAFETY: the driver has the green context as long as the lease exists.
        Some(f(unsafe { Held::new(green.raw as CUgreenCtx) }))
    }
}

/// Destroys a green context that this thread has claimed. The driver keeps what is behind the handle, so it can be asked
/// again; a destructor has no other chance, so a failure is retried once.
pub(super) fn destroy(driver: &Driver, context: Handle) -> CudaResult<()> {
    let Some(green) = registry::green(context) else { return Ok(()) };
    // SAFETY: only the thread that has claimed the context destroys it.
    let destroy = || driver.green_ctx_destroy(unsafe { Held::new(green.raw as CUgreenCtx) });
    let Err(first) = destroy() else { return Ok(()) };
    match destroy() {
        // Other code has destroyed it.
        Err(CudaError::ContextIsDestroyed) if first == CudaError::ContextIsDestroyed => Ok(()),
        Ok(()) if first == CudaError::ContextIsDestroyed => Ok(()),
        // Either the first call has done its work all the same, or the second.
        Err(CudaError::ContextIsDestroyed) | Ok(()) => Err(first),
        Err(second) => Err(second),
    }
}

/// The driver has destroyed the green context: the primary one is not kept any more.
pub(super) fn destroyed(context: Handle) {
    let Some(Green { primary, .. }) = registry::forget_green(context) else { return };
    if primary.unpin() {
        if let Some(claimed) = primary.claim() {
            claimed.finish_quietly(0);
        }
    }
}
