//! Comparisons.

use super::super::arith::compare::{Compare, compare};
use super::super::arith::float::Float;
use super::super::arith::half::{Bf16, F16, Short};
use super::super::inst::Kind;
use super::super::run::{Lane, Lanes, Reg, WARP, are_few, each, lanes_of, pack};
use super::super::tokens::Token;
use super::super::types::Type;
use super::super::{Refusal, unknown, wrong};
use super::opcode::Opcode;
use super::operands::Operands;
use super::{Builder, Names};
use std::array::from_fn;

const COMPARISONS: &[(&str, Compare)] = &[
    ("eq", Compare::Eq),
    ("ne", Compare::Ne),
    ("lt", Compare::Lt),
    ("le", Compare::Le),
    ("gt", Compare::Gt),
    ("ge", Compare::Ge),
    ("lo", Compare::Lt),
    ("ls", Compare::Le),
    ("hi", Compare::Gt),
    ("hs", Compare::Ge),
    ("equ", Compare::Equ),
    ("neu", Compare::Neu),
    ("ltu", Compare::Ltu),
    ("leu", Compare::Leu),
    ("gtu", Compare::Gtu),
    ("geu", Compare::Geu),
    ("num", Compare::Num),
    ("nan", Compare::Nan),
];

/// How the result of a comparison is combined with a predicate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Combine {
    And,
    Or,
    Xor,
}

const COMBINATIONS: &[(&str, Combine)] = &[("and", Combine::And), ("or", Combine::Or), ("xor", Combine::Xor)];

