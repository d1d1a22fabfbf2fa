//! Copies between arrays and the host.

// Passes addresses to the driver; see the `SAFETY` lines.
#![allow(unsafe_code)]

use super::{ArrayDescriptor, ArrayObject, Texel};
use crate::context::refuse_by_default;
use crate::driver::ffi::{CUDA_MEMCPY3D, CUarray};
use crate::driver::{Driver, Held, Order};
use crate::error::{CudaError, CudaResult};
use crate::memory::finish;
use crate::stream::Stream;
use std::mem;
use std::os::raw::c_void;
use std::ptr;

const ON_HOST: u32 = 1;
const IN_ARRAY: u32 = 3;

impl ArrayDescriptor {
    /// Bytes of a row, rows of a slice, and slices.
    fn extent(&self) -> [usize; 3] {
        let [width, height, depth] = self.dims();
        [width * self.element_size(), height.max(1), depth.max(1)]
    }

    /// Bytes of an element.
    pub(crate) fn element_size(&self) -> usize {
        self.format().channel_size() * self.num_channels() as usize
    }
}

/// A copy of everything that the array has; one side is at this address, without gaps.
fn whole(
    array: Held<'_, CUarray>,
    extent: [usize; 3],
    host: *mut c_void,
    is_to_array: bool,
) -> CUDA_MEMCPY3D {
    let [bytes, rows, slices] = extent;
    let (on_host, in_array) = ((ON_HOST, host, ptr::null_mut()), (IN_ARRAY, ptr::null_mut(), array.as_raw()));
    let (from, to) = if is_to_array { (on_host, in_array) } else { (in_array, on_host) };
    CUDA_MEMCPY3D {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: from.0,
        srcHost: from.1,
        srcDevice: 0,
        srcArray: from.2,
        reserved0: ptr::null_mut(),
        srcPitch: bytes,
        srcHeight: rows,
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: to.0,
        dstHost: to.1,
        dstDevice: 0,
        dstArray: to.2,
        reserved1: ptr::null_mut(),
        dstPitch: bytes,
        dstHeight: rows,
        WidthInBytes: bytes,
        Height: rows,
        Depth: slices,
    }
}

impl ArrayObject {
    /// Copies the values to the whole array, row after row and slice after slice; done when the call returns. A value is
    /// an element or a channel of one. A kernel that reads the array meanwhile, which only an unsafe launch begins, may
    /// find old values and new ones.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue) if the array has no such values, before the driver is called;
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed), or any error of the driver.
    ///
    /// # Panics
    ///
    /// If the array has another number of values.
    #[doc(alias("cuMemcpy3D", "cuMemcpy3D_v2", "cuMemcpyHtoA", "cuMemcpy2D"))]
    #[inline]
    pub fn copy_from<T: Texel>(&self, values: &[T]) -> CudaResult<()> {
        self.check(values)?;
        // SAFETY: done when the call returns.
        unsafe { self.copy(values.as_ptr().cast_mut().cast(), true, None) }
    }

    /// Copies the whole array to the slice; done when the call returns.
    ///
    /// # Errors
    ///
    /// Like [`copy_from`](Self::copy_from).
    ///
    /// # Panics
    ///
    /// If the array has another number of values.
    #[doc(alias("cuMemcpy3D", "cuMemcpy3D_v2", "cuMemcpyAtoH", "cuMemcpy2D"))]
    #[inline]
    pub fn copy_to<T: Texel>(&self, values: &mut [T]) -> CudaResult<()> {
        self.check(values)?;
        // SAFETY: done when the call returns; all bits are values.
        unsafe { self.copy(values.as_mut_ptr().cast(), false, None) }
    }

    /// Submits a copy of the values to the whole array to the stream.
    ///
    /// # Errors
    ///
    /// Like [`copy_from`](Self::copy_from); [`InvalidHandle`](CudaError::InvalidHandle) if the stream is of another
    /// context.
    ///
    /// # Panics
    ///
    /// If the array has another number of values.
    ///
    /// # Safety
    ///
    /// The array is not dropped, and the values not written, until the copy is done.
    #[doc(alias("cuMemcpy3DAsync", "cuMemcpy3DAsync_v2", "cuMemcpyHtoAAsync"))]
    #[inline]
    pub unsafe fn async_copy_from<T: Texel>(&self, values: &[T], stream: &Stream) -> CudaResult<()> {
        self.check(values)?;
        // SAFETY: as the caller guarantees.
        unsafe { self.copy(values.as_ptr().cast_mut().cast(), true, Some(stream)) }
    }

    /// Submits a copy of the whole array to the slice to the stream.
    ///
    /// # Errors
    ///
    /// Like [`async_copy_from`](Self::async_copy_from).
    ///
    /// # Panics
    ///
    /// If the array has another number of values.
    ///
    /// # Safety
    ///
    /// The array is not dropped, and the slice not used, until the copy is done.
    #[doc(alias("cuMemcpy3DAsync", "cuMemcpy3DAsync_v2", "cuMemcpyAtoHAsync"))]
    #[inline]
    pub unsafe fn async_copy_to<T: Texel>(&self, values: &mut [T], stream: &Stream) -> CudaResult<()> {
        self.check(values)?;
        // SAFETY: as the caller guarantees.
        unsafe { self.copy(values.as_mut_ptr().cast(), false, Some(stream)) }
    }

    /// Whether the array has values of this type, and as many.
    fn check<T: Texel>(&self, values: &[T]) -> CudaResult<()> {
        let made = self.made();
        if made.format() != T::FORMAT || ![1, made.num_channels()].contains(&T::CHANNELS) {
            let (format, channels) = (T::FORMAT, T::CHANNELS);
            return Err(CudaError::InvalidValue.note(format_args!(
                "to copy values of {channels} times {format:?} between the host and an array of {made:?}"
            )));
        }
        let has = made.extent().into_iter().product::<usize>() / mem::size_of::<T>();
        let count = values.len();
        assert!(count == has, "{count} values are copied to or from an array of {has}");
        Ok(())
    }

    /// # Safety
    ///
    /// At the address are as many bytes as the array has, until the copy is done.
    unsafe fn copy(&self, host: *mut c_void, is_to_array: bool, stream: Option<&Stream>) -> CudaResult<()> {
        let extent = self.made().extent();
        let copy = |driver: &Driver, array: Held<'_, CUarray>, order: Order<'_>| {
            let what = whole(array, extent, host, is_to_array);
            // SAFETY: as the caller guarantees; the array is held.
            unsafe { driver.copy_slices(&what, order) }
        };
        let Some(stream) = stream else {
            let _call = refuse_by_default(self.context(), "copy without a stream")?;
            return self.handle().with_current(|driver, array| {
                let issued = copy(driver, array, None);
                if is_to_array { finish(issued, driver, None) } else { issued }
            });
        };
        if !self.context().shares_with(stream.context()) {
            let (array, stream) = (self.context(), stream.context());
            return Err(CudaError::InvalidHandle
                .note(format_args!("to copy an array of {array} in a stream of {stream}")));
        }
        let _call;
        if stream.is_legacy() {
            _call = stream.refuse_by_default("copy in a legacy stream")?;
        }
        stream.inner().with_both(self.handle(), |driver, stream, array| copy(driver, array, Some(stream)))
    }
}
