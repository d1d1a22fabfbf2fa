//! Reports that nothing receives.

use std::fmt::Arguments;

pub(super) const fn warn(_: Arguments<'_>) {}

pub(super) const fn debug(_: Arguments<'_>) {}
