//! The operands of instructions. All of them become registers: constants and addresses are in registers that no
//! instruction sets, and what must be computed for an operand is computed by an instruction before.

use super::super::run::Reg;
use super::super::scope::Named;
use super::super::tokens::{Token, Written};
use super::super::types::{Class, Type};
use super::super::{Refusal, unknown, wrong};
use super::lanes::{lanes1, predicates, uniform};
use super::special::{Clock, Special};
use super::{Builder, Fixed, Names};

/// The greatest amount by which the offset of an address may be negative.
const MOST_BACKWARDS: i64 = 1 << 31;
/// The value of the constant `WARP_SZ`.
const WARP_SIZE: i64 = 32;

/// The operands of an instruction.
pub(super) type Operands<'o, 't> = &'o [&'t [Token]];

/// Refuses a number of operands other than `N`.
pub(super) fn exactly<'o, 't, const N: usize>(
    operands: Operands<'o, 't>,
) -> Result<[&'t [Token]; N], Refusal> {
    operands.try_into().map_err(|_| wrong(format!("it takes {N} operands, and has {}", operands.len())))
}

impl Builder<'_> {
    /// A register that an instruction reads as a value of this type.
    pub(super) fn source(
        &mut self,
        names: &Names<'_, '_>,
        tokens: &[Token],
        ty: Type,
    ) -> Result<Reg, Refusal> {
        let register = self.any_source(names, tokens, ty)?;
        if register.class == ty.class() {
            return Ok(register);
        }
        let (has, bits) = (register.class.bits(), ty.class().bits());
        Err(wrong(format!("`{}` has {has} bits, and {bits} are read", Written(tokens))))
    }

    /// The same, where the register may have any size.
    pub(super) fn any_source(
        &mut self,
        names: &Names<'_, '_>,
        tokens: &[Token],
        ty: Type,
    ) -> Result<Reg, Refusal> {
        let class = ty.class();
        Ok(match tokens {
            [Token::Int(value)] => self.bits(class, number(*value, ty)),
            [Token::Sign('-'), Token::Int(value)] => self.bits(class, number(value.wrapping_neg(), ty)),
            [Token::Single(bits)] if ty == Type::F64 => {
                self.bits(class, f64::from(f32::from_bits(*bits)).to_bits().into())
            }
            [Token::Single(bits)] => self.bits(class, (*bits).into()),
            [Token::Double(bits)] if ty == Type::F32 => {
                self.bits(class, (f64::from_bits(*bits) as f32).to_bits().into())
            }
            [Token::Double(bits)] => self.bits(class, (*bits).into()),
            [Token::Sign('!'), Token::Word(name)] => {
                let of = Reg { class: Class::Pred, at: names.predicate(name)? };
                let to = self.new_register(Class::Pred);
                self.before(predicates(to, [of, of], |a, _| !a));
                to
            }
            [Token::Word(name)] => self.named(names, name, class, 0)?,
            [Token::Word(name), Token::Sign('+'), Token::Int(offset)] if self.is_address(names, name) => {
                self.named(names, name, class, *offset)?
            }
            [Token::Word(name), Token::Sign('+'), Token::Int(more)] => {
                self.with_constant(names, name, *more, ty)?
            }
            [Token::Word(name), Token::Sign('+'), Token::Sign('-'), Token::Int(less)] => {
                self.with_constant(names, name, less.wrapping_neg(), ty)?
            }
            other => return Err(unknown(format!("the operand `{}`", Written(other)))),
        })
    }

    /// A register plus a constant, which an instruction before the present one computes.
    fn with_constant(
        &mut self,
        names: &Names<'_, '_>,
        name: &str,
        more: i64,
        ty: Type,
    ) -> Result<Reg, Refusal> {
        let register = match names.find(name) {
            Some(Named::Register(register)) if !ty.is_float() => register,
            _ => return Err(unknown(format!("the operand `{name}+{more}`"))),
        };
        let to = self.new_register(register.class);
        let kind = match register.class {
            Class::B32 => lanes1(to, register, move |a: u32| a.wrapping_add(more as u32)),
            Class::B64 => lanes1(to, register, move |a: u64| a.wrapping_add(more as u64)),
            _ => return Err(unknown(format!("the operand `{name}+{more}`"))),
        };
        self.before(kind);
        Ok(to)
    }

    fn is_address(&self, names: &Names<'_, '_>, name: &str) -> bool {
        match names.find(name) {
            Some(Named::Register(_) | Named::Vector(_)) => false,
            Some(_) => true,
            None => self.program.variables.at(name).is_some() || self.program.shared.at(name).is_some(),
        }
    }

    fn named(
        &mut self,
        names: &Names<'_, '_>,
        name: &str,
        class: Class,
        offset: i64,
    ) -> Result<Reg, Refusal> {
        let address_class = if class == Class::B32 { Class::B32 } else { Class::B64 };
        let of = match names.find(name) {
            Some(found) => Some(found),
            None => self.shared_named(name),
        };
        let at = |at: u64| u128::from(at.wrapping_add_signed(offset));
        Ok(match of {
            Some(Named::Register(register)) => register,
            Some(Named::Variable(name)) => return self.global(names, &name, address_class, offset),
            Some(Named::Parameter(offset)) => self.bits(address_class, at(offset)),
            Some(Named::Shared(offset)) => self.fixed(address_class, Fixed::Shared(at(offset) as u64)),
            Some(Named::Dynamic) if offset == 0 => {
                let register = self.new_register(address_class);
                self.dynamic.push(register);
                register
            }
            Some(Named::Local(offset)) => {
                let (to, at) = (self.new_register(address_class), at(offset) as u64);
                self.before(uniform(to, move |lanes| lanes.frame as u64 + at));
                to
            }
            Some(_) => return Err(wrong(format!("{name} is no value"))),
            None => return self.global(names, name, address_class, offset),
        })
    }

    /// The meaning of a name that the function does not declare.
    fn global(
        &mut self,
        names: &Names<'_, '_>,
        name: &str,
        class: Class,
        offset: i64,
    ) -> Result<Reg, Refusal> {
        if let Some(at) = self.program.variables.at(name) {
            return Ok(self.fixed(Class::B64, Fixed::Variable(at, offset)));
        }
        if let Some(number) = self.program.function(name) {
            return Ok(self.fixed(Class::B64, Fixed::Function(number as u64)));
        }
        if let Some(element) = element(names, name) {
            return element;
        }
        if let Some(special) = Special::named(name) {
            self.body.has_reserved |= matches!(special, Special::Reserved(_));
            self.body.has_workspace |= matches!(special, Special::Envreg(1 | 2));
            return Ok(self.fixed(special.class(), Fixed::Special(special)));
        }
        if let Some(clock) = Clock::named(name) {
            let to = self.new_register(clock.class());
            self.before(uniform(to, move |_| clock.now()));
            return Ok(to);
        }
        if name == "WARP_SZ" {
            return Ok(self.bits(class, WARP_SIZE as u128));
        }
        if name.starts_with('%') && !name.chars().any(|c| c.is_ascii_digit()) {
            return Err(unknown(format!("the register {name}")));
        }
        Err(wrong(format!("{name} is not declared")))
    }

    /// A variable in shared memory that is declared outside of functions.
    pub(super) fn shared_named(&mut self, name: &str) -> Option<Named> {
        if let Some(known) = self.shared_names.get(name) {
            return Some(known.clone());
        }
        let declared = self.program.shared.named(name)?;
        let named = self.shared.add(declared);
        self.shared_names.insert(name.to_owned(), named.clone());
        Some(named)
    }

    /// The register for a result of this type.
    pub(super) fn to(&mut self, names: &Names<'_, '_>, tokens: &[Token], ty: Type) -> Result<Reg, Refusal> {
        let register = self.any_to(names, tokens, ty)?;
        if register.class == ty.class() {
            return Ok(register);
        }
        let (has, bits) = (register.class.bits(), ty.class().bits());
        Err(wrong(format!("`{}` has {has} bits, and the result has {bits}", Written(tokens))))
    }

    /// The same, where the register may have any size.
    pub(super) fn any_to(
        &mut self,
        names: &Names<'_, '_>,
        tokens: &[Token],
        ty: Type,
    ) -> Result<Reg, Refusal> {
        match tokens {
            [Token::Word(name)] if name == "_" => Ok(self.new_register(ty.class())),
            [Token::Word(name)] => match names.find(name) {
                Some(Named::Register(register)) => Ok(register),
                _ => match name.rsplit_once('.').map(|(vector, _)| names.find(vector)) {
                    Some(Some(Named::Vector(_))) => self.global(names, name, ty.class(), 0),
                    _ => Err(wrong(format!("{name} is not a register"))),
                },
            },
            other => Err(unknown(format!("the result `{}`", Written(other)))),
        }
    }

    /// The elements of the operand of a vector instruction: `{a, b}`, a vector, or a single register.
    pub(super) fn elements<'t>(
        &mut self,
        names: &Names<'_, '_>,
        tokens: &'t [Token],
    ) -> Result<Elements<'t>, Refusal> {
        match tokens {
            [Token::Sign('{'), inner @ .., Token::Sign('}')] => {
                Ok(Elements::Tokens(super::super::scope::split(inner)))
            }
            [Token::Word(name)] => match names.find(name) {
                Some(Named::Vector(registers)) => Ok(Elements::Registers(registers)),
                _ => Ok(Elements::Tokens(vec![tokens])),
            },
            _ => Ok(Elements::Tokens(vec![tokens])),
        }
    }

    /// The base register and the offset of `[base]`, `[base+4]`, `[base+-4]`, `[base-4]`.
    pub(super) fn address(&mut self, names: &Names<'_, '_>, tokens: &[Token]) -> Result<(Reg, i64), Refusal> {
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
        let base = self.any_source(names, std::slice::from_ref(base), Type::U(8))?;
        match base.class {
            Class::B32 | Class::B64 => Ok((base, offset)),
            _ => Err(wrong(format!("`{}` is not an address", Written(tokens)))),
        }
    }

    /// A result and operands of one type.
    pub(super) fn alike<const N: usize>(
        &mut self,
        names: &Names<'_, '_>,
        operands: Operands<'_, '_>,
        ty: Type,
    ) -> Result<(Reg, [Reg; N]), Refusal> {
        self.typed(names, operands, ty, [ty; N])
    }

    /// A result and operands of these types.
    pub(super) fn typed<const N: usize>(
        &mut self,
        names: &Names<'_, '_>,
        operands: Operands<'_, '_>,
        ty: Type,
        types: [Type; N],
    ) -> Result<(Reg, [Reg; N]), Refusal> {
        let Some((first, rest)) = operands.split_first().filter(|(_, rest)| rest.len() == N) else {
            return Err(wrong(format!("it takes {} operands, and has {}", N + 1, operands.len())));
        };
        let to = self.to(names, first, ty)?;
        let mut from = [to; N];
        for ((register, tokens), ty) in from.iter_mut().zip(rest).zip(types) {
            *register = self.source(names, tokens, ty)?;
        }
        Ok((to, from))
    }
}

/// The elements of a vector operand.
pub(super) enum Elements<'t> {
    Tokens(Vec<&'t [Token]>),
    Registers(Vec<Reg>),
}

impl Elements<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Elements::Tokens(all) => all.len(),
            Elements::Registers(all) => all.len(),
        }
    }
}

fn number(value: i64, ty: Type) -> u128 {
    match ty {
        Type::F32 => (value as f32).to_bits().into(),
        Type::F64 => (value as f64).to_bits().into(),
        Type::S(16) | Type::B(16) => value as u64 as u128,
        _ => (value as u64).into(),
    }
}

/// The register of `vector.x`, if the function declares `vector`: it may have the same name as a special register.
fn element(names: &Names<'_, '_>, name: &str) -> Option<Result<Reg, Refusal>> {
    let (of, element) = name.rsplit_once('.')?;
    let vector = names.find(of)?;
    let at = ["x", "y", "z", "w", "r", "g", "b", "a"].iter().position(|it| *it == element);
    let register = match (vector, at) {
        (Named::Vector(registers), Some(at)) => registers.get(at % 4).copied(),
        _ => None,
    };
    Some(register.ok_or_else(|| wrong(format!("{of} has no element {element}"))))
}
