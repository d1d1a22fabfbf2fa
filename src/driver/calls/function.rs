//! The calls of the execution chapter with Rust's types: attributes of functions, and launches.

// Calls through C function pointers; see `ask!` for what makes them sound, and `Held` for the handles.
#![allow(unsafe_code)]

use super::{ask, ask_briefly};
use crate::driver::ffi::*;
use crate::driver::last_kernel::{self, KernelName};
use crate::driver::{Driver, Held};
use crate::error::{CudaError, CudaResult};
use std::os::raw::c_void;
use std::ptr;

/// How a kernel is launched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    pub(crate) cooperative: bool,
}

impl Driver {
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

    /// The size of each parameter of a kernel, in bytes; `None` if the driver does not tell, like one that is too old.
    /// Whatever it answers leaves no note.
    pub(crate) fn func_get_param_sizes(&self, function: Held<'_, CUfunction>) -> Option<Box<[usize]>> {
        let mut sizes = Vec::new();
        loop {
            let (mut offset, mut size) = (0, usize::MAX);
            let index = sizes.len();
            match ask_briefly!(self.cuFuncGetParamInfo(function.raw(), index, &mut offset, &mut size)) {
                Ok(()) => sizes.push(size),
                // The driver has no other way to say how many there are; it has written nothing then.
                Err(failed) if failed.is(CudaError::InvalidValue) && size == usize::MAX => {
                    return Some(sizes.into());
                }
                Err(_) => return None,
            }
        }
    }

    pub(crate) fn occupancy_max_active_blocks_per_multiprocessor(
        &self,
        function: Held<'_, CUfunction>,
        block_size: i32,
        shared: usize,
    ) -> CudaResult<i32> {
        let mut blocks = 0;
        ask!(self.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &mut blocks,
            function.raw(),
            block_size,
            shared
        ))?;
        Ok(blocks)
    }

    /// # Safety
    ///
    /// There is a pointer for each of the kernel's parameters, to a value of its type; what the kernel does with them
    /// is the caller's business.
    pub(crate) unsafe fn launch_kernel(
        &self,
        function: Held<'_, CUfunction>,
        name: KernelName,
        shape: Shape,
        stream: Held<'_, CUstream>,
        parameters: &[*mut c_void],
    ) -> CudaResult<()> {
        let Shape { grid: [gx, gy, gz], block: [bx, by, bz], shared, cooperative } = shape;
        let (function, stream) = (function.raw(), stream.raw());
        let parameters = parameters.as_ptr().cast_mut();
        if cooperative {
            ask!(
                self.cuLaunchCooperativeKernel(function, gx, gy, gz, bx, by, bz, shared, stream, parameters)
            )?;
        } else {
            let extra = ptr::null_mut();
            ask!(self.cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra))?;
        }
        last_kernel::launched(name);
        Ok(())
    }
}
