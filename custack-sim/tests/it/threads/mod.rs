//! Whether the threads of a kernel go on, meet and wait for each other as those of a device do.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

mod barriers;
mod calls;
mod clusters;
mod lanes;
mod many;
mod program;
mod stuck;
mod waits;

use crate::gpu::{Size, pushed};
use crate::harness::{is_simulated, run, skip};
use program::{launched, program};

/// Skips the test on a GPU, where there are other sentences, or none and no end.
fn simulated(test: &str) -> bool {
    if !is_simulated() {
        skip(test, "it is about the simulated driver's sentences and limits");
    }
    is_simulated()
}

/// What the threads of a kernel leave in as many numbers, which are 0 at first.
#[track_caller]
fn left_by(
    declarations: &str,
    lines: &str,
    grid: impl Into<Size> + Send,
    block: impl Into<Size> + Send,
    words: usize,
) -> Vec<u32> {
    let mut left = Vec::new();
    run(|| {
        let _ctx = pushed();
        left = launched(&program(declarations, lines), grid, block, &vec![0; words]).unwrap();
    });
    left
}

/// What the threads of a block leave, each in its number.
#[track_caller]
fn block(lines: &str, threads: u32) -> Vec<u32> {
    left_by(".shared .align 16 .b8 s[8192];", lines, 1, threads, threads as usize)
}

/// The same numbers from a function of each thread's number.
fn each(threads: u32, f: impl Fn(u32) -> u32) -> Vec<u32> {
    (0..threads).map(f).collect()
}
