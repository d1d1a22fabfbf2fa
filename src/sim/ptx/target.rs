//! The PTX version and the target architectures of a text.

use super::tokens::Token;
use super::{INVALID_PTX, Refusal, wrong};

/// The newest PTX that a driver for CUDA 13.0 knows.
const NEWEST: f64 = 9.0;
/// The simulated device's architecture. Of the architectures with a suffix, such as `sm_90a`, it runs only its own.
const TARGET: u32 = 90;
const UNSUPPORTED_PTX_VERSION: u32 = 222;

pub(super) fn version(token: &Token) -> Result<u32, Refusal> {
    let value = match token {
        Token::Double(bits) => f64::from_bits(*bits),
        _ => return Err(wrong("a version is a number with a fraction, such as 8.0")),
    };
    if value > NEWEST {
        let why = format!("PTX {value:.1} is newer than {NEWEST:.1}, the newest that this driver knows");
        return Err(Refusal { status: UNSUPPORTED_PTX_VERSION, line: None, why });
    }
    Ok((value * 10.0).round() as u32)
}

/// The number of a target: `sm_80` and `sm_90a` run on the simulated device, `sm_100` and `sm_80a` do not.
pub(super) fn target(word: &str) -> Result<u32, Refusal> {
    let Some(name) = word.strip_prefix("sm_").or_else(|| word.strip_prefix("compute_")) else {
        return Err(wrong(match word {
            "map_f64_to_f32" => "Directive map_f64_to_f32 is not supported with SM 1.3 or higher".to_owned(),
            _ => format!("{word} is not a target"),
        }));
    };
    let (number, variant) = name.split_at(name.find(|c: char| !c.is_ascii_digit()).unwrap_or(name.len()));
    let number: u32 = number.parse().map_err(|_| wrong(format!("{word} is not a target")))?;
    if number > TARGET || !variant.is_empty() && number != TARGET {
        let why = format!("the text is for {word}, and the device is sm_{TARGET}");
        return Err(Refusal { status: INVALID_PTX, line: None, why });
    }
    Ok(number)
}
