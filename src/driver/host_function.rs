//! Host functions: functions of the program that the driver calls, and in which it refuses every call.

use crate::error::{CudaError, CudaResult};
use std::cell::Cell;

thread_local! {
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is running a host function.
#[inline]
pub(crate) fn in_host_function() -> bool {
    IN_HOST_FUNCTION.get()
}

/// Runs a function of the program as a host function.
pub(crate) fn as_host_function<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            IN_HOST_FUNCTION.set(self.0);
        }
    }
    let _restore = Restore(IN_HOST_FUNCTION.replace(true));
    f()
}

#[cold]
pub(crate) fn refuse_in_host_function() -> CudaResult<()> {
    if !in_host_function() {
        return Ok(());
    }
    Err(CudaError::NotPermitted
        .note(format_args!("to call the driver in a host function, where it refuses every call")))
}
