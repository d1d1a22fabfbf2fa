//! Executes kernels: one instruction at a time for the lanes of a warp.
//!
//! [`grid`] divides the clusters of a launch among the host's cores, [`cluster`] and [`block`] give each block and
//! each warp its turn, [`warp`] executes the instructions of lanes that are at the same place, and [`lanes`] has what
//! an instruction works on.

mod atomic;
mod barrier;
mod block;
mod builtin;
mod call;
mod cluster;
mod fault;
mod grid;
mod heap;
mod joint;
mod lanes;
mod local;
mod printf;
mod registers;
mod shared;
mod split;
mod stack;
mod texture;
mod unended;
mod warp;

pub(crate) use fault::Fault;
pub(crate) use grid::{Launch, limit_steps};
pub(super) use lanes::{Bytes, Lanes, lanes_of};
pub(super) use registers::{Counts, Lane, Range, Reg, WARP, are_few, each, pack};
pub(super) use shared::{in_rank, rank_of};

/// The generic addresses of shared, local and parameter memory begin here; no allocation is in these windows.
pub(super) const SHARED_WINDOW: u64 = 0x0000_5A00_0000_0000;
pub(super) const LOCAL_WINDOW: u64 = SHARED_WINDOW + WINDOW;
pub(super) const PARAM_WINDOW: u64 = LOCAL_WINDOW + WINDOW;
pub(super) const WINDOW: u64 = 1 << 40;

/// The addresses of functions begin here.
pub(super) const FUNCTIONS: u64 = 0x0000_5E00_0000_0000;
pub(super) const FUNCTION_STEP: u64 = 16;

/// The address of a function of the program.
pub(crate) fn function_address(number: usize) -> u64 {
    FUNCTIONS + FUNCTION_STEP * number as u64
}

/// The three-dimensional coordinates of a linear index, where the first dimension varies fastest.
fn unfold(index: u64, sizes: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = sizes.map(|size| u64::from(size).max(1));
    // Most launches have one dimension, and divisions are slow.
    if index < x {
        return [index as u32, 0, 0];
    }
    [index % x, index / x % y, index / (x * y)].map(|part| part as u32)
}

fn count(sizes: [u32; 3]) -> u64 {
    sizes.iter().map(|size| u64::from(*size)).product()
}
