//! Barriers of a block. A warp has arrived at one when all its threads that have not ended have.

use super::super::inst::{Barrier, How};
use super::block::BlockState;
use super::fault::{Fault, LAUNCH_FAILED};
use super::registers::WARP;
use super::split::State;
use super::warp::Warp;

const BARRIERS: usize = 16;
/// The number of the cluster's barrier, which follows those of the block.
pub(super) const CLUSTER: u8 = BARRIERS as u8;
const ALL_BARRIERS: usize = BARRIERS + 1;

/// The state of one barrier.
#[derive(Clone, Default)]
struct BarrierState {
    /// The lanes of each warp that have arrived.
    arrived: Vec<u32>,
    /// The number of threads that it waits for; if `None`, all of the block.
    count: Option<u32>,
    is_used: bool,
    /// For a reduction: in how many of the threads that have arrived the predicate is true, and whether in all of
    /// them.
    trues: u32,
    all: bool,
}

/// The barriers of a block.
#[derive(Default)]
pub(super) struct Barriers {
    states: Vec<BarrierState>,
    /// The lanes of each warp whose threads have not ended.
    live: Vec<u32>,
    /// The result of the last reduction of each barrier, for the threads that it releases.
    found: Vec<(u32, bool)>,
    /// The barriers that may have become complete, as bits.
    changed: u32,
    /// Whether threads have arrived at a barrier without waiting. It may be complete then, and must be reset before
    /// they arrive again.
    pub(super) has_arrived: bool,
    /// Whether the cluster has other blocks, for which its barrier waits too.
    is_one_of_several: bool,
}

impl Barriers {
    pub(super) fn new(is_one_of_several: bool) -> Barriers {
        Barriers { is_one_of_several, ..Barriers::default() }
    }

    pub(super) fn begin(&mut self, live: impl ExactSizeIterator<Item = u32>) {
        self.live.resize(live.len(), 0);
        self.live.iter_mut().zip(live).for_each(|(known, live)| *known = live);
        self.changed = 0;
        self.states.iter_mut().for_each(|state| state.is_used = false);
    }

    pub(super) fn ended(&mut self, warp: u32, live: u32) {
        if let Some(known) = self.live.get_mut(warp as usize) {
            *known = live;
        }
        self.changed = u32::MAX;
    }

    fn state(&mut self, number: usize) -> &mut BarrierState {
        if self.states.is_empty() {
            self.states = vec![BarrierState::default(); ALL_BARRIERS];
            self.found = vec![(0, false); ALL_BARRIERS];
        }
        let warps = self.live.len();
        let state = &mut self.states[number % ALL_BARRIERS];
        if !state.is_used {
            state.arrived.clear();
            state.arrived.resize(warps, 0);
            *state = BarrierState {
                arrived: std::mem::take(&mut state.arrived),
                is_used: true,
                all: true,
                ..BarrierState::default()
            };
        }
        state
    }

    /// The lanes of a warp that have arrived at the cluster's barrier, while it still waits for others.
    fn arrived_early(&self, warp: u32) -> u32 {
        let state = self.states.get(BARRIERS).filter(|state| state.is_used);
        state.and_then(|state| state.arrived.get(warp as usize)).copied().unwrap_or(0)
    }

    /// Whether all threads that have not ended have arrived at the cluster's barrier, and whether any thread has
    /// arrived.
    pub(super) fn is_at_cluster(&self) -> (bool, bool) {
        match self.states.get(BARRIERS).filter(|state| state.is_used) {
            Some(state) => {
                (state.arrived.iter().zip(&self.live).all(|(arrived, live)| live & !arrived == 0), true)
            }
            None => (self.live.iter().all(|live| *live == 0), false),
        }
    }

    /// Resets the cluster's barrier; the result is as that of `complete`.
    pub(super) fn leave_cluster(&mut self) -> u32 {
        if let Some(state) = self.states.get_mut(BARRIERS) {
            state.is_used = false;
        }
        1 << BARRIERS
    }

