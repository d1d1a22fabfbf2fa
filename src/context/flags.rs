//! [`ContextFlags`]: how a context waits, and what it supports.

use super::current::CurrentContext;
use super::handle::UnownedContext;
use crate::driver::driver;
use crate::error::{CudaError, CudaResult};
use bitflags::bitflags;

bitflags! {
    /// Flags for creating a context.
    ///
    /// At most one of the three scheduling flags may be set; they say what a thread does while it waits for the device.
    /// Bits without a name in this crate are kept.
    pub struct ContextFlags: u32 {
        /// A waiting thread spins: the shortest wait, at the cost of a busy core (`CU_CTX_SCHED_SPIN`).
        const SCHED_SPIN = 0x01;
        /// A waiting thread yields between polls (`CU_CTX_SCHED_YIELD`).
        const SCHED_YIELD = 0x02;
        /// A waiting thread sleeps until the device wakes it (`CU_CTX_SCHED_BLOCKING_SYNC`).
        const SCHED_BLOCKING_SYNC = 0x04;
        /// The driver chooses: it yields if there are more contexts than processors, else it spins
        /// (`CU_CTX_SCHED_AUTO`, which has no bit).
        const SCHED_AUTO = 0x00;
        /// Page-locked memory can be mapped into the device's address space; always the case since CUDA 11
        /// (`CU_CTX_MAP_HOST`).
        const MAP_HOST = 0x08;
        /// Local memory that a kernel needed is kept for later kernels (`CU_CTX_LMEM_RESIZE_TO_MAX`).
        const LMEM_RESIZE_TO_MAX = 0x10;
        /// A fault on the device writes a core dump (`CU_CTX_COREDUMP_ENABLE`, CUDA 12.1).
        const COREDUMP_ENABLE = 0x20;
        /// A core dump can be requested through a pipe (`CU_CTX_USER_COREDUMP_ENABLE`, CUDA 12.1). The driver reports
        /// it as `COREDUMP_ENABLE`.
        const USER_COREDUMP_ENABLE = 0x40;
        /// Synchronous memory operations always synchronise (`CU_CTX_SYNC_MEMOPS`, CUDA 12.1).
        const SYNC_MEMOPS = 0x80;
    }
}

const SCHEDULES: u32 = 0x07;

impl ContextFlags {
    /// The driver's flags, unknown bits included.
    #[inline]
    pub(super) fn from_driver(bits: u32) -> ContextFlags {
        ContextFlags { bits }
    }

    #[inline]
    pub(super) fn refuse_two_schedules(self) -> CudaResult<()> {
        if (self.bits & SCHEDULES).count_ones() > 1 {
            return Err(
                CudaError::InvalidValue.note(format_args!("to set more than one scheduling flag: {self:?}"))
            );
        }
        Ok(())
    }
}

impl UnownedContext {
    /// The flags of the context.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_YIELD, Device::get_device(0)?)?;
    /// assert!(ctx.flags()?.contains(ContextFlags::SCHED_YIELD));
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxGetFlags")]
    #[inline]
    pub fn flags(&self) -> CudaResult<ContextFlags> {
        let _current = self.enter_for_custack()?;
        driver()?.ctx_get_flags().map(ContextFlags::from_driver)
    }

    /// Changes the flags of the context: the scheduling, `LMEM_RESIZE_TO_MAX` and `SYNC_MEMOPS`. The others keep their
    /// values from its creation (CUDA 12.1 and later).
    ///
    /// # Errors
    ///
    /// * [`InvalidValue`](CudaError::InvalidValue): more than one scheduling flag, or an unknown one.
    /// * [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    /// * [`CallRequiresNewerDriver`](CudaError::CallRequiresNewerDriver).
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_YIELD, Device::get_device(0)?)?;
    /// ctx.set_flags(ContextFlags::SCHED_BLOCKING_SYNC)?;
    /// assert_eq!(ctx.flags()?, ContextFlags::SCHED_BLOCKING_SYNC);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxSetFlags")]
    #[inline]
    pub fn set_flags(&self, flags: ContextFlags) -> CudaResult<()> {
        flags.refuse_two_schedules()?;
        let driver = driver()?;
        let current = self.enter_for_custack()?;
        // This call crashes on a destroyed context, so the context must not be destroyed between entering and the call.
        current
            .hazard(|live| driver.ctx_set_flags(live, flags.bits()))?
            .map_err(|error| error.note_instead(format_args!("to set {flags:?}")))
    }
}

impl CurrentContext<'_> {
    /// The flags of the current context; empty if the context is destroyed.
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](CudaError::InvalidContext) if no context is current.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags, CurrentContext};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_SPIN, Device::get_device(0)?)?;
    /// assert!(CurrentContext::get_flags()?.contains(ContextFlags::SCHED_SPIN));
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxGetFlags")]
    #[inline]
    pub fn get_flags() -> CudaResult<ContextFlags> {
        driver()?.ctx_get_flags().map(ContextFlags::from_driver)
    }
}
