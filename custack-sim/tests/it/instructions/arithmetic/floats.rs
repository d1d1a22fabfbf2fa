//! What is special about operations of `f32` and `f64`; `forms` has their roundings.

use super::Random;
use super::numbers::approx;
use super::numbers::compare::{
    Compare, Extreme, Property, compare, extreme, extreme3, max, max_nan, min, testp,
};
use super::numbers::float::Float;
use super::numbers::round::Rounding;

pub(super) const ROUNDINGS: [Rounding; 4] = [Rounding::Nearest, Rounding::Zero, Rounding::Down, Rounding::Up];

#[test]
fn f32_fma_is_that_of_the_host() {
    let mut random = Random(2);
    for _ in 0..200_000 {
        let [a, b, c] = [(); 3].map(|()| random.f32());
        let (ours, host) = (a.fma_rn(b, c), a.mul_add(b, c));
        assert!(
            ours.to_bits() == host.to_bits() || host.is_nan() && ours.to_bits() == 0x7fff_ffff,
            "{a} {b} {c}"
        );
    }
}

#[test]
fn an_exact_zero_is_negative_only_when_rounding_down_or_of_negative_zeros() {
    for r in ROUNDINGS {
        let down = r == Rounding::Down;
        for (a, b, negative) in
            [(0.0, 0.0, false), (-0.0, -0.0, true), (0.0, -0.0, down), (-0.0, 0.0, down), (1.5, -1.5, down)]
        {
            assert_eq!(f64::add(a, b, r).is_sign_negative(), negative, "{a} + {b} in {r:?}");
            assert_eq!(f64::fma(a, 1.0, b, r).is_sign_negative(), negative);
            let (a, b) = (a as f32, b as f32);
            assert_eq!(f32::add(a, b, r).is_sign_negative(), negative, "{a} + {b} in {r:?}");
            assert_eq!(f32::fma(a, 1.0, b, r).is_sign_negative(), negative);
            assert_eq!(f32::sub(a, -b, r).is_sign_negative(), negative);
        }
        assert_eq!(f64::mul(-0.0, 3.0, r).to_bits(), (-0f64).to_bits());
        assert_eq!(f32::mul(-0.0, -3.0, r).to_bits(), 0);
        assert_eq!(Float::sqrt(-0f64, r).to_bits(), (-0f64).to_bits());
        assert_eq!(Float::sqrt(-0f32, r).to_bits(), (-0f32).to_bits());
        assert_eq!(Float::div(-0f32, 5.0, r).to_bits(), (-0f32).to_bits());
        assert_eq!(Float::div(-0f64, 5.0, r).to_bits(), (-0f64).to_bits());
    }
}

#[test]
fn infinities_are_those_of_every_direction() {
    let inf = f32::INFINITY;
    for r in ROUNDINGS {
        assert_eq!(f32::add(inf, 1.0, r), inf);
        assert_eq!(Float::div(1f32, 0.0, r), inf);
        assert_eq!(Float::rcp(-0f64, r), f64::NEG_INFINITY);
        assert_eq!(Float::rcp(inf, r).to_bits(), 0);
        assert_eq!(Float::rcp(f64::NEG_INFINITY, r).to_bits(), (-0f64).to_bits());
        assert_eq!(Float::sqrt(f64::INFINITY, r), f64::INFINITY);
        assert_eq!(Float::div(-3f32, inf, r).to_bits(), (-0f32).to_bits());
    }
}

#[test]
fn nan_is_canonical_in_f32_and_passed_on_in_f64() {
    for r in ROUNDINGS {
        for nan in [f32::add(f32::INFINITY, f32::NEG_INFINITY, r), f32::mul(0.0, f32::INFINITY, r)] {
            assert_eq!(nan.to_bits(), 0x7fff_ffff);
        }
        assert_eq!(f32::add(f32::from_bits(0xff80_1234), 1.0, r).to_bits(), 0x7fff_ffff);
        assert_eq!(Float::sqrt(-1f32, r).to_bits(), 0x7fff_ffff);
        assert_eq!(Float::sqrt(-1f64, r).to_bits(), 0xfff8_0000_0000_0000);
        assert_eq!(Float::div(0f64, 0.0, r).to_bits(), 0xfff8_0000_0000_0000);
        let payload = f64::from_bits(0x7ff0_0000_0000_0123);
        assert_eq!(f64::fma(1.0, payload, 2.0, r).to_bits(), 0x7ff8_0000_0000_0123);
    }
    assert_eq!(f32::NAN.negated().to_bits(), 0x7fff_ffff);
    assert_eq!((-f32::NAN).flipped().to_bits(), 0x7fc0_0000);
}

#[test]
fn flushing_keeps_the_sign_and_saturating_does_not() {
    let least = f32::from_bits(0x8000_0001);
    assert_eq!(least.flush().to_bits(), 0x8000_0000);
    assert_eq!(f32::MIN_POSITIVE.flush(), f32::MIN_POSITIVE);
    assert_eq!(5e-324f64.flush(), 5e-324);
    for (value, expected) in [(-0f32, 0f32), (f32::NAN, 0.0), (-3.0, 0.0), (0.25, 0.25), (7.0, 1.0)] {
        assert_eq!(value.saturate().to_bits(), expected.to_bits());
        assert_eq!(f64::from(value).saturate().to_bits(), f64::from(expected).to_bits());
    }
}

