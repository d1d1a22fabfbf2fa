//! Sums, products and quotients. Those of integers are made here; those of floats are dispatched to their modules.

use super::super::arith::int::{Int, mul24_s32, mul24_u32};
use super::super::inst::Kind;
use super::super::types::Type;
use super::super::{Refusal, unknown};
use super::lanes::{lanes1, lanes2, lanes3};
use super::opcode::Opcode;
use super::operands::Operands;
use super::{Builder, Names};

/// Evaluates an expression with `$t` as the Rust type of the integers of a PTX type.
macro_rules! with_int {
    ($ty:expr, $t:ident => $value:expr) => {
        match $ty {
            Type::U(2) | Type::B(2) => {
                type $t = u16;
                Ok($value)
            }
            Type::S(2) => {
                type $t = i16;
                Ok($value)
            }
            Type::U(4) | Type::B(4) => {
                type $t = u32;
                Ok($value)
            }
            Type::S(4) => {
                type $t = i32;
                Ok($value)
            }
            Type::U(8) | Type::B(8) => {
                type $t = u64;
                Ok($value)
            }
            Type::S(8) => {
                type $t = i64;
                Ok($value)
            }
            other => Err(unknown(format!("it of type {other}"))),
        }
    };
}
pub(super) use with_int;

/// Which part of the double-width product is the result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Low,
    High,
    Wide,
}

pub(super) const PARTS: &[(&str, Part)] = &[("lo", Part::Low), ("hi", Part::High), ("wide", Part::Wide)];

/// The type of twice the width.
fn wide(ty: Type) -> Result<Type, Refusal> {
    match ty {
        Type::U(size @ (2 | 4)) => Ok(Type::U(2 * size)),
        Type::S(size @ (2 | 4)) => Ok(Type::S(2 * size)),
        other => Err(unknown(format!("a product of two numbers of type {other} of twice the width"))),
    }
}

