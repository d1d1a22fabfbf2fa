//! The formats of tensor cores: `tf32`, and the 8-bit floats, for which there are only conversions.

use super::half::{F16, Short, high, join, low};
use super::round::{Format, Rounding};

/// `cvt.rna.tf32.f32`: to nearest, ties away from zero. The result is an `f32` whose last 13 bits are zero. A NaN is
/// truncated.
#[inline]
pub(crate) fn tf32_away(a: f32) -> u32 {
    let bits = a.to_bits();
    match bits & 0x7fff_ffff {
        0x7f80_0000.. => bits & !0x1fff,
        _ => (bits + 0x1000) & !0x1fff,
    }
}

/// `cvt.rn.tf32.f32` and `cvt.rz.tf32.f32`.
#[inline]
pub(crate) fn tf32(a: f32, r: Rounding) -> u32 {
    if a.is_nan() {
        return 0x7fff_e000;
    }
    let format = Format { exponent: 8, fraction: 10 };
    (format.encode_f64(r, a.into()) as u32) << 13
}

/// `.satfinite` of a `tf32`. An H200 returns the number below infinity, for a NaN too.
#[inline]
pub(crate) fn tf32_finite(bits: u32) -> u32 {
    if bits & 0x7fff_ffff >= 0x7f80_0000 { bits - 0x2000 } else { bits }
}

/// `.relu` of a `tf32`.
#[inline]
pub(crate) fn tf32_relu(bits: u32) -> u32 {
    if bits & 0x8000_0000 != 0 && bits & 0x7fff_ffff <= 0x7f80_0000 { 0 } else { bits }
}

/// An 8-bit float.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fp8 {
    /// The format without infinities: only the pattern of all ones is NaN, and 448 is the greatest number.
    E4m3,
    /// The upper half of an `f16`.
    E5m2,
}

impl Fp8 {
    /// `cvt.rn.satfinite`, the only rounding to these formats.
    #[inline]
    pub(crate) fn round(self, value: f64) -> u8 {
        if value.is_nan() {
            return 0x7f;
        }
        let (format, greatest) = match self {
            Fp8::E4m3 => (Format::E4M3, 0x7e),
            Fp8::E5m2 => (Format::E5M2, 0x7b),
        };
        let negative = value.is_sign_negative();
        let magnitude = if value.is_infinite() {
            greatest
        } else {
            let (mantissa, exponent) = super::round::split(value);
            format.magnitude(Rounding::Nearest, negative, mantissa, exponent).min(greatest)
        };
        magnitude as u8 | if negative { 0x80 } else { 0 }
    }

    /// The `f16` of the same value.
    #[inline]
    pub(crate) fn to_f16(self, a: u8) -> u16 {
        let sign = u16::from(a & 0x80) << 8;
        let magnitude = u16::from(a & 0x7f);
        match self {
            Fp8::E4m3 if magnitude == 0x7f => super::half::NAN,
            Fp8::E4m3 => {
                // Read as an `f16`, the bits have a value that is 2^8 times too small.
                let value = f64::from(F16::widen(magnitude << 7)) * 256.0;
                F16::round(value, Rounding::Nearest) | sign
            }
            Fp8::E5m2 => F16::canonical(sign | magnitude << 8),
        }
    }

    /// `.relu` of a conversion's result.
    #[inline]
    pub(crate) fn relu(self, a: u8) -> u8 {
        if a & 0x80 != 0 { 0 } else { a }
    }

    /// `cvt.rn.satfinite.e4m3x2.f32 d, a, b`: `a` becomes the upper half.
    #[inline]
    pub(crate) fn pack(self, a: f32, b: f32) -> u16 {
        u16::from_le_bytes([self.round(b.into()), self.round(a.into())])
    }

    /// `cvt.rn.satfinite.e4m3x2.f16x2`.
    #[inline]
    pub(crate) fn pack_halves(self, a: u32) -> u16 {
        self.pack(F16::widen(high(a)), F16::widen(low(a)))
    }

    /// `cvt.rn.f16x2.e4m3x2`.
    #[inline]
    pub(crate) fn unpack(self, a: u16) -> u32 {
        let [low, high] = a.to_le_bytes();
        join(self.to_f16(low), self.to_f16(high))
    }
}