    /// The barriers that are complete, as bits; they are reset.
    pub(super) fn complete(&mut self) -> u32 {
        let mut complete = 0;
        let changed = std::mem::take(&mut self.changed);
        for (number, state) in self.states.iter_mut().enumerate() {
            let is_others = number == BARRIERS && self.is_one_of_several;
            if changed >> number & 1 == 0 || !state.is_used || is_others {
                continue;
            }
            let is_there = |(arrived, live): (&u32, &u32)| *arrived != 0 && live & !arrived == 0;
            let there = state.arrived.iter().zip(&self.live).filter(|it| is_there(*it)).count();
            let done = match state.count {
                Some(count) => (there * WARP) as u32 >= count,
                None => state.arrived.iter().zip(&self.live).all(|(arrived, live)| live & !arrived == 0),
            };
            if done {
                complete |= 1 << number;
                self.found[number] = (state.trues, state.all);
                state.is_used = false;
            }
        }
        complete
    }
}

impl Warp {
    pub(super) fn barrier(
        &mut self,
        which: usize,
        active: u32,
        barrier: &Barrier,
        common: &mut BlockState,
    ) -> Result<(), Fault> {
        if !barrier.arrives {
            return self.wait_for_cluster(which, active, common);
        }
        let which = self.only(which, active);
        let lane = active.trailing_zeros() as usize;
        let number = self.registers.get::<u32>(barrier.number)[lane] as usize;
        if number >= BARRIERS && !barrier.is_of_cluster {
            return Err(Fault::new(LAUNCH_FAILED, format!("there is no barrier {number}")));
        }
        let count = barrier.count.map(|count| self.registers.get::<u32>(count)[lane]);
        if let Some(wrong) = count.filter(|count| *count == 0 || count % WARP as u32 != 0) {
            return Err(Fault::new(
                LAUNCH_FAILED,
                format!("a barrier for {wrong} threads, which are no whole warps"),
            ));
        }
        let state = common.barriers.state(number);
        state.count = count.or(state.count);
        if let Some(arrived) = state.arrived.get_mut(self.number as usize) {
            *arrived |= active;
        }
        if let Some(reduce) = &barrier.reduce {
            let set = self.registers.predicate(reduce.of.at) ^ if reduce.is_negated { u32::MAX } else { 0 };
            state.trues += (set & active).count_ones();
            state.all &= set & active == active;
        }
        common.barriers.changed |= 1 << number;
        if barrier.waits {
            self.splits[which].state = State::Waits(number as u8);
        } else {
            self.splits[which].at += 1;
            common.barriers.has_arrived = true;
        }
        Ok(())
    }

    /// Makes the threads that have arrived wait, unless all others have arrived too.
    fn wait_for_cluster(&mut self, which: usize, active: u32, common: &mut BlockState) -> Result<(), Fault> {
        let which = self.only(which, active);
        let waiting = active & common.barriers.arrived_early(self.number);
        if waiting == 0 {
            self.splits[which].at += 1;
        } else {
            let which = self.only(which, waiting);
            self.splits[which].state = State::Waits(BARRIERS as u8);
        }
        Ok(())
    }

    /// Resumes the threads that wait at these barriers.
    pub(super) fn release(&mut self, complete: u32, code: &[super::super::inst::Inst], barriers: &Barriers) {
        for which in 0..self.splits.len() {
            let State::Waits(number) = self.splits[which].state else { continue };
            if complete >> number & 1 == 0 {
                continue;
            }
            let (at, mask) = (self.splits[which].at, self.splits[which].mask);
            self.splits[which].state = State::Ready;
            self.splits[which].at += 1;
            let Some(inst) = code.get(at as usize) else { continue };
            let super::super::inst::Kind::Barrier(Barrier { reduce: Some(reduce), .. }) = &inst.kind else {
                continue;
            };
            let (trues, all) = barriers.found[number as usize];
            match reduce.how {
                How::Count => self.registers.set(reduce.to, &[trues; WARP], mask),
                How::All => self.registers.set(reduce.to, &[all; WARP], mask),
                How::Any => self.registers.set(reduce.to, &[trues > 0; WARP], mask),
            }
        }
    }
}
