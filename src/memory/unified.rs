//! [`UnifiedBox`]: one value that host and device share.

// Allocates and frees what it owns, and makes references to it.
#![allow(unsafe_code)]

use super::allocation::{Allocation, Kind};
use super::given_away;
use super::{DeviceCopy, UnifiedPointer};
use crate::context::refuse_unsafe;
use crate::device::{Device, DeviceAttribute};
use crate::error::{CudaError, CudaResult, DropResult};
use std::borrow::{Borrow, BorrowMut};
use std::cmp;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// One value in unified memory, which the host and the device use in turn: a kernel that uses it must have ended before
/// the host accesses it. It keeps its context at the driver. A zero-sized value has no memory, and a null pointer.
///
/// # Where the host may not access it while any kernel runs
///
/// On Windows, in WSL, and on older Jetsons the host gets a fault if it accesses unified memory while any kernel
/// runs, whatever that uses: the devices lack
/// [`ConcurrentManagedAccess`](crate::device::DeviceAttribute::ConcurrentManagedAccess). No borrow can tell when a kernel
/// runs, so where a device lacks it the safe constructors return [`NotSupported`](CudaError::NotSupported). What works
/// there is [`LockedBuffer`](super::LockedBuffer), which kernels reach at its
/// [`as_device_ptr`](super::LockedBuffer::as_device_ptr), or the unsafe [`uninitialized`](Self::uninitialized).
#[repr(C)]
#[derive(Debug)]
pub struct UnifiedBox<T: DeviceCopy> {
    // At offset 0, with the address first in it: existing programs read it there.
    memory: Allocation,
    value: PhantomData<T>,
}

impl<T: DeviceCopy> UnifiedBox<T> {
    /// Allocates memory and moves the value there.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](CudaError::OutOfMemory); [`InvalidContext`](CudaError::InvalidContext) if no context is current;
    /// [`NotSupported`](CudaError::NotSupported) [where a kernel keeps the host from the
    /// memory](Self#where-the-host-may-not-access-it-while-any-kernel-runs).
    #[doc(alias = "cuMemAllocManaged")]
    #[inline]
    pub fn new(val: T) -> CudaResult<UnifiedBox<T>> {
        if mem::size_of::<T>() > 0 {
            refuse_unless_concurrent()?;
        }
        // SAFETY: written in the next lines; all devices let the host access it at any time.
        let new = unsafe { UnifiedBox::<T>::uninitialized() }?;
        // SAFETY: the memory allocated above, whose old contents are not a value; or a dangling address, for a
        // zero-sized value.
        unsafe { new.address().write(val) };
        Ok(new)
    }

    /// Allocates memory for a value.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new).
    ///
    /// # Safety
    ///
    /// The value is written before it is read. If a device lacks
    /// [`ConcurrentManagedAccess`](crate::device::DeviceAttribute::ConcurrentManagedAccess), the host does neither while
    /// any kernel runs.
    #[doc(alias = "cuMemAllocManaged")]
    #[inline]
    pub unsafe fn uninitialized() -> CudaResult<UnifiedBox<T>> {
        if mem::size_of::<T>() == 0 {
            return Ok(UnifiedBox { memory: Allocation::nothing(Kind::Unified, 0), value: PhantomData });
        }
        let memory = Allocation::new(Kind::Unified, mem::size_of::<T>())?.aligned_for::<T>()?;
        Ok(UnifiedBox { memory, value: PhantomData })
    }

    /// Takes ownership of memory that was allocated with [`cuda_malloc_unified`](super::cuda_malloc_unified).
    ///
    /// # Safety
    ///
    /// The memory holds an initialised and valid `T`, or gets one before it is read, and nothing else frees it. The host
    /// accesses it only when it may, as after [`uninitialized`](Self::uninitialized).
    #[inline]
    pub unsafe fn from_raw(ptr: *mut T) -> UnifiedBox<T> {
        // SAFETY: as the caller guarantees.
        unsafe { UnifiedBox::from_unified(UnifiedPointer::wrap(ptr)) }
    }

    /// Takes ownership of memory that was allocated with [`cuda_malloc_unified`](super::cuda_malloc_unified).
    ///
    /// # Safety
    ///
    /// As for [`from_raw`](Self::from_raw).
    #[inline]
    pub unsafe fn from_unified(ptr: UnifiedPointer<T>) -> UnifiedBox<T> {
        let memory = match ptr.is_null() || mem::size_of::<T>() == 0 {
            true => Allocation::nothing(Kind::Unified, ptr.as_raw().addr()),
            false => given_away::owned(Kind::Unified, ptr.as_raw() as u64),
        };
        UnifiedBox { memory, value: PhantomData }
    }

