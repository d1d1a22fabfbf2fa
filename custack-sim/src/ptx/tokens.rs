//! Splits PTX into words, numbers and signs, and records the line of each.

use super::{Refusal, wrong};
use std::fmt;

/// A token of the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// A name, a directive or an opcode, with its dots: `ld.param.u64`, `%tid.x`, `.visible`.
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

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Word(word) => f.write_str(word),
            // The tokenizer makes a sign before a number a token of its own.
            Token::Int(value) => write!(f, "{}", *value as u64),
            Token::Single(bits) => write!(f, "0f{bits:08X}"),
            Token::Double(bits) => write!(f, "0d{bits:016X}"),
            Token::Text(text) => write!(f, "\"{text}\""),
            Token::Sign(sign) => write!(f, "{sign}"),
        }
    }
}

/// Tokens as PTX text, for an error.
pub(super) struct Written<'a>(pub(super) &'a [Token]);

impl fmt::Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, token) in self.0.iter().enumerate() {
            let apart = at.checked_sub(1).is_some_and(|before| match &self.0[before] {
                Token::Sign(sign) => *sign == ',',
                _ => !matches!(token, Token::Sign(_)),
            });
            write!(f, "{}{token}", if apart { " " } else { "" })?;
        }
        Ok(())
    }
}

fn is_start(c: char) -> bool {
    c.is_ascii_alphabetic() || "_$%.".contains(c)
}

fn is_inside(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_$%.".contains(c)
}

/// The length of the word at the start. `::` is a part of a modifier such as `.shared::cta`; the single `:` after a
/// label is not.
fn length_of_word(text: &str) -> usize {
    let mut length = 0;
    loop {
        let rest = &text[length..];
        length += rest.find(|c| !is_inside(c)).unwrap_or(rest.len());
        match text[length..].strip_prefix("::") {
            Some(behind) if behind.starts_with(is_inside) => length += 2,
            _ => return length,
        }
    }
}

/// Removes comments, and keeps their line breaks. Inside of a quoted text there are no comments.
fn without_comments(text: &str) -> Result<String, Refusal> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['"', '/']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let line = || 1 + out.bytes().filter(|byte| *byte == b'\n').count() as u32;
        let (kept, length) = if let Some(quoted) = from.strip_prefix('"') {
            let end = quoted.find('"').ok_or_else(|| wrong("a text does not end").at(line()))?;
            (&from[..end + 2], end + 2)
        } else if from.starts_with("//") {
            ("", from.find('\n').unwrap_or(from.len()))
        } else if from.starts_with("/*") {
            let end = from.find("*/").ok_or_else(|| wrong("a comment does not end").at(line()))?;
            out.push(' ');
            out.extend(from[..end].chars().filter(|c| *c == '\n'));
            ("", end + 2)
        } else {
            ("/", 1)
        };
        out.push_str(kept);
        rest = &from[length..];
    }
    out.push_str(rest);
    Ok(out)
}

/// The tokens of a text, and the line of each.
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
            let length = length_of_word(rest);
            // Directives may follow one another without a space; an opcode does not begin with a dot.
            let next = rest[1..length].find('.').filter(|_| c == '.');
            let length = next.map_or(length, |next| next + 1);
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
            return Err(wrong(format!("`{c}` is not a character of PTX")).at(line));
        };
        rest = rest[length..].trim_start();
    }
    Ok((tokens, lines))
}

fn number(text: &str) -> Result<Token, Refusal> {
    let bad = || wrong(format!("{text} is not a number"));
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
    let radix = |digits: &str, radix| u64::from_str_radix(digits, radix).map_err(|_| bad());
    let value = match (digits.strip_prefix("0x"), digits.strip_prefix("0b"), digits.strip_prefix('0')) {
        (Some(digits), ..) => radix(digits, 16)?,
        (_, Some(digits), _) => radix(digits, 2)?,
        (_, _, Some(digits)) if !digits.is_empty() => radix(digits, 8)?,
        _ => digits.parse().map_err(|_| bad())?,
    };
    Ok(Token::Int(value as i64))
}
