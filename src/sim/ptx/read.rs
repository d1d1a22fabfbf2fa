//! Finds the entries and the variables of a PTX text.

use super::decode::{Body, decode};
use super::directives::{Directives, directives};
use super::tokens::{Token, tokens};
use super::values::Type;
use super::{INVALID_IMAGE, Refusal, unknown, wrong};

/// The newest PTX that a driver for CUDA 13.0 knows.
const NEWEST: f64 = 9.0;
/// More than any device has, and small enough that sums cannot overflow.
const MOST_BYTES: usize = 1 << 32;
/// The maximum size of a kernel's parameters, in bytes; before PTX 8.1 it was smaller.
const MOST_PARAMETERS: usize = 32_764;
const MOST_PARAMETERS_BEFORE: usize = 4352;
/// The maximum size of a program's constant memory, in bytes.
const MOST_CONSTANTS: usize = 1 << 16;
const UNSUPPORTED_PTX_VERSION: u32 = 222;

/// The contents of a PTX text.
#[derive(Debug, Clone, Default)]
pub(in crate::sim) struct Program {
    pub(in crate::sim) version: u32,
    pub(in crate::sim) entries: Vec<Entry>,
    /// The variables in global and constant memory.
    pub(in crate::sim) variables: Vec<Variable>,
}

#[derive(Debug, Clone)]
pub(in crate::sim) struct Variable {
    pub(in crate::sim) name: String,
    pub(in crate::sim) size: usize,
    /// Its initial bytes; zeros follow.
    pub(in crate::sim) contents: Vec<u8>,
    pub(in crate::sim) constant: bool,
    /// In memory that the host can use too.
    pub(in crate::sim) managed: bool,
    /// Declared, and to be found in another text that this one is linked with.
    pub(super) external: bool,
}

/// A parameter of a kernel, and its offset among them.
#[derive(Debug, Clone)]
pub(in crate::sim) struct Parameter {
    pub(super) name: String,
    pub(in crate::sim) offset: usize,
    pub(in crate::sim) size: usize,
}

#[derive(Debug, Clone)]
pub(in crate::sim) struct Entry {
    pub(in crate::sim) name: String,
    pub(in crate::sim) parameters: Vec<Parameter>,
    pub(in crate::sim) directives: Directives,
    pub(in crate::sim) body: Body,
}

/// A declared variable: its name, alignment, size in bytes, and initial bytes.
pub(super) struct Declared {
    pub(super) name: String,
    pub(super) align: usize,
    pub(super) size: usize,
    pub(super) contents: Vec<u8>,
    pub(super) managed: bool,
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

    /// The tokens between braces, the first of which is already consumed.
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

    /// `[.align N] .type name[N] = {...};` after the word for its state space.
    pub(super) fn declared(&mut self) -> Result<Declared, Refusal> {
        let (mut align, mut ty, mut managed) = (None, None, false);
        let name = loop {
            match self.word()? {
                ".attribute" => {
                    self.expect('(')?;
                    managed |= self.until(')')?.iter().any(|token| token.word() == Some(".managed"));
                }
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
                let count =
                    usize::try_from(self.int()?).map_err(|_| wrong("a negative number of elements"))?;
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
                    other => return Err(unknown(format!("{name} begins with `{other}`"))),
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
        Ok(Declared { name, align: align.max(ty.size()), size, contents, managed })
    }
}

/// Parses a text; one that is not PTX at all is an invalid image.
pub(in crate::sim) fn read(text: &str) -> Result<Program, Refusal> {
    let mut program = Program::default();
    add(&mut program, text)?;
    match program.variables.iter().find(|variable| variable.external) {
        Some(variable) => Err(wrong(format!("{} is declared, and defined nowhere", variable.name))),
        None => Ok(program),
    }
}

/// Adds what a text has to a program.
pub(super) fn add(program: &mut Program, text: &str) -> Result<(), Refusal> {
    if !text.contains(".version") {
        let why = "the image is not PTX: it has no .version".to_owned();
        return Err(Refusal { status: INVALID_IMAGE, line: None, why });
    }
    let (tokens, lines) = tokens(text)?;
    let mut reader = Reader::new(&tokens, &lines);
    items(program, &mut reader).map_err(|refusal| refusal.at(reader.line()))
}

fn items(program: &mut Program, reader: &mut Reader<'_>) -> Result<(), Refusal> {
    let mut headers = Vec::new();
    let mut external = false;
    while reader.peek().is_some() {
        match reader.word()? {
            ".version" => program.version = version(reader.next()?)?.max(program.version),
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
            ".extern" => external = true,
            ".visible" | ".weak" | ".default_stream" => {}
            ".global" | ".const" => {
                let constant = reader.tokens[reader.at - 1].word() == Some(".const");
                let Declared { name, size, contents, managed, .. } = reader.declared()?;
                let size = size.max(1);
                let external = std::mem::take(&mut external);
                program.add(Variable { name, size, contents, constant, managed, external })?;
            }
            ".shared" => {
                headers.push(reader.declared()?);
                external = false;
            }
            ".entry" => {
                let (name, parameters, directives, body) = entry(reader, program.version)?;
                let body = decode(body, &parameters, &program.variables, &headers)
                    .map_err(|refusal| refusal.within(format_args!("kernel {name}")))?;
                if program.entries.iter().any(|entry| entry.name == name) {
                    return Err(wrong(format!("the kernel {name} is defined twice")));
                }
                program.entries.push(Entry { name, parameters, directives, body });
            }
            ".pragma" => {
                reader.until(';')?;
            }
            other => return Err(unknown(format!("the directive {other}"))),
        }
    }
    Ok(())
}

impl Program {
    /// Adds a variable, or makes one that was declared the one that is defined.
    fn add(&mut self, new: Variable) -> Result<(), Refusal> {
        let constants: usize = self.variables.iter().filter(|it| it.constant).map(|it| it.size).sum();
        if new.constant && constants + new.size > MOST_CONSTANTS {
            return Err(wrong(format!("more than {MOST_CONSTANTS} bytes of constants")));
        }
        match self.variables.iter_mut().find(|known| known.name == new.name) {
            None => self.variables.push(new),
            Some(known) if known.external => *known = new,
            Some(_) if new.external => {}
            Some(_) => return Err(wrong(format!("the variable {} is defined twice", new.name))),
        }
        Ok(())
    }
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

type Head<'a> = (String, Vec<Parameter>, Directives, Reader<'a>);

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
    let directives = directives(reader)?;
    Ok((name, parameters, directives, reader.block()?))
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
                // The alignment of a pointer's target is not that of the pointer.
                let align = if size > ty.size() { align.max(ty.size()) } else { ty.size() };
                return Ok((Parameter { name: name.to_owned(), offset: 0, size }, align));
            }
        }
    }
}
