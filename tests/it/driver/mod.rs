//! The driver: its selection, the table, the C interface, and tests that need a process of their own.

mod abi;
mod choice;
pub(crate) mod process;
mod strange_driver;
