//! The simulated driver as kernels see it, and the C interface: the same on the simulated driver and on the NVIDIA driver.
//!
//! `cargo test -p custack-sim` uses whichever driver is available (`CUSTACK_DRIVER=cuda` or `=sim` to insist). Tests that a
//! driver cannot run are skipped with a message; see `harness`. What needs the driver to itself is in the binary `alone`.

// The tests call the table.
#![allow(unsafe_code)]

#[macro_use]
#[allow(dead_code, reason = "what the tests of the binary `alone` use")]
mod harness;
#[macro_use]
#[allow(dead_code, reason = "as above")]
mod gpu;
mod child;

mod abi;
mod instructions;
mod memory;
mod source;
mod text;
mod threads;

/// Whether a test waits until no other runs.
const ONE_AT_A_TIME: bool = false;

#[test]
#[ignore = "started by other tests, each time in a process of its own"]
fn in_a_process_of_its_own() {
    child::play(&[
        ("printf", instructions::kernels::printf::in_a_process_of_its_own),
        ("kernel", instructions::kernels::in_a_process_of_its_own),
    ]);
}
