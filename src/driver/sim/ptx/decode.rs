//! The table of instructions: what each opcode is, and where its operands are.

use super::read::{Declared, Parameter, Reader, Variable};
use super::tokens::Token;
use super::values::{Binary, Compare, Round, Type, Unary};
use super::{Refusal, unknown, wrong};
use std::collections::HashMap;

/// Where generic addresses of shared and local memory begin; no allocation is there.
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
    /// A predicate, turned round.
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
    /// A product, its low or high half or all of it, and a sum.
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

/// No register: a result that is not wanted.
pub(super) const NOWHERE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
pub(super) struct Inst {
    /// Only if this predicate is, or is not.
    pub(super) guard: Option<(u32, bool)>,
    pub(super) op: Op,
    pub(super) to: u32,
    pub(super) from: [Operand; 4],
    /// Of an address.
    pub(super) offset: i64,
}

/// What a kernel does.
#[derive(Debug)]
pub(in crate::driver::sim) struct Body {
    pub(super) code: Vec<Inst>,
    pub(super) registers: usize,
    /// Bytes of static shared memory; what a launch adds begins behind it.
    pub(in crate::driver::sim) shared: usize,
    pub(in crate::driver::sim) local: usize,
}

struct Names<'a> {
    registers: HashMap<String, u32>,
    labels: HashMap<&'a str, usize>,
    /// Addresses in shared, local and parameter memory.
    places: HashMap<String, u64>,
    variables: &'a [Variable],
}

struct Statement<'a> {
    guard: Option<(&'a str, bool)>,
    opcode: &'a str,
    operands: Vec<&'a [Token]>,
}

pub(super) fn decode(
    body: &[Token],
    parameters: &[Parameter],
    variables: &[Variable],
    headers: &[Declared],
) -> Result<Body, Refusal> {
    let mut names =
        Names { registers: HashMap::new(), labels: HashMap::new(), places: HashMap::new(), variables };
    for parameter in parameters {
        names.places.insert(parameter.name.clone(), parameter.offset as u64);
    }
    let (mut shared, mut local) = (0usize, 0usize);
    let mut dynamic = Vec::new();
    for declared in headers {
        place(declared, &mut names, &mut shared, &mut dynamic);
    }
    let mut statements = Vec::new();
    let mut reader = Reader::new(body);
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
        let word = reader.word().map_err(|_| wrong(format!("{token:?} begins no instruction")))?;
        match word {
            ".reg" => registers(&mut reader, &mut names)?,
            ".shared" => place(&reader.declared()?, &mut names, &mut shared, &mut dynamic),
            ".local" => place(&reader.declared()?, &mut names, &mut local, &mut dynamic),
            ".pragma" => drop(reader.until(';')?),
            label if reader.takes(':') => drop(names.labels.insert(label, statements.len())),
            opcode => statements.push(Statement { guard, opcode, operands: split(reader.until(';')?) }),
        }
    }
    let shared = shared.next_multiple_of(16);
    for name in dynamic {
        names.places.insert(name, shared as u64);
    }
    let mut code = Vec::with_capacity(statements.len() + 1);
    for statement in &statements {
        code.push(names.instruction(statement)?);
    }
    code.push(Inst { guard: None, op: Op::Exit, to: NOWHERE, from: [Operand::None; 4], offset: 0 });
    Ok(Body { code, registers: names.registers.len(), shared, local })
}

/// Gives a variable its place; one without a size has it behind all others.
fn place(declared: &Declared, names: &mut Names<'_>, end: &mut usize, dynamic: &mut Vec<String>) {
    if declared.size == 0 {
        return dynamic.push(declared.name.clone());
    }
    let at = end.next_multiple_of(declared.align);
    *end = at + declared.size;
    names.places.insert(declared.name.clone(), at as u64);
}

/// `.reg .b32 %r<11>;` or `.reg .pred p, q;`
fn registers(reader: &mut Reader<'_>, names: &mut Names<'_>) -> Result<(), Refusal> {
    let ty = reader.word()?;
    Type::named(ty).ok_or_else(|| unknown(format!("registers of type {ty}")))?;
    loop {
        let name = reader.word()?.to_owned();
        let mut add = |name: String| {
            let number = names.registers.len() as u32;
            names.registers.entry(name).or_insert(number);
        };
        if reader.takes('<') {
            for number in 0..reader.int()? {
                add(format!("{name}{number}"));
            }
            reader.expect('>')?;
        } else {
            add(name);
        }
        if !reader.takes(',') {
            return reader.expect(';');
        }
    }
}