/// Compares in all lanes: the lower halves and, if a register holds two values, the upper halves.
type Compared = Box<dyn Fn(&Lanes<'_>) -> (u32, u32) + Send + Sync>;

fn comparison<T: Lane>(a: Reg, b: Reg, f: impl Fn(T, T) -> bool + Send + Sync + 'static) -> Compared {
    Box::new(move |lanes| {
        if are_few(lanes.mask) {
            let holds = |lane: &usize| f(lanes.one::<T>(a, *lane), lanes.one::<T>(b, *lane));
            return (lanes_of(lanes.mask).filter(holds).fold(0, |all, lane| all | 1 << lane), 0);
        }
        let (a, b) = (lanes.get::<T>(a), lanes.get::<T>(b));
        (pack(&each(|lane| f(a[lane], b[lane]))), 0)
    })
}

fn of_halves(a: Reg, b: Reg, f: impl Fn(u16, u16) -> bool + Send + Sync + 'static) -> Compared {
    Box::new(move |lanes| {
        let (a, b) = (lanes.get::<u32>(a), lanes.get::<u32>(b));
        let low = pack(&each(|lane| f(a[lane] as u16, b[lane] as u16)));
        (low, pack(&each(|lane| f((a[lane] >> 16) as u16, (b[lane] >> 16) as u16))))
    })
}

/// One of the usual comparisons. Each has a closure of its own, which becomes a vectorised loop.
fn ordered<T: Lane + PartialOrd>(how: Compare, a: Reg, b: Reg) -> Compared {
    match how {
        Compare::Eq => comparison(a, b, |a: T, b: T| a == b),
        Compare::Lt => comparison(a, b, |a: T, b: T| a < b),
        Compare::Le => comparison(a, b, |a: T, b: T| a <= b),
        Compare::Gt => comparison(a, b, |a: T, b: T| a > b),
        Compare::Ge => comparison(a, b, |a: T, b: T| a >= b),
        other => comparison(a, b, move |a: T, b: T| compare(other, a, b)),
    }
}

fn compared(how: Compare, ftz: bool, ty: Type, [a, b]: [Reg; 2]) -> Result<Compared, Refusal> {
    let flush = move |value: u16| if ftz { F16::flush(value) } else { value };
    let is_of_floats = matches!(
        how,
        Compare::Equ
            | Compare::Neu
            | Compare::Ltu
            | Compare::Leu
            | Compare::Gtu
            | Compare::Geu
            | Compare::Num
            | Compare::Nan
    );
    if is_of_floats && !ty.is_float() {
        return Err(unknown(format!("this comparison of type {ty}")));
    }
    Ok(match ty {
        Type::U(2) | Type::B(2) => ordered::<u16>(how, a, b),
        Type::S(2) => ordered::<i16>(how, a, b),
        Type::U(4) | Type::B(4) => ordered::<u32>(how, a, b),
        Type::S(4) => ordered::<i32>(how, a, b),
        Type::U(8) | Type::B(8) => ordered::<u64>(how, a, b),
        Type::S(8) => ordered::<i64>(how, a, b),
        Type::F32 if ftz => comparison(a, b, move |a: f32, b: f32| compare(how, a.flush(), b.flush())),
        Type::F32 => ordered::<f32>(how, a, b),
        Type::F64 => ordered::<f64>(how, a, b),
        Type::F16 => comparison(a, b, move |a, b| F16::compare(how, flush(a), flush(b))),
        Type::Bf16 => comparison(a, b, move |a, b| Bf16::compare(how, a, b)),
        Type::F16x2 => of_halves(a, b, move |a, b| F16::compare(how, flush(a), flush(b))),
        Type::Bf16x2 => of_halves(a, b, move |a, b| Bf16::compare(how, a, b)),
        other => return Err(unknown(format!("it of type {other}"))),
    })
}

/// The two results of `p|q`, of which the second may be missing.
pub(super) fn results(tokens: &[Token]) -> (&[Token], Option<&[Token]>) {
    match tokens.iter().position(|token| token.is('|')) {
        Some(at) => (&tokens[..at], Some(&tokens[at + 1..])),
        None => (tokens, None),
    }
}

impl Builder<'_> {
    pub(super) fn setp(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let how = op.one_of(COMPARISONS).ok_or_else(|| unknown("it without a comparison"))?;
        let combine = op.one_of(COMBINATIONS);
        let (ftz, ty) = (op.has("ftz"), op.ty()?);
        let [to, a, b, rest @ ..] = operands else { return Err(wrong("it takes three operands or four")) };
        let (to, second) = results(to);
        let to = self.to(names, to, Type::Pred)?;
        let second = second.map(|tokens| self.to(names, tokens, Type::Pred)).transpose()?;
        let from = [self.source(names, a, ty)?, self.source(names, b, ty)?];
        let compared = compared(how, ftz, ty, from)?;
        let with = match (combine, rest) {
            (None, []) => None,
            (Some(combine), [with]) => Some((combine, self.source(names, with, Type::Pred)?)),
            _ => return Err(wrong("a predicate goes with .and, .or and .xor")),
        };
        let is_of_halves = matches!(ty, Type::F16x2 | Type::Bf16x2);
        Ok(Kind::Lanes(Box::new(move |lanes: &mut Lanes<'_>| {
            let (low, high) = compared(lanes);
            let other = if is_of_halves { high } else { !low };
            let with = |value: u32| match with {
                None => value,
                Some((Combine::And, with)) => value & lanes.registers.predicate(with.at),
                Some((Combine::Or, with)) => value | lanes.registers.predicate(with.at),
                Some((Combine::Xor, with)) => value ^ lanes.registers.predicate(with.at),
            };
            let (low, other) = (with(low), with(other));
            lanes.registers.set_predicate(to.at, low, lanes.mask);
            if let Some(second) = second {
                lanes.registers.set_predicate(second.at, other, lanes.mask);
            }
        })))
    }

    /// A comparison with a number as its result: all ones, or 1.0, if it is true.
    pub(super) fn set(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let how = op.one_of(COMPARISONS).ok_or_else(|| unknown("it without a comparison"))?;
        let combine = op.one_of(COMBINATIONS);
        let ftz = op.has("ftz");
        let (d, ty) = (op.ty()?, op.ty()?);
        let [to, a, b, rest @ ..] = operands else { return Err(wrong("it takes three operands or four")) };
        let to = self.to(names, to, d)?;
        let from = [self.source(names, a, ty)?, self.source(names, b, ty)?];
        let compared = compared(how, ftz, ty, from)?;
        let with = match (combine, rest) {
            (None, []) => None,
            (Some(combine), [with]) => Some((combine, self.source(names, with, Type::Pred)?)),
            _ => return Err(wrong("a predicate goes with .and, .or and .xor")),
        };
        let is_of_halves = matches!(ty, Type::F16x2 | Type::Bf16x2);
        let (one, half): (u128, u128) = match d {
            Type::F32 => (f32::to_bits(1.0).into(), 0),
            Type::F64 => (f64::to_bits(1.0).into(), 0),
            Type::F16 => (0x3c00, 0),
            Type::Bf16 => (0x3f80, 0),
            Type::F16x2 => (0x3c00, 0x3c00 << 16),
            Type::Bf16x2 => (0x3f80, 0x3f80 << 16),
            _ if is_of_halves && d.size() == 4 => (0xffff, 0xffff_0000),
            _ => (u128::MAX, 0),
        };
        if is_of_halves && half == 0 {
            return Err(unknown(format!("a result of type {d} of two comparisons")));
        }
        Ok(Kind::Lanes(Box::new(move |lanes: &mut Lanes<'_>| {
            let (low, high) = compared(lanes);
            let with = |value: u32| match with {
                None => value,
                Some((Combine::And, with)) => value & lanes.registers.predicate(with.at),
                Some((Combine::Or, with)) => value | lanes.registers.predicate(with.at),
                Some((Combine::Xor, with)) => value ^ lanes.registers.predicate(with.at),
            };
            let (low, high) = (with(low), with(high));
            let values: [u128; WARP] = from_fn(|lane| {
                let set = |bits: u32, value: u128| if bits >> lane & 1 != 0 { value } else { 0 };
                set(low, one) | if is_of_halves { set(high, half) } else { 0 }
            });
            lanes.registers.set_bits(to, &values, lanes.mask);
        })))
    }

    /// The predicate that is the second result of an instruction, if the text asks for it.
    pub(super) fn second_predicate(
        &mut self,
        names: &Names<'_, '_>,
        tokens: Option<&[Token]>,
    ) -> Result<Option<Reg>, Refusal> {
        tokens.map(|tokens| self.to(names, tokens, Type::Pred)).transpose()
    }
}
