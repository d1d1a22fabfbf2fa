//! How many registers a thread of a kernel has. A text does not say so; without a compiler it is an estimate.

use super::code::most_live;
use super::directives::Directives;
use super::program::{Entry, Program};

/// The registers of a multiprocessor. They are divided among its four partitions, each of which executes warps of its
/// own.
const PER_PROCESSOR: u32 = 65_536;
const PARTS: u32 = 4;
/// The maximum number of registers of a thread.
const MOST: u32 = 255;
/// No option of the compiler leaves fewer.
const LEAST: u32 = 24;
/// The registers of a warp's threads are allocated in multiples of this number.
const STEP: u32 = 8;
const WARP: u32 = 32;
/// A compiler needs about this many registers beyond those that the text has in use, if there are `FEW` in all at
/// most.
const OVERHEAD: u32 = 6;
const FEW: u32 = 32;

/// How many registers the compiler is told to use at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MostRegisters {
    pub(crate) most: u32,
    /// Whatever a kernel says itself.
    pub(crate) overrides: bool,
}

/// Estimates the registers of a thread, where `live` is the greatest number that the text has in use at once.
///
/// An option of the compiler bounds them in kernels that say nothing of their registers and of their blocks.
fn estimate(live: u32, directives: &Directives, option: Option<MostRegisters>) -> u32 {
    let wanted = if live + OVERHEAD <= FEW { live + OVERHEAD } else { live.max(FEW) };
    // The directives of the kernel ask for a number of blocks, of the greatest size that they allow, to fit a
    // multiprocessor.
    let threads = match (directives.most_threads, directives.block) {
        (Some(most), _) => u32::try_from(most).unwrap_or(u32::MAX),
        (_, Some(block)) => block.iter().fold(1, |all: u32, size| all.saturating_mul(*size)),
        _ => 0,
    };
    let blocks = directives.blocks_at_once.unwrap_or(1).max(1);
    let warps = threads.div_ceil(WARP).saturating_mul(blocks).div_ceil(PARTS).max(1);
    let fitting = PER_PROCESSOR / PARTS / (warps.saturating_mul(WARP)) / STEP * STEP;
    let wins =
        |option: &MostRegisters| option.overrides || threads == 0 && directives.most_registers.is_none();
    let own = directives.most_registers.unwrap_or(MOST);
    let most = option
        .filter(wins)
        .map_or(own, |option| option.most.max(LEAST))
        .min(fitting.max(STEP))
        .clamp(STEP, MOST);
    wanted.next_multiple_of(STEP).min(most)
}

/// How many threads with this number of registers a multiprocessor has at once, in whole warps.
pub(crate) fn threads_with(registers: u32) -> u32 {
    let warp = WARP * registers.max(1).next_multiple_of(STEP);
    PER_PROCESSOR / PARTS / warp * PARTS * WARP
}

impl Program {
    /// Estimates how many registers a thread of a kernel has, from the greatest number that its text has in use at
    /// once.
    pub(crate) fn registers(&self, entry: usize) -> u32 {
        let Entry { registers, directives, function, .. } = &self.entries[entry];
        *registers.get_or_init(|| estimate(most_live(self, *function), directives, self.most_registers))
    }
}
