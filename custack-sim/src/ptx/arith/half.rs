//! `f16` and `bf16`, as the bits in a register.

use super::approx;
use super::compare::{Compare, Extreme, compare, extreme};
use super::round::{Format, Rounding, sum_to_odd};

/// The NaN that every operation on either format returns.
pub(crate) const NAN: u16 = 0x7fff;

/// IEEE's 16-bit format.
pub(crate) struct F16;

/// The upper half of an `f32`.
pub(crate) struct Bf16;

/// What PTX computes with 16-bit floats. As with [`Float`](super::float::Float), `.ftz`, `.sat` and `.relu` are
/// functions of their own, for operands or results.
pub(crate) trait Short {
    const FORMAT: Format;

    /// `cvt.f32`, which is exact. `cvt.f64` is a conversion of this result.
    fn widen(a: u16) -> f32;

    /// `cvt` from any float: an `f64` holds the values of all of them.
    #[inline]
    fn round(value: f64, r: Rounding) -> u16 {
        Self::FORMAT.encode_f64(r, value) as u16
    }

    /// `cvt` from an integer.
    #[inline]
    fn from_integer(negative: bool, magnitude: u64, r: Rounding) -> u16 {
        Self::FORMAT.encode_integer(r, negative, magnitude) as u16
    }

    #[inline]
    fn is_nan(a: u16) -> bool {
        u64::from(a & 0x7fff) > Self::FORMAT.infinity()
    }

    #[inline]
    fn add(a: u16, b: u16) -> u16 {
        Self::round(sum_to_odd(Self::widen(a).into(), Self::widen(b).into()), Rounding::Nearest)
    }

    #[inline]
    fn sub(a: u16, b: u16) -> u16 {
        Self::add(a, b ^ 0x8000)
    }

    #[inline]
    fn mul(a: u16, b: u16) -> u16 {
        Self::round(f64::from(Self::widen(a)) * f64::from(Self::widen(b)), Rounding::Nearest)
    }

    /// A product that is flushed to zero if it is below the normal numbers before rounding: `.ftz`.
    #[inline]
    fn mul_flushed(a: u16, b: u16) -> u16 {
        let product = f64::from(Self::widen(a)) * f64::from(Self::widen(b));
        let least = f64::from(Self::widen(1 << Self::FORMAT.fraction));
        let product = if product.abs() < least { 0f64.copysign(product) } else { product };
        Self::round(product, Rounding::Nearest)
    }

    #[inline]
    fn fma(a: u16, b: u16, c: u16) -> u16 {
        let product = f64::from(Self::widen(a)) * f64::from(Self::widen(b));
        Self::round(sum_to_odd(product, Self::widen(c).into()), Rounding::Nearest)
    }

    /// Flushes a subnormal number to a zero with the same sign.
    #[inline]
    fn flush(a: u16) -> u16 {
        if u64::from(a) & Self::FORMAT.infinity() == 0 { a & 0x8000 } else { a }
    }

    /// Clamps to [0, 1]; NaN and -0 become +0.
    #[inline]
    fn saturate(a: u16) -> u16 {
        let one = (Self::FORMAT.infinity() >> 1) as u16 & !((1 << Self::FORMAT.fraction) - 1);
        if a & 0x8000 != 0 || Self::is_nan(a) { 0 } else { a.min(one) }
    }

    /// `.relu`: negative numbers become +0.
    #[inline]
    fn relu(a: u16) -> u16 {
        if Self::is_nan(a) {
            NAN
        } else if a & 0x8000 != 0 {
            0
        } else {
            a
        }
    }

    /// `.satfinite` for an infinite result of a conversion.
    #[inline]
    fn finite(a: u16) -> u16 {
        if u64::from(a & 0x7fff) == Self::FORMAT.infinity() { a - 1 } else { a }
    }

    #[inline]
    fn canonical(a: u16) -> u16 {
        if Self::is_nan(a) { NAN } else { a }
    }

    #[inline]
    fn negated(a: u16) -> u16 {
        Self::canonical(a ^ 0x8000)
    }

    #[inline]
    fn magnitude(a: u16) -> u16 {
        Self::canonical(a & 0x7fff)
    }

    #[inline]
    fn compare(op: Compare, a: u16, b: u16) -> bool {
        compare(op, Self::widen(a), Self::widen(b))
    }

    /// `min` and `max`.
    #[inline]
    fn extreme(how: Extreme, a: u16, b: u16) -> u16 {
        // The signs are taken from the original bits, because a NaN loses its sign when it is widened.
        let bare = |value: u16| Self::widen(if how.xorsign { value & 0x7fff } else { value });
        let value = extreme(Extreme { xorsign: false, ..how }, bare(a), bare(b));
        let value = Self::round(value.into(), Rounding::Nearest);
        if how.xorsign && value != NAN { value | (a ^ b) & 0x8000 } else { value }
    }

    /// `tanh.approx`.
    #[inline]
    fn tanh(a: u16) -> u16 {
        Self::round(f64::from(Self::widen(a)).tanh(), Rounding::Nearest)
    }

    /// `ex2.approx`.
    #[inline]
    fn ex2(a: u16) -> u16 {
        Self::round(approx::power_of_two(Self::widen(a).into()), Rounding::Nearest)
    }
}

impl Short for F16 {
    const FORMAT: Format = Format::F16;

    #[inline]
    fn widen(a: u16) -> f32 {
        let magnitude = u32::from(a & 0x7fff);
        // 2^112 is the difference of the biases; the product normalises subnormal numbers too.
        let finite = (f32::from_bits(magnitude << 13) * f32::from_bits(239 << 23)).to_bits();
        let special = if magnitude == 0x7c00 { 0x7f80_0000 } else { 0x7fff_ffff };
        let bits = if magnitude < 0x7c00 { finite } else { special };
        // The NaN of an `f32` has no sign.
        let sign = if magnitude > 0x7c00 { 0 } else { u32::from(a & 0x8000) << 16 };
        f32::from_bits(bits | sign)
    }
}

impl Short for Bf16 {
    const FORMAT: Format = Format::BF16;

    #[inline]
    fn widen(a: u16) -> f32 {
        f32::from_bits(u32::from(a) << 16)
    }
}

/// An operation on both halves of two registers, such as `add.f16x2`.
#[inline]
pub(crate) fn packed2(a: u32, b: u32, op: impl Fn(u16, u16) -> u16) -> u32 {
    join(op(low(a), low(b)), op(high(a), high(b)))
}

/// An operation on both halves of one register.
#[inline]
pub(crate) fn packed1(a: u32, op: impl Fn(u16) -> u16) -> u32 {
    join(op(low(a)), op(high(a)))
}

/// An operation on both halves of three registers.
#[inline]
pub(crate) fn packed3(a: u32, b: u32, c: u32, op: impl Fn(u16, u16, u16) -> u16) -> u32 {
    join(op(low(a), low(b), low(c)), op(high(a), high(b), high(c)))
}

#[inline]
pub(crate) fn low(a: u32) -> u16 {
    a as u16
}

#[inline]
pub(crate) fn high(a: u32) -> u16 {
    (a >> 16) as u16
}

#[inline]
pub(crate) fn join(low: u16, high: u16) -> u32 {
    u32::from(high) << 16 | u32::from(low)
}
