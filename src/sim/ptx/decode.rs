//! Turns a kernel's text into code: declarations, labels, operands; [`instructions`](super::instructions) has the table
//! of opcodes.

use super::read::{Declared, Parameter, Reader, Variable};
use super::tokens::{Token, Written};
use super::values::{Binary, Compare, Round, Type, Unary};
use super::{Refusal, unknown, wrong};
use std::collections::HashMap;
use std::fmt;

/// The start of generic addresses of shared and local memory; no allocation is there.
pub(super) const SHARED_WINDOW: u64 = 0x0000_5A00_0000_0000;
pub(super) const LOCAL_WINDOW: u64 = 0x0000_5B00_0000_0000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Space {
    Param,
    Global,
    Shared,
    Local,
    Generic,
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Space::Param => "parameter",
            Space::Global => "global",
            Space::Shared => "shared",
            Space::Local => "local",
            Space::Generic => "generic",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    Laneid,
    Warpid,
    Clock,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Operand {
    None,
    Reg(u32),
    /// The negation of a predicate.
    Not(u32),
    Imm(u64),
    Special(Special),
    /// The address of a variable of the module.
    Variable(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Atomic {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Inc,
    Dec,
    Exch,
    Cas,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Op {
    Mov(Type),
    Binary(Binary, Type),
    Unary(Unary, Type),
    MulWide(Type),
    /// The low half, the high half or all of a product, plus a third operand.
    Mad(Binary, Type),
    MadWide(Type),
    Fma(Type),
    Setp {
        compare: Compare,
        unordered: bool,
        ty: Type,
        combine: Option<Binary>,
        second: u32,
    },
    Selp(Type),
    Cvt {
        to: Type,
        from: Type,
        round: Round,
    },
    Ld(Space, Type),
    St(Space, Type),
    Atom(Atomic, Space, Type),
    Bra(usize),
    Bar,
    Exit,
    Trap,
    Nothing,
}

/// The maximum number of registers of a kernel.
const MOST_REGISTERS: usize = 1 << 16;
/// The largest negative offset of an address.
const MOST_BACKWARDS: i64 = 1 << 31;
/// The maximum size of shared and of local memory, in bytes.
const MOST_SPACE: usize = 1 << 20;

/// Not a register: for a result that is discarded.
pub(super) const NOWHERE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
pub(super) struct Inst {
    /// Executes only if this predicate has this value.
    pub(super) guard: Option<(u32, bool)>,
    pub(super) op: Op,
    pub(super) to: u32,
    pub(super) from: [Operand; 4],
    /// The offset of an address operand.
    pub(super) offset: i64,
}

/// The code of a kernel.
#[derive(Debug, Clone)]
pub(in crate::sim) struct Body {
    pub(super) code: Vec<Inst>,
    /// The line and the opcode that each instruction was written with.
    pub(super) written: Vec<(u32, String)>,
    pub(super) registers: usize,
    /// Bytes of static shared memory; the dynamic part of a launch follows.
    pub(in crate::sim) shared: usize,
    pub(in crate::sim) local: usize,
}

pub(super) struct Names<'a> {
    registers: HashMap<String, u32>,
    pub(super) labels: HashMap<&'a str, usize>,
    /// Addresses in shared, local and parameter memory.
    offsets: HashMap<String, u64>,
    variables: &'a [Variable],
}

struct Statement<'a> {
    guard: Option<(&'a str, bool)>,
    opcode: &'a str,
    operands: Vec<&'a [Token]>,
    line: u32,
}

pub(super) fn decode<'a>(
    mut reader: Reader<'a>,
    parameters: &[Parameter],
    variables: &'a [Variable],
    headers: &[Declared],
) -> Result<Body, Refusal> {
    let mut names =
        Names { registers: HashMap::new(), labels: HashMap::new(), offsets: HashMap::new(), variables };
    for parameter in parameters {
        names.offsets.insert(parameter.name.clone(), parameter.offset as u64);
    }
    let (mut shared, mut local) = (0usize, 0usize);
    let mut dynamic = Vec::new();
    for declared in headers {
        lay_out(declared, &mut names, &mut shared, &mut dynamic);
    }
    let statements = statements(&mut reader, &mut names, &mut shared, &mut local, &mut dynamic);
    let statements = statements.map_err(|refusal| refusal.at(reader.line()))?;
    if shared > MOST_SPACE || local > MOST_SPACE {
        return Err(wrong(format!("{shared} bytes of shared memory, and {local} of local")));
    }
    let shared = shared.next_multiple_of(16);
    for name in dynamic {
        names.offsets.insert(name, shared as u64);
    }
    let mut code = Vec::with_capacity(statements.len() + 1);
    for statement in &statements {
        code.push(names.instruction(statement).map_err(|refusal| refusal.at(statement.line))?);
    }
    code.push(Inst { guard: None, op: Op::Exit, to: NOWHERE, from: [Operand::None; 4], offset: 0 });
    let mut written: Vec<_> = statements.iter().map(|it| (it.line, it.opcode.to_owned())).collect();
    written.push((reader.line(), "ret".to_owned()));
    Ok(Body { code, written, registers: names.registers.len(), shared, local })
}

/// Enters the declarations and the labels, and gives the instructions.
fn statements<'a>(
    reader: &mut Reader<'a>,
    names: &mut Names<'a>,
    shared: &mut usize,
    local: &mut usize,
    dynamic: &mut Vec<String>,
) -> Result<Vec<Statement<'a>>, Refusal> {
    let mut statements = Vec::new();
    while let Some(token) = reader.peek() {
        if reader.takes('{') || reader.takes('}') || reader.takes(';') {
            continue;
        }
        let guard = if reader.takes('@') {
            let negated = reader.takes('!');
            Some((reader.word()?, negated))
        } else {
            None
        };
        let word = reader.word().map_err(|_| wrong(format!("an instruction cannot begin with `{token}`")))?;
        match word {
            ".reg" => registers(reader, names)?,
            ".shared" => lay_out(&reader.declared()?, names, shared, dynamic),
            ".local" => lay_out(&reader.declared()?, names, local, dynamic),
            ".pragma" => drop(reader.until(';')?),
            label if reader.takes(':') => drop(names.labels.insert(label, statements.len())),
            opcode => {
                let line = reader.line();
                statements.push(Statement { guard, opcode, operands: split(reader.until(';')?), line });
            }
        }
    }
    Ok(statements)
}

