//! `f32` and `f64`: arithmetic in every rounding mode, with the device's results for NaN and for subnormal numbers.

use super::round::{Rounding, narrow, sum_to_odd, to_odd};
use super::soft;

/// What PTX computes with `f32` and `f64`. No function flushes or saturates by itself: `.ftz` is
/// [`flush`](Float::flush) of each operand and of the result, `.sat` is [`saturate`](Float::saturate) of the result.
///
/// The NaN of an operation on `f32` is 0x7fffffff. An operation on `f64` returns an operand that is NaN, made quiet,
/// or 0xfff8000000000000 if none is. If several are, a sum or a product returns the second one, and other operations
/// the first.
pub(crate) trait Float: Copy + PartialOrd {
    fn add_rn(self, b: Self) -> Self;
    fn mul_rn(self, b: Self) -> Self;
    fn fma_rn(self, b: Self, c: Self) -> Self;
    fn div_rn(self, b: Self) -> Self;
    fn sqrt_rn(self) -> Self;

    /// A sum. `sub` is the same with the sign of the second operand changed.
    fn add(self, b: Self, r: Rounding) -> Self;
    fn mul(self, b: Self, r: Rounding) -> Self;
    fn fma(self, b: Self, c: Self, r: Rounding) -> Self;
    fn div(self, b: Self, r: Rounding) -> Self;
    fn sqrt(self, r: Rounding) -> Self;
    fn rcp(self, r: Rounding) -> Self;

    /// Flushes a subnormal `f32` to a zero with the same sign.
    fn flush(self) -> Self;
    /// Clamps to [0, 1]; NaN and -0 become +0.
    fn saturate(self) -> Self;
    /// The NaN that an operation on this NaN alone returns; numbers are returned as they are.
    fn canonical(self) -> Self;
    /// The result of an operation that is NaN although no operand is.
    fn nan() -> Self;

    /// The value with the other sign, also for NaN: the minus before an operand in the text.
    fn flipped(self) -> Self;
    /// The value without its sign, also for NaN.
    fn unsigned(self) -> Self;
    fn is_negative(self) -> bool;
    fn is_not_a_number(self) -> bool;
    fn is_infinity(self) -> bool;
    /// Whether it is a subnormal number.
    fn is_tiny(self) -> bool;

    fn sub_rn(self, b: Self) -> Self;
    fn sub(self, b: Self, r: Rounding) -> Self;

    /// A product that is flushed to zero if it is below the normal numbers before rounding: `.ftz`.
    fn mul_flushed(self, b: Self, r: Rounding) -> Self;
    /// The same for a quotient.
    fn div_flushed(self, b: Self, r: Rounding) -> Self;

    /// `neg`.
    #[inline]
    fn negated(self) -> Self {
        self.flipped().canonical()
    }

    /// `abs`.
    #[inline]
    fn magnitude(self) -> Self {
        self.unsigned().canonical()
    }

    /// `copysign d, self, b`: the value of `b` with the sign of this.
    #[inline]
    fn sign_onto(self, b: Self) -> Self {
        if self.is_negative() == b.is_negative() { b } else { b.flipped() }
    }
}

macro_rules! common {
    ($float:ty, $bits:ty, $sign:literal) => {
        #[inline]
        fn saturate(self) -> Self {
            // All comparisons with NaN are false.
            let low = if self > 0.0 { self } else { 0.0 };
            if low < 1.0 { low } else { 1.0 }
        }

        #[inline]
        fn flipped(self) -> Self {
            <$float>::from_bits(self.to_bits() ^ $sign)
        }

        #[inline]
        fn unsigned(self) -> Self {
            <$float>::from_bits(self.to_bits() & !$sign)
        }

        #[inline]
        fn is_negative(self) -> bool {
            self.to_bits() & $sign != 0
        }

        #[inline]
        fn is_not_a_number(self) -> bool {
            self.is_nan()
        }

        #[inline]
        fn is_infinity(self) -> bool {
            self.is_infinite()
        }

        #[inline]
        fn is_tiny(self) -> bool {
            self.is_subnormal()
        }

        #[inline]
        fn rcp(self, r: Rounding) -> Self {
            Float::div(1.0, self, r)
        }
    };
}

