//! The table of instructions: the operation of each opcode, and its operands.

use super::decode::{Atomic, Inst, LOCAL_WINDOW, NOWHERE, Names, Op, Operand, SHARED_WINDOW, Space};
use super::tokens::Token;
use super::values::{Binary, Compare, Round, Type, Unary};
use super::{Refusal, unknown, wrong};

impl Names<'_> {
    /// Sets the result and the operands of an instruction that has only these.
    fn plain(&self, inst: &mut Inst, operands: &[&[Token]], types: &[Type]) -> Result<(), Refusal> {
        if operands.len() != types.len() + 1 {
            return Err(wrong(format!("it takes {} operands, and has {}", types.len() + 1, operands.len())));
        }
        let to = operands[0].first().and_then(Token::word).filter(|_| operands[0].len() == 1);
        inst.to = self.register(to.ok_or_else(|| unknown("a result in several registers"))?)?;
        for (at, ty) in types.iter().enumerate() {
            inst.from[at] = self.operand(operands[at + 1], *ty)?;
        }
        Ok(())
    }

    pub(super) fn fill(&self, inst: &mut Inst, parts: &[&str], operands: &[&[Token]]) -> Result<(), Refusal> {
        let has = |part: &str| parts.contains(&part);
        let ty = parts.iter().rev().find_map(|part| Type::named(part));
        let typed = || ty.ok_or_else(|| unknown("an instruction of this type"));
        if has("wide") && ty.is_some_and(|ty| ty.is_float() || ty.size() > 4) {
            return Err(unknown("a product wider than 64 bits"));
        }
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
                inst.op = Op::Bra(*target.ok_or_else(|| wrong(format!("the label {label} is not defined")))?);
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
            _ => Err(unknown("this instruction")),
        }
    }

    fn setp(&self, inst: &mut Inst, parts: &[&str], operands: &[&[Token]], ty: Type) -> Result<(), Refusal> {
        let name = parts.get(1).copied().unwrap_or_default();
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
        let combine = match parts.get(2).copied().unwrap_or_default() {
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
        // For floats, a `ne` that is true for NaN is `neu`; integers have no such distinction.
        inst.op = Op::Setp { compare, unordered, ty, combine, second };
        let mut plain: Vec<&[Token]> = operands.to_vec();
        if let Some(result) = plain.first_mut() {
            *result = &first[..first.len().min(1)];
        }
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
        let [first, second] = operands else { return Err(wrong("it takes two operands")) };
        let space = space(parts);
        let is_store = parts[0] == "st";
        let (address, value) = if is_store { (first, second) } else { (second, first) };
        let (base, offset) = self.address(address)?;
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
        let Some((address, values)) = rest.split_first() else { return Err(wrong("an address is missing")) };
        (inst.from[0], inst.offset) = self.address(address)?;
        for (at, value) in values.iter().take(2).enumerate() {
            inst.from[at + 1] = self.operand(value, ty)?;
        }
        Ok(())
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
