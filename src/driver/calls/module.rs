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

/// Room for what the driver's compiler says about PTX that it refuses.
const LOG_SIZE: usize = 4096;

/// What is wrong with which line, from the compiler's log; `None` for an empty one.
fn compiler_says(log: &[u8]) -> Option<String> {
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    let log = String::from_utf8_lossy(&log[..end]);
    let says_nothing = ["Ptx assembly aborted due to errors", "Binary format for key="];
    let lines = log.lines().filter(|line| !says_nothing.iter().any(|text| line.contains(text)));
    let lines = lines.map(|line| {
        let line = line.trim_start_matches("ptxas").trim_start().trim_start_matches("application ptx input,");
        line.split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .replace(" : ", ": ")
            .replace("; error: ", ": ")
            .replace("; fatal: ", ": ")
    });
    let text = lines.filter(|line| !line.is_empty()).take(5).collect::<Vec<_>>().join("; ");
    (!text.is_empty()).then_some(text)
}

impl Driver {
    /// # Safety
    ///
    /// The image is a text with a final NUL, or machine code that is as long as it says.
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
        made!(self, loaded, module, module_unload).map_err(|error| match compiler_says(&log) {
            Some(text) => error.note(format_args!("to call cuModuleLoadDataEx: {text}")),
            None => error,
        })
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
