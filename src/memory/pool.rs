//! [`MemoryPool`]: where memory in the order of streams comes from.

// Vouches for the handles of pools.
#![allow(unsafe_code)]

use super::pool_properties::{PoolAccess, PoolProperties, PoolReuse, PoolUsage};
use crate::context::{is_gone, must_retire, refuse_unsafe, unbroken};
use crate::device::Device;
use crate::driver::ffi::CUmemoryPool;
use crate::driver::{Driver, Held, driver};
use crate::error::{CudaError, CudaResult, DropResult, keep_note};
use crate::liveness::retire;
use crate::report;
use std::ptr;

const RELEASE_THRESHOLD: u32 = 4;
const RESERVED: u32 = 5;
const RESERVED_PEAK: u32 = 6;
const USED: u32 = 7;
const USED_PEAK: u32 = 8;

/// Memory of one device, kept ready to be allocated in the order of streams
/// ([`DeviceBuffer::uninitialized_in`](super::DeviceBuffer::uninitialized_in)).
///
/// Each device has a pool from the start ([`of_device`](Self::of_device)), which is its current one until another is
/// [made current](Self::make_current). A pool takes memory from the device in large pieces, and gives back what is unused
/// whenever the program waits for a stream, an event or a context; up to its
/// [release threshold](Self::set_release_threshold), which is 0 at first, it keeps it. A program that allocates in a loop
/// sets the threshold.
///
/// A pool belongs to no context, and works on any thread, whatever is current there. Dropping one of the program's own
/// destroys it; memory from it stays as it is, and the pool's memory goes back to the device with the last of it.
///
/// ```
/// use custack::device::Device;
/// use custack::memory::{DeviceBuffer, MemoryPool, PoolProperties};
/// use custack::stream::{Stream, StreamFlags};
///
/// let _context = custack::quick_init()?;
/// let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
/// let pool = MemoryPool::new(Device::get_device(0)?, &PoolProperties::new())?;
/// pool.set_release_threshold(u64::MAX)?;
/// drop(DeviceBuffer::from_slice_in(&[0u8; 4096], (&pool, &stream))?);
/// stream.synchronize()?;
/// let usage = pool.usage()?;
/// assert_eq!(usage.used, 0);
/// assert!(usage.reserved >= 4096);
///
/// pool.trim_to(0)?;
/// assert_eq!(pool.usage()?.reserved, 0);
/// # Ok::<(), custack::error::CudaError>(())
/// ```
#[derive(Debug)]
pub struct MemoryPool {
    raw: CUmemoryPool,
    device: Device,
    /// Whether dropping this destroys it.
    is_own: bool,
}

// SAFETY: the driver's functions may be called on any thread, with the pools of any thread.
unsafe impl Send for MemoryPool {}
// SAFETY: as above; they may be called on several at once, too.
unsafe impl Sync for MemoryPool {}

impl MemoryPool {
    /// Makes a pool on a device.
    ///
    /// # Errors
    ///
    /// [`NotSupported`](CudaError::NotSupported) on a device without pools; what the driver answers.
    #[doc(alias = "cuMemPoolCreate")]
    pub fn new(device: Device, properties: &PoolProperties) -> CudaResult<MemoryPool> {
        refuse_unsafe("make a memory pool")?;
        let raw = driver()?.mem_pool_create(device.as_raw(), properties.max_size)?;
        Ok(MemoryPool { raw, device, is_own: true })
    }

    /// The pool that a device has from the start, and that is never destroyed.
    ///
    /// # Errors
    ///
    /// [`NotSupported`](CudaError::NotSupported) on a device without pools; what the driver answers.
    ///
    /// ```
    /// use custack::device::Device;
    /// use custack::memory::MemoryPool;
    ///
    /// custack::init(custack::CudaFlags::empty())?;
    /// let pool = MemoryPool::of_device(Device::get_device(0)?)?;
    /// assert!(pool.is_current()?);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuDeviceGetDefaultMemPool")]
    pub fn of_device(device: Device) -> CudaResult<MemoryPool> {
        let raw = driver()?.device_get_default_mem_pool(device.as_raw())?;
        Ok(MemoryPool { raw, device, is_own: false })
    }

    /// A pool that other code made.
    ///
    /// # Safety
    ///
    /// The handle is a pool's on this device, which is not destroyed while this value is used, and by nothing else if it
    /// `is_own`: then dropping it destroys it.
    pub unsafe fn from_raw(raw: CUmemoryPool, device: Device, is_own: bool) -> MemoryPool {
        MemoryPool { raw, device, is_own }
    }

