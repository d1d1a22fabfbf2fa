//! [`CurrentContext`]: RustaCUDA's functions on the current context, and the guard of a scope.

use super::handle::{ContextHandle, UnownedContext};
use super::relaxed::refuse_in_current;
use super::stack_ops;
use crate::device::Device;
use crate::driver::ffi::CUcontext;
use crate::driver::{Driver, Failed, Live, driver, driver_to_drop};
use crate::error::CudaResult;
use crate::report;
use crate::sealed::Sealed;
use crate::shadow_stack::{self, How};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::Location;
use std::ptr;

/// The context on top of the calling thread's stack.
///
/// As a namespace it has the functions that query and change the current context, such as
/// `CurrentContext::synchronize()`. As a value it is the guard that [`enter`](UnownedContext::enter) returns: its
/// context is current on this thread until the guard is dropped, which restores the stack. It derefs to the handle, so
/// `current.synchronize()` works on it. It cannot leave its thread or outlive the handle it came from:
///
/// ```compile_fail
/// # use custack::context::{Context, ContextFlags};
/// # use custack::device::Device;
/// # custack::init(custack::CudaFlags::empty()).unwrap();
/// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0).unwrap()).unwrap();
/// let current = ctx.enter().unwrap();
/// drop(ctx); // the guard still borrows it
/// current.synchronize().unwrap();
/// ```
///
/// ```compile_fail
/// # use custack::context::{Context, ContextFlags};
/// # use custack::device::Device;
/// # custack::init(custack::CudaFlags::empty()).unwrap();
/// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0).unwrap()).unwrap();
/// let current = ctx.enter().unwrap();
/// std::thread::scope(|scope| {
///     scope.spawn(|| drop(current)); // the guard is about this thread's stack
/// });
/// ```
///
/// Guards may be dropped in any order. If one is dropped while a later guard lives, the later guard's context stays
/// current, and the earlier guard's entry is popped when it comes to the top. Whatever a scope left on the stack above
/// its own entry is popped with it, unless a living guard holds it.
#[derive(Debug)]
#[must_use = "the context is current while the guard lives; a guard that is dropped at once has no effect"]
pub struct CurrentContext<'a> {
    context: &'a UnownedContext,
    /// The serial number of the entry that it holds.
    serial: u64,
    scope: Scope,
    // A guard belongs to one thread's stack: neither `Send` nor `Sync`.
    thread: PhantomData<*const ()>,
}

/// What the end of a scope does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// It pops the entry that the beginning pushed.
    Switched,
    /// The context was current. The end looks whether it is, because the program's code ran in the
    /// scope.
    Found,
    /// The context was current, and only code of custack's ran in the scope.
    FoundByCustack,
}

