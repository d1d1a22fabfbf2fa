//! Contexts, their stack, and scopes.

#[cfg(all(feature = "green", feature = "graph"))]
mod alike;
mod cache;
#[cfg(all(feature = "green", feature = "graph", feature = "tracing"))]
mod changed;
mod deep;
#[cfg(all(feature = "green", feature = "graph"))]
mod ended;
mod flags;
mod functions;
#[cfg(all(feature = "graph", feature = "green"))]
pub(crate) mod green;
#[cfg(all(feature = "graph", feature = "green"))]
mod green_held;
#[cfg(all(feature = "graph", feature = "green"))]
mod green_kernels;
mod guard;
mod limits;
mod owned;
mod peer;
mod primary;
mod stack;
mod tombstones;
pub(crate) mod unowned;