#[test]
fn the_lesser_and_the_greater_order_zeros_and_treat_nan_as_asked() {
    assert_eq!(min(0f32, -0.0).to_bits(), 0x8000_0000);
    assert_eq!(max(-0f64, 0.0).to_bits(), 0);
    assert_eq!(min(f32::NAN, 3.0), 3.0);
    assert_eq!(max(3.0, f64::NAN), 3.0);
    assert_eq!(min(f32::NAN, -f32::NAN).to_bits(), 0x7fff_ffff);
    assert_eq!(max_nan(3.0, -f32::NAN).to_bits(), 0x7fff_ffff);
    let how = Extreme { greatest: true, nan: false, xorsign: true };
    assert_eq!(extreme(how, -5f32, 3.0), -5.0);
    assert_eq!(extreme(how, -5f32, -7.0), 7.0);
    assert_eq!(extreme(how, -5f32, f32::NAN), -5.0);
    assert_eq!(extreme(Extreme { nan: true, ..how }, -5f32, f32::NAN).to_bits(), 0x7fff_ffff);
    assert_eq!(extreme3(how, -5f32, 2.0, -9.0), 9.0);
    assert_eq!(extreme3(Extreme { greatest: false, xorsign: false, ..how }, 5f64, 2.0, f64::NAN), 2.0);
    assert_eq!((-1f32).sign_onto(4.0), -4.0);
}

#[test]
fn comparisons_with_nan_are_true_only_if_they_say_so() {
    use Compare::*;
    let truths = |a: f64, b: f64| {
        [Eq, Ne, Lt, Le, Gt, Ge, Equ, Neu, Ltu, Leu, Gtu, Geu, Num, Nan].map(|op| u8::from(compare(op, a, b)))
    };
    assert_eq!(truths(1.0, 2.0), [0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1, 0]);
    assert_eq!(truths(2.0, 1.0), [0, 1, 0, 0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0]);
    assert_eq!(truths(0.0, -0.0), [1, 0, 0, 1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0]);
    assert_eq!(truths(f64::NAN, 1.0), [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 1]);
}

#[test]
fn properties_are_those_of_the_manual() {
    use Property::*;
    let properties =
        |a: f32| [Finite, Infinite, Number, NotANumber, Normal, Subnormal].map(|p| u8::from(testp(p, a)));
    assert_eq!(properties(0.0), [1, 0, 1, 0, 1, 0]);
    assert_eq!(properties(-1e-40), [1, 0, 1, 0, 0, 1]);
    assert_eq!(properties(f32::NEG_INFINITY), [0, 1, 1, 0, 0, 0]);
    assert_eq!(properties(f32::NAN), [0, 0, 0, 1, 0, 0]);
    assert_eq!(properties(2.5), [1, 0, 1, 0, 1, 0]);
}

#[test]
fn approximations_have_the_special_values_of_the_manual() {
    let (inf, tiny) = (f32::INFINITY, f32::from_bits(0x8000_0001));
    let bits = |a: f32| a.to_bits();
    assert_eq!(
        [approx::ex2(false, -inf), approx::ex2(true, tiny), approx::ex2(true, -130.0)].map(bits),
        [0, 0x3f80_0000, 0]
    );
    assert_eq!(approx::ex2(false, -149.0).to_bits(), 1);
    assert_eq!([approx::lg2(false, -0.0), approx::lg2(true, tiny)], [-inf, -inf]);
    assert_eq!(bits(approx::lg2(false, -1.0)), 0x7fff_ffff);
    assert_eq!(approx::lg2(false, -tiny), -149.0);
    assert_eq!([approx::rcp(true, tiny), approx::rcp(false, -0.0), approx::rsqrt(true, tiny)], [-inf; 3]);
    assert_eq!([bits(approx::rcp(false, -inf)), bits(approx::sqrt(false, -0.0))], [0x8000_0000; 2]);
    assert_eq!(bits(approx::rcp(true, f32::MAX)), 0);
    assert_eq!(
        [approx::sin(false, inf), approx::cos(true, -inf), approx::rsqrt(false, -4.0)].map(bits),
        [0x7fff_ffff; 3]
    );
    assert_eq!(
        [approx::sin(true, tiny), approx::sin(false, -0.0), approx::tanh(-0.0)].map(bits),
        [0x8000_0000; 3]
    );
    assert_eq!([approx::tanh(inf), approx::tanh(-inf)], [1.0, -1.0]);
    assert_eq!(
        [approx::div(false, false, 6.0, 2f32.powi(127)), approx::div(true, false, 6.0, 2.0)],
        [0.0, 3.0]
    );
    assert_eq!(bits(approx::div(false, false, inf, 2f32.powi(127))), 0x7fff_ffff);
    assert_eq!(approx::rcp_f64(3.0).to_bits(), 0x3fd5_5555_0000_0000);
    assert_eq!(approx::rcp_f64(f64::MAX).to_bits(), 0);
    assert_eq!([approx::rcp_f64(-5e-324), approx::rsqrt_ftz_f64(-0.0)], [f64::NEG_INFINITY; 2]);
    assert_eq!(approx::rsqrt_ftz_f64(4.0), 0.5);
}
