//! A block: its warps in turn, its shared memory, its barriers.

use super::super::code::{Body, Fixed};
use super::barrier::{Barriers, CLUSTER};
use super::fault::Fault;
use super::grid::Running;
use super::registers::{ALL, Reg, WARP};
use super::shared::Place;
use super::split::State;
use super::unfold;
use super::warp::{Stop, Warp};
use crate::sim::memory::View;
use std::time::Duration;

/// A warp executes so many instructions before the next one has its turn.
const TURN: u32 = 1 << 16;

/// After so many accesses by which threads wait for others, those of other blocks have their turn.
const PATIENCE: u32 = 1 << 10;
/// The same where they have had it before: as many blocks may look in vain as there are.
const AGAIN: u32 = 1 << 4;

/// A sleep that the host's processor does not leave to others.
const SHORT: Duration = Duration::from_micros(20);
/// A block that sleeps lets those that share its processor look so often whether they have slept enough.
const NAP: Duration = Duration::from_micros(100);

/// What the blocks of a launch have in common.
pub(super) struct Env<'a> {
    pub(super) body: &'a Body,
    pub(super) view: &'a View,
    pub(super) parameters: &'a [u8],
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    /// How many blocks a cluster has.
    pub(super) cluster: [u32; 3],
    pub(super) running: &'a Running<'a>,
}

/// What the warps of a block have in common.
pub(super) struct Floor {
    /// The shared memory of all blocks of the cluster, which the block has while it has its turn.
    pub(super) shared: Vec<u8>,
    pub(super) place: Place,
    pub(super) barriers: Barriers,
    pub(super) ctaid: [u32; 3],
    /// Accesses by which threads may wait, in the block's turn.
    pub(super) waits: u32,
}

pub(super) struct Block {
    pub(super) floor: Floor,
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
    /// Its threads wait for each other, or at the barrier of the cluster: by themselves they do not go on.
    Stuck,
    /// It has executed as many instructions as it may at a time.
    Turn,
}

impl Block {
    pub(super) fn new(body: &Body, threads: u32, place: Place) -> Block {
        let warps = (0..threads.div_ceil(WARP as u32)).map(|number| Warp::new(body, number)).collect();
        let barriers = Barriers::new(place.blocks > 1);
        let floor = Floor { shared: Vec::new(), place, barriers, ctaid: [0; 3], waits: 0 };
        Block { floor, warps, turn: 0, patience: PATIENCE }
    }

    /// Fills the registers whose values do not depend on the block.
    pub(super) fn prepare(&mut self, env: &Env<'_>) {
        for warp in &mut self.warps {
            let first = warp.number * WARP as u32;
            for (register, fixed) in &env.body.fixed {
                let values = env.running.values(fixed, first, [0; 3], self.floor.place.rank);
                warp.registers.set_bits(*register, &values, ALL);
            }
        }
    }

    /// Begins with the threads of another block.
    pub(super) fn begin(&mut self, [x, y, z]: [u32; 3], env: &Env<'_>) {
        // One at a time: a processor waits where it reads several at once that it has just written one by one.
        let ctaid = &mut self.floor.ctaid;
        (ctaid[0], ctaid[1], ctaid[2]) = (x, y, z);
        let threads: u32 = env.block.iter().product();
        for warp in &mut self.warps {
            let first = warp.number * WARP as u32;
            warp.begin(env.body, threads - first);
            for (register, axis) in &env.body.of_block {
                set_all(warp, *register, self.floor.ctaid[*axis as usize]);
            }
            for (register, special) in &env.body.of_place {
                let values = env.running.values(&Fixed::Special(*special), first, self.floor.ctaid, 0);
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
            let (mut done, mut stuck, mut idle) = (true, true, true);
            let mut sleep = None;
            for _ in 0..self.warps.len() {
                self.turn = if self.turn + 1 < self.warps.len() { self.turn + 1 } else { 0 };
                let warp = &mut self.warps[self.turn];
                if warp.live == 0 {
                    continue;
                }
                if let Some(left) = warp.sleeps() {
                    sleep = Some(sleep.map_or(left, |least: Duration| least.min(left)));
                    (stuck, done) = (false, false);
                    continue;
                }
                let granted = TURN.min(u32::try_from(*budget).unwrap_or(TURN));
                let mut left = granted;
                let stop = warp.run(env, &mut self.floor, &mut left)?;
                *budget -= u64::from(granted - left);
                let waits = stop == Stop::Waits && left == granted;
                (stuck, idle) = (stuck && waits, idle && waits);
                done &= stop == Stop::Done;
                if *budget == 0 {
                    return Ok(Progress::Turn);
                }
                let complete = self.floor.barriers.complete();
                if complete != 0 {
                    let barriers = &self.floor.barriers;
                    self.warps.iter_mut().for_each(|warp| warp.release(complete, &env.body.code, barriers));
                    (stuck, done, idle) = (false, false, false);
                }
            }
            if done {
                return Ok(Progress::Done);
            }
            if stuck {
                return Ok(Progress::Stuck);
            }
            if let Some(left) = sleep.filter(|_| idle) {
                // All that could go on sleeps. Short sleeps are over before the host's would be.
                if left > SHORT {
                    std::thread::sleep(left.min(NAP));
                }
                return Ok(Progress::Waits);
            }
            if self.floor.waits > self.patience {
                self.patience = AGAIN;
                return Ok(Progress::Waits);
            }
        }
    }

    /// Whether all its threads that have not ended have arrived at the barrier of the cluster, and whether any have.
    pub(super) fn is_at_cluster(&self) -> (bool, bool) {
        self.floor.barriers.is_at_cluster()
    }

    /// Lets the threads go on that wait at the barrier of the cluster.
    pub(super) fn leave_cluster(&mut self, env: &Env<'_>) {
        let complete = self.floor.barriers.leave_cluster();
        let barriers = &self.floor.barriers;
        self.warps.iter_mut().for_each(|warp| warp.release(complete, &env.body.code, barriers));
    }

    /// Where its threads are.
    #[cold]
    pub(super) fn standing(&self, env: &Env<'_>) -> String {
        let mut threads = Vec::new();
        for warp in self.warps.iter().filter(|warp| warp.live != 0).take(8) {
            for split in warp.splits.iter().take(4) {
                let (line, opcode) = env.body.written_at(split.at);
                let at = match split.state {
                    State::Waits(CLUSTER) => " at the barrier of the cluster".to_owned(),
                    State::Waits(number) => format!(" at barrier {number}"),
                    State::Joins => " for other lanes".to_owned(),
                    State::Ready => String::new(),
                };
                let first =
                    unfold((warp.number * WARP as u32 + split.mask.trailing_zeros()).into(), env.block);
                threads.push(format!(
                    " {} threads of warp {} (the first is {first:?}){at} in line {line}, {opcode}",
                    split.mask.count_ones(),
                    warp.number
                ));
            }
        }
        format!("block {:?}:{}", self.floor.ctaid, threads.join(";"))
    }
}

fn set_all(warp: &mut Warp, register: Reg, value: u32) {
    warp.registers.set(register, &[value; WARP], ALL);
}
