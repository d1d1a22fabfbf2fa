//! Calls with handles whose context is kept at the driver by more than the call: by a pin, or by the caller's lease.

// Vouches for the handles of resources; see the `SAFETY` lines.
#![allow(unsafe_code)]

use super::{Resource, State, of_another_thread};
use crate::context::destroy::Pin;
use crate::context::in_call::InCall;
use crate::context::key::Capturable;
use crate::driver::driver;
use crate::driver::{Driver, Held, driver_to_drop};
use crate::error::CudaResult;
use crate::liveness::Lease;
use crate::liveness::LeaseOn;

impl<H: Capturable> Resource<H> {
    /// Like [`with`](Self::with), and pins the context: for what is allocated with the handle, and outlives this call, which
    /// the caller has begun.
    #[inline]
    pub(crate) fn pinned<R>(
        &self,
        _call: &InCall,
        allocate: impl FnOnce(&Driver, Held<'_, H>) -> CudaResult<R>,
    ) -> CudaResult<(R, Pin)> {
        // SAFETY: as in `with`.
        self.context.pinned(|driver| allocate(driver, unsafe { Held::new(self.raw) }))
    }

    /// Like [`with`](Self::with), and the context is pinned from then on. If that fails, the context is not destroyed on
    /// this thread, which may have a lock, even if its owner is dropped meanwhile.
    pub(crate) fn with_pin<R>(
        &self,
        f: impl FnOnce(&Driver, Held<'_, H>) -> CudaResult<R>,
    ) -> CudaResult<(R, Pin)> {
        self.context.pinned(|_| self.with(f))
    }

    /// Like [`with`](Self::with), in a context that the caller has pinned, even if its owner is dropped; `None` if
    /// other code has destroyed the context, or if the resource is spent.
    #[inline]
    pub(crate) fn with_pinned<R>(
        &self,
        pin: &Pin,
        f: impl FnOnce(&Driver, Held<'_, H>) -> CudaResult<R>,
    ) -> Option<CudaResult<R>> {
        match self.enter() {
            Ok(call) => self.with_pinned_in(&call, pin, f),
            Err(error) => Some(Err(error)),
        }
    }

    /// Like [`with`](Self::with), in a call that the caller has begun, and with the caller's lease on this context.
    #[inline]
    pub(crate) fn with_leased<R>(
        &self,
        _call: &InCall,
        lease: &Lease,
        f: impl FnOnce(&Driver, Held<'_, H>) -> CudaResult<R>,
    ) -> CudaResult<R> {
        debug_assert_eq!(lease.live().raw(), self.context.as_raw());
        if !self.is_good() || self.context.handle().is_dead() {
            return self.context.gone();
        }
        // SAFETY: as in `with`; the caller's lease keeps the context at the driver.
        f(driver()?, unsafe { Held::new(self.raw) })
    }

    /// Like [`with_pinned`](Self::with_pinned), in a call that the caller has begun.
    #[inline]
    pub(crate) fn with_pinned_in<R>(
        &self,
        _call: &InCall,
        pin: &Pin,
        f: impl FnOnce(&Driver, Held<'_, H>) -> CudaResult<R>,
    ) -> Option<CudaResult<R>> {
        if self.is_good() && pin.keeps(&self.context) {
            // SAFETY: as in `with`; the pin keeps the context at the driver, so no lease is needed.
            return Some(driver_to_drop().and_then(|driver| f(driver, unsafe { Held::new(self.raw) })));
        }
        let (mut f, mut result) = (Some(f), None);
        let mut call = |driver: &Driver, handle: Held<'_, H>| result = f.take().map(|f| f(driver, handle));
        let called = self.call_pinned(pin, &mut call)?;
        called.map_or_else(|error| Some(Err(error)), |()| result)
    }

    // One function for all calls, which makes the crate build faster.
    fn call_pinned(&self, _pin: &Pin, f: &mut dyn FnMut(&Driver, Held<'_, H>)) -> Option<CudaResult<()>> {
        let call = |driver: &Driver| {
            // SAFETY: as in `with`; the pin keeps the context at the driver.
            f(driver, unsafe { Held::new(self.raw) });
            Ok(())
        };
        match self.state {
            State::Spent => None,
            State::Implicit(_) if self.is_of_another_thread() => Some(Err(of_another_thread())),
            State::Implicit(_) => self.context.dispose(call),
            State::Good | State::Lent => {
                let _lease = self.context.lease_to_dispose(LeaseOn::Pinned)?;
                Some(driver_to_drop().and_then(call))
            }
        }
    }
}
