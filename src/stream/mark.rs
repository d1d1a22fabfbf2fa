//! Streams that wait for each other by events, which are made once and reused.

use super::Stream;
use crate::context::{Resource, captures};
use crate::driver::ffi::{CUevent, CUstream};
use crate::driver::{Driver, Held};
use crate::error::CudaResult;

impl Stream {
    /// Makes the other streams' later work wait for the present work of this stream. They may be of other contexts and
    /// devices.
    ///
    /// It costs one driver call, and one more for each of them. The event, without timing, is made once and reused.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed), for any of them; any error of the driver.
    /// Some of the streams may wait all the same.
    ///
    /// ```
    /// use custack::stream::{Stream, StreamFlags};
    ///
    /// let context = custack::quick_init()?;
    /// let main = context.create_stream(StreamFlags::NON_BLOCKING, None)?;
    /// let left = context.create_stream(StreamFlags::NON_BLOCKING, None)?;
    /// let right = context.create_stream(StreamFlags::NON_BLOCKING, None)?;
    /// main.launch_host_func(|| println!("first"))?;
    /// main.fork([&left, &right])?;
    /// left.launch_host_func(|| println!("then this and"))?;
    /// right.launch_host_func(|| println!("that, in any order"))?;
    /// main.join([&left, &right])?;
    /// main.launch_host_func(|| println!("at last"))?;
    /// main.synchronize()?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuEventRecord", "cuStreamWaitEvent"))]
    #[inline]
    pub fn fork<'a>(&self, others: impl IntoIterator<Item = &'a Stream>) -> CudaResult<()> {
        let mut others = others.into_iter().peekable();
        if others.peek().is_none() {
            return Ok(());
        }
        let mark = self.marked()?;
        others.try_for_each(|other| other.wait_for(mark))
    }

    /// Makes this stream's later work wait for the present work of the other streams. They may be of other contexts and
    /// devices.
    ///
    /// It costs two driver calls for each of them. The events, without timing, are made once and reused.
    ///
    /// # Errors
    ///
    /// Like [`fork`](Self::fork).
    #[doc(alias("cuEventRecord", "cuStreamWaitEvent"))]
    #[inline]
    pub fn join<'a>(&self, others: impl IntoIterator<Item = &'a Stream>) -> CudaResult<()> {
        others.into_iter().try_for_each(|other| self.wait_for(other.marked()?))
    }

    /// The event, recorded after the present work. If two threads do this at the same time, both get the later marker,
    /// and wait for more than they need.
    fn marked(&self) -> CudaResult<&Resource<CUevent>> {
        let mark = self.inner.mark()?;
        self.recording(mark, Driver::event_record)?;
        Ok(mark)
    }

    fn wait_for(&self, mark: &Resource<CUevent>) -> CudaResult<()> {
        self.waiting(mark, true, |driver, event, stream| driver.stream_wait_event(stream, event, 0))
    }
}

/// A driver call with an event and a stream.
pub(crate) type EventCall<'a> = dyn Fn(&Driver, Held<'_, CUevent>, Held<'_, CUstream>) -> CudaResult<()> + 'a;

pub(super) fn destroy_mark(driver: &Driver, event: Held<'_, CUevent>) -> CudaResult<()> {
    captures::forget_event(event.address());
    driver.event_destroy(event)
}
