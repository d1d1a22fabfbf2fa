//! The basic blocks of a function, and where its registers are written and read: the data flow that other modules use.

use super::super::run::Reg;
use super::super::scope::{Named, Scopes, Statement};
use super::super::tokens::Token;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

/// Opcodes without a result: their first operand is read. The exceptions are in `WITH_RESULT`.
const WITHOUT_RESULT: &[&str] = &[
    "st",
    "red",
    "bra",
    "brx",
    "call",
    "ret",
    "exit",
    "bar",
    "barrier",
    "mbarrier",
    "cp",
    "sust",
    "sured",
    "wmma",
    "stmatrix",
    "prefetch",
    "multimem",
    "nanosleep",
];
/// Forms of the opcodes above that do have a result.
const WITH_RESULT: &[&str] =
    &["wmma.load.", "wmma.mma.", "mbarrier.arrive", "mbarrier.test_wait", "mbarrier.try_wait"];
/// Opcodes that end a basic block.
const ENDS: &[&str] = &["bra", "brx", "call", "ret", "exit", "trap"];

/// How a statement mentions a register.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mention {
    pub(super) statement: usize,
    pub(super) reads: bool,
    pub(super) writes: bool,
    /// The statement has a guard, so it may write the register in some of the lanes only.
    pub(super) is_guarded: bool,
}

pub(super) struct Blocks {
    /// The first statement of each block, and at last the number of statements.
    starts: Vec<usize>,
    /// The possible successors of each block.
    next: Vec<Vec<usize>>,
    mentions: HashMap<Reg, Vec<Mention>>,
}

fn name<'a>(statement: &Statement<'a>) -> &'a str {
    statement.opcode.split('.').next().unwrap_or_default()
}

/// The statements to which a statement may jump.
fn targets(scopes: &Scopes<'_>, statement: &Statement<'_>) -> Vec<usize> {
    let mut found = Vec::new();
    let mut labels: Vec<String> = Vec::new();
    let label = |word: &str| scopes.find(statement.scope, word);
    for word in statement.operands.iter().filter_map(|it| it.last()?.word()) {
        match label(word) {
            Some(Named::Label(_)) => labels.push(word.to_owned()),
            Some(Named::Targets(targets)) => labels.extend(targets),
            _ => {}
        }
    }
    for word in labels {
        if let Some(Named::Label(at)) = label(&word) {
            found.push(at);
        }
    }
    found
}

impl Blocks {
    pub(super) fn new(scopes: &Scopes<'_>) -> Blocks {
        let statements = &scopes.statements;
        let mut starts = BTreeSet::from([0, statements.len()]);
        for (at, statement) in statements.iter().enumerate().filter(|it| ENDS.contains(&name(it.1))) {
            starts.insert(at + 1);
            starts.extend(targets(scopes, statement));
        }
        let starts: Vec<usize> = starts.into_iter().collect();
        let next = starts.windows(2).map(|block| {
            let last = &statements[block[1] - 1];
            let mut next = if ENDS.contains(&name(last)) { targets(scopes, last) } else { Vec::new() };
            if last.guard.is_some() || !matches!(name(last), "bra" | "brx" | "ret" | "exit" | "trap") {
                next.push(block[1]);
            }
            next
        });
        let next = next.collect();
        let mut mentions: HashMap<Reg, Vec<Mention>> = HashMap::new();
        for (at, statement) in statements.iter().enumerate() {
            for mention in mentioned(scopes, at, statement) {
                mentions.entry(mention.0).or_default().push(mention.1);
            }
        }
        Blocks { starts, next, mentions }
    }

    /// The number of the block that a statement is in.
    pub(super) fn block(&self, statement: usize) -> usize {
        self.starts.partition_point(|start| *start <= statement) - 1
    }

    /// The number of blocks.
    pub(super) fn count(&self) -> usize {
        self.next.len()
    }

    pub(super) fn statements(&self, block: usize) -> Range<usize> {
        self.starts[block]..self.starts[block + 1]
    }

    /// The numbers of the possible successors of a block.
    pub(super) fn next(&self, block: usize) -> impl Iterator<Item = usize> {
        self.next[block].iter().map(|start| self.block(*start)).filter(|next| *next < self.count())
    }

    /// Every register that statements mention, with its mentions in the order of the statements.
    pub(super) fn registers(&self) -> impl Iterator<Item = (Reg, &[Mention])> {
        self.mentions.iter().map(|(register, mentions)| (*register, mentions.as_slice()))
    }

    fn mentions(&self, register: Reg, within: Range<usize>) -> &[Mention] {
        let all = self.mentions.get(&register).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|it| it.statement < within.start);
        let last = all.partition_point(|it| it.statement < within.end);
        &all[first..last.max(first)]
    }

    /// The statements that read the value which a statement has written to a register; `None` if one may be in another
    /// block.
    pub(super) fn uses_in_block(&self, at: usize, register: Reg) -> Option<Vec<usize>> {
        let block = self.block(at);
        let mut uses = Vec::new();
        for mention in self.mentions(register, at + 1..self.starts[block + 1]) {
            if mention.reads {
                uses.push(mention.statement);
            }
            match (mention.writes, mention.is_guarded) {
                (true, true) => return None,
                (true, false) => return Some(uses),
                _ => {}
            }
        }
        if self.is_read_after(block, register) { None } else { Some(uses) }
    }

    /// Whether the value that a register has at the end of a block may be read later.
    fn is_read_after(&self, block: usize, register: Reg) -> bool {
        let (mut open, mut seen) = (self.next[block].clone(), BTreeSet::new());
        // Most registers are mentioned in one block only, and written before they are read.
        let within = self.mentions(register, self.starts[block]..self.starts[block + 1]).len();
        if self.mentions.get(&register).is_some_and(|all| all.len() == within && !all[0].reads) {
            return false;
        }
        while let Some(start) = open.pop() {
            let block = self.block(start);
            if block == self.next.len() || !seen.insert(block) {
                continue;
            }
            match self.mentions(register, start..self.starts[block + 1]).first() {
                Some(mention) if mention.reads || mention.is_guarded => return true,
                Some(_) => {}
                None => open.extend(&self.next[block]),
            }
        }
        false
    }

    /// Whether one of these statements writes the register.
    pub(super) fn is_written(&self, register: Reg, statements: Range<usize>) -> bool {
        self.mentions(register, statements).iter().any(|mention| mention.writes)
    }
}

/// The registers that a statement mentions, each listed once.
fn mentioned(scopes: &Scopes<'_>, at: usize, statement: &Statement<'_>) -> HashMap<Reg, Mention> {
    let mut found: HashMap<Reg, Mention> = HashMap::new();
    let has_result = !WITHOUT_RESULT.contains(&name(statement))
        || WITH_RESULT.iter().any(|it| statement.opcode.starts_with(it));
    for (number, operand) in statement.operands.iter().enumerate() {
        let writes = has_result && number == 0 && !operand.first().is_some_and(|it| it.is('['));
        for word in operand.iter().filter_map(Token::word) {
            let Some(Named::Register(register)) = scopes.find(statement.scope, word) else { continue };
            let is_guarded = statement.guard.is_some();
            let mention = Mention { statement: at, reads: false, writes: false, is_guarded };
            let mention = found.entry(register).or_insert(mention);
            mention.reads |= !writes;
            mention.writes |= writes;
        }
    }
    found
}
