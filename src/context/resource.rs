//! Everything that is made in a context and has a driver handle: streams, events, modules, arrays.

// Vouches for the handles that it holds; see the `SAFETY` lines.
#![allow(unsafe_code)]

mod kept;

use super::access::Access;
use super::destroy::Pin;
use super::handle::UnownedContext;
use super::in_call::{InCall, enter};
use super::key::{Capturable, this_thread};
use super::relaxed::unbroken;
use crate::driver::{Driver, Held, driver, driver_to_drop, in_host_function};
use crate::error::{CudaError, CudaResult, keep_note};
use crate::liveness::{LeaseOn, WAITS, is_ending, retire};
use crate::report;
use std::fmt;
use std::mem::ManuallyDrop;

/// Whether an error means that there is nothing left to destroy.
pub(crate) fn is_gone(error: CudaError) -> bool {
    matches!(error, CudaError::Deinitialized | CudaError::InvalidContext | CudaError::ContextIsDestroyed)
}

/// Whether a destructor has to retire its work: in a host function the driver refuses every call, and on a thread that
/// is ending thread-locals may be gone.
pub(crate) fn must_retire() -> bool {
    in_host_function() || is_ending()
}

/// A handle and its context. The handle comes first: existing programs read it there.
#[repr(C)]
pub(crate) struct Resource<H: Capturable> {
    pub(super) raw: H,
    pub(super) context: UnownedContext,
    destroy: fn(&Driver, Held<'_, H>) -> CudaResult<()>,
    pub(super) state: State,
}

/// What a handle may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// For everything; the driver knows its context.
    Good,
    /// For everything except destroying it: another value owns it.
    Lent,
    /// For nothing: destroying failed and may have taken effect, so the handle is not given to the driver again.
    Spent,
    /// Only while its context is current, because the handle means a default stream of the current context; and, unless
    /// the number is 0, only on the thread with this number.
    Implicit(u64),
}

// SAFETY: the driver's functions may be called on any thread, with handles made on any thread.
unsafe impl<H: Capturable> Send for Resource<H> {}
// SAFETY: as above; they may also be called concurrently.
unsafe impl<H: Capturable> Sync for Resource<H> {}

