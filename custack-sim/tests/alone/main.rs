//! What a driver answers, call by call: the tests have its state to themselves, one after the other.
//!
//! `facts` are observations of an H200, `trace` plays long sequences of calls and compares the answers with recorded ones, and
//! `controls` is about what only the simulated driver has. They run unchanged on both drivers, as those of the binary `it`.

// The tests call the table.
#![allow(unsafe_code)]

#[macro_use]
#[path = "../it/harness.rs"]
#[allow(dead_code, reason = "what the tests of the binary `it` use")]
mod harness;
#[macro_use]
#[path = "../it/gpu.rs"]
#[allow(dead_code, reason = "as above")]
mod gpu;
#[path = "../it/child.rs"]
mod child;

mod allocations;
mod controls;
mod facts;
mod large;
mod limit;
mod pool;
mod trace;

use custack_sim::instrument;
use std::time::{Duration, Instant};

/// Whether a test waits until no other runs.
const ONE_AT_A_TIME: bool = true;

/// Like [`run`](harness::run); afterwards no context may be left.
#[track_caller]
fn run_alone(test: impl FnOnce() + Send) {
    let _turn = harness::turn();
    harness::begun();
    harness::table();
    settle();
    let before = (instrument::contexts_alive(), instrument::primary_retains());
    harness::on_fresh_thread(test);
    // Fewer are left if what a launch of an earlier test used has been released only now. What a graph keeps goes some time
    // after its last launch.
    let begun = Instant::now();
    loop {
        let after = (instrument::contexts_alive(), instrument::primary_retains());
        if after.0 <= before.0 && after.1 <= before.1 {
            return;
        }
        let left_over = format_args!("contexts, retains left over: {after:?}, and {before:?} before");
        assert!(begun.elapsed().as_secs() < 5, "{left_over}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until nothing that earlier tests used goes any more: a launch lets go of what it used some time after it is
/// done, on a thread of the driver, and no call tells when it has.
fn settle() {
    let left = || (custack_sim::objects(), custack_sim::allocations(), instrument::contexts_alive());
    let (mut last, mut looks) = (left(), 0);
    while looks < 10 {
        std::thread::sleep(Duration::from_millis(1));
        let now = left();
        looks = if now == last { looks + 1 } else { 0 };
        last = now;
    }
}

#[test]
#[ignore = "started by other tests, each time in a process of its own"]
fn in_a_process_of_its_own() {
    child::play(&[("misuse", facts::device::misuse), ("failing launches", facts::kernels::failing_launches)]);
}
