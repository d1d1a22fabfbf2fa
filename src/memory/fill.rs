//! Filling device memory with values.

// Fills memory that it has a reference to.
#![allow(unsafe_code)]

use super::{DeviceBox, DeviceCopy, DeviceSlice};
use crate::driver::Fill;
use crate::error::CudaResult;
use crate::sealed::Sealed;
use crate::stream::Stream;

/// Values that device memory can be filled with: numbers of 1, 2 and 4 bytes, `bool`, `char`, and arrays of these
/// sizes. They have no padding, so all their bytes are initialised.
pub trait FillValue: DeviceCopy + Copy + Sealed {
    #[doc(hidden)]
    fn pattern(self) -> Pattern;
}

/// The bytes of a value.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Pattern(pub(super) Fill);

macro_rules! fill_values {
    ($($fill:ident, $number:ty: $($ty:ty = |$value:ident| $pattern:expr,)*;)*) => {
        $($(
            impl Sealed for $ty {}
            impl FillValue for $ty {
                fn pattern(self) -> Pattern {
                    let $value = self;
                    Pattern(Fill::$fill($pattern))
                }
            }
        )*)*
    };
}

fill_values! {
    D8, u8: u8 = |v| v, i8 = |v| v as u8, bool = |v| v.into(), [u8; 1] = |v| v[0], [i8; 1] = |v| v[0] as u8,;
    D16, u16: u16 = |v| v, i16 = |v| v as u16, [u8; 2] = |v| u16::from_ne_bytes(v), [i8; 2] = |v| u16::from_ne_bytes(v.map(|v| v as u8)),
        [u16; 1] = |v| v[0], [i16; 1] = |v| v[0] as u16,;
    D32, u32: u32 = |v| v, i32 = |v| v as u32, f32 = |v| v.to_bits(), char = |v| v.into(), [u8; 4] = |v| u32::from_ne_bytes(v),
        [i8; 4] = |v| u32::from_ne_bytes(v.map(|v| v as u8)), [u16; 2] = |v| pair(v), [i16; 2] = |v| pair(v.map(|v| v as u16)),
        [u32; 1] = |v| v[0], [i32; 1] = |v| v[0] as u32, [f32; 1] = |v| v[0].to_bits(),;
}

fn pair([first, second]: [u16; 2]) -> u32 {
    let ([a, b], [c, d]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u32::from_ne_bytes([a, b, c, d])
}

impl<T: FillValue> DeviceSlice<T> {
    /// Sets all values to this one; done when the call returns, for every stream, like a
    /// [copy](super::CopyDestination).
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed); any error of the driver.
    ///
    /// ```
    /// use custack::memory::{CopyDestination, DeviceBuffer};
    ///
    /// let _context = custack::quick_init()?;
    /// let mut buffer = DeviceBuffer::from_slice(&[1.0f32; 4])?;
    /// buffer[1..3].fill(0.5)?;
    /// let mut back = [0.0; 4];
    /// buffer.copy_to(&mut back)?;
    /// assert_eq!(back, [1.0, 0.5, 0.5, 1.0]);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuMemsetD8", "cuMemsetD16", "cuMemsetD32", "memset"))]
    #[doc(alias("cuMemsetD8_v2", "cuMemsetD16_v2", "cuMemsetD32_v2"))]
    #[inline]
    pub fn fill(&mut self, value: T) -> CudaResult<()> {
        // SAFETY: the exclusive reference is to this memory; the pattern has the width of its values.
        unsafe { self.span().fill(value.pattern().0, None) }
    }

    /// Submits a fill of all values with this one to the stream.
    ///
    /// # Errors
    ///
    /// Like [`fill`](Self::fill); [`InvalidHandle`](crate::error::CudaError::InvalidHandle) if the stream is of another
    /// context.
    ///
    /// # Safety
    ///
    /// The memory is not used or freed until the fill is done, as for a
    /// [copy](super::AsyncCopyDestination::async_copy_from).
    #[doc(alias("cuMemsetD8Async", "cuMemsetD16Async", "cuMemsetD32Async"))]
    #[inline]
    pub unsafe fn async_fill(&mut self, value: T, stream: &Stream) -> CudaResult<()> {
        // SAFETY: as the caller guarantees, and the pattern has the width of its values.
        unsafe { self.span().fill(value.pattern().0, Some(stream)) }
    }
}

impl<T: FillValue> DeviceBox<T> {
    /// Sets the value, like [`DeviceSlice::fill`].
    ///
    /// # Errors
    ///
    /// Those of that function.
    #[inline]
    pub fn fill(&mut self, value: T) -> CudaResult<()> {
        // SAFETY: the box's memory; the pattern has the width of its value.
        unsafe { self.span().fill(value.pattern().0, None) }
    }
}