impl<H: Capturable> Resource<H> {
    /// # Safety
    ///
    /// The handle is valid and belongs to this context, nothing else will destroy it, and `destroy` destroys it.
    pub(crate) unsafe fn new(
        raw: H,
        context: UnownedContext,
        destroy: fn(&Driver, Held<'_, H>) -> CudaResult<()>,
    ) -> Resource<H> {
        Resource { raw, context, destroy, state: State::Good }
    }

    /// A default stream of the context, and of the calling thread if `of_thread`. It is never destroyed.
    pub(crate) fn implicit(raw: H, context: UnownedContext, of_thread: bool) -> Resource<H> {
        let state = State::Implicit(if of_thread { this_thread() } else { 0 });
        Resource { raw, context, destroy: |_, _| Ok(()), state }
    }

    /// Makes a resource in the current context.
    pub(crate) fn make(
        make: impl FnOnce(&Driver) -> CudaResult<H>,
        destroy: fn(&Driver, Held<'_, H>) -> CudaResult<()>,
    ) -> CudaResult<Resource<H>> {
        let (context, driver, _lease) = UnownedContext::lease_current()?;
        // SAFETY: just made in this context, and given to nothing else.
        Ok(unsafe { Resource::new(make(driver)?, context.base(), destroy) })
    }

    /// Like [`make`](Self::make), for a stream: a green context in which it is made has to stay as long as the stream.
    pub(crate) fn make_kept(
        make: impl FnOnce(&Driver) -> CudaResult<H>,
        destroy: fn(&Driver, Held<'_, H>) -> CudaResult<()>,
    ) -> CudaResult<(Resource<H>, Option<Pin>)> {
        let (context, driver, _lease) = UnownedContext::lease_current()?;
        let pin = context.pin_if_green()?;
        // SAFETY: as in `make`.
        Ok((unsafe { Resource::new(make(driver)?, context.base(), destroy) }, pin))
    }

    /// A resource of this context that the returned value does not own.
    ///
    /// # Safety
    ///
    /// The handle is valid as long as the value is used.
    pub(crate) unsafe fn of_another(raw: H, context: UnownedContext) -> Resource<H> {
        Resource { raw, context, destroy: |_, _| Ok(()), state: State::Lent }
    }

    /// Makes a resource in a context, whatever is current.
    pub(crate) fn make_in(
        context: &UnownedContext,
        make: impl FnOnce(&Driver) -> CudaResult<H>,
        destroy: fn(&Driver, Held<'_, H>) -> CudaResult<()>,
    ) -> CudaResult<Resource<H>> {
        context.usable()?;
        let raw = context.inside(make)?;
        // SAFETY: just made in this context, and nothing else has the handle.
        Ok(unsafe { Resource::new(raw, context.base(), destroy) })
    }

    pub(crate) fn raw(&self) -> H {
        self.raw
    }

    pub(crate) fn context(&self) -> &UnownedContext {
        &self.context
    }

    /// Calls `f` with the handle while its context is alive, whatever is current: the driver finds the context by the
    /// handle.
    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&Driver, Held<'_, H>) -> CudaResult<R>) -> CudaResult<R> {
        let driver = driver()?;
        // Not one `access`: moving what is nearly always only a lease would cost as much as taking it.
        let (_lease, _access);
        if self.is_good() {
            _lease = self.context.lease()?;
        } else {
            _access = self.access_current()?;
        }
        let _call = self.enter()?;
        // SAFETY: this value owns the handle, and its context is not destroyed meanwhile.
        f(driver, unsafe { Held::new(self.raw) })
    }

    /// Like [`with`](Self::with), in a call that the caller has begun.
    #[inline]
    pub(crate) fn with_in<R>(
        &self,
        _call: &InCall,
        f: impl FnOnce(&Driver, Held<'_, H>) -> CudaResult<R>,
    ) -> CudaResult<R> {
        let driver = driver()?;
        let (_lease, _access);
        if self.is_good() {
            _lease = self.context.lease()?;
        } else {
            _access = self.access_current()?;
        }
        // SAFETY: as in `with`.
        f(driver, unsafe { Held::new(self.raw) })
    }

    /// Like [`with`](Self::with), for a call that waits for work. Not for streams, where it would break captures.
    #[inline]
    pub(crate) fn wait(&self, f: impl FnOnce(&Driver, Held<'_, H>) -> CudaResult<()>) -> CudaResult<()> {
        let call = enter([self.key(), WAITS])?;
        self.with_in(&call, f)
    }

    #[inline]
    pub(crate) fn access(&self) -> CudaResult<Access<'_>> {
        if self.is_good() { self.context.access() } else { self.access_current() }
    }

    /// Like [`access`](Self::access), with the context current.
    fn access_current(&self) -> CudaResult<Access<'_>> {
        self.usable()?;
        self.context.go_inside()
    }

    /// A call on it, with the handle; see [`in_call`](super::in_call).
    #[inline]
    fn enter(&self) -> CudaResult<InCall> {
        enter([self.key(), 0])
    }

    /// What it is known by in the list of captures.
    #[inline]
    pub(crate) fn key(&self) -> usize {
        self.raw.key(&self.context)
    }

    #[inline]
    fn is_good(&self) -> bool {
        matches!(self.state, State::Good | State::Lent)
    }

    /// Whether dropping this value destroys the resource.
    pub(crate) fn is_owned(&self) -> bool {
        matches!(self.state, State::Good)
    }

    /// Whether it is the default stream of another thread, which cannot be used on this one.
    pub(crate) fn is_of_another_thread(&self) -> bool {
        matches!(self.state, State::Implicit(thread) if thread != 0 && thread != this_thread())
    }

    /// Refuses a handle that cannot be used on this thread, or at all.
    pub(crate) fn usable(&self) -> CudaResult<()> {
        match self.state {
            State::Good | State::Lent => Ok(()),
            State::Implicit(_) if self.is_of_another_thread() => Err(of_another_thread()),
            State::Implicit(_) => self.context.usable(),
            State::Spent => Err(spent()),
        }
    }

    /// Like [`with`](Self::with), with a second handle, and under one lease if both belong to one context.
    #[inline]
    pub(crate) fn with_both<O: Capturable, R>(
        &self,
        other: &Resource<O>,
        f: impl FnOnce(&Driver, Held<'_, H>, Held<'_, O>) -> CudaResult<R>,
    ) -> CudaResult<R> {
        let driver = driver()?;
        let (_lease, _own, _other);
        if self.is_good() && other.is_good() && self.context == other.context {
            _lease = self.context.lease()?;
        } else {
            (_own, _other) = (self.access()?, other.access()?);
        }
        let _call = enter([self.key(), other.key()])?;
        // SAFETY: as in `with`, for both.
        unsafe { f(driver, Held::new(self.raw), Held::new(other.raw)) }
    }

    /// Like [`with`](Self::with), with the context current.
    #[inline]
    pub(crate) fn with_current<R>(
        &self,
        f: impl FnOnce(&Driver, Held<'_, H>) -> CudaResult<R>,
    ) -> CudaResult<R> {
        let driver = driver()?;
        let (_lease, _access);
        if self.is_good() && self.context.is_on_top() {
            // Nothing is entered, so no guard is needed to leave it again.
            _lease = self.context.lease()?;
            if !driver.is_current(self.context.as_raw())? {
                _access = self.access_current()?;
            }
        } else {
            _access = self.access_current()?;
        }
        let _call = self.enter()?;
        // SAFETY: as in `with`.
        f(driver, unsafe { Held::new(self.raw) })
    }

    fn destroy_now(&self) -> CudaResult<()> {
        if !self.is_owned() {
            return Ok(());
        }
        let driver = driver_to_drop()?;
        let Some(_lease) = self.context.lease_to_dispose(LeaseOn::Retiring) else { return Ok(()) };
        let _call = self.enter()?;
        // SAFETY: as in `with`; the driver finds the context by the handle.
        let destroyed = unbroken(driver, || (self.destroy)(driver, unsafe { Held::new(self.raw) }));
        destroyed.or_else(|error| if is_gone(error) { Ok(()) } else { Err(error) })
    }

    /// The last attempt of a destructor.
    fn destroy_at_last(&self) {
        if let Err(error) = self.destroy_now() {
            self.report(error);
        }
    }

    fn report(&self, error: CudaError) {
        report::warn(format_args!("a resource of {} could not be destroyed: {error:?}", self.context));
    }

    /// Destroys the resource; on failure returns the error and the value. The value is spent then, because the call may
    /// have done its work, except where the driver refuses every call.
    pub(crate) fn drop(self) -> Result<(), (CudaError, Resource<H>)> {
        self.drop_after(Ok(()))
    }

    /// Like [`drop`](Self::drop), after a call that may have failed, whose error is returned rather than that of
    /// destroying.
    pub(crate) fn drop_after(mut self, first: CudaResult<()>) -> Result<(), (CudaError, Resource<H>)> {
        let destroyed = self.destroy_now();
        if destroyed != Err(CudaError::NotPermitted) {
            self.state = State::Spent;
        }
        first.and(destroyed).map_err(|error| (error, self))
    }

    /// The same resource in another value; this one is spent.
    pub(crate) fn take(&mut self) -> Resource<H> {
        let Resource { raw, ref context, destroy, state } = *self;
        let taken = Resource { raw, context: context.clone(), destroy, state };
        self.state = State::Spent;
        taken
    }

    /// Another value owns the resource from here on.
    pub(crate) fn give_up(&mut self) {
        if self.is_owned() {
            self.state = State::Lent;
        }
    }

    /// Gives the handle away.
    pub(crate) fn into_raw(self) -> H {
        ManuallyDrop::new(self).raw
    }
}

#[cold]
fn of_another_thread() -> CudaError {
    CudaError::InvalidHandle.note(format_args!("to use another thread's per-thread stream"))
}

#[cold]
fn spent() -> CudaError {
    CudaError::InvalidHandle
        .note(format_args!("to use it after an attempt to destroy it failed and may have taken effect"))
}

impl<H: Capturable + fmt::Debug> fmt::Debug for Resource<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource")
            .field("raw", &self.raw)
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}

impl<H: Capturable> Drop for Resource<H> {
    fn drop(&mut self) {
        if !self.is_owned() {
            return;
        }
        let _note = keep_note();
        let Resource { raw, ref context, destroy, .. } = *self;
        // SAFETY: the copy takes the handle over, because this value is being dropped.
        let other = ManuallyDrop::new(unsafe { Resource::new(raw, context.clone(), destroy) });
        match if must_retire() { Err(CudaError::NotPermitted) } else { self.destroy_now() } {
            Ok(()) => {}
            Err(CudaError::NotPermitted) => retire(move || other.destroy_at_last()),
            Err(error) => self.report(error),
        }
    }
}
