//! Random safe programs that work in streams: events, memory in the order of streams, pools, libraries, captures and
//! graphs, of two or three contexts, on three threads in turn and at the same time, with everything dropped at any
//! moment. An oracle says which call succeeds, what the memory contains and how often a function is called; at the end
//! every kept value was dropped once, nothing is left at the driver, and no call was a misuse.

#![allow(unsafe_code)]

mod act;
mod actor;
mod captures;
mod cells;
mod crew;
mod graphs;
mod perform;
mod world;

use crate::harness::{run_alone, times};
use act::Act;
use custack::sim;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The threads of a program.
const THREADS: usize = 3;

type Program = Vec<(usize, Act)>;

fn asked(name: &str, default: u32) -> u32 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn run_programs(cases: u32, length: usize) {
    static STEPS: AtomicUsize = AtomicUsize::new(0);
    let max_shrink_iters = asked("CUSTACK_PROGRAM_SHRINK", 3_000);
    let config = Config { cases, failure_persistence: None, max_shrink_iters, ..Config::default() };
    // Threads that work at the same time may fail once and never again, so they do where a seed is given.
    let act = match asked("CUSTACK_PROGRAM_SEED", 0) {
        0 => act::acts(2).boxed(),
        _ => prop_oneof![12 => act::acts(2), 1 => act::together(THREADS)].boxed(),
    };
    let programs = (prop::collection::vec((0..THREADS, act), 1..2 * length), any::<usize>());
    let rng = match asked("CUSTACK_PROGRAM_SEED", 0) {
        0 => TestRng::deterministic_rng(RngAlgorithm::ChaCha),
        seed => TestRng::from_seed(RngAlgorithm::ChaCha, &[seed.to_le_bytes(); 8].concat()),
    };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let result = runner.run(&programs, |(program, order)| {
        let steps = crew::check(&program, order).map_err(TestCaseError::fail)?;
        let done = STEPS.fetch_add(steps, Ordering::Relaxed);
        if done / 100_000 != (done + steps) / 100_000 {
            println!("{} steps", done + steps);
        }
        Ok(())
    });
    println!("programs: {cases} with {} steps", STEPS.load(Ordering::Relaxed));
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, (program, order))) => {
            let lines: String =
                program.iter().map(|(thread, act)| format!("  {thread}: {act:?}\n")).collect();
            panic!("{reason}\nof the program, dropped in order {order},\n{lines}");
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn random_safe_programs_of_streams_memory_and_graphs_do_what_the_oracle_says() {
    run_alone(|| {
        sim::reuse_handles(true);
        // Addresses are not reused, so that every use of freed memory is an error and not another's value.
        run_programs(asked("CUSTACK_PROGRAMS", times(20, 100)), asked("CUSTACK_PROGRAM_LENGTH", 60) as usize);
        sim::reuse_handles(false);
    });
}