    /// The driver's handle. Once the pool is dropped it stands for nothing, or for another one.
    pub fn as_raw(&self) -> CUmemoryPool {
        self.raw
    }

    /// Gives the pool away: it is not destroyed, and whoever has the handle owns it.
    pub fn into_raw(mut self) -> CUmemoryPool {
        self.is_own = false;
        self.raw
    }

    /// The device that the memory is on.
    pub fn device(&self) -> Device {
        self.device
    }

    fn with<R>(&self, f: impl FnOnce(&Driver, Held<'_, CUmemoryPool>) -> CudaResult<R>) -> CudaResult<R> {
        refuse_unsafe("ask or set something of a memory pool")?;
        let driver = driver()?;
        f(driver, self.held()?)
    }

    /// The handle, for the driver.
    pub(super) fn held(&self) -> CudaResult<Held<'_, CUmemoryPool>> {
        if self.raw.is_null() {
            let error = CudaError::InvalidHandle;
            return Err(error.note(format_args!(
                "to use a pool that could not be destroyed, and may be destroyed all the same"
            )));
        }
        // SAFETY: this value owns the pool, or the device does; or its maker has vouched for it.
        Ok(unsafe { Held::new(self.raw) })
    }

    /// Makes this the pool that memory comes from which is allocated in a stream of the device, where no pool is named.
    /// When the pool is dropped, the device's own one is current again.
    ///
    /// # Errors
    ///
    /// What the driver answers.
    #[doc(alias = "cuDeviceSetMemPool")]
    pub fn make_current(&self) -> CudaResult<()> {
        self.with(|driver, pool| driver.device_set_mem_pool(self.device.as_raw(), pool))
    }

    /// Whether this is the current pool of its device.
    ///
    /// # Errors
    ///
    /// What the driver answers.
    //
    // There is no method that gives the current pool: it may be another value's, which is dropped the next moment.
    #[doc(alias = "cuDeviceGetMemPool")]
    pub fn is_current(&self) -> CudaResult<bool> {
        driver()?.device_get_mem_pool(self.device.as_raw()).map(|raw| raw == self.raw)
    }

    /// Bytes of unused memory that the pool keeps when the program waits for something.
    ///
    /// # Errors
    ///
    /// What the driver answers.
    #[doc(alias = "cuMemPoolGetAttribute")]
    pub fn release_threshold(&self) -> CudaResult<u64> {
        self.bytes(RELEASE_THRESHOLD)
    }

    /// Sets how many bytes the pool keeps when the program waits for something: 0, as at first, gives unused memory back
    /// at each such moment, and `u64::MAX` never.
    ///
    /// # Errors
    ///
    /// What the driver answers.
    #[doc(alias = "cuMemPoolSetAttribute")]
    pub fn set_release_threshold(&self, bytes: u64) -> CudaResult<()> {
        self.set_bytes(RELEASE_THRESHOLD, bytes)
    }

    /// Whether the pool gives such memory to other streams.
    ///
    /// # Errors
    ///
    /// What the driver answers.
    #[doc(alias = "cuMemPoolGetAttribute")]
    pub fn reuses(&self, reuse: PoolReuse) -> CudaResult<bool> {
        self.with(|driver, pool| driver.mem_pool_get_switch(pool, reuse as u32))
    }

    /// Sets whether the pool gives such memory to other streams.
    ///
    /// # Errors
    ///
    /// What the driver answers.
    ///
    /// ```
    /// use custack::device::Device;
    /// use custack::memory::{MemoryPool, PoolProperties, PoolReuse};
    ///
    /// custack::init(custack::CudaFlags::empty())?;
    /// let pool = MemoryPool::new(Device::get_device(0)?, &PoolProperties::new())?;
    /// pool.set_reuse(PoolReuse::Opportunistic, false)?;
    /// assert!(!pool.reuses(PoolReuse::Opportunistic)?);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuMemPoolSetAttribute")]
    pub fn set_reuse(&self, reuse: PoolReuse, on: bool) -> CudaResult<()> {
        self.with(|driver, pool| driver.mem_pool_set_switch(pool, reuse as u32, on))
    }

    fn bytes(&self, attribute: u32) -> CudaResult<u64> {
        self.with(|driver, pool| driver.mem_pool_get_bytes(pool, attribute))
    }

    fn set_bytes(&self, attribute: u32, bytes: u64) -> CudaResult<()> {
        self.with(|driver, pool| driver.mem_pool_set_bytes(pool, attribute, bytes))
    }

