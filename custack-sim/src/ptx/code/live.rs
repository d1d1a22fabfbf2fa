//! Liveness: the number of registers of a function that are in use at the same time.

use super::super::program::Program;
use super::super::reader::Reader;
use super::super::run::{Counts, Reg};
use super::super::scope::{Named, Scopes, SharedLayout};
use super::super::types::Class;
use super::blocks::{Blocks, Mention};
use std::collections::{HashMap, HashSet};

/// Calls are followed to this depth.
const DEPTH: usize = 8;
/// Longer functions are assumed to use as many registers as a thread can have.
const MOST_STATEMENTS: usize = 1 << 16;
const MANY: u32 = 255;

/// The greatest number of 32-bit registers that are in use at the same time in a kernel and in the functions that it
/// calls.
pub(in super::super) fn most_live(program: &Program, kernel: usize) -> u32 {
    let mut known = HashMap::new();
    with_callees(program, kernel, DEPTH, &mut known).min(MANY)
}

fn with_callees(program: &Program, number: usize, depth: usize, known: &mut HashMap<usize, u32>) -> u32 {
    if let Some(live) = known.get(&number) {
        return *live;
    }
    // For a recursive function, the inner call counts as nothing.
    known.insert(number, 0);
    let (own, callees) = own(program, number);
    let calls = callees.into_iter().filter(|_| depth > 0);
    let deepest = calls.map(|callee| with_callees(program, callee, depth - 1, known)).max().unwrap_or(0);
    let live = own.saturating_add(deepest).min(MANY);
    known.insert(number, live);
    live
}

/// The number for the function alone, and the functions that it names.
fn own(program: &Program, number: usize) -> (u32, HashSet<usize>) {
    let function = &program.functions[number];
    let Some((tokens, lines)) = &function.code else { return (0, HashSet::new()) };
    let (mut counts, mut shared) = (Counts::default(), SharedLayout::default());
    let mut scopes = Scopes::new(&function.name);
    for parameter in function.returns.iter().chain(&function.parameters).filter(|it| it.in_register) {
        let register = counts.add(parameter.ty.class(), parameter.elements as u32);
        if scopes.name(0, &parameter.name, Named::Register(register)).is_err() {
            return (0, HashSet::new());
        }
    }
    if scopes.read(&mut Reader::new(tokens, lines), &mut counts, &mut shared).is_err() {
        return (0, HashSet::new());
    }
    let calls = scopes.statements.iter().filter(|it| it.opcode.starts_with("call"));
    let words = calls.flat_map(|it| it.operands.iter()).flat_map(|it| it.iter()).filter_map(|it| it.word());
    let callees = words.filter_map(|word| program.function(word)).collect();
    if scopes.statements.len() > MOST_STATEMENTS {
        return (MANY, callees);
    }
    (most(&scopes, &Blocks::new(&scopes)), callees)
}

/// The number of 32-bit registers for a register of the class. Predicates have registers of their own kind, which are
/// not counted.
fn words(class: Class) -> u32 {
    class.bits().div_ceil(32).min(4) * u32::from(class != Class::Pred)
}

/// Registers that are written once, with a parameter or a constant: a compiler needs no register for these.
fn needless(scopes: &Scopes<'_>, blocks: &Blocks) -> HashSet<Reg> {
    let mut found = HashSet::new();
    for (register, mentions) in blocks.registers() {
        let mut writes = mentions.iter().filter(|it| it.writes);
        let (Some(write), None) = (writes.next(), writes.next()) else { continue };
        let statement = &scopes.statements[write.statement];
        let from = statement.operands.get(1).copied().unwrap_or_default();
        let is_constant = statement.opcode.starts_with("mov.") && from.iter().all(|it| it.word().is_none());
        if statement.opcode.starts_with("ld.param.") || is_constant {
            found.insert(register);
        }
    }
    found
}

/// The greatest number of registers that are in use between two statements.
fn most(scopes: &Scopes<'_>, blocks: &Blocks) -> u32 {
    let needless = needless(scopes, blocks);
    let mut of_statement: Vec<Vec<(Reg, Mention)>> = vec![Vec::new(); scopes.statements.len()];
    let mut wide: HashMap<Reg, usize> = HashMap::new();
    for (register, mentions) in blocks.registers() {
        if words(register.class) == 0 || needless.contains(&register) {
            continue;
        }
        for mention in mentions {
            of_statement[mention.statement].push((register, *mention));
        }
        // Most registers are mentioned in one block only, and written there before they are read.
        let first = blocks.block(mentions[0].statement);
        let is_of_one = mentions.last().is_some_and(|last| blocks.block(last.statement) == first);
        if !is_of_one || mentions[0].reads || mentions[0].is_guarded {
            let number = wide.len();
            wide.insert(register, number);
        }
    }
    let after = blocks.live_after(&wide, &of_statement);
    let mut most = 0;
    for (block, after) in after.iter().enumerate() {
        let mut live: HashSet<Reg> = wide
            .iter()
            .filter(|(_, number)| after[**number / 64] >> (**number % 64) & 1 != 0)
            .map(|it| *it.0)
            .collect();
        let mut sum: u32 = live.iter().map(|it| words(it.class)).sum();
        most = most.max(sum);
        for statement in blocks.statements(block).rev() {
            for (register, mention) in &of_statement[statement] {
                if mention.writes && !mention.is_guarded && live.remove(register) {
                    sum -= words(register.class);
                }
            }
            for (register, mention) in &of_statement[statement] {
                if mention.reads && live.insert(*register) {
                    sum += words(register.class);
                }
            }
            most = most.max(sum);
        }
    }
    most
}

impl Blocks {
    /// The registers that are in use at the end of each block, as bits by their numbers in `wide`.
    fn live_after(&self, wide: &HashMap<Reg, usize>, of_statement: &[Vec<(Reg, Mention)>]) -> Vec<Vec<u64>> {
        let (count, length) = (self.count(), wide.len().div_ceil(64));
        let mut reads = vec![vec![0u64; length]; count];
        let mut writes = reads.clone();
        for block in 0..count {
            for (register, mention) in self.statements(block).flat_map(|it| &of_statement[it]) {
                let Some(number) = wide.get(register) else { continue };
                let (at, bit) = (number / 64, 1 << (number % 64));
                if mention.reads && writes[block][at] & bit == 0 {
                    reads[block][at] |= bit;
                }
                if mention.writes && !mention.is_guarded {
                    writes[block][at] |= bit;
                }
            }
        }
        let mut before = reads.clone();
        let mut after = vec![vec![0u64; length]; count];
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for block in (0..count).rev() {
                for next in self.next(block) {
                    for at in 0..length {
                        after[block][at] |= before[next][at];
                    }
                }
                for at in 0..length {
                    let new = reads[block][at] | after[block][at] & !writes[block][at];
                    changed |= new != before[block][at];
                    before[block][at] = new;
                }
            }
        }
        after
    }
}
