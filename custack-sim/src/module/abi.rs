//! The C ABI of the module chapter.

// C functions that read and write through the pointers that they get.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::CompilerLog;
use super::image::{FATBIN, FATBIN_HEADER, WRAPPER, length_of_fatbin};
use crate::abi::{
    c_abi, call, forbidden_to_unload, give, give_first, give_in_context, name, put, put_text,
    wait_for_current_work,
};
use crate::machine::*;
use crate::module::NOT_FOUND;
use custack_sys::ffi::*;
use std::ffi::CStr;
use std::os::raw::{c_char, c_uint, c_void};
use std::ptr;

/// The options of a load or a linking, where the program has them: the addresses of their numbers and values.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Options {
    count: usize,
    options: usize,
    values: usize,
}

const WALL_TIME: c_uint = 2;
const INFO_LOG_BUFFER: c_uint = 3;
const INFO_LOG_BUFFER_SIZE_BYTES: c_uint = 4;
const ERROR_LOG_BUFFER: c_uint = 5;
const ERROR_LOG_BUFFER_SIZE_BYTES: c_uint = 6;
const LOG_VERBOSE: c_uint = 12;

impl Options {
    pub(crate) fn new(count: c_uint, options: *mut c_uint, values: *mut *mut c_void) -> Options {
        Options {
            count: count as usize,
            options: options.expose_provenance(),
            values: values.expose_provenance(),
        }
    }

    fn value_at(&self, at: usize) -> *mut *mut c_void {
        ptr::with_exposed_provenance_mut::<*mut c_void>(self.values).wrapping_add(at)
    }

    /// Each option with its value, if the driver knows them.
    ///
    /// # Safety
    ///
    /// The pointers are NULL, or there are as many as there should be.
    pub(crate) unsafe fn check(&self, machine: &mut Machine) -> Answer<Vec<(u32, usize)>> {
        if self.count > 0 && (self.options == 0 || self.values == 0) {
            return machine.refuse(INVALID_VALUE, "there are options, and the pointer for them is NULL");
        }
        let numbers = ptr::with_exposed_provenance::<c_uint>(self.options);
        let pairs: Vec<_> = (0..self.count)
            // SAFETY: the caller guarantees the pointers.
            .map(|at| unsafe { (*numbers.wrapping_add(at), (*self.value_at(at)).expose_provenance()) })
            .collect();
        machine.check_options(&pairs)?;
        Ok(pairs)
    }

    /// Writes what the compiler said where the program wants it.
    ///
    /// # Safety
    ///
    /// [`check`](Self::check) was content with them, and the value of a log is a buffer of the size that another says.
    pub(crate) unsafe fn answer(&self, pairs: &[(u32, usize)], log: &CompilerLog) {
        let find = |option| pairs.iter().position(|pair| pair.0 == option);
        let asked = find(LOG_VERBOSE).is_some_and(|at| pairs[at].1 as u32 != 0);
        let info = if asked { &*log.info } else { "" };
        let logs = [
            (INFO_LOG_BUFFER, INFO_LOG_BUFFER_SIZE_BYTES, info),
            (ERROR_LOG_BUFFER, ERROR_LOG_BUFFER_SIZE_BYTES, &*log.error),
        ];
        for (buffer, size, text) in logs {
            let (Some(buffer), Some(size)) = (find(buffer), find(size)) else { continue };
            let (buffer, room) = (pairs[buffer].1, pairs[size].1);
            if buffer == 0 {
                continue;
            }
            let written = match room {
                0 | 1 => 0,
                _ => text.len().min(room),
            };
            // SAFETY: the buffer has that much room, and a byte where it is said to have none: the NVIDIA driver writes
            // its NUL there too. The values are where they were.
            unsafe {
                put_text(ptr::with_exposed_provenance_mut(buffer), room.max(1), text);
                self.value_at(size).write(ptr::without_provenance_mut(written));
            }
        }
        if let Some(at) = find(WALL_TIME) {
            let milliseconds = 1.0f32;
            // SAFETY: as above.
            unsafe { self.value_at(at).write(ptr::without_provenance_mut(milliseconds.to_bits() as usize)) }
        }
    }
}

/// Does with the options what `f` does without, and writes what the compiler said.
///
/// # Safety
///
/// Like [`Options::check`] and [`Options::answer`].
pub(crate) unsafe fn with_options<T>(
    machine: &mut Machine,
    options: Options,
    f: impl FnOnce(&mut Machine) -> Answer<T>,
) -> Answer<T> {
    // SAFETY: as the caller guarantees.
    let pairs = unsafe { options.check(machine) }?;
    machine.compiler_log();
    machine.compile_with(&pairs);
    let answer = f(machine);
    machine.compile_with(&[]);
    let log = machine.compiler_log();
    // SAFETY: as above.
    unsafe { options.answer(&pairs, &log) };
    answer
}

