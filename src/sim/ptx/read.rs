//! Finds the entries and the variables of a PTX text.

use super::decode::{Body, decode};
use super::tokens::{Token, tokens};
use super::values::Type;
use super::{INVALID_IMAGE, Refusal, unknown, wrong};

/// The newest PTX that a driver for CUDA 13.0 knows.
const NEWEST: f64 = 9.0;
/// More than any device has, and little enough to add up.
const MOST_BYTES: usize = 1 << 32;
/// Bytes of a kernel's parameters; before PTX 8.1 there was less room.
const MOST_PARAMETERS: usize = 32_764;
const MOST_PARAMETERS_BEFORE: usize = 4352;
/// Bytes of constant memory that a program declares.
const MOST_CONSTANTS: usize = 1 << 16;
const UNSUPPORTED_PTX_VERSION: u32 = 222;

/// What a text has.
#[derive(Debug)]
pub(in crate::sim) struct Program {
    pub(in crate::sim) version: u32,
    pub(in crate::sim) entries: Vec<Entry>,
    /// In global and constant memory.
    pub(in crate::sim) variables: Vec<Variable>,
}

#[derive(Debug, Clone)]
pub(in crate::sim) struct Variable {
    pub(in crate::sim) name: String,
    pub(in crate::sim) size: usize,
    /// What it begins with; zeros follow.
    pub(in crate::sim) contents: Vec<u8>,
    pub(in crate::sim) constant: bool,
}

/// A parameter of a kernel, and its offset among them.
#[derive(Debug, Clone)]
pub(in crate::sim) struct Parameter {
    pub(super) name: String,
    pub(in crate::sim) offset: usize,
    pub(in crate::sim) size: usize,
}

#[derive(Debug)]
pub(in crate::sim) struct Entry {
    pub(in crate::sim) name: String,
    pub(in crate::sim) parameters: Vec<Parameter>,
    pub(in crate::sim) body: Body,
}

/// A variable that is declared: its name, alignment, size in bytes, and what it begins with.
pub(super) struct Declared {
    pub(super) name: String,
    pub(super) align: usize,
    pub(super) size: usize,
    pub(super) contents: Vec<u8>,
}

pub(super) struct Reader<'a> {
    tokens: &'a [Token],
    lines: &'a [u32],
    at: usize,
}

impl<'a> Reader<'a> {
    fn new(tokens: &'a [Token], lines: &'a [u32]) -> Reader<'a> {
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

    pub(super) fn expect(&mut self, sign: char) -> Result<(), Refusal> {
        let token = self.next()?;
        if token.is(sign) {
            Ok(())
        } else {
            Err(wrong(format!("{sign:?} is expected, and {token:?} is there")))
        }
    }

    pub(super) fn word(&mut self) -> Result<&'a str, Refusal> {
        let token = self.next()?;
        token.word().ok_or_else(|| wrong(format!("a name is expected, and {token:?} is there")))
    }

    pub(super) fn int(&mut self) -> Result<i64, Refusal> {
        match self.next()? {
            Token::Int(value) => Ok(*value),
            other => Err(wrong(format!("a number is expected, and {other:?} is there"))),
        }
    }

    /// The tokens up to the sign, which is taken too.
    pub(super) fn until(&mut self, sign: char) -> Result<&'a [Token], Refusal> {
        let length = self.tokens[self.at..].iter().position(|token| token.is(sign));
        let length = length.ok_or_else(|| wrong(format!("{sign:?} is missing")))?;
        let part = &self.tokens[self.at..self.at + length];
        self.at += length + 1;
        Ok(part)
    }

    /// The tokens between braces, the first of which is taken already.
    fn block(&mut self) -> Result<Reader<'a>, Refusal> {
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

    /// `[.align N] .type name[N] = {...};` after the word for its space.
    pub(super) fn declared(&mut self) -> Result<Declared, Refusal> {
        let (mut align, mut ty) = (None, None);
        let name = loop {
            match self.word()? {
                ".align" => align = Some(self.int()? as usize),
                ".ptr" | ".volatile" => {}
                word if word.starts_with('.') => match Type::named(word) {
                    Some(known) => ty = Some(known),
                    None => return Err(unknown(format!("a variable of type {word}"))),
                },
                name => break name.to_owned(),
            }
        };
        let ty = ty.ok_or_else(|| wrong(format!("the variable {name} has no type")))?;
        let mut count = 1;
        if self.takes('[') {
            count = if self.takes(']') {
                0
            } else {
                let count = usize::try_from(self.int()?).map_err(|_| wrong("fewer than no elements"))?;
                self.expect(']')?;
                count
            };
        }
        let mut contents = Vec::new();
        if self.takes('=') {
            let braced = self.takes('{');
            loop {
                let negative = self.takes('-');
                let value = match self.next()? {
                    Token::Int(value) if negative => value.wrapping_neg() as u64,
                    Token::Int(value) => *value as u64,
                    Token::Single(bits) => u64::from(*bits),
                    Token::Double(bits) => *bits,
                    other => return Err(unknown(format!("{name} begins with {other:?}"))),
                };
                contents.extend_from_slice(&value.to_le_bytes()[..ty.size()]);
                if !self.takes(',') {
                    break;
                }
            }
            if braced {
                self.expect('}')?;
            }
        }
        self.until(';')?;
        let size = count.checked_mul(ty.size()).filter(|size| *size <= MOST_BYTES);
        let size =
            size.ok_or_else(|| wrong(format!("the variable {name} is too large")))?.max(contents.len());
        let align = align.unwrap_or(1);
        if !align.is_power_of_two() || align > 4096 {
            return Err(wrong(format!("the variable {name} is aligned to {align}")));
        }
        Ok(Declared { name, align: align.max(ty.size()), size, contents })
    }
}

