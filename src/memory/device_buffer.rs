//! [`DeviceBuffer`]: device memory that is owned.

// Allocates, frees, and makes slices of what it owns.
#![allow(unsafe_code)]

use super::allocations;
use super::copies::{AsyncCopyDestination, CopyDestination, GONE};
use super::malloc::{cuda_malloc, free};
use super::{DeviceCopy, DevicePointer, DeviceSlice};
use crate::context::UnownedContext;
use crate::error::{CudaResult, DropResult};
use crate::report;
use crate::stream::Stream;
use std::fmt;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::ptr;

/// Values in device memory, on the heap of the context that was current when it was allocated; as `Box<[T]>` is on the
/// host's. It derefs to a [`DeviceSlice`], which is indexed with ranges and copied.
///
/// Dropped on any thread, it frees its memory. If its context is gone, so is the memory: copies answer
/// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed), and dropping it calls nothing.
#[repr(C)]
pub struct DeviceBuffer<T> {
    // At offset 0: programs in the wild read the address there.
    buf: DevicePointer<T>,
    capacity: usize,
    context: UnownedContext,
}

// SAFETY: an address on the device and a handle that any thread may use; the values go with it.
unsafe impl<T: Send> Send for DeviceBuffer<T> {}
// SAFETY: shared, it can be copied from, and the driver allows that on several threads.
unsafe impl<T: Sync> Sync for DeviceBuffer<T> {}

impl<T> DeviceBuffer<T> {
    /// Allocates memory for `size` values. Without values, or values without a size, nothing is allocated.
    ///
    /// # Errors
    ///
    /// [`InvalidMemoryAllocation`](crate::error::CudaError::InvalidMemoryAllocation) if the size overflows;
    /// [`OutOfMemory`](crate::error::CudaError::OutOfMemory);
    /// [`InvalidContext`](crate::error::CudaError::InvalidContext) if no context is current.
    ///
    /// # Safety
    ///
    /// The values are read only after they were written.
    #[doc(alias("cuMemAlloc", "cuMemAlloc_v2"))]
    pub unsafe fn uninitialized(size: usize) -> CudaResult<DeviceBuffer<T>> {
        if size == 0 || mem::size_of::<T>() == 0 {
            // SAFETY: no address that is used.
            let buf = unsafe { DevicePointer::wrap(ptr::dangling_mut()) };
            return Ok(DeviceBuffer { buf, capacity: size, context: UnownedContext::none() });
        }
        // SAFETY: freed by the destructor.
        let buf = unsafe { cuda_malloc::<T>(size) }?;
        let context = allocations::context_at(buf.as_raw() as u64);
        Ok(DeviceBuffer { buf, capacity: size, context })
    }

    /// Allocates memory for `size` values, all bytes zero.
    ///
    /// # Errors
    ///
    /// As [`uninitialized`](Self::uninitialized).
    ///
    /// # Safety
    ///
    /// Zero bytes are a good `T`.
    #[doc(alias("cuMemsetD8", "cuMemsetD8_v2"))]
    pub unsafe fn zeroed(size: usize) -> CudaResult<DeviceBuffer<T>> {
        // SAFETY: written in the next lines, or dropped.
        let buffer = unsafe { DeviceBuffer::<T>::uninitialized(size) }?;
        let bytes = size * mem::size_of::<T>();
        if bytes > 0 {
            let address = buffer.buf.as_raw() as u64;
            // SAFETY: the memory allocated above.
            buffer.context.inside(|driver| unsafe { driver.memset(address, 0, bytes) })?;
        }
        Ok(buffer)
    }

    /// Takes ownership of memory that was allocated with [`cuda_malloc`].
    ///
    /// # Safety
    ///
    /// The memory has room for `capacity` values, they are written before they are read, and nothing else frees it.
    pub unsafe fn from_raw_parts(ptr: DevicePointer<T>, capacity: usize) -> DeviceBuffer<T> {
        DeviceBuffer { buf: ptr, capacity, context: allocations::context_at(ptr.as_raw() as u64) }
    }