/// Textures and surfaces are made by calls now: no module has one by a name.
///
/// # Safety
///
/// `wanted` is NULL or a C string.
unsafe fn reference(no_out: bool, module: CUmodule, wanted: *const c_char) -> CUresult {
    call(|m| {
        m.module(module.addr())?;
        if no_out {
            return m.refuse(INVALID_VALUE, "the pointer for the reference is NULL");
        }
        // SAFETY: as the caller guarantees.
        let wanted = unsafe { name(m, wanted)? };
        m.refuse(NOT_FOUND, format_args!("the module has no texture or surface {wanted}"))
    })
}

/// Whether an image begins with these bytes.
///
/// # Safety
///
/// It is an image.
unsafe fn begins(image: *const u8, with: &[u8]) -> bool {
    // SAFETY: a shorter text has its NUL first, which is not what a later byte is compared with.
    with.iter().enumerate().all(|(at, byte)| unsafe { *image.add(at) } == *byte)
}

/// The bytes of what a library is made of: like those of a module, but also where the wrapper says that a compiler writes
/// into a program. An H200 takes no wrapper for a module.
///
/// # Safety
///
/// It is an image, and a wrapper has the address of a fatbin.
pub(crate) unsafe fn code_at<'a>(code: *const c_void) -> &'a [u8] {
    /// Where programs have nothing, and what no address of a wrapper can be.
    const LOWEST: usize = 1 << 16;
    /// Where a wrapper has the address.
    const DATA: usize = 8;

    // SAFETY: the caller guarantees it. A wrapper is longer than that.
    unsafe {
        if begins(code.cast(), WRAPPER) {
            let data = code.cast::<u8>().add(DATA).cast::<*const u8>().read_unaligned();
            if data.addr() >= LOWEST && begins(data, FATBIN) {
                return image_at(data.cast());
            }
        }
        image_at(code)
    }
}

/// The bytes of an image. A text ends with its NUL; a fatbin says how long it is. Other machine code is not read, and may
/// end anywhere.
///
/// # Safety
///
/// It is an image.
pub(crate) unsafe fn image_at<'a>(image: *const c_void) -> &'a [u8] {
    let image = image.cast::<u8>();
    // SAFETY: the caller guarantees it.
    if unsafe { begins(image, WRAPPER) } {
        return WRAPPER;
    }
    // SAFETY: as above.
    if unsafe { begins(image, FATBIN) } {
        // SAFETY: a fatbin has a header, and its bytes stay where they are while it is loaded.
        unsafe {
            let length = length_of_fatbin(std::slice::from_raw_parts(image, FATBIN_HEADER));
            return std::slice::from_raw_parts(image, length.unwrap_or(FATBIN_HEADER).max(FATBIN_HEADER));
        }
    }
    // SAFETY: as the caller guarantees.
    unsafe { CStr::from_ptr(image.cast()) }.to_bytes()
}

