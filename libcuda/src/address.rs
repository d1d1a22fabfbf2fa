//! `cuGetProcAddress`: a function by the name and the version that the program was compiled for.

use super::exports::{NAMES, SYMBOLS};
use custack_sys::ffi::CUresult;
use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_ulonglong, c_void};

const SUCCESS: CUresult = 0;
const INVALID_VALUE: CUresult = 1;
const NOT_FOUND: CUresult = 500;

const LEGACY_STREAM: c_ulonglong = 1;
const PER_THREAD_DEFAULT_STREAM: c_ulonglong = 2;

/// Whether and why not a function was found.
#[derive(Clone, Copy)]
enum Status {
    Success = 0,
    NotFound = 1,
    VersionNotSufficient = 2,
}

/// The symbol that a name means for a version of CUDA.
fn symbol(name: &str, version: c_int, is_per_thread: bool) -> Result<&'static str, Status> {
    // Names with the end of a variant are known to no driver; a function without a variant for the per-thread default
    // stream is the same for both.
    let named = || NAMES.iter().filter(|it| it.0 == name);
    if named().next().is_none() {
        return Err(Status::NotFound);
    }
    let newest = |per_thread| {
        named().filter(|it| it.2 == per_thread && it.1 <= version).max_by_key(|it| it.1).map(|it| it.3)
    };
    newest(is_per_thread).or_else(|| newest(false)).ok_or(Status::VersionNotSufficient)
}

/// The address of a symbol.
fn address(symbol: &str) -> *mut c_void {
    let at = SYMBOLS.binary_search_by(|it| it.0.cmp(symbol));
    at.map_or(std::ptr::null_mut(), |at| SYMBOLS[at].1.0.cast_mut().cast())
}

/// The address of the function that a name means.
///
/// # Safety
///
/// The name is null or ends with a zero, and the other pointers are null or point to room for what is written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetProcAddress_v2(
    name: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    flags: c_ulonglong,
    status: *mut c_int,
) -> CUresult {
    if name.is_null() || function.is_null() || flags > (LEGACY_STREAM | PER_THREAD_DEFAULT_STREAM) {
        return INVALID_VALUE;
    }
    // SAFETY: a name that is not null ends with a zero, as the caller promises.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let found = symbol(&name, version, flags & PER_THREAD_DEFAULT_STREAM != 0);
    // SAFETY: pointers that are not null point to room for what is written, as the caller promises.
    unsafe {
        function.write(found.map_or(std::ptr::null_mut(), address));
        if !status.is_null() {
            status.write(found.err().unwrap_or(Status::Success) as c_int);
        }
    }
    match found {
        Ok(_) => SUCCESS,
        // Whoever asks for the status is told the reason there.
        Err(_) if !status.is_null() => SUCCESS,
        Err(_) => NOT_FOUND,
    }
}

/// The same as CUDA 11.3 had it.
///
/// # Safety
///
/// As of [`cuGetProcAddress_v2`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetProcAddress(
    name: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    flags: c_ulonglong,
) -> CUresult {
    // SAFETY: the caller's promises are the same.
    unsafe { cuGetProcAddress_v2(name, function, version, flags, std::ptr::null_mut()) }
}
