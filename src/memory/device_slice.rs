//! [`DeviceSlice`]: a part of device memory.

// A slice is made from an address and a length; see the type for why that is sound.
#![allow(unsafe_code)]

use super::copies::{AsyncCopyDestination, CopyDestination, DeviceSpan};
use super::{DeviceBuffer, DeviceChunks, DeviceChunksMut, DeviceCopy, DevicePointer};
use crate::context::UnownedContext;
use crate::error::CudaResult;
use crate::sealed::Sealed;
use crate::stream::{Shared, Stream};
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ops::{
    Bound, Index, IndexMut, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo,
    RangeToInclusive,
};
use std::ptr;

/// A part of device memory, like `[T]` on the host: used by reference, indexed with ranges, and copied.
///
/// The reference contains the address and the length, and nothing that the host could read: to the compiler the type is
/// a slice of zero-sized values. `Debug` prints the address and the length, and never reads device memory.
//
// A slice must know the context of its memory, and the stream if the memory is in the order of one, but a reference
// contains only an address and a length. So the upper 16 bits of the length are the number of the stream or the context.
// The address is as the driver gave it, whatever its bits are; and no memory has 2^48 values, unless they are zero-sized:
// those have no memory, and their slices no number. Looking every address up instead cost a lock for each copy and each
// allocation.
#[repr(C)]
pub struct DeviceSlice<T> {
    values: PhantomData<T>,
    tagged_length: [()],
}

/// How many bits of a length are the length.
const LENGTH_BITS: u32 = 48;
/// No slice has as many values, or more, unless they are zero-sized.
pub(super) const TOO_LONG: usize = 1 << LENGTH_BITS;

impl<T> DeviceSlice<T> {
    /// The number of values.
    #[inline]
    pub fn len(&self) -> usize {
        let tagged = self.tagged_length.len();
        if mem::size_of::<T>() == 0 { tagged } else { tagged & (TOO_LONG - 1) }
    }

    /// The number of the context or the stream; 0 if it is not known.
    fn number(&self) -> u16 {
        if mem::size_of::<T>() == 0 { 0 } else { (self.tagged_length.len() >> LENGTH_BITS) as u16 }
    }

    /// Whether there are no values.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The address, for device code; the host must not dereference it.
    #[inline]
    pub fn as_ptr(&self) -> *const T {
        ptr::from_ref(self).cast()
    }

    /// The address, for device code; the host must not dereference it.
    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut T {
        ptr::from_mut(self).cast()
    }

    /// The address, for kernels.
    #[inline]
    pub fn as_device_ptr(&mut self) -> DevicePointer<T> {
        // SAFETY: a device address.
        unsafe { DevicePointer::wrap(self.as_mut_ptr()) }
    }

    /// Splits the slice at `mid`.
    ///
    /// # Panics
    ///
    /// If `mid` is greater than the length.
    #[inline]
    pub fn split_at(&self, mid: usize) -> (&DeviceSlice<T>, &DeviceSlice<T>) {
        (&self[..mid], &self[mid..])
    }

    /// Splits the slice at `mid`.
    ///
    /// # Panics
    ///
    /// If `mid` is greater than the length.
    #[inline]
    pub fn split_at_mut(&mut self, mid: usize) -> (&mut DeviceSlice<T>, &mut DeviceSlice<T>) {
        let (length, start, number) = (self.len(), self.as_mut_ptr(), self.number());
        assert!(mid <= length, "{mid} is out of range for a slice of length {length}");
        // SAFETY: the two parts of this slice do not overlap.
        unsafe { (slice_mut(start, mid, number), slice_mut(start.wrapping_add(mid), length - mid, number)) }
    }

