//! The threads of a warp. Lanes that are at the same instruction execute it together; lanes that have diverged run in
//! turns.
//!
//! Of several [splits](Split) the one at the earliest instruction goes on, so that it reaches the others and joins
//! them. One that has not reached them when its turn is used up lets the others go first, so that threads which wait
//! for each other make progress.

use super::super::code::Body;
use super::super::inst::{Inst, Kind};
use super::block::{BlockState, Env};
use super::fault::{Fault, INVALID_PROGRAM_COUNTER, LAUNCH_FAILED};
use super::lanes::{Lanes, lanes_of};
use super::local::Local;
use super::registers::{Registers, WARP};
use super::split::{Split, State, choose, next_other};
use std::time::{Duration, Instant};

/// An access by which threads may be waiting for others counts as this many instructions of a turn.
const WAITING: u32 = 1 << 16;
/// After this many such accesses the next warp has its turn.
const WAITS_PER_TURN: u32 = 1 << 4;
/// The longest sleep in nanoseconds, from NVIDIA's manual.
const LONGEST_SLEEP: u32 = 1_000_000;

fn cost(instructions: u32, waits: u32) -> u32 {
    instructions.saturating_add(waits.saturating_mul(WAITING))
}

pub(super) struct Warp {
    pub(super) registers: Registers,
    pub(super) local: Local,
    pub(super) splits: Vec<Split>,
    pub(super) number: u32,
    /// The lanes whose threads have not ended.
    pub(super) live: u32,
    /// The end of its sleep.
    wakes: Option<Instant>,
}

/// Why a warp has stopped for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// It has used up its turn, or may be waiting for other warps.
    Turn,
    /// All its threads wait.
    Waits,
    Done,
}

/// Why a split has stopped for now.
enum Pause {
    Turn,
    /// Another split is at the same instruction, or lanes have diverged: which one goes on must be chosen again.
    Choose,
    /// Its next instruction is of a kind that [`rare`](Warp::rare) executes, in these lanes.
    Rare(u32),
}

impl Warp {
    pub(super) fn new(body: &Body, number: u32) -> Warp {
        let (registers, local) = (Registers::new(&body.counts), Local::default());
        Warp { registers, local, splits: Vec::new(), number, live: 0, wakes: None }
    }

    /// Restarts with this number of threads.
    pub(super) fn begin(&mut self, body: &Body, threads: u32) {
        self.live = if threads >= WARP as u32 { u32::MAX } else { (1 << threads) - 1 };
        self.wakes = None;
        self.splits.clear();
        self.splits.resize_with(1, Split::default);
        self.splits[0].mask = self.live;
        self.splits[0].at = body.entry;
        self.local.grow(body.local);
        self.local.restore_tops(None, u32::MAX);
    }

    /// The rest of its sleep, if it sleeps.
    pub(super) fn sleeps(&mut self) -> Option<Duration> {
        let left = self.wakes?.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        if left.is_none() {
            self.wakes = None;
        }
        left
    }

    /// Executes until all threads have ended or wait, or until `budget` instructions are executed.
    pub(super) fn run(
        &mut self,
        env: &Env<'_>,
        common: &mut BlockState,
        budget: &mut u32,
    ) -> Result<Stop, Fault> {
        let mut waits = 0;
        loop {
            let Some(which) = choose(&mut self.splits) else {
                if self.live == 0 {
                    return Ok(Stop::Done);
                }
                if self.resume_joint(env, common)? {
                    continue;
                }
                return Ok(Stop::Waits);
            };
            if *budget == 0
                || self.wakes.is_some()
                || waits >= WAITS_PER_TURN
                || std::mem::take(&mut common.barriers.has_arrived)
            {
                return Ok(Stop::Turn);
            }
            let (left, executed, waited) = self.execute(which, env, common, *budget);
            *budget -= executed;
            waits += waited;
            let split = &mut self.splits[which];
            split.spend(cost(executed, waited));
            let at = split.at;
            match left.map_err(|fault| env.body.locate(at, fault))? {
                Pause::Turn => split.end_spent_turn(),
                Pause::Choose => {}
                Pause::Rare(active) => {
                    let done = self.rare(which, active, env, common);
                    done.map_err(|fault| env.body.locate(at, fault))?;
                }
            }
        }
    }

