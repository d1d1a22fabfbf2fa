//! The driver: its selection, and tests that need a process of their own.

mod choice;
mod fork;
#[cfg(all(feature = "future", feature = "graph", feature = "library"))]
mod fork_busy;
pub(crate) mod process;
pub(crate) mod strange_driver;
#[cfg(all(feature = "library", feature = "pool", feature = "processes", feature = "texture"))]
pub(crate) mod wild_addresses;