impl UnownedContext {
    /// Makes the context current on the calling thread until the guard is dropped.
    ///
    /// Costs two driver calls, a push and a pop. If the context is current already, the two calls
    /// ask what is current, and write nothing that threads share. The guard restores the stack
    /// either way, also after a change by other code, such as `cudaSetDevice`.
    ///
    /// # Errors
    ///
    /// * [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed): without a driver call.
    /// * [`InvalidContext`](crate::error::CudaError::InvalidContext): a null handle.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags, ContextStack, CurrentContext};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// ContextStack::pop()?;
    ///
    /// let current = ctx.enter()?;
    /// assert_eq!(CurrentContext::get_current()?, *current);
    /// drop(current);
    /// assert!(CurrentContext::get_current()?.is_null());
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuCtxPushCurrent", "cuCtxPopCurrent"))]
    #[track_caller]
    #[inline]
    pub fn enter(&self) -> CudaResult<CurrentContext<'_>> {
        // First, because it may restore the stack.
        let driver = driver()?;
        if self.is_on_top() && self.is_alive() {
            return match driver.try_get() {
                Ok(raw) if ptr::eq(raw, self.as_raw()) => Ok(self.guard_top()),
                odd => self.enter_changed(driver, odd, Location::caller()),
            };
        }
        self.switch(driver, Location::caller())
    }

    /// Like [`enter`](Self::enter), for a scope in which no code of the program runs.
    pub(crate) fn enter_for_custack(&self) -> CudaResult<CurrentContext<'_>> {
        let mut current = self.enter()?;
        if current.scope == Scope::Found {
            current.scope = Scope::FoundByCustack;
        }
        Ok(current)
    }

    /// The same for a caller that has a lease, also on a retiring context. It is not inlined into
    /// the methods of all modules, which makes the crate build faster.
    #[inline(never)]
    pub(super) fn enter_leased(&self, live: Live<'_>) -> CudaResult<CurrentContext<'_>> {
        let (driver, location) = (driver_to_drop()?, Location::caller());
        if shadow_stack::is_top(self.handle()) {
            if driver.is_current(self.as_raw())? {
                // The tombstone was there before this scope and stays after it, so the guard holds no entry.
                let serial = if self.is_alive() { shadow_stack::hold_top() } else { 0 };
                return Ok(self.guard(serial, Scope::FoundByCustack));
            }
            self.report_change();
        }
        if self.is_found(driver, location)? {
            return Ok(self.guard(shadow_stack::hold_top(), Scope::FoundByCustack));
        }
        stack_ops::refuse_green(self.handle())?;
        stack_ops::push_leased(driver, self.handle(), live, location)
            .map(|serial| self.guard(serial, Scope::Switched))
    }

    #[inline]
    pub(super) fn guard_top(&self) -> CurrentContext<'_> {
        self.guard(shadow_stack::hold_top(), Scope::Found)
    }

    #[inline]
    pub(super) fn guard(&self, serial: u64, scope: Scope) -> CurrentContext<'_> {
        CurrentContext { context: self, serial, scope, thread: PhantomData }
    }

    #[inline(never)]
    fn switch(
        &self,
        driver: &Driver,
        location: &'static Location<'static>,
    ) -> CudaResult<CurrentContext<'_>> {
        stack_ops::refuse_green(self.handle())?;
        if self.is_found(driver, location)? {
            return Ok(self.guard_top());
        }
        match stack_ops::push_entry(driver, self.handle(), How::Entered, location, 1) {
            Ok(serial) => Ok(self.guard(serial, Scope::Switched)),
            Err(error) => Err(error),
        }
    }

    /// Whether the context is current, as far as custack knows.
    #[inline]
    pub(super) fn is_on_top(&self) -> bool {
        shadow_stack::is_top(self.handle())
    }

    /// Whether other code has made the context current; asks the driver only if a probe is due. If so, a found entry is
    /// added, on which later scopes find the context.
    #[inline]
    fn is_found(&self, driver: &Driver, location: &'static Location<'static>) -> CudaResult<bool> {
        if shadow_stack::should_probe() { self.probe(driver, location) } else { Ok(false) }
    }

    #[cold]
    fn probe(&self, driver: &Driver, location: &'static Location<'static>) -> CudaResult<bool> {
        let found = self.is_alive() && driver.is_current(self.as_raw())?;
        if found {
            shadow_stack::forget_found();
            shadow_stack::push(self.handle(), How::Found, location, 0);
        }
        Ok(found)
    }

    /// Enters where the driver's answer differs from the shadow stack.
    #[cold]
    fn enter_changed(
        &self,
        driver: &Driver,
        current: Result<CUcontext, Failed>,
        location: &'static Location<'static>,
    ) -> CudaResult<CurrentContext<'_>> {
        current.map_err(|failed| failed.of("cuCtxGetCurrent"))?;
        self.report_change();
        self.switch(driver, location)
    }

    #[cold]
    pub(super) fn report_change(&self) {
        report::debug(format_args!(
            "{self} should be current and is not: other code changed this thread's context stack"
        ));
        shadow_stack::forget_found();
        shadow_stack::probe_soon();
    }

    /// Runs the closure with the context current, and restores the stack, also if the closure fails or panics, and
    /// whatever it left on the stack.
    ///
    /// # Errors
    ///
    /// Those of [`enter`](Self::enter), before the closure runs; then the closure's own.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// let device = ctx.scoped(|current| {
    ///     current.synchronize()?;
    ///     current.device()
    /// })?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuCtxPushCurrent", "cuCtxPopCurrent"))]
    #[track_caller]
    #[inline]
    pub fn scoped<R>(&self, f: impl FnOnce(&CurrentContext<'_>) -> CudaResult<R>) -> CudaResult<R> {
        let current = self.enter()?;
        f(&current)
    }
}

