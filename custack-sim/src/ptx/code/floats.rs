//! Arithmetic of `f32` and `f64`; that of floats of 16 bits is in [`half`](super::half).

use super::super::arith::approx;
use super::super::arith::compare::{Extreme, Property, extreme, extreme3, testp};
use super::super::arith::float::Float;
use super::super::arith::round::Rounding;
use super::super::inst::Kind;
use super::super::types::Type;
use super::super::{Refusal, unknown};
use super::lanes::{lanes1, lanes2, lanes3};
use super::opcode::Opcode;
use super::operands::Operands;
use super::{Builder, Names};

pub(super) const ROUNDINGS: &[(&str, Rounding)] =
    &[("rn", Rounding::Nearest), ("rz", Rounding::Zero), ("rm", Rounding::Down), ("rp", Rounding::Up)];

/// The modifiers of an operation that apply to its operands and to its result.
#[derive(Clone, Copy)]
pub(super) struct How {
    pub(super) rounding: Rounding,
    pub(super) ftz: bool,
    pub(super) sat: bool,
    /// Whether the product is negated, for a sum that was contracted with a product ([`contraction`](super::contraction)).
    pub(super) minus_product: bool,
    pub(super) minus_addend: bool,
}

impl How {
    pub(super) fn of(op: &mut Opcode<'_>) -> How {
        How {
            rounding: op.one_of(ROUNDINGS).unwrap_or(Rounding::Nearest),
            ftz: op.has("ftz"),
            sat: op.has("sat"),
            minus_product: op.has("-product"),
            minus_addend: op.has("-addend"),
        }
    }

    /// Whether there are no such modifiers.
    fn is_plain(self) -> bool {
        self.rounding == Rounding::Nearest
            && !self.ftz
            && !self.sat
            && !self.minus_product
            && !self.minus_addend
    }

    /// A factor and the addend with their signs changed as the modifiers say.
    pub(super) fn signed<T>(self, factor: T, addend: T, negated: impl Fn(T) -> T) -> (T, T) {
        let factor = if self.minus_product { negated(factor) } else { factor };
        (factor, if self.minus_addend { negated(addend) } else { addend })
    }

    fn before<T: Float>(self, value: T) -> T {
        if self.ftz { value.flush() } else { value }
    }

    fn after<T: Float>(self, value: T) -> T {
        let value = if self.ftz { value.flush() } else { value };
        if self.sat { value.saturate() } else { value }
    }
}

/// Evaluates an expression with `$t` as the Rust type of the floats of a PTX type.
macro_rules! with_float {
    ($ty:expr, $t:ident => $value:expr) => {
        match $ty {
            Type::F32 => {
                type $t = f32;
                Ok($value)
            }
            Type::F64 => {
                type $t = f64;
                Ok($value)
            }
            other => Err(unknown(format!("it of type {other}"))),
        }
    };
}

/// Refuses modifiers that only operations on `f32` have.
fn only_of_f32(ty: Type, how: How) -> Result<(), Refusal> {
    if ty != Type::F32 && (how.ftz || how.sat) {
        return Err(unknown(format!("the modifier .{} of type {ty}", if how.ftz { "ftz" } else { "sat" })));
    }
    Ok(())
}

