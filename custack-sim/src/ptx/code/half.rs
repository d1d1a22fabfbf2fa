//! Arithmetic of floats of 16 bits, one or two in a register.

use super::super::arith::compare::Extreme;
use super::super::arith::half::{Bf16, F16, Short, packed1, packed2, packed3};
use super::super::arith::round::Rounding;
use super::super::inst::Kind;
use super::super::run::Reg;
use super::super::types::Type;
use super::super::{Refusal, unknown};
use super::floats::How;
use super::lanes::{lanes1, lanes2, lanes3};
use super::operands::Operands;
use super::{Builder, Names};

/// Makes an instruction on one or two floats of 16 bits from a function `f` of one value.
macro_rules! with_half {
    ($ty:expr, $t:ident, $scalar:ident, $packed:ident, $to:expr, $from:expr, |$($value:ident),+| $result:expr) => {{
        match $ty {
            Type::F16 => {
                type $t = F16;
                Ok($scalar($to, $from, move |$($value: u16),+| $result))
            }
            Type::Bf16 => {
                type $t = Bf16;
                Ok($scalar($to, $from, move |$($value: u16),+| $result))
            }
            Type::F16x2 => {
                type $t = F16;
                Ok($scalar($to, $from, move |$($value: u32),+| $packed($($value),+, |$($value),+| $result)))
            }
            Type::Bf16x2 => {
                type $t = Bf16;
                Ok($scalar($to, $from, move |$($value: u32),+| $packed($($value),+, |$($value),+| $result)))
            }
            other => Err(unknown(format!("it of type {other}"))),
        }
    }};
}

fn before<T: Short>(ftz: bool, value: u16) -> u16 {
    if ftz { T::flush(value) } else { value }
}

fn after<T: Short>(how: How, value: u16) -> u16 {
    let value = before::<T>(how.ftz, value);
    if how.sat { T::saturate(value) } else { value }
}

/// Refuses rounding modes other than to nearest even, which instructions on these types do not have.
fn only_to_the_nearest(how: How) -> Result<(), Refusal> {
    match how.rounding {
        Rounding::Nearest => Ok(()),
        _ => Err(unknown("another rounding than .rn of 16 bits")),
    }
}

impl Builder<'_> {
    pub(super) fn half_sum(
        &mut self,
        names: &Names<'_, '_>,
        operands: Operands<'_, '_>,
        ty: Type,
        how: How,
        minus: bool,
    ) -> Result<Kind, Refusal> {
        only_to_the_nearest(how)?;
        let (to, from) = self.alike(names, operands, ty)?;
        with_half!(ty, T, lanes2, packed2, to, from, |a, b| {
            let (a, b) = (before::<T>(how.ftz, a), before::<T>(how.ftz, b));
            after::<T>(how, if minus { T::sub(a, b) } else { T::add(a, b) })
        })
    }

    pub(super) fn half_mul(
        &mut self,
        names: &Names<'_, '_>,
        operands: Operands<'_, '_>,
        ty: Type,
        how: How,
    ) -> Result<Kind, Refusal> {
        only_to_the_nearest(how)?;
        let (to, from) = self.alike(names, operands, ty)?;
        with_half!(ty, T, lanes2, packed2, to, from, |a, b| {
            let (a, b) = (before::<T>(how.ftz, a), before::<T>(how.ftz, b));
            after::<T>(how, if how.ftz { T::mul_flushed(a, b) } else { T::mul(a, b) })
        })
    }

    pub(super) fn half_fma(
        &mut self,
        names: &Names<'_, '_>,
        operands: Operands<'_, '_>,
        ty: Type,
        how: How,
        relu: bool,
    ) -> Result<Kind, Refusal> {
        only_to_the_nearest(how)?;
        let (to, from) = self.alike(names, operands, ty)?;
        with_half!(ty, T, lanes3, packed3, to, from, |a, b, c| {
            let [a, b, c] = [a, b, c].map(|value| before::<T>(how.ftz, value));
            let (a, c) = how.signed(a, c, T::negated);
            let value = after::<T>(how, T::fma(a, b, c));
            if relu { T::relu(value) } else { value }
        })
    }

    pub(super) fn half_sign(
        &mut self,
        ty: Type,
        ftz: bool,
        magnitude: bool,
        to: Reg,
        from: Reg,
    ) -> Result<Kind, Refusal> {
        with_half!(ty, T, lanes1, packed1, to, from, |a| {
            let a = before::<T>(ftz, a);
            if magnitude { T::magnitude(a) } else { T::negated(a) }
        })
    }

    pub(super) fn half_extreme(
        &mut self,
        names: &Names<'_, '_>,
        operands: Operands<'_, '_>,
        ty: Type,
        how: Extreme,
        ftz: bool,
    ) -> Result<Kind, Refusal> {
        let (to, from) = self.alike(names, operands, ty)?;
        with_half!(ty, T, lanes2, packed2, to, from, |a, b| {
            T::extreme(how, before::<T>(ftz, a), before::<T>(ftz, b))
        })
    }

    pub(super) fn half_approximate(
        &mut self,
        name: &str,
        ty: Type,
        ftz: bool,
        to: Reg,
        from: Reg,
    ) -> Result<Kind, Refusal> {
        match name {
            "ex2" => with_half!(ty, T, lanes1, packed1, to, from, |a| before::<T>(
                ftz,
                T::ex2(before::<T>(ftz, a))
            )),
            "tanh" => with_half!(ty, T, lanes1, packed1, to, from, |a| T::tanh(a)),
            _ => Err(unknown(format!("it of type {ty}"))),
        }
    }
}
