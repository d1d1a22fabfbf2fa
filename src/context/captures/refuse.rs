//! The refusals of calls that would break a capture in progress.

use super::{any, list, of_event, of_stream};
use crate::error::{CudaError, CudaResult};

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
