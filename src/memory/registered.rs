//! [`RegisteredSlice`]: memory of the program's own, page-locked in place.

// Registers what it borrows.
#![allow(unsafe_code)]

use super::allocation::{Allocation, Kind};
use super::{DeviceCopy, DevicePointer};
use crate::context::must_retire;
use crate::error::{CudaError, CudaResult, DropResult};
use bitflags::bitflags;
use std::mem;
use std::ops::{Deref, DerefMut};

bitflags! {
    /// How memory is registered.
    #[derive(Default)]
    pub struct RegisterFlags: u32 {
        /// All contexts take it for page-locked, and not the current one alone. With unified addresses they do anyway.
        const PORTABLE = 0x01;
        /// Kernels may use it, at [`as_device_ptr`](super::RegisteredSlice::as_device_ptr). With unified addresses they may
        /// anyway.
        const DEVICE_MAP = 0x02;
        /// The device only reads it.
        const READ_ONLY = 0x08;
    }
}

/// A slice of the program's own that is page-locked as long as this guard exists: the device copies to and from it by itself,
/// while the program goes on. It derefs to the slice, and keeps its context at the driver.
///
/// Page-locking takes some time for each page, so it is for memory that is used often. Pages that it shares with other
/// memory are locked whole.
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
    /// Page-locks a slice, in the current context. One without bytes is left as it is.
    ///
    /// # Errors
    ///
    /// [`HostMemoryAlreadyRegistered`](CudaError::HostMemoryAlreadyRegistered) if a part of it is page-locked already;
    /// [`InvalidContext`](CudaError::InvalidContext) if no context is current; what the driver answers, as for memory that
    /// cannot be locked.
    ///
    /// # Safety
    ///
    /// The guard is dropped before the memory is freed, on a thread that is not ending and in no host function; it is not
    /// forgotten, unless the memory is never freed. What has been forgotten stays page-locked: what is at that address
    /// later is not what the device sees. [`scoped`](Self::scoped) makes sure of that.
    #[doc(alias("cuMemHostRegister", "cuMemHostRegister_v2"))]
    pub unsafe fn new(slice: &'a mut [T], flags: RegisterFlags) -> CudaResult<RegisteredSlice<'a, T>> {
        let (at, bytes) = (slice.as_mut_ptr(), mem::size_of_val(slice));
        if bytes == 0 {
            let memory = Allocation::nothing(Kind::Registered, at.addr() as u64 as usize);
            return Ok(RegisteredSlice { memory, slice });
        }
        let memory = Allocation::made(Kind::Registered, |driver| {
            // SAFETY: borrowed as long as the guard exists, says the caller.
            let registered = unsafe { driver.mem_host_register(at.cast(), bytes, flags.bits()) };
            registered.map(|()| at as u64).inspect_err(|error| {
                // A driver that fails may have registered it all the same; if it was registered before, it stays so.
                if *error != CudaError::HostMemoryAlreadyRegistered {
                    let _ = driver.mem_host_unregister(at.cast());
                }
            })
        })?;
        Ok(RegisteredSlice { memory, slice })
    }

    /// Page-locks a slice, in the current context, as long as the function runs. If it panics the slice is unlocked as well.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new); [`NotPermitted`](CudaError::NotPermitted) in a host function and on a thread that is ending;
    /// the function's; and if that has none, that of unlocking the slice.
    #[doc(alias("cuMemHostRegister", "cuMemHostRegister_v2", "cuMemHostUnregister"))]
    pub fn scoped<R>(
        slice: &mut [T],
        flags: RegisterFlags,
        f: impl FnOnce(&mut RegisteredSlice<'_, T>) -> CudaResult<R>,
    ) -> CudaResult<R> {
        if must_retire() {
            return Err(CudaError::NotPermitted
                .note(format_args!("to register memory where it could not be unregistered in time")));
        }
        // SAFETY: dropped below or by a panic, before the borrow ends.
        let mut registered = unsafe { RegisteredSlice::new(slice, flags) }?;
        let result = f(&mut registered)?;
        RegisteredSlice::drop(registered).map_err(|(error, _)| error)?;
        Ok(result)
    }

    /// The address at which kernels find the slice.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed); what the driver answers.
    #[doc(alias("cuMemHostGetDevicePointer", "cuMemHostGetDevicePointer_v2"))]
    pub fn as_device_ptr(&mut self) -> CudaResult<DevicePointer<T>> {
        let at = self.slice.as_mut_ptr();
        let get = |driver: &crate::driver::Driver| driver.mem_host_get_device_pointer(at.cast());
        let address = if self.slice.is_empty() { 0 } else { self.memory.context().inside(get)? };
        // SAFETY: an address of the device's.
        Ok(unsafe { DevicePointer::wrap(address as *mut T) })
    }

    /// Unlocks the slice, and gives the error and the guard back if that fails.
    ///
    /// # Errors
    ///
    /// What the driver answers. It may have unlocked the slice all the same, so dropping what comes back does nothing;
    /// except after [`NotPermitted`](CudaError::NotPermitted), in a host function.
    #[doc(alias("cuMemHostUnregister"))]
    #[allow(clippy::result_large_err, reason = "it gives back what it was given")]
    pub fn drop(registered: RegisteredSlice<'a, T>) -> DropResult<RegisteredSlice<'a, T>> {
        let RegisteredSlice { memory, slice } = registered;
        memory.free().map_err(|(error, memory)| (error, RegisteredSlice { memory, slice }))
    }
}

impl<T: DeviceCopy> Deref for RegisteredSlice<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.slice
    }
}

impl<T: DeviceCopy> DerefMut for RegisteredSlice<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.slice
    }
}

impl<T: DeviceCopy> AsRef<[T]> for RegisteredSlice<'_, T> {
    fn as_ref(&self) -> &[T] {
        self.slice
    }
}

impl<T: DeviceCopy> AsMut<[T]> for RegisteredSlice<'_, T> {
    fn as_mut(&mut self) -> &mut [T] {
        self.slice
    }
}