    /// Chunks of this length from the start; the last may be shorter.
    ///
    /// # Panics
    ///
    /// If `chunk_size` is 0.
    #[inline]
    pub fn chunks(&self, chunk_size: usize) -> DeviceChunks<'_, T> {
        DeviceChunks::new(self, chunk_size)
    }

    /// Chunks of this length from the start; the last may be shorter.
    ///
    /// # Panics
    ///
    /// If `chunk_size` is 0.
    #[inline]
    pub fn chunks_mut(&mut self, chunk_size: usize) -> DeviceChunksMut<'_, T> {
        DeviceChunksMut::new(self, chunk_size)
    }

    /// A slice of `len` values from this address.
    ///
    /// # Panics
    ///
    /// For 2<sup>48</sup> values or more, unless they are zero-sized.
    ///
    /// # Safety
    ///
    /// The memory is device memory, holds `len` initialised values valid for `T`, stays allocated while the slice is
    /// used, and nothing writes it meanwhile.
    #[allow(clippy::needless_pass_by_value, reason = "as in RustaCUDA")]
    #[inline]
    pub unsafe fn from_raw_parts<'a>(data: DevicePointer<T>, len: usize) -> &'a DeviceSlice<T> {
        // SAFETY: as the caller guarantees.
        unsafe { slice(data.as_raw(), len, 0) }
    }

    /// A mutable slice of `len` values from this address.
    ///
    /// # Panics
    ///
    /// As for [`from_raw_parts`](Self::from_raw_parts).
    ///
    /// # Safety
    ///
    /// As for [`from_raw_parts`](Self::from_raw_parts), and nothing else uses the memory meanwhile.
    #[inline]
    pub unsafe fn from_raw_parts_mut<'a>(mut data: DevicePointer<T>, len: usize) -> &'a mut DeviceSlice<T> {
        // SAFETY: as the caller guarantees.
        unsafe { slice_mut(data.as_raw_mut(), len, 0) }
    }

    /// A slice of memory of the context with this number.
    ///
    /// # Safety
    ///
    /// As for [`from_raw_parts`](Self::from_raw_parts), and the context is pinned meanwhile.
    pub(super) unsafe fn of<'a>(address: u64, number: u16, len: usize) -> &'a DeviceSlice<T> {
        // SAFETY: as the caller guarantees.
        unsafe { slice(address as *const T, len, number) }
    }

    /// A mutable slice of memory of the context with this number.
    ///
    /// # Safety
    ///
    /// As for [`from_raw_parts_mut`](Self::from_raw_parts_mut), and the context is pinned meanwhile.
    pub(super) unsafe fn of_mut<'a>(address: u64, number: u16, len: usize) -> &'a mut DeviceSlice<T> {
        // SAFETY: as the caller guarantees.
        unsafe { slice_mut(address as *mut T, len, number) }
    }

    pub(super) fn empty_mut<'a>() -> &'a mut DeviceSlice<T> {
        // SAFETY: no values, so no memory.
        unsafe { slice_mut(ptr::dangling_mut(), 0, 0) }
    }

    /// The address for the device, and the context; a null handle if it is not known.
    pub(crate) fn place(&self) -> CudaResult<(u64, UnownedContext)> {
        let span = self.span();
        span.usable()?;
        Ok((span.address, span.context))
    }

    pub(super) fn span(&self) -> DeviceSpan<T> {
        let number = self.number();
        let (address, count) = (self.as_ptr().addr() as u64, self.len());
        // SAFETY: the memory is allocated while the slice is used, and shares the stream that it is in the order of.
        match unsafe { Shared::numbered(number) } {
            Some(home) => DeviceSpan::in_order(address, count, home),
            None => DeviceSpan::new(address, count, UnownedContext::numbered(number)),
        }
    }
}

/// The length with the number in its upper bits.
fn tagged<T>(length: usize, number: u16) -> usize {
    if mem::size_of::<T>() == 0 {
        return length;
    }
    assert!(length < TOO_LONG, "no memory has {length} values");
    usize::from(number) << LENGTH_BITS | length
}

/// # Safety
///
/// As for [`DeviceSlice::of`]. To the compiler the reference is to zero-sized values, for which any non-null address is
/// valid.
unsafe fn slice<'a, T>(start: *const T, length: usize, number: u16) -> &'a DeviceSlice<T> {
    let at = not_null(start.cast_mut()).cast_const().cast::<()>();
    let slice = ptr::slice_from_raw_parts(at, tagged::<T>(length, number)) as *const DeviceSlice<T>;
    // SAFETY: as the caller guarantees.
    unsafe { &*slice }
}

/// # Safety
///
/// As for [`DeviceSlice::of_mut`].
unsafe fn slice_mut<'a, T>(start: *mut T, length: usize, number: u16) -> &'a mut DeviceSlice<T> {
    let at = not_null(start).cast::<()>();
    let slice = ptr::slice_from_raw_parts_mut(at, tagged::<T>(length, number)) as *mut DeviceSlice<T>;
    // SAFETY: as in `slice`.
    unsafe { &mut *slice }
}

/// RustaCUDA's boxes have a null pointer for zero-sized values, but a reference is never null.
fn not_null<T>(at: *mut T) -> *mut T {
    if at.is_null() { ptr::dangling_mut() } else { at }
}

impl<T> fmt::Debug for DeviceSlice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceSlice").field("address", &self.as_ptr()).field("len", &self.len()).finish()
    }
}

/// The start and the length of a range.
fn bounds(range: impl RangeBounds<usize> + fmt::Debug, length: usize) -> (usize, usize) {
    let start = match range.start_bound() {
        Bound::Included(start) => Some(*start),
        Bound::Excluded(start) => start.checked_add(1),
        Bound::Unbounded => Some(0),
    };
    let end = match range.end_bound() {
        Bound::Included(end) => end.checked_add(1),
        Bound::Excluded(end) => Some(*end),
        Bound::Unbounded => Some(length),
    };
    match start.zip(end) {
        Some((start, end)) if start <= end && end <= length => (start, end - start),
        _ => panic!("range {range:?} is out of range for a slice of length {length}"),
    }
}