impl Drop for CurrentContext<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.scope == Scope::Switched || !shadow_stack::release_top(self.serial) {
            self.leave();
        } else if self.scope == Scope::Found {
            stack_ops::look_again(self.context.handle());
        }
    }
}

impl CurrentContext<'_> {
    #[inline(never)]
    fn leave(&self) {
        match self.scope {
            Scope::Switched => stack_ops::leave(self.context.handle(), self.serial),
            _ => stack_ops::release_guard(self.serial, false),
        }
    }
}

impl Deref for CurrentContext<'_> {
    type Target = UnownedContext;

    #[inline]
    fn deref(&self) -> &UnownedContext {
        self.context
    }
}

impl fmt::Display for CurrentContext<'_> {
    /// Like its handle.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.context.fmt(f)
    }
}

impl Sealed for CurrentContext<'_> {}

impl ContextHandle for CurrentContext<'_> {
    fn get_inner(&self) -> CUcontext {
        self.as_raw()
    }

    #[inline]
    fn as_unowned(&self) -> &UnownedContext {
        self.context
    }
}

/// RustaCUDA's functions on the current context. Each makes one driver call and, unless documented otherwise, returns
/// [`InvalidContext`](crate::error::CudaError::InvalidContext) if no context is current and
/// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed) if a destroyed one is.
impl CurrentContext<'_> {
    /// A handle to the current context; a [null](UnownedContext::is_null) handle if there is none.
    ///
    /// Together with [`set_current`](Self::set_current) it saves and restores the current context, including "none".
    ///
    /// # Errors
    ///
    /// [`NotInitialized`](crate::error::CudaError::NotInitialized).
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags, CurrentContext};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// assert!(CurrentContext::get_current()?.is_null());
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// assert_eq!(CurrentContext::get_current()?, ctx.get_unowned());
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxGetCurrent")]
    #[inline]
    pub fn get_current() -> CudaResult<UnownedContext> {
        stack_ops::current(driver()?).map(UnownedContext::from)
    }

    /// Makes the context current, in place of the top of the stack or as its first entry. A
    /// [null](UnownedContext::is_null) handle pops the top, and does nothing on an empty stack.
    ///
    /// # Errors
    ///
    /// * [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed): without a driver call.
    /// * [`HeldByGuard`](crate::error::CudaError::HeldByGuard): the top was entered by a guard that is still alive.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags, CurrentContext};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// let unowned = ctx.get_unowned();
    /// std::thread::spawn(move || CurrentContext::set_current(&unowned)).join().unwrap()?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxSetCurrent")]
    #[track_caller]
    #[inline]
    pub fn set_current<C: ContextHandle>(c: &C) -> CudaResult<()> {
        stack_ops::set(c.as_unowned().handle())
    }

    /// The device of the current context, even of a destroyed one.
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](crate::error::CudaError::InvalidContext).
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags, CurrentContext};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// assert_eq!(CurrentContext::get_device()?, Device::get_device(0)?);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxGetDevice")]
    pub fn get_device() -> CudaResult<Device> {
        driver()?.ctx_get_device().map(Device::from_raw)
    }

    /// Waits until the device has finished all work of the current context.
    ///
    /// # Errors
    ///
    /// Those of all these functions, and the error of work that failed.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags, CurrentContext};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// CurrentContext::synchronize()?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxSynchronize")]
    pub fn synchronize() -> CudaResult<()> {
        let _call = refuse_in_current("wait for the current context")?;
        driver()?.ctx_synchronize()
    }
}
