//! The C ABI of the library chapter.

// C functions that read and write through the pointers that they get.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments)]

use crate::abi::{c_abi, call, forbidden_to_unload, give, give_first, name, put, wait_for_all_work};
use crate::machine::*;
use crate::module::{Options, code_at, with_options};
use custack_sys::ffi::*;
use std::os::raw::{c_char, c_int, c_uint, c_void};

/// The options of a library, of which each takes a number; they change nothing here.
fn check_library_options(
    machine: &mut Machine,
    count: c_uint,
    given: bool,
    numbers: &[c_uint],
) -> Answer<()> {
    const LAST: c_uint = 1;
    if count > 0 && !given {
        return machine
            .misuse(INVALID_VALUE, "there are options of a library, and a pointer for them is NULL");
    }
    if numbers.iter().any(|option| *option > LAST) {
        return machine.refuse(INVALID_VALUE, "there is no such option of a library");
    }
    Ok(())
}

/// Loads a library by `f`, as the options say.
///
/// # Safety
///
/// The pointers are NULL, or lead to as many options and values as there should be.
unsafe fn load(
    library: *mut CUlibrary,
    code: bool,
    jit: Options,
    (options, values, count): (*mut c_uint, *mut *mut c_void, c_uint),
    f: impl FnOnce(&mut Machine) -> Answer<usize>,
) -> CUresult {
    // SAFETY: the caller guarantees the pointers.
    unsafe {
        if library.is_null() || !code {
            return call(|m| m.refuse(INVALID_VALUE, "the code or the pointer for the library is NULL"));
        }
        give_first(library, |m| {
            m.ready()?;
            let given = !options.is_null() && !values.is_null();
            let numbers: Vec<_> =
                if given { (0..count as usize).map(|at| *options.add(at)).collect() } else { Vec::new() };
            check_library_options(m, count, given, &numbers)?;
            with_options(m, jit, f).map(|handle| handle as CUlibrary)
        })
    }
}