macro_rules! index {
    ($($range:ty)*) => {
        $(
            impl<T> Index<$range> for DeviceSlice<T> {
                type Output = DeviceSlice<T>;

                fn index(&self, range: $range) -> &DeviceSlice<T> {
                    let (start, length) = bounds(range, self.len());
                    // SAFETY: a part of this slice.
                    unsafe { slice(self.as_ptr().wrapping_add(start), length, self.number()) }
                }
            }

            impl<T> IndexMut<$range> for DeviceSlice<T> {
                fn index_mut(&mut self, range: $range) -> &mut DeviceSlice<T> {
                    let (start, length) = bounds(range, self.len());
                    // SAFETY: a part of this slice.
                    unsafe { slice_mut(self.as_mut_ptr().wrapping_add(start), length, self.number()) }
                }
            }
        )*
    };
}
index! { Range<usize> RangeFull RangeFrom<usize> RangeInclusive<usize> RangeTo<usize> RangeToInclusive<usize> }

impl<T> Sealed for DeviceSlice<T> {}

impl<T: DeviceCopy, I: AsRef<[T]> + AsMut<[T]> + ?Sized> CopyDestination<I> for DeviceSlice<T> {
    fn copy_from(&mut self, source: &I) -> CudaResult<()> {
        // SAFETY: the copy is done when the call returns; the exclusive reference is to this memory.
        unsafe { self.span().write(source.as_ref(), None) }
    }

    fn copy_to(&self, dest: &mut I) -> CudaResult<()> {
        // SAFETY: the copy is done when the call returns; the memory holds initialised values, valid for `T`.
        unsafe { self.span().read(dest.as_mut(), None) }
    }
}

impl<T: DeviceCopy> CopyDestination<DeviceSlice<T>> for DeviceSlice<T> {
    fn copy_from(&mut self, source: &DeviceSlice<T>) -> CudaResult<()> {
        // SAFETY: the copy is done when the call returns; there are references to both sides.
        unsafe { self.span().write_from_device(source.span(), None) }
    }

    fn copy_to(&self, dest: &mut DeviceSlice<T>) -> CudaResult<()> {
        dest.copy_from(self)
    }
}

impl<T: DeviceCopy> CopyDestination<DeviceBuffer<T>> for DeviceSlice<T> {
    fn copy_from(&mut self, source: &DeviceBuffer<T>) -> CudaResult<()> {
        self.copy_from(&**source)
    }

    fn copy_to(&self, dest: &mut DeviceBuffer<T>) -> CudaResult<()> {
        self.copy_to(&mut **dest)
    }
}

impl<T: DeviceCopy, I: AsRef<[T]> + AsMut<[T]> + ?Sized> AsyncCopyDestination<I> for DeviceSlice<T> {
    unsafe fn async_copy_from(&mut self, source: &I, stream: &Stream) -> CudaResult<()> {
        // SAFETY: as the caller guarantees.
        unsafe { self.span().write(source.as_ref(), Some(stream)) }
    }

    unsafe fn async_copy_to(&self, dest: &mut I, stream: &Stream) -> CudaResult<()> {
        // SAFETY: as the caller guarantees.
        unsafe { self.span().read(dest.as_mut(), Some(stream)) }
    }

    fn order_before(&self, _: &I, stream: &Stream) -> CudaResult<()> {
        self.span().order_before(stream)
    }
}

impl<T: DeviceCopy> AsyncCopyDestination<DeviceSlice<T>> for DeviceSlice<T> {
    unsafe fn async_copy_from(&mut self, source: &DeviceSlice<T>, stream: &Stream) -> CudaResult<()> {
        // SAFETY: as the caller guarantees.
        unsafe { self.span().write_from_device(source.span(), Some(stream)) }
    }

    unsafe fn async_copy_to(&self, dest: &mut DeviceSlice<T>, stream: &Stream) -> CudaResult<()> {
        // SAFETY: as the caller guarantees.
        unsafe { dest.span().write_from_device(self.span(), Some(stream)) }
    }

    fn order_before(&self, other: &DeviceSlice<T>, stream: &Stream) -> CudaResult<()> {
        self.span().order_before(stream)?;
        other.span().order_before(stream)
    }
}

impl<T: DeviceCopy> AsyncCopyDestination<DeviceBuffer<T>> for DeviceSlice<T> {
    unsafe fn async_copy_from(&mut self, source: &DeviceBuffer<T>, stream: &Stream) -> CudaResult<()> {
        // SAFETY: as the caller guarantees.
        unsafe { self.async_copy_from(&**source, stream) }
    }

    unsafe fn async_copy_to(&self, dest: &mut DeviceBuffer<T>, stream: &Stream) -> CudaResult<()> {
        // SAFETY: as the caller guarantees.
        unsafe { self.async_copy_to(&mut **dest, stream) }
    }

    fn order_before(&self, other: &DeviceBuffer<T>, stream: &Stream) -> CudaResult<()> {
        self.span().order_before(stream)?;
        other.span().order_before(stream)
    }
}
