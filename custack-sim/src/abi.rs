//! What the C functions of all chapters share.
//!
//! Each chapter's `abi.rs` has the simulated driver's C ABI, CUDA's functions with CUDA's signatures: the pointers and
//! nothing else. Each function calls the model beside it, which checks the arguments in the driver's order, and writes
//! the result to the out-parameter.

// Writes through pointers that the caller of a C function passed.
#![allow(unsafe_code)]

use super::graph::run_destructors;
use super::machine::*;
use super::memory;
use super::stream::{in_host_function, is_anything_captured};
use custack_sys::ffi::{CUDA_SUCCESS, CUhostFn, CUresult};
use std::ffi::CStr;
use std::os::raw::{c_char, c_void};

/// Calls the model and turns its result into a status.
pub(super) fn call(f: impl FnOnce(&mut Machine) -> Answer<()>) -> CUresult {
    if in_host_function() {
        return NOT_PERMITTED;
    }
    let mut machine = lock();
    machine.forget_refusal();
    let answer = f(&mut machine);
    drop(machine);
    run_destructors();
    match answer {
        Ok(()) => CUDA_SUCCESS,
        Err(status) => status,
    }
}

/// The status with which a capture forbids this function, or 0.
pub(super) fn forbidden(function: &str) -> CUresult {
    if !is_anything_captured() {
        return CUDA_SUCCESS;
    }
    call(|machine| machine.forbidden(function))
}

/// The status with which a capture forbids to unload this, or 0. That it is NULL is another refusal, which comes first.
pub(super) fn forbidden_to_unload(handle: usize) -> CUresult {
    if handle == 0 {
        return CUDA_SUCCESS;
    }
    call(|machine| machine.may_wait())
}

/// Calls a function of the program's.
pub(super) fn call_host_function(function: CUhostFn, data: usize) {
    if let Some(function) = function {
        // SAFETY: the program has asked for it to be called with this, as often as its graph is launched.
        unsafe { function(data as *mut c_void) }
    }
}

/// Calls the model for a value and writes it; a NULL pointer is refused after everything else has been checked.
///
/// # Safety
///
/// `out` is NULL or valid for a write of `T`.
pub(super) unsafe fn give<T>(out: *mut T, f: impl FnOnce(&mut Machine) -> Answer<T>) -> CUresult {
    call(|machine| {
        let value = f(machine)?;
        if out.is_null() {
            return machine.refuse(INVALID_VALUE, "the pointer for the result is NULL");
        }
        // SAFETY: not NULL, and the caller guarantees the rest.
        unsafe { out.write(value) };
        Ok(())
    })
}

/// Like [`give`], but a NULL pointer is refused before anything else is checked.
///
/// # Safety
///
/// `out` is NULL or valid for a write of `T`.
pub(super) unsafe fn give_first<T>(out: *mut T, f: impl FnOnce(&mut Machine) -> Answer<T>) -> CUresult {
    if out.is_null() {
        return call(|machine| machine.refuse(INVALID_VALUE, "the pointer for the result is NULL"));
    }
    // SAFETY: as the caller guarantees.
    unsafe { give(out, f) }
}

/// Like [`give_first`], but the current context is looked at before that.
///
/// # Safety
///
/// As for [`give`].
pub(super) unsafe fn give_in_context<T>(out: *mut T, f: impl FnOnce(&mut Machine) -> Answer<T>) -> CUresult {
    match call(|machine| machine.healthy_current().map(|_| ())) {
        // SAFETY: as the caller guarantees.
        CUDA_SUCCESS => unsafe { give_first(out, f) },
        status => status,
    }
}

/// Writes through the pointer unless it is NULL.
///
/// # Safety
///
/// `out` is NULL or valid for a write of `T`.
pub(super) unsafe fn put<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: not NULL, and the caller guarantees the rest.
        unsafe { out.write(value) }
    }
}

/// Writes a text and its NUL, truncated to `len` bytes in all.
///
/// # Safety
///
/// `out` is valid for writes of `len` bytes, and `len` is at least 1.
pub(super) unsafe fn put_text(out: *mut c_char, len: usize, text: &str) {
    let kept = text.len().min(len - 1);
    // SAFETY: `kept + 1` is at most `len`, and the caller guarantees that many bytes.
    unsafe {
        out.copy_from(text.as_ptr().cast(), kept);
        out.add(kept).write(0);
    }
}

/// A name that the program passed.
///
/// # Safety
///
/// `name` is NULL or a valid C string.
pub(super) unsafe fn name(machine: &mut Machine, name: *const c_char) -> Answer<String> {
    if name.is_null() {
        return machine.refuse(INVALID_VALUE, "the name is NULL");
    }
    // SAFETY: not NULL, and the caller guarantees the rest.
    Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
}

/// Waits, without a lock, for the work that the model names; then calls the model again.
pub(super) fn wait_then(
    what: impl FnOnce(&mut Machine) -> Answer<Box<dyn FnOnce()>>,
    then: impl FnOnce(&mut Machine) -> Answer<()>,
) -> CUresult {
    let mut wait: Option<Box<dyn FnOnce()>> = None;
    let status = call(|m| what(m).map(|found| wait = Some(found)));
    if let Some(wait) = wait {
        wait();
        memory::lock().after_wait();
        return call(then);
    }
    status
}

/// Waits, without a lock, for the work of a context.
pub(super) fn wait_for_work(context: Handle) {
    if !in_host_function() {
        let work = lock().work_of(context);
        work.iter().for_each(|queue| queue.wait());
        memory::lock().after_wait();
    }
}

/// Calls the model for what ends a context of a device, once that does nothing for this process: an H200 destroys a context
/// only then, whichever context the work is of, and whether or not it has begun. The device is asked for under the lock
/// under which `end` is called, and waited for once, without the lock.
pub(super) fn call_when_idle(
    device: impl Fn(&Machine) -> Option<usize>,
    end: impl Fn(&mut Machine) -> Answer<()>,
) -> CUresult {
    let mut work = Vec::new();
    let status = call(|machine| {
        work = device(machine).map_or_else(Vec::new, |device| machine.work_on(device));
        if work.is_empty() { end(machine) } else { Ok(()) }
    });
    if work.is_empty() {
        return status;
    }
    work.iter().for_each(|queue| queue.wait());
    memory::lock().after_wait();
    call(end)
}

/// Waits, without a lock, for the work of all contexts.
pub(super) fn wait_for_all_work() {
    if !in_host_function() {
        let work = lock().all_work();
        work.iter().for_each(|queue| queue.wait());
    }
}

pub(super) fn wait_for_current_work() {
    let current = lock().stack().last().copied();
    wait_for_work(current.unwrap_or(0));
}

/// A C function: its body uses the parameters and returns a status.
///
/// The bodies are sound by C's own contract: a pointer is NULL, or valid for what the CUDA manual says is read or
/// written there. The model below has no unsafe code.
macro_rules! c_abi {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) $body:block)*) => {
        $(
            pub(crate) unsafe extern "C" fn $name($($arg: $ty),*) -> CUresult {
                let status = $crate::abi::forbidden(stringify!($name));
                if status != 0 {
                    return status;
                }
                // SAFETY: the caller of a C function guarantees its pointers, as said above.
                #[allow(unused_unsafe, reason = "some bodies have no pointer")]
                unsafe { $body }
            }
        )*
    };
}

pub(super) use c_abi;
