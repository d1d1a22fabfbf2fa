//! What a stream does while captures are in progress: events that it records and waits for, and its destruction.

use super::{EventCall, Stream, StreamFlags};
use crate::context::captures::{self, Member, Turn};
use crate::context::{Pin, Resource, refuse_in_legacy};
use crate::driver::ffi::{CUevent, CUstream};
use crate::driver::{Driver, Held};
use crate::error::{CudaError, CudaResult, keep_note};
use crate::liveness::{WAITS, wait_for_calls, wait_for_waits};
use std::sync::Arc;

impl Stream {
    /// What must be known about the stream during a capture. It is queried before, because querying the flags would
    /// break the capture.
    #[inline]
    pub(crate) fn member(&self) -> CudaResult<(Member, Pin)> {
        let (flags, pin) =
            self.inner.with_pin(|driver, stream| match driver.stream_is_capturing(stream)? {
                0 => driver.stream_get_flags(stream),
                _ => Err(CudaError::IllegalState
                    .note(format_args!("to begin a capture in a stream that other code captures"))),
            })?;
        let blocking = flags & StreamFlags::NON_BLOCKING.bits() == 0;
        let stream = self.key();
        let by = Arc::as_ptr(&self.inner).addr();
        let (context, raw_context) = (self.context().id(), self.context().as_raw().addr());
        Ok((Member { stream, context, raw_context, blocking, by }, pin))
    }

    /// Records an event by `record`, and notes in which capture that was, if any.
    #[inline]
    pub(crate) fn recording(
        &self,
        event: &Resource<CUevent>,
        record: impl Fn(&Driver, Held<'_, CUevent>, Held<'_, CUstream>) -> CudaResult<()>,
    ) -> CudaResult<()> {
        let mut is_known = false;
        let recorded = self.unless_captures(event, &record, &mut is_known);
        if is_known { self.recording_in_captures(event, &record) } else { recorded }
    }

    /// Waits for an event by `wait`, and notes whether the stream joins the event's capture. `recorded` is whether the event
    /// was recorded by [`recording`](Self::recording) before.
    #[inline]
    pub(crate) fn waiting(
        &self,
        event: &Resource<CUevent>,
        recorded: bool,
        wait: impl Fn(&Driver, Held<'_, CUevent>, Held<'_, CUstream>) -> CudaResult<()>,
    ) -> CudaResult<()> {
        let mut is_known = false;
        let waited = self.unless_captures(event, &wait, &mut is_known);
        if is_known { self.waiting_in_captures(event, recorded, &wait) } else { waited }
    }

    /// Makes this stream, which nothing else uses, wait for an event that must not be of a capture; `what` is what was
    /// asked.
    pub(crate) fn wait_uncaptured(&self, event: &Resource<CUevent>, what: &'static str) -> CudaResult<()> {
        let wait = |driver: &Driver, event: Held<'_, CUevent>, stream: Held<'_, CUstream>| {
            driver.stream_wait_event(stream, event, 0)
        };
        let mut is_known = false;
        let waited = self.unless_captures(event, wait, &mut is_known);
        if !is_known {
            return waited;
        }
        let _turn = Turn::at(event.raw().addr())?;
        captures::refuse_of(event.raw().addr(), what)?;
        event.with_both(&self.inner, wait)
    }

    /// Makes the call, unless a capture has the stream or the event, or may be broken by a call in this legacy stream, which
    /// `is_known` tells. That is looked up when the call is published: who adds the stream or the event to a capture later
    /// waits for the call. It may block in the driver, as a stream has room for only so much work. (It is no `Option` of the
    /// result: moving the result once more took as long as all of custack's part of the call.)
    #[inline]
    fn unless_captures(
        &self,
        event: &Resource<CUevent>,
        call: impl Fn(&Driver, Held<'_, CUevent>, Held<'_, CUstream>) -> CudaResult<()>,
        is_known: &mut bool,
    ) -> CudaResult<()> {
        let at = event.raw().addr();
        event.with_both(&self.inner, |driver, event, stream| {
            *is_known = captures::any() && (self.is_legacy() || captures::concern(self.key(), at));
            if *is_known { Ok(()) } else { call(driver, event, stream) }
        })
    }

