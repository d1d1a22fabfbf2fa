//! [`DeviceSlice`]: a part of device memory.

// A slice is made of an address and a length; see the type for what makes that sound.
#![allow(unsafe_code)]

use super::copies::{AsyncCopyDestination, CopyDestination, DeviceSpan};
use super::{DeviceBuffer, DeviceChunks, DeviceChunksMut, DeviceCopy, DevicePointer};
use crate::context::UnownedContext;
use crate::error::CudaResult;
use crate::sealed::Sealed;
use crate::stream::Stream;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{
    Bound, Index, IndexMut, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo,
    RangeToInclusive,
};
use std::ptr;

/// A part of device memory, as `[T]` is of the host's: it is used behind a reference, indexed with ranges, and copied.
///
/// The reference carries the address and the length and nothing that the host could read: for the compiler the type
/// is as many values without a size. `Debug` prints where it is and how long, and never reads device memory.
//
// A slice has to know the context of its memory, and a reference has room for an address and a length. So the context's
// number stands in the upper 16 bits of the address, which the addresses of the driver leave free; one that does not
// is left without a number. The road not taken was to look every address up: it cost a lock for each copy and each
// allocation.
#[repr(C)]
pub struct DeviceSlice<T> {
    values: PhantomData<T>,
    length: [()],
}

impl<T> DeviceSlice<T> {
    /// How many values.
    pub fn len(&self) -> usize {
        self.length.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length.is_empty()
    }

    /// The address, for device code; the host must not follow it.
    pub fn as_ptr(&self) -> *const T {
        self.tagged().map_addr(|tagged| tagged & ADDRESS)
    }

    /// The address, and above it the number of the context.
    fn tagged(&self) -> *const T {
        ptr::from_ref(self).cast()
    }

    /// The address, for device code; the host must not follow it.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        ptr::from_mut(self).cast::<T>().map_addr(|tagged| tagged & ADDRESS)
    }

    /// The address, as kernels take it.
    pub fn as_device_ptr(&mut self) -> DevicePointer<T> {
        // SAFETY: an address of the device's.
        unsafe { DevicePointer::wrap(self.as_mut_ptr()) }
    }

    /// The parts before and from `mid`.
    ///
    /// # Panics
    ///
    /// If `mid` is more than the length.
    pub fn split_at(&self, mid: usize) -> (&DeviceSlice<T>, &DeviceSlice<T>) {
        (&self[..mid], &self[mid..])
    }

    /// The parts before and from `mid`.
    ///
    /// # Panics
    ///
    /// If `mid` is more than the length.
    pub fn split_at_mut(&mut self, mid: usize) -> (&mut DeviceSlice<T>, &mut DeviceSlice<T>) {
        let (length, start) = (self.len(), ptr::from_mut(self).cast());
        assert!(mid <= length, "{mid} is out of range for a slice of length {length}");
        // SAFETY: two parts of this slice that do not overlap.
        unsafe { (part_mut(start, 0, mid), part_mut(start, mid, length - mid)) }
    }

    /// Parts of this length from the start; the last may be shorter.
    ///
    /// # Panics
    ///
    /// If `chunk_size` is 0.
    pub fn chunks(&self, chunk_size: usize) -> DeviceChunks<'_, T> {
        DeviceChunks::new(self, chunk_size)
    }

    /// Parts of this length from the start; the last may be shorter.
    ///
    /// # Panics
    ///
    /// If `chunk_size` is 0.
    pub fn chunks_mut(&mut self, chunk_size: usize) -> DeviceChunksMut<'_, T> {
        DeviceChunksMut::new(self, chunk_size)
    }

    /// A slice of these values.
    ///
    /// # Safety
    ///
    /// The memory is the device's and allocated while the slice is used, and nothing writes it meanwhile.
    #[allow(clippy::needless_pass_by_value, reason = "as in RustaCUDA")]
    pub unsafe fn from_raw_parts<'a>(data: DevicePointer<T>, len: usize) -> &'a DeviceSlice<T> {
        // SAFETY: the caller's promise.
        unsafe { part(data.as_raw(), 0, len) }
    }

    /// A slice of these values.
    ///
    /// # Safety
    ///
    /// As [`from_raw_parts`](Self::from_raw_parts), and nothing else uses the memory meanwhile.
    pub unsafe fn from_raw_parts_mut<'a>(mut data: DevicePointer<T>, len: usize) -> &'a mut DeviceSlice<T> {
        // SAFETY: the caller's promise.
        unsafe { part_mut(data.as_raw_mut(), 0, len) }
    }

    /// A slice of memory of the context with this number.
    ///
    /// # Safety
    ///
    /// As [`from_raw_parts`](Self::from_raw_parts), and the context is pinned meanwhile.
    pub(super) unsafe fn of<'a>(address: u64, number: u16, len: usize) -> &'a DeviceSlice<T> {
        // SAFETY: the caller's promise.
        unsafe { part(tag(address, number), 0, len) }
    }

    /// A slice of memory of the context with this number.
    ///
    /// # Safety
    ///
    /// As [`from_raw_parts_mut`](Self::from_raw_parts_mut), and the context is pinned meanwhile.
    pub(super) unsafe fn of_mut<'a>(address: u64, number: u16, len: usize) -> &'a mut DeviceSlice<T> {
        // SAFETY: the caller's promise.
        unsafe { part_mut(tag(address, number), 0, len) }
    }

    pub(super) fn empty_mut<'a>() -> &'a mut DeviceSlice<T> {
        // SAFETY: no values, so no memory.
        unsafe { part_mut(ptr::dangling_mut(), 0, 0) }
    }

    fn span(&self) -> DeviceSpan<T> {
        let number = (self.tagged().addr() >> ADDRESS_BITS) as u16;
        DeviceSpan::new(self.as_ptr().addr() as u64, self.len(), UnownedContext::numbered(number))
    }
}

