//! custack's tests: one binary, with the folders of `src` and one more, the same on the simulated driver and on the
//! NVIDIA one.
//!
//! `cargo test` runs them on whichever there is (`CUSTACK_DRIVER=cuda` or `=sim` to insist). What a driver cannot be
//! asked for is skipped aloud; see `harness`.

mod harness;

// One chapter, one name: what `src/stream` does is tested in `stream`.
mod context;
mod device;
mod driver;
mod error;
mod event;
mod function;
mod liveness;
mod memory;
mod module;
mod report;
mod sim;
mod stream;

// What goes across the chapters, and the source itself.
mod claims;
mod tidy;
