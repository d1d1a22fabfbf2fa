//! [`DeviceBuffer`]: an owned array of values in device memory.

// Allocates and frees what it owns, and makes slices of it.
#![allow(unsafe_code)]

use super::allocation::{Allocation, Kind};
use super::copies::{AsyncCopyDestination, CopyDestination};
use super::given_away;
use super::malloc::size_of;
use super::ordered::{StreamOrder, has_no_order};
use super::{DeviceCopy, DevicePointer, DeviceSlice};
use crate::context::UnownedContext;
use crate::driver::Fill;
use crate::error::{CudaResult, DropResult};
use crate::stream::Stream;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::ptr;

/// Values in device memory, in the context that was current when they were allocated; like `Box<[T]>` on the host. It
/// derefs to a [`DeviceSlice`], which is indexed with ranges and copied.
///
/// Its memory is either usable at once, and freed on drop when the work of its context is done, or it is allocated and
/// freed in the order of a stream, where neither waits ([`uninitialized_in`](Self::uninitialized_in),
/// [`from_slice_in`](Self::from_slice_in)). It can be dropped on any thread, and keeps its context at the driver until
/// then; if the context's owner is gone, copies return
/// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed).
#[repr(C)]
pub struct DeviceBuffer<T> {
    // At offset 0, with the address first in it: existing programs read it there.
    memory: Allocation,
    capacity: usize,
    values: PhantomData<T>,
}

impl<T> DeviceBuffer<T> {
    /// Allocates memory for `size` values. For no values, or zero-sized ones, nothing is allocated.
    ///
    /// # Errors
    ///
    /// [`InvalidMemoryAllocation`](crate::error::CudaError::InvalidMemoryAllocation) if the size overflows;
    /// [`OutOfMemory`](crate::error::CudaError::OutOfMemory);
    /// [`InvalidContext`](crate::error::CudaError::InvalidContext) if no context is current.
    ///
    /// # Safety
    ///
    /// The values are written before they are read.
    #[doc(alias("cuMemAlloc", "cuMemAlloc_v2"))]
    #[inline]
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
    /// Those of [`uninitialized`](Self::uninitialized).
    ///
    /// # Safety
    ///
    /// Zero bytes are a valid `T`.
    #[doc(alias("cuMemsetD8", "cuMemsetD8_v2"))]
    #[inline]
    pub unsafe fn zeroed(size: usize) -> CudaResult<DeviceBuffer<T>> {
        // SAFETY: written in the next lines, or dropped.
        let buffer = unsafe { DeviceBuffer::<T>::uninitialized(size) }?;
        buffer.zero(None)?;
        Ok(buffer)
    }

    /// All of this memory.
    #[cfg(unix)]
    pub(super) fn of_memory(memory: Allocation, capacity: usize) -> DeviceBuffer<T> {
        DeviceBuffer { memory, capacity, values: PhantomData }
    }

    /// The memory, as long as there is any.
    pub(super) fn memory(&self) -> &Allocation {
        &self.memory
    }

    /// Sets all bytes to zero.
    fn zero(&self, stream: Option<&Stream>) -> CudaResult<()> {
        let bytes = if mem::size_of::<T>() == 0 { 0 } else { self.capacity * mem::size_of::<T>() };
        // SAFETY: the memory that this owns, seen as bytes.
        let bytes = unsafe { DeviceSlice::<u8>::of(self.memory.address(), self.memory.number(), bytes) };
        // SAFETY: the caller passes zero bytes, and uses the memory for nothing else meanwhile; a free comes after the
        // fill.
        unsafe { bytes.span().fill(Fill::D8(0), stream) }
    }

