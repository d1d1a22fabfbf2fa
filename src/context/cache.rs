//! [`CacheConfig`] and [`SharedMemoryConfig`]: preferences for how multiprocessors divide their memory.

use super::current::CurrentContext;
use super::handle::UnownedContext;
use crate::driver::driver;
use crate::error::{CudaError, CudaResult};

/// How a multiprocessor divides one memory between L1 cache and shared memory; a preference only.
#[repr(u32)]
#[derive(Debug, Copy, Clone, Hash, Eq, PartialEq)]
pub enum CacheConfig {
    /// No preference.
    PreferNone = 0,
    /// More shared memory.
    PreferShared = 1,
    /// More L1 cache.
    PreferL1 = 2,
    /// As much of the one as of the other.
    PreferEqual = 3,
    #[doc(hidden)]
    __Nonexhaustive = 4,
}

/// How wide the banks of shared memory are. Devices of compute capability 5.0 and later have four bytes and ignore
/// what is set.
#[repr(u32)]
#[derive(Debug, Copy, Clone, Hash, Eq, PartialEq)]
pub enum SharedMemoryConfig {
    /// What the device is made for.
    DefaultBankSize = 0,
    /// Four bytes.
    FourByteBankSize = 1,
    /// Eight bytes.
    EightByteBankSize = 2,
    #[doc(hidden)]
    __Nonexhaustive = 3,
}

impl CacheConfig {
    fn from_driver(value: u32) -> CudaResult<CacheConfig> {
        Ok(match value {
            0 => CacheConfig::PreferNone,
            1 => CacheConfig::PreferShared,
            2 => CacheConfig::PreferL1,
            3 => CacheConfig::PreferEqual,
            _ => return Err(unexpected("cuCtxGetCacheConfig", value)),
        })
    }

    pub(crate) fn refuse_unnamed(self) -> CudaResult<()> {
        if self != CacheConfig::__Nonexhaustive {
            return Ok(());
        }
        Err(CudaError::InvalidValue.note(format_args!("to set {self:?}, which is no configuration")))
    }
}

impl SharedMemoryConfig {
    fn from_driver(value: u32) -> CudaResult<SharedMemoryConfig> {
        Ok(match value {
            0 => SharedMemoryConfig::DefaultBankSize,
            1 => SharedMemoryConfig::FourByteBankSize,
            2 => SharedMemoryConfig::EightByteBankSize,
            _ => return Err(unexpected("cuCtxGetSharedMemConfig", value)),
        })
    }

    pub(crate) fn refuse_unnamed(self) -> CudaResult<()> {
        if self != SharedMemoryConfig::__Nonexhaustive {
            return Ok(());
        }
        Err(CudaError::InvalidValue.note(format_args!("to set {self:?}, which is no configuration")))
    }
}

#[cold]
fn unexpected(function: &'static str, value: u32) -> CudaError {
    CudaError::UnexpectedValue { function, value: value.into() }
}

impl UnownedContext {
    /// How the context prefers to divide L1 cache and shared memory.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    /// [`UnexpectedValue`](CudaError::UnexpectedValue) for an answer without a name.
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
    pub fn cache_config(&self) -> CudaResult<CacheConfig> {
        let _current = self.enter()?;
        driver()?.ctx_get_cache_config().and_then(CacheConfig::from_driver)
    }

    /// Sets how the context prefers to divide L1 cache and shared memory.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    /// [`InvalidValue`](CudaError::InvalidValue) for a value without a name.
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
    pub fn set_cache_config(&self, cfg: CacheConfig) -> CudaResult<()> {
        cfg.refuse_unnamed()?;
        let _current = self.enter()?;
        driver()?.ctx_set_cache_config(cfg as u32)
    }

    /// How wide the banks of shared memory are.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    /// [`UnexpectedValue`](CudaError::UnexpectedValue) for an answer without a name.
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
    pub fn shared_memory_config(&self) -> CudaResult<SharedMemoryConfig> {
        let _current = self.enter()?;
        driver()?.ctx_get_shared_mem_config().and_then(SharedMemoryConfig::from_driver)
    }

    /// Sets how wide the banks of shared memory are, where the device can change it.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    /// [`InvalidValue`](CudaError::InvalidValue) for a value without a name.
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
    pub fn set_shared_memory_config(&self, cfg: SharedMemoryConfig) -> CudaResult<()> {
        cfg.refuse_unnamed()?;
        let _current = self.enter()?;
        driver()?.ctx_set_shared_mem_config(cfg as u32)
    }
}

impl CurrentContext<'_> {
    /// How the current context prefers to divide L1 cache and shared memory.
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](CudaError::InvalidContext) if no context is current,
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed) if a destroyed one is.
    /// [`UnexpectedValue`](CudaError::UnexpectedValue) for an answer without a name.
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
    pub fn get_cache_config() -> CudaResult<CacheConfig> {
        driver()?.ctx_get_cache_config().and_then(CacheConfig::from_driver)
    }

    /// Sets how the current context prefers to divide L1 cache and shared memory.
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](CudaError::InvalidContext) if no context is current,
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed) if a destroyed one is.
    /// [`InvalidValue`](CudaError::InvalidValue) for a value without a name.
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
    pub fn set_cache_config(cfg: CacheConfig) -> CudaResult<()> {
        cfg.refuse_unnamed()?;
        driver()?.ctx_set_cache_config(cfg as u32)
    }

    /// How wide the banks of shared memory of the current context are.
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](CudaError::InvalidContext) if no context is current,
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed) if a destroyed one is.
    /// [`UnexpectedValue`](CudaError::UnexpectedValue) for an answer without a name.
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
    pub fn get_shared_memory_config() -> CudaResult<SharedMemoryConfig> {
        driver()?.ctx_get_shared_mem_config().and_then(SharedMemoryConfig::from_driver)
    }

    /// Sets how wide the banks of shared memory of the current context are, where the device can change it.
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](CudaError::InvalidContext) if no context is current,
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed) if a destroyed one is.
    /// [`InvalidValue`](CudaError::InvalidValue) for a value without a name.
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
    pub fn set_shared_memory_config(cfg: SharedMemoryConfig) -> CudaResult<()> {
        cfg.refuse_unnamed()?;
        driver()?.ctx_set_shared_mem_config(cfg as u32)
    }
}
