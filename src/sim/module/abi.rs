//! The C ABI of the module chapter.

// C functions that read and write through the pointers they are given.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::driver::ffi::*;
use crate::sim::abi::{c_abi, call, give_first, name, put, put_text, wait_for_current_work};
use crate::sim::machine::*;
use std::ffi::CStr;
use std::os::raw::{c_char, c_uint, c_void};

/// Writes the compiler's log where the options of a load want it.
///
/// # Safety
///
/// There are `count` options with their values; the value of a log is a buffer of the size that another of them says.
unsafe fn write_log(log: &str, count: usize, options: *mut c_uint, values: *mut *mut c_void) {
    const ERROR_LOG_BUFFER: c_uint = 5;
    const ERROR_LOG_BUFFER_SIZE_BYTES: c_uint = 6;
    // SAFETY: the caller guarantees the pointers.
    let value =
        |option| unsafe { (0..count).find(|at| *options.add(*at) == option).map(|at| *values.add(at)) };
    let (buffer, size) = (value(ERROR_LOG_BUFFER), value(ERROR_LOG_BUFFER_SIZE_BYTES));
    if let (Some(buffer), Some(size)) = (buffer.filter(|it| !it.is_null()), size.filter(|it| !it.is_null())) {
        // SAFETY: the buffer has that size, which is not 0.
        unsafe { put_text(buffer.cast(), size.addr(), log) };
    }
}

c_abi! {
    fn cuModuleLoad(module: *mut CUmodule, file: *const c_char) {
        give_first(module, |m| {
            let file = name(m, file)?;
            m.load_file(&file).map(|handle| handle as CUmodule)
        })
    }
    fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void) {
        give_first(module, |m| {
            if image.is_null() {
                return m.refuse(INVALID_VALUE, "the image is NULL");
            }
            // Machine code tells its own length, and is not read; a text ends with its NUL.
            m.load_module(CStr::from_ptr(image.cast()).to_bytes()).map(|handle| handle as CUmodule)
        })
    }
    fn cuModuleLoadDataEx(module: *mut CUmodule, image: *const c_void, count: c_uint, options: *mut c_uint, values: *mut *mut c_void) {
        let status = cuModuleLoadData(module, image);
        if status != 0 {
            let log = lock().compiler_log();
            write_log(&log, count as usize, options, values);
        }
        status
    }
    fn cuModuleUnload(module: CUmodule) {
        wait_for_current_work();
        call(|m| m.unload_module(module.addr()))
    }
    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, wanted: *const c_char) {
        give_first(function, |m| {
            let wanted = name(m, wanted)?;
            m.function_named(module.addr(), &wanted).map(|handle| handle as CUfunction)
        })
    }
    fn cuModuleGetGlobal_v2(address: *mut CUdeviceptr, size: *mut usize, module: CUmodule, wanted: *const c_char) {
        call(|m| {
            let wanted = name(m, wanted)?;
            let found = m.variable_named(module.addr(), &wanted)?;
            put(address, found.0);
            put(size, found.1);
            Ok(())
        })
    }
}
