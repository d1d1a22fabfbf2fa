//! Arithmetic of `f64` in the rounding modes that the host's does not offer: computed with exact integers and rounded
//! once.
//!
//! The operands are finite; the callers leave infinities and NaN to the host, because no rounding mode affects them.

use super::round::{Format, Rounding, split};

/// `mantissa * 2^exponent` with a sign. The last bit of the mantissa may be a sticky bit for all bits below.
#[derive(Clone, Copy)]
struct Exact {
    negative: bool,
    mantissa: u128,
    exponent: i32,
}

impl Exact {
    fn of(value: f64) -> Exact {
        let (mantissa, exponent) = split(value);
        Exact { negative: value.is_sign_negative(), mantissa: mantissa.into(), exponent }
    }

    fn product(a: f64, b: f64) -> Exact {
        let (a, b) = (Exact::of(a), Exact::of(b));
        Exact {
            negative: a.negative != b.negative,
            mantissa: a.mantissa * b.mantissa,
            exponent: a.exponent + b.exponent,
        }
    }

    /// Shifts the leading bit to bit 125, where a sum of two cannot overflow. The number must not be zero.
    fn normal(self) -> Exact {
        let up = self.mantissa.leading_zeros() as i32 - 2;
        Exact { mantissa: self.mantissa << up, exponent: self.exponent - up, ..self }
    }

    fn round(self, r: Rounding) -> f64 {
        if self.mantissa == 0 {
            return if self.negative { -0.0 } else { 0.0 };
        }
        let spare = (66 - self.mantissa.leading_zeros() as i32).max(0);
        let mantissa = jam(self.mantissa, spare as u32) as u64;
        f64::from_bits(Format::F64.encode(r, self.negative, mantissa, self.exponent + spare))
    }
}

/// Shifts right, and sets the last bit if any bit that is shifted out was set.
fn jam(mantissa: u128, by: u32) -> u128 {
    if by > 127 {
        return u128::from(mantissa != 0);
    }
    let kept = mantissa >> by;
    kept | u128::from(kept << by != mantissa)
}

fn sum(a: Exact, b: Exact, r: Rounding) -> f64 {
    if a.mantissa == 0 && b.mantissa == 0 {
        let negative = if a.negative == b.negative { a.negative } else { r == Rounding::Down };
        return Exact { negative, ..a }.round(r);
    }
    if a.mantissa == 0 || b.mantissa == 0 {
        return if a.mantissa == 0 { b } else { a }.round(r);
    }
    let (a, b) = (a.normal(), b.normal());
    let (high, low) = if (a.exponent, a.mantissa) >= (b.exponent, b.mantissa) { (a, b) } else { (b, a) };
    let aligned = jam(low.mantissa, high.exponent.abs_diff(low.exponent));
    if high.negative == low.negative {
        return Exact { mantissa: high.mantissa + aligned, ..high }.round(r);
    }
    let mantissa = high.mantissa - aligned;
    let negative = if mantissa == 0 { r == Rounding::Down } else { high.negative };
    Exact { negative, mantissa, ..high }.round(r)
}

pub(super) fn add(a: f64, b: f64, r: Rounding) -> f64 {
    sum(Exact::of(a), Exact::of(b), r)
}

pub(super) fn mul(a: f64, b: f64, r: Rounding) -> f64 {
    Exact::product(a, b).round(r)
}

pub(super) fn fma(a: f64, b: f64, c: f64, r: Rounding) -> f64 {
    sum(Exact::product(a, b), Exact::of(c), r)
}

/// Divides finite numbers; the divisor must not be zero.
pub(super) fn div(a: f64, b: f64, r: Rounding) -> f64 {
    let (a, b) = (Exact::of(a), Exact::of(b));
    let negative = a.negative != b.negative;
    if a.mantissa == 0 {
        return Exact { negative, ..a }.round(r);
    }
    let a = a.normal();
    // The divisor has at most 53 bits, so the quotient has at least 72.
    let quotient = a.mantissa.checked_div(b.mantissa).unwrap_or(0);
    let rest = a.mantissa.checked_rem(b.mantissa).unwrap_or(0);
    let mantissa = quotient | u128::from(rest != 0);
    Exact { negative, mantissa, exponent: a.exponent - b.exponent }.round(r)
}

/// The square root of a positive number.
pub(super) fn sqrt(a: f64, r: Rounding) -> f64 {
    let a = Exact::of(a);
    if a.mantissa == 0 {
        return a.round(r);
    }
    let a = a.normal();
    // The exponent must be even to be halved.
    let odd = a.exponent & 1;
    let square = a.mantissa << odd;
    let root = square.isqrt();
    let mantissa = root | u128::from(root * root != square);
    Exact { negative: false, mantissa, exponent: (a.exponent - odd) / 2 }.round(r)
}
