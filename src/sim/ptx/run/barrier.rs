//! Barriers of a block: a warp has arrived when all its threads that have not ended have.

use super::super::inst::{Barrier, How};
use super::block::Floor;
use super::fault::{Fault, LAUNCH_FAILED};
use super::registers::WARP;
use super::split::State;
use super::warp::Warp;

const BARRIERS: usize = 16;
/// That of the cluster comes behind them.
pub(super) const CLUSTER: u8 = BARRIERS as u8;
const GATES: usize = BARRIERS + 1;

/// One barrier of a block.
#[derive(Clone, Default)]
struct Gate {
    /// The lanes of each warp that have arrived.
    arrived: Vec<u32>,
    /// For how many threads it is; all of the block if that is not said.
    count: Option<u32>,
    is_used: bool,
    /// Of the predicates so far: in how many threads they were true, and whether in all.
    trues: u32,
    all: bool,
}

/// The barriers of a block.
#[derive(Default)]
pub(super) struct Barriers {
    gates: Vec<Gate>,
    /// The lanes of each warp whose threads have not ended.
    live: Vec<u32>,
    /// What the last round of each has found, for the threads that are let go.
    found: Vec<(u32, bool)>,
    /// Those that may be complete.
    changed: u32,
    /// Whether threads have arrived that do not wait: the barrier may be complete, and be as new when they arrive again.
    pub(super) has_arrived: bool,
    /// The block has others beside it in its cluster, for whose barrier they are as well.
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
        self.gates.iter_mut().for_each(|gate| gate.is_used = false);
    }

    pub(super) fn ended(&mut self, warp: u32, live: u32) {
        if let Some(known) = self.live.get_mut(warp as usize) {
            *known = live;
        }
        self.changed = u32::MAX;
    }

    fn gate(&mut self, number: usize) -> &mut Gate {
        if self.gates.is_empty() {
            self.gates = vec![Gate::default(); GATES];
            self.found = vec![(0, false); GATES];
        }
        let warps = self.live.len();
        let gate = &mut self.gates[number % GATES];
        if !gate.is_used {
            gate.arrived.clear();
            gate.arrived.resize(warps, 0);
            *gate = Gate {
                arrived: std::mem::take(&mut gate.arrived),
                is_used: true,
                all: true,
                ..Gate::default()
            };
        }
        gate
    }

    /// The lanes of a warp that have arrived at the cluster's barrier, where others have not.
    fn arrived_early(&self, warp: u32) -> u32 {
        let gate = self.gates.get(BARRIERS).filter(|gate| gate.is_used);
        gate.and_then(|gate| gate.arrived.get(warp as usize)).copied().unwrap_or(0)
    }

    /// Whether all threads have arrived at the cluster's barrier that have not ended, and whether any have arrived.
    pub(super) fn is_at_cluster(&self) -> (bool, bool) {
        match self.gates.get(BARRIERS).filter(|gate| gate.is_used) {
            Some(gate) => {
                (gate.arrived.iter().zip(&self.live).all(|(arrived, live)| live & !arrived == 0), true)
            }
            None => (self.live.iter().all(|live| *live == 0), false),
        }
    }

    /// The cluster's barrier is as new; the result is as from `complete`.
    pub(super) fn leave_cluster(&mut self) -> u32 {
        if let Some(gate) = self.gates.get_mut(BARRIERS) {
            gate.is_used = false;
        }
        1 << BARRIERS
    }

    /// The barriers that all have reached, which are as new.
    pub(super) fn complete(&mut self) -> u32 {
        let mut complete = 0;
        let changed = std::mem::take(&mut self.changed);
        for (number, gate) in self.gates.iter_mut().enumerate() {
            let is_others = number == BARRIERS && self.is_one_of_several;
            if changed >> number & 1 == 0 || !gate.is_used || is_others {
                continue;
            }
            let is_there = |(arrived, live): (&u32, &u32)| *arrived != 0 && live & !arrived == 0;
            let there = gate.arrived.iter().zip(&self.live).filter(|it| is_there(*it)).count();
            let done = match gate.count {
                Some(count) => (there * WARP) as u32 >= count,
                None => gate.arrived.iter().zip(&self.live).all(|(arrived, live)| live & !arrived == 0),
            };
            if done {
                complete |= 1 << number;
                self.found[number] = (gate.trues, gate.all);
                gate.is_used = false;
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
        floor: &mut Floor,
    ) -> Result<(), Fault> {
        if !barrier.arrives {
            return self.wait_for_cluster(which, active, floor);
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
        let gate = floor.barriers.gate(number);
        gate.count = count.or(gate.count);
        if let Some(arrived) = gate.arrived.get_mut(self.number as usize) {
            *arrived |= active;
        }
        if let Some(reduce) = &barrier.reduce {
            let set = self.registers.predicate(reduce.of.at) ^ if reduce.is_negated { u32::MAX } else { 0 };
            gate.trues += (set & active).count_ones();
            gate.all &= set & active == active;
        }
        floor.barriers.changed |= 1 << number;
        if barrier.waits {
            self.splits[which].state = State::Waits(number as u8);
        } else {
            self.splits[which].at += 1;
            floor.barriers.has_arrived = true;
        }
        Ok(())
    }

    /// The threads that have arrived wait, if others have not.
    fn wait_for_cluster(&mut self, which: usize, active: u32, floor: &mut Floor) -> Result<(), Fault> {
        let which = self.only(which, active);
        let waiting = active & floor.barriers.arrived_early(self.number);
        if waiting == 0 {
            self.splits[which].at += 1;
        } else {
            let which = self.only(which, waiting);
            self.splits[which].state = State::Waits(BARRIERS as u8);
        }
        Ok(())
    }

    /// Lets the threads go on that wait at these barriers.
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