    /// Allocates memory for `size` values in the order of a stream: later work of the stream may use it, and dropping
    /// it frees it after the work that the stream has by then, without waiting. It is not initialised. For no values,
    /// or zero-sized ones, nothing is allocated.
    ///
    /// The memory comes from the current pool of the stream's device, or from the pool that is passed with the stream
    /// ([`StreamOrder`]). Making and dropping it costs two driver calls, whatever is current. Other streams may use it
    /// after [`also_used_in`](Self::also_used_in). Copies without a stream are also done in the stream's order.
    ///
    /// # Errors
    ///
    /// [`InvalidMemoryAllocation`](crate::error::CudaError::InvalidMemoryAllocation) if the size overflows;
    /// [`OutOfMemory`](crate::error::CudaError::OutOfMemory);
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed), without a driver call, if the stream's
    /// context is destroyed; [`StreamCaptureUnsupported`](crate::error::CudaError::StreamCaptureUnsupported) if the
    /// stream is capturing; [`InvalidHandle`](crate::error::CudaError::InvalidHandle) for a borrowed stream and a
    /// default stream, which may no longer exist when the memory is freed.
    ///
    /// # Safety
    ///
    /// The values are written before they are read.
    ///
    /// ```
    /// use custack::memory::{CopyDestination, DeviceBuffer};
    /// use custack::stream::{Stream, StreamFlags};
    ///
    /// let _context = custack::quick_init()?;
    /// let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    /// // SAFETY: written in the next line.
    /// let mut buffer = unsafe { DeviceBuffer::uninitialized_in(3, &stream) }?;
    /// buffer.copy_from(&[1u32, 2, 3])?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuMemAllocAsync", "cuMemAllocFromPoolAsync", "uninitialized_async"))]
    #[inline]
    pub unsafe fn uninitialized_in<'a>(
        size: usize,
        order: impl Into<StreamOrder<'a>>,
    ) -> CudaResult<DeviceBuffer<T>> {
        if size == 0 || mem::size_of::<T>() == 0 {
            let memory = Allocation::nothing(Kind::Device, ptr::dangling::<T>().addr());
            return Ok(DeviceBuffer { memory, capacity: size, values: PhantomData });
        }
        let allocated = order.into().allocate(size_of::<T>(size)?);
        allocated.map(|memory| DeviceBuffer { memory, capacity: size, values: PhantomData })
    }

    /// Allocates memory for `size` values in the order of a stream, and sets all bytes to zero there.
    ///
    /// # Errors
    ///
    /// Like [`uninitialized_in`](Self::uninitialized_in).
    ///
    /// # Safety
    ///
    /// Zero bytes are a valid `T`.
    #[doc(alias("cuMemsetD8Async", "zeroed_async"))]
    #[inline]
    pub unsafe fn zeroed_in<'a>(
        size: usize,
        order: impl Into<StreamOrder<'a>>,
    ) -> CudaResult<DeviceBuffer<T>> {
        let order = order.into();
        // SAFETY: written in the next line, or dropped.
        let buffer = unsafe { DeviceBuffer::<T>::uninitialized_in(size, order) }?;
        buffer.zero(Some(order.stream()))?;
        Ok(buffer)
    }

    /// Whether the memory is in the order of a stream.
    #[inline]
    pub fn is_in_stream_order(&self) -> bool {
        self.memory.home().is_some()
    }

    /// Lets another stream, of any context, use memory that is in the order of a stream: the other stream waits for the
    /// home's present work, and the free waits for the work that the other stream has when the memory is dropped. The
    /// host does not wait. Call it again after new work of the home that the other stream must wait for.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for memory that was not allocated in the order of a
    /// stream; [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed), for either stream;
    /// [`InvalidHandle`](crate::error::CudaError::InvalidHandle) for a borrowed stream and a default stream, whose work
    /// the home can [join](Stream::join) before the drop; any error of the driver.
    ///
    /// ```
    /// use custack::memory::{AsyncCopyDestination, DeviceBuffer, LockedBuffer};
    /// use custack::stream::{Stream, StreamFlags};
    ///
    /// let _context = custack::quick_init()?;
    /// let (home, other) = (Stream::new(StreamFlags::NON_BLOCKING, None)?, Stream::new(StreamFlags::NON_BLOCKING, None)?);
    /// let mut host = LockedBuffer::new(&0u32, 3)?;
    /// let buffer = DeviceBuffer::from_slice_in(&[1, 2, 3], &home)?;
    /// buffer.also_used_in(&other)?;
    /// // SAFETY: `host` stays until `other` is there, and the memory waits for it.
    /// unsafe { buffer.async_copy_to(&mut host, &other)? };
    /// drop(buffer);
    /// other.synchronize()?;
    /// assert_eq!(host[..], [1, 2, 3]);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuEventRecord", "cuStreamWaitEvent"))]
    #[inline]
    pub fn also_used_in(&self, other: &Stream) -> CudaResult<()> {
        if self.memory.is_spent() {
            return Ok(());
        }
        self.memory.home().ok_or_else(has_no_order)?.also_used_in(other)
    }

    /// Moves memory from the order of one stream to that of another of the same context: the new home waits for the
    /// present work of the old one, and the memory is freed in its order. The host does not wait.
    ///
    /// # Errors
    ///
    /// Like [`also_used_in`](Self::also_used_in); [`InvalidHandle`](crate::error::CudaError::InvalidHandle) if the
    /// stream is of another context.
    #[doc(alias("cuEventRecord", "cuStreamWaitEvent"))]
    #[inline]
    pub fn move_to(&mut self, home: &Stream) -> CudaResult<()> {
        if self.memory.is_spent() {
            return Ok(());
        }
        self.memory.home_mut().ok_or_else(has_no_order)?.move_to(home)
    }

    /// [Moves](Self::move_to) the memory to the order of a stream, and frees it there; gives the error and the buffer
    /// back if that fails.
    ///
    /// # Errors
    ///
    /// Like [`move_to`](Self::move_to), with the buffer unchanged; those of [`drop`](Self::drop).
    #[doc(alias("cuMemFreeAsync", "drop_async"))]
    #[inline]
    pub fn free_in(mut buffer: DeviceBuffer<T>, stream: &Stream) -> DropResult<DeviceBuffer<T>> {
        match buffer.move_to(stream) {
            Ok(()) => DeviceBuffer::drop(buffer),
            Err(error) => Err((error, buffer)),
        }
    }

    /// Takes ownership of memory that was allocated with [`cuda_malloc`](super::cuda_malloc).
    ///
    /// # Safety
    ///
    /// The memory has space for `capacity` values, they are initialised and valid for `T` before they are read, and
    /// nothing else frees it.
    #[inline]
    pub unsafe fn from_raw_parts(ptr: DevicePointer<T>, capacity: usize) -> DeviceBuffer<T> {
        let memory = match capacity == 0 || mem::size_of::<T>() == 0 || ptr.is_null() {
            true => Allocation::nothing(Kind::Device, ptr.as_raw().addr()),
            false => given_away::owned(Kind::Device, ptr.as_raw() as u64),
        };
        DeviceBuffer { memory, capacity, values: PhantomData }
    }

    /// Frees the memory; if that fails, returns the error and the buffer.
    ///
    /// # Errors
    ///
    /// Any error of the driver. It may have freed the memory all the same, so the returned buffer is empty, and
    /// dropping it does nothing; only after [`NotPermitted`](crate::error::CudaError::NotPermitted), in a host
    /// function, is the buffer unchanged.
    #[doc(alias("cuMemFree", "cuMemFree_v2", "cuMemFreeAsync"))]
    #[inline]
    pub fn drop(dev_buf: DeviceBuffer<T>) -> DropResult<DeviceBuffer<T>> {
        dev_buf.memory.free(dev_buf.capacity).map_err(|(error, memory, capacity)| {
            (error, DeviceBuffer { memory, capacity, values: PhantomData })
        })
    }

    /// The context of the memory; a null handle if nothing is allocated, or the context is not known.
    #[inline]
    pub fn context(&self) -> &UnownedContext {
        self.memory.context()
    }
}

