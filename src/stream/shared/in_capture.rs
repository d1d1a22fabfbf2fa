//! What a stream that memory shares does as a capture begins in it, and what must not become part of one.

use super::Shared;
use crate::context::captures::Turn;
use crate::context::in_call::{wait_for_legacy_stream, wait_for_whole_context};
use crate::context::{Pin, captures};
use crate::driver::Driver;
use crate::error::{CudaError, CudaResult};
use crate::liveness::wait_for_uncaptured;
use crate::stream::captured_elsewhere;
use std::ptr;

impl Shared {
    /// The stream captures: its green context, if it is of one, stays as long as what becomes of the capture.
    #[inline]
    pub(crate) fn keep_green_in_capture(&self) {
        if let Some(pin) = self.green.as_ref().and_then(|pin| pin.another().ok()) {
            captures::also_in(self.stream.key(), pin);
        }
    }

    /// While the result exists, no other thread begins or joins a capture in this stream, or waits for its work to free
    /// memory.
    #[inline]
    pub(crate) fn beginning(&self) -> CudaResult<Turn> {
        Turn::at(self.stream.key())
    }

    /// Called when the stream is listed as capturing, before it begins or joins the capture: waits until nothing is
    /// allocated or freed in its order, which would become part of the graph, and, if it is blocking, until no call is made
    /// in the legacy stream, which would break the capture; nor in it or for its whole context, if that would. Records what memory in its order that is dropped meanwhile has
    /// to wait for.
    #[inline]
    pub(crate) fn will_capture(&self, _beginning: &Turn, blocking: bool) -> CudaResult<()> {
        if blocking {
            wait_for_legacy_stream(self.stream.context());
        }
        let uncaptured = wait_for_uncaptured(self.stream.key());
        wait_for_whole_context(self.stream.context());
        if !uncaptured {
            let what =
                "to begin a capture: another thread copies, allocates or frees in the order of the stream";
            return Err(CudaError::IllegalState.note(format_args!("{what}, and does not come to an end")));
        }
        // Other streams' memory is used in this one only after the mark was made.
        if self.number.get().is_none() && self.mark.get().is_none() {
            return Ok(());
        }
        self.event(&self.before_capture)?.with_both(&self.stream, Driver::event_record)
    }

    pub(super) fn wait_for_event_or_stream(&self, pin: &Pin) -> CudaResult<()> {
        let beginning = self.beginning()?;
        match captures::by_which_value(self.stream.key()) {
            None => {
                match self.stream.with_pinned(pin, Driver::stream_is_capturing) {
                    None => return Ok(()),
                    Some(Ok(0)) => {}
                    // Other code began the capture, and waiting for the stream would break it.
                    Some(capturing) => return capturing.and_then(|_| captured_elsewhere()),
                }
                // A wait for the stream would break a capture that begins meanwhile, or keep it from beginning.
                let recorded = self
                    .event(&self.before_capture)
                    .and_then(|event| event.with_both(&self.stream, Driver::event_record));
                if recorded.is_err() {
                    // The owner of its context is gone, so no capture begins in it any more.
                    drop(beginning);
                    return self.stream.with_pinned(pin, Driver::stream_synchronize).unwrap_or(Ok(()));
                }
            }
            Some(by) if by == ptr::from_ref(self).addr() => {}
            // It began in another value for this stream, which has recorded nothing here.
            Some(_) => return captured_elsewhere(),
        }
        let event = self.before_capture.get();
        drop(beginning);
        event.and_then(|event| event.with_pinned(pin, Driver::event_synchronize)).unwrap_or(Ok(()))
    }

    /// Whether the stream is capturing. Then nothing can be freed in its order, and the graph owns what is allocated.
    #[inline]
    pub(crate) fn captures(&self) -> bool {
        captures::any() && captures::of_stream(self.stream.key()).is_some()
    }
}
