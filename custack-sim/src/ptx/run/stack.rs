//! Memory that the threads of a warp take from their stacks while they run.

use super::super::inst::Stack;
use super::super::types::Class;
use super::block::{BlockState, Env};
use super::fault::{Fault, ILLEGAL_ADDRESS, LAUNCH_FAILED};
use super::lanes::lanes_of;
use super::local::STACK;
use super::registers::{Reg, WARP};
use super::warp::Warp;

impl Warp {
    /// Each lane has a stack of its own, which begins behind all other local memory, and grows upwards.
    pub(super) fn change_stack(
        &mut self,
        frame: usize,
        active: u32,
        what: &Stack,
        (env, common): (&Env<'_>, &mut BlockState),
    ) -> Result<(), Fault> {
        let most = env.running.launch.stack.saturating_sub(env.body.local);
        let mut tops = self.local.tops();
        let words = |warp: &Warp, register: Reg| -> [u64; WARP] {
            match register.class {
                Class::B64 => warp.registers.get(register),
                _ => warp.registers.get::<u32>(register).map(u64::from),
            }
        };
        let mut found = [0u64; WARP];
        match what {
            Stack::Save(_) => found = tops.map(|top| STACK as u64 + u64::from(top)),
            Stack::Restore(from) => {
                let to = words(self, *from);
                for lane in lanes_of(active) {
                    let top = to[lane].wrapping_sub(STACK as u64);
                    if top > tops[lane].into() {
                        let why = format!("a stack is restored to {:#x}, which it has not reached", to[lane]);
                        return Err(Fault::new(LAUNCH_FAILED, why));
                    }
                    tops[lane] = top as u32;
                }
            }
            Stack::Allocate { size, align, .. } => {
                let sizes = words(self, *size);
                for lane in lanes_of(active) {
                    let at = u64::from(tops[lane]).next_multiple_of((*align).into());
                    let end = at.saturating_add(sizes[lane]);
                    if end > most as u64 {
                        let why = format!("{} bytes of a stack, which has {most}", sizes[lane]);
                        return Err(Fault::new(ILLEGAL_ADDRESS, why));
                    }
                    found[lane] = STACK as u64 + at;
                    tops[lane] = end as u32;
                }
            }
        }
        self.local.set_tops(&tops);
        if let Stack::Save(to) | Stack::Allocate { to, .. } = what {
            let mut lanes = self.lanes(frame, env, common);
            lanes.mask = active;
            match to.class {
                Class::B64 => lanes.set(*to, &found),
                _ => lanes.set(*to, &found.map(|at| at as u32)),
            }
        }
        Ok(())
    }
}