    /// Gives the memory away: it is not freed, and keeps its context at the driver.
    #[inline]
    pub fn into_unified(mut b: UnifiedBox<T>) -> UnifiedPointer<T> {
        let pointer = b.as_unified_ptr();
        given_away::give(b.memory, mem::size_of::<T>());
        pointer
    }

    /// The address, for kernels.
    #[inline]
    pub fn as_unified_ptr(&mut self) -> UnifiedPointer<T> {
        // SAFETY: an address of both host and device.
        unsafe { UnifiedPointer::wrap(self.memory.address() as *mut T) }
    }

    /// Leaks the value; its context is kept at the driver for ever.
    #[inline]
    pub fn leak<'a>(b: UnifiedBox<T>) -> &'a mut T
    where
        T: 'a,
    {
        let address = b.address();
        mem::forget(b);
        // SAFETY: never freed, and its context never destroyed.
        unsafe { &mut *address }
    }

    /// Frees the memory; if that fails, returns the error and the box.
    ///
    /// # Errors
    ///
    /// Any error of the driver. It may have freed the memory all the same, so the returned box has no value:
    /// dereferencing it panics, and dropping it does nothing. Only after
    /// [`NotPermitted`](CudaError::NotPermitted), in a host function, is the box unchanged.
    #[doc(alias("cuMemFree", "cuMemFree_v2"))]
    #[inline]
    pub fn drop(uni_box: UnifiedBox<T>) -> DropResult<UnifiedBox<T>> {
        uni_box
            .memory
            .free(1)
            .map_err(|(error, memory, _)| (error, UnifiedBox { memory, value: PhantomData }))
    }

    /// The address of the value; dangling but not null if it is zero-sized.
    fn address(&self) -> *mut T {
        if mem::size_of::<T>() == 0 {
            return ptr::dangling_mut();
        }
        assert!(
            !self.memory.is_spent(),
            "an earlier attempt to free the unified memory failed and may have taken effect"
        );
        self.memory.address() as *mut T
    }
}

/// Refuses memory that the host may access at any time, where a device does not allow that.
pub(super) fn refuse_unless_concurrent() -> CudaResult<()> {
    /// Whether all devices allow it, which does not change.
    static ALL_DO: AtomicBool = AtomicBool::new(false);
    if ALL_DO.load(Ordering::Relaxed) {
        return Ok(());
    }
    refuse_unsafe("allocate memory")?;
    for device in Device::devices()? {
        let device = device?;
        if device.get_attribute(DeviceAttribute::ConcurrentManagedAccess)? == 0 {
            let number = device.as_raw();
            return Err(CudaError::NotSupported.note(format_args!(
                "to allocate unified memory for safe use: while a kernel runs on device {number}, the host must not access it"
            )));
        }
    }
    ALL_DO.store(true, Ordering::Relaxed);
    Ok(())
}

impl<T: DeviceCopy> Deref for UnifiedBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the box owns the value, and pins its context, so the memory stays; the host may access it now, as all
        // devices allow it at any time, or as the caller of an unsafe function guarantees.
        unsafe { &*self.address() }
    }
}

impl<T: DeviceCopy> DerefMut for UnifiedBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.address() }
    }
}

impl<T: DeviceCopy> Borrow<T> for UnifiedBox<T> {
    fn borrow(&self) -> &T {
        self
    }
}

impl<T: DeviceCopy> BorrowMut<T> for UnifiedBox<T> {
    fn borrow_mut(&mut self) -> &mut T {
        self
    }
}

impl<T: DeviceCopy> AsRef<T> for UnifiedBox<T> {
    fn as_ref(&self) -> &T {
        self
    }
}

impl<T: DeviceCopy> AsMut<T> for UnifiedBox<T> {
    fn as_mut(&mut self) -> &mut T {
        self
    }
}

impl<T: fmt::Display + DeviceCopy> fmt::Display for UnifiedBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}

impl<T: DeviceCopy> fmt::Pointer for UnifiedBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Pointer::fmt(&(self.memory.address() as *const T), f)
    }
}

impl<T: DeviceCopy + PartialEq> PartialEq for UnifiedBox<T> {
    fn eq(&self, other: &UnifiedBox<T>) -> bool {
        **self == **other
    }
}

impl<T: DeviceCopy + Eq> Eq for UnifiedBox<T> {}

impl<T: DeviceCopy + PartialOrd> PartialOrd for UnifiedBox<T> {
    fn partial_cmp(&self, other: &UnifiedBox<T>) -> Option<cmp::Ordering> {
        (**self).partial_cmp(&**other)
    }
}

impl<T: DeviceCopy + Ord> Ord for UnifiedBox<T> {
    fn cmp(&self, other: &UnifiedBox<T>) -> cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl<T: DeviceCopy + Hash> Hash for UnifiedBox<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}
