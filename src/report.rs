//! The one place from which custack reports what it cannot return: what a destructor met, what foreign code did to
//! the stack, what a thread left behind.
//!
//! A report never panics. It may be made in a destructor, during a panic, or while a thread ends, and a subscriber
//! that stumbles there (over a thread-local of its own that is gone, for one) must not take the process with it.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls a function of the program's, and lets no panic out of it; false if it did panic.
pub(crate) fn contained(f: impl FnOnce()) -> bool {
    let Err(payload) = catch_unwind(AssertUnwindSafe(f)) else { return true };
    // What it panicked with is of the program's too, and may panic in its turn when it is dropped.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
    false
}

#[cfg(feature = "tracing")]
macro_rules! quietly {
    ($level:ident, $text:expr) => {{
        let text = $text;
        contained(|| tracing::$level!(target: "custack", "{text}"));
    }};
}

#[cfg(not(feature = "tracing"))]
macro_rules! quietly {
    ($level:ident, $text:expr) => {{
        let _ = $text;
    }};
}

/// Something was lost or found wrong that the program should know of.
#[cold]
pub(crate) fn warn(text: std::fmt::Arguments<'_>) {
    quietly!(warn, text);
}

/// Something that is worth seeing when one looks for a cause.
#[cold]
pub(crate) fn debug(text: std::fmt::Arguments<'_>) {
    quietly!(debug, text);
}
