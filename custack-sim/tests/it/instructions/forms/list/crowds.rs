//! Atomic operations of all threads of a block at one address. Their order is any, but each takes what another one left: what
//! they return, with what each left, is one way from the first value to the last.

use super::super::exact::{Mode, Number};
use super::super::form::{List, Truth};
use super::atomics::{float, new, operation};
use super::fold::Folding;
use super::places::{Opcode, size};
use std::collections::HashMap;

/// How many threads a block has.
const BLOCK: usize = 256;

/// What threads do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operands {
    /// Each something else.
    Different,
    /// All the same, so that what they return is the same in every order.
    Equal,
}

/// The value in memory before, and what a thread does it with: for floats whole numbers, whose sums are exact.
struct Crowd {
    operation: &'static str,
    ty: String,
    operands: Operands,
    is_global: bool,
}

const START: u64 = 5;
/// Up to where counters count.
const BOUND: u64 = 20;
/// The operand where all have the same.
const SAME: u64 = 7;

impl Crowd {
    /// A number as a value of the type.
    fn encoded(&self, number: u64) -> u64 {
        let (half, by) = match self.ty.strip_suffix("x2") {
            Some(half) => (half, 16),
            None => (&self.ty[..], 0),
        };
        let Some(format) = float(half) else { return number };
        let bits = format.round(Number::Finite(false, number.into(), 0), Mode::Nearest);
        if by > 0 { bits << by | bits } else { bits }
    }

    fn start(&self) -> u64 {
        self.encoded(START)
    }

    /// The operand of a thread. Those of integers are any number where they differ, and so few that some are equal for `cas`.
    fn operand(&self, given: u64) -> u64 {
        let bits = 8 * size(&self.ty);
        match (self.operation, self.operands) {
            ("inc" | "dec", _) => BOUND,
            (_, Operands::Equal) => self.encoded(SAME),
            ("cas", _) => START + given % 5,
            // Those of `bf16` stay exact, too.
            _ if self.ty.starts_with("bf16") => self.encoded(given & 1),
            _ if float(self.ty.trim_end_matches("x2")).is_some() => self.encoded(given & 3),
            _ => given & (u64::MAX >> (64 - bits)),
        }
    }

    /// What `cas` puts where the operand is.
    fn other(&self, given: u64) -> u64 {
        match self.operands {
            Operands::Equal => self.encoded(SAME),
            Operands::Different => START + given / 8 % 5,
        }
    }

    fn after(&self, old: u64, given: u64) -> u64 {
        let compared = match (self.operation, self.operands) {
            ("cas", Operands::Equal) => self.start(),
            _ => self.operand(given),
        };
        new(self.operation, &self.ty, old, compared, self.other(given), self.is_global)
    }

    /// Lines that leave the operand in register 1, and that of `cas` in register 2.
    fn lines(&self, register: &str) -> String {
        let bits = 8 * size(&self.ty);
        let narrow = |from: &str, to: &str| match bits {
            16 => format!("cvt.u16.u64 {to}, {from};"),
            32 => format!("cvt.u32.u64 {to}, {from};"),
            _ => format!("mov.b64 {to}, {from};"),
        };
        let constant = |value: u64, to: &str| format!("mov.b{bits} {to}, {value:#x};");
        let (one, two) = (format!("{register}1"), format!("{register}2"));
        match (self.operation, self.operands) {
            ("cas", Operands::Equal) => constant(self.start(), &one) + &constant(self.other(0), &two),
            ("inc" | "dec", _) | (_, Operands::Equal) => constant(self.operand(0), &one),
            ("cas", _) => format!(
                "rem.u64 %z, $a, 5; add.u64 %z, %z, {START}; {} shr.u64 %z, $a, 3; rem.u64 %z, %z, 5; add.u64 %z, %z, {START}; {}",
                narrow("%z", &one),
                narrow("%z", &two)
            ),
            _ if float(self.ty.trim_end_matches("x2")).is_some() => {
                let all: Vec<u64> = (0..4).map(|number| self.operand(number)).collect();
                let mut lines =
                    format!("cvt.u32.u64 %f4, $a; and.b32 %f4, %f4, 3; {}", constant(all[0], &one));
                for (number, value) in all.iter().enumerate().skip(1) {
                    lines += &format!(
                        "setp.eq.u32 %k, %f4, {number}; {} selp.b{bits} {one}, {two}, {one}, %k;",
                        constant(*value, &two)
                    );
                }
                lines
            }
            _ => narrow("$a", &one),
        }
    }

