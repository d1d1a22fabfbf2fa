//! Keeps other crates from implementing the traits that are sound only for this crate's types.

/// A supertrait that no other crate can name.
pub trait Sealed {}