impl Builder<'_> {
    pub(super) fn add(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        self.sum(names, op, operands, false)
    }

    pub(super) fn sub(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        self.sum(names, op, operands, true)
    }

    fn sum(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
        minus: bool,
    ) -> Result<Kind, Refusal> {
        let carries = op.has("cc");
        let ty = op.ty()?;
        if ty.is_float() {
            return self.float_sum(names, op, operands, ty, minus);
        }
        let (to, from) = self.alike(names, operands, ty)?;
        if carries {
            return self.carrying(ty, to, from, minus, false, true);
        }
        if op.has("sat") {
            if ty != Type::S(4) {
                return Err(unknown(format!("saturation of type {ty}")));
            }
            return Ok(if minus {
                lanes2(to, from, <i32 as Int>::sub_sat)
            } else {
                lanes2(to, from, <i32 as Int>::add_sat)
            });
        }
        if matches!(ty, Type::U16x2 | Type::S16x2) && !minus {
            return Ok(lanes2(to, from, |a: u32, b: u32| halves(a, b, u16::wrapping_add)));
        }
        with_int!(ty, T => if minus {
            lanes2(to, from, <T as Int>::sub)
        } else {
            lanes2(to, from, <T as Int>::add)
        })
    }

    pub(super) fn mul(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let (part, ty) = (op.one_of(PARTS), op.ty()?);
        if ty.is_float() {
            return self.float_mul(names, op, operands, ty);
        }
        if part == Some(Part::Wide) {
            let (to, from) = self.typed(names, operands, wide(ty)?, [ty, ty])?;
            return Ok(match ty {
                Type::U(2) => lanes2(to, from, <u16 as Int>::mul_wide),
                Type::S(2) => lanes2(to, from, <i16 as Int>::mul_wide),
                Type::U(_) => lanes2(to, from, <u32 as Int>::mul_wide),
                _ => lanes2(to, from, <i32 as Int>::mul_wide),
            });
        }
        let part = part.ok_or_else(|| unknown("a product of integers without .lo, .hi or .wide"))?;
        let (to, from) = self.alike(names, operands, ty)?;
        with_int!(ty, T => match part {
            Part::High => lanes2(to, from, <T as Int>::mul_hi),
            _ => lanes2(to, from, <T as Int>::mul_lo),
        })
    }

    pub(super) fn mad(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let (part, carries, ty) = (op.one_of(PARTS), op.has("cc"), op.ty()?);
        if ty.is_float() {
            return self.float_fma(names, op, operands, ty);
        }
        if part == Some(Part::Wide) {
            let (to, from) = self.typed(names, operands, wide(ty)?, [ty, ty, wide(ty)?])?;
            return Ok(match ty {
                Type::U(2) => lanes3(to, from, <u16 as Int>::mad_wide),
                Type::S(2) => lanes3(to, from, <i16 as Int>::mad_wide),
                Type::U(_) => lanes3(to, from, <u32 as Int>::mad_wide),
                _ => lanes3(to, from, <i32 as Int>::mad_wide),
            });
        }
        let part = part.ok_or_else(|| unknown("it of integers without .lo, .hi or .wide"))?;
        let (to, from) = self.alike(names, operands, ty)?;
        if carries {
            return self.mad_carrying(ty, to, from, part, false, true);
        }
        if op.has("sat") {
            if (ty, part) != (Type::S(4), Part::High) {
                return Err(unknown(format!("saturation of type {ty}")));
            }
            return Ok(lanes3(to, from, <i32 as Int>::mad_hi_sat));
        }
        with_int!(ty, T => match part {
            Part::High => lanes3(to, from, <T as Int>::mad_hi),
            _ => lanes3(to, from, <T as Int>::mad_lo),
        })
    }

    pub(super) fn mul24(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let (part, ty) = (op.one_of(&PARTS[..2]), op.ty()?);
        let hi = part.ok_or_else(|| unknown("it without .lo or .hi"))? == Part::High;
        let (to, from) = self.alike(names, operands, ty)?;
        match ty {
            Type::U(4) => Ok(lanes2(to, from, move |a, b| mul24_u32(hi, a, b))),
            Type::S(4) => Ok(lanes2(to, from, move |a, b| mul24_s32(hi, a, b))),
            other => Err(unknown(format!("it of type {other}"))),
        }
    }

    pub(super) fn mad24(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let (part, sat, ty) = (op.one_of(&PARTS[..2]), op.has("sat"), op.ty()?);
        let hi = part.ok_or_else(|| unknown("it without .lo or .hi"))? == Part::High;
        let (to, from) = self.alike(names, operands, ty)?;
        match ty {
            Type::U(4) if !sat => {
                Ok(lanes3(to, from, move |a, b, c: u32| mul24_u32(hi, a, b).wrapping_add(c)))
            }
            Type::S(4) if sat => {
                Ok(lanes3(to, from, move |a, b, c: i32| mul24_s32(hi, a, b).saturating_add(c)))
            }
            Type::S(4) => Ok(lanes3(to, from, move |a, b, c: i32| mul24_s32(hi, a, b).wrapping_add(c))),
            other => Err(unknown(format!("it of type {other}"))),
        }
    }

    pub(super) fn sad(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let ty = op.ty()?;
        let (to, from) = self.alike(names, operands, ty)?;
        with_int!(ty, T => lanes3(to, from, <T as Int>::sad))
    }

    pub(super) fn rem(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let ty = op.ty()?;
        let (to, from) = self.alike(names, operands, ty)?;
        with_int!(ty, T => lanes2(to, from, <T as Int>::remainder))
    }

    pub(super) fn div(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let ty = op.ty()?;
        if ty.is_float() {
            return self.float_div(names, op, operands, ty);
        }
        let (to, from) = self.alike(names, operands, ty)?;
        with_int!(ty, T => lanes2(to, from, <T as Int>::quotient))
    }

    pub(super) fn abs(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let ty = op.ty()?;
        if ty.is_float() {
            return self.float_sign(names, op, operands, ty, true);
        }
        let (to, [from]) = self.alike(names, operands, ty)?;
        with_int!(ty, T => lanes1(to, from, <T as Int>::magnitude))
    }

    pub(super) fn neg(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let ty = op.ty()?;
        if ty.is_float() {
            return self.float_sign(names, op, operands, ty, false);
        }
        let (to, [from]) = self.alike(names, operands, ty)?;
        with_int!(ty, T => lanes1(to, from, <T as Int>::negated))
    }

    pub(super) fn extreme(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let greatest = op.name == "max";
        let relu = op.has("relu");
        let ty = op.ty()?;
        if ty.is_float() {
            return if relu {
                Err(unknown("the modifier .relu of it"))
            } else {
                self.float_extreme(names, op, operands, ty, greatest)
            };
        }
        let (to, from) = self.alike(names, operands, ty)?;
        match ty {
            Type::U16x2 => {
                let pick = if greatest { <u16 as Int>::greater } else { <u16 as Int>::lesser };
                return Ok(lanes2(to, from, move |a: u32, b: u32| halves(a, b, pick)));
            }
            Type::S16x2 => {
                return Ok(lanes2(to, from, move |a: u32, b: u32| {
                    halves(a, b, |a, b| {
                        let (a, b) = (a as i16, b as i16);
                        let chosen = if greatest { a.max(b) } else { a.min(b) };
                        (if relu { chosen.max(0) } else { chosen }) as u16
                    })
                }));
            }
            Type::S(4) if relu && greatest => {
                return Ok(lanes2(to, from, |a: i32, b| <i32 as Int>::relu(a.max(b))));
            }
            Type::S(4) if relu => return Ok(lanes2(to, from, |a: i32, b| <i32 as Int>::relu(a.min(b)))),
            _ if relu => return Err(unknown(format!("the modifier .relu of type {ty}"))),
            _ => {}
        }
        with_int!(ty, T => if greatest {
            lanes2(to, from, <T as Int>::greater)
        } else {
            lanes2(to, from, <T as Int>::lesser)
        })
    }
}

/// Applies a function to the lower and to the upper halves of two words.
pub(super) fn halves(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    u32::from(f((a >> 16) as u16, (b >> 16) as u16)) << 16 | u32::from(f(a as u16, b as u16))
}
