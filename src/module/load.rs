//! Loading with options, and the loading mode.

// Loads checked images.
#![allow(unsafe_code)]

use super::{JitError, JitLog, JitOptions, Module, image};
use crate::context::{Resource, UnownedContext};
use crate::driver::{Driver, Numbered, driver, numbered};
use crate::error::CudaResult;

numbered! {
    /// When the driver loads the code of a kernel.
    #[non_exhaustive]
    pub enum LoadingMode {
        /// When its module or library is loaded.
        Eager = 1,
        /// When it is first used.
        Lazy = 2,
    }
}

impl LoadingMode {
    /// The driver's loading mode, which the environment variable `CUDA_MODULE_LOADING` sets (CUDA 11.7 and later).
    ///
    /// # Errors
    ///
    /// [`CallRequiresNewerDriver`](crate::error::CudaError::CallRequiresNewerDriver);
    /// [`UnexpectedValue`](crate::error::CudaError::UnexpectedValue) for a mode without a name.
    ///
    /// ```
    /// use custack::module::LoadingMode;
    ///
    /// custack::init(custack::CudaFlags::empty())?;
    /// println!("kernels are loaded: {:?}", LoadingMode::of_driver()?);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuModuleGetLoadingMode")]
    #[inline]
    pub fn of_driver() -> CudaResult<LoadingMode> {
        let answer = driver()?.module_get_loading_mode()?;
        LoadingMode::named("cuModuleGetLoadingMode", answer)
    }
}

impl Module {
    /// Loads PTX, a cubin or a fatbin from bytes, into the current context, with options; also returns the compiler's
    /// output.
    ///
    /// # Errors
    ///
    /// Those of [`load_from_bytes`](Self::load_from_bytes), with the compiler's output;
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for an option or a value that the driver does not know.
    ///
    /// ```
    /// use custack::error::CudaError;
    /// use custack::module::{JitOptions, Module};
    ///
    /// let _context = custack::quick_init()?;
    /// let wrong = b".version 7.0 .target sm_70 .address_size 64 .visible .entry k() { bra nowhere; }";
    /// let refused = Module::load_with_options(wrong, &JitOptions::new()).unwrap_err();
    /// assert_eq!(refused.error, CudaError::InvalidPtx);
    /// assert!(refused.log.error.contains("nowhere"));
    /// # Ok::<(), CudaError>(())
    /// ```
    #[doc(alias = "cuModuleLoadDataEx")]
    #[inline]
    pub fn load_with_options(image: &[u8], options: &JitOptions) -> Result<(Module, JitLog), JitError> {
        // SAFETY: checked.
        unsafe { Module::load_padded(&image::checked(image)?, options) }
    }

    /// Like [`load_with_options`](Self::load_with_options), without a check of the image. It loads what custack does not know
    /// well enough to check: code for devices of compute capability 10.0 and later, which has parts for a further compiler, and
    /// what compilers write that are newer than this version of custack, or unusual.
    ///
    /// # Errors
    ///
    /// Those of the driver, with the compiler's output.
    ///
    /// # Safety
    ///
    /// The image is what a compiler of NVIDIA's wrote, whole and unchanged, or PTX. Of anything else one wrong number can
    /// crash the driver, or have it read and write outside of the image.
    ///
    /// ```
    /// use custack::module::{JitOptions, Module};
    ///
    /// let _context = custack::quick_init()?;
    /// let image = b".version 7.0 .target sm_70 .address_size 64 .visible .entry nothing() { ret; }";
    /// // SAFETY: it is PTX.
    /// let (module, _log) = unsafe { Module::load_unchecked(image, &JitOptions::new()) }?;
    /// module.get_function(c"nothing")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "cuModuleLoadDataEx")]
    #[inline]
    pub unsafe fn load_unchecked(image: &[u8], options: &JitOptions) -> Result<(Module, JitLog), JitError> {
        // SAFETY: as the caller guarantees.
        unsafe { Module::load_padded(&image::padded(image), options) }
    }

    /// # Safety
    ///
    /// The image is checked or vouched for, and has zeros after it.
    #[inline]
    unsafe fn load_padded(image: &[u8], options: &JitOptions) -> Result<(Module, JitLog), JitError> {
        let mut jit = options.to_driver()?;
        // SAFETY: as the caller guarantees.
        let make = |driver: &Driver| unsafe { driver.module_load_data_with(image.as_ptr().cast(), &mut jit) };
        let made = Resource::make(make, Driver::module_unload);
        let log = JitLog::of(jit.told());
        match made {
            Ok(inner) => Ok((Module::of(inner), log)),
            Err(error) => Err(JitError::new(error, log)),
        }
    }

    /// The number of kernels in the module (CUDA 12.4 and later).
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed);
    /// [`CallRequiresNewerDriver`](crate::error::CudaError::CallRequiresNewerDriver).
    #[doc(alias = "cuModuleGetFunctionCount")]
    #[inline]
    pub fn function_count(&self) -> CudaResult<u32> {
        self.inner().with(|driver, module| driver.module_get_function_count(module))
    }
}

impl UnownedContext {
    /// Like [`Module::load_with_options`], into this context, whatever is current.
    ///
    /// # Errors
    ///
    /// Those of [`Module::load_with_options`]; [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed),
    /// without a driver call.
    #[doc(alias = "cuModuleLoadDataEx")]
    #[inline]
    pub fn load_module_with_options(
        &self,
        image: &[u8],
        options: &JitOptions,
    ) -> Result<(Module, JitLog), JitError> {
        let _current = self.enter_for_custack()?;
        Module::load_with_options(image, options)
    }
}
