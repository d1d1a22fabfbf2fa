//! Functions that the device computes approximately, with the bounds of the PTX manual.

use super::super::exact::{F32, F64, Format, Number};
use super::super::form::List;
use super::super::operands::Kind;
use super::floats::{Float, HALVES, SINGLE};

/// How far an answer may be from the true value.
#[derive(Clone, Copy)]
enum Bound {
    Ulps(f64),
    Relative(f64),
    Absolute(f64),
    /// Either.
    RelativeOr(f64, f64),
}

/// The value of a float.
fn value(format: Format, bits: u64) -> f64 {
    match format.decode(bits) {
        Number::Nan => f64::NAN,
        Number::Infinite(negative) => {
            if negative {
                f64::NEG_INFINITY
            } else {
                f64::INFINITY
            }
        }
        Number::Finite(negative, mantissa, exponent) => {
            let value = mantissa as f64 * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2);
            if negative { -value } else { value }
        }
    }
}

/// The distance of neighbours at a value.
fn ulp(format: Format, at: f64) -> f64 {
    let least = 2 - (1 << (format.0 - 1));
    let exponent = if at == 0.0 { least } else { ((at.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(least) };
    2f64.powi(exponent - format.1 as i32)
}

/// Compares an answer with the true value; both may be a zero instead of a subnormal number with `.ftz`.
fn check(format: Format, ftz: bool, bound: Bound, truth: f64, bits: u64) -> Result<(), String> {
    let answer = value(format, bits);
    if truth.is_nan() {
        return if answer.is_nan() { Ok(()) } else { Err(format!("{answer:e} instead of NaN")) };
    }
    let least = 2f64.powi(2 - (1 << (format.0 - 1)));
    let greatest = value(format, format.infinity() - 1);
    let allowed = match bound {
        Bound::Ulps(ulps) => ulps * ulp(format, truth),
        Bound::Relative(relative) => relative * truth.abs() + ulp(format, truth),
        Bound::Absolute(absolute) => absolute,
        Bound::RelativeOr(relative, absolute) => (relative * truth.abs()).max(absolute),
    };
    let flushed = ftz && truth.abs() < least * 1.01 && answer == 0.0;
    let beyond = truth.abs() + allowed > greatest && answer.is_infinite() && (answer > 0.0) == (truth > 0.0);
    let clipped = truth.is_infinite() && answer.abs() >= greatest && (answer > 0.0) == (truth > 0.0);
    if answer == truth || (answer - truth).abs() <= allowed || flushed || beyond || clipped {
        return Ok(());
    }
    Err(format!(
        "{answer:e} instead of {truth:e}, {:.3} ulps from it",
        (answer - truth).abs() / ulp(format, truth)
    ))
}

fn flushed(ftz: bool, format: Format, bits: u64) -> f64 {
    value(format, if ftz { format.flush(bits) } else { bits })
}

/// A NaN is the one of the record, and a zero has its sign.
fn special(format: Format, recorded: Option<u64>, answer: u64) -> Result<(), String> {
    let is_zero = |bits: u64| bits & (format.sign() - 1) == 0;
    match recorded {
        Some(bits) if answer != bits && (format.is_nan(bits) || is_zero(bits) && is_zero(answer)) => {
            Err(format!("{answer:#x} instead of {bits:#x}"))
        }
        _ => Ok(()),
    }
}

/// The true value, or the one of a record in its place.
fn instead(format: Format, recorded: Option<u64>, truth: f64) -> f64 {
    recorded.map_or(truth, |bits| value(format, bits))
}

/// A function of one number: its name, its bound where it has one, and its true values.
struct Function(&'static str, BoundAt, fn(f64) -> f64);

/// The bound for an operand, where there is one.
type BoundAt = fn(f64) -> Option<Bound>;

fn one(list: &mut List, ty: Float, ftz: bool, Function(name, bound, f): Function) {
    let format = ty.format;
    let parts: u32 = if ty.is_pair { 2 } else { 1 };
    let name = format!("{name}.approx{}.{}", if ftz { ".ftz" } else { "" }, ty.name);
    list.near(name, &[ty.kind], ty.kind.size(), move |of, recorded, answer| {
        (0..parts).try_for_each(|part| {
            let mask = if ty.is_pair { 0xffff } else { u64::MAX };
            let [bits, answer] = [of[0], answer].map(|word| word >> (16 * part) & mask);
            let recorded = recorded.map(|word| word >> (16 * part) & mask);
            let x = flushed(ftz, format, bits);
            special(format, recorded, answer)?;
            match bound(x) {
                Some(bound) => check(format, ftz, bound, instead(format, recorded, f(x)), answer),
                None => Ok(()),
            }
        })
    });
}

fn ulps<const ULPS: u32>(_: f64) -> Option<Bound> {
    Some(Bound::Ulps(ULPS.into()))
}

fn lg2(x: f64) -> Option<Bound> {
    let bound = 2f64.powi(-22);
    Some(if x > 0.5 && x < 2.0 { Bound::Absolute(bound) } else { Bound::Relative(bound) })
}

/// Of sines: there is a bound for a turn, a wider one for a hundred half turns, and none beyond.
fn turns(x: f64) -> Option<Bound> {
    let turns = x.abs() / std::f64::consts::PI;
    match turns {
        0.0..=1.0 => Some(Bound::Absolute(2f64.powf(-20.5))),
        1.0..=100.0 => Some(Bound::Absolute(2f64.powf(-14.7))),
        _ if x.is_finite() => None,
        _ => ulps::<0>(x),
    }
}

pub(super) fn list(list: &mut List) {
    for ftz in [false, true] {
        for function in [
            Function("rcp", ulps::<1>, |x| 1.0 / x),
            Function("sqrt", |_| Some(Bound::Relative(2f64.powi(-23))), f64::sqrt),
            Function("rsqrt", |_| Some(Bound::Relative(2f64.powf(-22.9))), |x| 1.0 / x.sqrt()),
            Function("ex2", ulps::<2>, f64::exp2),
            Function("lg2", lg2, f64::log2),
            Function("sin", turns, f64::sin),
            Function("cos", turns, f64::cos),
        ] {
            one(list, SINGLE, ftz, function);
        }
        quotients(list, ftz);
    }
    one(list, SINGLE, false, Function("tanh", |_| Some(Bound::Relative(2f64.powi(-11))), f64::tanh));
    for ty in HALVES {
        let (tanh, ex2): (BoundAt, BoundAt) = if ty.is_bf16() {
            // Of 0.746 an H200 is a little further off than the manual's 2^-8.
            (|_| Some(Bound::Absolute(2f64.powf(-7.999))), |_| Some(Bound::Relative(2f64.powi(-7))))
        } else {
            (
                |_| Some(Bound::Absolute(2f64.powf(-10.987))),
                |_| Some(Bound::RelativeOr(2f64.powf(-9.9), 2f64.powi(-24))),
            )
        };
        one(list, ty, false, Function("tanh", tanh, f64::tanh));
        one(list, ty, ty.is_bf16(), Function("ex2", ex2, f64::exp2));
    }
    doubles(list);
}

/// `div.approx` and `div.full`: 2 ulps, where the divisor is not so great or small that its reciprocal is no normal number.
fn quotients(list: &mut List, ftz: bool) {
    for kind in ["approx", "full"] {
        let name = format!("div.{kind}{}.f32", if ftz { ".ftz" } else { "" });
        list.near(name, &[Kind::F32; 2], 4, move |of, recorded, answer| {
            let [a, b] = [0, 1].map(|at| flushed(ftz, F32, of[at]));
            let usual = (2f64.powi(-126)..=2f64.powi(126)).contains(&b.abs());
            if !usual && b.is_finite() && b != 0.0 {
                return Ok(());
            }
            special(F32, recorded, answer)?;
            check(F32, ftz, Bound::Ulps(2.0), instead(F32, recorded, a / b), answer)
        });
    }
}

/// Those of f64, of which two have the upper half of the bits.
fn doubles(list: &mut List) {
    let upper = |of: &[u64]| {
        let bits = of[0] & 0xffff_ffff_0000_0000;
        f64::from_bits(if bits & 0x7ff0_0000_0000_0000 == 0 { bits & 1 << 63 } else { bits })
    };
    let near = |truth: f64, recorded: Option<u64>, answer: u64, relative: f64| {
        special(F64, recorded, answer)?;
        let (truth, value) = (recorded.map_or(truth, f64::from_bits), f64::from_bits(answer));
        let fine = value == truth
            || truth.is_nan() && value.is_nan()
            || (value - truth).abs() <= relative * truth.abs()
            || truth.abs() <= f64::MIN_POSITIVE * 1.01 && value == 0.0;
        if fine { Ok(()) } else { Err(format!("{value:e} instead of {truth:e}")) }
    };
    list.near("rcp.approx.ftz.f64", &[Kind::F64], 8, move |of, recorded, answer| {
        near(1.0 / upper(of), recorded, answer, 2f64.powi(-20))
    });
    list.near("rsqrt.approx.ftz.f64", &[Kind::F64], 8, move |of, recorded, answer| {
        near(1.0 / upper(of).sqrt(), recorded, answer, 2f64.powi(-20))
    });
    list.near("rsqrt.approx.f64", &[Kind::F64], 8, move |of, recorded, answer| {
        near(1.0 / f64::from_bits(of[0]).sqrt(), recorded, answer, 2f64.powi(-48))
    });
}
