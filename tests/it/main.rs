//! custack's tests: one binary with the folders of `src` and `claims/`, the same on the simulated driver and on the
//! NVIDIA driver.
//!
//! `cargo test` uses whichever driver is available (`CUSTACK_DRIVER=cuda` or `=sim` to insist). Tests that a driver
//! cannot run are skipped with a message; see `harness`.

#![cfg_attr(
    not(all(
        feature = "future",
        feature = "graph",
        feature = "green",
        feature = "library",
        feature = "pool",
        feature = "processes",
        feature = "texture"
    )),
    allow(dead_code, unused_imports, reason = "only tests of the features use some of it")
)]

mod harness;

// One chapter, one name: `stream` tests `src/stream`.
mod context;
mod device;
mod driver;
mod error;
mod event;
mod function;
#[cfg(feature = "future")]
mod future;
#[cfg(feature = "graph")]
mod graph;
#[cfg(feature = "library")]
mod library;
mod liveness;
mod memory;
mod module;
#[cfg(feature = "nvrtc")]
mod nvrtc;
#[cfg(feature = "tracing")]
mod report;
mod stream;
#[cfg(feature = "texture")]
mod texture;

// Claims across the chapters, and claims about the source itself.
#[cfg(all(
    feature = "future",
    feature = "graph",
    feature = "green",
    feature = "nvrtc",
    feature = "processes",
    feature = "texture"
))]
mod claims;
mod tidy;
