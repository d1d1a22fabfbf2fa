//! [`UnifiedBuffer`]: values that host and device share.

// Allocates and frees what it owns, and makes references to it.
#![allow(unsafe_code)]

use super::allocation::{Allocation, Kind};
use super::given_away;
use super::malloc::size_of;
use super::unified::refuse_unless_concurrent;
use super::{DeviceCopy, UnifiedPointer};
use crate::error::{CudaResult, DropResult};
use std::marker::PhantomData;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::slice;

/// Values in unified memory, which the host and the device use in turn: a kernel that uses them must have ended before
/// the host accesses them. It derefs to a slice, and keeps its context at the driver. On some systems the host may not
/// access it while any kernel runs, and there the safe constructors return an error: see
/// [`UnifiedBox`](super::UnifiedBox#where-the-host-may-not-access-it-while-any-kernel-runs).
#[repr(C)]
#[derive(Debug)]
pub struct UnifiedBuffer<T: DeviceCopy> {
    // At offset 0, with the address first in it: existing programs read it there.
    memory: Allocation,
    capacity: usize,
    values: PhantomData<T>,
}

impl<T: DeviceCopy + Clone> UnifiedBuffer<T> {
    /// Allocates memory for `size` values, all of them clones of `value`.
    ///
    /// # Errors
    ///
    /// [`InvalidMemoryAllocation`](crate::error::CudaError::InvalidMemoryAllocation) if the size overflows;
    /// [`OutOfMemory`](crate::error::CudaError::OutOfMemory);
    /// [`InvalidContext`](crate::error::CudaError::InvalidContext) if no context is current;
    /// [`NotSupported`](crate::error::CudaError::NotSupported) where a device does not let the host access the memory
    /// while a kernel runs.
    #[doc(alias("cuMemAllocManaged"))]
    #[inline]
    pub fn new(value: &T, size: usize) -> CudaResult<UnifiedBuffer<T>> {
        UnifiedBuffer::filled(size, |_| value.clone())
    }

    /// Allocates memory and clones the values into it.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new).
    #[doc(alias("cuMemAllocManaged"))]
    #[inline]
    pub fn from_slice(slice: &[T]) -> CudaResult<UnifiedBuffer<T>> {
        UnifiedBuffer::filled(slice.len(), |at| slice[at].clone())
    }

    fn filled(size: usize, value: impl Fn(usize) -> T) -> CudaResult<UnifiedBuffer<T>> {
        if size > 0 && mem::size_of::<T>() > 0 {
            refuse_unless_concurrent()?;
        }
        // SAFETY: all values are written in the next lines; `DeviceCopy` values need no drop; all devices let the host
        // access the memory at any time.
        let buffer = unsafe { UnifiedBuffer::<T>::uninitialized(size) }?;
        // Zero-sized values need no write, and there may be any number of them.
        let written = if mem::size_of::<T>() == 0 { 0 } else { size };
        for at in 0..written {
            // SAFETY: within the memory, whose old contents are not a value.
            unsafe { buffer.first().add(at).write(value(at)) };
        }
        Ok(buffer)
    }
}

impl<T: DeviceCopy> UnifiedBuffer<T> {
    /// Allocates memory for `size` values. For no values, or zero-sized ones, nothing is allocated.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new).
    ///
    /// # Safety
    ///
    /// The values are written before they are read. If a device lacks
    /// [`ConcurrentManagedAccess`](crate::device::DeviceAttribute::ConcurrentManagedAccess), the host does neither while
    /// any kernel runs.
    #[doc(alias("cuMemAllocManaged"))]
    #[inline]
    pub unsafe fn uninitialized(size: usize) -> CudaResult<UnifiedBuffer<T>> {
        if size == 0 || mem::size_of::<T>() == 0 {
            let memory = Allocation::nothing(Kind::Unified, ptr::dangling::<T>().addr());
            return Ok(UnifiedBuffer { memory, capacity: size, values: PhantomData });
        }
        let memory = Allocation::new(Kind::Unified, size_of::<T>(size)?)?.aligned_for::<T>()?;
        Ok(UnifiedBuffer { memory, capacity: size, values: PhantomData })
    }

    /// The values.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        self
    }

    /// The values.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        self
    }

    /// The address, for kernels.
    #[inline]
    pub fn as_unified_ptr(&mut self) -> UnifiedPointer<T> {
        // SAFETY: an address of both host and device.
        unsafe { UnifiedPointer::wrap(self.first()) }
    }

    /// Takes ownership of memory that was allocated with [`cuda_malloc_unified`](super::cuda_malloc_unified).
    ///
    /// # Safety
    ///
    /// The memory has space for `capacity` values, they are initialised and valid for `T` before they are read, and
    /// nothing else frees it. The host accesses it only when it may, as after [`uninitialized`](Self::uninitialized).
    #[inline]
    pub unsafe fn from_raw_parts(ptr: UnifiedPointer<T>, capacity: usize) -> UnifiedBuffer<T> {
        let memory = match capacity == 0 || mem::size_of::<T>() == 0 || ptr.is_null() {
            true => Allocation::nothing(Kind::Unified, ptr.as_raw().addr()),
            false => given_away::owned(Kind::Unified, ptr.as_raw() as u64),
        };
        UnifiedBuffer { memory, capacity, values: PhantomData }
    }

    /// Frees the memory; if that fails, returns the error and the buffer.
    ///
    /// # Errors
    ///
    /// Any error of the driver. It may have freed the memory all the same, so the returned buffer is empty, and
    /// dropping it does nothing; only after [`NotPermitted`](crate::error::CudaError::NotPermitted), in a host
    /// function, is the buffer unchanged.
    #[doc(alias("cuMemFree", "cuMemFree_v2"))]
    #[inline]
    pub fn drop(uni_buf: UnifiedBuffer<T>) -> DropResult<UnifiedBuffer<T>> {
        uni_buf.memory.free(uni_buf.capacity).map_err(|(error, memory, capacity)| {
            (error, UnifiedBuffer { memory, capacity, values: PhantomData })
        })
    }

    /// The address of the values; dangling but not null if there is no memory.
    fn first(&self) -> *mut T {
        let first = self.memory.address() as *mut T;
        if first.is_null() { ptr::dangling_mut() } else { first }
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
        // SAFETY: the buffer owns the values, and pins its context, so the memory stays; the host may access it now, as
        // all devices allow it at any time, or as the caller of an unsafe function guarantees.
        unsafe { slice::from_raw_parts(self.first(), self.capacity) }
    }
}

impl<T: DeviceCopy> DerefMut for UnifiedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { slice::from_raw_parts_mut(self.first(), self.capacity) }
    }
}
