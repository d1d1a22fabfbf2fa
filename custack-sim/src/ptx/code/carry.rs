//! Sums, differences and products with carry: they use the carry flag, set it, or both.

use super::super::arith::int::Int;
use super::super::inst::Kind;
use super::super::run::{Lane, Lanes, Reg, WARP};
use super::super::types::{Class, Type};
use super::super::{Refusal, unknown};
use super::arithmetic::{PARTS, Part, with_int};
use super::opcode::Opcode;
use super::operands::Operands;
use super::{Builder, Names};

/// The carry flag, as sums set it. After a difference it is set if nothing was borrowed: the device subtracts by
/// adding the complement, and compilers have a sum use the flag of a difference.
const CARRY: Reg = Reg { class: Class::Pred, at: 0 };

impl Builder<'_> {
    pub(super) fn addc(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let (sets, ty) = (op.has("cc"), op.ty()?);
        let (to, from) = self.alike(names, operands, ty)?;
        self.carrying(ty, to, from, false, true, sets)
    }

    pub(super) fn subc(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let (sets, ty) = (op.has("cc"), op.ty()?);
        let (to, from) = self.alike(names, operands, ty)?;
        self.carrying(ty, to, from, true, true, sets)
    }

    /// A sum or a difference that uses the carry flag, sets it, or both.
    pub(super) fn carrying(
        &mut self,
        ty: Type,
        to: Reg,
        [a, b]: [Reg; 2],
        minus: bool,
        takes: bool,
        sets: bool,
    ) -> Result<Kind, Refusal> {
        with_int!(ty, T => carry(to, [a, b, a], takes, sets, move |a: T, b: T, _: T, carry| {
            if !minus {
                return <T as Int>::addc(a, b, carry);
            }
            let (value, borrow) = <T as Int>::subc(a, b, takes && !carry);
            (value, !borrow)
        }))
    }

    pub(super) fn madc(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let (part, sets, ty) = (op.one_of(&PARTS[..2]), op.has("cc"), op.ty()?);
        let part = part.ok_or_else(|| unknown("it without .lo or .hi"))?;
        let (to, from) = self.alike(names, operands, ty)?;
        self.mad_carrying(ty, to, from, part, true, sets)
    }

    pub(super) fn mad_carrying(
        &mut self,
        ty: Type,
        to: Reg,
        from: [Reg; 3],
        part: Part,
        takes: bool,
        sets: bool,
    ) -> Result<Kind, Refusal> {
        with_int!(ty, T => carry(to, from, takes, sets, move |a: T, b: T, c: T, carry| {
            if part == Part::High { <T as Int>::madc_hi(a, b, c, carry) } else { <T as Int>::madc_lo(a, b, c, carry) }
        }))
    }
}

/// An operation that uses the carry flag, sets it, or both.
fn carry<T: Lane>(
    to: Reg,
    [a, b, c]: [Reg; 3],
    takes: bool,
    sets: bool,
    f: impl Fn(T, T, T, bool) -> (T, bool) + Send + Sync + 'static,
) -> Kind {
    Kind::Lanes(Box::new(move |lanes: &mut Lanes<'_>| {
        let (a, b, c) = (lanes.get::<T>(a), lanes.get::<T>(b), lanes.get::<T>(c));
        let carries = if takes { lanes.registers.predicate(CARRY.at) } else { 0 };
        let (mut values, mut carried) = ([T::default(); WARP], 0u32);
        for lane in 0..WARP {
            let (value, carry) = f(a[lane], b[lane], c[lane], carries >> lane & 1 != 0);
            values[lane] = value;
            carried |= u32::from(carry) << lane;
        }
        lanes.set(to, &values);
        if sets {
            lanes.registers.set_predicate(CARRY.at, carried, lanes.mask);
        }
    }))
}
