//! [`PitchedBuffer`]: rows of values in device memory.

// Allocates, and copies what it owns.
#![allow(unsafe_code)]

use super::allocation::{Allocation, Kind};
use super::copies::wait_for_copy;
use super::malloc::size_of;
use super::rows::{self, Rows};
use super::{DeviceCopy, DevicePointer, DeviceSlice};
use crate::context::in_call::wait_for_current;
use crate::context::{UnownedContext, refuse_in_context};
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
    pub unsafe fn zeroed(width: usize, height: usize) -> CudaResult<PitchedBuffer<T>> {
        // SAFETY: written in the next line, or dropped.
        let buffer = unsafe { PitchedBuffer::<T>::uninitialized(width, height) }?;
        buffer.fill_with(Fill::D8(0), mem::size_of::<T>(), None)?;
        Ok(buffer)
    }

    /// The number of values in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// The distance from one row to the next, in bytes; 0 if nothing is allocated.
    pub fn pitch(&self) -> usize {
        self.pitch
    }

    /// The context of the memory; a null handle if nothing is allocated.
    pub fn context(&self) -> &UnownedContext {
        self.memory.context()
    }

    /// The address of the first row, for kernels.
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
    pub fn row(&self, y: usize) -> &DeviceSlice<T> {
        // SAFETY: a part of the memory that the buffer owns, lent as the buffer is.
        unsafe { DeviceSlice::of(self.row_at(y), self.memory.number(), self.width) }
    }

    /// One row.
    ///
    /// # Panics
    ///
    /// If there is no such row.
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
    pub fn drop(buffer: PitchedBuffer<T>) -> DropResult<PitchedBuffer<T>> {
        let PitchedBuffer { width, mut height, pitch, values, .. } = buffer;
        buffer.memory.free().map_err(|(error, memory)| {
            height = if memory.is_spent() { 0 } else { height };
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
            unsafe { driver.fill_rows(rows, value, size, order) }
        })
    }

    fn whole(&self) -> Rows {
        Rows::Device(self.memory.address(), self.pitch)
    }

    /// # Safety
    ///
    /// One side is this buffer, and both sides have these rows, of these bytes, until the copy is done.
    unsafe fn copy(
        &self,
        to: Rows,
        from: Rows,
        size: (usize, usize),
        stream: Option<&Stream>,
        waits: bool,
    ) -> CudaResult<()> {
        let copy = rows::copy(to, from, size);
        let context = self.memory.context();
        let _call = if waits { Some(refuse_in_context(context, "copy between two contexts")?) } else { None };
        self.ordered(stream, |driver, order| {
            // SAFETY: as the caller guarantees.
            unsafe { driver.copy_rows(&copy, order) }?;
            match from {
                _ if waits => wait_for_current(driver),
                Rows::Host(..) if order.is_none() => wait_for_copy(driver),
                _ => Ok(()),
            }
        })
    }

    fn check(&self, count: usize) {
        let (width, height) = (self.width, self.height);
        let fits = Some(count) == width.checked_mul(height);
        assert!(fits, "{count} values are copied to or from {height} rows of {width}");
    }
}

impl<T: DeviceCopy> PitchedBuffer<T> {
    /// Allocates memory and copies the slice there, in rows of `width` values.
    ///
    /// # Errors
    ///
    /// Like [`uninitialized`](Self::uninitialized).
    ///
    /// # Panics
    ///
    /// If the number of values is not a multiple of `width`.
    #[doc(alias("cuMemAllocPitch", "cuMemcpy2D", "cuMemcpy2D_v2"))]
    pub fn from_slice(values: &[T], width: usize) -> CudaResult<PitchedBuffer<T>> {
        let height = values.len().checked_div(width).unwrap_or(0);
        assert!(height * width == values.len(), "{} values are no rows of {width}", values.len());
        // SAFETY: written in the next line, or dropped.
        let mut buffer = unsafe { PitchedBuffer::uninitialized(width, height) }?;
        buffer.copy_from(values)?;
        Ok(buffer)
    }

    /// Copies the slice to all rows; done when the call returns.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed); any error of the driver.
    ///
    /// # Panics
    ///
    /// If the numbers of values differ.
    #[doc(alias("cuMemcpy2D", "cuMemcpy2D_v2"))]
    pub fn copy_from(&mut self, values: &[T]) -> CudaResult<()> {
        // SAFETY: done when the call returns.
        unsafe { self.write(values, None) }
    }

    /// Copies all rows to the slice; done when the call returns.
    ///
    /// # Errors
    ///
    /// Like [`copy_from`](Self::copy_from).
    ///
    /// # Panics
    ///
    /// If the numbers of values differ.
    #[doc(alias("cuMemcpy2D", "cuMemcpy2D_v2"))]
    pub fn copy_to(&self, values: &mut [T]) -> CudaResult<()> {
        // SAFETY: done when the call returns.
        unsafe { self.read(values, None) }
    }

