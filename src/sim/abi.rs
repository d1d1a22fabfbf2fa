//! What the C functions of all chapters share.
//!
//! The simulated driver's C ABI, CUDA's functions with CUDA's signatures, is in each chapter's `abi.rs`: the pointers
//! and nothing else. Each function asks the model beside it, which says in which order things are looked at, and writes
//! the answer where it belongs.

// What writes through the pointers that C functions are given.
#![allow(unsafe_code)]

use super::machine::*;
use super::stream::in_host_function;
use crate::driver::ffi::{CUDA_SUCCESS, CUresult};
use std::ffi::CStr;
use std::os::raw::c_char;

/// Asks the model, and turns its answer into a status.
pub(super) fn call(f: impl FnOnce(&mut Machine) -> Answer<()>) -> CUresult {
    if in_host_function() {
        return NOT_PERMITTED;
    }
    match f(&mut lock()) {
        Ok(()) => CUDA_SUCCESS,
        Err(status) => status,
    }
}

/// Asks the model for a value and writes it; a NULL pointer is refused after everything else has been.
///
/// # Safety
///
/// `out` is NULL or may be written.
pub(super) unsafe fn give<T>(out: *mut T, f: impl FnOnce(&mut Machine) -> Answer<T>) -> CUresult {
    call(|machine| {
        let value = f(machine)?;
        if out.is_null() {
            return machine.refuse(INVALID_VALUE, "the answer needs a pointer, and got NULL");
        }
        // SAFETY: not NULL, and the caller vouches for the rest.
        unsafe { out.write(value) };
        Ok(())
    })
}

/// As [`give`], where a NULL pointer is refused before anything else is looked at.
///
/// # Safety
///
/// `out` is NULL or may be written.
pub(super) unsafe fn give_first<T>(out: *mut T, f: impl FnOnce(&mut Machine) -> Answer<T>) -> CUresult {
    if out.is_null() {
        return call(|machine| machine.refuse(INVALID_VALUE, "the answer needs a pointer, and got NULL"));
    }
    // SAFETY: the caller vouches for it.
    unsafe { give(out, f) }
}

/// Writes through a pointer that is not NULL.
///
/// # Safety
///
/// `out` is NULL or may be written.
pub(super) unsafe fn put<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: not NULL, and the caller vouches for the rest.
        unsafe { out.write(value) }
    }
}

/// Writes a text and its NUL, cut to `len` bytes in all.
///
/// # Safety
///
/// `out` may be written for `len` bytes, which is at least 1.
pub(super) unsafe fn put_text(out: *mut c_char, len: usize, text: &str) {
    let kept = text.len().min(len - 1);
    // SAFETY: `kept + 1` is at most `len`, and the caller vouches for that many.
    unsafe {
        out.copy_from(text.as_ptr().cast(), kept);
        out.add(kept).write(0);
    }
}

/// A name that the program passed.
///
/// # Safety
///
/// `name` is NULL or a C string.
pub(super) unsafe fn name(machine: &mut Machine, name: *const c_char) -> Answer<String> {
    if name.is_null() {
        return machine.refuse(INVALID_VALUE, "a name is needed, and got NULL");
    }
    // SAFETY: not NULL, and the caller vouches for the rest.
    Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
}

/// Waits, with nothing locked, for what the model says there is to wait for; then asks it again.
pub(super) fn wait_then(
    what: impl FnOnce(&mut Machine) -> Answer<Box<dyn FnOnce()>>,
    then: impl FnOnce(&mut Machine) -> Answer<()>,
) -> CUresult {
    let mut wait: Option<Box<dyn FnOnce()>> = None;
    let status = call(|m| what(m).map(|found| wait = Some(found)));
    if let Some(wait) = wait {
        wait();
        return call(then);
    }
    status
}

/// Waits, with nothing locked, for the work that a context has.
pub(super) fn wait_for_work(context: Handle) {
    if !in_host_function() {
        let work = lock().work_of(context);
        work.iter().for_each(|queue| queue.wait());
    }
}

pub(super) fn wait_for_current_work() {
    let current = lock().stack().last().copied();
    wait_for_work(current.unwrap_or(0));
}

/// One C function: its body sees the parameters, and answers a status.
///
/// What makes the bodies sound is C's own contract, that a pointer is NULL or good for what the CUDA manual says is
/// written there; the model below has no unsafe code.
macro_rules! c_abi {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) $body:block)*) => {
        $(
            pub(in crate::sim) unsafe extern "C" fn $name($($arg: $ty),*) -> CUresult {
                // SAFETY: the caller of a C function vouches for its pointers, as said above.
                #[allow(unused_unsafe, reason = "some bodies have no pointer")]
                unsafe { $body }
            }
        )*
    };
}

pub(super) use c_abi;
