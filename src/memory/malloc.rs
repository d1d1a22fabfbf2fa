//! Allocating and freeing by hand.

// What is allocated by hand is freed by hand.
#![allow(unsafe_code)]

use super::allocations;
use super::{DeviceCopy, DevicePointer, UnifiedPointer};
use crate::context::{UnownedContext, dispose, is_gone};
use crate::driver::Driver;
use crate::error::{CudaError, CudaResult};
use std::mem;

/// The size of so many values; zero and more than there can be are refused, as in RustaCUDA.
fn size_of<T>(count: usize) -> CudaResult<usize> {
    let size =
        count.checked_mul(mem::size_of::<T>()).filter(|size| *size > 0 && isize::try_from(*size).is_ok());
    size.ok_or_else(|| {
        let each = mem::size_of::<T>();
        CudaError::InvalidMemoryAllocation.note(format_args!("to allocate {count} values of {each} bytes"))
    })
}

fn not_null(address: u64) -> CudaResult<u64> {
    if address != 0 {
        return Ok(address);
    }
    Err(CudaError::InvalidMemoryAllocation.note(format_args!("to free a null pointer")))
}

/// Bytes of the current context's device: free, and in all.
///
/// # Errors
///
/// [`InvalidContext`](CudaError::InvalidContext) if no context is current.
#[doc(alias("cuMemGetInfo", "cuMemGetInfo_v2"))]
pub fn info() -> CudaResult<(usize, usize)> {
    UnownedContext::of_this_thread()?.inside(Driver::mem_get_info)
}

/// Allocates device memory for `count` values in the current context. The memory is not initialised.
///
/// # Errors
///
/// [`InvalidMemoryAllocation`](CudaError::InvalidMemoryAllocation) if the size is zero or overflows;
/// [`OutOfMemory`](CudaError::OutOfMemory); [`InvalidContext`](CudaError::InvalidContext) if no context is current.
///
/// # Safety
///
/// The memory is freed with [`cuda_free`], and read only after it was written.
#[doc(alias("cuMemAlloc", "cuMemAlloc_v2"))]
pub unsafe fn cuda_malloc<T>(count: usize) -> CudaResult<DevicePointer<T>> {
    let size = size_of::<T>(count)?;
    let context = UnownedContext::of_this_thread()?;
    let address = context.inside(|driver| driver.mem_alloc(size))?;
    allocations::note(address, size, &context, None);
    // SAFETY: an address of the device's.
    Ok(unsafe { DevicePointer::wrap(address as *mut T) })
}

/// Allocates unified memory for `count` values in the current context, which it keeps from being destroyed. The memory
/// is not initialised.
///
/// # Errors
///
/// As [`cuda_malloc`].
///
/// # Safety
///
/// The memory is freed with [`cuda_free_unified`], and read only after it was written.
#[doc(alias = "cuMemAllocManaged")]
pub unsafe fn cuda_malloc_unified<T: DeviceCopy>(count: usize) -> CudaResult<UnifiedPointer<T>> {
    let size = size_of::<T>(count)?;
    let context = UnownedContext::of_this_thread()?;
    let pin = context.pin()?;
    let address = context.inside(|driver| driver.mem_alloc_managed(size))?;
    allocations::note(address, size, &context, Some(pin));
    // SAFETY: an address of both sides.
    Ok(unsafe { UnifiedPointer::wrap(address as *mut T) })
}

/// Frees what [`cuda_malloc`] gave. Memory whose context is destroyed is gone already: that is no error.
///
/// # Errors
///
/// [`InvalidMemoryAllocation`](CudaError::InvalidMemoryAllocation) for a null pointer; what the driver answers.
///
/// # Safety
///
/// Nothing uses the memory afterwards.
#[doc(alias("cuMemFree", "cuMemFree_v2"))]
pub unsafe fn cuda_free<T>(mut p: DevicePointer<T>) -> CudaResult<()> {
    let address = not_null(p.as_raw_mut() as u64)?;
    // SAFETY: the caller's promise.
    unsafe { free(address, &allocations::context_at(address)) }
}

/// Frees what [`cuda_malloc_unified`] gave.
///
/// # Errors
///
/// As [`cuda_free`].
///
/// # Safety
///
/// Nothing uses the memory afterwards.
#[doc(alias("cuMemFree", "cuMemFree_v2"))]
pub unsafe fn cuda_free_unified<T: DeviceCopy>(mut p: UnifiedPointer<T>) -> CudaResult<()> {
    let address = not_null(p.as_raw_mut() as u64)?;
    // SAFETY: the caller's promise.
    unsafe { free(address, &allocations::context_at(address)) }
}

/// Allocates page-locked host memory for `count` values in the current context, which it keeps from being destroyed.
/// The memory is not initialised.
///
/// # Errors
///
/// As [`cuda_malloc`].
///
/// # Safety
///
/// The memory is freed with [`cuda_free_locked`], and read only after it was written.
#[doc(alias("cuMemAllocHost", "cuMemAllocHost_v2"))]
pub unsafe fn cuda_malloc_locked<T>(count: usize) -> CudaResult<*mut T> {
    let size = size_of::<T>(count)?;
    let context = UnownedContext::of_this_thread()?;
    let pin = context.pin()?;
    let memory = context.inside(|driver| driver.mem_alloc_host(size))?;
    allocations::note(memory.addr() as u64, size, &context, Some(pin));
    Ok(memory.cast())
}

/// Frees what [`cuda_malloc_locked`] gave.
///
/// # Errors
///
/// As [`cuda_free`].
///
/// # Safety
///
/// Nothing uses the memory afterwards.
#[doc(alias = "cuMemFreeHost")]
pub unsafe fn cuda_free_locked<T>(ptr: *mut T) -> CudaResult<()> {
    let address = not_null(ptr.addr() as u64)?;
    // SAFETY: the caller's promise.
    unsafe { free_locked(ptr, &allocations::context_at(address)) }
}

/// Frees memory of a context that its owner knows.
///
/// # Safety
///
/// Nothing uses the memory afterwards.
pub(super) unsafe fn free(address: u64, context: &UnownedContext) -> CudaResult<()> {
    // SAFETY: the caller's promise.
    freed(address, context, dispose(context, |driver| unsafe { driver.mem_free(address) }))
}

/// # Safety
///
/// Nothing uses the memory afterwards.
pub(super) unsafe fn free_locked<T>(ptr: *mut T, context: &UnownedContext) -> CudaResult<()> {
    // SAFETY: the caller's promise.
    let result = dispose(context, |driver| unsafe { driver.mem_free_host(ptr.cast()) });
    freed(ptr.addr() as u64, context, result)
}

/// With its context the memory is gone too. The last memory that kept a context lets it be destroyed.
fn freed(address: u64, context: &UnownedContext, result: CudaResult<()>) -> CudaResult<()> {
    match result {
        Err(error) if !is_gone(error) || context.is_null() => Err(error),
        _ => {
            drop(allocations::forget(address, context));
            Ok(())
        }
    }
}
