//! What a thread must know before it calls the driver: whether it is in a host function, and
//! whether something must be done first.
//!
//! Host functions are functions of the program that the driver calls, and in which it refuses every
//! call.

use super::Driver;
use crate::error::{CudaError, CudaResult};
use std::cell::Cell;

type First = fn(&'static Driver) -> CudaResult<()>;

thread_local! {
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
    static FIRST: Cell<Option<First>> = const { Cell::new(None) };
    /// Whether neither of these is the case: one look before every call.
    static MAY_CALL: Cell<bool> = const { Cell::new(true) };
}

fn look_anew() {
    MAY_CALL.set(!IN_HOST_FUNCTION.get() && FIRST.get().is_none());
}

#[inline]
pub(super) fn may_call() -> bool {
    MAY_CALL.get()
}

/// Has this thread do something before its next driver call. If that fails, the call is not made
/// and has its error; then the function should ask for another attempt.
pub(crate) fn do_first(first: First) {
    FIRST.set(Some(first));
    look_anew();
}

pub(super) fn do_what_comes_first(driver: &'static Driver) -> CudaResult<()> {
    let first = FIRST.take();
    look_anew();
    first.map_or(Ok(()), |first| first(driver))
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
            look_anew();
        }
    }
    let _restore = Restore(IN_HOST_FUNCTION.replace(true));
    look_anew();
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
