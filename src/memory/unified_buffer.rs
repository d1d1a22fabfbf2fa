//! [`UnifiedBuffer`]: values that both sides use.

// Allocates, frees, and lends what it owns.
#![allow(unsafe_code)]

use super::allocations;
use super::malloc::{cuda_malloc_unified, free};
use super::{DeviceCopy, UnifiedPointer};
use crate::context::UnownedContext;
use crate::error::{CudaResult, DropResult};
use crate::report;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::slice;

/// Values in unified memory, which the host and the device use, one after the other: a kernel that does must have ended
/// before the host touches them. It derefs to a slice, and keeps its context from being destroyed.
#[derive(Debug)]
pub struct UnifiedBuffer<T: DeviceCopy> {
    buf: UnifiedPointer<T>,
    capacity: usize,
    context: UnownedContext,
}

// SAFETY: memory that the host may use, owned as a `Vec` owns its.
unsafe impl<T: DeviceCopy + Send> Send for UnifiedBuffer<T> {}
// SAFETY: as above.
unsafe impl<T: DeviceCopy + Sync> Sync for UnifiedBuffer<T> {}

impl<T: DeviceCopy + Clone> UnifiedBuffer<T> {
    /// Allocates memory for `size` values, all of them clones of `value`.
    ///
    /// # Errors
    ///
    /// [`InvalidMemoryAllocation`](crate::error::CudaError::InvalidMemoryAllocation) if the size overflows;
    /// [`OutOfMemory`](crate::error::CudaError::OutOfMemory);
    /// [`InvalidContext`](crate::error::CudaError::InvalidContext) if no context is current.
    #[doc(alias("cuMemAllocManaged"))]
    pub fn new(value: &T, size: usize) -> CudaResult<UnifiedBuffer<T>> {
        UnifiedBuffer::filled(size, |_| value.clone())
    }

    /// Allocates memory and clones the values into it.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    #[doc(alias("cuMemAllocManaged"))]
    pub fn from_slice(slice: &[T]) -> CudaResult<UnifiedBuffer<T>> {
        UnifiedBuffer::filled(slice.len(), |at| slice[at].clone())
    }

    fn filled(size: usize, value: impl Fn(usize) -> T) -> CudaResult<UnifiedBuffer<T>> {
        // SAFETY: all values are written in the next lines; values that can be copied as bytes need no dropping.
        let buffer = unsafe { UnifiedBuffer::<T>::uninitialized(size) }?;
        for at in 0..size {
            // SAFETY: within the memory, whose old contents are no value.
            unsafe { buffer.place().add(at).write(value(at)) };
        }
        Ok(buffer)
    }
}

impl<T: DeviceCopy> UnifiedBuffer<T> {
    /// Allocates memory for `size` values. Without values, or values without a size, nothing is allocated.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    ///
    /// # Safety
    ///
    /// The values are read only after they were written.
    #[doc(alias("cuMemAllocManaged"))]
    pub unsafe fn uninitialized(size: usize) -> CudaResult<UnifiedBuffer<T>> {
        if size == 0 || mem::size_of::<T>() == 0 {
            // SAFETY: no address that is used.
            let buf = unsafe { UnifiedPointer::wrap(ptr::dangling_mut()) };
            return Ok(UnifiedBuffer { buf, capacity: size, context: UnownedContext::none() });
        }
        // SAFETY: freed by the destructor.
        let buf = unsafe { cuda_malloc_unified::<T>(size) }?;
        // SAFETY: owned from here on.
        Ok(unsafe { UnifiedBuffer::from_raw_parts(buf, size) })
    }

    /// The values.
    pub fn as_slice(&self) -> &[T] {
        self
    }

    /// The values.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        self
    }

    /// The address, as kernels take it.
    pub fn as_unified_ptr(&mut self) -> UnifiedPointer<T> {
        self.buf
    }

    /// Takes ownership of memory that was allocated with [`cuda_malloc_unified`].
    ///
    /// # Safety
    ///
    /// The memory has room for as many values, they are written before they are read, and nothing else frees it.
    pub unsafe fn from_raw_parts(ptr: UnifiedPointer<T>, capacity: usize) -> UnifiedBuffer<T> {
        let context = allocations::context_at(ptr.as_raw() as u64);
        UnifiedBuffer { buf: ptr, capacity, context }
    }

    /// Frees the memory, and gives the buffer back with the error if that fails.
    ///
    /// # Errors
    ///
    /// What the driver answers.
    #[doc(alias("cuMemFree", "cuMemFree_v2"))]
    pub fn drop(uni_buf: UnifiedBuffer<T>) -> DropResult<UnifiedBuffer<T>> {
        match uni_buf.free() {
            Ok(()) => {
                mem::forget(uni_buf);
                Ok(())
            }
            Err(error) => Err((error, uni_buf)),
        }
    }

    fn free(&self) -> CudaResult<()> {
        if self.buf.is_null() || self.capacity == 0 || mem::size_of::<T>() == 0 {
            return Ok(());
        }
        // SAFETY: the buffer owns the memory, and is gone after this.
        unsafe { free(self.buf.as_raw() as u64, &self.context) }
    }

    fn place(&self) -> *mut T {
        let mut buf = self.buf;
        buf.as_raw_mut()
    }
}

impl<T: DeviceCopy> AsRef<[T]> for UnifiedBuffer<T> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<T: DeviceCopy> AsMut<[T]> for UnifiedBuffer<T> {
    fn as_mut(&mut self) -> &mut [T] {
        self
    }
}

impl<T: DeviceCopy> Deref for UnifiedBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the values that the buffer owns; its context, and with it the memory, stays.
        unsafe { slice::from_raw_parts(self.place(), self.capacity) }
    }
}

impl<T: DeviceCopy> DerefMut for UnifiedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { slice::from_raw_parts_mut(self.place(), self.capacity) }
    }
}

impl<T: DeviceCopy> Drop for UnifiedBuffer<T> {
    fn drop(&mut self) {
        if let Err(error) = self.free() {
            report::warn(format_args!("unified memory of {} could not be freed: {error}", self.context));
            allocations::abandon(self.buf.as_raw() as u64, &self.context);
        }
    }
}
