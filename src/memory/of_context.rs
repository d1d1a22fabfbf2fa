//! Memory of a context that is not current.

// Passes on the caller's guarantees.
#![allow(unsafe_code)]

use super::array::{ArrayDescriptor, ArrayObject};
use super::{
    DeviceBox, DeviceBuffer, DeviceCopy, LockedBuffer, RegisterFlags, RegisteredSlice, UnifiedBox,
    UnifiedBuffer,
};
use crate::context::UnownedContext;
use crate::error::CudaResult;

/// Memory of this context, whatever is current. Each method is the constructor in a scope, and costs as much. The
/// errors are the scope's ([`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed), without a driver call)
/// and the constructor's.
///
/// ```
/// use custack::context::{ContextStack, CurrentContext};
/// use custack::memory::CopyDestination;
///
/// let context = custack::quick_init()?;
/// ContextStack::pop()?;
/// let there = context.device_buffer(&[1, 2, 3])?;
/// let mut back = context.locked_buffer(&0, 3)?;
/// there.copy_to(&mut back[..])?;
/// assert_eq!(&back[..], [1, 2, 3]);
/// assert!(CurrentContext::get_current()?.is_null());
/// # Ok::<(), custack::error::CudaError>(())
/// ```
impl UnownedContext {
    /// Like [`DeviceBuffer::from_slice`].
    ///
    /// # Errors
    ///
    /// See above.
    #[doc(alias("cuMemAlloc", "cuMemAlloc_v2"))]
    #[inline]
    pub fn device_buffer<T: DeviceCopy>(&self, values: &[T]) -> CudaResult<DeviceBuffer<T>> {
        let _current = self.enter_for_custack()?;
        DeviceBuffer::from_slice(values)
    }

    /// Like [`DeviceBuffer::uninitialized`].
    ///
    /// # Errors
    ///
    /// See above.
    ///
    /// # Safety
    ///
    /// That of [`DeviceBuffer::uninitialized`].
    #[doc(alias("cuMemAlloc", "cuMemAlloc_v2"))]
    #[inline]
    pub unsafe fn device_buffer_uninitialized<T: DeviceCopy>(
        &self,
        size: usize,
    ) -> CudaResult<DeviceBuffer<T>> {
        let _current = self.enter_for_custack()?;
        // SAFETY: as the caller guarantees.
        unsafe { DeviceBuffer::uninitialized(size) }
    }

    /// Like [`DeviceBox::new`].
    ///
    /// # Errors
    ///
    /// See above.
    #[doc(alias("cuMemAlloc", "cuMemAlloc_v2"))]
    #[inline]
    pub fn device_box<T: DeviceCopy>(&self, value: &T) -> CudaResult<DeviceBox<T>> {
        let _current = self.enter_for_custack()?;
        DeviceBox::new(value)
    }

    /// Like [`UnifiedBuffer::from_slice`].
    ///
    /// # Errors
    ///
    /// See above.
    #[doc(alias = "cuMemAllocManaged")]
    #[inline]
    pub fn unified_buffer<T: DeviceCopy + Clone>(&self, values: &[T]) -> CudaResult<UnifiedBuffer<T>> {
        self.scoped(|_| UnifiedBuffer::from_slice(values))
    }

    /// Like [`UnifiedBox::new`].
    ///
    /// # Errors
    ///
    /// See above.
    #[doc(alias = "cuMemAllocManaged")]
    #[inline]
    pub fn unified_box<T: DeviceCopy>(&self, value: T) -> CudaResult<UnifiedBox<T>> {
        let _current = self.enter_for_custack()?;
        UnifiedBox::new(value)
    }

    /// Like [`LockedBuffer::new`].
    ///
    /// # Errors
    ///
    /// See above.
    #[doc(alias("cuMemAllocHost", "cuMemAllocHost_v2"))]
    #[inline]
    pub fn locked_buffer<T: DeviceCopy + Clone>(
        &self,
        value: &T,
        size: usize,
    ) -> CudaResult<LockedBuffer<T>> {
        self.scoped(|_| LockedBuffer::new(value, size))
    }

    /// Like [`ArrayObject::from_descriptor`].
    ///
    /// # Errors
    ///
    /// See above.
    #[doc(alias("cuArray3DCreate", "cuArray3DCreate_v2"))]
    #[inline]
    pub fn create_array(&self, descriptor: &ArrayDescriptor) -> CudaResult<ArrayObject> {
        let _current = self.enter_for_custack()?;
        ArrayObject::from_descriptor(descriptor)
    }

    /// Like [`RegisteredSlice::scoped`]; the function runs in the scope.
    ///
    /// # Errors
    ///
    /// See above.
    ///
    /// ```
    /// use custack::context::ContextStack;
    /// use custack::memory::{CopyDestination, RegisterFlags};
    ///
    /// let context = custack::quick_init()?;
    /// ContextStack::pop()?;
    /// let buffer = context.device_buffer(&[7u32; 100])?;
    /// let mut values = vec![0u32; 100];
    /// context.registered(&mut values, RegisterFlags::empty(), |values| buffer.copy_to(&mut **values))?;
    /// assert_eq!(values[99], 7);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuMemHostRegister", "cuMemHostRegister_v2", "cuMemHostUnregister"))]
    #[inline]
    pub fn registered<T: DeviceCopy, R>(
        &self,
        slice: &mut [T],
        flags: RegisterFlags,
        f: impl FnOnce(&mut RegisteredSlice<'_, T>) -> CudaResult<R>,
    ) -> CudaResult<R> {
        self.scoped(|_| RegisteredSlice::scoped(slice, flags, f))
    }

    /// The free and the total memory of the context's device, in bytes.
    ///
    /// # Errors
    ///
    /// See above.
    #[doc(alias("cuMemGetInfo", "cuMemGetInfo_v2"))]
    #[inline]
    pub fn memory_info(&self) -> CudaResult<(usize, usize)> {
        let _current = self.enter_for_custack()?;
        super::info()
    }
}
