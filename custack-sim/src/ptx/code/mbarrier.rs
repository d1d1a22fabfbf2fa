//! `mbarrier`: barriers in words of shared memory, whose layout PTX leaves open.
//!
//! Here the lowest bit is the parity of the phase. The number of arrivals that each phase expects follows, then the
//! arrivals that the present phase still waits for, and the bytes that are still to be copied, which may be negative
//! for a while.

use super::super::inst::Kind;
use super::super::run::{Lanes, Reg, lanes_of};
use super::super::types::{Class, Type};
use super::super::{Refusal, Space, unknown, wrong};
use super::lanes::lanes1;
use super::memory::Order;
use super::opcode::Opcode;
use super::operands::{Operands, exactly};
use super::{Builder, Names};

/// The masks of the fields: the numbers of arrivals have 20 bits, and that of bytes has 21 and a sign.
const ARRIVALS: u64 = (1 << 20) - 1;
const BYTES: u64 = (1 << 22) - 1;

#[derive(Clone, Copy)]
struct Counts {
    phase: u64,
    expected: u64,
    pending: u64,
    bytes: i64,
}

impl Counts {
    fn of(word: u64) -> Counts {
        Counts {
            phase: word & 1,
            expected: word >> 1 & ARRIVALS,
            pending: word >> 21 & ARRIVALS,
            bytes: (word << 1) as i64 >> 42,
        }
    }

    fn word(self) -> u64 {
        let bytes = self.bytes as u64 & BYTES;
        self.phase | (self.expected & ARRIVALS) << 1 | (self.pending & ARRIVALS) << 21 | bytes << 41
    }

    /// Begins the next phase if all arrivals and bytes of this one are complete.
    fn completed(self) -> Counts {
        if self.pending & ARRIVALS != 0 || self.bytes != 0 {
            return self;
        }
        Counts { phase: self.phase ^ 1, pending: self.expected, ..self }
    }

    fn arrived(self, count: u32) -> Counts {
        Counts { pending: self.pending.wrapping_sub(count.into()), ..self }.completed()
    }

    fn expecting(self, bytes: u32) -> Counts {
        Counts { bytes: self.bytes + i64::from(bytes), ..self }
    }
}

/// The effect of an instruction on a barrier; the number is an operand.
type Change = fn(Counts, u32) -> Counts;

