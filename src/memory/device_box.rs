//! [`DeviceBox`]: one value in device memory.

// Allocates, frees and copies what it owns.
#![allow(unsafe_code)]

use super::allocation::{Allocation, Kind};
use super::copies::{AsyncCopyDestination, CopyDestination, DeviceSpan};
use super::given_away;
use super::ordered::{StreamOrder, has_no_order};
use super::{DeviceCopy, DevicePointer, DeviceSlice};
use crate::driver::Fill;
use crate::error::{CudaResult, DropResult};
use crate::sealed::Sealed;
use crate::stream::Stream;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::slice;

/// One value in device memory, like `Box` on the host. A zero-sized value has no memory, and a null pointer.
#[repr(C)]
#[derive(Debug)]
pub struct DeviceBox<T> {
    // At offset 0, with the address first in it: existing programs read it there.
    memory: Allocation,
    value: PhantomData<T>,
}

impl<T: DeviceCopy> DeviceBox<T> {
    /// Allocates memory and copies the value there.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](crate::error::CudaError::OutOfMemory);
    /// [`InvalidContext`](crate::error::CudaError::InvalidContext) if no context is current.
    #[doc(alias("cuMemAlloc", "cuMemcpyHtoD"))]
    #[inline]
    pub fn new(val: &T) -> CudaResult<DeviceBox<T>> {
        // SAFETY: written in the next line, or dropped.
        let mut new = unsafe { DeviceBox::uninitialized() }?;
        new.copy_from(val)?;
        Ok(new)
    }

    /// Allocates memory in the order of a stream, copies the value there in the stream, and waits for the copy.
    ///
    /// # Errors
    ///
    /// Like [`DeviceBuffer::from_slice_in`](super::DeviceBuffer::from_slice_in).
    ///
    /// ```
    /// use custack::memory::{CopyDestination, DeviceBox};
    /// use custack::stream::{Stream, StreamFlags};
    ///
    /// let _context = custack::quick_init()?;
    /// let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    /// let seven = DeviceBox::new_in(&7, &stream)?;
    /// let mut back = 0;
    /// seven.copy_to(&mut back)?;
    /// assert_eq!(back, 7);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuMemAllocAsync", "cuMemcpyHtoDAsync"))]
    #[inline]
    pub fn new_in<'a>(val: &T, order: impl Into<StreamOrder<'a>>) -> CudaResult<DeviceBox<T>> {
        // SAFETY: written in the next line, or dropped.
        let mut new = unsafe { DeviceBox::uninitialized_in(order) }?;
        new.copy_from(val)?;
        Ok(new)
    }
}

impl<T> DeviceBox<T> {
    /// Allocates memory for a value.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new).
    ///
    /// # Safety
    ///
    /// The value is written before it is read.
    #[doc(alias("cuMemAlloc", "cuMemAlloc_v2"))]
    #[inline]
    pub unsafe fn uninitialized() -> CudaResult<DeviceBox<T>> {
        if mem::size_of::<T>() == 0 {
            return Ok(DeviceBox { memory: Allocation::nothing(Kind::Device, 0), value: PhantomData });
        }
        let memory = Allocation::new(Kind::Device, mem::size_of::<T>())?;
        Ok(DeviceBox { memory, value: PhantomData })
    }

    /// Allocates memory for a value, all bytes zero.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new).
    ///
    /// # Safety
    ///
    /// Zero bytes are a valid `T`.
    #[doc(alias("cuMemsetD8", "cuMemsetD8_v2"))]
    #[inline]
    pub unsafe fn zeroed() -> CudaResult<DeviceBox<T>> {
        // SAFETY: written in the next lines, or dropped.
        let new = unsafe { DeviceBox::<T>::uninitialized() }?;
        new.zero(None)?;
        Ok(new)
    }

    /// Sets all bytes to zero.
    fn zero(&self, stream: Option<&Stream>) -> CudaResult<()> {
        let (at, number) = (self.memory.address(), self.memory.number());
        // SAFETY: the memory that this owns, seen as bytes.
        let bytes = unsafe { DeviceSlice::<u8>::of(at, number, mem::size_of::<T>()) };
        // SAFETY: the caller passes zero bytes, and uses the memory for nothing else meanwhile; a free comes after the
        // fill.
        unsafe { bytes.span().fill(Fill::D8(0), stream) }
    }

