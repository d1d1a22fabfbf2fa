//! [`LockedBuffer`]: page-locked host memory.

// Allocates and frees what it owns, and makes references to it.
#![allow(unsafe_code)]

use super::allocation::{Allocation, Kind};
use super::given_away;
use super::malloc::size_of;
use super::{DeviceCopy, DevicePointer};
use crate::driver::Driver;
use crate::error::{CudaResult, DropResult};
use bitflags::bitflags;
use std::marker::PhantomData;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::slice;

bitflags! {
    /// Flags of [`LockedBuffer::uninitialized_with`](super::LockedBuffer::uninitialized_with).
    #[derive(Default)]
    pub struct LockedFlags: u32 {
        /// It is page-locked for all contexts. With unified addresses that is always so.
        const PORTABLE = 0x01;
        /// Kernels can access it at [`as_device_ptr`](super::LockedBuffer::as_device_ptr). With unified addresses that
        /// is always so.
        const DEVICE_MAP = 0x02;
        /// Fast for the host to write and for the device to read, but slow for the host to read.
        const WRITE_COMBINED = 0x04;
    }
}

/// Values in page-locked host memory: the device copies to and from it by itself, while the program continues. It
/// derefs to a slice, and keeps its context at the driver.
#[repr(C)]
#[derive(Debug)]
pub struct LockedBuffer<T: DeviceCopy> {
    // At offset 0, with the address first in it: existing programs read it there.
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
    #[inline]
    pub fn new(value: &T, size: usize) -> CudaResult<LockedBuffer<T>> {
        LockedBuffer::filled(size, |_| value.clone())
    }

    /// Allocates memory and clones the values into it.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new).
    #[doc(alias("cuMemAllocHost", "cuMemAllocHost_v2"))]
    #[inline]
    pub fn from_slice(slice: &[T]) -> CudaResult<LockedBuffer<T>> {
        LockedBuffer::filled(slice.len(), |at| slice[at].clone())
    }

    fn filled(size: usize, value: impl Fn(usize) -> T) -> CudaResult<LockedBuffer<T>> {
        // SAFETY: all values are written in the next lines; `DeviceCopy` values need no drop.
        let buffer = unsafe { LockedBuffer::<T>::uninitialized(size) }?;
        // Zero-sized values need no write, and there may be any number of them.
        let written = if mem::size_of::<T>() == 0 { 0 } else { size };
        for at in 0..written {
            // SAFETY: within the memory, whose old contents are not a value.
            unsafe { buffer.first().add(at).write(value(at)) };
        }
        Ok(buffer)
    }
}

impl<T: DeviceCopy> LockedBuffer<T> {
    /// Allocates memory for `size` values. For no values, or zero-sized ones, nothing is allocated.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new).
    ///
    /// # Safety
    ///
    /// The values are written before they are read.
    #[doc(alias("cuMemAllocHost", "cuMemAllocHost_v2"))]
    #[inline]
    pub unsafe fn uninitialized(size: usize) -> CudaResult<LockedBuffer<T>> {
        if size == 0 || mem::size_of::<T>() == 0 {
            let memory = Allocation::nothing(Kind::Locked, ptr::dangling::<T>().addr());
            return Ok(LockedBuffer { memory, capacity: size, values: PhantomData });
        }
        let memory = Allocation::new(Kind::Locked, size_of::<T>(size)?)?.aligned_for::<T>()?;
        Ok(LockedBuffer { memory, capacity: size, values: PhantomData })
    }

