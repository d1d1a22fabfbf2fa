//! The functions that the device has: `vprintf`, `__assertfail`, `malloc` and `free`.

use super::super::Space;
use super::super::inst::Builtin;
use super::block::Env;
use super::fault::{ASSERT, Fault};
use super::heap;
use super::lanes::{Lanes, lanes_of};
use std::io::Write;

/// No text is longer.
const MOST_TEXT: usize = 1 << 16;

/// Where the caller has what it passes, and where it expects what is returned.
pub(super) struct Places<'a> {
    pub(super) passed: &'a [(usize, usize, usize)],
    pub(super) returned: &'a [(usize, usize, usize)],
}

pub(super) fn call(
    which: Builtin,
    places: &Places<'_>,
    lanes: &mut Lanes<'_>,
    env: &Env<'_>,
) -> Result<(), Fault> {
    let frame = lanes.frame;
    for lane in lanes_of(lanes.mask) {
        let argument = |lanes: &Lanes<'_>, number: usize| {
            let place = places.passed.get(number);
            place.map_or(0, |(from, _, size)| lanes.local.load(lane, frame + from, *size) as u64)
        };
        let (a, b) = (argument(lanes, 0), argument(lanes, 1));
        let result = match which {
            Builtin::Printf => printf(lanes, lane, a, b)?,
            Builtin::Malloc => heap::allocate(env.running.launch.context, a),
            Builtin::Free => {
                heap::free(env.running.launch.context, a);
                0
            }
            Builtin::Assert => {
                let (line, function) = (argument(lanes, 2), argument(lanes, 3));
                return Err(assertion(lanes, lane, [a, b, function], line));
            }
        };
        if let Some((to, _, size)) = places.returned.first() {
            lanes.local.store(lane, frame + to, *size, result.into());
        }
    }
    Ok(())
}

fn text(lanes: &mut Lanes<'_>, lane: usize, address: u64) -> Result<Vec<u8>, Fault> {
    let mut text = Vec::new();
    for at in 0..MOST_TEXT as u64 {
        match lanes.load_one(lane, Space::Generic, address.wrapping_add(at), 1)? {
            0 => break,
            byte => text.push(byte as u8),
        }
    }
    Ok(text)
}

fn assertion(lanes: &mut Lanes<'_>, lane: usize, texts: [u64; 3], line: u64) -> Fault {
    let [what, file, function] =
        texts.map(|at| String::from_utf8_lossy(&text(lanes, lane, at).unwrap_or_default()).into_owned());
    let super::fault::Thread { tid, ctaid } = lanes.thread(lane);
    let why = format!(
        "{file}:{line}: {function}: block: [{},{},{}], thread: [{},{},{}] Assertion `{what}` failed",
        ctaid[0], ctaid[1], ctaid[2], tid[0], tid[1], tid[2]
    );
    eprintln!("{why}.");
    Fault::new(ASSERT, why)
}

/// Prints as C does, and returns how many arguments were printed.
fn printf(lanes: &mut Lanes<'_>, lane: usize, format: u64, arguments: u64) -> Result<u64, Fault> {
    let format = text(lanes, lane, format)?;
    let (mut out, mut at, mut printed) = (Vec::new(), arguments, 0);
    let mut rest = &format[..];
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'%' {
            out.push(*first);
            continue;
        }
        let Some(spec) = Spec::read(&mut rest) else {
            out.push(b'%');
            continue;
        };
        if spec.kind == b'%' {
            out.push(b'%');
            continue;
        }
        let mut next = |lanes: &mut Lanes<'_>, size: u64| {
            at = at.next_multiple_of(size);
            let value = lanes.load_one(lane, Space::Generic, at, size as usize)?;
            at += size;
            Ok(value as u64)
        };
        let width = if spec.width_is_passed { next(lanes, 4)? as u32 as i32 } else { spec.width };
        let precision =
            if spec.precision_is_passed { Some(next(lanes, 4)? as u32 as i32) } else { spec.precision };
        let value = next(lanes, if spec.is_long() { 8 } else { 4 })?;
        let body = if spec.kind == b's' { text(lanes, lane, value)? } else { spec.write(value, precision) };
        let body = match precision {
            Some(most) if spec.kind == b's' => body[..body.len().min(most.max(0) as usize)].to_vec(),
            _ => body,
        };
        spec.pad(&mut out, body, width);
        printed += 1;
    }
    let mut stdout = std::io::stdout().lock();
    // As on the device, a text that cannot be printed is lost. `print!` is what a test harness captures.
    drop(stdout.flush());
    drop(stdout);
    print!("{}", String::from_utf8_lossy(&out));
    drop(std::io::stdout().flush());
    Ok(printed)
}

/// One `%...` of a format.
struct Spec {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: i32,
    width_is_passed: bool,
    precision: Option<i32>,
    precision_is_passed: bool,
    longs: u32,
    kind: u8,
}

