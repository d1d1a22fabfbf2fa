//! Conversions between all integers and floats.

use super::super::exact::{BF16, F16, F32, F64, Format, MODES, Mode, Number, integral, of_integer};
use super::super::form::List;
use super::super::operands::Kind;
use super::floats::{DOUBLE, Float, HALVES, SINGLE, relu, saturated};
use super::integers::{INTS, Int, S8, U8, U32};

const FLOATS: [Float; 4] = [HALVES[0], HALVES[2], SINGLE, DOUBLE];

fn ints() -> impl Iterator<Item = Int> {
    [U8, S8].into_iter().chain(INTS)
}

/// Narrow integers are extended to their register.
fn in_register(ty: Int, bits: u64) -> u64 {
    let register = Int { bits: 8 * ty.size() as u32, ..ty };
    register.cut(ty.value(bits))
}

fn modifiers(parts: &[(bool, &str)]) -> String {
    parts.iter().filter(|it| it.0).map(|it| it.1).collect()
}

pub(super) fn list(list: &mut List) {
    for to in ints() {
        for from in ints() {
            between_integers(list, to, from);
        }
    }
    for int in ints() {
        for float in FLOATS {
            for (rounding, mode) in MODES {
                for (ftz, sat) in [(false, false), (false, true), (true, false), (true, true)] {
                    if ftz && float.format != F32 || float.is_bf16() && (sat || int.bits == 8) {
                        continue;
                    }
                    let more = modifiers(&[(ftz, ".ftz"), (sat, ".sat")]);
                    of_an_integer(list, format!("cvt.{rounding}{more}"), float, int, mode, sat);
                    to_an_integer(list, format!("cvt.{rounding}i{more}"), int, float, mode, ftz);
                }
            }
        }
    }
    for to in FLOATS {
        for from in FLOATS {
            between_floats(list, to, from);
        }
    }
    at_most_finite(list);
    in_wider_registers(list);
}

/// A register may have more bits than its type: what is above is not looked at, and the result is extended.
fn in_wider_registers(list: &mut List) {
    let narrow = || ints().filter(|ty| ty.bits < 32);
    for from in narrow() {
        for to in ints().filter(|ty| ty.bits < 64) {
            let code = format!("cvt.{}.{} $d, $a;", to.name, from.name);
            let name = format!("cvt.{}.{} of 32 bits in 32", to.name, from.name);
            list.coded(name, &[Kind::I32], 4, code, move |of| {
                U32.cut(to.value(to.cut(from.value(from.cut(of[0].into())))))
            });
        }
        let code = format!("cvt.rn.f32.{} $d, $a;", from.name);
        list.coded(format!("cvt.rn.f32.{} of 32 bits", from.name), &[Kind::I32], 4, code, move |of| {
            SINGLE.format.round(of_integer(from.value(from.cut(of[0].into()))), Mode::Nearest)
        });
        for to in narrow() {
            let code = format!("cvt.{}.{} $d, $a;", to.name, from.name);
            let name = format!("cvt.{}.{} of 64 bits in 64", to.name, from.name);
            list.coded(name, &[Kind::I64], 8, code, move |of| {
                to.value(to.cut(from.value(from.cut(i128::from(of[0]))))) as u64
            });
        }
    }
    for to in narrow() {
        let code = format!("cvt.rzi.{}.f32 $d, $a;", to.name);
        list.coded(format!("cvt.rzi.{}.f32 in 32 bits", to.name), &[Kind::F32], 4, code, move |of| {
            U32.cut(to.value(integer(to, SINGLE.format, integral(SINGLE.format.decode(of[0]), Mode::Zero))))
        });
    }
}

fn between_integers(list: &mut List, to: Int, from: Int) {
    // What fits is not saturated.
    let sats: &[bool] = if to.least() <= from.least() && from.greatest() <= to.greatest() {
        &[false]
    } else {
        &[false, true]
    };
    for &sat in sats {
        let name = format!("cvt{}.{}.{}", if sat { ".sat" } else { "" }, to.name, from.name);
        list.plain(name, &[from.kind()], to.size(), move |of| {
            let value = from.value(of[0]);
            in_register(to, if sat { to.clamp(value) } else { to.cut(value) })
        });
    }
}

fn of_an_integer(list: &mut List, name: String, to: Float, from: Int, mode: Mode, sat: bool) {
    let name = format!("{name}.{}.{}", to.name, from.name);
    list.plain(name, &[from.kind()], to.kind.size(), move |of| {
        let bits = to.format.round(of_integer(from.value(of[0])), mode);
        if sat { saturated(to.format, bits) } else { bits }
    });
}

fn to_an_integer(list: &mut List, name: String, to: Int, from: Float, mode: Mode, ftz: bool) {
    let name = format!("{name}.{}.{}", to.name, from.name);
    list.plain(name, &[from.kind], to.size(), move |of| {
        let bits = if ftz { from.format.flush(of[0]) } else { of[0] };
        in_register(to, integer(to, from.format, integral(from.format.decode(bits), mode)))
    });
}

