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
use crate::memory::View;
use std::time::Duration;

/// The number of instructions that a warp executes before the next warp has its turn.
const TURN: u32 = 1 << 16;

/// The number of accesses by which threads may be waiting after which a block ends its turn, for other blocks to go
/// on.
const WAITS_PER_TURN: u32 = 1 << 10;
/// The same in later turns: there may be as many waiting blocks as there are blocks, and each only looks once more in
/// vain.
const WAITS_PER_LATER_TURN: u32 = 1 << 4;

/// A sleep up to this length is passed by letting others run: a sleep of the host's thread would take longer.
const SHORT_SLEEP: Duration = Duration::from_micros(20);
/// A block that sleeps pauses the host's thread at most this long at a time, so that the other blocks on it can go on.
const LONGEST_PAUSE: Duration = Duration::from_micros(100);

/// What all blocks of a launch use.
pub(super) struct Env<'a> {
    pub(super) body: &'a Body,
    pub(super) view: &'a View,
    pub(super) parameters: &'a [u8],
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    /// The sizes of a cluster, in blocks.
    pub(super) cluster: [u32; 3],
    pub(super) running: &'a Running<'a>,
}

/// The state that the warps of a block share.
pub(super) struct BlockState {
    /// The shared memory of all blocks of the cluster. Only the block whose turn it is holds it.
    pub(super) shared: Vec<u8>,
    pub(super) place: Place,
    pub(super) barriers: Barriers,
    pub(super) ctaid: [u32; 3],
    /// The number of accesses by which threads may be waiting, in the present turn of the block.
    pub(super) waits: u32,
}

pub(super) struct Block {
    pub(super) common: BlockState,
    warps: Vec<Warp>,
    /// The warp whose turn it is.
    turn: usize,
    most_waits: u32,
}

/// How the turn of a block has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Done,
    /// Its threads may be waiting for threads of other blocks.
    Waits,
    /// All its threads wait for each other or at the cluster's barrier: they cannot go on by themselves.
    Stuck,
    /// It has executed as many instructions as a turn has.
    Turn,
}

impl Block {
    pub(super) fn new(body: &Body, threads: u32, place: Place) -> Block {
        let warps = (0..threads.div_ceil(WARP as u32)).map(|number| Warp::new(body, number)).collect();
        let barriers = Barriers::new(place.blocks > 1);
        let common = BlockState { shared: Vec::new(), place, barriers, ctaid: [0; 3], waits: 0 };
        Block { common, warps, turn: 0, most_waits: WAITS_PER_TURN }
    }

    /// Fills the registers whose values do not depend on the block.
    pub(super) fn prepare(&mut self, env: &Env<'_>) {
        for warp in &mut self.warps {
            let first = warp.number * WARP as u32;
            for (register, fixed) in &env.body.fixed {
                let values = env.running.values(fixed, first, [0; 3], self.common.place.rank);
                warp.registers.set_bits(*register, &values, ALL);
            }
        }
    }

    /// Restarts with the threads of another block.
    pub(super) fn begin(&mut self, [x, y, z]: [u32; 3], env: &Env<'_>) {
        // Element by element: several that are written one by one and then read at once would stall the host's
        // processor.
        let ctaid = &mut self.common.ctaid;
        (ctaid[0], ctaid[1], ctaid[2]) = (x, y, z);
        let threads: u32 = env.block.iter().product();
        for warp in &mut self.warps {
            let first = warp.number * WARP as u32;
            warp.begin(env.body, threads - first);
            for (register, axis) in &env.body.of_block {
                set_all(warp, *register, self.common.ctaid[*axis as usize]);
            }
            for (register, special) in &env.body.of_place {
                let values = env.running.values(&Fixed::Special(*special), first, self.common.ctaid, 0);
                warp.registers.set_bits(*register, &values, ALL);
            }
        }
        (self.turn, self.most_waits) = (0, WAITS_PER_TURN);
        self.common.barriers.begin(self.warps.iter().map(|warp| warp.live));
    }

    /// Executes until all threads have ended, or until `budget` instructions are executed.
    pub(super) fn run(&mut self, env: &Env<'_>, budget: &mut u64) -> Result<Progress, Fault> {
        self.common.waits = 0;
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
                let stop = warp.run(env, &mut self.common, &mut left)?;
                *budget -= u64::from(granted - left);
                let waits = stop == Stop::Waits && left == granted;
                (stuck, idle) = (stuck && waits, idle && waits);
                done &= stop == Stop::Done;
                if *budget == 0 {
                    return Ok(Progress::Turn);
                }
                let complete = self.common.barriers.complete();
                if complete != 0 {
                    let barriers = &self.common.barriers;
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
                // All threads that could go on are asleep.
                if left > SHORT_SLEEP {
                    std::thread::sleep(left.min(LONGEST_PAUSE));
                }
                return Ok(Progress::Waits);
            }
            if self.common.waits > self.most_waits {
                self.most_waits = WAITS_PER_LATER_TURN;
                return Ok(Progress::Waits);
            }
        }
    }

    /// Whether all its threads that have not ended have arrived at the cluster's barrier, and whether any thread has.
    pub(super) fn is_at_cluster(&self) -> (bool, bool) {
        self.common.barriers.is_at_cluster()
    }

    /// Resumes the threads that wait at the cluster's barrier.
    pub(super) fn leave_cluster(&mut self, env: &Env<'_>) {
        let complete = self.common.barriers.leave_cluster();
        let barriers = &self.common.barriers;
        self.warps.iter_mut().for_each(|warp| warp.release(complete, &env.body.code, barriers));
    }

    /// Describes where its threads are.
    #[cold]
    pub(super) fn positions(&self, env: &Env<'_>) -> String {
        let mut threads = Vec::new();
        for warp in self.warps.iter().filter(|warp| warp.live != 0).take(8) {
            for split in warp.splits.iter().take(4) {
                let (line, opcode) = env.body.written_at(split.at);
                let at = match split.state {
                    State::Waits(CLUSTER) => " at the barrier of the cluster".to_owned(),
                    State::Waits(number) => format!(" at barrier {number}"),
                    State::AwaitsLanes => " for other lanes".to_owned(),
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
        format!("block {:?}:{}", self.common.ctaid, threads.join(";"))
    }
}

fn set_all(warp: &mut Warp, register: Reg, value: u32) {
    warp.registers.set(register, &[value; WARP], ALL);
}
