//! `cvt`, between all types of numbers.

use super::float::Float;
use super::half::{Bf16, F16, Short};
use super::round::{Format, Rounding, narrow};

/// The type of an operand of `cvt`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    Bf16,
    F32,
    F64,
}

impl Kind {
    #[inline]
    pub(crate) const fn bits(self) -> u32 {
        match self {
            Kind::U8 | Kind::S8 => 8,
            Kind::U16 | Kind::S16 | Kind::F16 | Kind::Bf16 => 16,
            Kind::U32 | Kind::S32 | Kind::F32 => 32,
            Kind::U64 | Kind::S64 | Kind::F64 => 64,
        }
    }

    #[inline]
    pub(crate) const fn is_float(self) -> bool {
        matches!(self, Kind::F16 | Kind::Bf16 | Kind::F32 | Kind::F64)
    }

    #[inline]
    const fn format(self) -> Option<Format> {
        Some(match self {
            Kind::F16 => Format::F16,
            Kind::Bf16 => Format::BF16,
            Kind::F32 => Format::F32,
            Kind::F64 => Format::F64,
            _ => return None,
        })
    }

    #[inline]
    pub(crate) const fn is_signed(self) -> bool {
        matches!(self, Kind::S8 | Kind::S16 | Kind::S32 | Kind::S64)
    }

    /// The low bits of a register as this integer, sign-extended or zero-extended to 64 bits.
    #[inline]
    pub(crate) const fn extend(self, bits: u64) -> u64 {
        let spare = 64 - self.bits();
        if self.is_signed() { ((bits << spare) as i64 >> spare) as u64 } else { bits << spare >> spare }
    }

    /// The integer for a NaN: zero, unless one of the types has 64 bits.
    #[inline]
    const fn nan_from(self, from: Kind) -> u64 {
        if self.bits() == 64 || from.bits() == 64 { self.extend(1 << (self.bits() - 1)) } else { 0 }
    }
}

/// The modifiers of a conversion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct How {
    /// The rounding mode, from `.rn` and the like or from `.rni` and the like.
    pub(crate) rounding: Rounding,
    /// `.rni` and the like: the result is integral. A conversion to an integer always is.
    pub(crate) integral: bool,
    pub(crate) ftz: bool,
    pub(crate) sat: bool,
    pub(crate) relu: bool,
    pub(crate) satfinite: bool,
}

impl How {
    /// No modifier but the rounding.
    pub(crate) const fn rounded(rounding: Rounding) -> How {
        How { rounding, integral: false, ftz: false, sat: false, relu: false, satfinite: false }
    }
}

/// Rounds to an integral value, which stays a float.
#[inline]
pub(crate) fn integral(value: f64, r: Rounding) -> f64 {
    match r {
        Rounding::Nearest => value.round_ties_even(),
        Rounding::Zero => value.trunc(),
        Rounding::Down => value.floor(),
        Rounding::Up => value.ceil(),
    }
}

/// Converts a float to an integer: clamped, and extended to 64 bits; `nan` is the result for NaN.
#[inline]
pub(crate) fn float_to_integer(value: f64, r: Rounding, to: Kind, nan: u64) -> u64 {
    let whole = integral(value, r);
    let spare = 64 - to.bits();
    // Rust's conversions with `as` clamp.
    let clamped = if to.is_signed() {
        (whole as i64).clamp(i64::MIN >> spare, i64::MAX >> spare) as u64
    } else {
        (whole as u64).min(u64::MAX >> spare)
    };
    if value.is_nan() { nan } else { clamped }
}

/// Converts an integer of 64 bits to a float.
#[inline]
pub(crate) fn integer_to_f32(signed: bool, value: u64, r: Rounding) -> f32 {
    if r == Rounding::Nearest {
        return if signed { value as i64 as f32 } else { value as f32 };
    }
    let (negative, magnitude) = sign_of(signed, value);
    f32::from_bits(Format::F32.encode_integer(r, negative, magnitude) as u32)
}

/// Converts an integer of 64 bits to a float.
#[inline]
pub(crate) fn integer_to_f64(signed: bool, value: u64, r: Rounding) -> f64 {
    if r == Rounding::Nearest {
        return if signed { value as i64 as f64 } else { value as f64 };
    }
    let (negative, magnitude) = sign_of(signed, value);
    f64::from_bits(Format::F64.encode_integer(r, negative, magnitude))
}

#[inline]
fn sign_of(signed: bool, value: u64) -> (bool, u64) {
    let negative = signed && (value as i64) < 0;
    (negative, if negative { value.wrapping_neg() } else { value })
}

/// `cvt` between integers.
#[inline]
pub(crate) fn integer_to_integer(to: Kind, from: Kind, sat: bool, bits: u64) -> u64 {
    let value = from.extend(bits);
    if !sat {
        return to.extend(value);
    }
    let spare = 64 - to.bits();
    let (negative, _) = sign_of(from.is_signed(), value);
    match (to.is_signed(), negative) {
        (true, true) => (value as i64).max(i64::MIN >> spare) as u64,
        (true, false) => value.min((i64::MAX >> spare) as u64),
        (false, true) => 0,
        (false, false) => value.min(u64::MAX >> spare),
    }
}

/// `cvt.f64.f32`, which keeps the payload of a NaN.
#[inline]
pub(crate) fn f32_to_f64(a: f32) -> f64 {
    if a.is_nan() {
        let bits = u64::from(a.to_bits());
        return f64::from_bits(bits >> 31 << 63 | 0x7ff8 << 48 | (bits & 0x7f_ffff) << 29);
    }
    a.into()
}

