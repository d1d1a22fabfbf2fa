//! Copies between the rows of a [`PitchedBuffer`] and the host, and between two such buffers.

// Copies what the buffer owns.
#![allow(unsafe_code)]

use super::PitchedBuffer;
use super::rows::{self, Rows};
use crate::context::refuse_by_default;
use crate::error::CudaResult;
use crate::memory::{DeviceCopy, finish};
use crate::stream::Stream;
use std::mem;

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
    #[inline]
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
    #[inline]
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
    #[inline]
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
    /// Like [`AsyncCopyDestination::async_copy_from`](crate::memory::AsyncCopyDestination::async_copy_from).
    #[doc(alias("cuMemcpy2DAsync", "cuMemcpy2DAsync_v2"))]
    #[inline]
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
    /// Like [`AsyncCopyDestination::async_copy_to`](crate::memory::AsyncCopyDestination::async_copy_to).
    #[doc(alias("cuMemcpy2DAsync", "cuMemcpy2DAsync_v2"))]
    #[inline]
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
        unsafe { self.copy(self.whole(), Rows::Host(from, size.0), size, stream) }
    }

    /// # Safety
    ///
    /// The slice stays borrowed until the copy is done.
    unsafe fn read(&self, values: &mut [T], stream: Option<&Stream>) -> CudaResult<()> {
        self.check(values.len());
        let (to, size) = (values.as_mut_ptr().cast(), (self.row_bytes(), self.height));
        // SAFETY: both sides have the same number of values.
        unsafe { self.copy(Rows::Host(to, size.0), self.whole(), size, stream) }
    }

    /// Copies a rectangle from another buffer: `size` is its width and height, `from` and `to` are the column and row
    /// at which it begins; done when the call returns.
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
    #[inline]
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
        // It comes after the work of both contexts.
        let _call = refuse_by_default(source.context(), "copy between two buffers")?;
        // SAFETY: both rectangles are within their buffers.
        unsafe { self.copy(to, from, (bytes, size.1), None) }
    }
}

impl<T> PitchedBuffer<T> {
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
    ) -> CudaResult<()> {
        let copy = rows::copy(to, from, size);
        self.ordered(stream, |driver, order| {
            // SAFETY: as the caller guarantees.
            let issued = unsafe { driver.copy_rows(&copy, order) };
            // The driver waits for a copy to the host.
            if matches!(to, Rows::Host(..)) { issued } else { finish(issued, driver, order) }
        })
    }

    fn check(&self, count: usize) {
        let (width, height) = (self.width, self.height);
        let fits = Some(count) == width.checked_mul(height);
        assert!(fits, "{count} values are copied to or from {height} rows of {width}");
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
