//! [`CurrentGreenContext`]: the guard of a scope of a green context.

use super::GreenContext;
use crate::context::current::{CurrentContext, Scope};
use crate::context::handle::UnownedContext;
use crate::context::stack_ops;
use crate::driver::driver;
use crate::error::{CudaError, CudaResult};
use crate::shadow_stack::{self, How};
use std::ops::Deref;
use std::panic::Location;

impl GreenContext {
    /// Makes the green context current on the calling thread until the guard is dropped. It costs as much as
    /// [`UnownedContext::enter`](crate::context::UnownedContext::enter), and the guards of both kinds of contexts may be nested and dropped in any order.
    ///
    /// # Errors
    ///
    /// [`HeldByGuard`](CudaError::HeldByGuard) as long as it is on the stack of another thread. There a guard holds it, of
    /// the owner or of its handle, or one that was made later lies above it. A guard that was forgotten holds it until
    /// its thread ends (on systems other than Unix for good).
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
        let green: &GreenContext = self;
        let current = green.handle.enter_owned(Location::caller())?;
        Ok(CurrentGreenContext { current, green })
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

impl UnownedContext {
    /// Like [`enter`](Self::enter), for the owner of a green context, which nobody else enters. It is on one thread's stack at a
    /// time, as far as custack puts it there: where other code has made it current, another entry is made.
    fn enter_owned(&self, location: &'static Location<'static>) -> CudaResult<CurrentContext<'_>> {
        let driver = driver()?;
        if self.is_on_top() && shadow_stack::top_is_own() && self.is_alive() {
            if driver.is_current(self.as_raw())? {
                return Ok(self.guard_top());
            }
            self.report_change();
        }
        let Ok(taken) = self.handle().take() else {
            return Err(CudaError::HeldByGuard
                .note(format_args!("to enter {self}, which is still on the stack of another thread")));
        };
        match stack_ops::push_entry(driver, self.handle(), How::Entered, location, 1) {
            Ok(serial) => {
                if taken {
                    shadow_stack::top_takes();
                }
                Ok(self.guard(serial, Scope::Switched))
            }
            Err(error) => {
                match taken {
                    // The failed call left it on the stack, and it could not be popped.
                    true if self.is_on_top() && shadow_stack::top_is_own() => shadow_stack::top_takes(),
                    true => self.handle().let_go(),
                    false => {}
                }
                Err(error)
            }
        }
    }
}

/// A green context that is current on the calling thread until this guard is dropped. It derefs to the
/// [`GreenContext`], and cannot leave its thread.
#[derive(Debug)]
#[must_use = "the context is current while the guard lives; a guard that is dropped at once has no effect"]
pub struct CurrentGreenContext<'a> {
    #[allow(dead_code, reason = "leaves the context when it is dropped")]
    current: CurrentContext<'a>,
    green: &'a GreenContext,
}

impl Deref for CurrentGreenContext<'_> {
    type Target = GreenContext;

    #[inline]
    fn deref(&self) -> &GreenContext {
        self.green
    }
}