/// The operands, cut at the commas that are not within brackets.
fn split(tokens: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0;
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
    fn register(&self, name: &str) -> Result<u32, Refusal> {
        if name == "_" {
            return Ok(NOWHERE);
        }
        self.registers.get(name).copied().ok_or_else(|| wrong(format!("{name} is no register")))
    }

    fn operand(&self, tokens: &[Token], ty: Type) -> Result<Operand, Refusal> {
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
            [Token::Sign('!'), Token::Word(name)] => Operand::Not(self.register(name)?),
            [Token::Word(name)] => self.named(name)?,
            other => return Err(unknown(format!("the operand {other:?}"))),
        })
    }

    fn named(&self, name: &str) -> Result<Operand, Refusal> {
        if let Some(register) = self.registers.get(name) {
            return Ok(Operand::Reg(*register));
        }
        if let Some(place) = self.places.get(name) {
            return Ok(Operand::Imm(*place));
        }
        if let Some(at) = self.variables.iter().position(|variable| variable.name == name) {
            return Ok(Operand::Variable(at));
        }
        special(name).ok_or_else(|| wrong(format!("{name} is not declared")))
    }

    /// `[base]`, `[base+4]`, `[base+-4]`
    fn address(&self, tokens: &[Token]) -> Result<(Operand, i64), Refusal> {
        let inner = match tokens {
            [Token::Sign('['), inner @ .., Token::Sign(']')] => inner,
            other => return Err(wrong(format!("an address is expected, and {other:?} is there"))),
        };
        Ok(match inner {
            [base] => (self.operand(&[base.clone()], Type::U(8))?, 0),
            [base, Token::Sign('+'), Token::Int(offset)] => {
                (self.operand(&[base.clone()], Type::U(8))?, *offset)
            }
            [base, Token::Sign('-'), Token::Int(offset)]
            | [base, Token::Sign('+'), Token::Sign('-'), Token::Int(offset)] => {
                (self.operand(&[base.clone()], Type::U(8))?, -*offset)
            }
            other => return Err(unknown(format!("the address {other:?}"))),
        })
    }

    fn instruction(&self, statement: &Statement<'_>) -> Result<Inst, Refusal> {
        let guard = match statement.guard {
            Some((name, negated)) => Some((self.register(name)?, negated)),
            None => None,
        };
        let mut inst = Inst { guard, op: Op::Nothing, to: NOWHERE, from: [Operand::None; 4], offset: 0 };
        let parts: Vec<&str> = statement.opcode.split('.').collect();
        self.fill(&mut inst, &parts, &statement.operands).map_err(|refusal| Refusal {
            why: format!("{}: {}", statement.opcode, refusal.why),
            ..refusal
        })?;
        Ok(inst)
    }

    /// Result and operands of an instruction that has them plainly.
    fn plain(&self, inst: &mut Inst, operands: &[&[Token]], types: &[Type]) -> Result<(), Refusal> {
        if operands.len() != types.len() + 1 {
            return Err(wrong(format!("{} operands, and not {}", types.len() + 1, operands.len())));
        }
        let to = operands[0].first().and_then(Token::word).filter(|_| operands[0].len() == 1);
        inst.to = self.register(to.ok_or_else(|| unknown("a result in several registers"))?)?;
        for (at, ty) in types.iter().enumerate() {
            inst.from[at] = self.operand(operands[at + 1], *ty)?;
        }
        Ok(())
    }

    fn fill(&self, inst: &mut Inst, parts: &[&str], operands: &[&[Token]]) -> Result<(), Refusal> {
        let has = |part: &str| parts.contains(&part);
        let ty = parts.iter().rev().find_map(|part| Type::named(part));
        let typed = || ty.ok_or_else(|| unknown("an instruction without a type that is known"));
        if parts[0] != "cvt" && ["rz", "rm", "rp", "sat", "v2", "v4", "cc"].iter().any(|part| has(part)) {
            return Err(unknown("this form of it"));
        }
        let binary = |op: Binary, ty: Type| (Op::Binary(op, ty), [ty, ty]);
        let simple = match parts[0] {
            "add" => Some(Binary::Add),
            "sub" => Some(Binary::Sub),
            "mul" if has("hi") => Some(Binary::MulHigh),
            "mul" if !has("wide") => Some(Binary::Mul),
            "div" => Some(Binary::Div),
            "rem" => Some(Binary::Rem),
            "min" => Some(Binary::Min),
            "max" => Some(Binary::Max),
            "and" => Some(Binary::And),
            "or" => Some(Binary::Or),
            "xor" => Some(Binary::Xor),
            _ => None,
        };
        if let Some(simple) = simple {
            let (op, types) = binary(simple, typed()?);
            inst.op = op;
            return self.plain(inst, operands, &types);
        }
        let single = match parts[0] {
            "neg" => Some(Unary::Neg),
            "abs" => Some(Unary::Abs),
            "not" => Some(Unary::Not),
            "popc" => Some(Unary::Popc),
            "clz" => Some(Unary::Clz),
            "brev" => Some(Unary::Brev),
            "sqrt" => Some(Unary::Sqrt),
            "rsqrt" => Some(Unary::Rsqrt),
            "rcp" => Some(Unary::Rcp),
            "sin" => Some(Unary::Sin),
            "cos" => Some(Unary::Cos),
            "ex2" => Some(Unary::Ex2),
            "lg2" => Some(Unary::Lg2),
            _ => None,
        };
        if let Some(single) = single {
            inst.op = Op::Unary(single, typed()?);
            return self.plain(inst, operands, &[typed()?]);
        }
        match parts[0] {
            "shl" | "shr" => {
                let op = if parts[0] == "shl" { Binary::Shl } else { Binary::Shr };
                inst.op = Op::Binary(op, typed()?);
                self.plain(inst, operands, &[typed()?, Type::U(4)])
            }
            "mov" => {
                inst.op = Op::Mov(typed()?);
                self.plain(inst, operands, &[typed()?])
            }
            "mul" => {
                inst.op = Op::MulWide(typed()?);
                self.plain(inst, operands, &[typed()?; 2])
            }
            "mad" | "fma" => {
                let ty = typed()?;
                inst.op = match ty {
                    _ if ty.is_float() => Op::Fma(ty),
                    _ if has("wide") => Op::MadWide(ty),
                    _ => Op::Mad(if has("hi") { Binary::MulHigh } else { Binary::Mul }, ty),
                };
                let sum = if has("wide") { ty.wide() } else { ty };
                self.plain(inst, operands, &[ty, ty, sum])
            }
            "setp" => self.setp(inst, parts, operands, typed()?),
            "selp" => {
                inst.op = Op::Selp(typed()?);
                self.plain(inst, operands, &[typed()?, typed()?, Type::Pred])
            }
            "cvt" => self.cvt(inst, parts, operands),
            "cvta" => {
                let window = if has("shared") {
                    SHARED_WINDOW
                } else if has("local") {
                    LOCAL_WINDOW
                } else {
                    0
                };
                let op = if has("to") { Binary::Sub } else { Binary::Add };
                inst.op = Op::Binary(op, Type::U(8));
                self.plain(inst, operands, &[Type::U(8)])?;
                inst.from[1] = Operand::Imm(window);
                Ok(())
            }
            "ld" | "ldu" | "st" => self.load_or_store(inst, parts, operands, typed()?),
            "atom" | "red" => self.atomic(inst, parts, operands, typed()?),
            "bra" => {
                let label = operands.first().and_then(|operand| operand.first()).and_then(Token::word);
                let label = label.ok_or_else(|| wrong("a label is missing"))?;
                let target = self.labels.get(label);
                inst.op = Op::Bra(*target.ok_or_else(|| wrong(format!("the label {label} is nowhere")))?);
                Ok(())
            }
            "bar" | "barrier" if has("sync") && !has("warp") && operands.len() == 1 => {
                if *operands[0] != [Token::Int(0)] {
                    return Err(unknown("a barrier other than 0"));
                }
                inst.op = Op::Bar;
                Ok(())
            }
            "ret" | "exit" => {
                inst.op = Op::Exit;
                Ok(())
            }
            "trap" => {
                inst.op = Op::Trap;
                Ok(())
            }
            "membar" | "fence" | "bar" if !has("sync") || has("warp") => {
                if has("red") || has("arrive") {
                    return Err(unknown("this form of it"));
                }
                Ok(())
            }
            _ => Err(unknown("the simulated driver does not know this instruction")),
        }
    }

    fn setp(&self, inst: &mut Inst, parts: &[&str], operands: &[&[Token]], ty: Type) -> Result<(), Refusal> {
        let name = parts[1];
        let unordered = name.len() == 3 && name.ends_with('u');
        let compare = match name.trim_end_matches('u') {
            "eq" => Compare::Eq,
            "ne" => Compare::Ne,
            "lt" | "lo" => Compare::Lt,
            "le" | "ls" => Compare::Le,
            "gt" | "hi" => Compare::Gt,
            "ge" | "hs" => Compare::Ge,
            _ => return Err(unknown(format!("the comparison {name}"))),
        };
        let combine = match parts[2] {
            "and" => Some(Binary::And),
            "or" => Some(Binary::Or),
            "xor" => Some(Binary::Xor),
            _ => None,
        };
        let first = operands.first().copied().unwrap_or_default();
        let second = match first {
            [_, Token::Sign('|'), Token::Word(second)] => self.register(second)?,
            _ => NOWHERE,
        };
        // A `ne` that is true of what is not a number is `neu`; integers have no such thing.
        inst.op = Op::Setp { compare, unordered, ty, combine, second };
        let mut plain: Vec<&[Token]> = operands.to_vec();
        plain[0] = &first[..first.len().min(1)];
        let types = [ty, ty, Type::Pred];
        self.plain(inst, &plain, &types[..if combine.is_some() { 3 } else { 2 }])
    }

    fn cvt(&self, inst: &mut Inst, parts: &[&str], operands: &[&[Token]]) -> Result<(), Refusal> {
        let types: Vec<Type> = parts.iter().filter_map(|part| Type::named(part)).collect();
        let [to, from] = types[..] else { return Err(unknown("a conversion of other types")) };
        if parts.contains(&"sat") || ["rz", "rm", "rp"].iter().any(|part| parts.contains(part)) {
            return Err(unknown("this way of rounding"));
        }
        let mut round = if from.is_float() && !to.is_float() { Round::ZeroInt } else { Round::Nearest };
        for part in parts {
            round = match *part {
                "rni" => Round::NearestInt,
                "rzi" => Round::ZeroInt,
                "rmi" => Round::DownInt,
                "rpi" => Round::UpInt,
                _ => round,
            };
        }
        inst.op = Op::Cvt { to, from, round };
        self.plain(inst, operands, &[from])
    }

    fn load_or_store(
        &self,
        inst: &mut Inst,
        parts: &[&str],
        operands: &[&[Token]],
        ty: Type,
    ) -> Result<(), Refusal> {
        let [first, second] = operands else { return Err(wrong("two operands")) };
        let space = space(parts);
        let is_store = parts[0] == "st";
        let (place, value) = if is_store { (first, second) } else { (second, first) };
        let (base, offset) = self.address(place)?;
        inst.offset = offset;
        inst.from[0] = base;
        if is_store {
            inst.op = Op::St(space, ty);
            inst.from[1] = self.operand(value, ty)?;
            return Ok(());
        }
        inst.op = Op::Ld(space, ty);
        let name = value.first().and_then(Token::word).filter(|_| value.len() == 1);
        inst.to = self.register(name.ok_or_else(|| unknown("a load into several registers"))?)?;
        Ok(())
    }

    fn atomic(
        &self,
        inst: &mut Inst,
        parts: &[&str],
        operands: &[&[Token]],
        ty: Type,
    ) -> Result<(), Refusal> {
        let found = parts.iter().find_map(|part| {
            Some(match *part {
                "add" => Atomic::Add,
                "min" => Atomic::Min,
                "max" => Atomic::Max,
                "and" => Atomic::And,
                "or" => Atomic::Or,
                "xor" => Atomic::Xor,
                "inc" => Atomic::Inc,
                "dec" => Atomic::Dec,
                "exch" => Atomic::Exch,
                "cas" => Atomic::Cas,
                _ => return None,
            })
        });
        inst.op = Op::Atom(found.ok_or_else(|| unknown("this atomic operation"))?, space(parts), ty);
        let mut rest = operands;
        if parts[0] == "atom" {
            let name = operands.first().and_then(|operand| operand.first()).and_then(Token::word);
            inst.to = self.register(name.ok_or_else(|| wrong("a result is missing"))?)?;
            rest = &operands[1..];
        }
        let Some((place, values)) = rest.split_first() else { return Err(wrong("an address is missing")) };
        (inst.from[0], inst.offset) = self.address(place)?;
        for (at, value) in values.iter().take(2).enumerate() {
            inst.from[at + 1] = self.operand(value, ty)?;
        }
        Ok(())
    }
}

fn number(value: i64, ty: Type) -> u64 {
    match ty {
        Type::F32 => (value as f32).to_bits().into(),
        Type::F64 => (value as f64).to_bits(),
        _ => value as u64,
    }
}

fn space(parts: &[&str]) -> Space {
    let spaces = [
        ("param", Space::Param),
        ("global", Space::Global),
        ("const", Space::Global),
        ("shared", Space::Shared),
        ("local", Space::Local),
    ];
    let found =
        spaces.iter().find(|(name, _)| parts.iter().any(|part| part.split("::").next() == Some(name)));
    found.map_or(Space::Generic, |(_, space)| *space)
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
