//! Contraction: a product and the sum that uses it become one `fma`, where the text leaves their rounding open.
//!
//! `mul` and `add` without a rounding modifier may become one `fma`, which does not round the product. The rules here
//! are those of `ptxas` 12.9, which contracts within a basic block wherever the product is no longer needed
//! afterwards: all statements that use the product must be sums of the same type and the same `.ftz` in its block, and
//! the product must have no guard. If a sum adds two products, the one that nothing else uses is contracted, or else
//! the first. `div.full` and `div.approx` count as products with a reciprocal. In a text that is compiled for a
//! debugger nothing is contracted.

use super::super::run::Reg;
use super::super::scope::{Named, Scopes, Statement};
use super::super::tokens::Token;
use super::super::types::Type;
use super::blocks::Blocks;
use std::collections::HashMap;

/// The effect of contraction on a statement.
#[derive(Debug, Clone)]
pub(super) enum Contracted<'a> {
    /// A product that needs no instruction, because the sums that use it compute it.
    Nothing,
    Sum(Sum<'a>),
}

/// A sum that computes a product too.
#[derive(Debug, Clone)]
pub(super) struct Sum<'a> {
    /// Its opcode, with modifiers that no text can have: `-product` and `-addend` negate these, and `-quotient` says
    /// that the second factor is a divisor.
    pub(super) opcode: String,
    pub(super) operands: Vec<&'a [Token]>,
}

impl Sum<'_> {
    /// The statement that replaces the original one.
    pub(super) fn statement<'s>(&'s self, own: &Statement<'s>) -> Statement<'s> {
        let (guard, line, scope) = (own.guard, own.line, own.scope);
        Statement { guard, opcode: &self.opcode, operands: self.operands.clone(), line, scope }
    }
}

/// A product that can be contracted with the sums that use it.
struct Product<'a> {
    statement: usize,
    /// The beginning of the opcode of such a sum.
    opcode: &'static str,
    factors: [&'a [Token]; 2],
    uses: Vec<Use>,
}

/// A sum that uses a product, and which of its two operands the product is.
#[derive(Clone, Copy, PartialEq)]
struct Use {
    statement: usize,
    operand: usize,
}

/// The statements of a function that contraction changes.
pub(super) fn contracted<'a>(scopes: &Scopes<'a>) -> HashMap<usize, Contracted<'a>> {
    let statements = &scopes.statements;
    let may_contract = |of: fn(&str) -> bool| statements.iter().any(|it| of(it.opcode));
    if !may_contract(|it| factor_format(it).is_some()) || !may_contract(|it| sum_format(it).is_some()) {
        return HashMap::new();
    }
    let blocks = Blocks::new(scopes);
    let candidates = (0..statements.len()).filter_map(|at| product(scopes, &blocks, at));
    let mut products: Vec<Product<'a>> = candidates.collect();
    let mut chosen = chosen(&products);
    // If one of the sums that use a product takes another one, the product must be computed all the same: then none
    // takes it.
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
        result.insert(product.statement, Contracted::Nothing);
        result.insert(statement, Contracted::Sum(sum(&statements[statement], product, operand)));
    }
    result
}

/// For an opcode that is a product without a rounding modifier: its type, whether it has `.ftz`, and the beginning of
/// the opcode of a contracted sum.
fn factor_format(opcode: &str) -> Option<((Type, bool), &'static str)> {
    let (name, modifiers) = opcode.split_once('.')?;
    let opcode = match (name, modifiers.split('.').next()?) {
        ("mul", _) => "fma",
        ("div", "full") => "fma.-quotient.full",
        ("div", "approx") => "fma.-quotient",
        _ => return None,
    };
    Some((format(modifiers, &["full", "approx"])?, opcode))
}

fn sum_format(opcode: &str) -> Option<(Type, bool)> {
    let (name, modifiers) = opcode.split_once('.')?;
    if matches!(name, "add" | "sub") { format(modifiers, &["sat"]) } else { None }
}

/// The type of floats among the modifiers, and whether there is `.ftz`; `None` if a modifier is neither these nor one
/// of `others`.
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

/// The register that an operand consists of.
fn register(scopes: &Scopes<'_>, scope: usize, operand: &[Token]) -> Option<Reg> {
    match operand {
        [Token::Word(name)] => match scopes.find(scope, name) {
            Some(Named::Register(register)) => Some(register),
            _ => None,
        },
        _ => None,
    }
}

/// The product that a statement computes, if all statements that use it are sums with which it can be contracted.
fn product<'a>(scopes: &Scopes<'a>, blocks: &Blocks, at: usize) -> Option<Product<'a>> {
    let statement = &scopes.statements[at];
    let (format, opcode) = factor_format(statement.opcode)?;
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
    Some(Product { statement: at, opcode, factors: [a, b], uses })
}

/// For each sum, the number of the product that it takes, and which operand that is.
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
    let mut opcode = product.opcode.to_owned();
    let (name, modifiers) = statement.opcode.split_once('.').unwrap_or_default();
    opcode.push_str(if product.opcode == "fma" { ".rn." } else { "." });
    opcode.push_str(modifiers);
    if name == "sub" {
        opcode.push_str([".-addend", ".-product"][operand]);
    }
    let [a, b] = product.factors;
    Sum { opcode, operands: vec![statement.operands[0], a, b, statement.operands[2 - operand]] }
}
