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
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for flags that the driver does not know.
    #[doc(alias = "cuStreamWaitEvent")]
    #[inline]
    pub fn wait_event<E: Borrow<Event>>(&self, event: E, flags: StreamWaitEventFlags) -> CudaResult<()> {
        if flags.contains(StreamWaitEventFlags::EXTERNAL) {
            return Err(refuse_external("wait"));
        }
        self.waiting(event.borrow().inner(), |driver, event, stream| {
            driver.stream_wait_event(stream, event, flags.bits())
        })
    }
}
