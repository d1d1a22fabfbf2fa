//! The instructions of a function, and the meaning of its names: each `{ }` opens a scope.

use super::declared::{Declared, declared};
use super::read::parameters;
use super::reader::Reader;
use super::run::{Counts, Reg};
use super::tokens::Token;
use super::types::Type;
use super::{Refusal, syntax, unknown, wrong};
use std::collections::HashMap;

/// The maximum number of registers of a kernel.
const MOST_REGISTERS: u64 = 1 << 16;

/// The meaning of a name.
#[derive(Debug, Clone)]
pub(super) enum Named {
    Register(Reg),
    /// A vector of registers, whose elements are `name.x` and so on.
    Vector(Vec<Reg>),
    /// An offset in the function's frame in local memory.
    Local(u64),
    /// An offset in shared memory.
    Shared(u64),
    /// Shared memory whose size is an argument of the launch: it follows all other shared memory.
    Dynamic,
    /// An offset among the kernel's parameters.
    Parameter(u64),
    /// A label: the number of the statement after it.
    Label(usize),
    /// A table of labels for an indexed branch.
    Targets(Vec<String>),
    /// The parameters and results of a function that is called by its address.
    Prototype(Signature),
    /// The functions that a call by address may call.
    Callees(Vec<String>),
    /// A variable of the module that the function declares, under the variable's name in the module.
    Variable(String),
}

/// The name in the module of a variable that a function declares in this line. It is not a legal PTX name, so it
/// cannot collide with one.
pub(super) fn name_within(function: &str, name: &str, line: u32) -> String {
    format!("{function}:{line}:{name}")
}

/// The sizes and alignments of a function's results and parameters.
#[derive(Debug, Clone, Default)]
pub(super) struct Signature {
    pub(super) returns: Vec<(usize, usize)>,
    pub(super) parameters: Vec<(usize, usize)>,
    /// The types of the parameters' elements.
    pub(super) types: Vec<Type>,
}

impl Signature {
    pub(super) fn of(returns: &[Declared], parameters: &[Declared]) -> Signature {
        let sizes = |all: &[Declared]| all.iter().map(|it| (it.size, it.align)).collect();
        let types = parameters.iter().map(|it| it.ty).collect();
        Signature { returns: sizes(returns), parameters: sizes(parameters), types }
    }

    /// The offsets of the results and of the parameters in the callee's frame, and the size of the frame so far.
    pub(super) fn layout(&self) -> (Vec<usize>, Vec<usize>, usize) {
        let mut end = 0usize;
        let mut lay = |all: &[(usize, usize)]| -> Vec<usize> {
            let places = all.iter().map(|(size, align)| {
                let at = end.next_multiple_of(*align);
                end = at + size;
                at
            });
            places.collect()
        };
        (lay(&self.returns), lay(&self.parameters), end)
    }
}

#[derive(Default)]
struct Scope {
    parent: usize,
    names: HashMap<String, Named>,
    /// `%r<9>`: the first register, and how many there are.
    ranges: HashMap<String, (Reg, u32)>,
}

/// An instruction with its operands.
pub(super) struct Statement<'a> {
    pub(super) guard: Option<(&'a str, bool)>,
    pub(super) opcode: &'a str,
    pub(super) operands: Vec<&'a [Token]>,
    pub(super) line: u32,
    pub(super) scope: usize,
}

/// A function's names and statements.
pub(super) struct Scopes<'a> {
    scopes: Vec<Scope>,
    pub(super) statements: Vec<Statement<'a>>,
    /// The size of the function's frame in local memory so far.
    pub(super) local: usize,
    function: &'a str,
}

/// The layout of a kernel's shared memory.
#[derive(Default)]
pub(super) struct SharedLayout {
    /// The size so far, in bytes.
    pub(super) size: usize,
}

