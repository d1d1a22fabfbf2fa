//! Joins products with the sums that they are for, where the text leaves their rounding open.
//!
//! `mul` and `add` without a rounding may become one `fma`, which does not round the product. NVIDIA's compiler takes each
//! such opportunity within a basic block if it makes the product needless, and so do these rules, which are those of
//! `ptxas` 12.9: all that use a product must be sums of its type and its `.ftz` in its block, and the product itself is
//! unconditional. Of two products that a sum adds, that becomes the sum's which nothing else uses, or else the first.
//! `div.full` and `div.approx` are products with a reciprocal. Compiled for a debugger, nothing is joined.

use super::super::run::Reg;
use super::super::scope::{Named, Scopes, Statement};
use super::super::tokens::Token;
use super::super::types::Type;
use super::blocks::Blocks;
use std::collections::HashMap;

/// What becomes of a statement.
#[derive(Debug, Clone)]
pub(super) enum Joined<'a> {
    /// It is a product that its sums compute.
    Nothing,
    Sum(Sum<'a>),
}

/// A sum with a product in it.
#[derive(Debug, Clone)]
pub(super) struct Sum<'a> {
    /// Its opcode, with modifiers that no text can have: `-product` and `-addend` negate, `-quotient`
    /// has a reciprocal as its factor.
    pub(super) opcode: String,
    pub(super) operands: Vec<&'a [Token]>,
}

impl Sum<'_> {
    /// The statement that it is instead of its own.
    pub(super) fn statement<'s>(&'s self, own: &Statement<'s>) -> Statement<'s> {
        let (guard, line, scope) = (own.guard, own.line, own.scope);
        Statement { guard, opcode: &self.opcode, operands: self.operands.clone(), line, scope }
    }
}

/// A product that may be joined.
struct Product<'a> {
    statement: usize,
    /// How the sum's opcode begins.
    begins: &'static str,
    factors: [&'a [Token]; 2],
    uses: Vec<Use>,
}

/// A sum that uses a product, and which of its two operands this is.
#[derive(Clone, Copy, PartialEq)]
struct Use {
    statement: usize,
    operand: usize,
}

/// Which statements of a function become what.
pub(super) fn joined<'a>(scopes: &Scopes<'a>) -> HashMap<usize, Joined<'a>> {
    let statements = &scopes.statements;
    let may_join = |of: fn(&str) -> bool| statements.iter().any(|it| of(it.opcode));
    if !may_join(|it| factor_format(it).is_some()) || !may_join(|it| sum_format(it).is_some()) {
        return HashMap::new();
    }
    let blocks = Blocks::new(scopes);
    let candidates = (0..statements.len()).filter_map(|at| product(scopes, &blocks, at));
    let mut products: Vec<Product<'a>> = candidates.collect();
    let mut chosen = chosen(&products);
    // A product that one of its sums does not take is computed for it, so no other takes it either.
    loop {
        let before = products.len();
        let mut at = 0..;
        let taken = |number: usize, product: &Product<'_>| {
            product.uses.iter().all(|it| chosen.get(&it.statement) == Some(&(number, it.operand)))
        };
        products.retain(|product| taken(at.next().unwrap_or_default(), product));
        if products.len() == before {
            break;
        }
        chosen = self::chosen(&products);
    }
    let mut result = HashMap::new();
    for (statement, (product, operand)) in chosen {
        let product = &products[product];
        result.insert(product.statement, Joined::Nothing);
        result.insert(statement, Joined::Sum(sum(&statements[statement], product, operand)));
    }
    result
}

/// The type of a product without a rounding, whether it flushes, and how the opcode of a sum with it begins.
fn factor_format(opcode: &str) -> Option<((Type, bool), &'static str)> {
    let (name, modifiers) = opcode.split_once('.')?;
    let begins = match (name, modifiers.split('.').next()?) {
        ("mul", _) => "fma",
        ("div", "full") => "fma.-quotient.full",
        ("div", "approx") => "fma.-quotient",
        _ => return None,
    };
    Some((format(modifiers, &["full", "approx"])?, begins))
}

