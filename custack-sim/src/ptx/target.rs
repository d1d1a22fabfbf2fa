//! The PTX version and the target architectures of a text.

use super::tokens::Token;
use super::{Refusal, wrong};

/// How many versions of PTX there were of each major number, from 1.0 to the newest that a driver for CUDA 13.0 knows.
const RELEASED: [u32; 9] = [6, 4, 3, 4, 1, 6, 9, 9, 1];
/// The targets that compilers know, each with the first version of PTX that has it.
#[rustfmt::skip]
const TARGETS: [(u32, u32); 25] = [
    (10, 10), (11, 10), (12, 12), (13, 12), (20, 20), (21, 20), (30, 30), (32, 40), (35, 31), (37, 41),
    (50, 40), (52, 41), (53, 42), (60, 50), (61, 50), (62, 50), (70, 60), (72, 61), (75, 63), (80, 70),
    (86, 71), (87, 74), (88, 90), (89, 78), (90, 78),
];
/// The simulated device's architecture. Of the architectures with a suffix, such as `sm_90a`, it runs only its own.
const TARGET: u32 = 90;
/// The first version of PTX that has `sm_90a`.
const OWN_SINCE: u32 = 80;
const UNSUPPORTED_PTX_VERSION: u32 = 222;

/// Ten times the version.
pub(super) fn version(token: &Token) -> Result<u32, Refusal> {
    let value = match token {
        Token::Double(bits) => f64::from_bits(*bits),
        _ => return Err(wrong("a version is a number with a fraction, such as 8.0")),
    };
    let version = (value * 10.0).round() as u32;
    let (major, minor) = (version / 10, version % 10);
    let released = RELEASED.get((major as usize).wrapping_sub(1)).is_some_and(|count| minor < *count);
    if released && f64::from(version) / 10.0 == value {
        return Ok(version);
    }
    let newest = RELEASED.len();
    let why = if value > newest as f64 {
        format!("PTX {value:.1} is newer than {newest}.0, the newest that this driver knows")
    } else {
        format!("there is no PTX {value}")
    };
    Err(Refusal { status: UNSUPPORTED_PTX_VERSION, line: None, why })
}

/// The number of a target: `sm_80` and `sm_90a` run on the simulated device, `sm_100` and `sm_80a` do not. A text of an
/// older version than its target is refused.
pub(super) fn target(word: &str, version: u32) -> Result<u32, Refusal> {
    let Some(name) = word.strip_prefix("sm_").or_else(|| word.strip_prefix("compute_")) else {
        return Err(wrong(match word {
            "map_f64_to_f32" => "Directive map_f64_to_f32 is not supported with SM 1.3 or higher".to_owned(),
            _ => format!("{word} is not a target"),
        }));
    };
    let (number, variant) = name.split_at(name.find(|c: char| !c.is_ascii_digit()).unwrap_or(name.len()));
    let number: u32 = number.parse().map_err(|_| wrong(format!("{word} is not a target")))?;
    let since = match variant {
        "a" if number == TARGET => Some(OWN_SINCE),
        "" => TARGETS.iter().find(|(known, _)| *known == number).map(|(_, since)| *since),
        _ => None,
    };
    match since {
        Some(since) if version >= since => Ok(number),
        Some(since) => {
            let [version, since] = [version, since].map(|it| f64::from(it) / 10.0);
            Err(wrong(format!("PTX {version:.1} has no target {word}, which is there since {since:.1}")))
        }
        None if number > TARGET || !variant.is_empty() => {
            Err(wrong(format!("the text is for {word}, and the device is sm_{TARGET}")))
        }
        None => Err(wrong(format!("{word} is not a target"))),
    }
}