impl Float for f32 {
    common!(f32, u32, 0x8000_0000);

    #[inline]
    fn add_rn(self, b: f32) -> f32 {
        (self + b).canonical()
    }

    #[inline]
    fn sub_rn(self, b: f32) -> f32 {
        (self - b).canonical()
    }

    #[inline]
    fn mul_rn(self, b: f32) -> f32 {
        (self * b).canonical()
    }

    #[inline]
    fn fma_rn(self, b: f32, c: f32) -> f32 {
        // Not `mul_add`: on a target without such an instruction it is a call. The product is exact in `f64`.
        (sum_to_odd(f64::from(self) * f64::from(b), c.into()) as f32).canonical()
    }

    #[inline]
    fn div_rn(self, b: f32) -> f32 {
        (self / b).canonical()
    }

    #[inline]
    fn sqrt_rn(self) -> f32 {
        f32::sqrt(self).canonical()
    }

    #[inline]
    fn add(self, b: f32, r: Rounding) -> f32 {
        Float::fma(self, 1.0, b, r)
    }

    #[inline]
    fn sub(self, b: f32, r: Rounding) -> f32 {
        Float::add(self, b.flipped(), r)
    }

    #[inline]
    fn mul(self, b: f32, r: Rounding) -> f32 {
        narrow(f64::from(self) * f64::from(b), r).canonical()
    }

    #[inline]
    fn fma(self, b: f32, c: f32, r: Rounding) -> f32 {
        let product = f64::from(self) * f64::from(b);
        let sum = sum_to_odd(product, c.into());
        // The sum of the host has the sign of zero for the other rounding modes.
        let zero = r == Rounding::Down && sum == 0.0 && (product.is_sign_negative() || c.is_sign_negative());
        if zero { -0.0 } else { narrow(sum, r).canonical() }
    }

    #[inline]
    fn div(self, b: f32, r: Rounding) -> f32 {
        let (a, b) = (f64::from(self), f64::from(b));
        let quotient = a / b;
        if r == Rounding::Nearest || !quotient.is_finite() || b.is_infinite() {
            return (quotient as f32).canonical();
        }
        let rest = (-quotient).mul_add(b, a);
        narrow(to_odd(quotient, if b > 0.0 { rest } else { -rest }), r)
    }

    #[inline]
    fn mul_flushed(self, b: f32, r: Rounding) -> f32 {
        let product = f64::from(self) * f64::from(b);
        let is_tiny = product.abs() < f32::MIN_POSITIVE.into();
        if is_tiny { 0f32.copysign(product as f32) } else { narrow(product, r).canonical() }
    }

    #[inline]
    fn div_flushed(self, b: f32, r: Rounding) -> f32 {
        let least = f64::from(b.abs()) * f64::from(f32::MIN_POSITIVE);
        let is_tiny = f64::from(self.abs()) < least;
        if is_tiny {
            if self.is_negative() == b.is_negative() { 0.0 } else { -0.0 }
        } else {
            Float::div(self, b, r)
        }
    }

    #[inline]
    fn sqrt(self, r: Rounding) -> f32 {
        let a = f64::from(self);
        let root = a.sqrt();
        if r == Rounding::Nearest || !root.is_finite() {
            return (root as f32).canonical();
        }
        narrow(to_odd(root, (-root).mul_add(root, a)), r)
    }

    #[inline]
    fn flush(self) -> f32 {
        let bits = self.to_bits();
        f32::from_bits(if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits })
    }

    #[inline]
    fn canonical(self) -> f32 {
        // A choice between integers: a compiler may take one NaN for another, and optimise away a choice between
        // floats.
        let bits = self.to_bits();
        f32::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { 0x7fff_ffff } else { bits })
    }

    #[inline]
    fn nan() -> f32 {
        f32::from_bits(0x7fff_ffff)
    }
}