/// Gives a variable its offset; one without a size comes after all others.
fn lay_out(declared: &Declared, names: &mut Names<'_>, end: &mut usize, dynamic: &mut Vec<String>) {
    if declared.size == 0 {
        return dynamic.push(declared.name.clone());
    }
    let at = end.next_multiple_of(declared.align);
    *end = at.saturating_add(declared.size).min(1 << 40);
    names.offsets.insert(declared.name.clone(), at as u64);
}

/// `.reg .b32 %r<11>;` or `.reg .pred p, q;`
fn registers(reader: &mut Reader<'_>, names: &mut Names<'_>) -> Result<(), Refusal> {
    let ty = reader.word()?;
    Type::named(ty).ok_or_else(|| unknown(format!("registers of type {ty}")))?;
    loop {
        let name = reader.word()?.to_owned();
        let mut add = |name: String| {
            let number = names.registers.len();
            if number >= MOST_REGISTERS {
                return Err(unknown(format!("more than {MOST_REGISTERS} registers")));
            }
            names.registers.entry(name).or_insert(number as u32);
            Ok(())
        };
        if reader.takes('<') {
            let count =
                usize::try_from(reader.int()?).map_err(|_| wrong("a negative number of registers"))?;
            for number in 0..count {
                add(format!("{name}{number}"))?;
            }
            reader.expect('>')?;
        } else {
            add(name)?;
        }
        if !reader.takes(',') {
            return reader.expect(';');
        }
    }
}

