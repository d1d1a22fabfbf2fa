//! The calls of the module and execution chapters with Rust's types.

// Calls through C function pointers; see `ask!` for what makes them sound, and `Held` for the handles.
#![allow(unsafe_code)]

use super::ffi::*;
use super::{Driver, Held, ask, made};
use crate::error::CudaResult;
use std::ffi::CStr;
use std::os::raw::c_void;
use std::ptr;

/// How a kernel is launched.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    pub(crate) cooperative: bool,
}

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

    pub(crate) fn func_get_attribute(
        &self,
        function: Held<'_, CUfunction>,
        attribute: u32,
    ) -> CudaResult<i32> {
        let mut value = 0;
        ask!(self.cuFuncGetAttribute(&mut value, attribute, function.raw()))?;
        Ok(value)
    }

    pub(crate) fn func_set_attribute(
        &self,
        function: Held<'_, CUfunction>,
        attribute: u32,
        value: i32,
    ) -> CudaResult<()> {
        ask!(self.cuFuncSetAttribute(function.raw(), attribute, value))
    }

    pub(crate) fn func_set_cache_config(
        &self,
        function: Held<'_, CUfunction>,
        config: u32,
    ) -> CudaResult<()> {
        ask!(self.cuFuncSetCacheConfig(function.raw(), config))
    }

    pub(crate) fn func_set_shared_mem_config(
        &self,
        function: Held<'_, CUfunction>,
        config: u32,
    ) -> CudaResult<()> {
        ask!(self.cuFuncSetSharedMemConfig(function.raw(), config))
    }

    /// # Safety
    ///
    /// There is a pointer for each of the kernel's parameters, to a value of its type; what the kernel does with them
    /// is the caller's business.
    pub(crate) unsafe fn launch_kernel(
        &self,
        function: Held<'_, CUfunction>,
        shape: Shape,
        stream: Held<'_, CUstream>,
        parameters: &[*mut c_void],
    ) -> CudaResult<()> {
        let Shape { grid: [gx, gy, gz], block: [bx, by, bz], shared, cooperative } = shape;
        let (function, stream) = (function.raw(), stream.raw());
        let parameters = parameters.as_ptr().cast_mut();
        if cooperative {
            return ask!(
                self.cuLaunchCooperativeKernel(function, gx, gy, gz, bx, by, bz, shared, stream, parameters)
            );
        }
        ask!(self.cuLaunchKernel(
            function,
            gx,
            gy,
            gz,
            bx,
            by,
            bz,
            shared,
            stream,
            parameters,
            ptr::null_mut()
        ))
    }
}