    /// Allocates memory for a value in the order of a stream; see
    /// [`DeviceBuffer::uninitialized_in`](super::DeviceBuffer::uninitialized_in).
    ///
    /// # Errors
    ///
    /// Those of that function.
    ///
    /// # Safety
    ///
    /// The value is written before it is read.
    #[doc(alias("cuMemAllocAsync", "cuMemAllocFromPoolAsync"))]
    #[inline]
    pub unsafe fn uninitialized_in<'a>(order: impl Into<StreamOrder<'a>>) -> CudaResult<DeviceBox<T>> {
        if mem::size_of::<T>() == 0 {
            return Ok(DeviceBox { memory: Allocation::nothing(Kind::Device, 0), value: PhantomData });
        }
        Ok(DeviceBox { memory: order.into().allocate(mem::size_of::<T>())?, value: PhantomData })
    }

    /// Allocates memory for a value in the order of a stream, and sets all bytes to zero there.
    ///
    /// # Errors
    ///
    /// Like [`uninitialized_in`](Self::uninitialized_in).
    ///
    /// # Safety
    ///
    /// Zero bytes are a valid `T`.
    #[doc(alias("cuMemsetD8Async"))]
    #[inline]
    pub unsafe fn zeroed_in<'a>(order: impl Into<StreamOrder<'a>>) -> CudaResult<DeviceBox<T>> {
        let order = order.into();
        // SAFETY: written in the next lines, or dropped.
        let new = unsafe { DeviceBox::<T>::uninitialized_in(order) }?;
        new.zero(Some(order.stream()))?;
        Ok(new)
    }

    /// Whether the memory is in the order of a stream.
    #[inline]
    pub fn is_in_stream_order(&self) -> bool {
        self.memory.home().is_some()
    }

    /// Lets another stream use memory that is in the order of a stream; see
    /// [`DeviceBuffer::also_used_in`](super::DeviceBuffer::also_used_in).
    ///
    /// # Errors
    ///
    /// Those of that function.
    #[inline]
    pub fn also_used_in(&self, other: &Stream) -> CudaResult<()> {
        if self.memory.is_spent() {
            return Ok(());
        }
        self.memory.home().ok_or_else(has_no_order)?.also_used_in(other)
    }

    /// Moves memory from the order of one stream to that of another; see
    /// [`DeviceBuffer::move_to`](super::DeviceBuffer::move_to).
    ///
    /// # Errors
    ///
    /// Those of that function.
    #[inline]
    pub fn move_to(&mut self, home: &Stream) -> CudaResult<()> {
        if self.memory.is_spent() {
            return Ok(());
        }
        self.memory.home_mut().ok_or_else(has_no_order)?.move_to(home)
    }

    /// [Moves](Self::move_to) the memory to the order of a stream, and frees it there.
    ///
    /// # Errors
    ///
    /// Like [`DeviceBuffer::free_in`](super::DeviceBuffer::free_in).
    #[doc(alias("cuMemFreeAsync", "drop_async"))]
    #[inline]
    pub fn free_in(mut dev_box: DeviceBox<T>, stream: &Stream) -> DropResult<DeviceBox<T>> {
        match dev_box.move_to(stream) {
            Ok(()) => DeviceBox::drop(dev_box),
            Err(error) => Err((error, dev_box)),
        }
    }

    /// Takes ownership of memory that was allocated with [`cuda_malloc`](super::cuda_malloc).
    ///
    /// # Safety
    ///
    /// The memory holds an initialised and valid `T`, or gets one before it is read, and nothing else frees it.
    #[inline]
    pub unsafe fn from_raw(ptr: *mut T) -> DeviceBox<T> {
        // SAFETY: as the caller guarantees.
        unsafe { DeviceBox::from_device(DevicePointer::wrap(ptr)) }
    }

    /// Takes ownership of memory that was allocated with [`cuda_malloc`](super::cuda_malloc).
    ///
    /// # Safety
    ///
    /// As for [`from_raw`](Self::from_raw).
    #[inline]
    pub unsafe fn from_device(ptr: DevicePointer<T>) -> DeviceBox<T> {
        let memory = match ptr.is_null() || mem::size_of::<T>() == 0 {
            true => Allocation::nothing(Kind::Device, ptr.as_raw().addr()),
            false => given_away::owned(Kind::Device, ptr.as_raw() as u64),
        };
        DeviceBox { memory, value: PhantomData }
    }

    /// Gives the memory away: it is not freed, and keeps its context at the driver.
    #[inline]
    pub fn into_device(mut b: DeviceBox<T>) -> DevicePointer<T> {
        let pointer = b.as_device_ptr();
        given_away::give(b.memory, mem::size_of::<T>());
        pointer
    }

    /// The address, for kernels.
    #[inline]
    pub fn as_device_ptr(&mut self) -> DevicePointer<T> {
        // SAFETY: a device address.
        unsafe { DevicePointer::wrap(self.memory.address() as *mut T) }
    }

    /// Frees the memory; if that fails, returns the error and the box.
    ///
    /// # Errors
    ///
    /// Any error of the driver. It may have freed the memory all the same, so the returned box refuses every use with
    /// [`InvalidHandle`](crate::error::CudaError::InvalidHandle), and dropping it does nothing; only after
    /// [`NotPermitted`](crate::error::CudaError::NotPermitted), in a host function, is the box unchanged.
    #[doc(alias("cuMemFree", "cuMemFree_v2"))]
    #[inline]
    pub fn drop(dev_box: DeviceBox<T>) -> DropResult<DeviceBox<T>> {
        dev_box.memory.free(1).map_err(|(error, memory, _)| (error, DeviceBox { memory, value: PhantomData }))
    }

    pub(super) fn span(&self) -> DeviceSpan<T> {
        DeviceSpan::of(&self.memory)
    }
}

