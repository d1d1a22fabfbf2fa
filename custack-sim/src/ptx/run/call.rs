//! Calls of functions.

use super::super::code::{Body, Function};
use super::super::inst::{Call, Target};
use super::block::{BlockState, Env};
use super::builtin;
use super::fault::{Fault, ILLEGAL_ADDRESS, INVALID_PROGRAM_COUNTER, LAUNCH_FAILED};
use super::lanes::lanes_of;
use super::local::Tops;
use super::registers::{Range, Saved, blend};
use super::warp::Warp;
use super::{FUNCTION_STEP, FUNCTIONS};
use std::sync::Arc;

/// The maximum size of a thread's local memory, in bytes, as on the device.
const MOST_LOCAL: usize = 512 << 10;
/// Each call takes at least this many bytes of the stack in addition to what the text declares: a compiler keeps the
/// return address and the caller's registers there.
const CALL: usize = 16;
/// The maximum depth of calls.
const MOST_CALLS: usize = 1 << 14;
/// The maximum size of the saved registers of a warp, in bytes: recursive calls save the registers of the outer calls.
const MOST_SAVED: usize = 256 << 20;

/// A call that has not returned.
#[derive(Clone)]
pub(super) struct Frame {
    /// The return address: the instruction after the call.
    back: u32,
    /// Where the caller's frame begins in local memory.
    below: usize,
    /// For each result: its offset in the callee's frame, its offset in the caller's frame, and its size in bytes.
    returned: Arc<[(usize, usize, usize)]>,
    /// The values of the function's registers before the call, if an outer call of the same function may not have
    /// returned.
    saved: Option<Arc<Saved>>,
    /// The size of the saved values of this call and of all outer calls, in bytes.
    saved_bytes: usize,
    /// How far the lanes' stacks were in use, if any was.
    tops: Option<Arc<Tops>>,
    /// The registers of the function.
    range: Range,
    /// The function's number.
    function: u32,
}

impl Frame {
    pub(super) fn place(&self) -> (u32, usize) {
        (self.back, self.below)
    }

    /// Takes over the saved values of these lanes.
    pub(super) fn join(&mut self, other: &Frame, mask: u32) {
        if let (Some(own), Some(its)) = (&mut self.saved, &other.saved) {
            if !Arc::ptr_eq(own, its) {
                Arc::make_mut(own).join(its, mask);
            }
        }
        if let Some(its) = &other.tops {
            let own = Arc::make_mut(self.tops.get_or_insert_with(|| Arc::new(Tops::default())));
            blend(own, its, mask);
        }
    }
}

impl Warp {
    pub(super) fn call(
        &mut self,
        which: usize,
        active: u32,
        call: &Call,
        env: &Env<'_>,
        common: &mut BlockState,
    ) -> Result<(), Fault> {
        let which = self.only(which, active);
        match &call.target {
            Target::Builtin(which_one) => {
                let frame = self.splits[which].frame;
                let places = builtin::Places { passed: &call.passed, returned: &call.returned };
                let lanes = &mut self.lanes(frame, env, common);
                lanes.mask = active;
                builtin::call(*which_one, &places, lanes, env)?;
                self.splits[which].at += 1;
                Ok(())
            }
            Target::Function(number) => self.enter(which, *number, call, env),
            Target::Pointer(register) => {
                let addresses = self.registers.get::<u64>(*register);
                let mut left = active;
                while left != 0 {
                    let address = addresses[left.trailing_zeros() as usize];
                    let same = lanes_of(left).filter(|lane| addresses[*lane] == address);
                    let same = same.fold(0, |all, lane| all | 1 << lane);
                    left &= !same;
                    let number = function_at(address, env.body).ok_or_else(|| {
                        Fault::new(
                            INVALID_PROGRAM_COUNTER,
                            format!("{address:#x} is not a function's address"),
                        )
                    })?;
                    if left == 0 {
                        self.enter(which, number, call, env)?;
                    } else {
                        let at = self.splits[which].at;
                        let parted = self.splits[which].part(same, at);
                        self.splits.push(parted);
                        self.enter(self.splits.len() - 1, number, call, env)?;
                    }
                }
                Ok(())
            }
        }
    }

    fn enter(&mut self, which: usize, number: u32, call: &Call, env: &Env<'_>) -> Result<(), Fault> {
        let (body, stack) = (env.body, env.running.launch.stack);
        let Some(function) = body.functions.get(number as usize) else { return Ok(()) };
        let Function { at, local, range, is_recursive, .. } = function;
        let at = match at {
            Ok(at) => *at,
            Err(why) => return Err(Fault::new(LAUNCH_FAILED, why.clone())),
        };
        let split = &mut self.splits[which];
        let (below, frame) = (split.frame, split.frame + call.frame);
        let saved = is_recursive.then(|| Arc::new(self.registers.save(range)));
        let before = split.frames.last().map_or(0, |frame| frame.saved_bytes);
        let saved_bytes = before + saved.as_ref().map_or(0, |saved| saved.bytes());
        // A function that is called by its address may have other parameters than the call declares.
        let places = call.passed.iter().map(|(_, to, size)| to + size);
        let end =
            places.chain(call.returned.iter().map(|(_, from, size)| from + size)).fold(*local, usize::max);
        if frame + end > MOST_LOCAL || split.frames.len() == MOST_CALLS || saved_bytes > MOST_SAVED {
            let why =
                format!("{} calls are in each other, which is too many for the stack", split.frames.len());
            return Err(Fault::new(ILLEGAL_ADDRESS, why));
        }
        // Only recursive calls are checked: for calls whose depth the text determines, the stack is always large
        // enough.
        let used = (frame + end).saturating_sub(body.local) + CALL * split.frames.len();
        if *is_recursive && used > stack && split.frames.iter().any(|frame| frame.function == number) {
            let depth = split.frames.len();
            let why = format!("{depth} calls are in each other, and the stack of a thread has {stack} bytes");
            return Err(Fault::new(ILLEGAL_ADDRESS, why));
        }
        self.local.grow(frame + end);
        for (from, to, size) in &call.passed {
            self.local.copy(below + from, frame + to, *size, split.mask);
        }
        split.frames.push(Frame {
            back: split.at + 1,
            below,
            returned: call.returned.iter().copied().collect(),
            saved,
            saved_bytes,
            tops: self.local.has_stack().then(|| Arc::new(self.local.tops())),
            range: *range,
            function: number,
        });
        split.frame = frame;
        split.at = at;
        Ok(())
    }

    /// Returns from a function. In the kernel itself, it ends the threads.
    pub(super) fn return_from(&mut self, which: usize, active: u32, common: &mut BlockState) {
        if self.splits[which].frames.is_empty() {
            return self.exit(which, active, common);
        }
        let which = self.only(which, active);
        let split = &mut self.splits[which];
        let Some(frame) = split.frames.pop() else { return };
        for (to, from, size) in frame.returned.iter() {
            self.local.copy(split.frame + from, frame.below + to, *size, active);
        }
        if self.local.has_stack() {
            self.local.restore_tops(frame.tops.as_deref(), active);
        }
        if let Some(saved) = &frame.saved {
            self.registers.restore(&frame.range, saved, active);
        }
        split.at = frame.back;
        split.frame = frame.below;
    }
}

/// The number of the function that has this address.
fn function_at(address: u64, body: &Body) -> Option<u32> {
    let offset = address.checked_sub(FUNCTIONS).filter(|offset| offset % FUNCTION_STEP == 0)?;
    let number = offset / FUNCTION_STEP;
    body.by_number.get(&number).copied()
}
