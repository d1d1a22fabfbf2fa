//! [`PitchedBuffer`]: rows of values in device memory.

// Allocates, and fills what it owns.
#![allow(unsafe_code)]

mod copies;
mod rows;

use super::allocation::{Allocation, Kind};
use super::malloc::size_of;
use super::{DeviceCopy, DevicePointer, DeviceSlice, FillValue, finish};
use crate::context::UnownedContext;
use crate::driver::{Driver, Fill, Order};
use crate::error::{CudaResult, DropResult};
use crate::stream::Stream;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ptr;

/// Rows of values in device memory, each aligned for the device, so that unused bytes may follow it. Row `y` begins `y`
/// times the [pitch](Self::pitch) bytes after the address.
///
/// It belongs to the context that was current when it was made, works on any thread, whatever is current there, and
/// keeps its context at the driver.
///
/// ```
/// use custack::memory::{CopyDestination, PitchedBuffer};
///
/// let _context = custack::quick_init()?;
/// let mut image = PitchedBuffer::from_slice(&[1u8, 2, 3, 4, 5, 6], 3)?;
/// assert_eq!((image.width(), image.height()), (3, 2));
/// image.row_mut(1).copy_from(&[7, 8, 9])?;
/// let mut back = [0; 6];
/// image.copy_to(&mut back)?;
/// assert_eq!(back, [1, 2, 3, 7, 8, 9]);
/// # Ok::<(), custack::error::CudaError>(())
/// ```
pub struct PitchedBuffer<T> {
    memory: Allocation,
    width: usize,
    height: usize,
    pitch: usize,
    values: PhantomData<T>,
}

impl<T> PitchedBuffer<T> {
    /// Allocates memory for `height` rows of `width` values. For no values, or zero-sized ones, nothing is allocated.
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
    #[doc(alias("cuMemAllocPitch", "cuMemAllocPitch_v2"))]
    #[inline]
    pub unsafe fn uninitialized(width: usize, height: usize) -> CudaResult<PitchedBuffer<T>> {
        let values = PhantomData;
        if width == 0 || height == 0 || mem::size_of::<T>() == 0 {
            let memory = Allocation::nothing(Kind::Device, ptr::dangling::<T>().addr());
            return Ok(PitchedBuffer { memory, width, height, pitch: 0, values });
        }
        let row = size_of::<T>(width)?;
        size_of::<T>(width.saturating_mul(height))?;
        // The widest access of a kernel, among those that the driver accepts.
        let element = [16, 8].into_iter().find(|size| mem::size_of::<T>() % size == 0).unwrap_or(4);
        let mut pitch = 0;
        let memory = Allocation::made(Kind::Device, |driver| {
            let (address, found) = driver.mem_alloc_pitch(row, height, element as u32)?;
            pitch = found;
            Ok(address)
        })?;
        Ok(PitchedBuffer { memory, width, height, pitch, values })
    }

    /// Allocates memory for `height` rows of `width` values, all bytes of which are zero.
    ///
    /// # Errors
    ///
    /// Like [`uninitialized`](Self::uninitialized).
    ///
    /// # Safety
    ///
    /// Zero bytes are a valid `T`.
    #[doc(alias("cuMemsetD2D8", "cuMemsetD2D8_v2"))]
    #[inline]
    pub unsafe fn zeroed(width: usize, height: usize) -> CudaResult<PitchedBuffer<T>> {
        // SAFETY: written in the next line, or dropped.
        let buffer = unsafe { PitchedBuffer::<T>::uninitialized(width, height) }?;
        buffer.fill_with(Fill::D8(0), mem::size_of::<T>(), None)?;
        Ok(buffer)
    }

    /// The number of values in a row.
    #[inline]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    #[inline]
    pub fn height(&self) -> usize {
        self.height
    }

    /// The distance from one row to the next, in bytes; 0 if nothing is allocated.
    #[inline]
    pub fn pitch(&self) -> usize {
        self.pitch
    }

    /// The context of the memory; a null handle if nothing is allocated.
    #[inline]
    pub fn context(&self) -> &UnownedContext {
        self.memory.context()
    }

    /// The address of the first row, for kernels.
    #[inline]
    pub fn as_device_ptr(&mut self) -> DevicePointer<T> {
        // SAFETY: a device address.
        unsafe { DevicePointer::wrap(self.memory.address() as *mut T) }
    }

    fn row_at(&self, y: usize) -> u64 {
        assert!(y < self.height, "row {y} is out of range for {} rows", self.height);
        self.memory.address() + (y * self.pitch) as u64
    }