/// Reads a text; one that is not PTX at all is no image.
pub(in crate::sim) fn read(text: &str) -> Result<Program, Refusal> {
    if !text.contains(".version") {
        let why = "the image is no PTX: it has no .version".to_owned();
        return Err(Refusal { status: INVALID_IMAGE, line: None, why });
    }
    let (tokens, lines) = tokens(text)?;
    let mut reader = Reader::new(&tokens, &lines);
    program(&mut reader).map_err(|refusal| refusal.at(reader.line()))
}

fn program(reader: &mut Reader<'_>) -> Result<Program, Refusal> {
    let mut program = Program { version: 0, entries: Vec::new(), variables: Vec::new() };
    let mut headers = Vec::new();
    let mut constants = 0;
    while reader.peek().is_some() {
        match reader.word()? {
            ".version" => program.version = version(reader.next()?)?,
            ".target" => {
                reader.word()?;
                while reader.takes(',') {
                    reader.word()?;
                }
            }
            ".address_size" => {
                if reader.int()? != 64 {
                    return Err(wrong("addresses have 64 bits"));
                }
            }
            ".visible" | ".extern" | ".weak" | ".default_stream" => {}
            ".global" | ".const" => {
                let constant = reader.tokens[reader.at - 1].word() == Some(".const");
                let Declared { name, size, contents, .. } = reader.declared()?;
                let size = size.max(1);
                constants += if constant { size } else { 0 };
                if constants > MOST_CONSTANTS {
                    return Err(wrong(format!("more than {MOST_CONSTANTS} bytes of constants")));
                }
                program.variables.push(Variable { name, size, contents, constant });
            }
            ".shared" => headers.push(reader.declared()?),
            ".entry" => {
                let (name, parameters, body) = entry(reader, program.version)?;
                let body = decode(body, &parameters, &program.variables, &headers)
                    .map_err(|refusal| refusal.within(format_args!("kernel {name}")))?;
                program.entries.push(Entry { name, parameters, body });
            }
            ".pragma" => {
                reader.until(';')?;
            }
            other => return Err(unknown(format!("the directive {other}"))),
        }
    }
    Ok(program)
}

fn version(token: &Token) -> Result<u32, Refusal> {
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

type Head<'a> = (String, Vec<Parameter>, Reader<'a>);

fn entry<'a>(reader: &mut Reader<'a>, version: u32) -> Result<Head<'a>, Refusal> {
    let name = reader.word()?.to_owned();
    let mut parameters: Vec<Parameter> = Vec::new();
    let mut end = 0;
    if reader.takes('(') && !reader.takes(')') {
        loop {
            if reader.word()? != ".param" {
                return Err(wrong(format!("kernel {name}: a parameter begins with .param")));
            }
            let (parameter, align) = parameter(reader)?;
            let offset = usize::next_multiple_of(end, align);
            end = offset + parameter.size;
            let most = if version < 81 { MOST_PARAMETERS_BEFORE } else { MOST_PARAMETERS };
            if end > most {
                return Err(wrong(format!("kernel {name}: more than {most} bytes of parameters")));
            }
            parameters.push(Parameter { offset, ..parameter });
            if !reader.takes(',') {
                break;
            }
        }
        reader.expect(')')?;
    }
    // What stands here, such as .maxntid, helps a compiler.
    reader.until('{')?;
    Ok((name, parameters, reader.block()?))
}

fn parameter(reader: &mut Reader<'_>) -> Result<(Parameter, usize), Refusal> {
    let (mut align, mut ty) = (0, None);
    loop {
        match reader.word()? {
            ".align" => align = (reader.int()? as usize).clamp(1, 4096).next_power_of_two(),
            ".ptr" | ".global" | ".const" | ".shared" | ".local" => {}
            word if word.starts_with('.') => {
                ty = Some(Type::named(word).ok_or_else(|| unknown(format!("a parameter of type {word}")))?);
            }
            name => {
                let ty = ty.ok_or_else(|| wrong(format!("the parameter {name} has no type")))?;
                let mut size = ty.size();
                if reader.takes('[') {
                    let count = usize::try_from(reader.int()?).ok().filter(|count| *count <= MOST_PARAMETERS);
                    size *= count.ok_or_else(|| wrong(format!("the parameter {name} is too large")))?;
                    reader.expect(']')?;
                }
                // The alignment of what a pointer points to is not that of the pointer.
                let align = if size > ty.size() { align.max(ty.size()) } else { ty.size() };
                return Ok((Parameter { name: name.to_owned(), offset: 0, size }, align));
            }
        }
    }
}
