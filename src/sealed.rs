//! What keeps other crates from implementing the traits that only this crate's types can be sound for.

/// A supertrait that no other crate can name.
pub trait Sealed {}
