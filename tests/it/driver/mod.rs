//! The driver: which one, the table, the C interface, and what takes a process of its own.

mod abi;
mod choice;
pub(crate) mod process;
mod strange_driver;
