//! Comparisons of all types by all operators, into predicates and into numbers.

use super::super::form::List;
use super::super::operands::Kind;
use super::floats::{DOUBLE, Float, HALVES, SINGLE};
use super::integers::{INTS, Int};
use std::cmp::Ordering;

/// What is compared.
#[derive(Clone, Copy)]
enum Type {
    Int(Int),
    Float(Float),
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Type::Int(ty) => ty.name,
            Type::Float(ty) => ty.name,
        }
    }

    fn kind(self) -> Kind {
        match self {
            Type::Int(ty) => ty.kind(),
            Type::Float(ty) => ty.kind,
        }
    }

    fn is_pair(self) -> bool {
        matches!(self, Type::Float(ty) if ty.is_pair)
    }

    fn operators(self) -> &'static [&'static str] {
        const OF_FLOATS: [&str; 14] =
            ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"];
        match self {
            Type::Float(_) => &OF_FLOATS,
            Type::Int(ty) if ty.name.starts_with('b') => &OF_FLOATS[..2],
            Type::Int(ty) if ty.signed => &OF_FLOATS[..6],
            Type::Int(_) => &["eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"],
        }
    }

    /// Those that can flush subnormal operands.
    fn flushes(self) -> &'static [bool] {
        match self {
            Type::Float(ty) if !ty.is_bf16() && ty.kind != Kind::F64 => &[false, true],
            _ => &[false],
        }
    }

    /// Nothing where one is NaN.
    fn order(self, ftz: bool, [a, b]: [u64; 2]) -> Option<Ordering> {
        let ty = match self {
            Type::Int(ty) => return Some(ty.value(a).cmp(&ty.value(b))),
            Type::Float(ty) => ty.format,
        };
        let key = |bits: u64| {
            let bits = if ftz { ty.flush(bits) } else { bits };
            let magnitude = i128::from(bits & (ty.sign() - 1));
            if bits & ty.sign() != 0 { -magnitude } else { magnitude }
        };
        (!ty.is_nan(a) && !ty.is_nan(b)).then(|| key(a).cmp(&key(b)))
    }

    /// Whether it holds for the one, or for the lower one, and for the upper one.
    fn compared(self, operator: &str, ftz: bool, a: u64, b: u64) -> [bool; 2] {
        if self.is_pair() {
            return [0, 16]
                .map(|by| holds(operator, self.order(ftz, [a, b].map(|word| word >> by & 0xffff))));
        }
        [holds(operator, self.order(ftz, [a, b])); 2]
    }
}

fn holds(operator: &str, order: Option<Ordering>) -> bool {
    let Some(order) = order else {
        return matches!(operator, "equ" | "neu" | "ltu" | "leu" | "gtu" | "geu" | "nan");
    };
    match operator {
        "eq" | "equ" => order == Ordering::Equal,
        "ne" | "neu" => order != Ordering::Equal,
        "lt" | "ltu" | "lo" => order == Ordering::Less,
        "le" | "leu" | "ls" => order != Ordering::Greater,
        "gt" | "gtu" | "hi" => order == Ordering::Greater,
        "ge" | "geu" | "hs" => order != Ordering::Less,
        operator => operator == "num",
    }
}

/// What is done with the comparison and a predicate, which is complemented where the form says so.
const COMBINATIONS: [(&str, &str, [bool; 4]); 4] = [
    ("and", "", [false, false, false, true]),
    ("or", "!", [true, false, true, true]),
    ("xor", "", [false, true, true, false]),
    ("and", "!", [false, false, true, false]),
];

fn types() -> impl Iterator<Item = Type> {
    let bits = [("b16", 16), ("b32", 32), ("b64", 64)];
    let bits = bits.into_iter().map(|(name, bits)| Int { name, bits, signed: false });
    let floats = HALVES.into_iter().chain([SINGLE, DOUBLE]);
    bits.chain(INTS).map(Type::Int).chain(floats.map(Type::Float))
}

/// A comparison, as it is written behind `set.` and `setp.`.
fn written(operator: &str, combined: Option<&str>, ftz: bool) -> String {
    let combined = combined.map_or(String::new(), |name| format!(".{name}"));
    format!("{operator}{combined}{}", if ftz { ".ftz" } else { "" })
}

pub(super) fn predicates(list: &mut List) {
    for ty in types() {
        for operator in ty.operators() {
            for &ftz in ty.flushes() {
                predicate(list, ty, operator, ftz);
            }
        }
    }
}

