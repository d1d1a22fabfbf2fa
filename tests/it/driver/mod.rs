//! The driver: its selection, the table, the C interface, and tests that need a process of their own.

mod choice;
mod fork;
mod fork_busy;
pub(crate) mod process;
pub(crate) mod strange_driver;
pub(crate) mod wild_addresses;
