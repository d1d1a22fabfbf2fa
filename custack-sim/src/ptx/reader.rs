//! A cursor over the tokens of a text.

use super::tokens::Token;
use super::{Refusal, wrong};

#[derive(Clone)]
pub(super) struct Reader<'a> {
    tokens: &'a [Token],
    lines: &'a [u32],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(tokens: &'a [Token], lines: &'a [u32]) -> Reader<'a> {
        Reader { tokens, lines, at: 0 }
    }

    /// The line of the token that was taken last.
    pub(super) fn line(&self) -> u32 {
        self.lines.get(self.at.saturating_sub(1)).or(self.lines.last()).copied().unwrap_or(1)
    }

    pub(super) fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    pub(super) fn next(&mut self) -> Result<&'a Token, Refusal> {
        let token = self.peek().ok_or_else(|| wrong("the text ends too soon"))?;
        self.at += 1;
        Ok(token)
    }

    pub(super) fn takes(&mut self, sign: char) -> bool {
        let here = self.peek().is_some_and(|token| token.is(sign));
        self.at += usize::from(here);
        here
    }

    pub(super) fn takes_word(&mut self, word: &str) -> bool {
        let here = self.peek().and_then(Token::word) == Some(word);
        self.at += usize::from(here);
        here
    }

    pub(super) fn expect(&mut self, sign: char) -> Result<(), Refusal> {
        let token = self.next()?;
        if token.is(sign) {
            Ok(())
        } else {
            Err(wrong(format!("`{sign}` is expected, but `{token}` is found")))
        }
    }

    pub(super) fn word(&mut self) -> Result<&'a str, Refusal> {
        let token = self.next()?;
        token.word().ok_or_else(|| wrong(format!("a name is expected, but `{token}` is found")))
    }

    pub(super) fn int(&mut self) -> Result<i64, Refusal> {
        match self.next()? {
            Token::Int(value) => Ok(*value),
            other => Err(wrong(format!("a number is expected, but `{other}` is found"))),
        }
    }

    /// The tokens up to the sign, which is consumed too.
    pub(super) fn until(&mut self, sign: char) -> Result<&'a [Token], Refusal> {
        let length = self.tokens[self.at..].iter().position(|token| token.is(sign));
        let length = length.ok_or_else(|| wrong(format!("`{sign}` is missing")))?;
        let part = &self.tokens[self.at..self.at + length];
        self.at += length + 1;
        Ok(part)
    }

    /// Skips the rest of the line of the token that was taken last: only a debugger uses it.
    pub(super) fn pass_line(&mut self) {
        let line = self.line();
        while self.lines.get(self.at) == Some(&line) {
            self.at += 1;
        }
    }

    /// A reader of the tokens up to the matching closing brace; the opening one is already consumed.
    pub(super) fn block(&mut self) -> Result<Reader<'a>, Refusal> {
        let start = self.at;
        let mut depth = 1i64;
        while depth > 0 {
            match self.next()? {
                Token::Sign('{') => depth += 1,
                Token::Sign('}') => depth -= 1,
                _ => {}
            }
        }
        let within = start..self.at - 1;
        Ok(Reader::new(&self.tokens[within.clone()], &self.lines[within]))
    }

    /// The remaining tokens and their lines.
    pub(super) fn rest(&self) -> (Vec<Token>, Vec<u32>) {
        (self.tokens[self.at..].to_vec(), self.lines[self.at..].to_vec())
    }
}
