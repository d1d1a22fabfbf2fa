//! The names and texts of errors, and the tables that NVIDIA's own libraries ask for.

use custack_sys::ERRORS;
use custack_sys::ffi::CUresult;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::raw::{c_char, c_void};
use std::sync::OnceLock;

const SUCCESS: CUresult = 0;
const INVALID_VALUE: CUresult = 1;
const NOT_FOUND: CUresult = 500;

/// An error's name and what it means.
type Texts = [CString; 2];

fn texts() -> &'static BTreeMap<CUresult, Texts> {
    static TEXTS: OnceLock<BTreeMap<CUresult, Texts>> = OnceLock::new();
    TEXTS.get_or_init(|| {
        let errors = ERRORS.iter().map(|(code, name, text)| (*code, format!("CUDA_ERROR_{name}"), *text));
        let all = errors.chain([(SUCCESS, "CUDA_SUCCESS".to_owned(), "no error")]);
        let c = |text: &str| CString::new(text).unwrap_or_default();
        all.map(|(code, name, text)| (code, [c(&name), c(text)])).collect()
    })
}

/// Writes one of an error's two texts.
fn write(error: CUresult, to: *mut *const c_char, which: usize) -> CUresult {
    if to.is_null() {
        return INVALID_VALUE;
    }
    let found = texts().get(&error);
    // SAFETY: the caller's pointer is not null, and points to room for a pointer.
    unsafe { to.write(found.map_or(std::ptr::null(), |it| it[which].as_ptr())) };
    if found.is_some() { SUCCESS } else { INVALID_VALUE }
}

/// The name of an error, such as `CUDA_ERROR_INVALID_VALUE`.
///
/// # Safety
///
/// The pointer is null or points to room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(error: CUresult, name: *mut *const c_char) -> CUresult {
    write(error, name, 0)
}

/// What an error means.
///
/// # Safety
///
/// The pointer is null or points to room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(error: CUresult, text: *mut *const c_char) -> CUresult {
    write(error, text, 1)
}

/// NVIDIA's own libraries ask for functions that no header declares, by a number of 128 bits: there are none.
///
/// # Safety
///
/// The pointer is null or points to room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetExportTable(table: *mut *const c_void, id: *const c_void) -> CUresult {
    if table.is_null() || id.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: the caller's pointer is not null, and points to room for a pointer.
    unsafe { table.write(std::ptr::null()) };
    NOT_FOUND
}
