//! [`CacheConfig`] and [`SharedMemoryConfig`]: preferences for how multiprocessors divide their memory.

use super::current::CurrentContext;
use super::handle::UnownedContext;
use super::relaxed::refuse_unsafe;
use crate::driver::{Numbered, driver, numbered};
use crate::error::CudaResult;

numbered! {
    /// How a multiprocessor divides its on-chip memory between L1 cache and shared memory; a preference only.
    pub enum CacheConfig refuses(__Nonexhaustive = 4) {
        /// No preference.
        PreferNone = 0,
        /// More shared memory.
        PreferShared = 1,
        /// More L1 cache.
        PreferL1 = 2,
        /// Equal sizes for both.
        PreferEqual = 3,
    }
}

numbered! {
    /// The width of the banks of shared memory. Devices of compute capability 5.0 and later always use four bytes and
    /// ignore what is set.
    pub enum SharedMemoryConfig refuses(__Nonexhaustive = 3) {
        /// The device's default.
        DefaultBankSize = 0,
        /// Four bytes.
        FourByteBankSize = 1,
        /// Eight bytes.
        EightByteBankSize = 2,
    }
}

impl UnownedContext {
    /// How the context prefers to divide L1 cache and shared memory.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed).
    /// [`UnexpectedValue`](crate::error::CudaError::UnexpectedValue) for an answer without a name.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// use custack::context::CacheConfig;
    /// assert_eq!(ctx.cache_config()?, CacheConfig::PreferNone);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxGetCacheConfig")]
    #[inline]
    pub fn cache_config(&self) -> CudaResult<CacheConfig> {
        let _current = self.enter_for_custack()?;
        driver()?.ctx_get_cache_config().and_then(|n| CacheConfig::named("cuCtxGetCacheConfig", n))
    }

    /// Sets how the context prefers to divide L1 cache and shared memory.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed).
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for a value without a name.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// use custack::context::CacheConfig;
    /// ctx.set_cache_config(CacheConfig::PreferL1)?;
    /// assert_eq!(ctx.cache_config()?, CacheConfig::PreferL1);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxSetCacheConfig")]
    #[inline]
    pub fn set_cache_config(&self, cfg: CacheConfig) -> CudaResult<()> {
        let number = cfg.number()?;
        refuse_unsafe("set a configuration of caches")?;
        let _current = self.enter_for_custack()?;
        driver()?.ctx_set_cache_config(number)
    }

    /// How wide the banks of shared memory are.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed).
    /// [`UnexpectedValue`](crate::error::CudaError::UnexpectedValue) for an answer without a name.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// use custack::context::SharedMemoryConfig;
    /// let banks: SharedMemoryConfig = ctx.shared_memory_config()?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxGetSharedMemConfig")]
    #[inline]
    pub fn shared_memory_config(&self) -> CudaResult<SharedMemoryConfig> {
        let _current = self.enter_for_custack()?;
        driver()?
            .ctx_get_shared_mem_config()
            .and_then(|n| SharedMemoryConfig::named("cuCtxGetSharedMemConfig", n))
    }

    /// Sets how wide the banks of shared memory are, where the device can change it.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed).
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for a value without a name.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// use custack::context::SharedMemoryConfig;
    /// ctx.set_shared_memory_config(SharedMemoryConfig::DefaultBankSize)?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxSetSharedMemConfig")]
    #[inline]
    pub fn set_shared_memory_config(&self, cfg: SharedMemoryConfig) -> CudaResult<()> {
        let number = cfg.number()?;
        refuse_unsafe("set a configuration of caches")?;
        let _current = self.enter_for_custack()?;
        driver()?.ctx_set_shared_mem_config(number)
    }
}

impl CurrentContext<'_> {
    /// How the current context prefers to divide L1 cache and shared memory.
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](crate::error::CudaError::InvalidContext) if no context is current,
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed) if a destroyed one is.
    /// [`UnexpectedValue`](crate::error::CudaError::UnexpectedValue) for an answer without a name.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags, CurrentContext};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// let config = CurrentContext::get_cache_config()?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxGetCacheConfig")]
    #[inline]
    pub fn get_cache_config() -> CudaResult<CacheConfig> {
        driver()?.ctx_get_cache_config().and_then(|n| CacheConfig::named("cuCtxGetCacheConfig", n))
    }

    /// Sets how the current context prefers to divide L1 cache and shared memory.
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](crate::error::CudaError::InvalidContext) if no context is current,
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed) if a destroyed one is.
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for a value without a name.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags, CurrentContext};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// use custack::context::CacheConfig;
    /// CurrentContext::set_cache_config(CacheConfig::PreferL1)?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxSetCacheConfig")]
    #[inline]
    pub fn set_cache_config(cfg: CacheConfig) -> CudaResult<()> {
        let number = cfg.number()?;
        refuse_unsafe("set a configuration of caches")?;
        driver()?.ctx_set_cache_config(number)
    }

    /// How wide the banks of shared memory of the current context are.
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](crate::error::CudaError::InvalidContext) if no context is current,
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed) if a destroyed one is.
    /// [`UnexpectedValue`](crate::error::CudaError::UnexpectedValue) for an answer without a name.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags, CurrentContext};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// let banks = CurrentContext::get_shared_memory_config()?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxGetSharedMemConfig")]
    #[inline]
    pub fn get_shared_memory_config() -> CudaResult<SharedMemoryConfig> {
        driver()?
            .ctx_get_shared_mem_config()
            .and_then(|n| SharedMemoryConfig::named("cuCtxGetSharedMemConfig", n))
    }

    /// Sets how wide the banks of shared memory of the current context are, where the device can change it.
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](crate::error::CudaError::InvalidContext) if no context is current,
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed) if a destroyed one is.
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for a value without a name.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags, CurrentContext};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// use custack::context::SharedMemoryConfig;
    /// CurrentContext::set_shared_memory_config(SharedMemoryConfig::DefaultBankSize)?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxSetSharedMemConfig")]
    #[inline]
    pub fn set_shared_memory_config(cfg: SharedMemoryConfig) -> CudaResult<()> {
        let number = cfg.number()?;
        refuse_unsafe("set a configuration of caches")?;
        driver()?.ctx_set_shared_mem_config(number)
    }
}