impl Spec {
    fn read(rest: &mut &[u8]) -> Option<Spec> {
        let mut take = |what: &[u8]| match rest.split_first() {
            Some((first, behind)) if what.contains(first) => {
                *rest = behind;
                Some(*first)
            }
            _ => None,
        };
        let mut flags = Vec::new();
        while let Some(flag) = take(b"-+ #0") {
            flags.push(flag);
        }
        let has = |flag: u8| flags.contains(&flag);
        let number = |take: &mut dyn FnMut(&[u8]) -> Option<u8>| {
            let mut value = 0i32;
            while let Some(digit) = take(b"0123456789") {
                value = value.saturating_mul(10).saturating_add(i32::from(digit - b'0'));
            }
            value.min(1 << 12)
        };
        let width_is_passed = take(b"*").is_some();
        let width = number(&mut take);
        let (mut precision, mut precision_is_passed) = (None, false);
        if take(b".").is_some() {
            precision_is_passed = take(b"*").is_some();
            precision = Some(number(&mut take));
        }
        let mut longs = 0;
        while let Some(size) = take(b"hlLqjzt") {
            longs += match size {
                b'h' => 0,
                _ => 1,
            };
        }
        let kind = take(b"diouxXcsfFeEgGaAp%")?;
        Some(Spec {
            left: has(b'-'),
            plus: has(b'+'),
            space: has(b' '),
            alternate: has(b'#'),
            zero: has(b'0'),
            width,
            width_is_passed,
            precision,
            precision_is_passed,
            longs,
            kind,
        })
    }

    fn is_float(&self) -> bool {
        b"fFeEgGaA".contains(&self.kind)
    }

    /// Whether its argument has 8 bytes.
    fn is_long(&self) -> bool {
        self.is_float() || b"sp".contains(&self.kind) || self.longs > 0 && self.kind != b'c'
    }

    fn write(&self, value: u64, precision: Option<i32>) -> Vec<u8> {
        let signed = if self.is_long() { value as i64 } else { i64::from(value as u32 as i32) };
        let plain = if self.is_long() { value } else { u64::from(value as u32) };
        let digits = |text: String| {
            let least = precision.unwrap_or(1).clamp(0, 1 << 12) as usize;
            if least == 0 && plain == 0 { String::new() } else { format!("{text:0>least$}") }
        };
        let sign = |negative: bool| match () {
            () if negative => "-",
            () if self.plus => "+",
            () if self.space => " ",
            () => "",
        };
        let text = match self.kind {
            b'd' | b'i' => format!("{}{}", sign(signed < 0), digits(signed.unsigned_abs().to_string())),
            b'u' => digits(plain.to_string()),
            b'x' => format!(
                "{}{}",
                if self.alternate && plain != 0 { "0x" } else { "" },
                digits(format!("{plain:x}"))
            ),
            b'X' => format!(
                "{}{}",
                if self.alternate && plain != 0 { "0X" } else { "" },
                digits(format!("{plain:X}"))
            ),
            b'o' => digits(format!("{}{plain:o}", if self.alternate { "0" } else { "" })),
            b'c' => return vec![value as u8],
            b'p' => format!("0x{plain:x}"),
            _ => {
                let number = f64::from_bits(value);
                let text = float(
                    self.kind,
                    number.abs(),
                    precision.map_or(6, |it| it.max(0) as usize),
                    self.alternate,
                );
                format!("{}{text}", sign(number.is_sign_negative() && !number.is_nan()))
            }
        };
        text.into_bytes()
    }

    fn pad(&self, out: &mut Vec<u8>, body: Vec<u8>, width: i32) {
        let (left, width) = (self.left || width < 0, width.unsigned_abs().min(1 << 12) as usize);
        let missing = width.saturating_sub(body.len());
        if left {
            out.extend(body);
            out.resize(out.len() + missing, b' ');
        } else if self.zero && self.precision.is_none() | self.is_float() && !b"sc".contains(&self.kind) {
            let sign = usize::from(body.first().is_some_and(|first| b"+- ".contains(first)));
            out.extend(&body[..sign]);
            out.resize(out.len() + missing, b'0');
            out.extend(&body[sign..]);
        } else {
            out.resize(out.len() + missing, b' ');
            out.extend(body);
        }
    }
}

/// A number without its sign, as C prints it.
fn float(kind: u8, number: f64, precision: usize, alternate: bool) -> String {
    let upper = kind.is_ascii_uppercase();
    let cased = |text: String| if upper { text.to_uppercase() } else { text };
    if number.is_nan() {
        return cased("nan".to_owned());
    }
    if number.is_infinite() {
        return cased("inf".to_owned());
    }
    let scientific = |precision: usize| {
        let text = format!("{number:.precision$e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        (digits.to_owned(), exponent)
    };
    let with = |(digits, exponent): (String, i32)| {
        format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
    };
    match kind.to_ascii_lowercase() {
        b'f' => format!("{number:.precision$}"),
        b'e' => cased(with(scientific(precision))),
        b'g' => {
            let precision = precision.max(1);
            let (digits, exponent) = scientific(precision - 1);
            let short = |text: String| {
                if alternate || !text.contains('.') {
                    return text;
                }
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            };
            if exponent < -4 || exponent >= precision as i32 {
                return cased(with((short(digits), exponent)));
            }
            short(format!("{number:.*}", (precision as i32 - 1 - exponent).max(0) as usize))
        }
        _ => cased(hexadecimal(number)),
    }
}

fn hexadecimal(number: f64) -> String {
    let bits = number.to_bits();
    let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
    if number == 0.0 {
        return "0x0p+0".to_owned();
    }
    let (first, exponent) = if exponent == 0 { (0, -1022) } else { (1, exponent - 1023) };
    let digits = format!("{fraction:013x}");
    let digits = digits.trim_end_matches('0');
    format!("0x{first}{}{digits}p{exponent:+}", if digits.is_empty() { "" } else { "." })
}
