//! Barriers in shared memory: each thread has one of its own, and takes it through a few phases.

use super::super::form::List;
use super::super::operands::Kind;
use super::super::share::barrier_examples;
use super::fold::{Folding, folded};

/// What a barrier is, by the manual.
struct Gate {
    expected: u64,
    pending: u64,
    bytes: i64,
    phase: u64,
}

impl Gate {
    fn new(count: u64) -> Gate {
        Gate { expected: count, pending: count, bytes: 0, phase: 0 }
    }

    /// Ends the phase if nothing is missing.
    fn settled(&mut self) {
        if self.pending == 0 && self.bytes == 0 {
            self.pending = self.expected;
            self.phase += 1;
        }
    }

    /// How many were missing before.
    fn arrive(&mut self, count: u64) -> u64 {
        let before = self.pending;
        self.pending -= count;
        self.settled();
        before
    }

    fn is_over(&self, phase: u64) -> u64 {
        u64::from(self.phase > phase)
    }
}

/// What is done between the first arrivals and the end of the first phase: lines, and the same by the manual.
struct Part {
    lines: String,
    does: fn(&mut Gate, Counts) -> Vec<u64>,
}

/// The numbers of a thread: how many are expected, and how many come by the instruction.
#[derive(Clone, Copy)]
struct Counts {
    all: u64,
    some: u64,
}

fn counts(of: &[u64]) -> Counts {
    let all = 3 + of[0] % 0xffffd;
    Counts { all, some: 1 + (of[1] & 0xfffff) % (all - 2) }
}

const COUNTS: &str = "rem.u32 %u0, $a, 0xffffd; add.u32 %u0, %u0, 3; sub.u32 %u1, %u0, 2; and.b32 %u2, $b, 0xfffff; \
    rem.u32 %u2, %u2, %u1; add.u32 %u1, %u2, 1; shr.u32 %u3, $b, 16; add.u32 %u3, %u3, 1; sub.u32 %u4, %u0, 1; \
    sub.u32 %u5, %u0, %u1;";

/// One arrives, and then all that are missing: leaves how many were, and whether the phase is over before and after.
const PHASE: &str = "mbarrier.arrive.shared.b64 %e0, [%s]; mbarrier.pending_count.b64 %u7, %e0; \
    mbarrier.test_wait.shared.b64 %k, [%s], %e0; selp.u32 %u6, 1, 0, %k; sub.u32 %u8, %u7, 1; \
    mbarrier.arrive.shared.b64 _, [%s], %u8; mbarrier.test_wait.shared.b64 %k, [%s], %e0; selp.u32 %u8, 1, 0, %k;";

