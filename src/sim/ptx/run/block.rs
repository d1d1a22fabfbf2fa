//! A block: its warps in turn, its shared memory, its barriers.

use super::super::code::{Body, Fixed};
use super::barrier::Barriers;
use super::fault::{Fault, LAUNCH_TIMEOUT};
use super::grid::Running;
use super::registers::{ALL, Reg, WARP};
use super::split::State;
use super::unfold;
use super::warp::{Stop, Warp};
use crate::sim::memory::View;

/// A warp executes so many instructions before the next one has its turn.
const TURN: u32 = 1 << 16;

/// After so many accesses by which threads wait for others, those of other blocks have their turn.
const PATIENCE: u32 = 1 << 10;
/// The same where they have had it before: as many blocks may look in vain as there are.
const AGAIN: u32 = 1 << 4;

/// What the blocks of a launch have in common.
pub(super) struct Env<'a> {
    pub(super) body: &'a Body,
    pub(super) view: &'a View,
    pub(super) parameters: &'a [u8],
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) running: &'a Running<'a>,
}

/// What the warps of a block have in common.
pub(super) struct Floor {
    pub(super) shared: Vec<u8>,
    pub(super) barriers: Barriers,
    pub(super) ctaid: [u32; 3],
    /// Accesses by which threads may wait, in the block's turn.
    pub(super) waits: u32,
}

pub(super) struct Block {
    floor: Floor,
    warps: Vec<Warp>,
    /// The warp whose turn it is.
    turn: usize,
    patience: u32,
}

/// How a block's turn has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Done,
    /// Its threads may wait for those of other blocks.
    Waits,
    /// It has executed as many instructions as it may at a time.
    Turn,
}

impl Block {
    pub(super) fn new(body: &Body, threads: u32, shared: usize) -> Block {
        let warps = (0..threads.div_ceil(WARP as u32)).map(|number| Warp::new(body, number)).collect();
        let floor = Floor { shared: vec![0; shared], barriers: Barriers::default(), ctaid: [0; 3], waits: 0 };
        Block { floor, warps, turn: 0, patience: PATIENCE }
    }

    /// Fills the registers whose values do not depend on the block.
    pub(super) fn prepare(&mut self, env: &Env<'_>) {
        for warp in &mut self.warps {
            let first = warp.number * WARP as u32;
            for (register, fixed) in &env.body.fixed {
                let values = env.running.values(fixed, first, [0; 3]);
                warp.registers.set_bits(*register, &values, ALL);
            }
        }
    }

    /// Begins with the threads of another block.
    pub(super) fn begin(&mut self, index: u64, env: &Env<'_>) {
        let [x, y, z] = unfold(index, env.grid);
        // One at a time: a processor waits where it reads several at once that it has just written one by one.
        let ctaid = &mut self.floor.ctaid;
        (ctaid[0], ctaid[1], ctaid[2]) = (x, y, z);
        // To fill nothing, where no memory is, is what a processor may find hard.
        if !self.floor.shared.is_empty() {
            self.floor.shared.fill(0);
        }
        let threads: u32 = env.block.iter().product();
        for warp in &mut self.warps {
            let first = warp.number * WARP as u32;
            warp.begin(env.body, threads - first);
            for (register, axis) in &env.body.of_block {
                set_all(warp, *register, self.floor.ctaid[*axis as usize]);
            }
            for (register, special) in &env.body.of_place {
                let values = env.running.values(&Fixed::Special(*special), first, self.floor.ctaid);
                warp.registers.set_bits(*register, &values, ALL);
            }
        }
        (self.turn, self.patience) = (0, PATIENCE);
        self.floor.barriers.begin(self.warps.iter().map(|warp| warp.live));
    }

    /// Goes on until all threads have ended, or `budget` instructions are executed.
    pub(super) fn run(&mut self, env: &Env<'_>, budget: &mut u64) -> Result<Progress, Fault> {
        self.floor.waits = 0;
        loop {
            let (mut done, mut stuck) = (true, true);
            for _ in 0..self.warps.len() {
                self.turn = if self.turn + 1 < self.warps.len() { self.turn + 1 } else { 0 };
                let warp = &mut self.warps[self.turn];
                if warp.live == 0 {
                    continue;
                }
                let granted = TURN.min(u32::try_from(*budget).unwrap_or(TURN));
                let mut left = granted;
                let stop = warp.run(env, &mut self.floor, &mut left)?;
                *budget -= u64::from(granted - left);
                stuck &= stop == Stop::Waits && left == granted;
                done &= stop == Stop::Done;
                if *budget == 0 {
                    return Ok(Progress::Turn);
                }
                let complete = self.floor.barriers.complete();
                if complete != 0 {
                    let barriers = &self.floor.barriers;
                    self.warps.iter_mut().for_each(|warp| warp.release(complete, &env.body.code, barriers));
                    (stuck, done) = (false, false);
                }
            }
            if done {
                return Ok(Progress::Done);
            }
            if stuck {
                return Err(self.stuck(env));
            }
            if self.floor.waits > self.patience {
                self.patience = AGAIN;
                return Ok(Progress::Waits);
            }
        }
    }

    /// The threads wait for each other for ever.
    #[cold]
    fn stuck(&self, env: &Env<'_>) -> Fault {
        let mut text = "its threads wait for each other, and none can go on:".to_owned();
        for warp in self.warps.iter().filter(|warp| warp.live != 0).take(8) {
            for split in warp.splits.iter().take(4) {
                let (line, opcode) = env.body.written_at(split.at);
                let at = match split.state {
                    State::Waits(number) => format!("at barrier {number}"),
                    _ => "for other lanes".to_owned(),
                };
                let first =
                    unfold((warp.number * WARP as u32 + split.mask.trailing_zeros()).into(), env.block);
                let count = split.mask.count_ones();
                text.push_str(&format!(
                    " {count} threads of warp {} (the first is {first:?}) {at} in line {line}, {opcode};",
                    warp.number
                ));
            }
        }
        text.pop();
        let block = self.floor.ctaid;
        Fault::new(LAUNCH_TIMEOUT, format!("block {block:?}: {text}"))
    }
}

fn set_all(warp: &mut Warp, register: Reg, value: u32) {
    warp.registers.set(register, &[value; WARP], ALL);
}
