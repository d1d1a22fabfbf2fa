//! Streams of green contexts.

// Takes over the handle that the driver has just given.
#![allow(unsafe_code)]

use super::Stream;
use super::destroy;
use crate::context::{GreenContext, Resource};
use crate::device::SmResource;
use crate::driver::Driver;
use crate::error::CudaResult;
use std::ptr;

impl GreenContext {
    /// Makes a stream whose kernels run on this green context's multiprocessors, whatever is current. It is
    /// [`NON_BLOCKING`](super::StreamFlags::NON_BLOCKING), as all streams that are made for a green context (CUDA 12.5 and
    /// later). A priority outside the [range](crate::context::UnownedContext::stream_priority_range) is clamped to it.
    ///
    /// The stream's [context](Stream::context) is the primary one, so it takes the primary context's memory, kernels and
    /// events. It keeps the green context at the driver; after the green context's owner is dropped it can still be used
    /// as long as there are shares of the primary context.
    ///
    /// # Errors
    ///
    /// [`CallRequiresNewerDriver`](crate::error::CudaError::CallRequiresNewerDriver) before CUDA 12.5, where
    /// [`Stream::new`] makes one while the green context is current.
    ///
    /// ```
    /// # use custack::context::GreenContext;
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let green = GreenContext::new(&Device::get_device(0)?.sm_resource()?)?;
    /// let stream = green.create_stream(Some(-1))?;
    /// assert_eq!(stream.context(), &green.primary().get_unowned());
    /// assert!(green.has(&stream)?);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuGreenCtxStreamCreate")]
    #[inline]
    pub fn create_stream(&self, priority: Option<i32>) -> CudaResult<Stream> {
        let primary = self.primary().get_unowned();
        primary.usable()?;
        let pin = self.pin()?;
        let raw = self.with(|driver, green| driver.green_ctx_stream_create(green, priority.unwrap_or(0)))?;
        // SAFETY: just made, and nothing else has the handle.
        let stream = unsafe { Resource::new(raw, primary, destroy) };
        Ok(Stream::from((stream, Some(pin))))
    }

    /// Whether the stream is of this green context, whoever made it (CUDA 12.5 and later).
    ///
    /// # Errors
    ///
    /// [`CallRequiresNewerDriver`](crate::error::CudaError::CallRequiresNewerDriver) on an older driver;
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed).
    #[doc(alias("cuStreamGetCtx_v2", "cuStreamGetGreenCtx"))]
    #[inline]
    pub fn has(&self, stream: &Stream) -> CudaResult<bool> {
        let what = "ask for the contexts of a stream";
        let green = stream.inner().outside_capture(what, Driver::stream_get_green_ctx)?;
        Ok(ptr::eq(green, self.as_raw()))
    }
}

impl Stream {
    /// The multiprocessors on which the stream's kernels run: all of its device, or those of its green context (CUDA 13.1
    /// and later).
    ///
    /// # Errors
    ///
    /// [`CallRequiresNewerDriver`](crate::error::CudaError::CallRequiresNewerDriver) on an older driver;
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed).
    ///
    /// ```
    /// use custack::error::CudaError;
    /// use custack::stream::{Stream, StreamFlags};
    ///
    /// let _context = custack::quick_init()?;
    /// match Stream::new(StreamFlags::NON_BLOCKING, None)?.device_resource() {
    ///     Err(CudaError::CallRequiresNewerDriver) => println!("the driver is older than CUDA 13.1"),
    ///     part => println!("on {} multiprocessors", part?.count()),
    /// }
    /// # Ok::<(), CudaError>(())
    /// ```
    #[doc(alias = "cuStreamGetDevResource")]
    #[inline]
    pub fn device_resource(&self) -> CudaResult<SmResource> {
        let what = "ask for the multiprocessors of a stream";
        let device = self.context().device()?;
        let resource = self.inner().outside_capture(what, Driver::stream_get_dev_resource)?;
        Ok(SmResource::of(resource, device))
    }
}