/// So many bits of an address are the driver's.
const ADDRESS_BITS: u32 = 48;
const ADDRESS: usize = (1 << ADDRESS_BITS) - 1;

fn tag<T>(address: u64, number: u16) -> *mut T {
    let fits = address >> ADDRESS_BITS == 0;
    let number = if fits { u64::from(number) } else { 0 };
    (number << ADDRESS_BITS | address) as *mut T
}

/// # Safety
///
/// As [`DeviceSlice::from_raw_parts`]. For the compiler the reference is to values without a size, for which any
/// address but null is good.
unsafe fn part<'a, T>(start: *const T, from: usize, length: usize) -> &'a DeviceSlice<T> {
    let at = not_null(start.wrapping_add(from).cast_mut());
    // SAFETY: above.
    unsafe { &*(ptr::slice_from_raw_parts(at.cast_const().cast::<()>(), length) as *const DeviceSlice<T>) }
}

/// # Safety
///
/// As [`DeviceSlice::from_raw_parts_mut`].
unsafe fn part_mut<'a, T>(start: *mut T, from: usize, length: usize) -> &'a mut DeviceSlice<T> {
    let at = not_null(start.wrapping_add(from));
    // SAFETY: as in `part`.
    unsafe { &mut *(ptr::slice_from_raw_parts_mut(at.cast::<()>(), length) as *mut DeviceSlice<T>) }
}

/// Null is where values without a size are in RustaCUDA's boxes; a reference is never null.
fn not_null<T>(at: *mut T) -> *mut T {
    if at.is_null() { ptr::dangling_mut() } else { at }
}

impl<T> fmt::Debug for DeviceSlice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceSlice").field("address", &self.as_ptr()).field("len", &self.len()).finish()
    }
}

/// Start and length of a range.
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
                    unsafe { part(self.tagged(), start, length) }
                }
            }

            impl<T> IndexMut<$range> for DeviceSlice<T> {
                fn index_mut(&mut self, range: $range) -> &mut DeviceSlice<T> {
                    let (start, length) = bounds(range, self.len());
                    // SAFETY: a part of this slice.
                    unsafe { part_mut(self.tagged().cast_mut(), start, length) }
                }
            }
        )*
    };
}
index! { Range<usize> RangeFull RangeFrom<usize> RangeInclusive<usize> RangeTo<usize> RangeToInclusive<usize> }

impl<T> Sealed for DeviceSlice<T> {}

impl<T: DeviceCopy, I: AsRef<[T]> + AsMut<[T]> + ?Sized> CopyDestination<I> for DeviceSlice<T> {
    fn copy_from(&mut self, source: &I) -> CudaResult<()> {
        // SAFETY: done when the call returns; the exclusive reference is to this memory.
        unsafe { self.span().write(source.as_ref(), None) }
    }

    fn copy_to(&self, dest: &mut I) -> CudaResult<()> {
        // SAFETY: done when the call returns; the memory holds values that are good as any bits (`DeviceCopy`).
        unsafe { self.span().read(dest.as_mut(), None) }
    }
}

impl<T: DeviceCopy> CopyDestination<DeviceSlice<T>> for DeviceSlice<T> {
    fn copy_from(&mut self, source: &DeviceSlice<T>) -> CudaResult<()> {
        // SAFETY: done, for what uses the memory in its order; the references are to both sides.
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
        // SAFETY: the caller's promise.
        unsafe { self.span().write(source.as_ref(), Some(stream)) }
    }

    unsafe fn async_copy_to(&self, dest: &mut I, stream: &Stream) -> CudaResult<()> {
        // SAFETY: the caller's promise.
        unsafe { self.span().read(dest.as_mut(), Some(stream)) }
    }
}

impl<T: DeviceCopy> AsyncCopyDestination<DeviceSlice<T>> for DeviceSlice<T> {
    unsafe fn async_copy_from(&mut self, source: &DeviceSlice<T>, stream: &Stream) -> CudaResult<()> {
        // SAFETY: the caller's promise.
        unsafe { self.span().write_from_device(source.span(), Some(stream)) }
    }

    unsafe fn async_copy_to(&self, dest: &mut DeviceSlice<T>, stream: &Stream) -> CudaResult<()> {
        // SAFETY: the caller's promise.
        unsafe { dest.span().write_from_device(self.span(), Some(stream)) }
    }
}

impl<T: DeviceCopy> AsyncCopyDestination<DeviceBuffer<T>> for DeviceSlice<T> {
    unsafe fn async_copy_from(&mut self, source: &DeviceBuffer<T>, stream: &Stream) -> CudaResult<()> {
        // SAFETY: the caller's promise.
        unsafe { self.async_copy_from(&**source, stream) }
    }

    unsafe fn async_copy_to(&self, dest: &mut DeviceBuffer<T>, stream: &Stream) -> CudaResult<()> {
        // SAFETY: the caller's promise.
        unsafe { self.async_copy_to(&mut **dest, stream) }
    }
}