c_abi! {
    fn cuLibraryLoadData(library: *mut CUlibrary, code: *const c_void, jit_options: *mut c_uint, jit_values: *mut *mut c_void, jit_count: c_uint, options: *mut c_uint, values: *mut *mut c_void, count: c_uint) {
        let jit = Options::new(jit_count, jit_options, jit_values);
        load(library, !code.is_null(), jit, (options, values, count), |m| {
            m.load_library(code_at(code))
        })
    }
    fn cuLibraryLoadFromFile(library: *mut CUlibrary, file: *const c_char, jit_options: *mut c_uint, jit_values: *mut *mut c_void, jit_count: c_uint, options: *mut c_uint, values: *mut *mut c_void, count: c_uint) {
        let jit = Options::new(jit_count, jit_options, jit_values);
        load(library, !file.is_null(), jit, (options, values, count), |m| {
            let file = name(m, file)?;
            m.load_library_file(&file)
        })
    }
    fn cuLibraryUnload(library: CUlibrary) {
        let status = forbidden_to_unload(library.addr());
        if status != CUDA_SUCCESS {
            return status;
        }
        wait_for_all_work();
        call(|m| m.unload_library(library.addr()))
    }
    fn cuLibraryGetKernel(kernel: *mut CUkernel, library: CUlibrary, wanted: *const c_char) {
        give_first(kernel, |m| {
            let wanted = name(m, wanted)?;
            m.kernel_named(library.addr(), &wanted).map(|handle| handle as CUkernel)
        })
    }
    fn cuLibraryGetKernelCount(count: *mut c_uint, library: CUlibrary) {
        give_first(count, |m| m.kernels_of_library(library.addr()).map(|found| found.len() as c_uint))
    }
    fn cuLibraryEnumerateKernels(kernels: *mut CUkernel, count: c_uint, library: CUlibrary) {
        call(|m| {
            if kernels.is_null() {
                return m.refuse(INVALID_VALUE, "the pointer for the kernels is NULL");
            }
            let names = m.kernels_of_library(library.addr())?;
            for (at, name) in names.iter().take(count as usize).enumerate() {
                let kernel = m.kernel_named(library.addr(), name)?;
                kernels.add(at).write(kernel as CUkernel);
            }
            Ok(())
        })
    }
    fn cuLibraryGetModule(module: *mut CUmodule, library: CUlibrary) {
        give_first(module, |m| m.module_of_library(library.addr()).map(|handle| handle as CUmodule))
    }
    fn cuLibraryGetGlobal(address: *mut CUdeviceptr, size: *mut usize, library: CUlibrary, wanted: *const c_char) {
        call(|m| {
            if address.is_null() && size.is_null() {
                return m.refuse(INVALID_VALUE, "both pointers for the result are NULL");
            }
            let wanted = name(m, wanted)?;
            let found = m.variable_of_library(library.addr(), &wanted)?;
            put(address, found.0);
            put(size, found.1);
            Ok(())
        })
    }
    fn cuLibraryGetManaged(address: *mut CUdeviceptr, size: *mut usize, library: CUlibrary, wanted: *const c_char) {
        call(|m| {
            if address.is_null() && size.is_null() {
                return m.refuse(INVALID_VALUE, "both pointers for the result are NULL");
            }
            let wanted = name(m, wanted)?;
            let found = m.managed_named(library.addr(), &wanted)?;
            put(address, found.0);
            put(size, found.1);
            Ok(())
        })
    }
    fn cuLibraryGetUnifiedFunction(function: *mut *mut c_void, library: CUlibrary, wanted: *const c_char) {
        call(|m| {
            if function.is_null() {
                return m.refuse(INVALID_VALUE, "the pointer for the function is NULL");
            }
            let wanted = name(m, wanted)?;
            m.unified_function(library.addr(), &wanted)
        })
    }
    fn cuKernelGetFunction(function: *mut CUfunction, kernel: CUkernel) {
        give_first(function, |m| m.function_of_kernel(kernel.addr()).map(|handle| handle as CUfunction))
    }
    fn cuKernelGetLibrary(library: *mut CUlibrary, kernel: CUkernel) {
        give_first(library, |m| m.library_of(kernel.addr()).map(|handle| handle as CUlibrary))
    }
    fn cuKernelGetAttribute(value: *mut c_int, attribute: c_uint, kernel: CUkernel, device: CUdevice) {
        call(|m| {
            m.library_of(kernel.addr())?;
            if value.is_null() {
                return m.refuse(INVALID_VALUE, "the pointer for the result is NULL");
            }
            value.write(m.kernel_attribute(kernel.addr(), attribute, device)?);
            Ok(())
        })
    }
    fn cuKernelSetAttribute(attribute: c_uint, value: c_int, kernel: CUkernel, device: CUdevice) {
        call(|m| m.set_kernel_attribute(kernel.addr(), attribute, value, device))
    }
    fn cuKernelSetCacheConfig(kernel: CUkernel, config: c_uint, device: CUdevice) {
        call(|m| m.set_kernel_cache(kernel.addr(), config, device))
    }
    fn cuKernelGetName(name: *mut *const c_char, kernel: CUkernel) {
        give(name, |m| {
            if kernel.is_null() {
                return m.refuse(INVALID_VALUE, "the kernel is NULL");
            }
            m.kernel_name(kernel.addr()).map(|name| name.as_ptr())
        })
    }
    fn cuKernelGetParamInfo(kernel: CUkernel, index: usize, offset: *mut usize, size: *mut usize) {
        call(|m| {
            if kernel.is_null() || offset.is_null() {
                return m.refuse(INVALID_VALUE, "the kernel or the pointer for the offset is NULL");
            }
            let Some((at, bytes)) = m.kernel_parameter(kernel.addr(), index)? else {
                return m.refuse(INVALID_VALUE, format_args!("the kernel has no parameter {index}"));
            };
            put(offset, at);
            put(size, bytes);
            Ok(())
        })
    }
}
