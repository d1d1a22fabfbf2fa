//! Arithmetic of floats of every format that rounds as IEEE 754 says.

use super::super::exact::{
    BF16, F16, F32, F64, Format, MODES, Mode, Number, negated, product, quotient, root, sum,
};
use super::super::form::List;
use super::super::operands::Kind;
use super::packed::halves;

/// A float type: one in a register, or two.
#[derive(Clone, Copy)]
pub(super) struct Float {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) format: Format,
    pub(super) is_pair: bool,
}

const fn float(name: &'static str, kind: Kind, format: Format, is_pair: bool) -> Float {
    Float { name, kind, format, is_pair }
}

pub(super) const SINGLE: Float = float("f32", Kind::F32, F32, false);
pub(super) const DOUBLE: Float = float("f64", Kind::F64, F64, false);
pub(super) const HALVES: [Float; 4] = [
    float("f16", Kind::F16, F16, false),
    float("f16x2", Kind::F16x2, F16, true),
    float("bf16", Kind::Bf16, BF16, false),
    float("bf16x2", Kind::Bf16x2, BF16, true),
];

impl Float {
    pub(super) fn is_bf16(self) -> bool {
        self.format == BF16
    }

    /// `f` of one number, or of both.
    pub(super) fn each(self, of: &[u64], f: impl Fn(&[u64]) -> u64) -> u64 {
        if self.is_pair { halves(of, f) } else { f(of) }
    }
}

/// What the modifiers say.
#[derive(Clone, Copy)]
struct How {
    mode: Mode,
    ftz: bool,
    sat: bool,
    relu: bool,
    /// Among several NaNs.
    nan_of_last: bool,
    /// `.ftz` is about what is not rounded yet.
    tiny_before: bool,
}

/// A number between 0 and 1; NaN is 0.
pub(super) fn saturated(format: Format, bits: u64) -> u64 {
    if format.is_nan(bits) || bits & format.sign() != 0 { 0 } else { bits.min(format.one()) }
}

/// A number that is not negative; NaN stays.
pub(super) fn relu(format: Format, bits: u64) -> u64 {
    if format.is_nan(bits) {
        format.nan(&[bits])
    } else if bits & format.sign() != 0 {
        0
    } else {
        bits
    }
}

fn number_or_zero(number: Number) -> Number {
    if number == Number::Nan { Number::Infinite(false) } else { number }
}

fn computed(format: Format, how: How, of: &[u64], f: fn(&[Number], Mode) -> Number) -> u64 {
    let before: Vec<u64> = of.iter().map(|bits| if how.ftz { format.flush(*bits) } else { *bits }).collect();
    let numbers: Vec<Number> = before.iter().map(|bits| format.decode(*bits)).collect();
    let number = f(&numbers, how.mode);
    let bits = match number {
        // An H200 takes the last NaN of a sum or a product, and the first of others.
        Number::Nan if how.nan_of_last => format.nan(&before.iter().rev().copied().collect::<Vec<u64>>()),
        Number::Nan => format.nan(&before),
        number => format.round(number, how.mode),
    };
    let is_tiny =
        how.tiny_before && format.round(number_or_zero(number), Mode::Zero) & format.infinity() == 0;
    let bits = if how.ftz && is_tiny { bits & format.sign() } else { bits };
    let bits = if how.ftz { format.flush(bits) } else { bits };
    let bits = if how.sat { saturated(format, bits) } else { bits };
    if how.relu { relu(format, bits) } else { bits }
}

const ONE: Number = Number::Finite(false, 1, 0);

