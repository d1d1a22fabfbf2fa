//! [`ResourceLimit`] and [`StreamPriorityRange`]: what a context may use.

use super::current::CurrentContext;
use super::handle::UnownedContext;
use super::relaxed::refuse_unsafe;
use crate::driver::{Numbered, driver, numbered};
use crate::error::{CudaError, CudaResult};

numbered! {
    /// A resource of a context whose size can be queried and, in most cases, set.
    ///
    /// Setting one is a request that the driver may clamp and round, so query the result. The figures are those of an
    /// H200 with driver 580.
    pub enum ResourceLimit refuses(__Nonexhaustive = u32::MAX) {
        /// The stack of each device thread, in bytes: 1024 by default, rounded up to 16.
        StackSize = 0,
        /// The buffer of the device's `printf`, in bytes. Must be set before a kernel that prints is launched.
        PrintfFifoSize = 1,
        /// The heap of the device's `malloc`, in bytes. Must be set before a kernel that allocates is launched.
        MallocHeapSize = 2,
        /// How deeply grids launched from the device may wait for each other, at most 24. Devices of compute capability
        /// 9.0 and later do not have it.
        DeviceRuntimeSynchronizeDepth = 3,
        /// How many launches from the device may be outstanding: 2048 by default.
        DeviceRuntimePendingLaunchCount = 4,
        /// How many bytes the L2 cache fetches at once, from 0 to 128; a hint.
        MaxL2FetchGranularity = 5,
        /// How many bytes of the L2 cache are set aside for persisting data.
        PersistingL2CacheSize = 6,
        /// The shared memory available to kernels of a context that shares a graphics queue, in bytes; read-only.
        ShmemSize = 7,
        /// Whether the context shares a graphics queue: nonzero if it does; read-only.
        CigEnabled = 8,
        /// Whether a kernel may run although it needs more shared memory than a shared graphics queue leaves.
        CigShmemFallbackEnabled = 9,
    }
}

impl ResourceLimit {
    #[inline]
    fn set_failed(self, limit: usize) -> impl FnOnce(CudaError) -> CudaError {
        move |error| error.note_instead(format_args!("to set {self:?} to {limit}"))
    }

    #[inline]
    fn get_failed(self) -> impl FnOnce(CudaError) -> CudaError {
        move |error| error.note_instead(format_args!("to get the limit {self:?}"))
    }
}

/// The priorities that a stream can have. The lower the number, the higher the priority.
#[derive(Debug, Clone, Copy, Hash, Eq, PartialEq)]
pub struct StreamPriorityRange {
    /// The lowest priority, which is the highest number.
    pub least: i32,
    /// The highest priority, which is the lowest number.
    pub greatest: i32,
}

impl StreamPriorityRange {
    /// The nearest priority in this range, which is what the driver uses instead of one outside it.
    ///
    /// ```
    /// use custack::context::StreamPriorityRange;
    ///
    /// let range = StreamPriorityRange { least: 0, greatest: -5 };
    /// assert_eq!(range.clamp(-8), -5);
    /// assert_eq!(range.clamp(3), 0);
    /// ```
    #[inline]
    pub fn clamp(&self, priority: i32) -> i32 {
        // Not `i32::clamp`, which panics if the driver returns the two numbers in the wrong order.
        priority.min(self.least).max(self.greatest)
    }

    /// Whether the priority lies in this range.
    #[inline]
    pub fn contains(&self, priority: i32) -> bool {
        (self.greatest..=self.least).contains(&priority)
    }

    #[inline]
    fn from_driver((least, greatest): (i32, i32)) -> StreamPriorityRange {
        StreamPriorityRange { least, greatest }
    }
}

impl UnownedContext {
    /// The size of one of the context's resources, in the resource's unit.
    ///
    /// # Errors
    ///
    /// [`UnsupportedLimit`](CudaError::UnsupportedLimit) if the device does not have it,
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// use custack::context::ResourceLimit;
    /// assert!(ctx.limit(ResourceLimit::StackSize)? > 0);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxGetLimit")]
    #[inline]
    pub fn limit(&self, resource: ResourceLimit) -> CudaResult<usize> {
        let number = resource.number()?;
        let _current = self.enter_for_custack()?;
        driver()?.ctx_get_limit(number).map_err(resource.get_failed())
    }

