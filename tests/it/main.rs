//! custack's tests: one binary, one file per room, the same on the simulated driver and on the NVIDIA one.
//!
//! `cargo test` runs them on whichever there is (`CUSTACK_DRIVER=cuda` or `=sim` to insist). What a driver cannot be
//! asked for is skipped aloud; see `harness`.

mod harness;

// The driver, and what is asked of it.
mod abi;
mod device;
mod driver;
mod error;
mod facts;
mod process;
mod sim;
mod strange_driver;

// Contexts.
mod cache;
mod deep;
mod flags;
mod guard;
mod limits;
mod owned;
mod peer;
mod primary;
mod stack;
mod unowned;

// What is made in contexts.
mod event;
mod image;
mod memory;
mod module;
mod ptx;
mod stream;

// Across the rooms.
mod attack;
mod bad_input;
mod cost;
mod faults;
mod faults_work;
mod foreign;
mod lifetimes;
mod liveness;
mod outside;
mod peers;
mod programs;
mod reports;
mod rustacuda;
mod threads;
mod tidy;
mod trace;
mod traits;
