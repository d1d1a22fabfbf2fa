//! [`MemoryPool`]: the source of memory in the order of streams.

// Vouches for the handles of pools.
#![allow(unsafe_code)]

mod properties;

pub use properties::{PoolAccess, PoolProperties, PoolReuse, PoolUsage};

use super::ordered::{PoolOfOrder, StreamOrder};
use crate::context::{is_gone, must_retire, refuse_unsafe, unbroken};
use crate::device::Device;
use crate::driver::ffi::CUmemoryPool;
use crate::driver::{Driver, Held, driver, driver_to_drop};
use crate::error::{CudaError, CudaResult, DropResult, keep_note};
use crate::liveness::retire;
use crate::report;
use crate::stream::Stream;
use std::ptr;

/// The driver refuses a limit of this size. A call with a limit of 2<sup>63</sup> never returns in a process without a
/// context (an H200, CUDA 13.0).
const TOO_LARGE: usize = 1 << 50;

const RELEASE_THRESHOLD: u32 = 4;
const RESERVED: u32 = 5;
const RESERVED_PEAK: u32 = 6;
const USED: u32 = 7;
const USED_PEAK: u32 = 8;

/// Memory of one device, from which allocations in the order of streams are made
/// ([`DeviceBuffer::uninitialized_in`](super::DeviceBuffer::uninitialized_in)).
///
/// Each device has a default pool ([`of_device`](Self::of_device)), which is its current pool until another is [made
/// current](Self::make_current). A pool takes memory from the device in large pieces. Whenever the program waits for a
/// stream, an event or a context, the pool gives back unused memory beyond its [release
/// threshold](Self::set_release_threshold), which is 0 by default. A program that allocates in a loop should set the
/// threshold.
///
/// A pool belongs to no context, and works on any thread, whatever is current there. Dropping a pool of the program
/// destroys it. Memory from it stays valid, and the pool gives its memory back to the device with the last of it.
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
    /// [`OutOfMemory`](CudaError::OutOfMemory) for a limit of 2<sup>50</sup> bytes or more;
    /// [`NotSupported`](CudaError::NotSupported) on a device without pools; any error of the driver.
    #[doc(alias = "cuMemPoolCreate")]
    #[inline]
    pub fn new(device: Device, properties: &PoolProperties) -> CudaResult<MemoryPool> {
        refuse_unsafe("make a memory pool")?;
        let most = properties.max_size;
        if most >= TOO_LARGE {
            return Err(CudaError::OutOfMemory.note(format_args!(
                "to make a pool of up to {most} bytes: a limit is less than {TOO_LARGE}"
            )));
        }
        let raw = driver()?.mem_pool_create(device.as_raw(), most, properties.shareable)?;
        Ok(MemoryPool { raw, device, is_own: true })
    }

    /// The default pool of a device, which is never destroyed.
    ///
    /// # Errors
    ///
    /// [`NotSupported`](CudaError::NotSupported) on a device without pools; any error of the driver.
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
    #[inline]
    pub fn of_device(device: Device) -> CudaResult<MemoryPool> {
        let raw = driver()?.device_get_default_mem_pool(device.as_raw())?;
        Ok(MemoryPool { raw, device, is_own: false })
    }

    /// Wraps a pool that other code made.
    ///
    /// # Safety
    ///
    /// The handle is that of a pool on this device, and the pool is not destroyed while this value is used. With
    /// `is_own` nothing else destroys it: dropping this value does.
    #[inline]
    pub unsafe fn from_raw(raw: CUmemoryPool, device: Device, is_own: bool) -> MemoryPool {
        MemoryPool { raw, device, is_own }
    }

    /// The driver's handle. Once the pool is destroyed, the handle is invalid, or that of another pool.
    #[inline]
    pub fn as_raw(&self) -> CUmemoryPool {
        self.raw
    }

    /// Gives up ownership: the pool is not destroyed, and whoever has the handle owns it.
    #[inline]
    pub fn into_raw(mut self) -> CUmemoryPool {
        self.is_own = false;
        self.raw
    }

    /// The device of the memory.
    #[inline]
    pub fn device(&self) -> Device {
        self.device
    }

    pub(super) fn with<R>(
        &self,
        f: impl FnOnce(&Driver, Held<'_, CUmemoryPool>) -> CudaResult<R>,
    ) -> CudaResult<R> {
        refuse_unsafe("ask or set something of a memory pool")?;
        let driver = driver()?;
        f(driver, self.held()?)
    }

    /// Makes this the current pool of its device: the source of memory that is allocated in the order of its streams
    /// without naming a pool. When the pool is dropped, the default pool becomes current again.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
    #[doc(alias = "cuDeviceSetMemPool")]
    #[inline]
    pub fn make_current(&self) -> CudaResult<()> {
        self.with(|driver, pool| driver.device_set_mem_pool(self.device.as_raw(), pool))
    }

    /// Whether this is the current pool of its device.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
    //
    // There is no method that returns the current pool: another value may own it, and be dropped at any time.
    #[doc(alias = "cuDeviceGetMemPool")]
    #[inline]
    pub fn is_current(&self) -> CudaResult<bool> {
        driver()?.device_get_mem_pool(self.device.as_raw()).map(|raw| raw == self.raw)
    }

    /// How much unused memory the pool keeps when the program waits for something, in bytes.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
    #[doc(alias = "cuMemPoolGetAttribute")]
    #[inline]
    pub fn release_threshold(&self) -> CudaResult<u64> {
        self.bytes(RELEASE_THRESHOLD)
    }

    /// Sets up to how much unused memory the pool keeps when the program waits for something, in bytes: with 0, the default,
    /// it gives all of it back, with `u64::MAX` none. It gives back whole pieces, as large as they were reserved: a piece that
    /// is larger than the threshold is not kept in part.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
    #[doc(alias = "cuMemPoolSetAttribute")]
    #[inline]
    pub fn set_release_threshold(&self, bytes: u64) -> CudaResult<()> {
        self.set_bytes(RELEASE_THRESHOLD, bytes)
    }

    /// Whether this kind of reuse is on.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
    #[doc(alias = "cuMemPoolGetAttribute")]
    #[inline]
    pub fn reuses(&self, reuse: PoolReuse) -> CudaResult<bool> {
        self.with(|driver, pool| driver.mem_pool_get_switch(pool, reuse as u32))
    }

    /// Switches this kind of reuse on or off.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
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
    #[inline]
    pub fn set_reuse(&self, reuse: PoolReuse, on: bool) -> CudaResult<()> {
        self.with(|driver, pool| driver.mem_pool_set_switch(pool, reuse as u32, on))
    }

    #[inline]
    fn bytes(&self, attribute: u32) -> CudaResult<u64> {
        self.with(|driver, pool| driver.mem_pool_get_bytes(pool, attribute))
    }

    #[inline]
    fn set_bytes(&self, attribute: u32, bytes: u64) -> CudaResult<()> {
        self.with(|driver, pool| driver.mem_pool_set_bytes(pool, attribute, bytes))
    }

    /// The statistics of the pool. They are four queries, between which other threads may change the pool.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
    #[doc(alias = "cuMemPoolGetAttribute")]
    #[inline]
    pub fn usage(&self) -> CudaResult<PoolUsage> {
        Ok(PoolUsage {
            used: self.bytes(USED)?,
            used_peak: self.bytes(USED_PEAK)?,
            reserved: self.bytes(RESERVED)?,
            reserved_peak: self.bytes(RESERVED_PEAK)?,
        })
    }

    /// Resets the peaks to the present values.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
    #[doc(alias = "cuMemPoolSetAttribute")]
    #[inline]
    pub fn reset_peaks(&self) -> CudaResult<()> {
        self.set_bytes(USED_PEAK, 0)?;
        self.set_bytes(RESERVED_PEAK, 0)
    }

    /// Gives unused memory back to the device until at most this many bytes are reserved, if there is enough of it.
    /// Memory freed in a stream counts as used until the program has waited for that stream.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
    #[doc(alias = "cuMemPoolTrimTo")]
    #[inline]
    pub fn trim_to(&self, bytes: usize) -> CudaResult<()> {
        self.with(|driver, pool| driver.mem_pool_trim_to(pool, bytes))
    }

    /// How a device may access the pool's memory. The pool's own device always has full access.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
    #[doc(alias = "cuMemPoolGetAccess")]
    #[inline]
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

    /// Grants or revokes a device's access to the pool's memory, including what is allocated already. Later work that
    /// lacks access fails. It is independent of the peer access of contexts
    /// ([`enable_peer_access`](crate::context::UnownedContext::enable_peer_access)).
    ///
    /// # Errors
    ///
    /// [`InvalidDevice`](CudaError::InvalidDevice) if that device cannot access this one's memory, and for less than
    /// full access of the pool's own device; [`NotSupported`](CudaError::NotSupported) for read-only access.
    #[doc(alias = "cuMemPoolSetAccess")]
    #[inline]
    pub fn grant(&self, device: Device, access: PoolAccess) -> CudaResult<()> {
        self.with(|driver, pool| driver.mem_pool_set_access(pool, device.as_raw(), access as u32)).map_err(
            |error| {
                let (of, to) = (self.device.as_raw(), device.as_raw());
                error.note_instead(format_args!("to grant device {to} {access:?} on a pool of device {of}"))
            },
        )
    }

    #[inline]
    fn destroy(&self) -> CudaResult<()> {
        let driver = driver_to_drop()?;
        let pool = self.held()?;
        match unbroken(driver, || driver.mem_pool_destroy(pool)) {
            Err(error) if !is_gone(error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Destroys the pool; if that fails, returns the error and the pool. A default pool is not destroyed.
    ///
    /// # Errors
    ///
    /// Any error of the driver. It may have destroyed the pool all the same, so the returned one refuses every use with
    /// [`InvalidHandle`](CudaError::InvalidHandle), and dropping it does nothing; only after
    /// [`NotPermitted`](CudaError::NotPermitted), in a host function, is it unchanged.
    #[doc(alias = "cuMemPoolDestroy")]
    #[inline]
    pub fn drop(mut pool: MemoryPool) -> DropResult<MemoryPool> {
        let result = if pool.is_own { pool.destroy() } else { Ok(()) };
        if result != Err(CudaError::NotPermitted) {
            pool.is_own = false;
            pool.raw = if result.is_err() { ptr::null_mut() } else { pool.raw };
        }
        result.map_err(|error| (error, pool))
    }
}

#[inline]
fn report(error: CudaError) {
    report::warn(format_args!("a memory pool could not be destroyed: {error:?}"));
}

impl Drop for MemoryPool {
    #[inline]
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

impl PoolOfOrder for MemoryPool {
    #[inline]
    fn held(&self) -> CudaResult<Held<'_, CUmemoryPool>> {
        if self.raw.is_null() {
            return Err(CudaError::InvalidHandle.note(format_args!(
                "to use a pool that could not be destroyed, and may be destroyed all the same"
            )));
        }
        // SAFETY: this value owns the pool, or the device does, or the caller of `from_raw` vouched for it.
        Ok(unsafe { Held::new(self.raw) })
    }
}

impl<'a> From<(&'a MemoryPool, &'a Stream)> for StreamOrder<'a> {
    fn from((pool, stream): (&'a MemoryPool, &'a Stream)) -> StreamOrder<'a> {
        StreamOrder::of(stream, pool)
    }
}
