//! [`LockedBuffer`]: page-locked host memory.

// Allocates, frees, and lends what it owns.
#![allow(unsafe_code)]

use super::DeviceCopy;
use super::allocation::{Allocation, Kind};
use super::given_away;
use super::malloc::size_of;
use crate::error::{CudaResult, DropResult};
use std::marker::PhantomData;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::slice;

/// Values in page-locked memory of the host: the device copies to and from it by itself, while the program goes on. It
/// derefs to a slice, and keeps its context at the driver.
#[repr(C)]
#[derive(Debug)]
pub struct LockedBuffer<T: DeviceCopy> {
    // At offset 0, and the address first in it: programs in the wild read it there.
    memory: Allocation,
    capacity: usize,
    values: PhantomData<T>,
}

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
        // Values without a size need no writing, and there may be any number of them.
        let written = if mem::size_of::<T>() == 0 { 0 } else { size };
        for at in 0..written {
            // SAFETY: within the memory, whose old contents are no value.
            unsafe { buffer.first().add(at).write(value(at)) };
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
            let memory = Allocation::nothing(Kind::Locked, ptr::dangling::<T>().addr());
            return Ok(LockedBuffer { memory, capacity: size, values: PhantomData });
        }
        let memory = Allocation::new(Kind::Locked, size_of::<T>(size)?)?.aligned_for::<T>()?;
        Ok(LockedBuffer { memory, capacity: size, values: PhantomData })
    }

    /// The values.
    pub fn as_slice(&self) -> &[T] {
        self
    }

    /// The values.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        self
    }

    /// Takes ownership of memory that was allocated with [`cuda_malloc_locked`](super::cuda_malloc_locked).
    ///
    /// # Safety
    ///
    /// The memory has room for as many values, they are written before they are read, and nothing else frees it.
    pub unsafe fn from_raw_parts(ptr: *mut T, size: usize) -> LockedBuffer<T> {
        let memory = match size == 0 || mem::size_of::<T>() == 0 || ptr.is_null() {
            true => Allocation::nothing(Kind::Locked, ptr.addr()),
            false => given_away::owned(Kind::Locked, ptr as u64),
        };
        LockedBuffer { memory, capacity: size, values: PhantomData }
    }

    /// Frees the memory, and gives the error and the buffer back if that fails.
    ///
    /// # Errors
    ///
    /// What the driver answers. It may have freed the memory all the same, so the buffer that comes back is empty, and
    /// dropping it does nothing; only after [`NotPermitted`](crate::error::CudaError::NotPermitted), in a host function,
    /// is it as it was.
    #[doc(alias("cuMemFreeHost"))]
    pub fn drop(buf: LockedBuffer<T>) -> DropResult<LockedBuffer<T>> {
        let capacity = buf.capacity;
        buf.memory.free().map_err(|(error, memory)| {
            let capacity = if memory.is_spent() { 0 } else { capacity };
            (error, LockedBuffer { memory, capacity, values: PhantomData })
        })
    }

    /// Where the values are; no values, and values without a size, are anywhere but at null.
    fn first(&self) -> *mut T {
        let first = self.memory.address() as *mut T;
        if first.is_null() { ptr::dangling_mut() } else { first }
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
        // SAFETY: the values that the buffer owns; its context is pinned, so the memory stays.
        unsafe { slice::from_raw_parts(self.first(), self.capacity) }
    }
}

impl<T: DeviceCopy> DerefMut for LockedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { slice::from_raw_parts_mut(self.first(), self.capacity) }
    }
}
