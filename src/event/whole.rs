//! Events of whole contexts: after all their present work, and before all their later work.

use super::Event;
use crate::context::{UnownedContext, captures, refuse_of_context};
use crate::driver::Driver;
use crate::error::{CudaError, CudaResult};

impl UnownedContext {
    /// Puts the event's marker after all work that the context has now, in all its streams (CUDA 12.5 and later). Of a
    /// primary context that includes the work of its green contexts.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](CudaError::InvalidHandle) for an event of another context;
    /// [`StreamCaptureUnsupported`](CudaError::StreamCaptureUnsupported) while a stream of the context captures;
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed);
    /// [`CallRequiresNewerDriver`](CudaError::CallRequiresNewerDriver) on an older driver.
    ///
    /// ```
    /// use custack::event::EventFlags;
    /// use custack::stream::StreamFlags;
    ///
    /// let context = custack::quick_init()?;
    /// let (one, two) = (context.create_stream(StreamFlags::NON_BLOCKING, None)?, context.create_stream(StreamFlags::NON_BLOCKING, None)?);
    /// one.launch_host_func(|| println!("in one stream"))?;
    /// two.launch_host_func(|| println!("in another"))?;
    /// let done = context.create_event(EventFlags::DISABLE_TIMING)?;
    /// context.record_event(&done)?;
    /// done.synchronize()?; // both
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxRecordEvent")]
    #[inline]
    pub fn record_event(&self, event: &Event) -> CudaResult<()> {
        self.record_whole(event, |driver, event| driver.ctx_record_event(self.lease()?.live(), event))
    }

    /// Makes all later work of the context, in all its streams, wait for the event's current marker (CUDA 12.5 and
    /// later). Of a primary context that includes the work of its green contexts. The event may be of another context.
    ///
    /// # Errors
    ///
    /// [`StreamCaptureUnsupported`](CudaError::StreamCaptureUnsupported) while a stream of the context captures;
    /// [`CapturedEvent`](CudaError::CapturedEvent) if the event was recorded in a capture;
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed), for either;
    /// [`CallRequiresNewerDriver`](CudaError::CallRequiresNewerDriver) on an older driver.
    ///
    /// ```
    /// use custack::event::{Event, EventFlags};
    /// use custack::stream::StreamFlags;
    ///
    /// let context = custack::quick_init()?;
    /// let first = context.create_stream(StreamFlags::NON_BLOCKING, None)?;
    /// let prepared = Event::new(EventFlags::DISABLE_TIMING)?;
    /// prepared.record(&first)?;
    /// context.wait_event(&prepared)?; // whatever comes now
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxWaitEvent")]
    #[inline]
    pub fn wait_event(&self, event: &Event) -> CudaResult<()> {
        self.wait_whole(event, |driver, event| driver.ctx_wait_event(self.lease()?.live(), event))
    }

    #[inline]
    pub(super) fn record_whole(
        &self,
        event: &Event,
        record: impl FnOnce(&Driver, Held<'_>) -> CudaResult<()>,
    ) -> CudaResult<()> {
        self.usable()?;
        if !self.shares_with(event.context()) {
            let there = event.context();
            return Err(CudaError::InvalidHandle
                .note(format_args!("to record an event of {there} after the work of {self}")));
        }
        let _call = refuse_of_context(&self.base(), "record an event after all work of a context")?;
        event.inner().with(record)?;
        event.is_recorded_now();
        captures::forget_event(event.as_raw().addr());
        Ok(())
    }

    #[inline]
    pub(super) fn wait_whole(
        &self,
        event: &Event,
        wait: impl FnOnce(&Driver, Held<'_>) -> CudaResult<()>,
    ) -> CudaResult<()> {
        self.usable()?;
        let _call = refuse_of_context(&self.base(), "make a context wait for an event")?;
        event.inner().with(|driver, event| {
            captures::refuse_of(event.address(), "wait for an event")?;
            wait(driver, event)
        })
    }
}

pub(super) type Held<'a> = crate::driver::Held<'a, crate::driver::ffi::CUevent>;
