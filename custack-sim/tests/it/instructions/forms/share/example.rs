//! Examples of instructions, written as templates of which each stands for many.
//!
//! `<a|b>` stands for either, and `<>` around nothing for nothing. In the operands `$1` to `$9` are registers as wide as
//! the last type of the opcode, `$v` and `$w` vectors of them as long as the opcode says; `%h0`, `%r0`, `%d0`, `%q0` and
//! `%p0` are registers of 16, 32, 64 and 128 bits, and predicates. An example has the name of its opcode, or where there are
//! several of one opcode the whole of its text.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

/// A form of an instruction.
pub(super) struct Example {
    pub(super) name: String,
    whole: String,
    /// Lines of PTX.
    pub(super) code: String,
}

/// All that a template stands for.
fn expand(template: &str, to: &mut Vec<Example>) {
    let Some(open) = template.find('<') else {
        if !template.trim().is_empty() {
            to.push(example(template));
        }
        return;
    };
    let close = open + template[open..].find('>').unwrap();
    for part in template[open + 1..close].split('|') {
        expand(&format!("{}{part}{}", &template[..open], &template[close + 1..]), to);
    }
}

fn example(text: &str) -> Example {
    let code = text.trim();
    // The last of several instructions is meant.
    let meant = code.trim_end_matches(';').rsplit("; ").next().unwrap();
    let opcode = meant.split(' ').next().unwrap();
    Example { name: opcode.to_owned(), whole: meant.replace('$', ""), code: operands(code, opcode) }
}

/// All that these lines stand for, each with a name of its own.
pub(super) fn all(lines: impl Iterator<Item = &'static str>) -> Vec<Example> {
    let mut all = Vec::new();
    lines.for_each(|line| expand(line, &mut all));
    let mut seen = HashMap::new();
    all.iter().for_each(|example| *seen.entry(example.name.clone()).or_insert(0) += 1);
    for example in &mut all {
        if seen[&example.name] > 1 {
            example.name.clone_from(&example.whole);
        }
    }
    all
}

/// Puts registers in the place of what stands for them.
fn operands(code: &str, opcode: &str) -> String {
    let letter = opcode.rsplit('.').find_map(letter).unwrap_or('r');
    let count = opcode.split('.').find_map(|part| part.strip_prefix('v')?.parse().ok()).unwrap_or(1);
    let vector = |from: usize| {
        let all: Vec<String> = (from..from + count).map(|at| format!("%{letter}{at}")).collect();
        if count == 1 { all[0].clone() } else { format!("{{{}}}", all.join(", ")) }
    };
    let mut code = code.replace("$v", &vector(10)).replace("$w", &vector(20));
    for digit in 1..10 {
        code = code.replace(&format!("${digit}"), &format!("%{letter}{digit}"));
    }
    code
}

/// Registers of a type.
fn letter(ty: &str) -> Option<char> {
    Some(match ty {
        "b8" | "u8" | "s8" | "b16" | "u16" | "s16" | "f16" | "bf16" => 'h',
        "b32" | "u32" | "s32" | "f32" | "f16x2" | "bf16x2" => 'r',
        "b64" | "u64" | "s64" | "f64" => 'd',
        "b128" => 'q',
        "pred" => 'p',
        _ => return None,
    })
}

const HEAD: &str = ".version 8.8\n.target sm_90\n.address_size 64\n\
    .global .align 16 .b8 in_global[256];\n.shared .align 16 .b8 in_shared[256];\n\
    .const .align 16 .b8 in_constant[256];\n.global .texref in_texture;\n.global .surfref in_surface;\n\
    .func (.param .b32 result) called (.param .b32 given) { ret; }\n";

/// A module with a kernel for each.
pub(super) fn text(examples: &[Example]) -> String {
    let mut text = String::from(HEAD);
    for (at, example) in examples.iter().enumerate() {
        let _ = write!(
            text,
            ".visible .entry k{at}(.param .align 16 .b8 given[64])\n{{\n\
             .reg .pred %p<9>; .reg .b16 %h<40>; .reg .b32 %r<90>; .reg .b64 %d<40>; .reg .b128 %q<40>;\n\
             .local .align 16 .b8 in_local[256];\n{}\nEND: ret;\n}}\n",
            example.code
        );
    }
    text
}

/// Forms in few words: all, or their names with what they have in common said once.
pub(super) fn summary(refused: &BTreeSet<String>, all: usize) -> String {
    if refused.len() == all {
        return "all".to_owned();
    }
    refused.iter().map(|name| format!("`{}`", name.replace('|', "\\|"))).collect::<Vec<_>>().join(", ")
}