impl<T: DeviceCopy> DeviceBuffer<T> {
    /// Allocates memory and copies the values there.
    ///
    /// # Errors
    ///
    /// Those of [`uninitialized`](Self::uninitialized).
    ///
    /// What owns something cannot be copied there and back, because then it would be there twice:
    ///
    /// ```compile_fail,E0277
    /// # let _context = custack::quick_init().unwrap();
    /// let buffer = custack::memory::DeviceBuffer::from_slice(&[Box::new(1)]);
    /// ```
    #[doc(alias("cuMemcpyHtoD", "cuMemcpyHtoD_v2"))]
    #[inline]
    pub fn from_slice(slice: &[T]) -> CudaResult<DeviceBuffer<T>> {
        // SAFETY: written in the next line, or dropped.
        let mut buffer = unsafe { DeviceBuffer::uninitialized(slice.len()) }?;
        buffer.copy_from(slice)?;
        Ok(buffer)
    }

    /// Allocates memory in the order of a stream (see [`uninitialized_in`](Self::uninitialized_in)), copies the values
    /// there in the stream, and waits for the copy, because the slice may not be page-locked.
    ///
    /// # Errors
    ///
    /// Like [`uninitialized_in`](Self::uninitialized_in).
    #[doc(alias("cuMemAllocAsync", "cuMemcpyHtoDAsync"))]
    #[inline]
    pub fn from_slice_in<'a>(slice: &[T], order: impl Into<StreamOrder<'a>>) -> CudaResult<DeviceBuffer<T>> {
        // SAFETY: written in the next line, or dropped.
        let mut buffer = unsafe { DeviceBuffer::uninitialized_in(slice.len(), order) }?;
        buffer.copy_from(slice)?;
        Ok(buffer)
    }

    /// Like [`from_slice_in`](Self::from_slice_in), without waiting.
    ///
    /// # Errors
    ///
    /// Like [`uninitialized_in`](Self::uninitialized_in).
    ///
    /// # Safety
    ///
    /// The slice is not written or freed until the copy is done. The buffer may be used and dropped at once.
    #[doc(alias("cuMemAllocAsync", "cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2"))]
    #[inline]
    pub unsafe fn from_slice_async_in<'a>(
        slice: &[T],
        order: impl Into<StreamOrder<'a>>,
    ) -> CudaResult<DeviceBuffer<T>> {
        let order = order.into();
        // SAFETY: written in the next line, or dropped.
        let mut buffer = unsafe { DeviceBuffer::uninitialized_in(slice.len(), order) }?;
        // SAFETY: as the caller guarantees; the buffer is freed in the order of the same stream.
        unsafe { buffer.async_copy_from(slice, order.stream()) }?;
        Ok(buffer)
    }

    /// Allocates memory and gives the stream a copy of the values to it. The memory itself is in no stream's order; see
    /// [`from_slice_async_in`](Self::from_slice_async_in).
    ///
    /// # Errors
    ///
    /// Those of [`uninitialized`](Self::uninitialized).
    ///
    /// # Safety
    ///
    /// Until the stream has done the copy, the slice is not written or freed, and the buffer is not used.
    #[doc(alias("cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2"))]
    #[inline]
    pub unsafe fn from_slice_async(slice: &[T], stream: &Stream) -> CudaResult<DeviceBuffer<T>> {
        // SAFETY: the stream writes it; until then the caller does not use it.
        let mut buffer = unsafe { DeviceBuffer::uninitialized(slice.len()) }?;
        // SAFETY: as the caller guarantees.
        unsafe { buffer.async_copy_from(slice, stream) }?;
        Ok(buffer)
    }
}

impl<T> Deref for DeviceBuffer<T> {
    type Target = DeviceSlice<T>;

    fn deref(&self) -> &DeviceSlice<T> {
        // SAFETY: the buffer owns the memory, and is borrowed as long as the slice.
        unsafe { DeviceSlice::of(self.memory.address(), self.memory.number(), self.capacity) }
    }
}

impl<T> DerefMut for DeviceBuffer<T> {
    fn deref_mut(&mut self) -> &mut DeviceSlice<T> {
        // SAFETY: the buffer owns the memory, and is borrowed as long as the slice.
        unsafe { DeviceSlice::of_mut(self.memory.address(), self.memory.number(), self.capacity) }
    }
}

impl<T> fmt::Debug for DeviceBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buf = self.memory.address() as *const T;
        f.debug_struct("DeviceBuffer").field("buf", &buf).field("capacity", &self.capacity).finish()
    }
}
