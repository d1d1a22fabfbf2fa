//! What owns an object of the driver's.

// Vouches for the handles that it holds; see the `SAFETY` lines.
#![allow(unsafe_code)]

use crate::context::{Pin, UnownedContext, is_gone, must_retire, refuse_unsafe, unbroken};
use crate::driver::{Driver, Held};
use crate::error::{CudaError, CudaResult, keep_note};
use crate::liveness::retire;
use crate::report;

type Destroy = fn(&Driver, Held<'_, u64>) -> CudaResult<()>;

/// The only owner of a texture or a surface object. Each context numbers its own, so every call is made with the context
/// current; it is pinned, as memory pins it.
#[derive(Debug)]
pub(super) struct Owned {
    raw: u64,
    /// `None` if destroying it failed and may have taken effect.
    pin: Option<Pin>,
    destroy: Destroy,
}

impl Owned {
    /// Makes an object in this context, or in the current one if it is null.
    #[inline]
    pub(super) fn make(
        context: &UnownedContext,
        make: impl FnOnce(&Driver) -> CudaResult<u64>,
        destroy: Destroy,
    ) -> CudaResult<Owned> {
        refuse_unsafe("make a texture or a surface")?;
        let context = if context.is_null() { UnownedContext::of_this_thread()? } else { context.clone() };
        let pin = context.pin()?;
        let raw = context.inside(make)?;
        Ok(Owned { raw, pin: Some(pin), destroy })
    }

    #[inline]
    pub(super) fn raw(&self) -> u64 {
        self.raw
    }

    /// Its context; a null handle if it was not destroyed for certain.
    #[inline]
    pub(super) fn context(&self) -> &UnownedContext {
        self.pin.as_ref().map_or(UnownedContext::NONE, Pin::context)
    }

    /// Calls `f` with the handle.
    #[inline]
    pub(super) fn with<R>(&self, f: impl FnOnce(&Driver, Held<'_, u64>) -> CudaResult<R>) -> CudaResult<R> {
        let Some(pin) = &self.pin else {
            return Err(CudaError::InvalidHandle.note(format_args!(
                "to use it after an attempt to destroy it failed and may have taken effect"
            )));
        };
        // SAFETY: this value owns the handle, and its context is current and not destroyed meanwhile.
        pin.context().inside(|driver| f(driver, unsafe { Held::new(self.raw) }))
    }

    #[inline]
    fn destroy_now(&self) -> CudaResult<()> {
        let Some(pin) = &self.pin else { return Ok(()) };
        // SAFETY: this value owns the handle, and its context is pinned.
        let destroy = |driver: &Driver| (self.destroy)(driver, unsafe { Held::new(self.raw) });
        match pin.context().dispose(|driver| unbroken(driver, || destroy(driver))) {
            Some(Err(error)) if !is_gone(error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Destroys the object; on failure returns the error and the value, which is spent, because the call may have done
    /// its work, except where the driver refuses every call.
    #[inline]
    pub(super) fn drop(mut self) -> Result<(), (CudaError, Owned)> {
        let destroyed = self.destroy_now();
        if destroyed != Err(CudaError::NotPermitted) {
            self.spend();
        }
        destroyed.map_err(|error| (error, self))
    }

    /// The last attempt of a destructor.
    #[inline]
    fn destroy_at_last(mut self) {
        if let Err(error) = self.destroy_now() {
            self.report(error);
        }
        self.spend();
    }

    /// Gives up the object and unpins its context.
    #[inline]
    fn spend(&mut self) {
        self.raw = 0;
        self.pin = None;
    }

    #[inline]
    fn report(&self, error: CudaError) {
        let context = self.context();
        report::warn(format_args!("a texture or a surface of {context} could not be destroyed: {error:?}"));
    }
}

impl Drop for Owned {
    #[inline]
    fn drop(&mut self) {
        if self.pin.is_none() {
            return;
        }
        let _note = keep_note();
        let destroyed = if must_retire() { Err(CudaError::NotPermitted) } else { self.destroy_now() };
        match destroyed {
            Ok(()) => self.spend(),
            Err(CudaError::NotPermitted) => {
                let other = Owned { raw: self.raw, pin: self.pin.take(), destroy: self.destroy };
                retire(move || other.destroy_at_last());
            }
            Err(error) => self.report(error),
        }
    }
}
