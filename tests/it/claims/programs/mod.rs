//! Random safe programs: owners, handles, guards, scopes, memory and streams on several threads, in any order, in
//! callbacks, on threads that end and with driver calls that fail, compared with an oracle that predicts each thread's
//! driver stack and each call's answer.

mod act;
mod answers;
mod deeds;
mod green;
mod oracle;
mod perform;
mod run;
mod stacks;
mod world;

use crate::harness::{is_simulated, run_alone, times};
use act::Act;
use custack::sim;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The threads that live as long as the program.
const THREADS: usize = 3;

type Program = Vec<(usize, Act)>;

fn run_programs(cases: u32, length: usize, creates: u32, most: usize) {
    static STEPS: AtomicUsize = AtomicUsize::new(0);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
    let steps = prop::collection::vec((0..THREADS, act::acts(creates)), 1..2 * length);
    let mut runner = TestRunner::new_with_rng(config, rng());
    let result = runner.run(&steps, |program: Program| {
        let steps = run::check(&program, most).map_err(TestCaseError::fail)?;
        let done = STEPS.fetch_add(steps, Ordering::Relaxed);
        if done / 100_000 != (done + steps) / 100_000 {
            println!("{} steps", done + steps);
        }
        Ok(())
    });
    println!("programs: {cases} with {} steps", STEPS.load(Ordering::Relaxed));
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, program)) => {
            let lines: String =
                program.iter().map(|(thread, act)| format!("  {thread}: {act:?}\n")).collect();
            panic!("{reason}\nof the program\n{lines}");
        }
        Err(error) => panic!("{error}"),
    }
}

fn rng() -> TestRng {
    match asked("CUSTACK_PROGRAM_SEED", 0) {
        0 => TestRng::deterministic_rng(RngAlgorithm::ChaCha),
        seed => TestRng::from_seed(RngAlgorithm::ChaCha, &[seed.to_le_bytes(); 8].concat()),
    }
}

fn asked(name: &str, default: u32) -> u32 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn random_safe_programs_do_what_the_oracle_says() {
    run_alone(|| {
        sim::reuse_handles(true);
        sim::reuse_addresses(true);
        deeds::prepare();
        if is_simulated() {
            run::crowd();
        }
        let (cases, length, creates, most) =
            if is_simulated() { (times(40, 280), 160, 6, 40) } else { (6, 1000, 1, 6) };
        run_programs(
            asked("CUSTACK_PROGRAMS", cases),
            asked("CUSTACK_PROGRAM_LENGTH", length) as usize,
            creates,
            most,
        );
        sim::reuse_addresses(false);
        sim::reuse_handles(false);
    });
}