/// `cvt.f32.f64`.
#[inline]
pub(crate) fn f64_to_f32(a: f64, r: Rounding) -> f32 {
    narrow(a, r).canonical()
}

/// `cvt.to.from` of the low bits of a register. An integer result is extended to 64 bits.
#[inline]
pub(crate) fn convert(to: Kind, from: Kind, how: How, bits: u64) -> u64 {
    match (to.is_float(), from.is_float()) {
        (false, false) => integer_to_integer(to, from, how.sat, bits),
        (true, false) => from_integer(to, from, how, bits),
        (false, true) => float_to_integer(widen(from, how.ftz, bits), how.rounding, to, to.nan_from(from)),
        (true, true) => {
            if let Some(nan) = nan_to_float(to, from, how, bits) {
                return nan;
            }
            // `.ftz` flushes subnormal numbers of `f32`. An `f16` may have a smaller value than those, and is not
            // flushed.
            let value = widen(from, how.ftz && to != Kind::F16, bits);
            let (value, r) = if how.integral {
                (integral(value, how.rounding), Rounding::Nearest)
            } else {
                (value, how.rounding)
            };
            from_float(to, value, r, how)
        }
    }
}

/// The result for a NaN, if it is not the canonical one: a conversion within a type, and one from or to `f64`, keeps
/// as much of the payload as fits.
#[inline]
fn nan_to_float(to: Kind, from: Kind, how: How, bits: u64) -> Option<u64> {
    if how.sat || how.integral {
        return None;
    }
    let (to_format, from_format) = (to.format()?, from.format()?);
    let magnitude = bits & (from_format.sign() - 1);
    if magnitude <= from_format.infinity() {
        return None;
    }
    let moves = to == from || (to, from) == (Kind::F32, Kind::Bf16);
    if moves && !how.ftz && matches!(to, Kind::F32 | Kind::F64) {
        return Some(bits << (to.bits() - from.bits()));
    }
    let is_kept = from == Kind::F64 || (to, from) == (Kind::F64, Kind::F16);
    if !is_kept || to == from {
        return (to == Kind::F64 && how.ftz).then_some(0x7fff_ffff_e000_0000);
    }
    let sign = if bits & from_format.sign() == 0 { 0 } else { to_format.sign() };
    let fraction = (bits << (52 - from_format.fraction)) & ((1 << 52) - 1);
    let quiet = 1 << (to_format.fraction - 1);
    Some(sign | to_format.infinity() | quiet | fraction >> (52 - to_format.fraction))
}

/// The value of a float of any kind.
#[inline]
fn widen(from: Kind, ftz: bool, bits: u64) -> f64 {
    match from {
        Kind::F16 => f32_to_f64(F16::widen(bits as u16)),
        Kind::Bf16 => f32_to_f64(Bf16::widen(bits as u16)),
        Kind::F32 => {
            let a = f32::from_bits(bits as u32);
            f32_to_f64(if ftz { a.flush() } else { a })
        }
        _ => f64::from_bits(bits),
    }
}

#[inline]
fn from_integer(to: Kind, from: Kind, how: How, bits: u64) -> u64 {
    let (signed, value) = (from.is_signed(), from.extend(bits));
    let (negative, magnitude) = sign_of(signed, value);
    match to {
        Kind::F16 => finish::<F16>(F16::from_integer(negative, magnitude, how.rounding), how),
        Kind::Bf16 => finish::<Bf16>(Bf16::from_integer(negative, magnitude, how.rounding), how),
        Kind::F32 => {
            let result = integer_to_f32(signed, value, how.rounding);
            if how.sat { result.saturate() } else { result }.to_bits().into()
        }
        _ => {
            let result = integer_to_f64(signed, value, how.rounding);
            if how.sat { result.saturate() } else { result }.to_bits()
        }
    }
}

#[inline]
fn from_float(to: Kind, value: f64, r: Rounding, how: How) -> u64 {
    match to {
        Kind::F16 => finish::<F16>(F16::round(value, r), how),
        Kind::Bf16 => finish::<Bf16>(Bf16::round(value, r), how),
        Kind::F32 => {
            let result = f64_to_f32(value, r);
            let result = if how.ftz { result.flush() } else { result };
            if how.sat { result.saturate() } else { result }.to_bits().into()
        }
        _ => if how.sat { value.saturate() } else { value.canonical() }.to_bits(),
    }
}

#[inline]
fn finish<T: Short>(result: u16, how: How) -> u64 {
    let result = if how.sat { T::saturate(result) } else { result };
    let result = if how.satfinite { T::finite(result) } else { result };
    if how.relu { T::relu(result) } else { result }.into()
}

/// `cvt.f16x2.f32 d, a, b` or, with [`Kind::Bf16`], `cvt.bf16x2.f32`: `a` becomes the upper half.
#[inline]
pub(crate) fn convert2(to: Kind, how: How, a: f32, b: f32) -> u32 {
    let half = |a: f32| convert(to, Kind::F32, how, a.to_bits().into()) as u32;
    half(a) << 16 | half(b)
}

/// `cvt.pack.sat`: two signed words, clamped to a type of `size` bits, at most 16. `b` becomes the low bits and `a`
/// the next ones; above them are those of `c`.
#[inline]
pub(crate) fn pack(signed: bool, size: u32, a: i32, b: i32, c: u32) -> u32 {
    let size = size.clamp(1, 16);
    let (low, high) = if signed { (-1 << (size - 1), (1 << (size - 1)) - 1) } else { (0, (1 << size) - 1) };
    let field = |value: i32| value.clamp(low, high) as u32 & ((1 << size) - 1);
    field(b) | field(a) << size | c.checked_shl(2 * size).unwrap_or(0)
}
