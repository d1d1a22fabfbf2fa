//! What is made in a context and has a handle of the driver's: streams, events, modules, arrays.

// Vouches for the handles it holds; see the `SAFETY` lines.
#![allow(unsafe_code)]

use super::current::CurrentContext;
use super::moves;
use super::unowned::UnownedContext;
use crate::driver::{Driver, Held, driver};
use crate::error::{CudaError, CudaResult};
use crate::report;
use std::cell::Cell;
use std::mem::ManuallyDrop;

impl UnownedContext {
    /// The current context, for what is made in it.
    pub(crate) fn of_this_thread() -> CudaResult<UnownedContext> {
        let current = moves::current(driver()?)?;
        if current.is_null() {
            return Err(CudaError::InvalidContext.note(format_args!("no context is current on this thread")));
        }
        current.usable().map(|()| current)
    }

    /// The handle that stands for no context, for what needs none.
    pub(crate) fn none() -> UnownedContext {
        UnownedContext::null()
    }

    /// Refuses a context that is gone; none is well.
    pub(crate) fn usable_or_none(&self) -> CudaResult<()> {
        if self.is_null() { Ok(()) } else { self.usable() }
    }

    /// Calls `f` with the context current and nobody able to destroy it. A null handle stands for whatever is current.
    #[inline]
    pub(crate) fn inside<R>(&self, f: impl FnOnce(&Driver) -> CudaResult<R>) -> CudaResult<R> {
        if self.is_null() {
            return f(driver()?);
        }
        let _current = self.enter_by_call()?;
        let driver = driver()?;
        self.protect(|_| f(driver))?
    }

    /// [`enter`](Self::enter), once for all rooms and not inlined into each of their methods: what they do takes
    /// microseconds, and the crate's build a second less.
    #[inline(never)]
    fn enter_by_call(&self) -> CudaResult<CurrentContext<'_>> {
        self.enter()
    }
}

/// Frees or destroys something of the context. If the call was not reached, because the context could not be entered,
/// it is tried once more: a destructor has no later. A call that failed is not repeated: it may have done its work.
pub(crate) fn dispose(context: &UnownedContext, f: impl Fn(&Driver) -> CudaResult<()>) -> CudaResult<()> {
    let reached = Cell::new(false);
    let try_once = || {
        context.inside(|driver| {
            reached.set(true);
            f(driver)
        })
    };
    match try_once() {
        Err(error) if !reached.get() && !is_gone(error) => try_once(),
        result => result,
    }
}

/// Whether an error says that something is gone already, so that there is nothing to destroy.
pub(crate) fn is_gone(error: CudaError) -> bool {
    matches!(error, CudaError::Deinitialized | CudaError::InvalidContext | CudaError::ContextIsDestroyed)
}

/// A handle and the context that it is of. The handle comes first: programs in the wild read it there.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Resource<H: Copy> {
    raw: H,
    context: UnownedContext,
    destroy: fn(&Driver, Held<'_, H>) -> CudaResult<()>,
}

// SAFETY: the driver's functions may be called on any thread, with the handles of any thread.
unsafe impl<H: Copy> Send for Resource<H> {}
// SAFETY: as above; they may be called on several at once, too.
unsafe impl<H: Copy> Sync for Resource<H> {}

impl<H: Copy> Resource<H> {
    /// # Safety
    ///
    /// The handle is good and of this context, and nothing else will destroy it; `destroy` destroys it.
    pub(crate) unsafe fn new(
        raw: H,
        context: UnownedContext,
        destroy: fn(&Driver, Held<'_, H>) -> CudaResult<()>,
    ) -> Resource<H> {
        Resource { raw, context, destroy }
    }

    /// Makes something in the current context.
    pub(crate) fn make(
        make: impl FnOnce(&Driver) -> CudaResult<H>,
        destroy: fn(&Driver, Held<'_, H>) -> CudaResult<()>,
    ) -> CudaResult<Resource<H>> {
        let context = UnownedContext::of_this_thread()?;
        let raw = context.inside(make)?;
        // SAFETY: made in this context a moment ago, and for nobody else.
        Ok(unsafe { Resource::new(raw, context, destroy) })
    }

    pub(crate) fn raw(&self) -> H {
        self.raw
    }

    pub(crate) fn context(&self) -> &UnownedContext {
        &self.context
    }

    /// Calls `f` with the handle while its context is current and alive.
    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&Driver, Held<'_, H>) -> CudaResult<R>) -> CudaResult<R> {
        // SAFETY: this value owns the handle, and its context cannot be destroyed meanwhile.
        self.context.inside(|driver| f(driver, unsafe { Held::new(self.raw) }))
    }

    fn destroy_now(&self) -> CudaResult<()> {
        // SAFETY: as in `with`.
        let destroy = |driver: &Driver| (self.destroy)(driver, unsafe { Held::new(self.raw) });
        match dispose(&self.context, destroy) {
            Err(error) if is_gone(error) => Ok(()),
            result => result,
        }
    }

    /// Destroys; on failure the error, and the value to try again.
    pub(crate) fn drop(self) -> Result<(), (CudaError, Resource<H>)> {
        match self.destroy_now() {
            Ok(()) => {
                std::mem::forget(self);
                Ok(())
            }
            Err(error) => Err((error, self)),
        }
    }

    /// Gives the handle away.
    pub(crate) fn into_raw(self) -> H {
        ManuallyDrop::new(self).raw
    }
}

impl<H: Copy> Drop for Resource<H> {
    fn drop(&mut self) {
        if let Err(error) = self.destroy_now() {
            report::warn(format_args!("something of {} could not be destroyed: {error}", self.context));
        }
    }
}
