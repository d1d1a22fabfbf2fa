//! `f16`, `bf16`, `tf32` and the 8-bit floats.

use super::floats::ROUNDINGS;
use super::numbers::compare::{Compare, Extreme};
use super::numbers::half::{Bf16, F16, Short, packed2};
use super::numbers::round::{Format, Rounding};
use super::numbers::small::{Fp8, tf32, tf32_away, tf32_finite, tf32_relu};
use crate::instructions::forms::exact;

fn numbers(format: Format) -> impl Iterator<Item = u16> {
    (0..=u16::MAX).filter(move |&a| u64::from(a & 0x7fff) < format.infinity())
}

fn widening_is_exact<T: Short>() {
    for a in numbers(T::FORMAT) {
        let exact = exact::Format(T::FORMAT.exponent, T::FORMAT.fraction).decode(a.into());
        assert_eq!(f64::from(T::widen(a)).to_bits(), exact::F64.round(exact, exact::Mode::Nearest), "{a:#x}");
        for r in ROUNDINGS {
            assert_eq!(T::round(T::widen(a).into(), r), a);
        }
    }
    let infinity = T::FORMAT.infinity() as u16;
    assert_eq!(T::widen(infinity | 0x8000), f32::NEG_INFINITY);
    for nan in infinity + 1..=0x7fff {
        assert!(T::widen(nan).is_nan() && T::round(T::widen(nan).into(), Rounding::Zero) == 0x7fff);
    }
}

#[test]
fn every_short_float_is_itself_when_widened_and_rounded() {
    widening_is_exact::<F16>();
    widening_is_exact::<Bf16>();
    assert_eq!(F16::widen(0xfe00).to_bits(), 0x7fff_ffff);
}

/// What is between two numbers becomes one of them, at and on both sides of their middle.
fn between<T: Short>() {
    let infinity = T::FORMAT.infinity() as u16;
    for low in 0..infinity - 1 {
        let (a, b) = (f64::from(T::widen(low)), f64::from(T::widen(low + 1)));
        let middle = (a + b) / 2.0;
        let even = if low & 1 == 0 { low } else { low + 1 };
        for (at, nearest) in [(middle, even), (middle.next_down_(), low), (middle.next_up_(), low + 1)] {
            let all = |sign: f64| ROUNDINGS.map(|r| T::round(at * sign, r));
            assert_eq!(all(1.0), [nearest, low, low, low + 1], "{at}");
            assert_eq!(all(-1.0), [nearest, low, low + 1, low].map(|bits| bits | 0x8000), "{at}");
        }
    }
    let greatest = infinity - 1;
    assert_eq!(ROUNDINGS.map(|r| T::round(1e300, r)), [infinity, greatest, greatest, infinity]);
    assert_eq!(ROUNDINGS.map(|r| T::round(-1e300, r) & 0x7fff), [infinity, greatest, infinity, greatest]);
    assert_eq!(ROUNDINGS.map(|r| T::round(1e-300, r)), [0, 0, 0, 1]);
    assert_eq!(T::finite(infinity | 0x8000), greatest | 0x8000);
}

/// The neighbours of a positive number.
trait Neighbours {
    fn next_up_(self) -> f64;
    fn next_down_(self) -> f64;
}

impl Neighbours for f64 {
    fn next_up_(self) -> f64 {
        f64::from_bits(self.to_bits() + 1)
    }
    fn next_down_(self) -> f64 {
        f64::from_bits(self.to_bits() - 1)
    }
}

#[test]
fn every_gap_between_short_floats_is_rounded_in_every_direction() {
    between::<F16>();
    between::<Bf16>();
}

#[test]
fn short_floats_have_one_nan_and_are_clamped_as_asked() {
    assert_eq!([F16::add(0x7c00, 0xfc00), F16::mul(0xfe01, 0x3c00), F16::negated(0x7d00)], [0x7fff; 3]);
    assert_eq!([Bf16::fma(0x7f80, 0, 0), Bf16::relu(0xffc0)], [0x7fff; 2]);
    assert_eq!([F16::saturate(0x4000), Bf16::saturate(0x4000), F16::saturate(0x7e00)], [0x3c00, 0x3f80, 0]);
    assert_eq!([F16::saturate(0x3800), F16::saturate(0x8000), F16::saturate(0xbc00)], [0x3800, 0, 0]);
    assert_eq!([F16::relu(0xbc00), F16::relu(0x3c00), F16::relu(0x8000)], [0, 0x3c00, 0]);
    assert_eq!([F16::flush(0x83ff), F16::flush(0x0400), Bf16::flush(0x007f)], [0x8000, 0x0400, 0]);
    assert_eq!(packed2(0x3c00_4000, 0x3c00_c000, F16::add), 0x4000_0000);
}

