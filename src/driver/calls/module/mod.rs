//! The calls of the module chapter with Rust's types.

// Calls through C function pointers; see `ask!` for what makes them sound, and `Held` for the handles.
#![allow(unsafe_code)]

mod jit;
mod link;

pub(crate) use jit::{Jit, Told};

use super::memory::placed;
use super::{ask, made};
use crate::driver::ffi::*;
use crate::driver::{Driver, Held};
use crate::error::{CudaError, CudaResult};
use std::ffi::CStr;
use std::os::raw::c_void;
use std::ptr;

/// The size of the compiler's error log.
const LOG_SIZE: usize = 4096;

impl Driver {
    /// # Safety
    ///
    /// The image is a text with a final NUL, or machine code that is as its compiler wrote it.
    #[inline]
    pub(crate) unsafe fn module_load_data(&self, image: *const c_void) -> CudaResult<CUmodule> {
        const ERROR_LOG_BUFFER: u32 = 5;
        const ERROR_LOG_BUFFER_SIZE_BYTES: u32 = 6;
        let (mut module, mut log) = (ptr::null_mut(), [0u8; LOG_SIZE]);
        let mut options = [ERROR_LOG_BUFFER, ERROR_LOG_BUFFER_SIZE_BYTES];
        // The size stands where a pointer would, as the manual has it.
        let mut values = [log.as_mut_ptr().cast(), ptr::without_provenance_mut(LOG_SIZE)];
        let loaded = ask!(self.cuModuleLoadDataEx(
            &mut module,
            image,
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr()
        ));
        made!(self, loaded, module, module_unload).map_err(|error| match jit::complaint(&log) {
            Some(text) => error.note_instead(format_args!("to call cuModuleLoadDataEx: {text}")),
            None => error,
        })
    }

    /// Like [`module_load_data`](Self::module_load_data), with options, into which is written what the compiler tells.
    ///
    /// # Safety
    ///
    /// The image is a text with a final NUL, or machine code that is as its compiler wrote it.
    #[inline]
    pub(crate) unsafe fn module_load_data_with(
        &self,
        image: *const c_void,
        jit: &mut Jit,
    ) -> CudaResult<CUmodule> {
        let mut module = ptr::null_mut();
        let (count, options, values) = (jit.count(), jit.options(), jit.values());
        let loaded = ask!(self.cuModuleLoadDataEx(&mut module, image, count, options, values));
        made!(self, loaded, module, module_unload)
            .map_err(|error| complained("cuModuleLoadDataEx", error, jit))
    }

    #[inline]
    pub(crate) fn module_unload(&self, module: Held<'_, CUmodule>) -> CudaResult<()> {
        ask!(self.cuModuleUnload(module.raw()))
    }

    #[inline]
    pub(crate) fn module_get_function(
        &self,
        module: Held<'_, CUmodule>,
        name: &CStr,
    ) -> CudaResult<CUfunction> {
        let mut function = ptr::null_mut();
        ask!(self.cuModuleGetFunction(&mut function, module.raw(), name.as_ptr()))?;
        Ok(function)
    }

    #[inline]
    pub(crate) fn module_get_global(
        &self,
        module: Held<'_, CUmodule>,
        name: &CStr,
    ) -> CudaResult<(u64, usize)> {
        let (mut address, mut size) = (0, 0);
        let asked = ask!(self.cuModuleGetGlobal_v2(&mut address, &mut size, module.raw(), name.as_ptr()));
        placed("cuModuleGetGlobal_v2", asked, (address, size), || Ok(())).map(|address| (address, size))
    }

    #[inline]
    pub(crate) fn module_get_loading_mode(&self) -> CudaResult<u32> {
        let mut mode = 0;
        ask!(self.cuModuleGetLoadingMode(&mut mode))?;
        Ok(mode)
    }

    #[inline]
    pub(crate) fn module_get_function_count(&self, module: Held<'_, CUmodule>) -> CudaResult<u32> {
        let mut count = 0;
        ask!(self.cuModuleGetFunctionCount(&mut count, module.raw()))?;
        Ok(count)
    }

    /// As many of the module's functions as asked for, or as there are.
    #[inline]
    pub(crate) fn module_enumerate_functions(
        &self,
        module: Held<'_, CUmodule>,
        count: u32,
    ) -> CudaResult<Vec<CUfunction>> {
        let mut functions = vec![ptr::null_mut(); count as usize];
        ask!(self.cuModuleEnumerateFunctions(functions.as_mut_ptr(), count, module.raw()))?;
        functions.retain(|function| !function.is_null());
        Ok(functions)
    }
}

/// An error of the compiler's, with what it says is wrong.
#[cold]
pub(super) fn complained(function: &str, error: CudaError, jit: &Jit) -> CudaError {
    match jit.complaint() {
        Some(text) => error.note_instead(format_args!("to call {function}: {text}")),
        None => error,
    }
}