impl Builder<'_> {
    pub(super) fn mbarrier(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let what = op.next().unwrap_or_default();
        Order::of(op);
        let space = op.space();
        if !op.has("b64") {
            return Err(wrong("it without .b64"));
        }
        match what {
            "init" => {
                let init: Change =
                    |_, count| Counts { phase: 0, expected: count.into(), pending: count.into(), bytes: 0 };
                let [address, count] = exactly(operands)?;
                let count = self.source(names, count, Type::U(4))?;
                self.change(names, address, space, None, count, init)
            }
            "inval" => {
                let [address] = exactly(operands)?;
                let none = self.bits(Class::B32, 0);
                self.change(names, address, space, None, none, |_, _| Counts::of(0))
            }
            "expect_tx" | "complete_tx" => {
                let change: Change = if what == "expect_tx" {
                    Counts::expecting
                } else {
                    |counts, bytes| Counts { bytes: counts.bytes - i64::from(bytes), ..counts }.completed()
                };
                let [address, bytes] = exactly(operands)?;
                let bytes = self.source(names, bytes, Type::U(4))?;
                self.change(names, address, space, None, bytes, change)
            }
            "arrive" | "arrive_drop" => self.arrive(names, op, space, operands, what == "arrive_drop"),
            "test_wait" | "try_wait" => self.wait_for_phase(names, op, space, operands, what == "try_wait"),
            "pending_count" => {
                let (to, [state]) = self.typed(names, operands, Type::U(4), [Type::B(8)])?;
                Ok(lanes1(to, state, |state: u64| Counts::of(state).pending as u32))
            }
            _ => Err(unknown("this instruction")),
        }
    }

    fn arrive(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        space: Space,
        operands: Operands<'_, '_>,
        drops: bool,
    ) -> Result<Kind, Refusal> {
        let (expects, has_count) = (op.has("expect_tx"), op.has("noComplete"));
        let (state, address, count) = match operands {
            [state, address] if !expects && !has_count => (state, address, self.bits(Class::B32, 1)),
            [state, address, count] => (state, address, self.source(names, count, Type::U(4))?),
            other => return Err(wrong(format!("{} operands", other.len()))),
        };
        let state = self.to(names, state, Type::B(8))?;
        let change: Change = match (drops, expects) {
            (false, false) => Counts::arrived,
            (false, true) => |counts, bytes| counts.expecting(bytes).arrived(1),
            (true, false) => |counts, count| dropped(counts, count).arrived(count),
            (true, true) => |counts, bytes| dropped(counts, 1).expecting(bytes).arrived(1),
        };
        self.change(names, address, space, Some(state), count, change)
    }

    /// Whether a phase is complete, which a state or a parity identifies.
    fn wait_for_phase(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        space: Space,
        operands: Operands<'_, '_>,
        has_time: bool,
    ) -> Result<Kind, Refusal> {
        let ty = if op.has("parity") { Type::U(4) } else { Type::B(8) };
        let (to, address, phase) = match operands {
            [to, address, phase] => (to, address, phase),
            [to, address, phase, time] if has_time => {
                self.source(names, time, Type::U(4))?;
                (to, address, phase)
            }
            other => return Err(wrong(format!("{} operands", other.len()))),
        };
        let (to, phase) = (self.to(names, to, Type::Pred)?, self.source(names, phase, ty)?);
        let (base, offset) = self.address(names, address)?;
        Ok(Kind::Volatile(Box::new(move |lanes| {
            let (addresses, phases) = (lanes.addresses(base, offset), lanes.registers.bits(phase));
            let mut complete = 0;
            for lane in lanes_of(lanes.mask) {
                let word = lanes.load_one(lane, space, addresses[lane], 8)? as u64;
                complete |= u32::from(Counts::of(word).phase != phases[lane] as u64 & 1) << lane;
            }
            lanes.registers.set_predicate(to.at, complete, lanes.mask);
            Ok(())
        })))
    }

    /// `cp.async.mbarrier.arrive`: an arrival when the thread's copies are complete, which they are at once. Without
    /// `.noinc` the expected number is incremented for it, so that nothing changes.
    pub(super) fn arrive_after_copies(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        if !op.has("arrive") || !op.has("b64") {
            return Err(unknown("this instruction"));
        }
        let change: Change = if op.has("noinc") { Counts::arrived } else { |counts, _| counts };
        let space = op.space();
        let [address] = exactly(operands)?;
        let one = self.bits(Class::B32, 1);
        self.change(names, address, space, None, one, change)
    }

    /// Changes the barrier of each lane, one lane after the other, and returns what it was before.
    fn change(
        &mut self,
        names: &Names<'_, '_>,
        address: &[super::Token],
        space: Space,
        before: Option<Reg>,
        with: Reg,
        change: Change,
    ) -> Result<Kind, Refusal> {
        let (base, offset) = self.address(names, address)?;
        Ok(Kind::Volatile(Box::new(move |lanes: &mut Lanes<'_>| {
            let (addresses, with) = (lanes.addresses(base, offset), lanes.get::<u32>(with));
            let old =
                lanes.update(space, &addresses, |lane, word| change(Counts::of(word), with[lane]).word())?;
            if let Some(before) = before {
                lanes.set::<u64>(before, &old);
            }
            Ok(())
        })))
    }
}

/// The effect of `arrive_drop`: this and later phases expect fewer arrivals.
fn dropped(counts: Counts, count: u32) -> Counts {
    Counts { expected: counts.expected.wrapping_sub(count.into()), ..counts }
}
