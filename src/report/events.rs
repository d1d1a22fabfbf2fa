//! Reports as events of `tracing`, to whoever subscribes.

use std::fmt::Arguments;

pub(super) fn warn(text: Arguments<'_>) {
    tracing::warn!(target: "custack", "{text}");
}

pub(super) fn debug(text: Arguments<'_>) {
    tracing::debug!(target: "custack", "{text}");
}
