//! The calls of the module chapter with Rust's types.

// Calls through C function pointers; see `ask!` for what makes them sound, and `Held` for the handles.
#![allow(unsafe_code)]

use super::{ask, made};
use crate::driver::ffi::*;
use crate::driver::{Driver, Held};
use crate::error::CudaResult;
use std::ffi::CStr;
use std::os::raw::c_void;
use std::ptr;

impl Driver {
    /// # Safety
    ///
    /// The image is a text with a final NUL, or machine code that is as long as it says.
    pub(crate) unsafe fn module_load_data(&self, image: *const c_void) -> CudaResult<CUmodule> {
        let mut module = ptr::null_mut();
        made!(self, ask!(self.cuModuleLoadData(&mut module, image)), module, module_unload)
    }

    pub(crate) fn module_unload(&self, module: Held<'_, CUmodule>) -> CudaResult<()> {
        ask!(self.cuModuleUnload(module.raw()))
    }

    pub(crate) fn module_get_function(
        &self,
        module: Held<'_, CUmodule>,
        name: &CStr,
    ) -> CudaResult<CUfunction> {
        let mut function = ptr::null_mut();
        ask!(self.cuModuleGetFunction(&mut function, module.raw(), name.as_ptr()))?;
        Ok(function)
    }

    pub(crate) fn module_get_global(
        &self,
        module: Held<'_, CUmodule>,
        name: &CStr,
    ) -> CudaResult<(u64, usize)> {
        let (mut address, mut size) = (0, 0);
        ask!(self.cuModuleGetGlobal_v2(&mut address, &mut size, module.raw(), name.as_ptr()))?;
        Ok((address, size))
    }
}
