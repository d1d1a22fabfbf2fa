//! [`DeviceBox`]: one value in device memory.

// Allocates, frees and copies what it owns.
#![allow(unsafe_code)]

use super::allocations;
use super::copies::{AsyncCopyDestination, CopyDestination, GONE, There};
use super::malloc::{cuda_malloc, free};
use super::{DeviceCopy, DevicePointer};
use crate::context::UnownedContext;
use crate::error::{CudaResult, DropResult};
use crate::private::Sealed;
use crate::report;
use crate::stream::Stream;
use std::fmt;
use std::mem;
use std::slice;

/// One value in device memory; as `Box` is on the host. A value without a size has no memory, and a null pointer.
#[repr(C)]
#[derive(Debug)]
pub struct DeviceBox<T> {
    ptr: DevicePointer<T>,
    context: UnownedContext,
}

// SAFETY: an address on the device and a handle that any thread may use; the value goes with it.
unsafe impl<T: Send> Send for DeviceBox<T> {}
// SAFETY: shared, it can be copied from, and the driver allows that on several threads.
unsafe impl<T: Sync> Sync for DeviceBox<T> {}

impl<T: DeviceCopy> DeviceBox<T> {
    /// Allocates memory and copies the value there.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](crate::error::CudaError::OutOfMemory);
    /// [`InvalidContext`](crate::error::CudaError::InvalidContext) if no context is current.
    #[doc(alias("cuMemAlloc", "cuMemcpyHtoD"))]
    pub fn new(val: &T) -> CudaResult<DeviceBox<T>> {
        // SAFETY: written in the next line, or dropped.
        let mut new = unsafe { DeviceBox::uninitialized() }?;
        new.copy_from(val)?;
        Ok(new)
    }
}

impl<T> DeviceBox<T> {
    /// Allocates memory for a value.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    ///
    /// # Safety
    ///
    /// The value is read only after it was written.
    #[doc(alias("cuMemAlloc", "cuMemAlloc_v2"))]
    pub unsafe fn uninitialized() -> CudaResult<DeviceBox<T>> {
        if mem::size_of::<T>() == 0 {
            return Ok(DeviceBox { ptr: DevicePointer::null(), context: UnownedContext::none() });
        }
        // SAFETY: freed by the destructor.
        let ptr = unsafe { cuda_malloc::<T>(1) }?;
        // SAFETY: owned from here on.
        Ok(unsafe { DeviceBox::from_device(ptr) })
    }

    /// Allocates memory for a value, all bytes zero.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    ///
    /// # Safety
    ///
    /// Zero bytes are a good `T`.
    #[doc(alias("cuMemsetD8", "cuMemsetD8_v2"))]
    pub unsafe fn zeroed() -> CudaResult<DeviceBox<T>> {
        // SAFETY: written in the next lines, or dropped.
        let new = unsafe { DeviceBox::<T>::uninitialized() }?;
        if mem::size_of::<T>() > 0 {
            let address = new.ptr.as_raw() as u64;
            // SAFETY: the memory allocated above.
            new.context.inside(|driver| unsafe { driver.memset(address, 0, mem::size_of::<T>()) })?;
        }
        Ok(new)
    }

    /// Takes ownership of memory that was allocated with [`cuda_malloc`].
    ///
    /// # Safety
    ///
    /// The memory has a good value, or gets one before it is read, and nothing else frees it.
    pub unsafe fn from_raw(ptr: *mut T) -> DeviceBox<T> {
        // SAFETY: the caller's promise.
        unsafe { DeviceBox::from_device(DevicePointer::wrap(ptr)) }
    }

    /// Takes ownership of memory that was allocated with [`cuda_malloc`].
    ///
    /// # Safety
    ///
    /// As [`from_raw`](Self::from_raw).
    pub unsafe fn from_device(ptr: DevicePointer<T>) -> DeviceBox<T> {
        DeviceBox { ptr, context: allocations::context_at(ptr.as_raw() as u64) }
    }

    /// Gives the memory away: it is not freed.
    pub fn into_device(b: DeviceBox<T>) -> DevicePointer<T> {
        mem::ManuallyDrop::new(b).ptr
    }

    /// The address, as kernels take it.
    pub fn as_device_ptr(&mut self) -> DevicePointer<T> {
        self.ptr
    }

    /// Frees the memory, and gives the box back with the error if that fails.
    ///
    /// # Errors
    ///
    /// What the driver answers.
    #[doc(alias("cuMemFree", "cuMemFree_v2"))]
    pub fn drop(dev_box: DeviceBox<T>) -> DropResult<DeviceBox<T>> {
        match dev_box.free() {
            Ok(()) => {
                mem::forget(dev_box);
                Ok(())
            }
            Err(error) => Err((error, dev_box)),
        }
    }

    fn free(&self) -> CudaResult<()> {
        if self.ptr.is_null() {
            return Ok(());
        }
        // SAFETY: the box owns the memory, and is gone after this.
        unsafe { free(self.ptr.as_raw() as u64, &self.context) }
    }

    fn there(&self) -> There<T> {
        let gone = !self.context.is_null() && !self.context.is_alive();
        There { address: if gone { GONE as *const T } else { self.ptr.as_raw() }, count: 1 }
    }
}

impl<T> fmt::Pointer for DeviceBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Pointer::fmt(&self.ptr, f)
    }
}

impl<T> Sealed for DeviceBox<T> {}

impl<T: DeviceCopy> CopyDestination<T> for DeviceBox<T> {
    fn copy_from(&mut self, source: &T) -> CudaResult<()> {
        // SAFETY: done when the call returns; the memory is the box's.
        unsafe { self.there().take(slice::from_ref(source), None) }
    }

    fn copy_to(&self, dest: &mut T) -> CudaResult<()> {
        // SAFETY: done when the call returns; the value is good as any bits (`DeviceCopy`).
        unsafe { self.there().give(slice::from_mut(dest), None) }
    }
}

impl<T: DeviceCopy> CopyDestination<DeviceBox<T>> for DeviceBox<T> {
    fn copy_from(&mut self, source: &DeviceBox<T>) -> CudaResult<()> {
        // SAFETY: both sides are boxes'.
        unsafe { self.there().take_there(source.there(), None) }
    }

    fn copy_to(&self, dest: &mut DeviceBox<T>) -> CudaResult<()> {
        dest.copy_from(self)
    }
}

impl<T: DeviceCopy> AsyncCopyDestination<DeviceBox<T>> for DeviceBox<T> {
    unsafe fn async_copy_from(&mut self, source: &DeviceBox<T>, stream: &Stream) -> CudaResult<()> {
        // SAFETY: the caller's promise.
        unsafe { self.there().take_there(source.there(), Some(stream)) }
    }

    unsafe fn async_copy_to(&self, dest: &mut DeviceBox<T>, stream: &Stream) -> CudaResult<()> {
        // SAFETY: the caller's promise.
        unsafe { dest.there().take_there(self.there(), Some(stream)) }
    }
}

impl<T> Drop for DeviceBox<T> {
    fn drop(&mut self) {
        if let Err(error) = self.free() {
            report::warn(format_args!("device memory of {} could not be freed: {error}", self.context));
            allocations::abandon(self.ptr.as_raw() as u64, &self.context);
        }
    }
}
