//! How the driver is called in a context, or on what was made in it, while no thread can destroy the context.

use super::current::CurrentContext;
use super::destroy::Pin;
use super::handle::UnownedContext;
use super::stack_ops;
use crate::driver::{Driver, Live, driver, driver_to_drop};
use crate::error::{CudaResult, twice};
use crate::liveness::{Lease, LeaseOn, promised, registry};

/// While it exists, the handles of what was made in a context may be given to the driver.
pub(crate) struct Access<'a> {
    pub(crate) driver: &'static Driver,
    // Dropped in this order: the context is left before the lease ends.
    _current: Option<CurrentContext<'a>>,
    _lease: Option<Lease>,
}

impl UnownedContext {
    /// Calls `f`, which makes one short driver call on the handle, while no thread can destroy the context.
    #[inline]
    pub(crate) fn hazard<R>(&self, f: impl FnOnce(Live<'_>) -> R) -> CudaResult<R> {
        self.handle().hazard(f).ok_or_else(|| stack_ops::refusal(*self.handle()))
    }

    /// While the lease exists no thread destroys the context; does not change what is current.
    #[inline]
    pub(crate) fn lease(&self) -> CudaResult<Lease> {
        self.handle().lease(LeaseOn::Living).ok_or_else(|| stack_ops::refusal(*self.handle()))
    }

    /// What makes it possible to use what was made in the context, whatever is current.
    #[inline]
    pub(crate) fn access(&self) -> CudaResult<Access<'_>> {
        let driver = driver()?;
        Ok(Access { driver, _current: None, _lease: Some(self.lease()?) })
    }

    /// Calls `f` with a [lease](Self::lease), and with the context current. The null handle means whatever is current.
    #[inline]
    pub(crate) fn inside<R>(&self, f: impl FnOnce(&Driver) -> CudaResult<R>) -> CudaResult<R> {
        let inside = self.go_inside()?;
        f(inside.driver)
    }

    // Not inlined into the methods of all modules, which makes the crate build faster.
    #[inline(never)]
    pub(super) fn go_inside(&self) -> CudaResult<Access<'_>> {
        let driver = driver()?;
        if self.is_null() {
            return Ok(Access { driver, _current: None, _lease: None });
        }
        let lease = self.lease()?;
        let current = self.enter_leased(lease.live())?;
        Ok(Access { driver, _current: Some(current), _lease: Some(lease) })
    }

    /// The context itself that is current on this thread, with a lease.
    #[inline(never)]
    pub(super) fn lease_current() -> CudaResult<(UnownedContext, &'static Driver, Lease)> {
        let context = UnownedContext::current_itself()?;
        let driver = driver()?;
        let lease = context.lease()?;
        Ok((context, driver, lease))
    }

    /// Keeps a function that the driver is to call in this context; see [`promised`].
    pub(crate) fn promise(&self, function: promised::Function) -> u64 {
        promised::keep(*self.handle(), function)
    }

    /// Keeps the context at the driver.
    pub(crate) fn pin(&self) -> CudaResult<Pin> {
        Ok(Pin::new(self, self.lease()?.live()))
    }

    /// Allocates memory in this context, which is current on this thread, and pins the context.
    #[inline]
    pub(crate) fn pinned<R>(&self, allocate: impl FnOnce(&Driver) -> CudaResult<R>) -> CudaResult<(R, Pin)> {
        let driver = driver()?;
        let lease = self.lease()?;
        let pin = Pin::new(self, lease.live());
        Ok((allocate(driver)?, pin))
    }

    /// Frees what was allocated in the context, with the context current; the caller pins it. `None`, without a call,
    /// if other code has destroyed the context. The context may have been ended and be kept by memory alone, or be
    /// alive under another id.
    ///
    /// If the context could not be entered, that is retried once: a destructor has no other chance.
    pub(crate) fn dispose<R>(&self, f: impl FnOnce(&Driver) -> CudaResult<R>) -> Option<CudaResult<R>> {
        let (mut f, mut result) = (Some(f), None);
        let entered = self.dispose_in(&mut |driver| result = f.take().map(|f| f(driver)))?;
        entered.map_or_else(|error| Some(Err(error)), |()| result)
    }

    // One function for all that is disposed of, which makes the crate build faster.
    fn dispose_in(&self, f: &mut dyn FnMut(&Driver)) -> Option<CudaResult<()>> {
        let driver = match driver_to_drop() {
            Ok(driver) => driver,
            Err(error) => return Some(Err(error)),
        };
        let (lease, context) = self.lease_to_dispose(LeaseOn::Pinned)?;
        Some(twice(|| context.enter_leased(lease.live())).map(|_current| f(driver)))
    }

    /// A lease on this context, or on the same context under a later id, which is returned too.
    #[inline]
    pub(super) fn lease_to_dispose(&self, of: LeaseOn) -> Option<(Lease, UnownedContext)> {
        match self.handle().lease(of) {
            Some(lease) => Some((lease, self.clone())),
            None => self.lease_of_successor(),
        }
    }

    #[cold]
    fn lease_of_successor(&self) -> Option<(Lease, UnownedContext)> {
        let successor = registry::successor(*self.handle())?;
        Some((successor.lease(LeaseOn::Retiring)?, successor.into()))
    }
}