/// The second predicate, which only one number of 16 bits does not have, is the second bit.
const TWO: &str = "selp.u32 %w0, 1, 0, %p0; selp.u32 %w1, 2, 0, %p1; or.b32 $d, %w0, %w1;";
const ONE: &str = "selp.u32 $d, 1, 0, %p0;";

fn predicate(list: &mut List, ty: Type, operator: &'static str, ftz: bool) {
    let has_second = !matches!(ty.kind(), Kind::F16 | Kind::Bf16);
    let (to, results) = if has_second { ("%p0|%p1", TWO) } else { ("%p0", ONE) };
    let name = format!("setp.{}.{}", written(operator, None, ftz), ty.name());
    let code = format!("{name} {to}, $a, $b; {results}");
    list.coded(&name, &[ty.kind(); 2], 4, code, move |of| {
        let [low, high] = ty.compared(operator, ftz, of[0], of[1]);
        let second = if ty.is_pair() { high } else { !low };
        u64::from(low) | u64::from(has_second && second) << 1
    });
    for (combined, not, table) in COMBINATIONS {
        let name = format!("setp.{}.{}", written(operator, Some(combined), ftz), ty.name());
        let code = format!("setp.ne.u32 %p2, $c, 0; {name} {to}, $a, $b, {not}%p2; {results}");
        let name = if not.is_empty() { name } else { format!("{name} of !c") };
        list.coded(name, &[ty.kind(), ty.kind(), Kind::Flag], 4, code, move |of| {
            let [low, high] = ty.compared(operator, ftz, of[0], of[1]);
            let second = if ty.is_pair() { high } else { !low };
            let with = |value: bool| u64::from(table[usize::from(value) * 2 + of[2] as usize]);
            with(low) | if has_second { with(second) << 1 } else { 0 }
        });
    }
}

/// The results that `set` has for a type of operands.
fn results(ty: Type) -> &'static [&'static str] {
    match ty {
        Type::Float(of) if of.is_pair && of.is_bf16() => &["bf16x2", "u32", "s32"],
        Type::Float(of) if of.is_pair => &["f16x2", "u32", "s32"],
        Type::Float(of) if of.is_bf16() => &["bf16", "u16", "s16", "u32", "s32"],
        Type::Float(of) if of.kind == Kind::F16 => &["f16", "u16", "s16", "u32", "s32"],
        _ => &["u32", "s32", "f32", "f16", "bf16"],
    }
}

pub(super) fn numbers(list: &mut List) {
    for ty in types() {
        for result in results(ty) {
            for operator in ty.operators() {
                for &ftz in if *result == "bf16" { &[false][..] } else { ty.flushes() } {
                    number(list, ty, result, operator, ftz);
                }
            }
        }
    }
}

fn number(list: &mut List, ty: Type, result: &'static str, operator: &'static str, ftz: bool) {
    let size = if matches!(result, "f16" | "bf16" | "u16" | "s16") { 2 } else { 4 };
    let value = move |[low, high]: [bool; 2]| {
        let (one, width) = match result {
            "f32" => (0x3f80_0000, 32),
            "f16" | "f16x2" => (0x3c00, 16),
            "bf16" | "bf16x2" => (0x3f80, 16),
            _ if ty.is_pair() || size == 2 => (0xffff, 16),
            _ => (0xffff_ffff, 32),
        };
        let high = high && ty.is_pair();
        if width == 32 {
            u64::from(low) * one
        } else {
            (u64::from(low) * one) | (u64::from(high) * one) << 16
        }
    };
    let name = format!("set.{}.{result}.{}", written(operator, None, ftz), ty.name());
    list.plain(name, &[ty.kind(); 2], size, move |of| value(ty.compared(operator, ftz, of[0], of[1])));
    // One combination for each form, so that all are tried with all results.
    let at = operator.bytes().map(usize::from).sum::<usize>() + result.len() + ty.name().len();
    let (combined, not, table) = COMBINATIONS[at % 4];
    let name = format!("set.{}.{result}.{}", written(operator, Some(combined), ftz), ty.name());
    let code = format!("setp.ne.u32 %p2, $c, 0; {name} $d, $a, $b, {not}%p2;");
    let name = if not.is_empty() { name } else { format!("{name} of !c") };
    list.coded(name, &[ty.kind(), ty.kind(), Kind::Flag], size, code, move |of| {
        let both = ty.compared(operator, ftz, of[0], of[1]);
        value(both.map(|value| table[usize::from(value) * 2 + of[2] as usize]))
    });
}