#[test]
fn short_floats_are_compared_as_numbers() {
    let least = Extreme { greatest: false, nan: false, xorsign: false };
    assert_eq!(F16::extreme(least, 0, 0x8000), 0x8000);
    assert_eq!(F16::extreme(least, 0x7fff, 0x3c00), 0x3c00);
    assert_eq!(F16::extreme(Extreme { nan: true, ..least }, 0x7e00, 0x3c00), 0x7fff);
    assert_eq!(Bf16::extreme(Extreme { xorsign: true, greatest: true, ..least }, 0xbf80, 0x4000), 0xc000);
    assert!(F16::compare(Compare::Lt, 0xbc00, 0x0001) && !F16::compare(Compare::Ge, 0x7e00, 0));
    assert_eq!(
        [F16::ex2(0x3c00), F16::ex2(0xfc00), F16::tanh(0x7c00), F16::tanh(0x8000)],
        [0x4000, 0, 0x3c00, 0x8000]
    );
    assert_eq!([Bf16::ex2(0x4000), Bf16::tanh(0xff80)], [0x4080, 0xbf80]);
}

#[test]
fn tf32_keeps_ten_bits_of_the_fraction() {
    let bits = |a: u32| f32::from_bits(a);
    assert_eq!(
        [tf32_away(bits(0x3f80_1000)), tf32(bits(0x3f80_1000), Rounding::Nearest)],
        [0x3f80_2000, 0x3f80_0000]
    );
    assert_eq!(tf32(bits(0xbf80_3fff), Rounding::Zero), 0xbf80_2000);
    assert_eq!(tf32(bits(0xbf80_3000), Rounding::Nearest), 0xbf80_4000);
    assert_eq!([tf32_away(f32::MAX), tf32_finite(tf32_away(f32::MIN))], [0x7f80_0000, 0xff7f_e000]);
    assert_eq!([tf32_away(f32::NAN), tf32(-f32::NAN, Rounding::Zero)], [0x7fc0_0000, 0x7fff_e000]);
    assert_eq!([tf32_relu(tf32_away(-1.0)), tf32_relu(0x3f80_0000)], [0, 0x3f80_0000]);
}

#[test]
fn every_8_bit_float_is_itself_in_f16_and_back() {
    for a in 0..=u8::MAX {
        for kind in [Fp8::E4m3, Fp8::E5m2] {
            let wide = kind.to_f16(a);
            let (nan, infinite) = match kind {
                Fp8::E4m3 => (a & 0x7f == 0x7f, false),
                Fp8::E5m2 => (a & 0x7f > 0x7c, a & 0x7f == 0x7c),
            };
            assert_eq!(F16::is_nan(wide), nan);
            let back = kind.round(F16::widen(wide).into());
            let expected = if nan {
                0x7f
            } else if infinite {
                a - 1
            } else {
                a
            };
            assert_eq!(back, expected, "{kind:?} {a:#x}");
        }
        let (fraction, exponent) = (f64::from(a & 7), i32::from(a >> 3 & 15));
        let size = if exponent == 0 { fraction / 512.0 } else { (8.0 + fraction) * 2f64.powi(exponent - 10) };
        if a & 0x7f != 0x7f {
            let sign = if a & 0x80 != 0 { -1.0 } else { 1.0 };
            assert_eq!(f64::from(F16::widen(Fp8::E4m3.to_f16(a))), size * sign);
        }
    }
    assert_eq!(
        [Fp8::E4m3.round(449.0), Fp8::E4m3.round(1e9), Fp8::E4m3.round(f64::NEG_INFINITY)],
        [0x7e, 0x7e, 0xfe]
    );
    assert_eq!([Fp8::E5m2.round(1e9), Fp8::E5m2.round(f64::NAN)], [0x7b, 0x7f]);
    assert_eq!(Fp8::E4m3.pack(1.0, -2.0), 0x38c0);
    assert_eq!(Fp8::E4m3.unpack(0x38c0), 0x3c00_c000);
    assert_eq!(Fp8::E5m2.pack_halves(0x3c00_c000), 0x3cc0);
}
