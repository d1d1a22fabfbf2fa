//! What happens when an owner is dropped, and when the last memory of a retiring context is freed.

use super::captures;
use super::handle::UnownedContext;
use super::relaxed::relax;
use super::resource::must_retire;
use super::stack_ops;
use crate::driver::{Driver, Live, driver_to_drop};
use crate::error::{CudaError, CudaResult, keep_note, twice};
use crate::liveness::{self, Claimed, Handle, Hold, LeaseOn, is_ending, retire};
use crate::report;
use crate::shadow_stack;

/// Ends the context's life, destroys the context unless something keeps it, and clears it off the top of this thread's
/// stack.
///
/// If it fails and the context is alive, nothing was done. If the context is dead, the driver was asked to destroy it
/// and may have done so.
pub(super) fn destroy(context: Handle) -> CudaResult<()> {
    let driver = driver_to_drop()?;
    if is_ending() {
        retire_context(context);
        stack_ops::clear_destroyed(driver, context);
        return Ok(());
    }
    let own = own(driver, context)?;
    let Some(hold) = context.hazard(|live| Hold::new(driver, live, own)) else {
        stack_ops::clear_destroyed(driver, context);
        return Ok(());
    };
    let hold = hold.inspect_err(|_| stack_ops::undo_hold(driver, context, own))?;
    let claimed = if context.end_life() { context.claim() } else { None };
    let result = match claimed {
        Some(claimed) => if_captured(driver, || claimed.finish_held(hold)),
        None => {
            hold.release(context);
            Ok(())
        }
    };
    stack_ops::clear_destroyed(driver, context);
    captures::lose_of_context(context.id());
    result
}

/// Like [`destroy`], for destructors: the context's life ends whatever happens, and what fails here is retired.
pub(super) fn destroy_quietly(context: Handle) {
    match destroy(context) {
        Ok(()) => {}
        Err(error) if context.is_alive() => {
            retire_context(context);
            if error == CudaError::NotPermitted {
                return;
            }
            report::warn(format_args!("{context} could not be destroyed at once: {error:?}"));
            if let Ok(driver) = driver_to_drop() {
                stack_ops::clear_destroyed(driver, context);
            }
        }
        Err(error) => report::warn(format_args!("destroying {context}: {error:?}")),
    }
}

/// Like [`destroy`], for a green context. Its handle is not made current for it, because the driver keeps what is behind.
pub(super) fn destroy_green(context: Handle) -> CudaResult<()> {
    let driver = driver_to_drop()?;
    if is_ending() {
        retire_context(context);
        stack_ops::clear_destroyed(driver, context);
        return Ok(());
    }
    let claimed = if context.end_life() { context.claim() } else { None };
    let result = claimed.map_or(Ok(()), |claimed| if_captured(driver, || claimed.finish(0)));
    stack_ops::clear_destroyed(driver, context);
    result
}

/// Like [`destroy_quietly`], for a green context.
pub(super) fn destroy_green_quietly(context: Handle) {
    match destroy_green(context) {
        Ok(()) => {}
        // Refused in a host function, before anything was done.
        Err(_) if context.is_alive() => retire_context(context),
        Err(error) => report::warn(format_args!("destroying {context}: {error:?}")),
    }
}

fn retire_context(context: Handle) {
    if context.end_life() {
        retire(move || {
            captures::lose_of_context(context.id());
            finish(context.claim());
        });
    }
}

/// Destroys a context that nothing keeps any more.
pub(super) fn finish(claimed: Option<Claimed>) {
    let Some(claimed) = claimed else { return };
    if must_retire() {
        return retire(move || claimed.finish_quietly(0));
    }
    let Ok(driver) = driver_to_drop() else { return claimed.finish_quietly(0) };
    let context = claimed.context();
    match own(driver, context) {
        Ok(own) => {
            if_captured(driver, || claimed.finish_quietly(own));
            stack_ops::clear_pushed(driver, context);
        }
        // On that thread's stack there are none.
        Err(_) => retire(move || claimed.finish_quietly(0)),
    }
}

