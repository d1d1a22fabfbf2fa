//! What stands for [`in_capture`](super::in_capture) without the feature `graph`, where no capture is known.

use super::{Shared, Stream, captured_elsewhere};
use crate::context::{Pin, Resource};
use crate::driver::ffi::{CUevent, CUstream};
use crate::driver::{Driver, Held};
use crate::error::CudaResult;

impl Stream {
    #[inline]
    pub(crate) fn recording(
        &self,
        event: &Resource<CUevent>,
        record: impl Fn(&Driver, Held<'_, CUevent>, Held<'_, CUstream>) -> CudaResult<()>,
    ) -> CudaResult<()> {
        event.with_both(&self.inner, record)
    }

    #[inline]
    pub(crate) fn waiting(
        &self,
        event: &Resource<CUevent>,
        _recorded: bool,
        wait: impl Fn(&Driver, Held<'_, CUevent>, Held<'_, CUstream>) -> CudaResult<()>,
    ) -> CudaResult<()> {
        event.with_both(&self.inner, wait)
    }

    #[cfg(feature = "future")]
    pub(crate) fn wait_uncaptured(&self, event: &Resource<CUevent>, _what: &'static str) -> CudaResult<()> {
        event.with_both(&self.inner, |driver, event, stream| driver.stream_wait_event(stream, event, 0))
    }
}

impl Shared {
    #[inline]
    pub(crate) const fn captures(&self) -> bool {
        false
    }

    /// Waits for the stream's work, unless other code captures the stream, as that would break the capture.
    pub(super) fn wait_for_event_or_stream(&self, pin: &Pin) -> CudaResult<()> {
        match self.with_pinned(pin, Driver::stream_is_capturing) {
            Some(Ok(0)) => {}
            Some(capturing) => return capturing.and_then(|_| captured_elsewhere()),
            None => return Ok(()),
        }
        // A wait for the stream would break a capture that begins meanwhile, or keep it from beginning.
        match self.mark().and_then(|mark| mark.with_both(self, Driver::event_record).map(|()| mark)) {
            Ok(mark) => mark.with_pinned(pin, Driver::event_synchronize),
            // The owner of its context is gone.
            Err(_) => self.with_pinned(pin, Driver::stream_synchronize),
        }
        .unwrap_or(Ok(()))
    }
}

pub(super) fn destroy(driver: &Driver, stream: Held<'_, CUstream>) -> CudaResult<()> {
    driver.stream_destroy(stream)
}
