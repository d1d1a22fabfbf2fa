//! Streams that wait for events.

use super::{Event, refuse_external};
use crate::error::CudaResult;
use crate::stream::{Stream, StreamWaitEventFlags};
use std::borrow::Borrow;

impl Stream {
    /// Makes the stream's later work wait for the event's current marker. The event may belong to another context. It
    /// may be passed by value, as in RustaCUDA, or by reference.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed), for either;
    /// [`IllegalState`](crate::error::CudaError::IllegalState) for `EXTERNAL`;
    /// [`StreamCaptureIsolation`](crate::error::CudaError::StreamCaptureIsolation), before the driver is called, in a stream
    /// that is capturing, for an event whose last record that custack knows of was outside of the capture. Of records by
    /// other code nothing is known: if it has recorded an event in the capture that was recorded through custack before,
    /// it has to make the stream wait, too; and to wait for an event that it has recorded outside breaks the capture.
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for flags that the driver does not know.
    #[doc(alias = "cuStreamWaitEvent")]
    #[inline]
    pub fn wait_event<E: Borrow<Event>>(&self, event: E, flags: StreamWaitEventFlags) -> CudaResult<()> {
        if flags.contains(StreamWaitEventFlags::EXTERNAL) {
            return Err(refuse_external("wait"));
        }
        let event = event.borrow();
        self.waiting(event.inner(), event.is_known(), |driver, event, stream| {
            driver.stream_wait_event(stream, event, flags.bits())
        })
    }
}
