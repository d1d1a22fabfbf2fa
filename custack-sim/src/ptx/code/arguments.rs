//! Parameters that a function declares as registers, and arguments that are registers or constants. All arguments are
//! passed in local memory, so the caller stores these before the call, and the callee loads them at its beginning;
//! results go the other way.

use super::super::inst::{Attempt, Call, Inst, Kind};
use super::super::program::Function;
use super::super::run::Reg;
use super::super::scope::{Named, Scopes, Signature, split};
use super::super::tokens::{Token, Written};
use super::super::types::{Class, Type};
use super::super::{Refusal, unknown, wrong};
use super::lanes::uniform;
use super::memory;
use super::operands::Elements;
use super::{Builder, Names};

/// A register, the offset in the function's frame where its value is passed, and the size of the value.
type Kept = (Reg, usize, usize);

/// The maximum size of an argument that is not in the space `.param`, in bytes: that of a vector.
const MOST_BYTES: usize = 32;

impl Builder<'_> {
    /// Defines a function's parameters, and loads those that are registers.
    pub(super) fn parameters(&mut self, function: &Function, scopes: &mut Scopes<'_>) -> Result<(), Refusal> {
        let signature = Signature::of(&function.returns, &function.parameters);
        let (returns, parameters, end) = signature.layout();
        scopes.local = end;
        self.returns.clear();
        let all = function.returns.iter().zip(returns).map(|it| (it, true));
        for ((declared, at), is_return) in
            all.chain(function.parameters.iter().zip(parameters).map(|it| (it, false)))
        {
            if !declared.in_register {
                scopes.name(0, &declared.name, Named::Local(at as u64))?;
                continue;
            }
            let (ty, elements) = (declared.ty, declared.elements);
            if declared.size != ty.size() * elements {
                return Err(wrong(format!("{} is an array of registers", declared.name)));
            }
            if matches!(ty.class(), Class::Pred | Class::B16) {
                return Err(unknown(format!(
                    "the parameter {} in a register of fewer than 32 bits",
                    declared.name
                )));
            }
            let first = self.body.counts.add(ty.class(), elements as u32);
            let registers: Vec<Reg> =
                (0..elements as u32).map(|it| Reg { at: first.at + it, ..first }).collect();
            let kept =
                registers.iter().zip(0..).map(|(register, it)| (*register, at + it * ty.size(), ty.size()));
            let kept: Vec<Kept> = kept.collect();
            if is_return {
                self.returns.extend(kept);
            } else {
                for kind in self.loads(&kept) {
                    self.before(kind);
                }
            }
            let named = if elements > 1 { Named::Vector(registers) } else { Named::Register(first) };
            scopes.name(0, &declared.name, named)?;
        }
        Ok(())
    }

    /// Stores the registers in which a function returns its results.
    pub(super) fn store_returns(&mut self) {
        for (register, at, size) in self.returns.clone() {
            self.keep(register, at, size);
        }
    }

    fn loads(&mut self, kept: &[Kept]) -> Vec<Kind> {
        let mut loads = Vec::new();
        for (register, at, size) in kept {
            let base = self.in_frame(*at);
            loads.push(Kind::Memory(memory::load_local(base, *size, *register)));
        }
        loads
    }

    fn keep(&mut self, register: Reg, at: usize, size: usize) {
        let base = self.in_frame(at);
        self.before(Kind::Memory(memory::store_local(base, size, register)));
    }

    /// A register with the address of an offset in the function's frame.
    fn in_frame(&mut self, at: usize) -> Reg {
        let base = self.new_register(Class::B64);
        self.before(uniform(base, move |lanes| (lanes.frame + at) as u64));
        base
    }

    /// The offsets of a call's arguments in the caller's frame.
    pub(super) fn passed(
        &mut self,
        names: &Names<'_, '_>,
        operands: &[&[Token]],
        signature: &Signature,
        scratch: &mut usize,
    ) -> Result<Vec<u64>, Refusal> {
        let mut places = Vec::new();
        for ((tokens, (size, _)), ty) in operands.iter().zip(&signature.parameters).zip(&signature.types) {
            if let Some(at) = self.local_named(names, tokens) {
                places.push(at);
                continue;
            }
            let at = take(scratch);
            let vector = match self.elements(names, tokens)? {
                Elements::Registers(registers) => registers,
                Elements::Tokens(all) => {
                    let found = all.iter().map(|tokens| self.any_source(names, tokens, *ty));
                    found.collect::<Result<Vec<_>, _>>()?
                }
            };
            for (register, place) in self.spread(tokens, &vector, at, *size)? {
                self.keep(register, place, size / vector.len());
            }
            places.push(at as u64);
        }
        Ok(places)
    }

    /// The offsets of a call's results in the caller's frame, and the registers that are loaded from there.
    pub(super) fn returned(
        &mut self,
        names: &Names<'_, '_>,
        operands: &[&[Token]],
        signature: &Signature,
        scratch: &mut usize,
    ) -> Result<(Vec<u64>, Vec<Kept>), Refusal> {
        let (mut places, mut kept) = (Vec::new(), Vec::new());
        for (tokens, (size, _)) in operands.iter().zip(&signature.returns) {
            if let Some(at) = self.local_named(names, tokens) {
                places.push(at);
                continue;
            }
            let at = take(scratch);
            places.push(at as u64);
            if matches!(tokens, [Token::Word(name)] if name == "_") {
                if *size > MOST_BYTES {
                    return Err(unknown("a large result that is not used"));
                }
                continue;
            }
            let vector = match self.elements(names, tokens)? {
                Elements::Registers(registers) => registers,
                Elements::Tokens(all) => {
                    let found = all.iter().map(|tokens| self.any_to(names, tokens, Type::B(4)));
                    found.collect::<Result<Vec<_>, _>>()?
                }
            };
            let spread = self.spread(tokens, &vector, at, *size)?;
            kept.extend(spread.iter().map(|(register, place)| (*register, *place, size / vector.len())));
        }
        Ok((places, kept))
    }

    /// A call, and the loads of the registers for its results after it.
    pub(super) fn call_and_load(&mut self, call: Call, kept: &[Kept]) -> Kind {
        if kept.is_empty() {
            return Kind::Call(call);
        }
        let mut loads: Vec<Attempt> = Vec::new();
        for (register, at, size) in kept {
            let base = self.in_frame(*at);
            loads.push(memory::load_local(base, *size, *register));
        }
        self.body.code.push(Inst { guard: self.own_guard, kind: Kind::Call(call) });
        Kind::Memory(Box::new(move |lanes| loads.iter().try_for_each(|load| load(lanes))))
    }

    /// The register and the offset of each element of a value, whose elements together must have its size.
    fn spread(
        &self,
        tokens: &[Token],
        vector: &[Reg],
        at: usize,
        size: usize,
    ) -> Result<Vec<(Reg, usize)>, Refusal> {
        let bits: u32 = vector.iter().map(|register| register.class.bits()).sum();
        if vector.iter().any(|register| matches!(register.class, Class::Pred | Class::B16)) {
            return Err(unknown(format!(
                "`{}` as a parameter, which has fewer than 32 bits",
                Written(tokens)
            )));
        }
        let pieces = vector
            .iter()
            .all(|it| it.class != Class::Pred && it.class.bits() as usize * vector.len() == 8 * size);
        if size > MOST_BYTES || bits as usize != 8 * size || !pieces {
            return Err(wrong(format!("`{}` has {bits} bits, and {} are passed", Written(tokens), 8 * size)));
        }
        Ok(vector.iter().zip(0..).map(|(register, it)| (*register, at + it * size / vector.len())).collect())
    }

    fn local_named(&self, names: &Names<'_, '_>, tokens: &[Token]) -> Option<u64> {
        match tokens {
            [Token::Word(name)] => match names.find(name) {
                Some(Named::Local(at)) => Some(at),
                _ => None,
            },
            _ => None,
        }
    }
}

fn take(scratch: &mut usize) -> usize {
    let at = *scratch;
    *scratch += MOST_BYTES;
    at
}

/// The bytes of the frame that the calls of a function need for arguments that are not in the space `.param`.
pub(super) fn scratch(scopes: &Scopes<'_>) -> usize {
    let of = |statement: &super::Statement<'_>| {
        let is_local = |tokens: &&[Token]| match tokens {
            [Token::Word(name)] => matches!(scopes.find(statement.scope, name), Some(Named::Local(_))),
            _ => false,
        };
        let lists = statement.operands.iter().filter_map(|tokens| match tokens {
            [Token::Sign('('), inner @ .., Token::Sign(')')] => Some(split(inner)),
            _ => None,
        });
        lists.flatten().filter(|tokens| !is_local(tokens)).count()
    };
    let calls = scopes.statements.iter().filter(|it| it.opcode == "call" || it.opcode.starts_with("call."));
    MOST_BYTES * calls.map(of).max().unwrap_or(0)
}
