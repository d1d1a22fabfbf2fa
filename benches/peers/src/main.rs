//! custack beside the raw driver and its peers: one process, one run, one table.
//!
//! `cargo run --release -- DATA.tsv [REPETITIONS]` prints the table and the targets, and writes every figure to the
//! file; `cargo run --release --bin plot -- DATA.tsv PLOT.svg` plots it. It builds without CUDA but needs a GPU to
//! measure. Arguments `--only TEXT` select the tasks whose names contain one of the texts.

// One file measures two libraries that have the same names.
#![allow(clippy::duplicate_mod)]

#[cfg(feature = "cuda-async")]
#[path = "cuda_async_.rs"]
mod cuda_async;
mod cudarc_;
mod measure;
mod ours;
mod oxicuda;
mod raw;
mod rusta;
mod table;
mod targets;
mod tasks;

use measure::{Bench, Row};
use rusta::Contexts;
use std::time::Instant;
use tasks::LONG;

const THREADS: [usize; 5] = [1, 2, 4, 8, 16];

/// How a library prepares its benches, or says why it cannot.
type Prepare = fn(&Contexts) -> Result<Vec<Bench>, String>;

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut only = Vec::new();
    while let Some(at) = arguments.iter().position(|argument| argument == "--only") {
        only.extend(arguments.drain(at..(at + 2).min(arguments.len())).nth(1));
    }
    let file = arguments.first().map_or("peers.tsv", String::as_str);
    let repetitions = arguments.get(1).and_then(|text| text.parse().ok()).unwrap_or(15);

    match custack::driver::current() {
        Ok(driver) => println!("Running on {driver}."),
        Err(error) => println!("No driver: {error}"),
    }
    let libraries: &[(&str, Prepare)] = &[
        ("raw", raw::benches),
        ("custack", ours::benches),
        ("rustacuda", rusta::benches),
        ("cudarc", cudarc_::benches),
        ("oxicuda", oxicuda::benches),
        #[cfg(feature = "cuda-async")]
        ("cuda-async", cuda_async::benches),
    ];
    let contexts = match rusta::contexts() {
        Ok(contexts) => contexts,
        Err(error) => return println!("No contexts: {error:?}"),
    };
    let mut benches = Vec::new();
    for (name, prepare) in libraries {
        match prepare(&contexts) {
            Ok(some) => benches.extend(some),
            Err(reason) => println!("NOT MEASURED: {name}: {reason}"),
        }
    }
    benches.retain(|bench| only.is_empty() || only.iter().any(|text| bench.task.contains(text.as_str())));
    benches.retain(|bench| {
        let works = bench.works();
        if !works {
            println!("NOT MEASURED: {}: {}", bench.library, bench.task);
        }
        works
    });

    let start = Instant::now();
    let mut rows: Vec<Row> = Vec::new();
    for threads in THREADS {
        rows.extend(measure::measure(&benches, threads, repetitions));
    }
    println!("Measured in {:.0} s.", start.elapsed().as_secs_f64());
    table::print(&rows, &THREADS);
    println!("\nCores busy while one thread awaits kernels of 1 ms, one after another:");
    for bench in benches.iter().filter(|bench| bench.task == LONG) {
        let cores = bench.cores(1500).map_or("unknown".to_owned(), |cores| format!("{cores:.3}"));
        println!("  {}: {cores}", bench.library);
    }
    targets::print(&rows);
    if let Err(error) = table::write(&rows, file) {
        println!("{file} could not be written: {error}");
    }
    // Nothing is destroyed: five libraries use the contexts, and the process exits.
}