/// The NaN of an operation on `f64` with these operands.
#[cold]
fn nan_of(operands: &[f64]) -> f64 {
    operands.iter().find(|operand| operand.is_nan()).map_or(Float::nan(), |nan| nan.canonical())
}

/// The result of the host's arithmetic, except that the host may return another NaN than the device.
#[inline]
fn chosen(result: f64, operands: &[f64]) -> f64 {
    if result.is_nan() { nan_of(operands) } else { result }
}

impl Float for f64 {
    common!(f64, u64, 0x8000_0000_0000_0000);

    #[inline]
    fn add_rn(self, b: f64) -> f64 {
        chosen(self + b, &[b, self])
    }

    #[inline]
    fn sub_rn(self, b: f64) -> f64 {
        chosen(self - b, &[b, self])
    }

    #[inline]
    fn mul_rn(self, b: f64) -> f64 {
        chosen(self * b, &[b, self])
    }

    #[inline]
    fn fma_rn(self, b: f64, c: f64) -> f64 {
        chosen(self.mul_add(b, c), &[self, b, c])
    }

    #[inline]
    fn div_rn(self, b: f64) -> f64 {
        chosen(self / b, &[self, b])
    }

    #[inline]
    fn sqrt_rn(self) -> f64 {
        chosen(f64::sqrt(self), &[self])
    }

    fn add(self, b: f64, r: Rounding) -> f64 {
        if r == Rounding::Nearest || !(self.is_finite() && b.is_finite()) {
            return self.add_rn(b);
        }
        soft::add(self, b, r)
    }

    fn sub(self, b: f64, r: Rounding) -> f64 {
        if r == Rounding::Nearest || !(self.is_finite() && b.is_finite()) {
            return self.sub_rn(b);
        }
        soft::add(self, -b, r)
    }

    fn mul(self, b: f64, r: Rounding) -> f64 {
        if r == Rounding::Nearest || !(self.is_finite() && b.is_finite()) {
            return self.mul_rn(b);
        }
        soft::mul(self, b, r)
    }

    fn fma(self, b: f64, c: f64, r: Rounding) -> f64 {
        if r == Rounding::Nearest || !(self.is_finite() && b.is_finite() && c.is_finite()) {
            return self.fma_rn(b, c);
        }
        soft::fma(self, b, c, r)
    }

    fn div(self, b: f64, r: Rounding) -> f64 {
        if r == Rounding::Nearest || !(self.is_finite() && b.is_finite()) || b == 0.0 {
            return self.div_rn(b);
        }
        soft::div(self, b, r)
    }

    fn sqrt(self, r: Rounding) -> f64 {
        if r == Rounding::Nearest || !(self.is_finite() && self > 0.0) {
            return self.sqrt_rn();
        }
        soft::sqrt(self, r)
    }

    #[inline]
    fn flush(self) -> f64 {
        self
    }

    #[inline]
    fn mul_flushed(self, b: f64, r: Rounding) -> f64 {
        Float::mul(self, b, r)
    }

    #[inline]
    fn div_flushed(self, b: f64, r: Rounding) -> f64 {
        Float::div(self, b, r)
    }

    // On an H200 `neg` and `abs` of `f64` are sums, so a NaN keeps its sign.
    #[inline]
    fn negated(self) -> f64 {
        if self.is_nan() { self.canonical() } else { -self }
    }

    #[inline]
    fn magnitude(self) -> f64 {
        if self.is_nan() { self.canonical() } else { self.abs() }
    }

    #[inline]
    fn canonical(self) -> f64 {
        if self.is_nan() { f64::from_bits(self.to_bits() | 0x0008_0000_0000_0000) } else { self }
    }

    #[inline]
    fn nan() -> f64 {
        f64::from_bits(0xfff8_0000_0000_0000)
    }
}