/// Destroys a context so that no capture is broken by it.
fn if_captured<R>(driver: &Driver, f: impl FnOnce() -> R) -> R {
    let _relaxed = if captures::forbid() { relax(driver) } else { None };
    f()
}

/// How many entries on top of this thread's stack are the context's. 0 if other code has changed the stack, so that
/// custack's entries are covered or gone.
fn own(driver: &Driver, context: Handle) -> CudaResult<usize> {
    let (own, raw) = (shadow_stack::run(context.raw()), context.raw());
    let is_there = own > 0 && twice(|| driver.is_current(raw))?;
    Ok(if is_there { own } else { 0 })
}

/// Keeps a context at the driver while it exists; memory holds one.
#[derive(Debug)]
pub(crate) struct Pin(UnownedContext);

impl Pin {
    /// The caller has a lease on the context.
    pub(crate) fn new(context: &UnownedContext, lease: Live<'_>) -> Pin {
        context.handle().pin(lease);
        Pin(context.clone())
    }

    /// Whether it is of this context, and the driver still has the context, which only other code can destroy: a thread of
    /// custack's that wants to finds the pin, and leaves the context alone.
    #[inline]
    pub(super) fn keeps(&self, context: &UnownedContext) -> bool {
        self.0 == *context && !context.handle().is_dead()
    }

    /// Another for the same context.
    pub(crate) fn another(&self) -> CudaResult<Pin> {
        let lease = self.0.handle().lease(LeaseOn::Pinned);
        lease.map_or_else(|| self.0.gone(), |lease| Ok(Pin::new(&self.0, lease.live())))
    }

    /// The context, alive or not.
    pub(crate) fn context(&self) -> &UnownedContext {
        &self.0
    }

    /// A number that leads back to the context with [`UnownedContext::numbered`] while it is pinned; 0 if it has none.
    pub(crate) fn number(&self) -> u16 {
        self.0.handle().number()
    }
}

impl Drop for Pin {
    #[inline]
    fn drop(&mut self) {
        if self.0.handle().unpin() {
            finish_unpinned(*self.0.handle());
        }
    }
}

#[cold]
fn finish_unpinned(context: Handle) {
    let _note = keep_note();
    finish(context.claim());
}

/// Waits until everything is destroyed that could not be destroyed when it was dropped.
///
/// Most things are destroyed when their drop returns. This waits for the others:
///
/// * what was dropped in a host function, or while its thread ended;
/// * memory that was dropped while the stream in whose order it is captured;
/// * a context whose owner was dropped while another thread was in a call on it that has returned;
/// * a future of [`future`](crate::future) that was dropped early, with its value and its share in the context. This
///   waits for its work too, so the work must not wait for this thread.
///
/// custack itself keeps nothing else. This does not wait for:
///
/// * other work: what a host function or a callback owns that is yet to be called, and what an executable graph keeps
///   for its launch. Synchronise the context first;
/// * what a graph keeps: the driver drops it some time after the last launch, and does not tell when;
/// * calls of other threads, and threads that are ending. Join them first. The end of `std::thread::scope` is too early:
///   it does not wait for the destructors of thread-locals;
/// * what the program still has, and contexts that its memory keeps; a future that was forgotten;
/// * work of which the driver did not say whether it is done: it returned an error, or a capture did not allow to ask
///   about the legacy stream.
///
/// # Errors
///
/// [`NotPermitted`](CudaError::NotPermitted) in a host function, and in a `tracing` subscriber that is called on the
/// retirement thread; [`OperatingSystemError`](CudaError::OperatingSystemError) if that thread cannot be started.
///
/// ```
/// use custack::stream::{Stream, StreamFlags};
///
/// let context = custack::quick_init()?;
/// let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
/// let other = Stream::new(StreamFlags::NON_BLOCKING, None)?;
/// stream.add_callback(Box::new(move |_| drop(other)))?; // the driver refuses to destroy it here
/// stream.synchronize()?;
/// custack::context::wait_until_retired()?;
/// # Ok::<(), custack::error::CudaError>(())
/// ```
pub fn wait_until_retired() -> CudaResult<()> {
    liveness::wait()
}
