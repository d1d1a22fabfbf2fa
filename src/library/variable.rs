//! Variables of libraries.

// A managed variable dereferences its address.
#![allow(unsafe_code)]

use super::Library;
use super::loaded::Loaded;
use crate::context::ContextHandle;
use crate::driver::ffi::CUmodule;
use crate::error::{CudaError, CudaResult};
use crate::memory::{DeviceCopy, UnifiedPointer};
use crate::module::Symbol;
use std::ffi::CStr;
use std::marker::PhantomData;
use std::mem;
use std::sync::Arc;

impl Library {
    /// A variable of the library in a context; each context has its own.
    ///
    /// # Errors
    ///
    /// [`NotFound`](CudaError::NotFound); [`InvalidValue`](CudaError::InvalidValue) if its size is not that of `T`;
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed); the errors of compiling, if the driver compiles the code
    /// only now.
    ///
    /// ```
    /// use custack::library::Library;
    /// use custack::memory::CopyDestination;
    /// use custack::module::JitOptions;
    ///
    /// let context = custack::quick_init()?;
    /// let ptx = b".version 7.0 .target sm_70 .address_size 64 .visible .const .u32 answer = 42;";
    /// let library = Library::load(ptx, &JitOptions::new())?;
    /// let mut value = 0;
    /// library.global_in::<u32>(&context, c"answer")?.copy_to(&mut value)?;
    /// assert_eq!(value, 42);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuLibraryGetGlobal")]
    #[inline]
    pub fn global_in<T: DeviceCopy>(
        &self,
        context: &impl ContextHandle,
        name: &CStr,
    ) -> CudaResult<Symbol<'static, T>> {
        let context = context.as_unowned();
        context.usable()?;
        let ask = |_: &_| self.loaded.first_use(|driver, library| driver.library_get_global(library, name));
        let found = context.inside(ask).inspect_err(|error| {
            error.note_before(format_args!("to find the variable {name:?} in {context}"));
        })?;
        Symbol::of(found, context.clone(), name, Some(self.loaded.clone()))
    }

    /// A managed variable of the library, which all contexts and the host share. The driver may refuse it until every
    /// device has had a context.
    ///
    /// # Errors
    ///
    /// [`NotFound`](CudaError::NotFound), also for a variable that is not managed;
    /// [`InvalidValue`](CudaError::InvalidValue) if it has not the size or the alignment of `T`.
    ///
    /// ```
    /// use custack::library::Library;
    /// use custack::module::JitOptions;
    ///
    /// let _context = custack::quick_init()?;
    /// let ptx = b".version 7.0 .target sm_70 .address_size 64
    ///     .visible .global .attribute(.managed) .align 4 .u32 counter = 7;";
    /// let library = Library::load(ptx, &JitOptions::new())?;
    /// let counter = library.managed::<u32>(c"counter")?;
    /// // SAFETY: no kernel runs that would use it.
    /// assert_eq!(unsafe { counter.read() }, 7);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuLibraryGetManaged")]
    #[inline]
    pub fn managed<T: DeviceCopy>(&self, name: &CStr) -> CudaResult<ManagedVariable<T>> {
        let found = self.loaded.first_use(|driver, library| driver.library_get_managed(library, name));
        let (address, size) = found.inspect_err(|error| {
            error.note_before(format_args!("to find the managed variable {name:?}"));
        })?;
        let (wanted, align) = (mem::size_of::<T>(), mem::align_of::<T>());
        if size != wanted || address % align as u64 != 0 {
            return Err(CudaError::InvalidValue.note(format_args!(
                "to use the variable {name:?} of {size} bytes at {address:#x} as one of {wanted} that is aligned to {align}"
            )));
        }
        let pointer = std::ptr::with_exposed_provenance_mut(address as usize);
        Ok(ManagedVariable { pointer, loaded: self.loaded.clone(), value: PhantomData })
    }

    /// The driver's handle of the module that the library has in a context. The library owns it, and the driver refuses
    /// to unload it.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed); the errors of compiling, if the driver compiles the code
    /// only now.
    #[doc(alias = "cuLibraryGetModule")]
    #[inline]
    pub fn as_raw_module_in(&self, context: &impl ContextHandle) -> CudaResult<CUmodule> {
        let context = context.as_unowned();
        context.usable()?;
        context.inside(|_| self.loaded.first_use(|driver, library| driver.library_get_module(library)))
    }
}

/// A variable of a [`Library`] that the host and all devices share. It keeps the library loaded.
#[derive(Debug, Clone)]
pub struct ManagedVariable<T: DeviceCopy> {
    pointer: *mut T,
    #[allow(dead_code, reason = "it keeps what the pointer leads to")]
    loaded: Arc<Loaded>,
    value: PhantomData<T>,
}

// SAFETY: an address; whoever dereferences it guarantees the rest.
unsafe impl<T: DeviceCopy + Send> Send for ManagedVariable<T> {}
// SAFETY: as above.
unsafe impl<T: DeviceCopy + Sync> Sync for ManagedVariable<T> {}

impl<T: DeviceCopy> ManagedVariable<T> {
    /// Its address, for the host and for kernels; valid as long as the code is loaded.
    #[inline]
    pub fn as_unified_ptr(&self) -> UnifiedPointer<T> {
        // SAFETY: an address of the driver's.
        unsafe { UnifiedPointer::wrap(self.pointer) }
    }

    /// Its value.
    ///
    /// # Safety
    ///
    /// No kernel and no other thread writes it meanwhile, and its bytes are a valid `T`. On a device without concurrent
    /// managed access, no kernel runs meanwhile.
    #[inline]
    pub unsafe fn read(&self) -> T {
        // SAFETY: as the caller guarantees; it has the size and the alignment of `T`, and the code is loaded.
        unsafe { self.pointer.read() }
    }

    /// Writes its value.
    ///
    /// # Safety
    ///
    /// No kernel and no other thread uses it meanwhile. On a device without concurrent managed access, no kernel runs
    /// meanwhile.
    #[inline]
    pub unsafe fn write(&self, value: T) {
        // SAFETY: as in `read`.
        unsafe { self.pointer.write(value) }
    }
}