    /// Submits a copy of the slice to all rows to the stream.
    ///
    /// # Errors
    ///
    /// Like [`copy_from`](Self::copy_from); [`InvalidHandle`](crate::error::CudaError::InvalidHandle) if the stream is
    /// of another context.
    ///
    /// # Panics
    ///
    /// If the numbers of values differ.
    ///
    /// # Safety
    ///
    /// Like [`AsyncCopyDestination::async_copy_from`](super::AsyncCopyDestination::async_copy_from).
    #[doc(alias("cuMemcpy2DAsync", "cuMemcpy2DAsync_v2"))]
    pub unsafe fn async_copy_from(&mut self, values: &[T], stream: &Stream) -> CudaResult<()> {
        // SAFETY: as the caller guarantees.
        unsafe { self.write(values, Some(stream)) }
    }

    /// Submits a copy of all rows to the slice to the stream.
    ///
    /// # Errors
    ///
    /// Like [`async_copy_from`](Self::async_copy_from).
    ///
    /// # Panics
    ///
    /// If the numbers of values differ.
    ///
    /// # Safety
    ///
    /// Like [`AsyncCopyDestination::async_copy_to`](super::AsyncCopyDestination::async_copy_to).
    #[doc(alias("cuMemcpy2DAsync", "cuMemcpy2DAsync_v2"))]
    pub unsafe fn async_copy_to(&self, values: &mut [T], stream: &Stream) -> CudaResult<()> {
        // SAFETY: as the caller guarantees.
        unsafe { self.read(values, Some(stream)) }
    }

    /// # Safety
    ///
    /// The slice stays borrowed until the copy is done.
    unsafe fn write(&self, values: &[T], stream: Option<&Stream>) -> CudaResult<()> {
        self.check(values.len());
        let (from, size) = (values.as_ptr().cast_mut().cast(), (self.row_bytes(), self.height));
        // SAFETY: both sides have the same number of values.
        unsafe { self.copy(self.whole(), Rows::Host(from, size.0), size, stream, false) }
    }

    /// # Safety
    ///
    /// The slice stays borrowed until the copy is done.
    unsafe fn read(&self, values: &mut [T], stream: Option<&Stream>) -> CudaResult<()> {
        self.check(values.len());
        let (to, size) = (values.as_mut_ptr().cast(), (self.row_bytes(), self.height));
        // SAFETY: both sides have the same number of values.
        unsafe { self.copy(Rows::Host(to, size.0), self.whole(), size, stream, false) }
    }

    /// Copies a rectangle from another buffer: `size` is its width and height, `from` and `to` are the column and row
    /// at which it begins. It is asynchronous or not like any [copy](super::CopyDestination) on the device.
    ///
    /// # Errors
    ///
    /// Like [`copy_from`](Self::copy_from).
    ///
    /// # Panics
    ///
    /// If the rectangle is not within both buffers.
    ///
    /// ```
    /// use custack::memory::PitchedBuffer;
    ///
    /// let _context = custack::quick_init()?;
    /// let small = PitchedBuffer::from_slice(&[1u32, 2, 3, 4], 2)?;
    /// let mut large = PitchedBuffer::from_slice(&[0u32; 9], 3)?;
    /// large.copy_part_from((1, 1), &small, (0, 0), (2, 2))?;
    /// let mut back = [9; 9];
    /// large.copy_to(&mut back)?;
    /// assert_eq!(back, [0, 0, 0, 0, 1, 2, 0, 3, 4]);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuMemcpy2DUnaligned", "cuMemcpy2DUnaligned_v2"))]
    pub fn copy_part_from(
        &mut self,
        to: (usize, usize),
        source: &PitchedBuffer<T>,
        from: (usize, usize),
        size: (usize, usize),
    ) -> CudaResult<()> {
        let (to, from) = (self.part(to, size), source.part(from, size));
        let bytes = size.0 * mem::size_of::<T>();
        if bytes == 0 || size.1 == 0 {
            return Ok(());
        }
        source.row(0).span().usable()?;
        let is_foreign = self.context() != source.context();
        // SAFETY: both rectangles are within their buffers.
        unsafe { self.copy(to, from, (bytes, size.1), None, is_foreign) }
    }

    /// Where a rectangle begins.
    fn part(&self, (x, y): (usize, usize), (width, height): (usize, usize)) -> Rows {
        let fits = x.checked_add(width).is_some_and(|end| end <= self.width)
            && y.checked_add(height).is_some_and(|end| end <= self.height);
        assert!(
            fits,
            "{width} by {height} values from column {x} and row {y} are out of range for {} by {}",
            self.width, self.height
        );
        Rows::Device(self.memory.address() + (y * self.pitch + x * mem::size_of::<T>()) as u64, self.pitch)
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
