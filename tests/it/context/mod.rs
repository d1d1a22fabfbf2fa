//! Contexts, their stack, and scopes.

mod cache;
mod deep;
mod flags;
mod functions;
pub(crate) mod green;
mod green_held;
mod green_kernels;
mod guard;
mod limits;
mod owned;
mod peer;
mod primary;
mod stack;
pub(crate) mod unowned;
