//! [`DeviceBuffer`]: device memory that is owned.

// Allocates, frees, and makes slices of what it owns.
#![allow(unsafe_code)]

use super::allocation::{Allocation, Kind};
use super::copies::{AsyncCopyDestination, CopyDestination};
use super::given_away;
use super::malloc::size_of;
use super::{DeviceCopy, DevicePointer, DeviceSlice};
use crate::context::UnownedContext;
use crate::error::{CudaResult, DropResult};
use crate::stream::Stream;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::ptr;

/// Values in device memory, on the heap of the context that was current when it was allocated; as `Box<[T]>` is on the
/// host's. It derefs to a [`DeviceSlice`], which is indexed with ranges and copied.
///
/// Dropped on any thread, it frees its memory. It keeps its context at the driver until then; if the context's owner is
/// gone, copies answer [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed).
#[repr(C)]
pub struct DeviceBuffer<T> {
    // At offset 0, and the address first in it: programs in the wild read it there.
    memory: Allocation,
    capacity: usize,
    values: PhantomData<T>,
}

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
            let memory = Allocation::nothing(Kind::Device, ptr::dangling::<T>().addr());
            return Ok(DeviceBuffer { memory, capacity: size, values: PhantomData });
        }
        let memory = Allocation::new(Kind::Device, size_of::<T>(size)?)?;
        Ok(DeviceBuffer { memory, capacity: size, values: PhantomData })
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
        buffer.memory.zero(size * mem::size_of::<T>())?;
        Ok(buffer)
    }

    /// Takes ownership of memory that was allocated with [`cuda_malloc`](super::cuda_malloc).
    ///
    /// # Safety
    ///
    /// The memory has room for `capacity` values, they are written before they are read, and nothing else frees it.
    pub unsafe fn from_raw_parts(ptr: DevicePointer<T>, capacity: usize) -> DeviceBuffer<T> {
        let memory = match capacity == 0 || mem::size_of::<T>() == 0 || ptr.is_null() {
            true => Allocation::nothing(Kind::Device, ptr.as_raw().addr()),
            false => given_away::owned(Kind::Device, ptr.as_raw() as u64),
        };
        DeviceBuffer { memory, capacity, values: PhantomData }
    }

    /// Frees the memory, and gives the error and the buffer back if that fails.
    ///
    /// # Errors
    ///
    /// What the driver answers. It may have freed the memory all the same, so the buffer that comes back is empty, and
    /// dropping it does nothing; only after [`NotPermitted`](crate::error::CudaError::NotPermitted), in a host function,
    /// is it as it was.
    #[doc(alias("cuMemFree", "cuMemFree_v2"))]
    pub fn drop(dev_buf: DeviceBuffer<T>) -> DropResult<DeviceBuffer<T>> {
        let capacity = dev_buf.capacity;
        dev_buf.memory.free().map_err(|(error, memory)| {
            let capacity = if memory.is_spent() { 0 } else { capacity };
            (error, DeviceBuffer { memory, capacity, values: PhantomData })
        })
    }

    /// The context that the memory is of; a null handle if nothing is allocated, or nothing is known.
    pub fn context(&self) -> &UnownedContext {
        self.memory.context()
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
        unsafe { DeviceSlice::of(self.memory.address(), self.memory.number(), self.capacity) }
    }
}

impl<T> DerefMut for DeviceBuffer<T> {
    fn deref_mut(&mut self) -> &mut DeviceSlice<T> {
        // SAFETY: the memory that the buffer owns, lent as the buffer is.
        unsafe { DeviceSlice::of_mut(self.memory.address(), self.memory.number(), self.capacity) }
    }
}

impl<T> fmt::Debug for DeviceBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buf = self.memory.address() as *const T;
        f.debug_struct("DeviceBuffer").field("buf", &buf).field("capacity", &self.capacity).finish()
    }
}