    /// Frees the memory, and gives the buffer back with the error if that fails.
    ///
    /// # Errors
    ///
    /// What the driver answers.
    #[doc(alias("cuMemFree", "cuMemFree_v2"))]
    pub fn drop(dev_buf: DeviceBuffer<T>) -> DropResult<DeviceBuffer<T>> {
        match dev_buf.free() {
            Ok(()) => {
                mem::forget(dev_buf);
                Ok(())
            }
            Err(error) => Err((error, dev_buf)),
        }
    }

    /// The context that the memory is of; a null handle if nothing is allocated, or nothing is known.
    pub fn context(&self) -> &UnownedContext {
        &self.context
    }

    fn free(&self) -> CudaResult<()> {
        if self.buf.is_null() || self.capacity == 0 || mem::size_of::<T>() == 0 {
            return Ok(());
        }
        // SAFETY: the buffer owns the memory, and is gone after this.
        unsafe { free(self.buf.as_raw() as u64, &self.context) }
    }

    /// Where the values are; nowhere, if the memory went with its context.
    fn address(&self) -> *mut T {
        let mut buf = self.buf;
        if self.context.is_null() || self.context.is_alive() { buf.as_raw_mut() } else { GONE as *mut T }
    }
}

impl<T: DeviceCopy> DeviceBuffer<T> {
    /// Allocates memory and copies the values there.
    ///
    /// # Errors
    ///
    /// As [`uninitialized`](Self::uninitialized).
    #[doc(alias("cuMemcpyHtoD", "cuMemcpyHtoD_v2"))]
    pub fn from_slice(slice: &[T]) -> CudaResult<DeviceBuffer<T>> {
        // SAFETY: written in the next line, or dropped.
        let mut buffer = unsafe { DeviceBuffer::uninitialized(slice.len()) }?;
        buffer.copy_from(slice)?;
        Ok(buffer)
    }

    /// Allocates memory and gives the stream a copy of the values to it.
    ///
    /// # Errors
    ///
    /// As [`uninitialized`](Self::uninitialized).
    ///
    /// # Safety
    ///
    /// The slice is not written or freed, and the buffer not used, until the stream is there.
    #[doc(alias("cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2"))]
    pub unsafe fn from_slice_async(slice: &[T], stream: &Stream) -> CudaResult<DeviceBuffer<T>> {
        // SAFETY: written by the stream; until then the caller does not use it.
        let mut buffer = unsafe { DeviceBuffer::uninitialized(slice.len()) }?;
        // SAFETY: the caller's promise.
        unsafe { buffer.async_copy_from(slice, stream) }?;
        Ok(buffer)
    }
}

impl<T> Deref for DeviceBuffer<T> {
    type Target = DeviceSlice<T>;

    fn deref(&self) -> &DeviceSlice<T> {
        // SAFETY: the memory that the buffer owns, lent as the buffer is.
        unsafe { DeviceSlice::from_raw_parts(DevicePointer::wrap(self.address()), self.capacity) }
    }
}

impl<T> DerefMut for DeviceBuffer<T> {
    fn deref_mut(&mut self) -> &mut DeviceSlice<T> {
        // SAFETY: the memory that the buffer owns, lent as the buffer is.
        unsafe { DeviceSlice::from_raw_parts_mut(DevicePointer::wrap(self.address()), self.capacity) }
    }
}

impl<T> fmt::Debug for DeviceBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceBuffer").field("buf", &self.buf).field("capacity", &self.capacity).finish()
    }
}

impl<T> Drop for DeviceBuffer<T> {
    fn drop(&mut self) {
        if let Err(error) = self.free() {
            report::warn(format_args!("device memory of {} could not be freed: {error}", self.context));
            allocations::abandon(self.buf.as_raw() as u64, &self.context);
        }
    }
}
