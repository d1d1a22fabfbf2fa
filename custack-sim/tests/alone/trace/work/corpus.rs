//! Recorded traces: text, one step a line with what the driver answered behind it.
//!
//! ```text
//! # seed 7
//! t0 cuStreamCreate s0 1 -> 0 new | c0
//! end -> mode 0 stack c0
//! end -> end
//! ```
//!
//! The lines that begin with `end` tell each thread's stack, and what is left in the end. A line that begins with `!`
//! is a remark; a trace that a second playing on the same driver did not repeat has one, and is not compared.

use super::language::{Step, Trace};
use super::play::Outcome;

pub(super) struct Recorded {
    pub(super) name: String,
    pub(super) trace: Trace,
    pub(super) outcomes: Vec<Outcome>,
    /// Whether it came to its end and was repeated.
    pub(super) whole: bool,
}

pub(super) fn read(text: &str) -> Vec<Recorded> {
    let texts =
        text.split("\n# ").map(|text| text.trim_start_matches("# ")).filter(|text| !text.trim().is_empty());
    texts.map(parse).collect()
}

fn parse(text: &str) -> Recorded {
    let (name, lines) = text.split_once('\n').expect("a name and lines");
    let mut recorded = Recorded {
        name: name.to_owned(),
        trace: Trace { steps: Vec::new() },
        outcomes: Vec::new(),
        whole: lines.lines().any(|line| line.starts_with("end -> end")),
    };
    for line in lines.lines().filter(|line| !line.is_empty()) {
        let Some((step, outcome)) = line.split_once(" -> ").filter(|_| !line.starts_with('!')) else {
            recorded.whole = false;
            continue;
        };
        if step != "end" {
            recorded.trace.steps.push(Step::parse(step).unwrap_or_else(|| panic!("{name}: {line}")));
        }
        recorded.outcomes.push(
            outcome
                .replace(" written", " -")
                .replace(" =a0", " new")
                .replace(" =a1", " new")
                .replace(" =a2", " new")
                .replace(" =a3", " new")
                .replace(" =a4", " new")
                .replace(" none none 0 ", " () [] 0 ")
                .replace(" none 0 ", " () 0 ")
                .replace(" [] 0 ", " () 0 "),
        );
    }
    recorded
}

/// A trace with what was answered, as it stands in the corpus.
pub(super) fn write(name: &str, trace: &Trace, outcomes: &[Outcome]) -> String {
    let mut text = format!("# {name}\n");
    for (at, outcome) in outcomes.iter().enumerate() {
        let step = trace.steps.get(at).map_or("end".to_owned(), Step::to_string);
        text.push_str(&format!("{step} -> {outcome}\n"));
    }
    text
}

/// The steps before a difference, and the difference.
pub(super) fn around(recorded: &Recorded, outcomes: &[Outcome], at: usize) -> String {
    let mut text = String::new();
    for before in 0..=at {
        let step = recorded.trace.steps.get(before).map_or("end".to_owned(), Step::to_string);
        let was = recorded.outcomes.get(before).map_or("nothing", String::as_str);
        let is = outcomes.get(before).map_or("nothing", String::as_str);
        if was == is {
            text.push_str(&format!("  {step} -> {was}\n"));
        } else {
            text.push_str(&format!("  {step}\n    recorded {was}\n    now      {is}\n"));
        }
    }
    text
}