    /// Allocates memory for `size` values, with these flags.
    ///
    /// # Errors
    ///
    /// Like [`new`](Self::new).
    ///
    /// # Safety
    ///
    /// The values are written before they are read.
    ///
    /// ```
    /// use custack::memory::{LockedBuffer, LockedFlags};
    ///
    /// let _context = custack::quick_init()?;
    /// // SAFETY: written in the next line.
    /// let mut values = unsafe { LockedBuffer::<u32>::uninitialized_with(100, LockedFlags::WRITE_COMBINED) }?;
    /// values.fill(7);
    /// assert!(values.flags()?.contains(LockedFlags::WRITE_COMBINED));
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuMemHostAlloc"))]
    #[inline]
    pub unsafe fn uninitialized_with(size: usize, flags: LockedFlags) -> CudaResult<LockedBuffer<T>> {
        if size == 0 || mem::size_of::<T>() == 0 {
            let memory = Allocation::nothing(Kind::Locked, ptr::dangling::<T>().addr());
            return Ok(LockedBuffer { memory, capacity: size, values: PhantomData });
        }
        let bytes = size_of::<T>(size)?;
        let memory = Allocation::made(Kind::Locked, |driver| driver.mem_host_alloc(bytes, flags.bits()))?;
        Ok(LockedBuffer { memory: memory.aligned_for::<T>()?, capacity: size, values: PhantomData })
    }

    /// The flags of the memory; bits without a name are kept. No flags if nothing is allocated.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed); any error of the driver.
    #[doc(alias = "cuMemHostGetFlags")]
    #[inline]
    pub fn flags(&self) -> CudaResult<LockedFlags> {
        if self.memory.is_spent() {
            return Ok(LockedFlags::empty());
        }
        let bits = self.memory.context().inside(|driver| driver.mem_host_get_flags(self.first().cast()))?;
        // SAFETY: any bits are valid; the driver may have newer ones.
        Ok(unsafe { LockedFlags::from_bits_unchecked(bits) })
    }

    /// The address of the values, for kernels; null if nothing is allocated.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed); any error of the driver.
    #[doc(alias("cuMemHostGetDevicePointer", "cuMemHostGetDevicePointer_v2"))]
    #[inline]
    pub fn as_device_ptr(&mut self) -> CudaResult<DevicePointer<T>> {
        let at = self.first().cast();
        let get = |driver: &Driver| driver.mem_host_get_device_pointer(at);
        let address = if self.memory.is_spent() { 0 } else { self.memory.context().inside(get)? };
        // SAFETY: a device address.
        Ok(unsafe { DevicePointer::wrap(address as *mut T) })
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

    /// Takes ownership of memory that was allocated with [`cuda_malloc_locked`](super::cuda_malloc_locked).
    ///
    /// # Safety
    ///
    /// The memory has space for `size` values, they are initialised and valid for `T` before they are read, and nothing
    /// else frees it.
    #[inline]
    pub unsafe fn from_raw_parts(ptr: *mut T, size: usize) -> LockedBuffer<T> {
        let memory = match size == 0 || mem::size_of::<T>() == 0 || ptr.is_null() {
            true => Allocation::nothing(Kind::Locked, ptr.addr()),
            false => given_away::owned(Kind::Locked, ptr as u64),
        };
        LockedBuffer { memory, capacity: size, values: PhantomData }
    }

    /// Frees the memory; if that fails, returns the error and the buffer.
    ///
    /// # Errors
    ///
    /// Any error of the driver. It may have freed the memory all the same, so the returned buffer is empty, and
    /// dropping it does nothing; only after [`NotPermitted`](crate::error::CudaError::NotPermitted), in a host
    /// function, is the buffer unchanged.
    #[doc(alias("cuMemFreeHost"))]
    #[inline]
    pub fn drop(buf: LockedBuffer<T>) -> DropResult<LockedBuffer<T>> {
        buf.memory.free(buf.capacity).map_err(|(error, memory, capacity)| {
            (error, LockedBuffer { memory, capacity, values: PhantomData })
        })
    }

    /// The address of the values; dangling but not null if there is no memory.
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
        // SAFETY: the buffer owns the values, and pins its context, so the memory stays.
        unsafe { slice::from_raw_parts(self.first(), self.capacity) }
    }
}

impl<T: DeviceCopy> DerefMut for LockedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { slice::from_raw_parts_mut(self.first(), self.capacity) }
    }
}