impl<T> fmt::Pointer for DeviceBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Pointer::fmt(&(self.memory.address() as *const T), f)
    }
}

impl<T> Sealed for DeviceBox<T> {}

impl<T: DeviceCopy> CopyDestination<T> for DeviceBox<T> {
    fn copy_from(&mut self, source: &T) -> CudaResult<()> {
        // SAFETY: the copy is done when the call returns; the box owns the memory.
        unsafe { self.span().write(slice::from_ref(source), None) }
    }

    fn copy_to(&self, dest: &mut T) -> CudaResult<()> {
        // SAFETY: the copy is done when the call returns; the box holds an initialised value, valid for `T`.
        unsafe { self.span().read(slice::from_mut(dest), None) }
    }
}

impl<T: DeviceCopy> CopyDestination<DeviceBox<T>> for DeviceBox<T> {
    fn copy_from(&mut self, source: &DeviceBox<T>) -> CudaResult<()> {
        // SAFETY: both boxes own their memory.
        unsafe { self.span().write_from_device(source.span(), None) }
    }

    fn copy_to(&self, dest: &mut DeviceBox<T>) -> CudaResult<()> {
        dest.copy_from(self)
    }
}

impl<T: DeviceCopy> AsyncCopyDestination<DeviceBox<T>> for DeviceBox<T> {
    unsafe fn async_copy_from(&mut self, source: &DeviceBox<T>, stream: &Stream) -> CudaResult<()> {
        // SAFETY: as the caller guarantees.
        unsafe { self.span().write_from_device(source.span(), Some(stream)) }
    }

    unsafe fn async_copy_to(&self, dest: &mut DeviceBox<T>, stream: &Stream) -> CudaResult<()> {
        // SAFETY: as the caller guarantees.
        unsafe { dest.span().write_from_device(self.span(), Some(stream)) }
    }

    fn order_before(&self, other: &DeviceBox<T>, stream: &Stream) -> CudaResult<()> {
        self.span().order_before(stream)?;
        other.span().order_before(stream)
    }
}