    /// Whether the last value is the same in every order.
    fn is_settled(&self) -> bool {
        self.operands == Operands::Equal || !["exch", "cas"].contains(&self.operation)
    }
}

/// What the threads return, and what they leave.
pub(super) fn of_a_block(list: &mut List, name: &str, opcode: &Opcode<'_>) {
    let (space, ty) = (opcode.space(), opcode.ty().to_owned());
    if name.contains("cache_hint") || size(&ty) > 8 {
        return;
    }
    let crowd = |operands| Crowd {
        operation: operation(opcode),
        ty: ty.clone(),
        operands,
        // Sums of these numbers are the same in either space.
        is_global: true,
    };
    let register = match size(&ty) {
        2 => "%g",
        4 => "%u",
        _ => "%e",
    };
    let (dot, bits, returns) = (space.dot(), 8 * size(&ty), opcode.has("atom"));
    let lines = |crowd: &Crowd, is_returned: bool| {
        let mut folding = Folding::new();
        space.group_address(&mut folding, BLOCK as u32);
        let start = crowd.start();
        folding.line(&format!(
            "mov.b{bits} {register}3, {start:#x}; bar.sync 0; st{dot}.b{bits} [%s], {register}3;"
        ));
        folding.line(&crowd.lines(register));
        let first = if returns { format!("{register}0, ") } else { String::new() };
        let second = if crowd.operation == "cas" { format!(", {register}2") } else { String::new() };
        folding.line(&format!("bar.sync 0; {name} {first}[%s], {register}1{second}; bar.sync 0;"));
        folding.line(&format!("ld{dot}.b{bits} {register}3, [%s];"));
        folding.add(&format!("{register}{}", if is_returned { 0 } else { 3 }), size(&ty));
        folding.end()
    };
    for operands in [Operands::Different, Operands::Equal] {
        let crowd = crowd(operands);
        let kind = if operands == Operands::Equal { "equal" } else { "different" };
        if crowd.is_settled() {
            let code = lines(&crowd, false);
            let crowd = self::crowd_of(&crowd);
            let truth = Truth::Groups(Box::new(move |of| {
                let last = of.iter().fold(crowd.start(), |old, given| crowd.after(old, *given));
                vec![last; of.len()]
            }));
            list.of_groups(BLOCK, &format!("{name} of {kind} operands of a block"), code, truth);
        }
        if returns {
            let code = lines(&crowd, true);
            let name = format!("{name} of {kind} operands of a block, returned");
            let truth = Truth::Together(Box::new(move |of, _, answers| {
                let steps: Vec<(u64, u64)> =
                    of.iter().zip(answers).map(|(given, old)| (*old, crowd.after(*old, *given))).collect();
                one_way(crowd.start(), &steps)
            }));
            list.of_groups(BLOCK, &name, code, truth);
        }
    }
}

fn crowd_of(crowd: &Crowd) -> Crowd {
    Crowd { ty: crowd.ty.clone(), ..*crowd }
}

/// Whether all these steps, each from one value to another, are one way from the start.
fn one_way(start: u64, steps: &[(u64, u64)]) -> Result<(), String> {
    let mut balance: HashMap<u64, i64> = HashMap::new();
    let mut next: HashMap<u64, Vec<u64>> = HashMap::new();
    for (from, to) in steps {
        *balance.entry(*from).or_default() += 1;
        *balance.entry(*to).or_default() -= 1;
        next.entry(*from).or_default().push(*to);
    }
    let odd: Vec<(u64, i64)> = balance.into_iter().filter(|it| it.1 != 0).collect();
    let is_way = match odd[..] {
        [] => true,
        [(a, 1), (_, -1)] | [(_, -1), (a, 1)] => a == start,
        _ => false,
    };
    // All steps are reached from the start.
    let (mut reached, mut found) = (vec![start], 0);
    while let Some(value) = reached.pop() {
        let all = next.remove(&value).unwrap_or_default();
        found += all.len();
        reached.extend(all);
    }
    if is_way && found == steps.len() {
        return Ok(());
    }
    Err(format!(
        "no order explains what is returned: {found} of {} are reached from {start}, {odd:x?}",
        steps.len()
    ))
}
