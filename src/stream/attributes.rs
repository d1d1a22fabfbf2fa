//! Attributes of streams.

use super::Stream;
use crate::driver::Driver;
use crate::error::{CudaError, CudaResult};

/// The attribute for the synchronization policy.
const SYNCHRONIZATION_POLICY: u32 = 3;

/// The attribute for the priority.
const PRIORITY: u32 = 8;
/// What the driver returns for a stream whose policy was never set.
const NOT_TOLD: u32 = u32::MAX;

const SET: &str = "set the attributes of a stream";

/// How a thread waits for a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SynchronizationPolicy {
    /// As the context's flags say; the default.
    Auto = 1,
    /// Poll without a pause, which is the fastest.
    Spin = 2,
    /// Poll, and yield to other threads in between.
    Yield = 3,
    /// Sleep.
    BlockingSync = 4,
}

impl SynchronizationPolicy {
    const ALL: [SynchronizationPolicy; 4] = [Self::Auto, Self::Spin, Self::Yield, Self::BlockingSync];
}

impl Stream {
    /// How threads wait that [synchronize](Self::synchronize) with the stream (CUDA 11.0 and later).
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed); [`NotSupported`](CudaError::NotSupported) for a policy
    /// that has no name here; any error of the driver.
    #[doc(alias = "cuStreamGetAttribute")]
    #[inline]
    pub fn synchronization_policy(&self) -> CudaResult<SynchronizationPolicy> {
        let number = self.inner.outside_capture("ask for the attributes of a stream", |driver, stream| {
            driver.stream_get_attribute(stream, SYNCHRONIZATION_POLICY)
        })?;
        if number == NOT_TOLD {
            return Ok(SynchronizationPolicy::Auto);
        }
        let named = SynchronizationPolicy::ALL.into_iter().find(|policy| *policy as u32 == number);
        named.ok_or_else(|| {
            CudaError::NotSupported.note(format_args!("to name the synchronization policy {number}"))
        })
    }

    /// Sets how threads wait that synchronize with the stream.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed); any error of the driver.
    ///
    /// ```
    /// use custack::stream::{StreamFlags, SynchronizationPolicy};
    ///
    /// let context = custack::quick_init()?;
    /// let stream = context.create_stream(StreamFlags::NON_BLOCKING, None)?;
    /// stream.set_synchronization_policy(SynchronizationPolicy::BlockingSync)?;
    /// let other = context.create_stream(StreamFlags::NON_BLOCKING, None)?;
    /// other.copy_attributes(&stream)?;
    /// assert_eq!(other.synchronization_policy()?, SynchronizationPolicy::BlockingSync);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuStreamSetAttribute")]
    #[inline]
    pub fn set_synchronization_policy(&self, policy: SynchronizationPolicy) -> CudaResult<()> {
        self.inner.outside_capture(SET, |driver, stream| {
            driver.stream_set_attribute(stream, SYNCHRONIZATION_POLICY, policy as u32)
        })
    }

    /// Sets the priority of later work (CUDA 11.7 and later). A value outside the context's
    /// [range](crate::context::UnownedContext::stream_priority_range) is clamped to it.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed); any error of the driver.
    #[doc(alias = "cuStreamSetAttribute")]
    #[inline]
    pub fn set_priority(&self, priority: i32) -> CudaResult<()> {
        self.inner.outside_capture(SET, |driver, stream| {
            driver.stream_set_attribute(stream, PRIORITY, priority as u32)
        })
    }

    /// Copies the attributes of another stream of the same context, but not its flags.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](CudaError::InvalidHandle) if it is of another context;
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    #[doc(alias = "cuStreamCopyAttributes")]
    #[inline]
    pub fn copy_attributes(&self, from: &Stream) -> CudaResult<()> {
        let _calls =
            (self.inner.enter_breaking(SET)?, from.inner.enter_breaking("copy the attributes of a stream")?);
        if self.context() != from.context() {
            let (here, there) = (self.context(), from.context());
            return Err(CudaError::InvalidHandle
                .note(format_args!("to copy attributes of a stream of {there} to one of {here}")));
        }
        self.inner.with_both(&from.inner, Driver::stream_copy_attributes)
    }
}
