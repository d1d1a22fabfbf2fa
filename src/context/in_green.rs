//! [`CurrentGreenContext`]: the guard of a scope of a green context, and which thread has entered it.

// Drops a guard before the rest of its own value.
#![allow(unsafe_code)]

use super::current::CurrentContext;
use super::green::GreenContext;
use crate::error::{CudaError, CudaResult};
use crate::shadow_stack;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::panic::Location;
use std::ptr;
use std::sync::Arc;

thread_local! {
    /// Lives as long as the thread, and tells it from all others.
    static HERE: Arc<()> = Arc::default();
}

impl GreenContext {
    /// Makes the green context current on the calling thread until the guard is dropped. It costs as much as
    /// [`UnownedContext::enter`](super::UnownedContext::enter), and the guards of both kinds of contexts may be nested and dropped in any order.
    ///
    /// # Errors
    ///
    /// [`HeldByGuard`](CudaError::HeldByGuard) if another thread, which runs, has entered it and forgotten the guard.
    ///
    /// ```
    /// # use custack::context::{CurrentContext, GreenContext};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let mut green = GreenContext::new(&Device::get_device(0)?.sm_resource()?)?;
    /// let current = green.enter()?;
    /// assert_eq!(CurrentContext::get_current()?, *current.handle());
    /// drop(current);
    /// assert!(CurrentContext::get_current()?.is_null());
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuCtxPushCurrent", "cuCtxPopCurrent", "cuCtxFromGreenCtx"))]
    #[track_caller]
    pub fn enter(&mut self) -> CudaResult<CurrentGreenContext<'_>> {
        let here = HERE.try_with(Arc::clone).unwrap_or_default();
        let elsewhere = self.entered.borrow().upgrade().is_some_and(|there| !Arc::ptr_eq(&there, &here));
        if elsewhere {
            return Err(CudaError::HeldByGuard
                .note(format_args!("to enter {}, which another thread has not left", self.handle)));
        }
        let green: &GreenContext = self;
        let current = green.handle.enter_owned(Location::caller())?;
        *green.entered.borrow_mut() = Arc::downgrade(&here);
        Ok(CurrentGreenContext { current: ManuallyDrop::new(current), green })
    }

    /// Runs the closure with the green context current, and restores the stack, also if the closure fails or panics.
    ///
    /// # Errors
    ///
    /// Those of [`enter`](Self::enter), before the closure runs; then the closure's own.
    ///
    /// ```
    /// # use custack::context::GreenContext;
    /// # use custack::device::Device;
    /// # use custack::stream::{Stream, StreamFlags};
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let mut green = GreenContext::new(&Device::get_device(0)?.sm_resource()?)?;
    /// let stream = green.scoped(|_| Stream::new(StreamFlags::NON_BLOCKING, None))?;
    /// assert!(green.has(&stream)?);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[track_caller]
    pub fn scoped<R, E: From<CudaError>>(
        &mut self,
        f: impl FnOnce(&CurrentGreenContext<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        let current = self.enter()?;
        f(&current)
    }
}

/// A green context that is current on the calling thread until this guard is dropped. It derefs to the
/// [`GreenContext`], and cannot leave its thread.
#[derive(Debug)]
#[must_use = "the context is current while the guard lives; a guard that is dropped at once has no effect"]
pub struct CurrentGreenContext<'a> {
    /// Taken once, when the guard is dropped.
    current: ManuallyDrop<CurrentContext<'a>>,
    green: &'a GreenContext,
}

impl Deref for CurrentGreenContext<'_> {
    type Target = GreenContext;

    #[inline]
    fn deref(&self) -> &GreenContext {
        self.green
    }
}

impl Drop for CurrentGreenContext<'_> {
    fn drop(&mut self) {
        // SAFETY: only here, and the field is not used afterwards.
        drop(unsafe { ManuallyDrop::take(&mut self.current) });
        let raw = self.green.handle.as_raw();
        if !shadow_stack::entries().iter().any(|entry| ptr::eq(entry.context.raw(), raw)) {
            self.green.entered.take();
        }
    }
}
