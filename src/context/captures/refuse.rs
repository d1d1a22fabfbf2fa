//! The refusals of calls that would break a capture in progress.

use super::{Forbids, Which, any, forbidding, list, of_context, of_event, of_stream};
use crate::context::handle::UnownedContext;
use crate::context::relaxed::Mode;
use crate::driver::{RELAXED, driver};
use crate::error::{CudaError, CudaResult};

/// The initial mode of a thread.
const GLOBAL: u32 = 0;

/// Refuses a call that cannot be captured if the stream is capturing; `what` is what was asked.
#[inline]
pub(crate) fn refuse_in(stream: usize, what: &'static str) -> CudaResult<()> {
    if any() { refuse_in_known(stream, what) } else { Ok(()) }
}

#[cold]
fn refuse_in_known(stream: usize, what: &'static str) -> CudaResult<()> {
    let Some(which) = of_stream(stream) else { return Ok(()) };
    Err(CudaError::StreamCaptureUnsupported.note(format_args!("to {what}: {which}")))
}

/// Refuses to query an event that was last recorded in a capture in progress.
#[inline]
pub(crate) fn refuse_of(event: usize, what: &'static str) -> CudaResult<()> {
    if any() { refuse_of_known(event, what) } else { Ok(()) }
}

#[cold]
fn refuse_of_known(event: usize, what: &'static str) -> CudaResult<()> {
    let Some(which) = of_event(event) else { return Ok(()) };
    Err(CudaError::CapturedEvent.note(format_args!("to {what} that was recorded in a capture: {which}")))
}

/// Refuses to merge two captures: a stream of one cannot wait for an event of the other.
#[inline]
pub(crate) fn refuse_merge(stream: usize, event: usize) -> CudaResult<()> {
    if any() { refuse_merge_known(stream, event) } else { Ok(()) }
}

#[cold]
fn refuse_merge_known(stream: usize, event: usize) -> CudaResult<()> {
    let captures = list();
    let of_event = captures.iter().find(|capture| capture.events.contains(&event));
    let of_stream = captures.iter().find(|capture| capture.has(stream));
    let (Some(event), Some(stream)) = (of_event, of_stream) else { return Ok(()) };
    if event.number == stream.number {
        return Ok(());
    }
    let (event, stream) = (event.which, stream.which);
    drop(captures);
    Err(CudaError::StreamCaptureMerge
        .note(format_args!("to wait for an event of another capture: {stream}, and {event}")))
}

/// Refuses to have a stream that is capturing wait for an event whose last record, which is known, was outside of all captures
/// in progress.
#[cold]
pub(crate) fn refuse_outside(stream: usize, event: usize) -> CudaResult<()> {
    match of_stream(stream).filter(|_| of_event(event).is_none()) {
        Some(which) => Err(CudaError::StreamCaptureIsolation
            .note(format_args!("to wait for an event that was recorded outside of the capture: {which}"))),
        None => Ok(()),
    }
}

/// Whether a capture in progress forbids calls to this thread, as far as its mode lets it.
#[inline]
pub(in crate::context) fn forbid() -> bool {
    any() && forbidding().is_some()
}

/// Refuses a call that a capture in progress forbids to this thread, and that would break the capture.
#[inline]
pub(in crate::context) fn refuse_forbidden(what: &'static str) -> CudaResult<()> {
    if any() { refuse_if_forbidden(what) } else { Ok(()) }
}

#[cold]
fn refuse_if_forbidden(what: &'static str) -> CudaResult<()> {
    let Some((forbids, which)) = forbidding() else { return Ok(()) };
    // Other code may have changed the thread's mode, so the driver is asked.
    let mode = Mode::exchange(driver()?, RELAXED)?.before;
    if mode == RELAXED || (mode != GLOBAL && forbids == Forbids::All) {
        return Ok(());
    }
    let whose = if forbids == Forbids::All { ", on another thread" } else { "" };
    Err(refused(what, which, whose))
}

/// Refuses to wait for a context while one of its streams captures. A null context stands for the current one.
#[inline]
pub(in crate::context) fn refuse_waiting(context: &UnownedContext, what: &'static str) -> CudaResult<()> {
    if any() { refuse_if_captured(context, what) } else { Ok(()) }
}

#[cold]
fn refuse_if_captured(context: &UnownedContext, what: &'static str) -> CudaResult<()> {
    of_context(raw(context)?, false).map_or(Ok(()), |which| Err(refused(what, which, "")))
}

/// Refuses work in a context's default stream while a stream is capturing that it would wait for. A null context stands for
/// the current one.
#[inline]
pub(in crate::context) fn refuse_implicit(context: &UnownedContext, what: &'static str) -> CudaResult<()> {
    if any() { refuse_if_implicit(context, what) } else { Ok(()) }
}

#[cold]
fn refuse_if_implicit(context: &UnownedContext, what: &'static str) -> CudaResult<()> {
    let Some(which) = of_context(raw(context)?, true) else { return Ok(()) };
    Err(CudaError::StreamCaptureImplicit
        .note(format_args!("to {what}, which would wait for all blocking streams: {which}")))
}

/// The address of this context, or of the current one if it is null.
fn raw(context: &UnownedContext) -> CudaResult<usize> {
    let here = if context.is_null() { UnownedContext::of_this_thread()? } else { context.clone() };
    Ok(here.as_raw().addr())
}

#[cold]
fn refused(what: &str, which: Which, whose: &str) -> CudaError {
    CudaError::StreamCaptureUnsupported.note(format_args!("to {what}: {which}{whose}"))
}
