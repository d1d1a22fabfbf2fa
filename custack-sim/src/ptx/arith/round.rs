//! Rounding to a format of floats: rounding modes matter here only.

/// The rounding mode: to which of the two neighbours in the format a value is rounded (`.rn`, `.rz`, `.rm`, `.rp`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rounding {
    /// The nearer one, or in a tie the even one.
    Nearest,
    /// The one towards zero.
    Zero,
    /// The one towards minus infinity.
    Down,
    /// The one towards plus infinity.
    Up,
}

/// A binary format, whose sign bit is above the exponent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Format {
    /// Bits of the exponent.
    pub(crate) exponent: u32,
    /// Bits of the fraction.
    pub(crate) fraction: u32,
}

impl Format {
    pub(crate) const F16: Format = Format { exponent: 5, fraction: 10 };
    pub(crate) const BF16: Format = Format { exponent: 8, fraction: 7 };
    pub(crate) const F32: Format = Format { exponent: 8, fraction: 23 };
    pub(crate) const F64: Format = Format { exponent: 11, fraction: 52 };
    pub(crate) const E4M3: Format = Format { exponent: 4, fraction: 3 };
    pub(crate) const E5M2: Format = Format { exponent: 5, fraction: 2 };

    /// The bit pattern of infinity.
    #[inline]
    pub(crate) const fn infinity(self) -> u64 {
        ((1 << self.exponent) - 1) << self.fraction
    }

    /// The sign bit.
    #[inline]
    pub(crate) const fn sign(self) -> u64 {
        1 << (self.exponent + self.fraction)
    }

    /// The magnitude of `mantissa * 2^exponent`, rounded as if the exponent had no upper bound: a result at or above
    /// the bits of infinity means that it overflows. `mantissa` is below 2^63. Its last bit may be a sticky bit for
    /// all bits below, if it has at least two bits more than the format.
    #[inline]
    pub(crate) fn magnitude(self, r: Rounding, negative: bool, mantissa: u64, exponent: i32) -> u64 {
        if mantissa == 0 {
            return 0;
        }
        let fraction = self.fraction as i32;
        let least = 2 - (1 << (self.exponent - 1));
        let top = exponent + 63 - mantissa.leading_zeros() as i32;
        let unit = top.max(least) - fraction;
        let drop = unit - exponent;
        let (kept, rest, half) = if drop <= 0 {
            (mantissa << -drop, 0, 1)
        } else if drop > 63 {
            (0, 1, 2)
        } else {
            (mantissa >> drop, mantissa & ((1 << drop) - 1), 1 << (drop - 1))
        };
        let more = match r {
            Rounding::Nearest => rest > half || (rest == half && kept & 1 == 1),
            Rounding::Zero => false,
            Rounding::Down => negative && rest != 0,
            Rounding::Up => !negative && rest != 0,
        };
        // The implicit leading bit of a normal number increments the exponent, and so does a carry out of the
        // fraction.
        (((unit - least + fraction) as u64) << fraction) + kept + u64::from(more)
    }

    /// The bits of `mantissa * 2^exponent` with this sign; see [`magnitude`](Format::magnitude).
    #[inline]
    pub(crate) fn encode(self, r: Rounding, negative: bool, mantissa: u64, exponent: i32) -> u64 {
        let infinity = self.infinity();
        let bits = self.magnitude(r, negative, mantissa, exponent);
        let bits = if bits < infinity { bits } else { self.overflow(r, negative) };
        bits | if negative { self.sign() } else { 0 }
    }

    /// The magnitude of a number that overflows.
    #[inline]
    fn overflow(self, r: Rounding, negative: bool) -> u64 {
        let outwards = match r {
            Rounding::Nearest => true,
            Rounding::Zero => false,
            Rounding::Down => negative,
            Rounding::Up => !negative,
        };
        self.infinity() - u64::from(!outwards)
    }

    /// Rounds an `f64` to the format; NaN becomes all ones below the sign.
    #[inline]
    pub(crate) fn encode_f64(self, r: Rounding, value: f64) -> u64 {
        if value.is_nan() {
            return self.sign() - 1;
        }
        let negative = value.is_sign_negative();
        if value.is_infinite() {
            return self.infinity() | if negative { self.sign() } else { 0 };
        }
        let (mantissa, exponent) = split(value);
        self.encode(r, negative, mantissa, exponent)
    }

    /// Rounds an integer to the format.
    #[inline]
    pub(crate) fn encode_integer(self, r: Rounding, negative: bool, magnitude: u64) -> u64 {
        let (mantissa, exponent) =
            if magnitude >> 63 == 0 { (magnitude, 0) } else { (magnitude >> 1 | magnitude & 1, 1) };
        self.encode(r, negative, mantissa, exponent)
    }
}

/// The magnitude of a finite number as an integer, and the exponent of its last bit.
#[inline]
pub(crate) fn split(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32;
    let fraction = bits & 0x000f_ffff_ffff_ffff;
    if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) }
}

/// Rounds to `f32`. If `value` is itself a rounded result, it must have been rounded to odd.
#[inline]
pub(crate) fn narrow(value: f64, r: Rounding) -> f32 {
    let near = value as f32;
    let wide = f64::from(near);
    let bits = near.to_bits();
    let step = match r {
        Rounding::Nearest => return near,
        Rounding::Zero if wide.abs() > value.abs() => return f32::from_bits(bits - 1),
        Rounding::Down if wide > value => near.is_sign_negative(),
        Rounding::Up if wide < value => near.is_sign_positive(),
        _ => return near,
    };
    // One step away from zero or towards it. A `near` of zero has the sign of `value`, so the step goes away from it and
    // does not wrap around.
    f32::from_bits(if step { bits.wrapping_add(1) } else { bits.wrapping_sub(1) })
}

/// A sum rounded to odd: a later rounding to a format with less than 52 bits gives the same as that of the exact sum.
#[inline]
pub(crate) fn sum_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let from_b = sum - a;
    let error = (a - (sum - from_b)) + (b - from_b);
    to_odd(sum, error)
}

/// Rounds the exact value, which is `near` plus a small `error`, to odd. A NaN as `error` means that there is none.
#[inline]
pub(crate) fn to_odd(near: f64, error: f64) -> f64 {
    let bits = near.to_bits();
    let inexact = (error > 0.0) | (error < 0.0);
    let outwards = (error > 0.0) == (near > 0.0);
    let odd = if outwards { bits | 1 } else { bits.wrapping_sub(1) };
    f64::from_bits(if inexact & (bits & 1 == 0) { odd } else { bits })
}
