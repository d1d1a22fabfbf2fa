//! Reports what custack cannot return: errors in destructors, changes that other code made to the stack, contexts that
//! a thread left behind.
//!
//! A report never panics. It may be made in a destructor, during a panic, or while a thread ends, and a subscriber that
//! fails there (because a thread-local of its own is destroyed, for example) must not abort the process.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls a function of the program and catches its panic; returns false if it panicked.
pub(crate) fn contained(f: impl FnOnce()) -> bool {
    let Err(payload) = catch_unwind(AssertUnwindSafe(f)) else { return true };
    // The payload belongs to the program too, and its destructor may panic.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
    false
}

#[cfg_attr(not(feature = "tracing"), path = "report/nowhere.rs")]
mod events;

/// For a loss or an inconsistency that the program should know about.
#[cold]
pub(crate) fn warn(text: std::fmt::Arguments<'_>) {
    contained(|| events::warn(text));
}

/// For what helps to find the cause of a problem.
#[cold]
pub(crate) fn debug(text: std::fmt::Arguments<'_>) {
    contained(|| events::debug(text));
}
