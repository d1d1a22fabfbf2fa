//! Results of the mathematical library, which are not the same everywhere: how far each may be from the true value.

use super::{Parameter, Row};

/// The true values of `functions_of_f64`, rounded to the nearest.
const OF_F64: &[u8] = include_bytes!("functions_of_f64.bin");

// The host's mathematical library, which Rust links anyway.
unsafe extern "C" {
    safe fn erf(x: f64) -> f64;
    safe fn erfc(x: f64) -> f64;
    safe fn remainder(x: f64, y: f64) -> f64;
}

/// Whether the table has bounds as a kernel's result, rather than a hash.
pub(super) fn has_bounds(result: &str) -> bool {
    result.contains(' ')
}

/// How far a result may be from the true value.
enum Bound {
    Ulps(f64),
    Absolute(f64),
    /// This many ulps, and more for large arguments.
    OfExponential(f64),
}

/// The functions whose results a kernel writes in turn, with their bounds.
fn bounds(result: &str) -> Vec<(&str, Bound)> {
    let bound = |text: &str| match text.as_bytes()[0] {
        b'a' => Bound::Absolute((-text[1..].parse::<f64>().unwrap()).exp2()),
        b'e' => Bound::OfExponential(text[1..].parse().unwrap()),
        _ => Bound::Ulps(text.parse().unwrap()),
    };
    let functions = result.split(", ").map(|function| function.split_once(' ').unwrap());
    functions.map(|(name, text)| (name, bound(text))).collect()
}

pub(super) fn compare(row: &Row, results: &[u8]) {
    let inputs: Vec<&[u8]> = row
        .parameters
        .iter()
        .filter_map(|parameter| match parameter {
            Parameter::Buffer { bytes, written: false } => Some(&bytes[..]),
            _ => None,
        })
        .collect();
    let bounds = bounds(row.result);
    let wide = row.name == "functions_of_f64";
    let size = if wide { 8 } else { 4 };
    assert_eq!(results.len(), inputs[0].len() * bounds.len());
    let mut wrong = Vec::new();
    for (at, result) in results.chunks(size).enumerate() {
        let (element, (name, bound)) = (at / bounds.len(), &bounds[at % bounds.len()]);
        let argument = |which: usize| {
            let input = inputs.get(which).unwrap_or(&inputs[0]);
            number(&input[element * size..][..size])
        };
        let (x, y, result) = (argument(0), argument(1), number(result));
        let truth = if wide { number(&OF_F64[at * 8..][..8]) } else { of_f32(name, x, y) };
        let error = match bound {
            Bound::Absolute(_) => (result - truth).abs(),
            _ if wide => ulps_apart(result, truth),
            _ => (result - truth).abs() / ulp_of_f32(truth),
        };
        let allowed = match bound {
            Bound::Ulps(bound) | Bound::Absolute(bound) => *bound,
            Bound::OfExponential(bound) => bound + (1.173 * x).abs().floor(),
        };
        // A result that is no number has no distance either.
        if error.is_nan() || error > allowed {
            wrong.push(format!("{name} of {x} (and {y}): {result} instead of {truth}, {error} from it"));
        }
    }
    let count = wrong.len();
    wrong.truncate(20);
    assert_eq!(count, 0, "{}: of {count} wrong results the first are\n{}", row.name, wrong.join("\n"));
}

/// An f32 or f64, by how many bytes there are.
fn number(bytes: &[u8]) -> f64 {
    match bytes.try_into() {
        Ok(bytes) => f64::from_le_bytes(bytes),
        Err(_) => f64::from(f32::from_le_bytes(bytes.try_into().unwrap())),
    }
}

/// What the true value is nearly: computed with f64, whose errors do not count beside those of f32.
fn of_f32(name: &str, x: f64, y: f64) -> f64 {
    match name {
        "expf" => x.exp(),
        "logf" => x.ln(),
        "sinf" => x.sin(),
        "cosf" => x.cos(),
        "tanf" => x.tan(),
        "atanf" => x.atan(),
        "tanhf" => x.tanh(),
        "erff" => erf(x),
        "erfcf" => erfc(x),
        "cbrtf" => x.cbrt(),
        "log1pf" => x.ln_1p(),
        "expm1f" => x.exp_m1(),
        "powf" => x.powf(y),
        "atan2f" => x.atan2(y),
        "hypotf" => x.hypot(y),
        "fmodf" => x % y,
        "remainderf" => remainder(x, y),
        "divf" => x / y,
        "rsqrtf" => 1.0 / x.sqrt(),
        "log2f" => x.log2(),
        _ => panic!("the table has {name}"),
    }
}

/// The distance of the numbers next to this one, if it is an f32.
fn ulp_of_f32(value: f64) -> f64 {
    let exponent = (value.to_bits() >> 52 & 0x7ff) as i32 - 1023;
    f64::from(exponent.max(-126) - 23).exp2()
}

/// How many numbers further two are.
fn ulps_apart(a: f64, b: f64) -> f64 {
    let place = |x: f64| {
        let bits = x.to_bits() as i64;
        if bits < 0 { i64::MIN - bits } else { bits }
    };
    if a.is_nan() { f64::NAN } else { place(a).abs_diff(place(b)) as f64 }
}
