//! Compiled programs as modules and libraries.

// Loads what the compiler wrote without a check, which would refuse what custack does not know yet.
#![allow(unsafe_code)]

use super::{Compiled, Image};
use crate::context::UnownedContext;
use crate::error::{CudaError, CudaResult};
use crate::library::Library;
use crate::module::{JitError, JitLog, JitOptions, Module};

impl Compiled {
    /// The image, if the driver loads such images.
    #[inline]
    fn loadable(&self) -> CudaResult<&[u8]> {
        match &self.image {
            Image::Ptx(text) => Ok(text.as_bytes_with_nul()),
            Image::Cubin(bytes) => Ok(bytes),
            other @ (Image::LtoIr(_) | Image::OptixIr(_)) => Err(CudaError::InvalidValue.note(format_args!(
                "to load {:?}, which is input of nvJitLink or OptiX; the driver loads PTX and cubin",
                other.kind()
            ))),
        }
    }
}

impl UnownedContext {
    /// Loads a compiled program as a module of this context, whatever is current.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue) for an image of another kind than PTX and cubin; those of
    /// [`load_module`](Self::load_module).
    #[doc(alias("cuModuleLoadData", "cuModuleLoadDataEx"))]
    #[inline]
    pub fn load_nvrtc_module(&self, compiled: &Compiled) -> CudaResult<Module> {
        let loaded = self.load_nvrtc_module_with_options(compiled, &JitOptions::new());
        loaded.map(|(module, _)| module).map_err(|refused| refused.error)
    }

    /// Like [`load_nvrtc_module`](Self::load_nvrtc_module), with options for the driver's compiler; also returns its log.
    ///
    /// # Errors
    ///
    /// Like [`load_nvrtc_module`](Self::load_nvrtc_module), with the log.
    #[doc(alias = "cuModuleLoadDataEx")]
    #[inline]
    pub fn load_nvrtc_module_with_options(
        &self,
        compiled: &Compiled,
        options: &JitOptions,
    ) -> Result<(Module, JitLog), JitError> {
        let image = compiled.loadable()?;
        let _current = self.enter()?;
        // SAFETY: NVIDIA's compiler has written it in this process, or it was checked when it was read from a file.
        unsafe { Module::load_unchecked(image, options) }
    }
}

impl Library {
    /// Loads a compiled program as a library, which belongs to no context.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue) for an image of another kind than PTX and cubin; those of
    /// [`load`](Self::load).
    #[doc(alias = "cuLibraryLoadData")]
    #[inline]
    pub fn load_nvrtc(compiled: &Compiled, options: &JitOptions) -> CudaResult<Library> {
        // SAFETY: as for a module.
        let loaded = unsafe { Library::load_unchecked(compiled.loadable()?, options) };
        loaded.map(|(library, _)| library).map_err(|refused| refused.error)
    }
}