    /// What the instructions of a split work on.
    pub(super) fn lanes<'a>(
        &'a mut self,
        frame: usize,
        env: &'a Env<'_>,
        common: &'a mut BlockState,
    ) -> Lanes<'a> {
        let (shared, others) = common.place.split(&mut common.shared);
        Lanes {
            registers: &mut self.registers,
            mask: 0,
            shared,
            others,
            local: &mut self.local,
            frame,
            parameters: env.parameters,
            view: env.view,
            context: env.running.launch.context,
            region: None,
            first: self.number * WARP as u32,
            block: env.block,
            ctaid: common.ctaid,
        }
    }

    /// Executes at most `turn` instructions of a split. Returns why it stopped, the number of instructions, and how
    /// many of them are accesses by which threads may be waiting.
    fn execute(
        &mut self,
        which: usize,
        env: &Env<'_>,
        common: &mut BlockState,
        turn: u32,
    ) -> (Result<Pause, Fault>, u32, u32) {
        let Split { mut at, mask, frame, .. } = self.splits[which];
        let mut stop = next_other(&self.splits, which, at);
        let mut splits = std::mem::take(&mut self.splits);
        let mut lanes = self.lanes(frame, env, common);
        let (mut left, mut waits) = (turn, 0);
        let ended = loop {
            if left == 0 {
                break Ok(Pause::Turn);
            }
            let Some(inst) = env.body.code.get(at as usize) else {
                break Err(Fault::new(INVALID_PROGRAM_COUNTER, "there is no instruction"));
            };
            left -= 1;
            let active = match inst.guard {
                None => mask,
                Some((predicate, wanted)) => {
                    let set = lanes.registers.predicate(predicate);
                    mask & if wanted { set } else { !set }
                }
            };
            match &inst.kind {
                Kind::Lanes(compute) => {
                    if active != 0 {
                        lanes.mask = active;
                        compute(&mut lanes);
                    }
                }
                Kind::Memory(attempt) => {
                    if active != 0 {
                        lanes.mask = active;
                        if let Err(fault) = attempt(&mut lanes) {
                            break Err(fault);
                        }
                    }
                }
                Kind::Volatile(attempt) => {
                    waits += 1;
                    if active != 0 {
                        lanes.mask = active;
                        if let Err(fault) = attempt(&mut lanes) {
                            break Err(fault);
                        }
                    }
                }
                Kind::Branch(target) if active == mask => {
                    let is_back = *target <= at;
                    at = *target;
                    if is_back && splits[which].is_spent(cost(0, waits)) {
                        break Ok(Pause::Turn);
                    }
                    if splits.len() > 1 {
                        // A forward jump may pass other splits that are before its target.
                        if is_back {
                            stop = next_other(&splits, which, at.saturating_sub(1));
                        }
                        if at >= stop {
                            break Ok(Pause::Choose);
                        }
                    }
                    continue;
                }
                Kind::Branch(_) if active == 0 => {}
                Kind::Branch(target) => {
                    let mut parted = splits[which].part(active, *target);
                    parted.spend(cost(turn - left, waits));
                    if *target <= at {
                        parted.end_spent_turn();
                    }
                    splits.push(parted);
                    at += 1;
                    break Ok(Pause::Choose);
                }
                Kind::Nothing => {}
                _ => break Ok(Pause::Rare(active)),
            }
            at += 1;
            if at >= stop {
                break Ok(Pause::Choose);
            }
        };
        common.waits = common.waits.saturating_add(waits);
        splits[which].at = at;
        self.splits = splits;
        (ended, turn - left, waits)
    }

    /// Executes an instruction that may change which lanes are together, or which can go on.
    fn rare(
        &mut self,
        which: usize,
        active: u32,
        env: &Env<'_>,
        common: &mut BlockState,
    ) -> Result<(), Fault> {
        let at = self.splits[which].at;
        let Some(Inst { kind, .. }) = env.body.code.get(at as usize) else { return Ok(()) };
        if active == 0 {
            self.splits[which].at += 1;
            return Ok(());
        }
        match kind {
            Kind::BranchTo(by, targets) => self.branch_to(which, active, *by, targets),
            Kind::Call(call) => return self.call(which, active, call, env, common),
            Kind::Return => self.return_from(which, active, common),
            Kind::Exit => self.exit(which, active, common),
            Kind::Trap => return Err(Fault::new(LAUNCH_FAILED, "a trap")),
            Kind::Breakpoint => return Err(Fault::new(LAUNCH_FAILED, "a breakpoint, without a debugger")),
            Kind::Barrier(barrier) => return self.barrier(which, active, barrier, common),
            Kind::Converge(_) | Kind::Joint(..) | Kind::Exchange(..) => {
                return self.joint(which, active, env, common);
            }
            Kind::Stack(what) => {
                let frame = self.splits[which].frame;
                self.change_stack(frame, active, what, (env, common))?;
                self.splits[which].at += 1;
            }
            Kind::Sleep(nanoseconds) => {
                let all = self.registers.get::<u32>(*nanoseconds);
                let longest = lanes_of(active).map(|lane| all[lane]).max().unwrap_or(0).min(LONGEST_SLEEP);
                self.wakes = Some(Instant::now() + Duration::from_nanos(longest.into()));
                self.splits[which].at += 1;
                self.splits[which].turns += u32::from(self.splits.len() > 1);
                common.waits = common.waits.saturating_add(1);
            }
            Kind::Lanes(_) | Kind::Memory(_) | Kind::Volatile(_) | Kind::Branch(_) | Kind::Nothing => {}
        }
        Ok(())
    }

    /// Separates these lanes from the others of their split, which go on after the instruction; returns the index of
    /// the lanes' split.
    pub(super) fn only(&mut self, which: usize, active: u32) -> usize {
        let split = &mut self.splits[which];
        if split.mask == active {
            return which;
        }
        let at = split.at;
        let parted = split.part(active, at);
        split.at = at + 1;
        self.splits.push(parted);
        self.splits.len() - 1
    }

    fn branch_to(&mut self, which: usize, active: u32, by: super::registers::Reg, targets: &[u32]) {
        let numbers = self.registers.get::<u32>(by);
        let which = self.only(which, active);
        self.splits[which].end_spent_turn();
        let mut left = active;
        while left != 0 {
            let number = numbers[left.trailing_zeros() as usize];
            let same =
                lanes_of(left).filter(|lane| numbers[*lane] == number).fold(0, |all, lane| all | 1 << lane);
            left &= !same;
            // A number without a label continues after the instruction; what a device does then is undefined.
            let target = targets.get(number as usize).copied().unwrap_or(self.splits[which].at + 1);
            if left == 0 {
                self.splits[which].at = target;
            } else {
                let parted = self.splits[which].part(same, target);
                self.splits.push(parted);
            }
        }
    }

    pub(super) fn exit(&mut self, which: usize, active: u32, common: &mut BlockState) {
        let which = self.only(which, active);
        self.live &= !active;
        self.splits.remove(which);
        // Lanes that waited for these must check again.
        let joining = self.splits.iter_mut().filter(|split| split.state == State::AwaitsLanes);
        joining.for_each(|split| split.state = State::Ready);
        common.barriers.ended(self.number, self.live);
    }
}