    /// One row.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    #[inline]
    pub fn row(&self, y: usize) -> &DeviceSlice<T> {
        // SAFETY: a part of the memory that the buffer owns, lent as the buffer is.
        unsafe { DeviceSlice::of(self.row_at(y), self.memory.number(), self.width) }
    }

    /// One row.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    #[inline]
    pub fn row_mut(&mut self, y: usize) -> &mut DeviceSlice<T> {
        // SAFETY: as above.
        unsafe { DeviceSlice::of_mut(self.row_at(y), self.memory.number(), self.width) }
    }

    /// Frees the memory; if that fails, returns the error and the buffer.
    ///
    /// # Errors
    ///
    /// Like [`DeviceBuffer::drop`](super::DeviceBuffer::drop).
    #[doc(alias("cuMemFree", "cuMemFree_v2"))]
    #[allow(clippy::result_large_err, reason = "it gives back what it was given")]
    #[inline]
    pub fn drop(buffer: PitchedBuffer<T>) -> DropResult<PitchedBuffer<T>> {
        let PitchedBuffer { memory, width, height, pitch, values } = buffer;
        memory.free(height).map_err(|(error, memory, height)| {
            (error, PitchedBuffer { memory, width, height, pitch, values })
        })
    }

    fn row_bytes(&self) -> usize {
        self.width * mem::size_of::<T>()
    }

    fn is_nothing(&self) -> bool {
        self.height == 0 || self.row_bytes() == 0
    }

    /// Calls `f` with the buffer's context, or with the stream, unless there is nothing to do.
    fn ordered(
        &self,
        stream: Option<&Stream>,
        f: impl FnOnce(&Driver, Order<'_>) -> CudaResult<()>,
    ) -> CudaResult<()> {
        if self.is_nothing() { Ok(()) } else { self.row(0).span().in_stream(stream, f) }
    }

    /// Fills all rows; a value has `each` elements.
    pub(super) fn fill_with(&self, value: Fill, each: usize, stream: Option<&Stream>) -> CudaResult<()> {
        self.ordered(stream, |driver, order| {
            let (rows, size) = ((self.memory.address(), self.pitch), (self.width * each, self.height));
            // SAFETY: the rows are memory that this owns.
            finish(unsafe { driver.fill_rows(rows, value, size, order) }, driver, order)
        })
    }
}

impl<T> fmt::Debug for PitchedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, pitch) = (self.memory.address() as *const T, self.pitch);
        let Self { width, height, .. } = self;
        f.debug_struct("PitchedBuffer")
            .field("address", &address)
            .field("width", width)
            .field("height", height)
            .field("pitch", &pitch)
            .finish()
    }
}

impl<T: FillValue> PitchedBuffer<T> {
    /// Sets all values to this one, like [`DeviceSlice::fill`](super::DeviceSlice::fill).
    ///
    /// # Errors
    ///
    /// Those of that function.
    #[doc(alias("cuMemsetD2D8", "cuMemsetD2D16", "cuMemsetD2D32"))]
    #[doc(alias("cuMemsetD2D8_v2", "cuMemsetD2D16_v2", "cuMemsetD2D32_v2"))]
    #[inline]
    pub fn fill(&mut self, value: T) -> CudaResult<()> {
        self.fill_with(value.pattern().0, 1, None)
    }

    /// Submits a fill of all values with this one to the stream.
    ///
    /// # Errors
    ///
    /// Like [`DeviceSlice::async_fill`](super::DeviceSlice::async_fill).
    ///
    /// # Safety
    ///
    /// Those of that function.
    #[doc(alias("cuMemsetD2D8Async", "cuMemsetD2D16Async", "cuMemsetD2D32Async"))]
    #[inline]
    pub unsafe fn async_fill(&mut self, value: T, stream: &Stream) -> CudaResult<()> {
        self.fill_with(value.pattern().0, 1, Some(stream))
    }
}

impl UnownedContext {
    /// Like [`PitchedBuffer::from_slice`].
    ///
    /// # Errors
    ///
    /// Those of that function, and of a [scope](UnownedContext::scoped).
    #[doc(alias("cuMemAllocPitch", "cuMemAllocPitch_v2"))]
    #[inline]
    pub fn pitched_buffer<T: DeviceCopy>(&self, values: &[T], width: usize) -> CudaResult<PitchedBuffer<T>> {
        let _current = self.enter_for_custack()?;
        PitchedBuffer::from_slice(values, width)
    }
}