fn part(opcode: &str, code: &str) -> Part {
    let has = |part: &str| opcode.split('.').any(|it| it == part);
    // The operands of the example: the address, and one that counts or says bytes, or a state or a parity.
    let operands = &code[opcode.len()..].trim_end_matches(';');
    let counted = operands.matches('%').count() == 3 || operands.contains("_, [%d9], ");
    let address = if has("shared") || has("shared::cta") { "%s" } else { "%x" };
    let with = |operands: &str| format!("{opcode} {};", operands.replace("%s", address));
    match () {
        () if has("init") || has("inval") || has("pending_count") => Part {
            lines: match () {
                () if has("inval") => format!(
                    "{} st.shared.b64 [%s], 7; ld.shared.b64 %e3, [%s]; mbarrier.init.shared.b64 [%s], %u0;",
                    with("[%s]")
                ),
                () if has("init") => format!("mbarrier.inval.shared.b64 [%s]; {}", with("[%s], %u0")),
                () => "mbarrier.arrive.noComplete.shared.b64 %e0, [%s], %u1; mbarrier.arrive.noComplete.shared.b64 %e0, [%s], 1; \
                    mbarrier.pending_count.b64 %u7, %e0; cvt.u64.u32 %e3, %u7; mbarrier.inval.shared.b64 [%s]; \
                    mbarrier.init.shared.b64 [%s], %u0;".to_owned(),
            },
            does: match () {
                () if has("init") => |_, _| vec![],
                () if has("inval") => |_, _| vec![7],
                () => |_, counts| vec![counts.all - counts.some],
            },
        },
        () if has("test_wait") || has("try_wait") => {
            let limit = if operands.matches('%').count() == 4 { ", 1" } else { "" };
            let ask = |second: &str| with(&format!("%k, [%s], {second}{limit}"));
            let take = "selp.u64 %e3, 1, 0, %k; shl.b64 %e4, %e4, 1; or.b64 %e4, %e4, %e3;";
            let lines = if has("parity") {
                format!("mov.u64 %e4, 0; {} {take} {} {take} mov.u64 %e3, %e4;", ask("0"), ask("1"))
            } else {
                let asked = format!("{} {take}", ask("%e0"));
                let before = if waits_for_a_state(code) { "" } else { &asked };
                format!(
                    "mov.u64 %e4, 0; mbarrier.arrive.noComplete.shared.b64 %e0, [%s], %u1; {before} \
                     mbarrier.arrive.shared.b64 _, [%s], %u5; {asked} mov.u64 %e3, %e4; \
                     mbarrier.inval.shared.b64 [%s]; mbarrier.init.shared.b64 [%s], %u0;"
                )
            };
            Part { lines, does: |_, _| vec![1] }
        }
        () if has("arrive") || has("arrive_drop") => {
            let sink = operands.trim_start().starts_with('_');
            let to = if sink { "_" } else { "%e0" };
            let count = has("noComplete") || counted && !has("expect_tx");
            let expects = has("expect_tx");
            let second = if expects { ", %u3" } else if count { ", %u1" } else { "" };
            let mut lines = with(&format!("{to}, [%s]{second}"));
            if sink {
                lines += " mov.u64 %e3, 0;";
            } else {
                lines += " mbarrier.pending_count.b64 %u7, %e0; cvt.u64.u32 %e3, %u7;";
            }
            if expects {
                lines += " mbarrier.test_wait.parity.shared.b64 %k, [%s], 0; selp.u64 %e4, 2000, 0, %k; add.u64 %e3, %e3, %e4; \
                    mbarrier.complete_tx.shared.b64 [%s], %u3;";
            }
            let does: fn(&mut Gate, Counts) -> Vec<u64> = match (has("arrive_drop"), count, sink) {
                (true, true, _) => |gate, counts| {
                    gate.expected -= counts.some;
                    vec![gate.arrive(counts.some)]
                },
                (true, false, _) => |gate, _| {
                    gate.expected -= 1;
                    vec![gate.arrive(1)]
                },
                (_, true, _) => |gate, counts| vec![gate.arrive(counts.some)],
                (_, _, true) => |gate, _| {
                    gate.arrive(1);
                    vec![0]
                },
                _ => |gate, _| vec![gate.arrive(1)],
            };
            Part { lines, does }
        }
        // `expect_tx` and `complete_tx`, each of which needs the other one.
        () => {
            let mine = with("[%s], %u3");
            let lines = if has("expect_tx") {
                format!("{mine} mov.u64 %e3, 0; mbarrier.complete_tx.shared.b64 [%s], %u3;")
            } else {
                format!("mbarrier.expect_tx.shared.b64 [%s], %u3; {mine} mov.u64 %e3, 0;")
            };
            Part { lines, does: |_, _| vec![0] }
        }
    }
}

/// Waits for the end of a phase that a state names, as long as the device likes: one of 10,529 such waits ended on an H200
/// with the answer that a phase was over which was not, so that only phases that are over are waited for.
pub(super) fn waits_for_a_state(code: &str) -> bool {
    code.starts_with("mbarrier.try_wait") && !code.contains("parity") && code.matches('%').count() == 3
}

/// All forms of `mbarrier`.
pub(super) fn list(list: &mut List) {
    for (name, code) in barrier_examples() {
        let opcode = code.split(' ').next().unwrap().to_owned();
        let Part { lines, does } = part(&opcode, &code);
        let returns = !opcode.contains("mbarrier.init");
        let mut folding = Folding::new();
        folding.line(
            "mul.wide.u32 %s, %t, 32; mov.u64 %z, shared_slots; add.u64 %s, %s, %z; cvta.shared.u64 %x, %s;",
        );
        folding.line(COUNTS);
        folding.line("mbarrier.init.shared.b64 [%s], %u0;");
        folding.line(&lines);
        if returns {
            folding.add("%e3", 8);
        }
        // What the instruction has left: how many are missing in its phase, and how many in the next one.
        for _ in 0..2 {
            folding.line(PHASE);
            ["%u7", "%u6", "%u8"].into_iter().for_each(|register| folding.add(register, 4));
        }
        folding.line("mbarrier.inval.shared.b64 [%s];");
        list.on_memory(&name, &[Kind::I32; 2], folding.end(), move |of| {
            let counts = counts(of);
            let mut gate = Gate::new(counts.all);
            let mut all = does(&mut gate, counts);
            for _ in 0..2 {
                let phase = gate.phase;
                let missing = gate.arrive(1);
                let before = gate.is_over(phase);
                gate.arrive(missing - 1);
                all.extend([missing, before, gate.is_over(phase)]);
            }
            folded(&all)
        });
    }
}
