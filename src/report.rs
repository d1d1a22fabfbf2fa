//! The one place from which custack reports what it cannot return: what a destructor met, what foreign code did to
//! the stack, what a thread left behind.
//!
//! A report never panics. It may be made in a destructor, during a panic, or while a thread ends, and a subscriber
//! that stumbles there (over a thread-local of its own that is gone, for one) must not take the process with it.

#[cfg(feature = "tracing")]
macro_rules! quietly {
    ($level:ident, $text:expr) => {{
        let text = $text;
        let say = std::panic::AssertUnwindSafe(|| tracing::$level!(target: "custack", "{text}"));
        let _ = std::panic::catch_unwind(say);
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
