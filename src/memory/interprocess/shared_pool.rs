//! Pools that other processes open, and memory of such pools.

// Memory of another process is valid only as long as that process keeps it.
#![allow(unsafe_code)]

use super::IpcMemHandle;
use crate::context::refuse_unsafe;
use crate::device::Device;
use crate::driver::driver;
use crate::error::{CudaError, CudaResult};
use crate::memory::ordered::open_in_order;
use crate::memory::{DeviceBuffer, DeviceCopy, MemoryPool};
use crate::stream::Stream;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// Pools that processes share, on Unix. The pool goes to another process as a descriptor (through a Unix socket, or by
/// inheritance), and each buffer of it as the bytes of a handle.
///
/// ```
/// use custack::device::Device;
/// use custack::memory::{DeviceBuffer, MemoryPool, PoolProperties};
/// use custack::stream::{Stream, StreamFlags};
///
/// let _context = custack::quick_init()?;
/// # if cfg!(target_os = "linux") {
/// let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
/// let pool = MemoryPool::new(Device::get_device(0)?, &PoolProperties::new().shareable())?;
/// let descriptor = pool.descriptor()?; // to send
/// let buffer = DeviceBuffer::from_slice_in(&[1u32, 2, 3], (&pool, &stream))?;
/// stream.synchronize()?;
/// let bytes = buffer.pool_handle()?.to_bytes(); // to send as well
/// # }
/// # Ok::<(), custack::error::CudaError>(())
/// ```
impl MemoryPool {
    /// A descriptor with which other processes open the pool. It must have been made
    /// [shareable](crate::memory::PoolProperties::shareable).
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue) for any other pool; [`NotSupported`](CudaError::NotSupported) on the
    /// simulated driver on systems other than Linux.
    #[doc(alias = "cuMemPoolExportToShareableHandle")]
    #[inline]
    pub fn descriptor(&self) -> CudaResult<OwnedFd> {
        let raw = self.with(|driver, pool| driver.mem_pool_export(pool))?;
        // SAFETY: the driver has just opened it for the caller.
        Ok(unsafe { OwnedFd::from_raw_fd(raw) })
    }

    /// Opens a pool on this device that another process, or this one, has made. It is what [`DeviceBuffer::open_in`] opens
    /// memory in. Nothing can be allocated from it, it has no settings or statistics, and it is not made current: all these
    /// return [`InvalidValue`](CudaError::InvalidValue).
    ///
    /// A pool that is opened again is the same one, so it stays open until the process ends.
    ///
    /// # Errors
    ///
    /// [`UnknownError`](CudaError::UnknownError) for a descriptor of anything else.
    #[doc(alias = "cuMemPoolImportFromShareableHandle")]
    #[inline]
    pub fn open(descriptor: impl AsFd, device: Device) -> CudaResult<MemoryPool> {
        refuse_unsafe("open a memory pool")?;
        // The driver takes the number as a pointer, and 0 for none.
        let descriptor = descriptor.as_fd();
        let other = (descriptor.as_raw_fd() == 0).then(|| descriptor.try_clone_to_owned()).transpose();
        let other = other.map_err(|error| {
            CudaError::OperatingSystemError.note(format_args!("to open a memory pool: {error}"))
        })?;
        let number = other.as_ref().map_or(descriptor.as_raw_fd(), AsRawFd::as_raw_fd);
        let raw = driver()?.mem_pool_import(number)?;
        // Destroyed through one of several values it would be gone for the others, and an H200 refuses to destroy it.
        // SAFETY: the driver has just opened it, and nothing destroys it.
        Ok(unsafe { MemoryPool::from_raw(raw, device, false) })
    }
}

impl<T: DeviceCopy> DeviceBuffer<T> {
    /// The handle of memory of a pool, with which a process that has opened the pool opens the memory
    /// ([`open_in`](Self::open_in)). The memory must live as long as any process has it open.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue) for memory that is not of a pool of which there is a
    /// [`descriptor`](MemoryPool::descriptor), and for no values.
    #[doc(alias = "cuMemPoolExportPointer")]
    #[inline]
    pub fn pool_handle(&self) -> CudaResult<IpcMemHandle<T>> {
        let memory = self.memory();
        if memory.is_spent() {
            return Err(CudaError::InvalidValue.note(format_args!("to share a buffer that has no memory")));
        }
        let data = memory.context().inside(|driver| driver.mem_pool_export_pointer(memory.address()))?;
        Ok(IpcMemHandle::of(data.reserved, self.len()))
    }

    /// Opens memory of another process in a pool that was [opened](MemoryPool::open). It is used and freed in the order of
    /// this stream; freeing it closes it, and the other process keeps it.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue) for bytes that are not a handle, and for a pool that was not opened; those of
    /// [`uninitialized_in`](Self::uninitialized_in).
    ///
    /// # Safety
    ///
    /// The bytes are from [`pool_handle`](Self::pool_handle) of a buffer of this very type; the stream that allocates it in
    /// the other process has got there; that process frees it after this value is dropped and this stream is done; and no
    /// process writes values while another one reads or writes them.
    #[doc(alias = "cuMemPoolImportPointer")]
    #[inline]
    pub unsafe fn open_in(
        handle: IpcMemHandle<T>,
        (pool, stream): (&MemoryPool, &Stream),
    ) -> CudaResult<DeviceBuffer<T>> {
        let memory = open_in_order(stream, pool, handle.reserved(), handle.size()?)?.aligned_for::<T>()?;
        Ok(DeviceBuffer::of_memory(memory, handle.len()))
    }
}
