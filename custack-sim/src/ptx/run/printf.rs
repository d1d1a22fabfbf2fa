//! The conversions of `printf`, as the C library of a Linux host performs them. An H200 has those that CUDA documents:
//! a precision cannot be passed as an argument, and an integer is short, long, or neither.

/// The limit of a text, a width and a precision.
pub(super) const MOST: usize = 1 << 16;

/// After this many digits, in any base, a finite binary number has only zeros.
const MOST_DIGITS: usize = 1100;

/// The width of a field.
#[derive(Clone, Copy)]
pub(super) enum Width {
    Written(usize),
    Passed,
}

/// One `%...` of a format.
pub(super) struct Conversion<'a> {
    flags: &'a [u8],
    pub(super) width: Width,
    pub(super) precision: Option<usize>,
    /// The size of an integer in bytes.
    size: u32,
    pub(super) kind: u8,
}

/// The text of a converted value. Zeros that pad it go between the two parts.
pub(super) struct Parts {
    pub(super) prefix: String,
    pub(super) body: Vec<u8>,
    pub(super) zeros: bool,
}

impl Conversion<'_> {
    /// Reads a conversion, which follows a `%`, and returns its length too; `None` if it is not a conversion.
    pub(super) fn read(text: &[u8]) -> Option<(Conversion<'_>, usize)> {
        let mut at = 0;
        let mut all = |set: &[u8]| {
            let begin = at;
            at += text[begin..].iter().take_while(|byte| set.contains(byte)).count();
            &text[begin..at]
        };
        let flags = all(b"-+ #0");
        let width = match all(b"*0123456789") {
            b"*" => Width::Passed,
            digits => Width::Written(count(digits)),
        };
        let precision = match all(b".") {
            b"" => None,
            _ => Some(count(all(b"0123456789"))),
        };
        let size = match all(b"hl") {
            b"" => 4,
            b"h" => 2,
            b"hh" => 1,
            b"l" | b"ll" => 8,
            _ => return None,
        };
        let kind = *text.get(at)?;
        let known = b"diouxXcspfFeEgGaA".contains(&kind) || kind == b'%' && at == 0;
        known.then_some((Conversion { flags, width, precision, size, kind }, at + 1))
    }

    fn has(&self, flag: u8) -> bool {
        self.flags.contains(&flag)
    }

    /// The size of its argument, in bytes.
    pub(super) fn passed(&self) -> u64 {
        match self.kind {
            b'd' | b'i' | b'o' | b'u' | b'x' | b'X' => u64::from(self.size.max(4)),
            b'c' => 4,
            _ => 8,
        }
    }

    pub(super) fn number(&self, value: u64, precision: Option<usize>) -> Parts {
        match self.kind {
            b'c' => Parts { prefix: String::new(), body: vec![value as u8], zeros: false },
            b'p' if value == 0 => Parts { prefix: String::new(), body: b"(nil)".to_vec(), zeros: false },
            b'd' | b'i' | b'o' | b'u' | b'x' | b'X' => {
                let unused = 64 - 8 * self.size;
                self.integer((value << unused) as i64 >> unused, value << unused >> unused, precision)
            }
            b'p' => self.integer(0, value, precision),
            _ => self.float(f64::from_bits(value), precision),
        }
    }

    fn sign(&self, negative: bool) -> String {
        let sign = match () {
            () if negative => "-",
            () if self.has(b'+') => "+",
            () if self.has(b' ') => " ",
            () => "",
        };
        sign.to_owned()
    }

    fn integer(&self, signed: i64, value: u64, precision: Option<usize>) -> Parts {
        let marked = self.has(b'#') && value != 0;
        let (prefix, digits) = match self.kind {
            b'd' | b'i' => (self.sign(signed < 0), signed.unsigned_abs().to_string()),
            b'o' => (String::new(), format!("{value:o}")),
            b'x' => (if marked { "0x" } else { "" }.to_owned(), format!("{value:x}")),
            b'X' => (if marked { "0X" } else { "" }.to_owned(), format!("{value:X}")),
            b'p' => (self.sign(false) + "0x", format!("{value:x}")),
            _ => (String::new(), value.to_string()),
        };
        let digits = if value == 0 && precision == Some(0) { String::new() } else { digits };
        let mut body = "0".repeat(precision.unwrap_or(1).saturating_sub(digits.len())) + &digits;
        if self.kind == b'o' && self.has(b'#') && !body.starts_with('0') {
            body.insert(0, '0');
        }
        Parts { prefix, body: body.into_bytes(), zeros: precision.is_none() }
    }

    fn float(&self, number: f64, precision: Option<usize>) -> Parts {
        let (mut prefix, number) = (self.sign(number.is_sign_negative()), number.abs());
        let mut body = match self.kind.to_ascii_lowercase() {
            _ if number.is_nan() => "nan".to_owned(),
            _ if number.is_infinite() => "inf".to_owned(),
            b'f' => self.pointed(fixed(number, precision.unwrap_or(6)), ""),
            b'e' => self.scientific(number, precision.unwrap_or(6)),
            b'g' => self.shortest(number, precision.unwrap_or(6).max(1)),
            _ => {
                prefix += "0x";
                self.hexadecimal(number, precision)
            }
        };
        if self.kind.is_ascii_uppercase() {
            prefix.make_ascii_uppercase();
            body.make_ascii_uppercase();
        }
        Parts { prefix, body: body.into_bytes(), zeros: number.is_finite() }
    }

    /// Appends a point and an exponent to the digits; the point only if `#` asks for it or there is one already.
    fn pointed(&self, digits: String, exponent: &str) -> String {
        let point = if self.has(b'#') && !digits.contains('.') { "." } else { "" };
        digits + point + exponent
    }

    fn scientific(&self, number: f64, precision: usize) -> String {
        let (digits, exponent) = decimal(number, precision);
        self.pointed(digits, &written(exponent))
    }

    fn shortest(&self, number: f64, precision: usize) -> String {
        let (digits, exponent) = decimal(number, precision - 1);
        let (digits, exponent) = if exponent < -4 || exponent >= precision as i32 {
            (digits, written(exponent))
        } else {
            (fixed(number, (precision as i32 - 1 - exponent) as usize), String::new())
        };
        match digits.contains('.') && !self.has(b'#') {
            true => digits.trim_end_matches('0').trim_end_matches('.').to_owned() + &exponent,
            false => self.pointed(digits, &exponent),
        }
    }

    /// The digits of a number in hexadecimal, after `0x`. A subnormal number keeps the smallest exponent.
    fn hexadecimal(&self, number: f64, precision: Option<usize>) -> String {
        let bits = number.to_bits();
        let normal = bits >> 52 != 0;
        let exponent = if number == 0.0 { 0 } else { (bits >> 52).max(1) as i32 - 1023 };
        let whole = bits & ((1 << 52) - 1) | u64::from(normal) << 52;
        let kept = precision.unwrap_or(13).min(13);
        let unit = 1 << (52 - 4 * kept);
        let (down, rest) = (whole / unit, whole % unit);
        // To the nearest, and to the even one of two that are equally near.
        let rounded = down + u64::from(rest * 2 > unit || rest * 2 == unit && down % 2 == 1);
        let (first, fraction) = (rounded >> (4 * kept), rounded & ((1 << (4 * kept)) - 1));
        let mut digits = match kept {
            0 => String::new(),
            _ => format!("{fraction:0kept$x}"),
        };
        match precision {
            None => digits.truncate(digits.trim_end_matches('0').len()),
            Some(precision) => digits += &"0".repeat(precision - kept),
        }
        let point = if digits.is_empty() { "" } else { "." };
        self.pointed(format!("{first}{point}{digits}"), &format!("p{exponent:+}"))
    }

    /// The text in a field of this width; it is aligned to the left if the width is negative.
    pub(super) fn padded(&self, parts: Parts, width: i32) -> Vec<u8> {
        let Parts { prefix, body, zeros } = parts;
        let missing = (width.unsigned_abs() as usize).min(MOST).saturating_sub(prefix.len() + body.len());
        let (before, between, behind) = match () {
            () if self.has(b'-') || width < 0 => (0, 0, missing),
            () if self.has(b'0') && zeros => (0, missing, 0),
            () => (missing, 0, 0),
        };
        let fill = |byte: u8, count: usize| vec![byte; count];
        [fill(b' ', before), prefix.into_bytes(), fill(b'0', between), body, fill(b' ', behind)].concat()
    }
}

fn count(digits: &[u8]) -> usize {
    digits.iter().fold(0, |count, digit| (count * 10 + usize::from(digit & 15)).min(MOST))
}

fn fixed(number: f64, precision: usize) -> String {
    let exact = precision.min(MOST_DIGITS);
    format!("{number:.exact$}") + &"0".repeat(precision - exact)
}

/// The digits of a number, with a point behind the first, and its exponent.
fn decimal(number: f64, precision: usize) -> (String, i32) {
    let exact = precision.min(MOST_DIGITS);
    let text = format!("{number:.exact$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (digits.to_owned() + &"0".repeat(precision - exact), exponent.parse().unwrap_or(0))
}

fn written(exponent: i32) -> String {
    format!("e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}