impl SharedLayout {
    pub(super) fn add(&mut self, declared: &Declared) -> Named {
        if declared.size == 0 {
            return Named::Dynamic;
        }
        let at = self.size.next_multiple_of(declared.align);
        self.size = at.saturating_add(declared.size).min(1 << 40);
        Named::Shared(at as u64)
    }
}

impl<'a> Scopes<'a> {
    pub(super) fn new(function: &'a str) -> Scopes<'a> {
        Scopes { scopes: vec![Scope::default()], statements: Vec::new(), local: 0, function }
    }

    pub(super) fn name(&mut self, scope: usize, name: &str, what: Named) -> Result<(), Refusal> {
        match self.scopes[scope].names.insert(name.to_owned(), what) {
            None => Ok(()),
            Some(_) if name == "_" => Ok(()),
            Some(_) => Err(wrong(format!("{name} is declared twice"))),
        }
    }

    /// The meaning of a name in a scope.
    pub(super) fn find(&self, mut scope: usize, name: &str) -> Option<Named> {
        let numbered = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = &name[numbered.len()..];
        let number =
            if digits.len() > 1 && digits.starts_with('0') { None } else { digits.parse::<u32>().ok() };
        loop {
            let here = &self.scopes[scope];
            if let Some(found) = here.names.get(name) {
                return Some(found.clone());
            }
            if let Some((first, count)) = here.ranges.get(numbered) {
                if let Some(number) = number.filter(|number| number < count) {
                    return Some(Named::Register(Reg { at: first.at + number, ..*first }));
                }
            }
            if scope == 0 {
                return None;
            }
            scope = here.parent;
        }
    }

    /// Reads a function's declarations, labels and instructions.
    pub(super) fn read(
        &mut self,
        reader: &mut Reader<'a>,
        counts: &mut Counts,
        shared: &mut SharedLayout,
    ) -> Result<(), Refusal> {
        let mut scope = 0;
        while let Some(token) = reader.peek() {
            if reader.takes('{') {
                self.scopes.push(Scope { parent: scope, ..Scope::default() });
                scope = self.scopes.len() - 1;
                continue;
            }
            if reader.takes('}') {
                scope = self.scopes[scope].parent;
                continue;
            }
            if reader.takes(';') {
                continue;
            }
            let guard = if reader.takes('@') {
                let negated = reader.takes('!');
                Some((reader.word()?, negated))
            } else {
                None
            };
            let begin = |_| wrong(format!("an instruction cannot begin with `{token}`"));
            let word = reader.word().map_err(begin)?;
            match word {
                ".reg" => self.registers(scope, reader, counts)?,
                ".shared" => {
                    let found = declared(reader)?;
                    reader.expect(';')?;
                    self.name(scope, &found.name, shared.add(&found))?;
                }
                ".local" | ".param" => self.local(scope, reader)?,
                ".global" | ".const" => self.global(scope, reader)?,
                ".pragma" => drop(reader.until(';')?),
                ".loc" | ".file" => reader.pass_line(),
                ".section" => {
                    reader.word()?;
                    reader.expect('{')?;
                    reader.block()?;
                }
                label if reader.takes(':') => self.label(scope, label, reader)?,
                word if word.starts_with('.') => return Err(unknown(format!("the directive {word}"))),
                opcode => {
                    let line = reader.line();
                    let operands = reader.until(';')?;
                    syntax::check(operands)?;
                    self.statements.push(Statement { guard, opcode, operands: split(operands), line, scope });
                }
            }
        }
        Ok(())
    }

    fn label(&mut self, scope: usize, label: &str, reader: &mut Reader<'a>) -> Result<(), Refusal> {
        if reader.takes_word(".branchtargets") {
            let names = split(reader.until(';')?);
            let names = names.iter().filter_map(|name| name.first()?.word()).map(str::to_owned).collect();
            return self.name(scope, label, Named::Targets(names));
        }
        if reader.takes_word(".callprototype") {
            let returns = if reader.takes('(') { parameters(reader)? } else { Vec::new() };
            reader.word()?;
            let parameters = if reader.takes('(') { parameters(reader)? } else { Vec::new() };
            reader.until(';')?;
            return self.name(scope, label, Named::Prototype(Signature::of(&returns, &parameters)));
        }
        if reader.takes_word(".calltargets") {
            let names = split(reader.until(';')?);
            let names = names.iter().filter_map(|name| name.first()?.word()).map(str::to_owned).collect();
            return self.name(scope, label, Named::Callees(names));
        }
        self.name(scope, label, Named::Label(self.statements.len()))
    }

    /// Reads the declaration of a variable of the module.
    fn global(&mut self, scope: usize, reader: &mut Reader<'a>) -> Result<(), Refusal> {
        let line = reader.line();
        let found = declared(reader)?;
        reader.expect(';')?;
        let named = Named::Variable(name_within(self.function, &found.name, line));
        self.name(scope, &found.name, named)
    }

    /// Reads the declaration of variables in local memory. The parameters of calls are in local memory too.
    fn local(&mut self, scope: usize, reader: &mut Reader<'a>) -> Result<(), Refusal> {
        let found = declared(reader)?;
        reader.expect(';')?;
        let at = self.local.next_multiple_of(found.align);
        self.local = at.saturating_add(found.size).min(1 << 40);
        self.name(scope, &found.name, Named::Local(at as u64))
    }

    /// `.reg .b32 %r<11>;` or `.reg .pred p, q;`
    fn registers(
        &mut self,
        scope: usize,
        reader: &mut Reader<'a>,
        counts: &mut Counts,
    ) -> Result<(), Refusal> {
        let mut elements = 1;
        let ty = loop {
            match reader.word()? {
                ".v2" => elements = 2,
                ".v4" => elements = 4,
                name => {
                    break Type::named(name).ok_or_else(|| unknown(format!("registers of type {name}")))?;
                }
            }
        };
        loop {
            let name = reader.word()?;
            let count = if reader.takes('<') {
                let count =
                    u64::try_from(reader.int()?).map_err(|_| wrong("a negative number of registers"))?;
                reader.expect('>')?;
                Some(count)
            } else {
                None
            };
            if counts.all() + count.unwrap_or(1).saturating_mul(elements) > MOST_REGISTERS {
                return Err(unknown(format!("more than {MOST_REGISTERS} registers")));
            }
            let first = counts.add(ty.class(), (count.unwrap_or(1) * elements) as u32);
            let vector = |at: u32| {
                let element = |part| Reg { at: first.at + at * elements as u32 + part, ..first };
                Named::Vector((0..elements as u32).map(element).collect())
            };
            match count {
                Some(count) if elements > 1 => {
                    for at in 0..count as u32 {
                        self.name(scope, &format!("{name}{at}"), vector(at))?;
                    }
                }
                // With a digit at the end of the name, `a1<20>` and `a<120>` would declare the same names.
                Some(count) if name.ends_with(|c: char| c.is_ascii_digit()) => {
                    for at in 0..count as u32 {
                        let register = Reg { at: first.at + at, ..first };
                        self.name(scope, &format!("{name}{at}"), Named::Register(register))?;
                    }
                }
                Some(count) => {
                    self.scopes[scope].ranges.insert(name.to_owned(), (first, count as u32));
                }
                None if elements > 1 => self.name(scope, name, vector(0))?,
                None => self.name(scope, name, Named::Register(first))?,
            }
            if !reader.takes(',') {
                return reader.expect(';');
            }
        }
    }
}

/// Splits operands at the commas that are outside of brackets.
pub(super) fn split(tokens: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0i64;
    let parts = tokens.split(|token| {
        match token {
            Token::Sign('[' | '{' | '(') => depth += 1,
            Token::Sign(']' | '}' | ')') => depth -= 1,
            _ => {}
        }
        depth == 0 && token.is(',')
    });
    parts.filter(|part| !part.is_empty()).collect()
}
