//! Exact numbers, and what it means that a float is the right one of them.

use super::numbers::round::{Format, Rounding};
use std::cmp::Ordering;

const LIMBS: usize = 72;

/// A fixed-point number in units of 2^-2200, wide enough for the product of any two `f64`; two's complement.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Fixed([u64; LIMBS]);

impl Fixed {
    pub(super) fn zero() -> Fixed {
        Fixed([0; LIMBS])
    }

    /// With `factor * a * b` more.
    pub(super) fn plus(mut self, factor: i64, a: f64, b: f64) -> Fixed {
        let (ma, ea) = whole(a);
        let (mb, eb) = whole(b);
        let negative = a.is_sign_negative() ^ b.is_sign_negative() ^ (factor < 0);
        let product = u128::from(ma) * u128::from(mb) * u128::from(factor.unsigned_abs());
        let at = usize::try_from(ea + eb + 2200).unwrap();
        let mut wide = [0u64; LIMBS];
        let (limb, bit) = (at / 64, at % 64);
        wide[limb] = (product << bit) as u64;
        wide[limb + 1] = ((product << bit) >> 64) as u64;
        wide[limb + 2] = if bit == 0 { 0 } else { (product >> (128 - bit)) as u64 };
        let mut carry = negative;
        for (mine, other) in self.0.iter_mut().zip(wide) {
            let other = if negative { !other } else { other };
            let (sum, first) = mine.overflowing_add(other);
            let (sum, second) = sum.overflowing_add(carry.into());
            (*mine, carry) = (sum, first | second);
        }
        self
    }

    pub(super) fn sign(&self) -> Ordering {
        match self.0[LIMBS - 1] >> 63 {
            1 => Ordering::Less,
            _ if self.0.iter().all(|&limb| limb == 0) => Ordering::Equal,
            _ => Ordering::Greater,
        }
    }
}

fn whole(a: f64) -> (u64, i32) {
    let bits = a.to_bits();
    match (bits >> 52 & 0x7ff) as i32 {
        0 => (bits & ((1 << 52) - 1), -1074),
        exponent => (bits & ((1 << 52) - 1) | 1 << 52, exponent - 1075),
    }
}

/// The value of a finite number in this format.
pub(super) fn value(format: Format, bits: u64) -> f64 {
    let magnitude = bits & (format.sign() - 1);
    let (exponent, fraction) = (magnitude >> format.fraction, magnitude & ((1 << format.fraction) - 1));
    let hidden = if exponent == 0 { 0 } else { 1 << format.fraction };
    let bias = (1 << (format.exponent - 1)) - 1;
    let power = exponent.max(1) as i32 - bias - format.fraction as i32;
    // In two steps, as 2^-1074 is the product of numbers that are normal.
    let value = (hidden | fraction) as f64 * two(power / 2) * two(power - power / 2);
    if bits & format.sign() == 0 { value } else { -value }
}

fn two(power: i32) -> f64 {
    f64::from_bits(((power + 1023) as u64) << 52)
}

/// Asserts that `bits` are a number rounded in this direction. `compare` says how the exact number compares with the
/// mean of two others.
pub(super) fn check(
    what: &dyn Fn() -> String,
    format: Format,
    r: Rounding,
    bits: u64,
    compare: &dyn Fn(f64, f64) -> Ordering,
) {
    let negative = bits & format.sign() != 0;
    let magnitude = bits & (format.sign() - 1);
    let infinity = format.infinity();
    assert!(magnitude <= infinity, "{} in {r:?} is {bits:#x}", what());
    let at = |magnitude: u64, negative: bool| {
        // Zero's other neighbour is the least number with the other sign, and infinity is 2^k wherever that exists.
        value(format, if negative { format.sign() } else { 0 } | magnitude)
    };
    let outer = |magnitude: u64| {
        (magnitude < infinity && !(format == Format::F64 && magnitude + 1 == infinity))
            .then(|| at(magnitude + 1, negative))
    };
    let inner = if magnitude == 0 { at(1, !negative) } else { at(magnitude - 1, negative) };
    // Outwards from zero is greater.
    let towards = |order: Ordering| if negative { order.reverse() } else { order };
    let us =
        if magnitude == infinity && format == Format::F64 { None } else { Some(at(magnitude, negative)) };
    let fine = match r {
        Rounding::Nearest => {
            let even = magnitude & 1 == 0;
            let within =
                |order: Ordering, beyond: Ordering| order == beyond || (even && order == Ordering::Equal);
            us.is_none_or(|us| within(towards(compare(us, inner)), Ordering::Greater))
                && us
                    .zip(outer(magnitude))
                    .is_none_or(|(us, outer)| within(towards(compare(us, outer)), Ordering::Less))
        }
        _ => {
            let outwards = match r {
                Rounding::Zero => false,
                Rounding::Down => negative,
                _ => !negative,
            };
            if outwards {
                towards(compare(inner, inner)) == Ordering::Greater
                    && us.is_none_or(|us| {
                        magnitude == infinity || towards(compare(us, us)) != Ordering::Greater
                    })
            } else {
                magnitude != infinity
                    && us.is_some_and(|us| towards(compare(us, us)) != Ordering::Less)
                    && (magnitude + 1 == infinity
                        || outer(magnitude)
                            .is_none_or(|outer| towards(compare(outer, outer)) == Ordering::Less))
            }
        }
    };
    assert!(fine, "{} in {r:?} is {bits:#x}", what());
}