    #[cold]
    fn recording_in_captures(&self, event: &Resource<CUevent>, record: &EventCall<'_>) -> CudaResult<()> {
        let (stream, at) = (self.key(), event.raw().addr());
        let _turn = Turn::at(at)?;
        captures::will_be_recorded(at, stream);
        // Other threads, which knew of no capture, record it, wait for it, or query it.
        wait_for_calls(|[event, with]| event == at && with != WAITS);
        wait_for_waits(|[event, _]| event == at);
        let recorded = event.with_both(&self.inner, record);
        // A driver that has failed may have recorded it all the same.
        if recorded.is_ok() {
            captures::recorded(at, stream);
        }
        recorded
    }

    #[cold]
    fn waiting_in_captures(
        &self,
        event: &Resource<CUevent>,
        recorded: bool,
        wait: &EventCall<'_>,
    ) -> CudaResult<()> {
        let (stream, at) = (self.key(), event.raw().addr());
        // Before the turns, in which others wait for published calls; and again when the call is.
        let refuse = || {
            if self.is_legacy() {
                refuse_in_legacy(self.context(), "wait for an event in a legacy stream")?;
            }
            captures::refuse_merge(stream, at)?;
            if recorded { captures::refuse_outside(stream, at) } else { Ok(()) }
        };
        refuse()?;
        let wait = || {
            event.with_both(&self.inner, |driver, event, stream| {
                refuse()?;
                wait(driver, event, stream)
            })
        };
        // Dropped after the turns, because that may destroy the context.
        let _unused: Pin;
        let _turn = Turn::at(at)?;
        if captures::of_event(at).is_none() || captures::of_stream(stream).is_some() {
            return wait();
        }
        // Queried now, because that is forbidden during the capture. Captures of other code are not known here.
        let (member, pin) = match self.member() {
            Err(CudaError::IllegalState) => return wait(),
            member => member?,
        };
        let blocking = member.blocking;
        let beginning = self.inner.beginning()?;
        if captures::of_stream(stream).is_some() {
            _unused = pin;
            return wait();
        }
        if let Err(pin) = captures::joins(member, at, pin) {
            _unused = pin;
            return wait();
        }
        let waited = self.inner.will_capture(&beginning, blocking).and_then(|()| wait());
        // A driver that fails may have made the stream part of the capture all the same, and one that succeeds may not, if it
        // had failed to record the event.
        let joined = {
            let _note = keep_note();
            self.inner.with(Driver::stream_is_capturing).map_or(waited.is_ok(), |status| status != 0)
        };
        if joined {
            self.inner.keep_green_in_capture();
        } else {
            captures::forget_stream(stream);
        }
        waited
    }
}

/// Destroys a stream. A capture that began in it and was not ended is ended, and reported as lost.
pub(super) fn destroy(driver: &Driver, stream: Held<'_, CUstream>) -> CudaResult<()> {
    if captures::any() {
        return destroy_capturing(driver, stream);
    }
    driver.stream_destroy(stream)
}

/// Ends the capture that began in a stream, destroys its graph, and then the stream: with it ends a capture that the driver
/// would not end, which is listed until then.
fn destroy_capturing(driver: &Driver, stream: Held<'_, CUstream>) -> CudaResult<()> {
    let at = stream.address();
    let lost = captures::end_lost_in(at).map(|lost| {
        let ended = driver.end_capture(stream).and_then(|graph| driver.discard_graph(graph));
        (lost, ended)
    });
    // Before the driver gives the handle to another stream.
    captures::forget_stream(at);
    let destroyed = driver.stream_destroy(stream);
    let Some((lost, ended)) = lost else { return destroyed };
    let which = lost.which;
    // Before the report, in which a subscriber may wait for what uses the capture's streams.
    let _pins = lost.into_pins();
    crate::report::warn(format_args!("a stream is destroyed, and its capture lost: {which}: {ended:?}"));
    destroyed
}
