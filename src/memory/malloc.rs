//! Allocating and freeing by hand.

// The caller frees what it allocated.
#![allow(unsafe_code)]

use super::allocation::{Allocation, Kind};
use super::device_slice::TOO_LONG;
use super::given_away;
use super::{DeviceCopy, DevicePointer, UnifiedPointer};
use crate::context::UnownedContext;
use crate::driver::Driver;
use crate::error::{CudaError, CudaResult};
use std::mem;

/// The size of `count` values; zero and overflow are refused, as in RustaCUDA, and more than any slice can have.
pub(super) fn size_of<T>(count: usize) -> CudaResult<usize> {
    let error = match count.checked_mul(mem::size_of::<T>()) {
        Some(size) if size > 0 && size < TOO_LONG => return Ok(size),
        Some(size) if size > 0 && isize::try_from(size).is_ok() => CudaError::OutOfMemory,
        _ => CudaError::InvalidMemoryAllocation,
    };
    let each = mem::size_of::<T>();
    Err(error.note(format_args!("to allocate {count} values of {each} bytes")))
}

fn not_null(address: u64) -> CudaResult<u64> {
    if address != 0 {
        return Ok(address);
    }
    Err(CudaError::InvalidMemoryAllocation.note(format_args!("to free a null pointer")))
}

/// The free and the total memory of the current context's device, in bytes.
///
/// # Errors
///
/// [`InvalidContext`](CudaError::InvalidContext) if no context is current.
#[doc(alias("cuMemGetInfo", "cuMemGetInfo_v2"))]
#[inline]
pub fn info() -> CudaResult<(usize, usize)> {
    UnownedContext::of_this_thread()?.inside(Driver::mem_get_info)
}

/// Allocates device memory for `count` values in the current context, which it keeps at the driver until it is freed.
/// The memory is not initialised.
///
/// # Errors
///
/// [`InvalidMemoryAllocation`](CudaError::InvalidMemoryAllocation) if the size is zero or overflows;
/// [`OutOfMemory`](CudaError::OutOfMemory); [`InvalidContext`](CudaError::InvalidContext) if no context is current.
///
/// # Safety
///
/// The memory is freed with [`cuda_free`], and written before it is read.
#[doc(alias("cuMemAlloc", "cuMemAlloc_v2"))]
#[inline]
pub unsafe fn cuda_malloc<T>(count: usize) -> CudaResult<DevicePointer<T>> {
    let address = allocate::<T>(Kind::Device, count)?;
    // SAFETY: a device address.
    Ok(unsafe { DevicePointer::wrap(address as *mut T) })
}

/// Allocates unified memory for `count` values in the current context, which it keeps at the driver until it is freed.
/// The memory is not initialised.
///
/// # Errors
///
/// Those of [`cuda_malloc`](super::cuda_malloc).
///
/// # Safety
///
/// The memory is freed with [`cuda_free_unified`], and written before it is read.
#[doc(alias = "cuMemAllocManaged")]
#[inline]
pub unsafe fn cuda_malloc_unified<T: DeviceCopy>(count: usize) -> CudaResult<UnifiedPointer<T>> {
    let address = allocate::<T>(Kind::Unified, count)?;
    // SAFETY: an address of both host and device.
    Ok(unsafe { UnifiedPointer::wrap(address as *mut T) })
}

/// Frees memory of [`cuda_malloc`]. If the driver returns an error it may have freed the memory all the same: the
/// memory must not be freed again, except after [`NotPermitted`](CudaError::NotPermitted), in a host function.
///
/// # Errors
///
/// [`InvalidMemoryAllocation`](CudaError::InvalidMemoryAllocation) for a null pointer, or any error of the driver.
///
/// # Safety
///
/// Nothing uses the memory afterwards.
#[doc(alias("cuMemFree", "cuMemFree_v2"))]
#[inline]
pub unsafe fn cuda_free<T>(mut p: DevicePointer<T>) -> CudaResult<()> {
    free(Kind::Device, p.as_raw_mut() as u64)
}

/// Frees memory of [`cuda_malloc_unified`].
///
/// # Errors
///
/// Those of [`cuda_free`].
///
/// # Safety
///
/// Nothing uses the memory afterwards.
#[doc(alias("cuMemFree", "cuMemFree_v2"))]
#[inline]
pub unsafe fn cuda_free_unified<T: DeviceCopy>(mut p: UnifiedPointer<T>) -> CudaResult<()> {
    free(Kind::Unified, p.as_raw_mut() as u64)
}

/// Allocates page-locked host memory for `count` values in the current context, which it keeps at the driver until
/// it is freed. The memory is not initialised.
///
/// # Errors
///
/// Those of [`cuda_malloc`](super::cuda_malloc).
///
/// # Safety
///
/// The memory is freed with [`cuda_free_locked`], and written before it is read.
#[doc(alias("cuMemAllocHost", "cuMemAllocHost_v2"))]
#[inline]
pub unsafe fn cuda_malloc_locked<T>(count: usize) -> CudaResult<*mut T> {
    Ok(allocate::<T>(Kind::Locked, count)? as *mut T)
}

/// Frees memory of [`cuda_malloc_locked`].
///
/// # Errors
///
/// Those of [`cuda_free`].
///
/// # Safety
///
/// Nothing uses the memory afterwards.
#[doc(alias = "cuMemFreeHost")]
#[inline]
pub unsafe fn cuda_free_locked<T>(ptr: *mut T) -> CudaResult<()> {
    free(Kind::Locked, ptr as u64)
}

/// Allocates memory, gives it away, and returns its address.
fn allocate<T>(kind: Kind, count: usize) -> CudaResult<u64> {
    let size = size_of::<T>(count)?;
    Allocation::new(kind, size).map(|allocation| given_away::give(allocation, size))
}

/// Frees memory that was given away; if the driver refuses every call, it is given away again.
fn free(kind: Kind, address: u64) -> CudaResult<()> {
    let address = not_null(address)?;
    let Some(allocation) = given_away::take(address) else {
        return Allocation::foreign(kind, address).free(1).map_err(|(error, ..)| error);
    };
    let (size, allocation) = allocation;
    allocation.free(size).map_err(|(error, allocation, size)| {
        given_away::give(allocation, size);
        error
    })
}