/// An instruction with its operands and what it computes.
type Operation = (&'static str, usize, fn(&[Number], Mode) -> Number);

const SUMS: [Operation; 3] = [
    ("add", 2, |of, mode| sum(of[0], of[1], mode)),
    ("sub", 2, |of, mode| sum(of[0], negated(of[1]), mode)),
    ("mul", 2, |of, _| product(of[0], of[1])),
];
const FMA: Operation = ("fma", 3, |of, mode| sum(product(of[0], of[1]), of[2], mode));
const MAD: Operation = ("mad", 3, FMA.2);
const QUOTIENTS: [Operation; 3] = [
    ("div", 2, |of, _| quotient(of[0], of[1])),
    ("rcp", 1, |of, _| quotient(ONE, of[0])),
    ("sqrt", 1, |of, _| root(of[0])),
];

fn form(
    list: &mut List,
    ty: Float,
    (op, count, f): Operation,
    rounding: Option<(&str, Mode)>,
    more: [bool; 3],
) {
    let [ftz, sat, relu] = more;
    let mode = rounding.map_or(Mode::Nearest, |it| it.1);
    let (nan_of_last, tiny_before) = (SUMS.iter().any(|it| it.0 == op), matches!(op, "mul" | "div"));
    let how = How { mode, ftz, sat, relu, nan_of_last, tiny_before };
    let mut name = op.to_owned();
    for part in [rounding.map(|it| it.0), ftz.then_some("ftz"), sat.then_some("sat"), relu.then_some("relu")]
    {
        name += &part.map_or(String::new(), |part| format!(".{part}"));
    }
    let name = format!("{name}.{}", ty.name);
    list.plain(name, &vec![ty.kind; count], ty.kind.size(), move |of| {
        ty.each(of, |of| computed(ty.format, how, of, f))
    });
}

const PLAIN_OR_FTZ: [bool; 2] = [false, true];

pub(super) fn list(list: &mut List) {
    let roundings = || MODES.iter().map(|mode| Some(*mode));
    for operation in SUMS.into_iter().chain([FMA, MAD, QUOTIENTS[0], QUOTIENTS[1], QUOTIENTS[2]]) {
        let is_sum = SUMS.iter().any(|it| it.0 == operation.0);
        let sats: &[bool] = if is_sum || operation.1 == 3 { &[false, true] } else { &[false] };
        for rounding in roundings().chain(is_sum.then_some(None)) {
            for ftz in PLAIN_OR_FTZ {
                for &sat in sats {
                    form(list, SINGLE, operation, rounding, [ftz, sat, false]);
                }
            }
            form(list, DOUBLE, operation, rounding, [false; 3]);
        }
    }
    for ty in HALVES {
        let nearest = Some(MODES[0]);
        let ftzs: &[bool] = if ty.is_bf16() { &[false] } else { &[false, true] };
        for &ftz in ftzs {
            for operation in SUMS {
                for rounding in [None, nearest] {
                    form(list, ty, operation, rounding, [ftz, false, false]);
                    if !ty.is_bf16() {
                        form(list, ty, operation, rounding, [ftz, true, false]);
                    }
                }
            }
            form(list, ty, FMA, nearest, [ftz, false, false]);
            form(list, ty, FMA, nearest, [ftz, false, true]);
            if !ty.is_bf16() {
                form(list, ty, FMA, nearest, [ftz, true, false]);
            }
        }
    }
    signs(list);
}

/// `abs` and `neg`, `copysign` and `testp`.
fn signs(list: &mut List) {
    for ty in HALVES.into_iter().chain([SINGLE, DOUBLE]) {
        let ftzs: &[bool] = if ty.is_bf16() || ty.format == F64 { &[false] } else { &[false, true] };
        for &ftz in ftzs {
            for (op, is_abs) in [("abs", true), ("neg", false)] {
                let name = format!("{op}{}.{}", if ftz { ".ftz" } else { "" }, ty.name);
                list.plain(name, &[ty.kind], ty.kind.size(), move |of| {
                    ty.each(of, |of| {
                        let (format, bits) = (ty.format, of[0]);
                        let bits = if ftz { format.flush(bits) } else { bits };
                        if format.is_nan(bits) {
                            return format.nan(&[bits]);
                        }
                        if is_abs { bits & !format.sign() } else { bits ^ format.sign() }
                    })
                });
            }
        }
    }
    for ty in [SINGLE, DOUBLE] {
        let (format, name, kind) = (ty.format, ty.name, ty.kind);
        list.plain(format!("copysign.{name}"), &[kind; 2], kind.size(), move |of| {
            of[0] & format.sign() | of[1] & !format.sign()
        });
        type Property = fn(Format, u64) -> bool;
        let properties: [(&str, Property); 6] = [
            ("finite", |format, bits| bits & (format.sign() - 1) < format.infinity()),
            ("infinite", |format, bits| bits & (format.sign() - 1) == format.infinity()),
            ("number", |format, bits| !format.is_nan(bits)),
            ("notanumber", |format, bits| format.is_nan(bits)),
            ("normal", |format, bits| {
                bits & format.infinity() != format.infinity()
                    && (bits & format.infinity() != 0 || bits & (format.sign() - 1) == 0)
            }),
            ("subnormal", |format, bits| bits & format.infinity() == 0 && bits & (format.sign() - 1) != 0),
        ];
        for (property, holds) in properties {
            let code = format!("testp.{property}.{name} %p0, $a; selp.u32 $d, 1, 0, %p0;");
            list.coded(format!("testp.{property}.{name}"), &[kind], 4, code, move |of| {
                u64::from(holds(format, of[0]))
            });
        }
    }
}

/// `fma.oob`, which takes one NaN, that of memory out of bounds, for zero: which one, the manual does not say.
pub(super) fn out_of_bounds(list: &mut List) {
    for (ty, one) in [(HALVES[0], 0x3c00), (HALVES[2], 0x3f80)] {
        let name = ty.name;
        for (a, b, c) in [("$a", "%h0", "%h1"), ("%h0", "$a", "%h1"), ("%h0", "%h1", "$a")] {
            let code = format!("mov.b16 %h0, {one}; mov.b16 %h1, 0; fma.rn.oob.{name} $d, {a}, {b}, {c};");
            let name = format!("fma.rn.oob.{name} of {a}, {b}, {c}").replace(['$', '%'], "");
            list.coded(name, &[ty.kind], 2, code, move |of| match ty.format.decode(of[0]) {
                Number::Nan => ty.format.nan(of),
                _ if of[0] == ty.format.sign() => 0,
                _ => of[0],
            });
        }
    }
}
