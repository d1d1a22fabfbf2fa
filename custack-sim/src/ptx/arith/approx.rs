//! The functions that the device only approximates: here they are rounded correctly wherever the format allows it.

use super::float::Float;

/// 2 to the power of `value`. The manual's table of special values holds even where the host's library differs from
/// it.
#[inline]
pub(crate) fn power_of_two(value: f64) -> f64 {
    value.exp2()
}

/// Applies a function of `f64` to an `f32`, with `.ftz` or without.
#[inline]
fn through(ftz: bool, a: f32, f: impl Fn(f64) -> f64) -> f32 {
    let a = if ftz { a.flush() } else { a };
    let result = (f(a.into()) as f32).canonical();
    if ftz { result.flush() } else { result }
}

/// `ex2.approx`.
#[inline]
pub(crate) fn ex2(ftz: bool, a: f32) -> f32 {
    through(ftz, a, power_of_two)
}

/// `lg2.approx`: minus infinity for either zero, NaN for negative numbers.
#[inline]
pub(crate) fn lg2(ftz: bool, a: f32) -> f32 {
    through(ftz, a, f64::log2)
}

/// `sin.approx`.
#[inline]
pub(crate) fn sin(ftz: bool, a: f32) -> f32 {
    through(ftz, a, f64::sin)
}

/// `cos.approx`.
#[inline]
pub(crate) fn cos(ftz: bool, a: f32) -> f32 {
    through(ftz, a, f64::cos)
}

/// `tanh.approx`, which has no `.ftz`.
#[inline]
pub(crate) fn tanh(a: f32) -> f32 {
    through(false, a, f64::tanh)
}

/// `rcp.approx`.
#[inline]
pub(crate) fn rcp(ftz: bool, a: f32) -> f32 {
    through(ftz, a, |a| 1.0 / a)
}

/// `rsqrt.approx`: for a zero, infinity with the sign of the zero.
#[inline]
pub(crate) fn rsqrt(ftz: bool, a: f32) -> f32 {
    through(ftz, a, |a| 1.0 / a.sqrt())
}

/// `sqrt.approx`.
#[inline]
pub(crate) fn sqrt(ftz: bool, a: f32) -> f32 {
    through(ftz, a, f64::sqrt)
}

/// `div.full`, or `div.approx` if `full` is false, which multiplies by a reciprocal that is flushed to zero for
/// divisors from 2^126 on.
#[inline]
pub(crate) fn div(full: bool, ftz: bool, a: f32, b: f32) -> f32 {
    if !full && b.is_finite() && b.abs() > f32::from_bits(253 << 23) {
        let sign = if b.is_sign_negative() { -0.0 } else { 0.0 };
        return (if ftz { a.flush() } else { a } * sign).canonical();
    }
    let b = if ftz { b.flush() } else { b };
    through(ftz, a, |a| a / f64::from(b))
}

/// The numerator and the reciprocal whose product an approximate quotient is. `div.full` scales a large divisor down,
/// and both scale a subnormal one up. A subnormal reciprocal is zero.
#[inline]
pub(crate) fn quotient(full: bool, ftz: bool, a: f32, b: f32) -> (f32, f32) {
    let scale = match b.abs() {
        b if full && b > f32::from_bits(253 << 23) => 0.25,
        b if !ftz && b < f32::MIN_POSITIVE => 16_777_216.0,
        _ => 1.0,
    };
    (a * scale, rcp(true, b * scale))
}

/// The upper word of an `f64`, rounded to 20 bits of fraction; the lower word is zero.
#[inline]
fn upper_half(value: f64) -> f64 {
    if value.is_nan() {
        return f64::from_bits(0x7fff_ffff_0000_0000);
    }
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff_ffff + (bits >> 32 & 1)) & 0xffff_ffff_0000_0000;
    flush(f64::from_bits(rounded))
}

/// Flushes a subnormal `f64` to zero: the instructions below have `.ftz`.
#[inline]
fn flush(value: f64) -> f64 {
    if value.is_subnormal() { 0f64.copysign(value) } else { value }
}

/// An operand without its lower word, which the instruction ignores.
#[inline]
fn truncated(a: f64) -> f64 {
    flush(f64::from_bits(a.to_bits() & 0xffff_ffff_0000_0000))
}

/// `rcp.approx.ftz.f64`, which uses only the upper word of its operand, and sets only that of its result.
#[inline]
pub(crate) fn rcp_f64(a: f64) -> f64 {
    upper_half(1.0 / truncated(a))
}

/// `rsqrt.approx.ftz.f64`, which uses only the upper word of its operand, and sets only that of its result.
#[inline]
pub(crate) fn rsqrt_ftz_f64(a: f64) -> f64 {
    upper_half(1.0 / truncated(a).sqrt())
}

/// `rsqrt.approx.f64`, which the device computes in software, to the full precision.
#[inline]
pub(crate) fn rsqrt_f64(a: f64) -> f64 {
    let result = 1.0 / a.sqrt();
    if result.is_nan() { if a.is_nan() { a.canonical() } else { Float::nan() } } else { result }
}
