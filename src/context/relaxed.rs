//! Calls that captures forbid: which custack refuses, and how destructors make them without breaking a capture.
//!
//! While a stream is capturing, the driver forbids calls that cannot be captured: allocating, freeing, waiting,
//! querying, instantiating a graph, setting a limit. Such a call returns an error and breaks the capture, even that of
//! another thread. A thread in the relaxed mode ([`RELAXED`]) is exempt. Destructors use that mode, because what they
//! free is not meant for the graph. All other calls that would break a capture are refused before the driver is called.

use super::captures;
use super::handle::UnownedContext;
use super::in_call::{InCall, enter_legacy_stream, enter_whole_context};
use crate::driver::{Driver, RELAXED};
use crate::error::{CudaError, CudaResult, keep_note, twice};
use crate::liveness::{BREAKS, WAITS};
use crate::report;

/// Until the result is dropped this thread is in the relaxed mode, in which it breaks no capture and is refused nothing
/// because of one.
pub(crate) fn relax(driver: &Driver) -> Option<Mode<'_>> {
    let _note = keep_note();
    Mode::exchange(driver, RELAXED).ok()
}

/// A guard of this thread's mode; dropping it restores the previous mode.
pub(crate) struct Mode<'a> {
    driver: &'a Driver,
    pub(super) before: u32,
}

impl<'a> Mode<'a> {
    pub(crate) fn exchange(driver: &'a Driver, mode: u32) -> CudaResult<Mode<'a>> {
        let before = driver.thread_exchange_stream_capture_mode(mode)?;
        Ok(Mode { driver, before })
    }
}

impl Drop for Mode<'_> {
    fn drop(&mut self) {
        restore_mode(self.driver, self.before);
    }
}

/// Sets this thread's mode to what it was, in a destructor.
pub(crate) fn restore_mode(driver: &Driver, mode: u32) {
    let _note = keep_note();
    let restore = || driver.thread_restore_stream_capture_mode(mode);
    if let Err(error) = twice(restore) {
        report::warn(format_args!("this thread's capture mode could not be restored: {error:?}"));
    }
}

/// Destroys or frees something without breaking a capture: in the relaxed mode if a capture is known to be in progress,
/// or again in that mode if the driver reports one.
#[inline]
pub(crate) fn unbroken(driver: &Driver, f: impl Fn() -> CudaResult<()>) -> CudaResult<()> {
    if !captures::forbid() {
        let result = f();
        if !matches!(result, Err(CudaError::StreamCaptureUnsupported)) {
            return result;
        }
    }
    relaxed(driver, &f)
}

#[cold]
fn relaxed(driver: &Driver, f: &dyn Fn() -> CudaResult<()>) -> CudaResult<()> {
    let _relaxed = relax(driver);
    f()
}

/// Refuses a call that a capture in progress forbids to this thread, and that would break the capture; `what` is what
/// was asked.
#[inline]
pub(crate) fn refuse_unsafe(what: &'static str) -> CudaResult<()> {
    captures::refuse_forbidden(what)
}

/// Refuses to wait for a context while one of its streams captures; the result is held during the call.
#[inline]
pub(crate) fn refuse_in_context(context: &UnownedContext, what: &'static str) -> CudaResult<InCall> {
    refuse_whole(context, WAITS, what)
}

/// Like [`refuse_in_context`], for a call that concerns the whole context and waits for nothing.
#[inline]
pub(crate) fn refuse_of_context(context: &UnownedContext, what: &'static str) -> CudaResult<InCall> {
    refuse_whole(context, BREAKS, what)
}

#[inline]
fn refuse_whole(context: &UnownedContext, how: usize, what: &'static str) -> CudaResult<InCall> {
    // Before anything is published, too: else loops of refused calls would keep captures from beginning.
    captures::refuse_waiting(context, what)?;
    let call = enter_whole_context(context, how)?;
    captures::refuse_waiting(context, what)?;
    Ok(call)
}

/// Like [`refuse_in_context`], for the current context.
#[inline]
pub(crate) fn refuse_in_current(what: &'static str) -> CudaResult<InCall> {
    refuse_in_context(&UnownedContext::none(), what)
}

/// Refuses work in a context's default stream, as [`refuse_by_default`] does, in a call that is published by what makes it.
#[inline]
pub(crate) fn refuse_in_legacy(context: &UnownedContext, what: &'static str) -> CudaResult<()> {
    captures::refuse_implicit(context, what)
}

/// Refuses work in a context's default stream while a stream is capturing that it would wait for; the result is held during
/// the call.
#[inline]
pub(crate) fn refuse_by_default(context: &UnownedContext, what: &'static str) -> CudaResult<InCall> {
    captures::refuse_implicit(context, what)?;
    let call = enter_legacy_stream(context)?;
    captures::refuse_implicit(context, what)?;
    Ok(call)
}
