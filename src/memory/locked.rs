//! [`LockedBuffer`]: page-locked host memory.

// Allocates, frees, and lends what it owns.
#![allow(unsafe_code)]

use super::DeviceCopy;
use super::allocations;
use super::malloc::{cuda_malloc_locked, free_locked};
use crate::context::UnownedContext;
use crate::error::{CudaResult, DropResult};
use crate::report;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::slice;

/// Values in page-locked memory of the host: the device copies to and from it by itself, while the program goes on. It
/// derefs to a slice, and keeps its context from being destroyed.
#[derive(Debug)]
pub struct LockedBuffer<T: DeviceCopy> {
    buf: *mut T,
    capacity: usize,
    context: UnownedContext,
}

// SAFETY: memory that the host may use, owned as a `Vec` owns its.
unsafe impl<T: DeviceCopy + Send> Send for LockedBuffer<T> {}
// SAFETY: as above.
unsafe impl<T: DeviceCopy + Sync> Sync for LockedBuffer<T> {}

impl<T: DeviceCopy + Clone> LockedBuffer<T> {
    /// Allocates memory for `size` values, all of them clones of `value`.
    ///
    /// # Errors
    ///
    /// [`InvalidMemoryAllocation`](crate::error::CudaError::InvalidMemoryAllocation) if the size overflows;
    /// [`OutOfMemory`](crate::error::CudaError::OutOfMemory);
    /// [`InvalidContext`](crate::error::CudaError::InvalidContext) if no context is current.
    #[doc(alias("cuMemAllocHost", "cuMemAllocHost_v2"))]
    pub fn new(value: &T, size: usize) -> CudaResult<LockedBuffer<T>> {
        LockedBuffer::filled(size, |_| value.clone())
    }

    /// Allocates memory and clones the values into it.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    #[doc(alias("cuMemAllocHost", "cuMemAllocHost_v2"))]
    pub fn from_slice(slice: &[T]) -> CudaResult<LockedBuffer<T>> {
        LockedBuffer::filled(slice.len(), |at| slice[at].clone())
    }

    fn filled(size: usize, value: impl Fn(usize) -> T) -> CudaResult<LockedBuffer<T>> {
        // SAFETY: all values are written in the next lines; values that can be copied as bytes need no dropping.
        let buffer = unsafe { LockedBuffer::<T>::uninitialized(size) }?;
        for at in 0..size {
            // SAFETY: within the memory, whose old contents are no value.
            unsafe { buffer.place().add(at).write(value(at)) };
        }
        Ok(buffer)
    }
}

impl<T: DeviceCopy> LockedBuffer<T> {
    /// Allocates memory for `size` values. Without values, or values without a size, nothing is allocated.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    ///
    /// # Safety
    ///
    /// The values are read only after they were written.
    #[doc(alias("cuMemAllocHost", "cuMemAllocHost_v2"))]
    pub unsafe fn uninitialized(size: usize) -> CudaResult<LockedBuffer<T>> {
        if size == 0 || mem::size_of::<T>() == 0 {
            let buf = ptr::dangling_mut();
            return Ok(LockedBuffer { buf, capacity: size, context: UnownedContext::none() });
        }
        // SAFETY: freed by the destructor.
        let buf = unsafe { cuda_malloc_locked::<T>(size) }?;
        // SAFETY: owned from here on.
        Ok(unsafe { LockedBuffer::from_raw_parts(buf, size) })
    }

    /// The values.
    pub fn as_slice(&self) -> &[T] {
        self
    }

    /// The values.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        self
    }

    /// Takes ownership of memory that was allocated with [`cuda_malloc_locked`].
    ///
    /// # Safety
    ///
    /// The memory has room for as many values, they are written before they are read, and nothing else frees it.
    pub unsafe fn from_raw_parts(ptr: *mut T, size: usize) -> LockedBuffer<T> {
        let context = allocations::context_at(ptr.addr() as u64);
        LockedBuffer { buf: ptr, capacity: size, context }
    }

    /// Frees the memory, and gives the buffer back with the error if that fails.
    ///
    /// # Errors
    ///
    /// What the driver answers.
    #[doc(alias("cuMemFreeHost"))]
    pub fn drop(buf: LockedBuffer<T>) -> DropResult<LockedBuffer<T>> {
        match buf.free() {
            Ok(()) => {
                mem::forget(buf);
                Ok(())
            }
            Err(error) => Err((error, buf)),
        }
    }

    fn free(&self) -> CudaResult<()> {
        if self.buf.is_null() || self.capacity == 0 || mem::size_of::<T>() == 0 {
            return Ok(());
        }
        // SAFETY: the buffer owns the memory, and is gone after this.
        unsafe { free_locked(self.buf, &self.context) }
    }

    fn place(&self) -> *mut T {
        self.buf
    }
}

impl<T: DeviceCopy> AsRef<[T]> for LockedBuffer<T> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<T: DeviceCopy> AsMut<[T]> for LockedBuffer<T> {
    fn as_mut(&mut self) -> &mut [T] {
        self
    }
}

impl<T: DeviceCopy> Deref for LockedBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the values that the buffer owns; its context, and with it the memory, stays.
        unsafe { slice::from_raw_parts(self.place(), self.capacity) }
    }
}

impl<T: DeviceCopy> DerefMut for LockedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { slice::from_raw_parts_mut(self.place(), self.capacity) }
    }
}

impl<T: DeviceCopy> Drop for LockedBuffer<T> {
    fn drop(&mut self) {
        if let Err(error) = self.free() {
            report::warn(format_args!("page-locked memory of {} could not be freed: {error}", self.context));
            allocations::abandon(self.buf.addr() as u64, &self.context);
        }
    }
}
