//! Traces: calls of the driver's context chapter on several threads, played on a driver and recorded step by step.
//!
//! [`language`] defines a step, [`generate`] makes traces from seeds, [`play`] plays one on any table with real threads
//! in the trace's total order. `tests/README.md` says what was compared with a real driver, and how to repeat it.

mod corpus;
mod crashes;
mod generate;
mod language;
mod made;
mod play;
mod random;
mod shrink;
mod state;
mod work;

use crate::harness::{is_simulated, table};
use crate::run_alone;
use custack_sys::Table;
use generate::generate;
use language::Trace;
use play::play;
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

/// The simulated driver's table, initialised, whichever driver the tests run on.
fn simulated() -> Table {
    let table = custack_sim::table();
    #[allow(unsafe_code)]
    // SAFETY: no pointers.
    let status = unsafe { (table.cuInit)(0) };
    assert_eq!(status, 0);
    table
}

/// The first step at which two runs differ.
fn divergence<O: PartialEq>(one: &[O], other: &[O]) -> Option<usize> {
    (0..one.len().max(other.len())).find(|at| one.get(*at) != other.get(*at))
}

/// A number from the environment, for runs that are started by hand.
fn asked(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn a_trace_is_written_and_read_back() {
    for seed in 0..50 {
        let trace = generate(seed, 40);
        let again = Trace::parse(&trace.to_string()).unwrap();
        assert_eq!(again, trace);
    }
}

#[test]
fn a_seed_gives_the_same_trace_each_time() {
    assert_eq!(generate(7, 100), generate(7, 100));
    assert_ne!(generate(7, 100), generate(8, 100));
}

#[test]
fn generated_traces_are_safe_and_repeat_on_the_simulated_driver() {
    run_alone(|| {
        let table = simulated();
        assert!(corpus::choose(0).iter().all(|(_, trace)| state::is_safe(trace)));
        for seed in 0..60 {
            let trace = generate(seed, 120);
            assert!(state::is_safe(&trace));
            let first = play(&trace, &table);
            assert_eq!(divergence(&first, &play(&trace, &table)), None, "seed {seed}");
        }
    });
}

#[test]
fn the_generator_reaches_every_function_of_the_chapter() {
    // The driver that answered is of CUDA 13.0, and lacks what is newer.
    let mut unreached: Vec<_> = (custack_sys::FUNCTIONS.iter().zip(custack_sys::SINCE))
        .filter(|(name, since)| {
            let chapters = ["cuCtx", "cuDevicePrimaryCtx", "cuGreenCtx", "cuDevSm", "cuDevRes"];
            chapters.iter().any(|chapter| name.starts_with(chapter)) && **since <= 13_000
        })
        .map(|(name, _)| name)
        .collect();
    for seed in 0..40 {
        let trace = generate(seed, 200);
        unreached.retain(|name| !trace.steps.iter().any(|step| step.call.function() == **name));
    }
    assert_eq!(unreached, Vec::<&&str>::new());
}

#[test]
fn the_simulated_driver_answers_what_the_h200_answered() {
    run_alone(|| {
        let table = simulated();
        let (mut traces, mut steps) = (0, 0);
        let mut differing = Vec::new();
        for recorded in corpus::read() {
            let outcomes = play(&recorded.trace, &table);
            if let Some(at) = divergence(&outcomes, &recorded.outcomes) {
                let steps = corpus::around(&recorded, &outcomes, at);
                differing.push(format!("{} differs at its step {at}:\n{steps}", recorded.name));
            }
            traces += 1;
            steps += outcomes.len();
        }
        assert!(differing.is_empty(), "{} of {traces} traces:\n{}", differing.len(), differing.join("\n"));
        assert!(traces >= 200, "{traces} traces, {steps} steps");
    });
}

/// Compares the NVIDIA driver with the simulated one, live, on traces from new seeds: in several processes, so that the
/// driver's state starts fresh and a crash costs one of them.
#[test]
#[ignore = "started by hand on a machine with a GPU; see tests/README.md"]
fn compare() {
    compare_in_processes("trace::compare_batch", "CUSTACK_TRACE_SEED", asked("CUSTACK_TRACE_PROCESSES", 8));
}

/// Runs the processes of a comparison side by side, each a `test` with a seed of its own in the variable `seed`, and
/// prints one line of totals.
fn compare_in_processes(test: &'static str, seed: &'static str, processes: u64) {
    let first = asked(seed, 1000);
    let batches: Vec<_> = (0..processes)
        .map(|batch| std::thread::spawn(move || run_batch(test, seed, first + 1000 * batch)))
        .collect();
    let batches: Vec<_> = batches.into_iter().map(|batch| batch.join().unwrap()).collect();
    let total = |at: usize| batches.iter().flatten().map(|counts| counts[at]).sum::<u64>();
    let crashed = batches.iter().filter(|counts| counts.is_none()).count();
    println!(
        "compared in all: {processes} processes, {} traces, {} calls, {} divergences, {crashed} crashes",
        total(0),
        total(1),
        total(2)
    );
    assert_eq!((total(2), crashed), (0, 0));
}

/// Runs one process of the comparison and prints its output; returns its traces, calls and divergences.
fn run_batch(test: &str, variable: &str, seed: u64) -> Option<[u64; 3]> {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", test])
        .env(variable, seed.to_string())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.stdout.take().expect("its output is piped");
    let lines = BufReader::new(output).lines().map_while(Result::ok);
    let mut last = None;
    for line in lines.filter(|line| line.contains("seed")) {
        println!("{line}");
        last = line.strip_prefix("compared: ").map(str::to_owned).or(last);
    }
    child.wait().unwrap();
    let number_before = |what: &str| -> Option<u64> {
        let words: Vec<_> = last.as_deref()?.split([' ', ',']).filter(|word| !word.is_empty()).collect();
        words.iter().position(|word| *word == what).and_then(|at| words[at - 1].parse().ok())
    };
    Some([number_before("traces")?, number_before("calls")?, number_before("divergences")?])
}

/// One process of [`compare`].
#[test]
#[ignore = "started by `compare`"]
fn compare_batch() {
    assert!(!is_simulated(), "set CUSTACK_DRIVER=cuda on a machine with a GPU");
    let (first, count) = (asked("CUSTACK_TRACE_SEED", 1), asked("CUSTACK_TRACE_COUNT", 9));
    let length = asked("CUSTACK_TRACE_LENGTH", 10_000) as usize;
    let until = Instant::now() + Duration::from_secs(asked("CUSTACK_TRACE_SECONDS", 300));
    let (real, simulated) = (table(), simulated());
    let (mut traces, mut calls, mut divergences) = (0, 0, 0);
    for seed in first..first + count {
        if Instant::now() > until {
            println!("seeds {first}..{seed}: stopped by the clock");
            break;
        }
        let trace = generate(seed, length);
        let (on_real, on_sim) = (play(&trace, real), play(&trace, &simulated));
        traces += 1;
        // Each step is a call and a query of what is current after it.
        calls += 2 * on_real.len();
        if let Some(at) = divergence(&on_real, &on_sim) {
            divergences += 1;
            println!(
                "seed {seed} differs at step {at}: {:?}\n  real {:?}\n  sim  {:?}",
                trace.steps.get(at),
                on_real.get(at),
                on_sim.get(at)
            );
            // Needs many runs, each of which makes contexts.
            if asked("CUSTACK_TRACE_SHRINK", 0) == 1 {
                let mut start = trace.clone();
                start.steps.truncate(at + 1);
                let steps = shrink::shrink(&start.steps, |steps| {
                    let trace = Trace { steps: steps.to_vec() };
                    Instant::now() < until
                        && state::is_safe(&trace)
                        && divergence(&play(&trace, real), &play(&trace, &simulated)).is_some()
                });
                let small = Trace { steps };
                println!("shrunk to:\n{}", corpus::write("counter-example", &small, &play(&small, real)));
            }
        }
        if traces % 5 == 0 {
            println!("seed {seed}: {traces} traces, {calls} calls, {divergences} divergences");
        }
    }
    println!(
        "compared: seeds {first}..{}, {traces} traces of {length} steps, {calls} calls, {divergences} divergences",
        first + count
    );
    assert_eq!(divergences, 0);
}

/// Plays the corpus's traces, or those of new seeds, on the running driver, and prints the answers.
#[test]
#[ignore = "started by hand on a machine with a GPU; see tests/README.md"]
fn record() {
    let table = table();
    let path = std::env::var("CUSTACK_TRACE_FILE").expect("CUSTACK_TRACE_FILE names the file to write");
    let (part, parts) = (asked("CUSTACK_TRACE_PART", 0), asked("CUSTACK_TRACE_PARTS", 1));
    let chosen = corpus::choose(asked("CUSTACK_TRACE_COUNT", 237) as usize);
    let mut text = String::new();
    let mut count = 0;
    let mine = chosen.iter().enumerate().filter(|(at, _)| *at as u64 % parts == part);
    for (_, (name, trace)) in mine {
        text.push_str(&corpus::write(name, trace, &play(trace, table)));
        count += 1;
        if count % 20 == 0 {
            println!("{count} traces recorded");
        }
    }
    std::fs::write(&path, text).unwrap();
    println!(
        "recorded: {count} traces on a driver that {}",
        if is_simulated() { "is simulated" } else { "is not" }
    );
}
