//! Cuts PTX into words, numbers and signs, and knows on which line each is.

use super::{Refusal, wrong};

/// One piece of the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// A name, a directive or an opcode, dots and all: `ld.param.u64`, `%tid.x`, `.visible`.
    Word(String),
    Int(i64),
    /// `0f3F800000`
    Single(u32),
    /// `0d3FF0000000000000`, or a decimal fraction.
    Double(u64),
    Text(String),
    Sign(char),
}

impl Token {
    pub(super) fn word(&self) -> Option<&str> {
        if let Token::Word(word) = self { Some(word) } else { None }
    }

    pub(super) fn is(&self, sign: char) -> bool {
        *self == Token::Sign(sign)
    }
}

fn is_start(c: char) -> bool {
    c.is_ascii_alphabetic() || "_$%.".contains(c)
}

fn is_inside(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_$%.".contains(c)
}

/// Takes comments out, and the lines that only a debugger reads.
fn without_comments(text: &str) -> Result<String, Refusal> {
    let mut rest = text;
    let mut out = String::with_capacity(text.len());
    while let Some(at) = rest.find("/*") {
        // A comment that begins in a line comment is none.
        let line = rest[..at].rfind('\n').map_or(0, |start| start + 1);
        if rest[line..at].contains("//") {
            out.push_str(&rest[..at]);
            let end = rest[at..].find('\n').map_or(rest.len(), |end| at + end);
            rest = &rest[end..];
            continue;
        }
        out.push_str(&rest[..at]);
        out.push(' ');
        let end = rest[at..].find("*/").ok_or_else(|| wrong("a comment does not end"))?;
        out.extend(rest[at..at + end].chars().filter(|c| *c == '\n'));
        rest = &rest[at + end + 2..];
    }
    out.push_str(rest);
    let lines = out.lines().map(|line| line.split("//").next().unwrap_or(""));
    let kept = lines.map(|line| {
        let only_for_debuggers = [".loc", ".file"].iter().any(|word| line.trim_start().starts_with(word));
        if only_for_debuggers { "" } else { line }
    });
    Ok(kept.collect::<Vec<_>>().join("\n"))
}

/// The tokens, and the line of each.
pub(super) fn tokens(text: &str) -> Result<(Vec<Token>, Vec<u32>), Refusal> {
    let text = without_comments(text)?;
    let mut rest = text.trim_start();
    let (mut tokens, mut lines) = (Vec::new(), Vec::new());
    let (mut line, mut counted) = (1, text.len());
    while let Some(c) = rest.chars().next() {
        let passed = &text[text.len() - counted..text.len() - rest.len()];
        line += passed.bytes().filter(|byte| *byte == b'\n').count() as u32;
        counted = rest.len();
        lines.push(line);
        let length = if is_start(c) {
            let length = rest.find(|c| !is_inside(c)).unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..length].to_owned()));
            length
        } else if c.is_ascii_digit() {
            let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(rest.len());
            tokens.push(number(&rest[..length]).map_err(|refusal| refusal.at(line))?);
            length
        } else if c == '"' {
            let length = rest[1..].find('"').ok_or_else(|| wrong("a text does not end").at(line))? + 2;
            tokens.push(Token::Text(rest[1..length - 1].to_owned()));
            length
        } else if c.is_ascii() {
            tokens.push(Token::Sign(c));
            1
        } else {
            return Err(wrong(format!("{c:?} is no character of PTX")).at(line));
        };
        rest = rest[length..].trim_start();
    }
    Ok((tokens, lines))
}

fn number(text: &str) -> Result<Token, Refusal> {
    let bad = || wrong(format!("{text} is no number"));
    let lower = text.to_ascii_lowercase();
    let hex = |digits: &str| u64::from_str_radix(digits, 16).map_err(|_| bad());
    if let Some(digits) = lower.strip_prefix("0f") {
        return Ok(Token::Single(hex(digits)? as u32));
    }
    if let Some(digits) = lower.strip_prefix("0d") {
        return Ok(Token::Double(hex(digits)?));
    }
    if lower.contains('.') {
        return lower.parse().map(|value: f64| Token::Double(value.to_bits())).map_err(|_| bad());
    }
    let digits = lower.strip_suffix('u').unwrap_or(&lower);
    let value = match digits.strip_prefix("0x") {
        Some(digits) => hex(digits)?,
        None => match digits.strip_prefix("0b") {
            Some(digits) => u64::from_str_radix(digits, 2).map_err(|_| bad())?,
            None => digits.parse().map_err(|_| bad())?,
        },
    };
    Ok(Token::Int(value as i64))
}
