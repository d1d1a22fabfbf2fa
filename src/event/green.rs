//! Events of whole green contexts: after all their present work, and before all their later work.

use super::Event;
use super::whole::Held;
use crate::context::GreenContext;
use crate::driver::Driver;
use crate::error::CudaResult;

impl GreenContext {
    /// Puts the event's marker after all work that the green context has now, and no other's.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](crate::error::CudaError::InvalidHandle) for an event that is not of the primary context;
    /// [`StreamCaptureUnsupported`](crate::error::CudaError::StreamCaptureUnsupported) while a stream captures that is of the primary
    /// context or of one of its green ones; [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed).
    ///
    /// ```
    /// # use custack::context::GreenContext;
    /// # use custack::device::Device;
    /// # use custack::event::EventFlags;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let green = GreenContext::new(&Device::get_device(0)?.sm_resource()?)?;
    /// let stream = green.create_stream(None)?;
    /// stream.launch_host_func(|| println!("in the green context"))?;
    /// let done = green.primary().create_event(EventFlags::DISABLE_TIMING)?;
    /// green.record_event(&done)?;
    /// done.synchronize()?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuGreenCtxRecordEvent")]
    #[inline]
    pub fn record_event(&self, event: &Event) -> CudaResult<()> {
        let record = |_: &Driver, event: Held<'_>| {
            self.with(|driver, green| driver.green_ctx_record_event(green, event))
        };
        self.handle().record_whole(event, record)
    }

    /// Makes all later work of the green context wait for the event's current marker. The event may be of another context.
    ///
    /// # Errors
    ///
    /// As for [`record_event`](Self::record_event), but for the event's context;
    /// [`CapturedEvent`](crate::error::CudaError::CapturedEvent) if the event was recorded in a capture.
    #[doc(alias = "cuGreenCtxWaitEvent")]
    #[inline]
    pub fn wait_event(&self, event: &Event) -> CudaResult<()> {
        let wait = |_: &Driver, event: Held<'_>| {
            self.with(|driver, green| driver.green_ctx_wait_event(green, event))
        };
        self.handle().wait_whole(event, wait)
    }
}
