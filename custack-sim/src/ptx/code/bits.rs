//! Operations on the bits of integers: logic, shifts, fields, permutations of bytes, and dot products of bytes and
//! halves.

use super::super::arith::bits::{self, Permute};
use super::super::arith::int::Int;
use super::super::inst::Kind;
use super::super::run::{Lanes, WARP, pack};
use super::super::tokens::Token;
use super::super::types::{Class, Type};
use super::super::{Refusal, unknown, wrong};
use super::arithmetic::with_int;
use super::compare::results;
use super::lanes::{lanes1, lanes2, lanes3, lanes4, predicates};
use super::opcode::Opcode;
use super::operands::Operands;
use super::{Builder, Names};

impl Builder<'_> {
    pub(super) fn logic(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let (name, ty) = (op.name, op.ty()?);
        let (to, from) = self.alike(names, operands, ty)?;
        macro_rules! of {
            ($make:ident $(, $ty:ty)?) => {
                match name {
                    "and" => $make(to, from, |a $(: $ty)?, b $(: $ty)?| a & b),
                    "or" => $make(to, from, |a $(: $ty)?, b $(: $ty)?| a | b),
                    _ => $make(to, from, |a $(: $ty)?, b $(: $ty)?| a ^ b),
                }
            };
        }
        Ok(match ty.class() {
            Class::Pred => of!(predicates),
            Class::B16 => of!(lanes2, u16),
            Class::B32 => of!(lanes2, u32),
            Class::B64 => of!(lanes2, u64),
            Class::B128 => return Err(unknown(format!("it of type {ty}"))),
        })
    }

    pub(super) fn not(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let ty = op.ty()?;
        let (to, [from]) = self.alike(names, operands, ty)?;
        Ok(match ty.class() {
            Class::Pred => predicates(to, [from, from], |a, _| !a),
            Class::B16 => lanes1(to, from, |a: u16| !a),
            Class::B32 => lanes1(to, from, |a: u32| !a),
            Class::B64 => lanes1(to, from, |a: u64| !a),
            Class::B128 => return Err(unknown(format!("it of type {ty}"))),
        })
    }

    pub(super) fn cnot(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let ty = op.ty()?;
        let (to, [from]) = self.alike(names, operands, ty)?;
        with_int!(ty, T => lanes1(to, from, <T as Int>::cnot))
    }

    pub(super) fn lop3(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let (combine, ty) = (op.one_of(&[("or", false), ("and", true)]), op.ty()?);
        let [to, a, b, c, [Token::Int(table)], with @ ..] = operands else {
            return Err(wrong("its table is a number"));
        };
        let table = u8::try_from(*table).map_err(|_| wrong("its table has 8 bits"))?;
        let (to, second) = results(to);
        let (to, from) = self.alike(names, &[to, a, b, c], ty)?;
        let (and, second, with) = match (combine, self.second_predicate(names, second)?, with) {
            (None, None, []) => return Ok(lanes3(to, from, move |a, b, c| bits::lop3(a, b, c, table))),
            (Some(and), Some(second), [with]) => (and, second, self.source(names, with, Type::Pred)?),
            _ => return Err(wrong("a predicate goes with .or and .and")),
        };
        Ok(Kind::Lanes(Box::new(move |lanes: &mut Lanes<'_>| {
            let [a, b, c] = from.map(|from| lanes.get::<u32>(from));
            let values: [u32; WARP] =
                std::array::from_fn(|lane| bits::lop3(a[lane], b[lane], c[lane], table));
            let (set, with) = (pack(&values.map(|value| value != 0)), lanes.registers.predicate(with.at));
            lanes.set(to, &values);
            lanes.registers.set_predicate(second.at, if and { set & with } else { set | with }, lanes.mask);
        })))
    }

    pub(super) fn shift(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let (left, ty) = (op.name == "shl", op.ty()?);
        let (to, from) = self.typed(names, operands, ty, [ty, Type::U(4)])?;
        with_int!(ty, T => if left {
            lanes2(to, from, <T as Int>::shl)
        } else {
            lanes2(to, from, <T as Int>::shr)
        })
    }

    pub(super) fn funnel(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let left = op.one_of(&[("l", true), ("r", false)]).ok_or_else(|| unknown("it without .l or .r"))?;
        let wrap = op
            .one_of(&[("wrap", true), ("clamp", false)])
            .ok_or_else(|| unknown("it without .wrap or .clamp"))?;
        let ty = op.ty()?;
        let (to, from) = self.alike(names, operands, ty)?;
        Ok(if left {
            lanes3(to, from, move |a, b, by| bits::shf_l(wrap, a, b, by))
        } else {
            lanes3(to, from, move |a, b, by| bits::shf_r(wrap, a, b, by))
        })
    }

    /// `popc` and `clz`.
    pub(super) fn count_bits(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let (ones, ty) = (op.name == "popc", op.ty()?);
        let (to, [from]) = self.typed(names, operands, Type::U(4), [ty])?;
        with_int!(ty, T => if ones { lanes1(to, from, <T as Int>::popc) } else { lanes1(to, from, <T as Int>::clz) })
    }

    pub(super) fn brev(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let ty = op.ty()?;
        let (to, [from]) = self.alike(names, operands, ty)?;
        with_int!(ty, T => lanes1(to, from, <T as Int>::brev))
    }

    pub(super) fn bfind(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let (amount, ty) = (op.has("shiftamt"), op.ty()?);
        let (to, [from]) = self.typed(names, operands, Type::U(4), [ty])?;
        with_int!(ty, T => if amount {
            lanes1(to, from, <T as Int>::bfind_shift)
        } else {
            lanes1(to, from, <T as Int>::bfind)
        })
    }

    pub(super) fn fns(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let ty = op.ty()?;
        let (to, from) = self.typed(names, operands, ty, [ty, Type::U(4), Type::S(4)])?;
        Ok(lanes3(to, from, bits::fns))
    }

    pub(super) fn bfe(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let ty = op.ty()?;
        let (to, from) = self.typed(names, operands, ty, [ty, Type::U(4), Type::U(4)])?;
        with_int!(ty, T => lanes3(to, from, <T as Int>::bfe))
    }

    pub(super) fn bfi(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let ty = op.ty()?;
        let (to, from) = self.typed(names, operands, ty, [ty, ty, Type::U(4), Type::U(4)])?;
        Ok(match ty.class() {
            Class::B32 => lanes4(to, from, bits::bfi32),
            Class::B64 => lanes4(to, from, bits::bfi64),
            _ => return Err(unknown(format!("it of type {ty}"))),
        })
    }

    pub(super) fn prmt(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let modes = [
            ("f4e", Permute::F4e),
            ("b4e", Permute::B4e),
            ("rc8", Permute::Rc8),
            ("ecl", Permute::Ecl),
            ("ecr", Permute::Ecr),
            ("rc16", Permute::Rc16),
        ];
        let (mode, ty) = (op.one_of(&modes).unwrap_or(Permute::Plain), op.ty()?);
        let (to, from) = self.alike(names, operands, ty)?;
        Ok(lanes3(to, from, move |a, b, selector| bits::prmt(mode, a, b, selector)))
    }

    pub(super) fn bmsk(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let wrap = op
            .one_of(&[("wrap", true), ("clamp", false)])
            .ok_or_else(|| unknown("it without .wrap or .clamp"))?;
        let ty = op.ty()?;
        let (to, from) = self.alike(names, operands, ty)?;
        Ok(lanes2(to, from, move |a, b| bits::bmsk(wrap, a, b)))
    }

    pub(super) fn szext(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let wrap = op
            .one_of(&[("wrap", true), ("clamp", false)])
            .ok_or_else(|| unknown("it without .wrap or .clamp"))?;
        let ty = op.ty()?;
        let (to, from) = self.typed(names, operands, Type::U(4), [Type::U(4), Type::U(4)])?;
        Ok(lanes2(to, from, move |a, b| bits::szext(wrap, ty.is_signed(), a, b)))
    }

    pub(super) fn dp4a(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let [a_signed, b_signed] = [op.ty()?.is_signed(), op.ty()?.is_signed()];
        let (to, from) = self.alike(names, operands, Type::U(4))?;
        Ok(lanes3(to, from, move |a, b, c| bits::dp4a(a_signed, b_signed, a, b, c)))
    }

    pub(super) fn dp2a(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let hi = op.one_of(&[("hi", true), ("lo", false)]).ok_or_else(|| unknown("it without .lo or .hi"))?;
        let [a_signed, b_signed] = [op.ty()?.is_signed(), op.ty()?.is_signed()];
        let (to, from) = self.alike(names, operands, Type::U(4))?;
        Ok(lanes3(to, from, move |a, b, c| bits::dp2a(hi, a_signed, b_signed, a, b, c)))
    }
}
