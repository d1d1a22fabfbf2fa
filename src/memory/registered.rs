//! [`RegisteredSlice`]: memory of the program, page-locked in place.

// Registers memory that it borrows.
#![allow(unsafe_code)]

use super::allocation::{Allocation, Kind, unregister_again};
use super::{DeviceCopy, DevicePointer};
use crate::context::must_retire;
use crate::error::{CudaError, CudaResult, DropResult};
use bitflags::bitflags;
use std::mem;
use std::ops::{Deref, DerefMut};

bitflags! {
    /// Flags of [`RegisteredSlice::new`](super::RegisteredSlice::new).
    #[derive(Default)]
    pub struct RegisterFlags: u32 {
        /// It is page-locked for all contexts. With unified addresses that is always so.
        const PORTABLE = 0x01;
        /// Kernels can access it at [`as_device_ptr`](super::RegisteredSlice::as_device_ptr). With unified addresses
        /// that is always so.
        const DEVICE_MAP = 0x02;
        /// The device only reads the memory.
        const READ_ONLY = 0x08;
    }
}

/// A slice of the program that is page-locked as long as this guard lives, so that copies to and from it are
/// asynchronous and fast. It derefs to the slice, and keeps its context at the driver.
///
/// Page-locking takes some time for each page, so it pays for memory that is copied often. It always locks whole pages.
///
/// ```
/// use custack::memory::{AsyncCopyDestination, DeviceBuffer, RegisterFlags, RegisteredSlice};
/// use custack::stream::{Stream, StreamFlags};
///
/// let _context = custack::quick_init()?;
/// let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
/// let mut values = vec![0u32; 1000];
/// let buffer = DeviceBuffer::from_slice_in(&[7u32; 1000], &stream)?;
/// RegisteredSlice::scoped(&mut values, RegisterFlags::empty(), |values| {
///     // SAFETY: the stream has got there before anything is used or freed.
///     unsafe { buffer.async_copy_to(&mut **values, &stream)? };
///     stream.synchronize()
/// })?;
/// assert_eq!(values[999], 7);
/// # Ok::<(), custack::error::CudaError>(())
/// ```
#[derive(Debug)]
pub struct RegisteredSlice<'a, T: DeviceCopy> {
    memory: Allocation,
    slice: &'a mut [T],
}

impl<'a, T: DeviceCopy> RegisteredSlice<'a, T> {
    /// Page-locks a slice, in the current context. Nothing is done for an empty one.
    ///
    /// # Errors
    ///
    /// [`HostMemoryAlreadyRegistered`](CudaError::HostMemoryAlreadyRegistered) if part of it is page-locked already;
    /// [`InvalidContext`](CudaError::InvalidContext) if no context is current; an error of the driver, for instance for
    /// memory that cannot be locked.
    ///
    /// # Safety
    ///
    /// The guard is dropped before the memory is freed, neither on an ending thread nor in a host function, and is not
    /// forgotten unless the memory is never freed. Otherwise the pages stay locked, and the device does not see what is
    /// later at that address. [`scoped`](Self::scoped) guarantees this.
    #[doc(alias("cuMemHostRegister", "cuMemHostRegister_v2"))]
    #[inline]
    pub unsafe fn new(slice: &'a mut [T], flags: RegisterFlags) -> CudaResult<RegisteredSlice<'a, T>> {
        let (at, bytes) = (slice.as_mut_ptr(), mem::size_of_val(slice));
        if bytes == 0 {
            let memory = Allocation::nothing(Kind::Registered, at.addr() as u64 as usize);
            return Ok(RegisteredSlice { memory, slice });
        }
        let memory = Allocation::made(Kind::Registered, |driver| {
            // SAFETY: borrowed as long as the guard lives, and the caller guarantees that it is dropped.
            let registered = unsafe { driver.mem_host_register(at.cast(), bytes, flags.bits()) };
            registered.map(|()| at as u64).inspect_err(|error| {
                // A driver that fails may have registered it all the same; if it was registered before, it stays
                // registered.
                if !matches!(error, CudaError::HostMemoryAlreadyRegistered | CudaError::NotPermitted) {
                    let _ = unregister_again(|| driver.mem_host_unregister(at.cast()));
                }
            })
        })?;
        Ok(RegisteredSlice { memory, slice })
    }

    /// Page-locks a slice, in the current context, while the function runs; also unlocks it after a panic.
    ///
    /// # Errors
    ///
    /// Like [`new`](Self::new); [`NotPermitted`](CudaError::NotPermitted) in a host function and on an ending thread;
    /// the function's error, else that of unlocking the slice.
    #[doc(alias("cuMemHostRegister", "cuMemHostRegister_v2", "cuMemHostUnregister"))]
    #[inline]
    pub fn scoped<R>(
        slice: &mut [T],
        flags: RegisterFlags,
        f: impl FnOnce(&mut RegisteredSlice<'_, T>) -> CudaResult<R>,
    ) -> CudaResult<R> {
        if must_retire() {
            return Err(CudaError::NotPermitted
                .note(format_args!("to register memory where it could not be unregistered in time")));
        }
        // SAFETY: dropped below or in a panic, before the borrow ends.
        let mut registered = unsafe { RegisteredSlice::new(slice, flags) }?;
        let result = f(&mut registered)?;
        RegisteredSlice::drop(registered).map_err(|(error, _)| error)?;
        Ok(result)
    }

    /// The address of the slice, for kernels; null if nothing is page-locked.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed); any error of the driver.
    #[doc(alias("cuMemHostGetDevicePointer", "cuMemHostGetDevicePointer_v2"))]
    #[inline]
    pub fn as_device_ptr(&mut self) -> CudaResult<DevicePointer<T>> {
        let at = self.slice.as_mut_ptr();
        let get = |driver: &crate::driver::Driver| driver.mem_host_get_device_pointer(at.cast());
        let address = if self.memory.is_spent() { 0 } else { self.memory.context().inside(get)? };
        // SAFETY: a device address.
        Ok(unsafe { DevicePointer::wrap(address as *mut T) })
    }

    /// Unlocks the slice; if that fails, returns the error and the guard.
    ///
    /// # Errors
    ///
    /// Any error of the driver. It may have unlocked the slice all the same, so dropping the returned guard does
    /// nothing, except after [`NotPermitted`](CudaError::NotPermitted), in a host function.
    #[doc(alias("cuMemHostUnregister"))]
    #[allow(clippy::result_large_err, reason = "it gives back what it was given")]
    #[inline]
    pub fn drop(registered: RegisteredSlice<'a, T>) -> DropResult<RegisteredSlice<'a, T>> {
        let RegisteredSlice { memory, slice } = registered;
        memory.free(slice.len()).map_err(|(error, memory, _)| (error, RegisteredSlice { memory, slice }))
    }
}

impl<T: DeviceCopy> Deref for RegisteredSlice<'_, T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        self.slice
    }
}

impl<T: DeviceCopy> DerefMut for RegisteredSlice<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        self.slice
    }
}

impl<T: DeviceCopy> AsRef<[T]> for RegisteredSlice<'_, T> {
    #[inline]
    fn as_ref(&self) -> &[T] {
        self.slice
    }
}

impl<T: DeviceCopy> AsMut<[T]> for RegisteredSlice<'_, T> {
    #[inline]
    fn as_mut(&mut self) -> &mut [T] {
        self.slice
    }
}