/// Splits the operands at commas outside of brackets.
fn split(tokens: &[Token]) -> Vec<&[Token]> {
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

impl Names<'_> {
    pub(super) fn register(&self, name: &str) -> Result<u32, Refusal> {
        if name == "_" {
            return Ok(NOWHERE);
        }
        self.source(name)
    }

    /// A register that is read, which [`NOWHERE`] cannot be.
    fn source(&self, name: &str) -> Result<u32, Refusal> {
        self.registers.get(name).copied().ok_or_else(|| wrong(format!("{name} is not a register")))
    }

    pub(super) fn operand(&self, tokens: &[Token], ty: Type) -> Result<Operand, Refusal> {
        Ok(match tokens {
            [Token::Int(value)] => Operand::Imm(number(*value, ty)),
            [Token::Sign('-'), Token::Int(value)] => Operand::Imm(number(value.wrapping_neg(), ty)),
            [Token::Single(bits)] if ty == Type::F64 => {
                Operand::Imm(f64::from(f32::from_bits(*bits)).to_bits())
            }
            [Token::Single(bits)] => Operand::Imm((*bits).into()),
            [Token::Double(bits)] if ty == Type::F32 => {
                Operand::Imm((f64::from_bits(*bits) as f32).to_bits().into())
            }
            [Token::Double(bits)] => Operand::Imm(*bits),
            [Token::Sign('!'), Token::Word(name)] => Operand::Not(self.source(name)?),
            [Token::Word(name)] => self.named(name)?,
            other => return Err(unknown(format!("the operand `{}`", Written(other)))),
        })
    }

    fn named(&self, name: &str) -> Result<Operand, Refusal> {
        if let Some(register) = self.registers.get(name) {
            return Ok(Operand::Reg(*register));
        }
        if let Some(offset) = self.offsets.get(name) {
            return Ok(Operand::Imm(*offset));
        }
        if let Some(at) = self.variables.iter().position(|variable| variable.name == name) {
            return Ok(Operand::Variable(at));
        }
        special(name).ok_or_else(|| wrong(format!("{name} is not declared")))
    }

    /// `[base]`, `[base+4]`, `[base+-4]`
    pub(super) fn address(&self, tokens: &[Token]) -> Result<(Operand, i64), Refusal> {
        let inner = match tokens {
            [Token::Sign('['), inner @ .., Token::Sign(']')] => inner,
            other => return Err(wrong(format!("an address is expected, but `{}` is found", Written(other)))),
        };
        let (base, offset) = match inner {
            [base] => (base, Some(0)),
            [base, Token::Sign('+'), Token::Int(offset)] => (base, Some(*offset)),
            // An offset after `-` must fit 32 bits, and one after `+` wraps, as observed on an H200.
            [base, Token::Sign('-'), Token::Int(offset)] => {
                (base, (0..=MOST_BACKWARDS).contains(offset).then(|| -offset))
            }
            [base, Token::Sign('+'), Token::Sign('-'), Token::Int(offset)] => {
                (base, Some(offset.wrapping_neg()))
            }
            _ => return Err(unknown(format!("the address `{}`", Written(tokens)))),
        };
        let offset = offset.ok_or_else(|| wrong("an offset of more than 32 bits"))?;
        Ok((self.operand(std::slice::from_ref(base), Type::U(8))?, offset))
    }

    fn instruction(&self, statement: &Statement<'_>) -> Result<Inst, Refusal> {
        let guard = match statement.guard {
            Some((name, negated)) => Some((self.source(name)?, negated)),
            None => None,
        };
        let mut inst = Inst { guard, op: Op::Nothing, to: NOWHERE, from: [Operand::None; 4], offset: 0 };
        let parts: Vec<&str> = statement.opcode.split('.').collect();
        let filled = self.fill(&mut inst, &parts, &statement.operands);
        filled.map_err(|refusal| refusal.within(statement.opcode))?;
        Ok(inst)
    }
}

fn number(value: i64, ty: Type) -> u64 {
    match ty {
        Type::F32 => (value as f32).to_bits().into(),
        Type::F64 => (value as f64).to_bits(),
        _ => value as u64,
    }
}

fn special(name: &str) -> Option<Operand> {
    let (base, axis) = name.strip_prefix('%')?.split_once('.').unwrap_or((&name[1..], "x"));
    let axis = match axis {
        "x" => 0,
        "y" => 1,
        "z" => 2,
        _ => return None,
    };
    Some(Operand::Special(match base {
        "tid" => Special::Tid(axis),
        "ntid" => Special::Ntid(axis),
        "ctaid" => Special::Ctaid(axis),
        "nctaid" => Special::Nctaid(axis),
        "laneid" => Special::Laneid,
        "warpid" => Special::Warpid,
        "clock" | "clock64" => Special::Clock,
        _ => return None,
    }))
}
