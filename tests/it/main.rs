//! custack's tests: one binary with the folders of `src` and `claims/`, the same on the simulated driver and on the
//! NVIDIA driver.
//!
//! `cargo test` uses whichever driver is available (`CUSTACK_DRIVER=cuda` or `=sim` to insist). Tests that a driver
//! cannot run are skipped with a message; see `harness`.

mod harness;

// One chapter, one name: `stream` tests `src/stream`.
mod context;
mod device;
mod driver;
mod error;
mod event;
mod function;
mod future;
mod graph;
mod library;
mod liveness;
mod memory;
mod module;
mod nvrtc;
mod report;
mod stream;
mod texture;

// Claims across the chapters, what real compilers write, and claims about the source itself.
mod claims;
mod tidy;
