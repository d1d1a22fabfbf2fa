//! `cvt` between all kinds of numbers.

use super::Random;
use super::floats::ROUNDINGS;
use super::numbers::convert::{How, Kind, convert, convert2, pack};
use super::numbers::round::Rounding;

const INTEGERS: [Kind; 8] =
    [Kind::U8, Kind::U16, Kind::U32, Kind::U64, Kind::S8, Kind::S16, Kind::S32, Kind::S64];

fn plain(to: Kind, from: Kind, r: Rounding, bits: u64) -> u64 {
    convert(to, from, How::rounded(r), bits)
}

/// The numbers that an integer type has.
fn range(kind: Kind) -> (i128, i128) {
    match kind.is_signed() {
        true => (-1 << (kind.bits() - 1), (1 << (kind.bits() - 1)) - 1),
        false => (0, (1 << kind.bits()) - 1),
    }
}

/// The number that the low bits are.
fn number(kind: Kind, bits: u64) -> i128 {
    let spare = 128 - kind.bits();
    let up = (bits as i128) << spare;
    if kind.is_signed() { up >> spare } else { ((up as u128) >> spare) as i128 }
}

#[test]
fn integers_are_cut_or_clamped_to_another_width() {
    let mut random = Random(4);
    for _ in 0..2_000 {
        let bits = random.integer();
        for (from, to) in INTEGERS.iter().flat_map(|&from| INTEGERS.map(|to| (from, to))) {
            let value = number(from, bits);
            let (low, high) = range(to);
            assert_eq!(plain(to, from, Rounding::Zero, bits), number(to, value as u64) as u64);
            let how = How { sat: true, ..How::rounded(Rounding::Nearest) };
            assert_eq!(
                convert(to, from, how, bits),
                value.clamp(low, high) as u64,
                "{from:?} {to:?} {value}"
            );
        }
    }
}

#[test]
fn floats_become_the_integer_next_to_them_or_the_nearest_there_is() {
    let mut random = Random(6);
    for _ in 0..3_000 {
        let value = match random.below(3) {
            0 => random.f64(),
            1 => random.integer() as i64 as f64 / 4.0,
            _ => f64::from(random.below(2000) as u32) / 4.0 - 250.0,
        };
        if value.is_nan() {
            continue;
        }
        for to in INTEGERS {
            let (low, high) = range(to);
            let floor = value.floor();
            let (below, above) =
                (floor as i128, if value == floor { floor as i128 } else { floor as i128 + 1 });
            let near = match (value - floor).partial_cmp(&0.5).unwrap_or(std::cmp::Ordering::Less) {
                std::cmp::Ordering::Less => below,
                std::cmp::Ordering::Greater => above,
                std::cmp::Ordering::Equal => below + (below & 1),
            };
            let expected = [near, if value < 0.0 { above } else { below }, below, above];
            for (r, expected) in ROUNDINGS.into_iter().zip(expected) {
                let result = plain(to, Kind::F64, r, value.to_bits());
                assert_eq!(result, expected.clamp(low, high) as u64, "{value} to {to:?} in {r:?}");
                let short = value as f32;
                if f64::from(short) == value {
                    assert_eq!(plain(to, Kind::F32, r, short.to_bits().into()), result);
                }
            }
        }
    }
}

#[test]
fn nan_becomes_zero_unless_64_bits_are_involved() {
    let to = |kind| {
        INTEGERS.map(|to| {
            plain(
                to,
                kind,
                Rounding::Zero,
                [0x7e00, 0x7fc0, 0x7fc0_0000, 0x7ff8 << 48][match kind {
                    Kind::F16 => 0,
                    Kind::Bf16 => 1,
                    Kind::F32 => 2,
                    _ => 3,
                }],
            )
        })
    };
    let wide = 1u64 << 63;
    for kind in [Kind::F16, Kind::Bf16, Kind::F32] {
        assert_eq!(to(kind), [0, 0, 0, wide, 0, 0, 0, wide]);
    }
    let least =
        [0x80, 0x8000, 0x8000_0000, wide, -0x80i64 as u64, -0x8000i64 as u64, -0x8000_0000i64 as u64, wide];
    assert_eq!(to(Kind::F64), least);
}

#[test]
fn modifiers_flush_clamp_and_make_whole() {
    let f32s =
        |how: How, a: f32| f32::from_bits(convert(Kind::F32, Kind::F32, how, a.to_bits().into()) as u32);
    let whole = |r| How { integral: true, ..How::rounded(r) };
    assert_eq!(ROUNDINGS.map(|r| f32s(whole(r), -2.5)), [-2.0, -2.0, -3.0, -2.0]);
    assert_eq!(f32s(whole(Rounding::Up), -0.5).to_bits(), 0x8000_0000);
    assert_eq!(f32s(How { ftz: true, ..whole(Rounding::Up) }, 1e-40), 0.0);
    assert_eq!(f32s(whole(Rounding::Up), 1e-40), 1.0);
    assert_eq!(f32s(How::rounded(Rounding::Nearest), -f32::NAN).to_bits(), 0xffc0_0000);
    let sat = How { sat: true, ..How::rounded(Rounding::Nearest) };
    assert_eq!([f32s(sat, f32::NAN), f32s(sat, 2.0)], [0.0, 1.0]);
    assert_eq!(convert(Kind::F32, Kind::S32, sat, u64::MAX), 0);
    let ftz = How { ftz: true, ..How::rounded(Rounding::Nearest) };
    assert_eq!(convert(Kind::U32, Kind::F32, How { rounding: Rounding::Up, ..ftz }, 1), 0);
    assert_eq!(convert(Kind::F32, Kind::F64, ftz, (-1e-40f64).to_bits()), 0x8000_0000);
    assert_eq!(
        convert(Kind::F64, Kind::F32, How::rounded(Rounding::Nearest), 0xffc0_0001),
        0xfff8_0000_2000_0000
    );
    let relu = How { relu: true, ..How::rounded(Rounding::Nearest) };
    assert_eq!(convert2(Kind::F16, relu, 1.0, -1.0), 0x3c00_0000);
    assert_eq!(convert2(Kind::Bf16, How { satfinite: true, ..relu }, f32::MAX, f32::NAN), 0x7f7f_7fff);
    assert_eq!(convert(Kind::F16, Kind::F64, whole(Rounding::Nearest), 2.5f64.to_bits()), 0x4000);
}

#[test]
fn packing_clamps_two_numbers_over_a_third() {
    assert_eq!(pack(true, 16, 40_000, -40_000, 7), 0x7fff_8000);
    assert_eq!(pack(false, 8, 300, -1, 0x1234), 0x1234_ff00);
    assert_eq!(pack(true, 4, -3, 100, 0xab), 0xabd7);
    assert_eq!(pack(false, 2, 2, 9, 1), 0b1_1011);
}
