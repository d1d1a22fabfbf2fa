//! What becomes of a capture that was begun by hand, and whose stream is dropped or given away.

use super::{Shared, Stream};
use crate::context::captures;
use crate::driver::{Driver, Held, ffi::CUstream};
use crate::error::{CudaResult, DropResult};
use crate::{
    context::{Pin, is_gone},
    error::keep_note,
};
use std::sync::Arc;

/// The part of a stream's owner that ends the capture which was begun in the stream by hand. Memory in the order of the
/// stream may keep the stream itself for long.
#[derive(Debug)]
pub(super) struct EndsCapture(usize);

impl EndsCapture {
    /// For the owner of the stream.
    #[inline]
    pub(super) fn of(stream: &Shared) -> EndsCapture {
        EndsCapture(if stream.is_owned() { stream.raw().addr() } else { 0 })
    }

    /// For a value that owns nothing.
    #[inline]
    pub(super) fn nothing() -> EndsCapture {
        EndsCapture(0)
    }

    /// Leaves the capture to whoever destroys the stream.
    #[inline]
    pub(super) fn disarm(mut self) {
        self.0 = 0;
    }

    /// The stream is given away, and with it the capture.
    pub(super) fn give_away(self) {
        captures::give_away(self.0);
        self.disarm();
    }
}

impl Drop for EndsCapture {
    #[inline]
    fn drop(&mut self) {
        if self.0 != 0 {
            captures::lose_in(self.0);
        }
    }
}

impl captures::ByHand for Shared {
    fn end_capture(&self, pin: &Pin) -> CudaResult<()> {
        self.end_lost(pin)
    }

    fn still_captures(&self, pin: &Pin) -> bool {
        if self.is_of_another_thread() {
            // It can be neither ended nor asked here. Its capture is over with that thread, which may be gone, or with the
            // context, which is free to go then.
            return false;
        }
        let _note = keep_note();
        match self.with_pinned(pin, Driver::stream_is_capturing) {
            Some(Ok(status)) => status != 0,
            // A driver that cannot say that the capture is over may still forbid what captures forbid. One that never will, as
            // the context is in error, ends it with the context, which goes when its owner is dropped.
            Some(Err(error)) => !is_gone(error) && self.context().is_alive(),
            None => false,
        }
    }
}

impl Stream {
    /// Destroys the stream after a call that may have failed, whose error is returned rather than that of destroying.
    pub(super) fn drop_after(self, first: CudaResult<()>) -> DropResult<Stream> {
        let Stream { raw, inner, ends_capture } = self;
        match Arc::try_unwrap(inner) {
            Ok(shared) => {
                ends_capture.disarm();
                let (stream, green) = shared.into_stream();
                stream.drop_after(first).map_err(|(error, stream)| (error, Stream::from((stream, green))))
            }
            Err(inner) => {
                // Dropped as a whole: once the stream is destroyed, another may have its handle, and a capture.
                let shared = Stream { raw, ends_capture, inner };
                first.map_err(|error| (error, shared))
            }
        }
    }
}

impl Shared {
    /// Has the driver end the capture that was begun in this stream by hand, and destroy its graph.
    pub(super) fn end_lost(&self, pin: &Pin) -> CudaResult<()> {
        let end = |driver: &Driver, stream: Held<'_, CUstream>| {
            driver.end_capture(stream).and_then(|graph| driver.discard_graph(graph))
        };
        self.with_pinned(pin, end).unwrap_or_else(|| pin.context().gone())
    }
}