fn sum_format(opcode: &str) -> Option<(Type, bool)> {
    let (name, modifiers) = opcode.split_once('.')?;
    if matches!(name, "add" | "sub") { format(modifiers, &["sat"]) } else { None }
}

/// The type of floats that the modifiers name, and whether there is `.ftz`, if all others are among these.
fn format(modifiers: &str, others: &[&str]) -> Option<(Type, bool)> {
    let (mut ty, mut ftz) = (None, false);
    for modifier in modifiers.split('.') {
        match (modifier, Type::named(modifier)) {
            ("ftz", _) => ftz = true,
            (_, Some(named)) if named.is_float() => ty = Some(named),
            _ if others.contains(&modifier) => {}
            _ => return None,
        }
    }
    Some((ty?, ftz))
}

/// The register that an operand is, and nothing else.
fn register(scopes: &Scopes<'_>, scope: usize, operand: &[Token]) -> Option<Reg> {
    match operand {
        [Token::Word(name)] => match scopes.find(scope, name) {
            Some(Named::Register(register)) => Some(register),
            _ => None,
        },
        _ => None,
    }
}

/// The product that a statement computes, if all that use it are sums which could have it.
fn product<'a>(scopes: &Scopes<'a>, blocks: &Blocks, at: usize) -> Option<Product<'a>> {
    let statement = &scopes.statements[at];
    let (format, begins) = factor_format(statement.opcode)?;
    let [to, a, b] = statement.operands[..] else { return None };
    if statement.guard.is_some() {
        return None;
    }
    let to = register(scopes, statement.scope, to)?;
    let uses = blocks.uses_in_block(at, to)?;
    let uses: Option<Vec<Use>> = uses
        .into_iter()
        .map(|user| {
            let sum = &scopes.statements[user];
            let [_, left, right] = sum.operands[..] else { return None };
            let is = |operand| register(scopes, sum.scope, operand) == Some(to);
            let same = |factor: &[Token]| {
                let register = register(scopes, statement.scope, factor);
                register == self::register(scopes, sum.scope, factor)
                    && register.is_none_or(|register| !blocks.is_written(register, at + 1..user))
            };
            let fits = sum_format(sum.opcode) == Some(format) && is(left) != is(right) && same(a) && same(b);
            fits.then_some(Use { statement: user, operand: usize::from(is(right)) })
        })
        .collect();
    let uses = uses.filter(|uses| !uses.is_empty())?;
    Some(Product { statement: at, begins, factors: [a, b], uses })
}

/// The product that each sum takes, by its number, and which operand it is.
fn chosen(products: &[Product<'_>]) -> HashMap<usize, (usize, usize)> {
    let mut chosen: HashMap<usize, (usize, usize)> = HashMap::new();
    let rank = |number: usize, operand| (products[number].uses.len() > 1, operand);
    for (number, product) in products.iter().enumerate() {
        for it in &product.uses {
            let best = chosen.entry(it.statement).or_insert((number, it.operand));
            if rank(number, it.operand) < rank(best.0, best.1) {
                *best = (number, it.operand);
            }
        }
    }
    chosen
}

fn sum<'a>(statement: &Statement<'a>, product: &Product<'a>, operand: usize) -> Sum<'a> {
    let mut opcode = product.begins.to_owned();
    let (name, modifiers) = statement.opcode.split_once('.').unwrap_or_default();
    opcode.push_str(if product.begins == "fma" { ".rn." } else { "." });
    opcode.push_str(modifiers);
    if name == "sub" {
        opcode.push_str([".-addend", ".-product"][operand]);
    }
    let [a, b] = product.factors;
    Sum { opcode, operands: vec![statement.operands[0], a, b, statement.operands[2 - operand]] }
}
