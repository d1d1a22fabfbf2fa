//! After a `fork` no driver works in the child: neither the device's state nor the driver's threads are there.
//!
//! NVIDIA's driver answers `NotInitialized` there. So does the simulated one, and custack itself refuses before it takes a
//! lock that a thread of the parent may have held when the process was copied.

// Registers a function with the C library.
#![allow(unsafe_code)]

#[cfg(feature = "sim")]
use crate::driver::ffi::CUresult;
use crate::error::{CudaError, CudaResult};
use std::sync::atomic::{AtomicBool, Ordering};

/// What a driver answers after a fork.
#[cfg(feature = "sim")]
pub(super) const NOT_INITIALIZED: CUresult = 3;
/// Why.
pub(super) const WHY: &str =
    "this process was forked after the driver was started, and no driver works in such a child";

static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Refuses what would wait for threads or locks of the parent.
pub(crate) fn refuse_in_child() -> CudaResult<()> {
    if is_child() {
        Err(CudaError::NotInitialized.note(format_args!("to use the driver: {WHY}")))
    } else {
        Ok(())
    }
}

/// Whether this process is a copy of one in which a driver ran. It is read only, so nothing is shared at a cost.
#[inline]
pub(crate) fn is_child() -> bool {
    IS_CHILD.load(Ordering::Relaxed)
}

/// Has forks noticed from now on.
#[cfg(unix)]
pub(super) fn notice() {
    use std::os::raw::c_int;

    type Handler = Option<unsafe extern "C" fn()>;
    unsafe extern "C" {
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
    }
    unsafe extern "C" fn child() {
        IS_CHILD.store(true, Ordering::Relaxed);
    }
    static NOTICED: std::sync::Once = std::sync::Once::new();
    NOTICED.call_once(|| {
        // SAFETY: the handler only sets a flag, which is allowed after a fork. Without memory for it, forks go unnoticed.
        unsafe { pthread_atfork(None, None, Some(child)) };
    });
}

/// There is no fork.
#[cfg(not(unix))]
pub(super) fn notice() {}