/// The bits of the nearest integer that there is.
fn integer(to: Int, from: Format, number: Number) -> u64 {
    match number {
        Number::Nan if from == F64 || to.bits == 64 => 1 << (to.bits - 1),
        Number::Nan => 0,
        Number::Infinite(negative) => to.cut(if negative { to.least() } else { to.greatest() }),
        Number::Finite(negative, mantissa, exponent) => {
            let magnitude = match exponent {
                _ if mantissa == 0 => 0,
                // More than any integer has.
                70.. => 1 << 80,
                _ => (mantissa << exponent) as i128,
            };
            to.clamp(if negative { -magnitude } else { magnitude })
        }
    }
}

/// What the modifiers say.
#[derive(Clone, Copy)]
struct How {
    mode: Mode,
    integral: bool,
    ftz: bool,
    sat: bool,
}

fn converted(to: Format, from: Format, how: How, bits: u64) -> u64 {
    let bits = if how.ftz && from == F32 && to != F16 { from.flush(bits) } else { bits };
    let number = from.decode(bits);
    let number = if how.integral { integral(number, how.mode) } else { number };
    let bits = match number {
        Number::Nan => nan(to, from, how, bits),
        number => to.round(number, how.mode),
    };
    let bits = if how.ftz && to == F32 { to.flush(bits) } else { bits };
    if how.sat { saturated(to, bits) } else { bits }
}

/// A NaN keeps what fits of its bits when it becomes one of f64, or was one, and stays as it is when it is only moved.
fn nan(to: Format, from: Format, how: How, bits: u64) -> u64 {
    let is_moved = to == from || to == F32 && from == BF16;
    match (to == F64, from == F64) {
        _ if is_moved && !how.ftz && !how.integral && to.0 + to.1 > 16 => bits << (to.1 - from.1),
        (true, true) => bits | 0x0008_0000_0000_0000,
        (true, false) if how.ftz => 0x7fff_ffff_e000_0000,
        (true, false) => {
            let payload = bits & ((1 << from.1) - 1);
            (bits & from.sign()) << (63 - from.0 - from.1) | 0x7ff8 << 48 | payload << (52 - from.1)
        }
        (false, true) => {
            let (sign, payload) = (bits >> 63 << (to.0 + to.1), (bits & ((1 << 52) - 1)) >> (52 - to.1));
            sign | to.infinity() | 1 << (to.1 - 1) | payload
        }
        _ => to.nan(&[]),
    }
}

fn between_floats(list: &mut List, to: Float, from: Float) {
    let narrows = to.format.0 < from.format.0 || to.format.1 < from.format.1;
    let plain = [("", Mode::Nearest, false)];
    let roundings = MODES.map(|(name, mode)| (name, mode, false));
    let integral = [("rni", "rn"), ("rzi", "rz"), ("rmi", "rm"), ("rpi", "rp")]
        .map(|(name, of)| (name, MODES.iter().find(|it| it.0 == of).unwrap().1, true));
    let all: Vec<_> = match (narrows, to.format == from.format) {
        (true, _) => roundings.to_vec(),
        (_, true) => plain.into_iter().chain(integral).collect(),
        _ => plain.to_vec(),
    };
    for (rounding, mode, integral) in all {
        for (ftz, sat) in [(false, false), (false, true), (true, false), (true, true)] {
            let saturates = !to.is_bf16() && !from.is_bf16();
            if ftz && to.format != F32 && from.format != F32 || sat && !saturates {
                continue;
            }
            let dot = if rounding.is_empty() { "" } else { "." };
            let more = modifiers(&[(ftz, ".ftz"), (sat, ".sat")]);
            let name = format!("cvt{dot}{rounding}{more}.{}.{}", to.name, from.name);
            let how = How { mode, integral, ftz, sat };
            list.plain(name, &[from.kind], to.kind.size(), move |of| {
                converted(to.format, from.format, how, of[0])
            });
        }
    }
}

/// To 16 bits, one number or two, with `.relu` and `.satfinite`.
fn at_most_finite(list: &mut List) {
    for to in HALVES {
        for (rounding, mode) in &MODES[..2] {
            for (is_relu, finite) in [(false, false), (true, false), (false, true), (true, true)] {
                let more = modifiers(&[(is_relu, ".relu"), (finite, ".satfinite")]);
                if more.is_empty() && !to.is_pair {
                    continue;
                }
                let convert = move |bits: u64| {
                    let how = How { mode: *mode, integral: false, ftz: false, sat: false };
                    let bits = converted(to.format, F32, how, bits);
                    let is_infinite = bits & (to.format.sign() - 1) == to.format.infinity();
                    let bits = if finite && is_infinite { bits - 1 } else { bits };
                    if is_relu { relu(to.format, bits) } else { bits }
                };
                let name = format!("cvt.{rounding}{more}.{}.f32", to.name);
                if to.is_pair {
                    list.plain(name, &[Kind::F32; 2], 4, move |of| convert(of[0]) << 16 | convert(of[1]));
                } else {
                    list.plain(name, &[Kind::F32], 2, move |of| convert(of[0]));
                }
            }
        }
    }
}