c_abi! {
    fn cuModuleLoad(module: *mut CUmodule, file: *const c_char) {
        give_first(module, |m| {
            let file = name(m, file)?;
            m.load_file(&file).map(|handle| handle as CUmodule)
        })
    }
    fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void) {
        call(|m| {
            m.healthy_current()?;
            if module.is_null() || image.is_null() {
                return m.refuse(INVALID_VALUE, "the image or the pointer for the module is NULL");
            }
            module.write(m.load_module(image_at(image))? as CUmodule);
            Ok(())
        })
    }
    fn cuModuleLoadDataEx(module: *mut CUmodule, image: *const c_void, count: c_uint, options: *mut c_uint, values: *mut *mut c_void) {
        give_in_context(module, |m| {
            if image.is_null() {
                return m.refuse(INVALID_VALUE, "the image is NULL");
            }
            let image = image_at(image);
            let options = Options::new(count, options, values);
            with_options(m, options, |m| m.load_module(image)).map(|handle| handle as CUmodule)
        })
    }
    fn cuModuleLoadFatBinary(module: *mut CUmodule, image: *const c_void) { cuModuleLoadData(module, image) }
    fn cuModuleGetTexRef(texture: *mut CUtexref, module: CUmodule, wanted: *const c_char) {
        reference(texture.is_null(), module, wanted)
    }
    fn cuModuleGetSurfRef(surface: *mut CUsurfref, module: CUmodule, wanted: *const c_char) {
        reference(surface.is_null(), module, wanted)
    }
    fn cuModuleUnload(module: CUmodule) {
        let status = forbidden_to_unload(module.addr());
        if status != CUDA_SUCCESS {
            return status;
        }
        wait_for_current_work();
        call(|m| m.unload_module(module.addr()))
    }
    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, wanted: *const c_char) {
        call(|m| {
            m.module(module.addr())?;
            if function.is_null() {
                return m.refuse(INVALID_VALUE, "the pointer for the function is NULL");
            }
            let wanted = name(m, wanted)?;
            let found = m.function_named(module.addr(), &wanted);
            function.write(found.unwrap_or(0) as CUfunction);
            found.map(|_| ())
        })
    }
    fn cuModuleGetGlobal_v2(address: *mut CUdeviceptr, size: *mut usize, module: CUmodule, wanted: *const c_char) {
        call(|m| {
            put(address, 0);
            put(size, 0);
            m.module(module.addr())?;
            if address.is_null() && size.is_null() {
                return m.refuse(INVALID_VALUE, "both pointers for the result are NULL");
            }
            let wanted = name(m, wanted)?;
            let found = m.variable_named(module.addr(), &wanted)?;
            put(address, found.0);
            put(size, found.1);
            Ok(())
        })
    }
    fn cuModuleGetLoadingMode(mode: *mut c_uint) {
        const LAZY: c_uint = 2;
        give(mode, |m| {
            m.ready()?;
            if mode.is_null() {
                return m.misuse(INVALID_VALUE, "the pointer for the mode is NULL");
            }
            Ok(LAZY)
        })
    }
    fn cuModuleGetFunctionCount(count: *mut c_uint, module: CUmodule) {
        give_first(count, |m| m.kernels_of_module(module.addr()).map(|found| found.len() as c_uint))
    }
    fn cuModuleEnumerateFunctions(functions: *mut CUfunction, count: c_uint, module: CUmodule) {
        call(|m| {
            if functions.is_null() {
                return m.refuse(INVALID_VALUE, "the pointer for the result is NULL");
            }
            let found = m.kernels_of_module(module.addr())?;
            for (at, name) in found.iter().take(count as usize).enumerate() {
                let function = m.function_named(module.addr(), name)?;
                functions.add(at).write(function as CUfunction);
            }
            Ok(())
        })
    }
    fn cuLinkCreate_v2(count: c_uint, options: *mut c_uint, values: *mut *mut c_void, state: *mut CUlinkState) {
        give_in_context(state, |m| {
            let options = Options::new(count, options, values);
            let pairs = options.check(m)?;
            m.create_linker((options, pairs)).map(|handle| handle as CUlinkState)
        })
    }
    fn cuLinkAddData_v2(state: CUlinkState, kind: c_uint, data: *mut c_void, size: usize, file: *const c_char, count: c_uint, options: *mut c_uint, values: *mut *mut c_void) {
        call(|m| {
            m.linker(state.addr())?;
            if data.is_null() || size == 0 {
                return m.refuse(INVALID_VALUE, "there is no data to link");
            }
            Options::new(count, options, values).check(m)?;
            let file = if file.is_null() { "<unnamed>".to_owned() } else { name(m, file)? };
            let data = std::slice::from_raw_parts(data.cast::<u8>(), size);
            telling(m, state, |m| m.add_to_linker(state.addr(), kind, data, &file))
        })
    }
    fn cuLinkAddFile_v2(state: CUlinkState, kind: c_uint, path: *const c_char, count: c_uint, options: *mut c_uint, values: *mut *mut c_void) {
        call(|m| {
            m.linker(state.addr())?;
            let path = name(m, path)?;
            Options::new(count, options, values).check(m)?;
            telling(m, state, |m| m.add_file_to_linker(state.addr(), kind, &path))
        })
    }
    fn cuLinkComplete(state: CUlinkState, cubin: *mut *mut c_void, size: *mut usize) {
        call(|m| {
            m.linker(state.addr())?;
            if cubin.is_null() {
                return m.refuse(INVALID_VALUE, "the pointer for the image is NULL");
            }
            let image = telling(m, state, |m| m.complete_linker(state.addr()))?;
            put(cubin, image.as_ptr().cast_mut().cast());
            put(size, image.len());
            Ok(())
        })
    }
    fn cuLinkDestroy(state: CUlinkState) { call(|m| m.destroy_linker(state.addr())) }
}

/// Does something with a linker, and writes what it said where its options have it.
///
/// # Safety
///
/// The options are where they were when it was made.
unsafe fn telling<T>(
    machine: &mut Machine,
    state: CUlinkState,
    f: impl FnOnce(&mut Machine) -> Answer<T>,
) -> Answer<T> {
    machine.compiler_log();
    let answer = f(machine);
    let log = machine.compiler_log();
    let (options, pairs) = machine.linker(state.addr())?.options.clone();
    // SAFETY: as the caller guarantees.
    unsafe { options.answer(&pairs, &log) };
    answer
}
