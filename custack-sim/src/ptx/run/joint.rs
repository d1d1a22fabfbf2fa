//! Instructions at which lanes of a warp wait for each other.

use super::super::inst::Kind;
use super::block::{BlockState, Env};
use super::fault::Fault;
use super::lanes::lanes_of;
use super::registers::WARP;
use super::split::State;
use super::warp::Warp;

impl Warp {
    /// Executes the instruction for the groups of lanes that are complete: all lanes that a group names are here. The
    /// other lanes wait here.
    pub(super) fn joint(
        &mut self,
        which: usize,
        active: u32,
        env: &Env<'_>,
        common: &mut BlockState,
    ) -> Result<(), Fault> {
        let which = self.only_with_waiting(which, active);
        let Some(inst) = env.body.code.get(self.splits[which].at as usize) else { return Ok(()) };
        let (Kind::Joint(members, _) | Kind::Exchange(members, _) | Kind::Converge(members)) = &inst.kind
        else {
            return Ok(());
        };
        let members = self.registers.get::<u32>(*members);
        let here = self.splits[which].mask;
        let (mut left, mut ready) = (here, 0);
        while left != 0 {
            let named = members[left.trailing_zeros() as usize];
            let same =
                lanes_of(left).filter(|lane| members[*lane] == named).fold(0, |all, lane| all | 1 << lane);
            left &= !same;
            if named & self.live & !same != 0 {
                continue;
            }
            ready |= same;
            let mut lanes = self.lanes(self.splits[which].frame, env, common);
            lanes.mask = same;
            match &inst.kind {
                Kind::Joint(_, attempt) => attempt(&mut lanes)?,
                Kind::Exchange(_, exchange) => {
                    let given = (exchange.give)(&lanes);
                    (exchange.take)(&mut lanes, &given, same);
                }
                _ => {}
            }
        }
        let split = &mut self.splits[which];
        if ready == 0 {
            split.state = State::AwaitsLanes;
        } else if ready == here {
            split.at += 1;
        } else {
            let (at, mut waiting) = (split.at, split.part(here & !ready, split.at));
            split.at = at + 1;
            waiting.state = State::AwaitsLanes;
            self.splits.push(waiting);
        }
        if ready != here {
            self.converge(env, common);
        }
        Ok(())
    }

    /// Merges these lanes with those that already wait at the same instruction into one split.
    fn only_with_waiting(&mut self, which: usize, active: u32) -> usize {
        let mut which = self.only(which, active);
        let mut other = 0;
        while other < self.splits.len() {
            let waits = self.splits[other].state == State::AwaitsLanes && other != which;
            if waits && self.splits[other].is_with(&self.splits[which]) {
                let joined = self.splits.remove(other);
                which -= usize::from(other < which);
                self.splits[which].join(&joined);
            } else {
                other += 1;
            }
        }
        self.splits[which].state = State::Ready;
        which
    }

    /// Resumes lanes that wait for others, if those have ended meanwhile, or wait at another instruction of the same
    /// kind. False if no lane can go on.
    pub(super) fn resume_joint(&mut self, env: &Env<'_>, common: &mut BlockState) -> Result<bool, Fault> {
        for which in 0..self.splits.len() {
            if self.splits[which].state != State::AwaitsLanes {
                continue;
            }
            let (at, before) = (self.splits[which].at, self.splits[which].mask);
            self.joint(which, before, env, common).map_err(|fault| env.body.locate(at, fault))?;
            if self.splits.iter().any(|split| split.state == State::Ready) {
                return Ok(true);
            }
        }
        Ok(self.converge(env, common))
    }

    /// Resumes lanes that wait for each other at different instructions. They may do so if the instructions only wait,
    /// or have the same opcode with the same modifiers.
    fn converge(&mut self, env: &Env<'_>, common: &mut BlockState) -> bool {
        // For each lane that waits: the opcode that it waits at (none if it only waits), and the lanes that it waits
        // for.
        let mut waits: [Option<(Option<u32>, u32)>; WARP] = [None; WARP];
        for split in self.splits.iter().filter(|split| split.state == State::AwaitsLanes) {
            let (what, members) = match env.body.code.get(split.at as usize).map(|inst| &inst.kind) {
                Some(Kind::Converge(members)) => (None, *members),
                Some(Kind::Exchange(members, _)) => (Some(env.body.opcode_at(split.at)), *members),
                _ => continue,
            };
            let members = self.registers.get::<u32>(members);
            lanes_of(split.mask).for_each(|lane| waits[lane] = Some((what, members[lane])));
        }
        let mut complete = 0;
        for lane in lanes_of(u32::MAX) {
            let Some((what, named)) = waits[lane].filter(|_| complete >> lane & 1 == 0) else { continue };
            let is_same = |it: &usize| waits[*it] == waits[lane];
            let same = (0..WARP).filter(is_same).fold(0, |all, it| all | 1 << it);
            if named & self.live & !same == 0 {
                complete |= same;
                if what.is_some() {
                    self.exchange(same, env, common);
                }
            }
        }
        for which in 0..self.splits.len() {
            let lanes = self.splits[which].mask & complete;
            if lanes == 0 {
                continue;
            }
            let at = self.splits[which].at;
            if lanes == self.splits[which].mask {
                self.splits[which].state = State::Ready;
                self.splits[which].at += 1;
            } else {
                let mut parted = self.splits[which].part(lanes, at + 1);
                parted.state = State::Ready;
                self.splits.push(parted);
            }
        }
        complete != 0
    }

    /// Executes an exchange between these lanes, which are at different instructions.
    fn exchange(&mut self, all: u32, env: &Env<'_>, common: &mut BlockState) {
        let mut given = [0; WARP];
        for takes in [false, true] {
            for which in 0..self.splits.len() {
                let (at, mask, frame) =
                    (self.splits[which].at, self.splits[which].mask, self.splits[which].frame);
                let kind = env.body.code.get(at as usize).map(|inst| &inst.kind);
                let Some(Kind::Exchange(_, exchange)) = kind.filter(|_| mask & all != 0) else { continue };
                let mut lanes = self.lanes(frame, env, common);
                lanes.mask = mask & all;
                if takes {
                    (exchange.take)(&mut lanes, &given, all);
                } else {
                    let own = (exchange.give)(&lanes);
                    lanes_of(mask & all).for_each(|lane| given[lane] = own[lane]);
                }
            }
        }
    }
}
