//! [`UnifiedBox`]: one value that both sides use.

// Allocates, frees, and lends what it owns.
#![allow(unsafe_code)]

use super::allocations;
use super::malloc::{cuda_malloc_unified, free};
use super::{DeviceCopy, UnifiedPointer};
use crate::context::UnownedContext;
use crate::error::{CudaResult, DropResult};
use crate::report;
use std::borrow::{Borrow, BorrowMut};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::mem;
use std::ops::{Deref, DerefMut};
use std::ptr;

/// One value in unified memory, which the host and the device use, one after the other: a kernel that does must have
/// ended before the host touches it. It keeps its context from being destroyed. A value without a size has no memory,
/// and a null pointer.
#[derive(Debug)]
pub struct UnifiedBox<T: DeviceCopy> {
    ptr: UnifiedPointer<T>,
    context: UnownedContext,
}

// SAFETY: memory of the host's and the device's, owned as a `Box` owns its.
unsafe impl<T: DeviceCopy + Send> Send for UnifiedBox<T> {}
// SAFETY: as above.
unsafe impl<T: DeviceCopy + Sync> Sync for UnifiedBox<T> {}

impl<T: DeviceCopy> UnifiedBox<T> {
    /// Allocates memory and moves the value there.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](crate::error::CudaError::OutOfMemory);
    /// [`InvalidContext`](crate::error::CudaError::InvalidContext) if no context is current.
    #[doc(alias = "cuMemAllocManaged")]
    pub fn new(val: T) -> CudaResult<UnifiedBox<T>> {
        // SAFETY: written in the next lines.
        let mut new = unsafe { UnifiedBox::<T>::uninitialized() }?;
        if mem::size_of::<T>() > 0 {
            // SAFETY: the memory allocated above, whose old contents are no value.
            unsafe { new.ptr.as_raw_mut().write(val) };
        }
        Ok(new)
    }

    /// Allocates memory for a value.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    ///
    /// # Safety
    ///
    /// The value is read only after it was written.
    #[doc(alias = "cuMemAllocManaged")]
    pub unsafe fn uninitialized() -> CudaResult<UnifiedBox<T>> {
        if mem::size_of::<T>() == 0 {
            return Ok(UnifiedBox { ptr: UnifiedPointer::null(), context: UnownedContext::none() });
        }
        // SAFETY: freed by the destructor.
        let ptr = unsafe { cuda_malloc_unified::<T>(1) }?;
        // SAFETY: owned from here on.
        Ok(unsafe { UnifiedBox::from_unified(ptr) })
    }

    /// Takes ownership of memory that was allocated with [`cuda_malloc_unified`].
    ///
    /// # Safety
    ///
    /// The memory has a good value, or gets one before it is read, and nothing else frees it.
    pub unsafe fn from_raw(ptr: *mut T) -> UnifiedBox<T> {
        // SAFETY: the caller's promise.
        unsafe { UnifiedBox::from_unified(UnifiedPointer::wrap(ptr)) }
    }

    /// Takes ownership of memory that was allocated with [`cuda_malloc_unified`].
    ///
    /// # Safety
    ///
    /// As [`from_raw`](Self::from_raw).
    pub unsafe fn from_unified(ptr: UnifiedPointer<T>) -> UnifiedBox<T> {
        UnifiedBox { ptr, context: allocations::context_at(ptr.as_raw() as u64) }
    }

    /// Gives the memory away: it is not freed.
    pub fn into_unified(b: UnifiedBox<T>) -> UnifiedPointer<T> {
        mem::ManuallyDrop::new(b).ptr
    }

    /// The address, as kernels take it.
    pub fn as_unified_ptr(&mut self) -> UnifiedPointer<T> {
        self.ptr
    }

    /// Gives the value away for good; its context stays as long.
    pub fn leak<'a>(b: UnifiedBox<T>) -> &'a mut T
    where
        T: 'a,
    {
        let place = b.place();
        mem::forget(b);
        // SAFETY: never freed, and its context never destroyed.
        unsafe { &mut *place }
    }

    /// Frees the memory, and gives the box back with the error if that fails.
    ///
    /// # Errors
    ///
    /// What the driver answers.
    #[doc(alias("cuMemFree", "cuMemFree_v2"))]
    pub fn drop(uni_box: UnifiedBox<T>) -> DropResult<UnifiedBox<T>> {
        match uni_box.free() {
            Ok(()) => {
                mem::forget(uni_box);
                Ok(())
            }
            Err(error) => Err((error, uni_box)),
        }
    }

    fn free(&self) -> CudaResult<()> {
        if self.ptr.is_null() {
            return Ok(());
        }
        // SAFETY: the box owns the memory, and is gone after this.
        unsafe { free(self.ptr.as_raw() as u64, &self.context) }
    }

    /// Where the value is; one without a size is anywhere but at null.
    fn place(&self) -> *mut T {
        let mut ptr = self.ptr;
        if ptr.is_null() { ptr::dangling_mut() } else { ptr.as_raw_mut() }
    }
}

impl<T: DeviceCopy> Drop for UnifiedBox<T> {
    fn drop(&mut self) {
        if let Err(error) = self.free() {
            report::warn(format_args!("unified memory of {} could not be freed: {error}", self.context));
            allocations::abandon(self.ptr.as_raw() as u64, &self.context);
        }
    }
}

impl<T: DeviceCopy> Deref for UnifiedBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the value that the box owns; its context, and with it the memory, stays.
        unsafe { &*self.place() }
    }
}

impl<T: DeviceCopy> DerefMut for UnifiedBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.place() }
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
        fmt::Pointer::fmt(&self.ptr, f)
    }
}

impl<T: DeviceCopy + PartialEq> PartialEq for UnifiedBox<T> {
    fn eq(&self, other: &UnifiedBox<T>) -> bool {
        **self == **other
    }
}

impl<T: DeviceCopy + Eq> Eq for UnifiedBox<T> {}

impl<T: DeviceCopy + PartialOrd> PartialOrd for UnifiedBox<T> {
    fn partial_cmp(&self, other: &UnifiedBox<T>) -> Option<Ordering> {
        (**self).partial_cmp(&**other)
    }
}

impl<T: DeviceCopy + Ord> Ord for UnifiedBox<T> {
    fn cmp(&self, other: &UnifiedBox<T>) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl<T: DeviceCopy + Hash> Hash for UnifiedBox<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}
