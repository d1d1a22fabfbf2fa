//! Calls that a capture of a stream forbids: which are refused, and how destructors get round it.
//!
//! While a stream captures, the driver forbids calls that cannot be captured and that the graph would lack: allocating,
//! freeing, waiting, asking whether something is done, instantiating a graph, setting a limit. Whoever makes one all the same gets an error, and the capture is broken by it, which may be another
//! thread's. A thread can say that it knows what it does, by its mode ([`RELAXED`]). A destructor does: what it frees
//! was not meant for the graph. All other calls of custack's that would break a capture are refused before the driver is
//! asked.

use super::captures::{self, Forbids, Which};
use super::handle::UnownedContext;
use crate::driver::{Driver, RELAXED, driver};
use crate::error::{CudaError, CudaResult, keep_note};
use crate::report;

/// The mode of a thread that nothing has changed.
const GLOBAL: u32 = 0;

/// Does `f` in the mode in which this thread breaks no capture, and is refused nothing because of one.
pub(crate) fn relaxed<R>(driver: &Driver, f: impl FnOnce() -> R) -> R {
    let _restore = Mode::exchange(driver, RELAXED).ok();
    f()
}

/// This thread's mode, until the value is dropped, which restores the mode before.
pub(crate) struct Mode<'a> {
    driver: &'a Driver,
    before: u32,
}

impl<'a> Mode<'a> {
    pub(crate) fn exchange(driver: &'a Driver, mode: u32) -> CudaResult<Mode<'a>> {
        let before = driver.thread_exchange_stream_capture_mode(mode)?;
        Ok(Mode { driver, before })
    }

    pub(crate) fn before(&self) -> u32 {
        self.before
    }
}

impl Drop for Mode<'_> {
    fn drop(&mut self) {
        let _note = keep_note();
        let restore = || self.driver.thread_exchange_stream_capture_mode(self.before);
        if let Err(error) = restore().or_else(|_| restore()) {
            report::warn(format_args!("this thread's capture mode could not be restored: {error}"));
        }
    }
}

/// Destroys or frees something, and breaks no capture by it: at once in the relaxed mode if one is known to be in
/// progress, and if one turns out to be, once more in it.
#[inline]
pub(crate) fn unbroken<R>(driver: &Driver, f: impl Fn() -> CudaResult<R>) -> CudaResult<R> {
    if captures::any() && captures::forbidding().is_some() {
        return relaxed(driver, f);
    }
    match f() {
        Err(CudaError::StreamCaptureUnsupported) => relaxed(driver, f),
        other => other,
    }
}

/// Refuses a call that a capture in progress forbids this thread to make, and would be broken by; `what` is what was
/// asked.
#[inline]
pub(crate) fn refuse_unsafe(what: &'static str) -> CudaResult<()> {
    if captures::any() { refuse_if_forbidden(what) } else { Ok(()) }
}

#[cold]
fn refuse_if_forbidden(what: &'static str) -> CudaResult<()> {
    let Some((forbids, which)) = captures::forbidding() else { return Ok(()) };
    // The thread's mode, which other code may have changed: the driver knows.
    let mode = Mode::exchange(driver()?, RELAXED)?.before();
    if mode == RELAXED || (mode != GLOBAL && forbids == Forbids::All) {
        return Ok(());
    }
    let whose = if forbids == Forbids::All { ", on another thread" } else { "" };
    Err(refused(what, which, whose))
}

/// Refuses to wait for a context while one of its streams captures.
#[inline]
pub(crate) fn refuse_in_context(context: u64, what: &'static str) -> CudaResult<()> {
    if captures::any() { refuse_if_captured(context, what) } else { Ok(()) }
}

#[cold]
fn refuse_if_captured(context: u64, what: &'static str) -> CudaResult<()> {
    captures::of_context(context, false).map_or(Ok(()), |which| Err(refused(what, which, "")))
}

/// As [`refuse_in_context`], of the current one.
#[inline]
pub(crate) fn refuse_in_current(what: &'static str) -> CudaResult<()> {
    if captures::any() { refuse_if_captured(UnownedContext::of_this_thread()?.id(), what) } else { Ok(()) }
}

/// Refuses work in a context's default stream while one captures for which that would wait.
#[inline]
pub(crate) fn refuse_by_default(context: &UnownedContext, what: &'static str) -> CudaResult<()> {
    if captures::any() { refuse_if_implicit(context, what) } else { Ok(()) }
}

#[cold]
fn refuse_if_implicit(context: &UnownedContext, what: &'static str) -> CudaResult<()> {
    let context = if context.is_null() { UnownedContext::of_this_thread()?.id() } else { context.id() };
    let Some(which) = captures::of_context(context, true) else { return Ok(()) };
    Err(CudaError::StreamCaptureImplicit
        .note(format_args!("to {what}, which would wait for all blocking streams: {which}")))
}

#[cold]
fn refused(what: &str, which: Which, whose: &str) -> CudaError {
    CudaError::StreamCaptureUnsupported.note(format_args!("to {what}: {which}{whose}"))
}