    /// How much of the pool is used, and how much it has; four questions, between which another thread may change it.
    ///
    /// # Errors
    ///
    /// What the driver answers.
    #[doc(alias = "cuMemPoolGetAttribute")]
    pub fn usage(&self) -> CudaResult<PoolUsage> {
        Ok(PoolUsage {
            used: self.bytes(USED)?,
            used_peak: self.bytes(USED_PEAK)?,
            reserved: self.bytes(RESERVED)?,
            reserved_peak: self.bytes(RESERVED_PEAK)?,
        })
    }

    /// Makes what is used and reserved now the peaks.
    ///
    /// # Errors
    ///
    /// What the driver answers.
    #[doc(alias = "cuMemPoolSetAttribute")]
    pub fn reset_peaks(&self) -> CudaResult<()> {
        self.set_bytes(USED_PEAK, 0)?;
        self.set_bytes(RESERVED_PEAK, 0)
    }

    /// Gives unused memory back to the device until no more than so many bytes are reserved, as far as there is any. What
    /// was freed in a stream counts as used until the program has waited for that.
    ///
    /// # Errors
    ///
    /// What the driver answers.
    #[doc(alias = "cuMemPoolTrimTo")]
    pub fn trim_to(&self, bytes: usize) -> CudaResult<()> {
        self.with(|driver, pool| driver.mem_pool_trim_to(pool, bytes))
    }

    /// What a device may do with the pool's memory. Its own device may read and write it.
    ///
    /// # Errors
    ///
    /// What the driver answers.
    #[doc(alias = "cuMemPoolGetAccess")]
    pub fn access(&self, device: Device) -> CudaResult<PoolAccess> {
        let flags = self.with(|driver, pool| driver.mem_pool_get_access(pool, device.as_raw()))?;
        match flags {
            0 => Ok(PoolAccess::None),
            1 => Ok(PoolAccess::Read),
            3 => Ok(PoolAccess::ReadWrite),
            other => {
                let value = other.into();
                Err(CudaError::UnexpectedValue { function: "cuMemPoolGetAccess", value })
            }
        }
    }

    /// Grants a device access to the pool's memory, or takes it back, for what is allocated already as well; work that uses
    /// it after that fails. Access for
    /// contexts ([`enable_peer_access`](crate::context::UnownedContext::enable_peer_access)) has nothing to do with it.
    ///
    /// # Errors
    ///
    /// [`InvalidDevice`](CudaError::InvalidDevice) if that device cannot access this one's memory, and if the pool's own
    /// device should not; [`NotSupported`](CudaError::NotSupported) if it should only read.
    #[doc(alias = "cuMemPoolSetAccess")]
    pub fn grant(&self, device: Device, access: PoolAccess) -> CudaResult<()> {
        self.with(|driver, pool| driver.mem_pool_set_access(pool, device.as_raw(), access as u32)).map_err(
            |error| {
                let (of, to) = (self.device.as_raw(), device.as_raw());
                error.note(format_args!("to grant device {to} {access:?} on a pool of device {of}"))
            },
        )
    }

    fn destroy(&self) -> CudaResult<()> {
        let driver = driver()?;
        let pool = self.held()?;
        match unbroken(driver, || driver.mem_pool_destroy(pool)) {
            Err(error) if !is_gone(error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Destroys the pool, and gives the error and the pool back if that fails. The device's own pool stays.
    ///
    /// # Errors
    ///
    /// What the driver answers. It may have destroyed the pool all the same, so what comes back answers
    /// [`InvalidHandle`](CudaError::InvalidHandle), and dropping it does nothing; except after
    /// [`NotPermitted`](CudaError::NotPermitted), in a host function.
    #[doc(alias = "cuMemPoolDestroy")]
    pub fn drop(mut pool: MemoryPool) -> DropResult<MemoryPool> {
        let result = if pool.is_own { pool.destroy() } else { Ok(()) };
        if result != Err(CudaError::NotPermitted) {
            pool.is_own = false;
            pool.raw = if result.is_err() { ptr::null_mut() } else { pool.raw };
        }
        result.map_err(|error| (error, pool))
    }
}

fn report(error: CudaError) {
    report::warn(format_args!("a memory pool could not be destroyed: {error}"));
}

impl Drop for MemoryPool {
    fn drop(&mut self) {
        if !std::mem::take(&mut self.is_own) {
            return;
        }
        let _note = keep_note();
        match if must_retire() { Err(CudaError::NotPermitted) } else { self.destroy() } {
            Ok(()) => {}
            Err(CudaError::NotPermitted) => {
                let other = MemoryPool { raw: self.raw, device: self.device, is_own: false };
                retire(move || other.destroy().unwrap_or_else(report));
            }
            Err(error) => report(error),
        }
    }
}