    /// Requests a size for one of the context's resources, in the resource's unit; the driver may clamp and round it.
    ///
    /// # Errors
    ///
    /// * [`InvalidValue`](CudaError::InvalidValue): out of range, or set too late. The old value stays.
    /// * [`UnsupportedLimit`](CudaError::UnsupportedLimit): the device does not have it.
    /// * [`NotPermitted`](CudaError::NotPermitted): the resource is read-only.
    /// * [`OutOfMemory`](CudaError::OutOfMemory): the device does not have the memory.
    /// * [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// use custack::context::ResourceLimit;
    /// ctx.set_limit(ResourceLimit::StackSize, 2048)?;
    /// assert_eq!(ctx.limit(ResourceLimit::StackSize)?, 2048);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxSetLimit")]
    #[inline]
    pub fn set_limit(&self, resource: ResourceLimit, limit: usize) -> CudaResult<()> {
        let number = resource.number()?;
        refuse_unsafe("set a limit")?;
        let _current = self.enter_for_custack()?;
        driver()?.ctx_set_limit(number, limit).map_err(resource.set_failed(limit))
    }

    /// The priorities that streams of the context can have; both 0 if the device has none.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// let range = ctx.stream_priority_range()?;
    /// assert!(range.contains(0));
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxGetStreamPriorityRange")]
    #[inline]
    pub fn stream_priority_range(&self) -> CudaResult<StreamPriorityRange> {
        let _current = self.enter_for_custack()?;
        driver()?.ctx_get_stream_priority_range().map(StreamPriorityRange::from_driver)
    }

    /// Resets all persisting lines of the L2 cache to normal (CUDA 11.0 and later).
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// ctx.reset_persisting_l2_cache()?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxResetPersistingL2Cache")]
    #[inline]
    pub fn reset_persisting_l2_cache(&self) -> CudaResult<()> {
        let _current = self.enter_for_custack()?;
        driver()?.ctx_reset_persisting_l2_cache()
    }

    /// How many multiprocessors the context's kernels may use (CUDA 11.4 and later).
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// assert!(ctx.sm_count()? > 0);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxGetExecAffinity")]
    #[inline]
    pub fn sm_count(&self) -> CudaResult<u32> {
        let _current = self.enter_for_custack()?;
        driver()?.ctx_get_exec_affinity()
    }
}

impl CurrentContext<'_> {
    /// The size of one of the current context's resources, in the resource's unit.
    ///
    /// # Errors
    ///
    /// [`UnsupportedLimit`](CudaError::UnsupportedLimit) if the device does not have it,
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    /// [`InvalidContext`](CudaError::InvalidContext) if no context is current.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags, CurrentContext};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// use custack::context::ResourceLimit;
    /// let bytes = CurrentContext::get_resource_limit(ResourceLimit::StackSize)?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxGetLimit")]
    #[inline]
    pub fn get_resource_limit(resource: ResourceLimit) -> CudaResult<usize> {
        let number = resource.number()?;
        driver()?.ctx_get_limit(number).map_err(resource.get_failed())
    }

    /// Requests a size for one of the current context's resources, in the resource's unit; the driver may clamp and
    /// round it.
    ///
    /// # Errors
    ///
    /// * [`InvalidValue`](CudaError::InvalidValue): out of range, or set too late. The old value stays.
    /// * [`UnsupportedLimit`](CudaError::UnsupportedLimit): the device does not have it.
    /// * [`NotPermitted`](CudaError::NotPermitted): the resource is read-only.
    /// * [`OutOfMemory`](CudaError::OutOfMemory): the device does not have the memory.
    /// * [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    /// * [`InvalidContext`](CudaError::InvalidContext): no context is current.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags, CurrentContext};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// use custack::context::ResourceLimit;
    /// CurrentContext::set_resource_limit(ResourceLimit::StackSize, 2048)?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxSetLimit")]
    #[inline]
    pub fn set_resource_limit(resource: ResourceLimit, limit: usize) -> CudaResult<()> {
        let number = resource.number()?;
        refuse_unsafe("set a limit")?;
        driver()?.ctx_set_limit(number, limit).map_err(resource.set_failed(limit))
    }

    /// The priorities that streams of the current context can have; both 0 if the device has none.
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](CudaError::InvalidContext) if no context is current,
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed) if a destroyed one is.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags, CurrentContext};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// let range = CurrentContext::get_stream_priority_range()?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxGetStreamPriorityRange")]
    #[inline]
    pub fn get_stream_priority_range() -> CudaResult<StreamPriorityRange> {
        driver()?.ctx_get_stream_priority_range().map(StreamPriorityRange::from_driver)
    }
}