impl Builder<'_> {
    pub(super) fn float_sum(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
        ty: Type,
        minus: bool,
    ) -> Result<Kind, Refusal> {
        let how = How::of(op);
        if ty.size() == 2 || matches!(ty, Type::F16x2 | Type::Bf16x2) {
            return self.half_sum(names, operands, ty, how, minus);
        }
        only_of_f32(ty, how)?;
        let (to, from) = self.alike(names, operands, ty)?;
        with_float!(ty, T => match (how.is_plain(), minus) {
            (true, false) => lanes2(to, from, <T as Float>::add_rn),
            (true, true) => lanes2(to, from, <T as Float>::sub_rn),
            (false, _) => lanes2(to, from, move |a: T, b: T| {
                let (a, b) = (how.before(a), how.before(b));
                how.after(if minus { a.sub(b, how.rounding) } else { a.add(b, how.rounding) })
            }),
        })
    }

    pub(super) fn float_mul(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
        ty: Type,
    ) -> Result<Kind, Refusal> {
        let how = How::of(op);
        if ty.size() == 2 || matches!(ty, Type::F16x2 | Type::Bf16x2) {
            return self.half_mul(names, operands, ty, how);
        }
        only_of_f32(ty, how)?;
        let (to, from) = self.alike(names, operands, ty)?;
        with_float!(ty, T => if how.is_plain() {
            lanes2(to, from, <T as Float>::mul_rn)
        } else {
            lanes2(to, from, move |a: T, b: T| {
                let (a, b) = (how.before(a), how.before(b));
                how.after(if how.ftz { a.mul_flushed(b, how.rounding) } else { a.mul(b, how.rounding) })
            })
        })
    }

    pub(super) fn fma(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        if op.has("-quotient") {
            return self.fma_quotient(names, op, operands);
        }
        let relu = op.has("relu");
        let ty = op.ty()?;
        if ty.size() == 2 || matches!(ty, Type::F16x2 | Type::Bf16x2) {
            let how = How::of(op);
            return self.half_fma(names, operands, ty, how, relu);
        }
        if relu {
            return Err(unknown(format!("the modifier .relu of type {ty}")));
        }
        self.float_fma(names, op, operands, ty)
    }

    pub(super) fn float_fma(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
        ty: Type,
    ) -> Result<Kind, Refusal> {
        let how = How::of(op);
        only_of_f32(ty, how)?;
        let (to, from) = self.alike(names, operands, ty)?;
        with_float!(ty, T => if how.is_plain() {
            lanes3(to, from, <T as Float>::fma_rn)
        } else {
            lanes3(to, from, move |a: T, b: T, c: T| {
                let (a, c) = how.signed(how.before(a), how.before(c), Float::negated);
                how.after(a.fma(how.before(b), c, how.rounding))
            })
        })
    }

    /// A sum that was contracted with an approximate quotient: the quotient is the product with a reciprocal, and is
    /// not rounded before the sum.
    fn fma_quotient(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let (full, how) = (op.has("full"), How::of(op));
        let (to, from) = self.alike(names, operands, op.ty()?)?;
        Ok(lanes3(to, from, move |a: f32, b: f32, c: f32| {
            let [a, b, c] = [a, b, c].map(|value| how.before(value));
            let (a, c) = how.signed(a, c, Float::negated);
            let (a, reciprocal) = approx::quotient(full, how.ftz, a, b);
            how.after(a.fma(reciprocal, c, how.rounding))
        }))
    }

    pub(super) fn float_div(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
        ty: Type,
    ) -> Result<Kind, Refusal> {
        let (approximate, full) = (op.has("approx"), op.has("full"));
        let how = How::of(op);
        only_of_f32(ty, how)?;
        let (to, from) = self.alike(names, operands, ty)?;
        if approximate || full {
            return match ty {
                Type::F32 => Ok(lanes2(to, from, move |a, b| approx::div(full, how.ftz, a, b))),
                other => Err(unknown(format!("approximate quotients of type {other}"))),
            };
        }
        with_float!(ty, T => lanes2(to, from, move |a: T, b: T| {
            let (a, b) = (how.before(a), how.before(b));
            how.after(if how.ftz { a.div_flushed(b, how.rounding) } else { a.div(b, how.rounding) })
        }))
    }

    pub(super) fn rcp(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let (approximate, how, ty) = (op.has("approx"), How::of(op), op.ty()?);
        let (to, [from]) = self.alike(names, operands, ty)?;
        match (approximate, ty) {
            (true, Type::F32) => Ok(lanes1(to, from, move |a| approx::rcp(how.ftz, a))),
            (true, Type::F64) => Ok(lanes1(to, from, approx::rcp_f64)),
            _ => {
                with_float!(ty, T => lanes1(to, from, move |a: T| how.after(how.before(a).rcp(how.rounding))))
            }
        }
    }

    pub(super) fn sqrt(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let (approximate, how, ty) = (op.has("approx"), How::of(op), op.ty()?);
        let (to, [from]) = self.alike(names, operands, ty)?;
        if approximate {
            return match ty {
                Type::F32 => Ok(lanes1(to, from, move |a| approx::sqrt(how.ftz, a))),
                other => Err(unknown(format!("approximate roots of type {other}"))),
            };
        }
        with_float!(ty, T => lanes1(to, from, move |a: T| how.after(Float::sqrt(how.before(a), how.rounding))))
    }

    pub(super) fn rsqrt(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let (ftz, _) = (op.has("ftz"), op.has("approx"));
        let ty = op.ty()?;
        let (to, [from]) = self.alike(names, operands, ty)?;
        match ty {
            Type::F32 => Ok(lanes1(to, from, move |a| approx::rsqrt(ftz, a))),
            Type::F64 if ftz => Ok(lanes1(to, from, approx::rsqrt_ftz_f64)),
            Type::F64 => Ok(lanes1(to, from, approx::rsqrt_f64)),
            other => Err(unknown(format!("it of type {other}"))),
        }
    }

    /// `ex2`, `lg2`, `sin`, `cos`, `tanh`.
    pub(super) fn approximate(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let (ftz, is_approximate, ty) = (op.has("ftz"), op.has("approx"), op.ty()?);
        if !is_approximate {
            return Err(unknown("it without .approx"));
        }
        let (to, [from]) = self.alike(names, operands, ty)?;
        if ty != Type::F32 {
            return self.half_approximate(op.name, ty, ftz, to, from);
        }
        Ok(match op.name {
            "ex2" => lanes1(to, from, move |a| approx::ex2(ftz, a)),
            "lg2" => lanes1(to, from, move |a| approx::lg2(ftz, a)),
            "sin" => lanes1(to, from, move |a| approx::sin(ftz, a)),
            "cos" => lanes1(to, from, move |a| approx::cos(ftz, a)),
            _ => lanes1(to, from, approx::tanh),
        })
    }

    pub(super) fn float_sign(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
        ty: Type,
        magnitude: bool,
    ) -> Result<Kind, Refusal> {
        let how = How::of(op);
        let (to, [from]) = self.alike(names, operands, ty)?;
        if ty.size() == 2 || matches!(ty, Type::F16x2 | Type::Bf16x2) {
            return self.half_sign(ty, how.ftz, magnitude, to, from);
        }
        with_float!(ty, T => lanes1(to, from, move |a: T| {
            let a = how.before(a);
            if magnitude { Float::magnitude(a) } else { Float::negated(a) }
        }))
    }

    pub(super) fn float_extreme(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
        ty: Type,
        greatest: bool,
    ) -> Result<Kind, Refusal> {
        let ftz = op.has("ftz");
        let (nan, xorsign) = (op.has("NaN"), op.has("xorsign"));
        if xorsign && !op.has("abs") {
            return Err(unknown("the modifier .xorsign without .abs"));
        }
        let how = Extreme { greatest, nan, xorsign };
        if ty.size() == 2 || matches!(ty, Type::F16x2 | Type::Bf16x2) {
            return self.half_extreme(names, operands, ty, how, ftz);
        }
        if operands.len() == 4 {
            let (to, from) = self.alike(names, operands, ty)?;
            return match ty {
                Type::F32 => Ok(lanes3(to, from, move |a: f32, b: f32, c: f32| {
                    let [a, b, c] = [a, b, c].map(|value| if ftz { value.flush() } else { value });
                    extreme3(how, a, b, c)
                })),
                other => Err(unknown(format!("three operands of type {other}"))),
            };
        }
        let (to, from) = self.alike(names, operands, ty)?;
        with_float!(ty, T => lanes2(to, from, move |a: T, b: T| {
            let [a, b] = [a, b].map(|value| if ftz { value.flush() } else { value });
            extreme(how, a, b)
        }))
    }

    pub(super) fn copysign(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let ty = op.ty()?;
        let (to, from) = self.alike(names, operands, ty)?;
        with_float!(ty, T => lanes2(to, from, <T as Float>::sign_onto))
    }

    pub(super) fn testp(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let properties = [
            ("finite", Property::Finite),
            ("infinite", Property::Infinite),
            ("number", Property::Number),
            ("notanumber", Property::NotANumber),
            ("normal", Property::Normal),
            ("subnormal", Property::Subnormal),
        ];
        let property = op.one_of(&properties).ok_or_else(|| unknown("it without a property"))?;
        let ty = op.ty()?;
        let (to, [from]) = self.typed(names, operands, Type::Pred, [ty])?;
        with_float!(ty, T => lanes1(to, from, move |a: T| testp(property, a)))
    }
}
