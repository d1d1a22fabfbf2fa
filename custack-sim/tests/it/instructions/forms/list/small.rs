//! Conversions to and from floats of 8 and 19 bits, and integers that are packed into a word.

use super::super::exact::{F16, F32, Format, MODES, Mode, Number};
use super::super::form::List;
use super::super::operands::Kind;
use super::floats::relu;
use super::integers::{Int, S32};
use super::packed::halves;

/// A float of 8 bits: how many of them are the exponent, and the greatest that is a number.
#[derive(Clone, Copy)]
struct Small {
    name: &'static str,
    exponent: u32,
    greatest: u64,
}

const SMALL: [Small; 2] = [
    Small { name: "e4m3x2", exponent: 4, greatest: 0x7e },
    Small { name: "e5m2x2", exponent: 5, greatest: 0x7b },
];

impl Small {
    /// The value of one that is neither negative nor NaN.
    fn value(self, bits: u64) -> f64 {
        let (fraction, bias) = (7 - self.exponent, (1 << (self.exponent - 1)) - 1);
        let (exponent, low) = ((bits >> fraction) as i32, (bits & ((1 << fraction) - 1)) as f64);
        let unit = 2f64.powi(exponent.max(1) - bias - fraction as i32);
        if exponent == 0 { low * unit } else { (low + 2f64.powi(fraction as i32)) * unit }
    }

    /// The nearest, of two the even one; none is infinite.
    fn nearest(self, format: Format, bits: u64) -> u64 {
        let sign = if bits & format.sign() != 0 { 0x80 } else { 0 };
        let value = match format.decode(bits) {
            Number::Nan => return 0x7f,
            Number::Infinite(_) => return sign | self.greatest,
            Number::Finite(_, mantissa, exponent) => mantissa as f64 * 2f64.powi(exponent),
        };
        let below = (0..=self.greatest).rev().find(|bits| self.value(*bits) <= value).unwrap();
        if below == self.greatest {
            return sign | below;
        }
        let [low, high] = [below, below + 1].map(|bits| (value - self.value(bits)).abs());
        sign | if low < high || low == high && below & 1 == 0 { below } else { below + 1 }
    }

    fn of(self, format: Format, is_relu: bool, bits: u64) -> u64 {
        let small = self.nearest(format, bits);
        if is_relu && small != 0x7f && small & 0x80 != 0 { 0 } else { small }
    }

    /// The f16 of the same value.
    fn to_half(self, bits: u64) -> u64 {
        let magnitude = bits & 0x7f;
        let sign = (bits & 0x80) << 8;
        if self.exponent == 5 && magnitude == 0x7c {
            return sign | F16.infinity();
        }
        if magnitude > self.greatest {
            return F16.nan(&[]);
        }
        // As a double, whose bits are a multiple of a power of two.
        let exact = super::super::exact::F64.decode(self.value(magnitude).to_bits());
        sign | F16.round(exact, Mode::Nearest)
    }
}

pub(super) fn list(list: &mut List) {
    for small in SMALL {
        for is_relu in [false, true] {
            let more = if is_relu { ".relu" } else { "" };
            let name = format!("cvt.rn.satfinite{more}.{}.f32", small.name);
            list.plain(name, &[Kind::F32; 2], 2, move |of| {
                small.of(F32, is_relu, of[0]) << 8 | small.of(F32, is_relu, of[1])
            });
            let name = format!("cvt.rn.satfinite{more}.{}.f16x2", small.name);
            list.plain(name, &[Kind::F16x2], 2, move |of| {
                small.of(F16, is_relu, of[0] >> 16) << 8 | small.of(F16, is_relu, of[0] & 0xffff)
            });
            let name = format!("cvt.rn{more}.f16x2.{}", small.name);
            list.plain(name, &[Kind::Fp8x2], 4, move |of| {
                let pair = small.to_half(of[0] >> 8) << 16 | small.to_half(of[0] & 0xff);
                if is_relu { halves(&[pair], |of| relu(F16, of[0])) } else { pair }
            });
        }
    }
    tf32(list);
    packs(list);
}

fn tf32(list: &mut List) {
    let format = Format(8, 10);
    let modes = MODES[..2].iter().map(|it| (it.0, it.1)).chain([("rna", Mode::Away)]);
    for (rounding, mode) in modes {
        for (is_relu, finite) in [(false, false), (true, false), (false, true), (true, true)] {
            if mode == Mode::Away && is_relu || mode != Mode::Away && finite {
                continue;
            }
            let more = [(finite, ".satfinite"), (is_relu, ".relu")];
            let more: String = more.iter().filter(|it| it.0).map(|it| it.1).collect();
            list.plain(format!("cvt.{rounding}{more}.tf32.f32"), &[Kind::F32], 4, move |of| {
                let bits = match F32.decode(of[0]) {
                    Number::Nan if mode == Mode::Away => of[0] >> 13,
                    Number::Nan => format.sign() - 1,
                    number => format.round(number, mode),
                };
                let is_infinite = bits & (format.sign() - 1) >= format.infinity();
                let bits = if finite && is_infinite { bits - 1 } else { bits };
                (if is_relu { relu(format, bits) } else { bits }) << 13
            });
        }
    }
}

fn packs(list: &mut List) {
    let narrow = [
        ("u2", 2, false),
        ("s2", 2, true),
        ("u4", 4, false),
        ("s4", 4, true),
        ("u8", 8, false),
        ("s8", 8, true),
    ];
    for (name, bits, signed) in [("u16", 16, false), ("s16", 16, true)].into_iter().chain(narrow) {
        let ty = Int { name, bits, signed };
        let pair = move |of: &[u64]| ty.clamp(S32.value(of[0])) << bits | ty.clamp(S32.value(of[1]));
        if bits == 16 {
            list.plain(format!("cvt.pack.sat.{name}.s32"), &[Kind::I32; 2], 4, pair);
        } else {
            list.plain(format!("cvt.pack.sat.{name}.s32.b32"), &[Kind::I32; 3], 4, move |of| {
                (of[2] << (2 * bits) | pair(of)) & 0xffff_ffff
            });
        }
    }
}
