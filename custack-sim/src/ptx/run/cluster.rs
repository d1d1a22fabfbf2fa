//! A cluster: its blocks, which run in turns, their shared memory, and their barrier.
//!
//! One core of the host executes all blocks of a cluster, so that they access their shared memory without a lock.

use super::super::code::Body;
use super::block::{Block, Env, Progress};
use super::fault::{Fault, LAUNCH_TIMEOUT};
use super::shared::Place;
use super::unfold;

pub(super) struct Cluster {
    blocks: Vec<Block>,
    /// Its number in the grid.
    pub(super) index: u64,
    /// The block that had the last turn, and holds the cluster's shared memory.
    holder: usize,
    /// The block that has the next turn, if it can go on.
    next: usize,
    /// Sets of blocks, as bits: those that have ended, those that cannot go on by themselves, and those that may be
    /// waiting for others.
    ended: u32,
    stuck: u32,
    waits: u32,
}

impl Cluster {
    /// A cluster whose blocks have `threads` threads and `shared` bytes of shared memory each.
    pub(super) fn new(body: &Body, env: &Env<'_>, threads: u32, shared: usize) -> Cluster {
        let count: u32 = env.cluster.iter().product();
        let place = |rank| Place { rank, blocks: count, ended: 0 };
        let mut blocks: Vec<Block> = (0..count).map(|rank| Block::new(body, threads, place(rank))).collect();
        blocks.iter_mut().for_each(|block| block.prepare(env));
        if let Some(first) = blocks.first_mut() {
            first.common.shared = vec![0; shared * count as usize];
        }
        Cluster { blocks, index: 0, holder: 0, next: 0, ended: 0, stuck: 0, waits: 0 }
    }

    /// Restarts with the threads of another cluster of the grid.
    pub(super) fn begin(&mut self, index: u64, env: &Env<'_>) {
        self.index = index;
        (self.next, self.ended, self.stuck, self.waits) = (0, 0, 0, 0);
        let shared = &mut self.blocks[self.holder].common.shared;
        // Not for an empty vector: `fill` would cost time even there.
        if !shared.is_empty() {
            shared.fill(0);
        }
        if let [block] = &mut self.blocks[..] {
            return block.begin(unfold(index, env.grid), env);
        }
        let cluster = unfold(index, std::array::from_fn(|axis| env.grid[axis] / env.cluster[axis]));
        for (rank, block) in self.blocks.iter_mut().enumerate() {
            let within = unfold(rank as u64, env.cluster);
            block.begin(std::array::from_fn(|axis| cluster[axis] * env.cluster[axis] + within[axis]), env);
        }
    }

    /// Executes until all threads have ended, or until `budget` instructions are executed.
    pub(super) fn run(&mut self, env: &Env<'_>, budget: &mut u64) -> Result<Progress, Fault> {
        if let [block] = &mut self.blocks[..] {
            return match block.run(env, budget)? {
                Progress::Stuck => Err(self.is_stuck(env)),
                progress => Ok(progress),
            };
        }
        let all = (1u32 << self.blocks.len()) - 1;
        let idle = self.ended | self.stuck;
        let mut after = (0..self.blocks.len()).map(|by| (self.next + by) % self.blocks.len());
        let which = after.find(|which| idle >> which & 1 == 0).unwrap_or(self.holder);
        self.next = which + 1;
        if which != self.holder {
            let shared = std::mem::take(&mut self.blocks[self.holder].common.shared);
            self.blocks[which].common.shared = shared;
            self.holder = which;
        }
        let block = &mut self.blocks[which];
        block.common.place.ended = self.ended;
        match block.run(env, budget)? {
            Progress::Done => self.ended |= 1 << which,
            Progress::Stuck => self.stuck |= 1 << which,
            Progress::Waits => self.waits |= 1 << which,
            Progress::Turn => self.waits = 0,
        }
        self.complete_barrier(env);
        if self.ended == all {
            return Ok(Progress::Done);
        }
        if self.ended | self.stuck == all {
            return Err(self.is_stuck(env));
        }
        if self.ended | self.stuck | self.waits == all {
            self.waits = 0;
            return Ok(Progress::Waits);
        }
        Ok(Progress::Turn)
    }

    /// Resumes the blocks that wait at the cluster's barrier, if all have arrived.
    fn complete_barrier(&mut self, env: &Env<'_>) {
        let mut any = false;
        for block in &self.blocks {
            let (all_there, some_there) = block.is_at_cluster();
            if !all_there {
                return;
            }
            any |= some_there;
        }
        if any {
            self.blocks.iter_mut().for_each(|block| block.leave_cluster(env));
            (self.stuck, self.waits) = (0, 0);
        }
    }

    /// Describes where the threads are that have not ended.
    pub(super) fn positions(&self, env: &Env<'_>) -> String {
        let left = self.blocks.iter().enumerate().filter(|(rank, _)| self.ended >> rank & 1 == 0);
        left.map(|(_, block)| block.positions(env)).collect::<Vec<_>>().join("; ")
    }

    /// The fault of threads that wait for each other for ever.
    #[cold]
    fn is_stuck(&self, env: &Env<'_>) -> Fault {
        let why = "its threads wait for each other, and none can go on";
        Fault::new(LAUNCH_TIMEOUT, format!("{why}: {}", self.positions(env)))
    }
}
