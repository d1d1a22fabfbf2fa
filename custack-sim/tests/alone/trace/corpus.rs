//! The recorded traces: text, one step per line, followed by what the driver answered.
//!
//! ```text
//! # seed 7
//! t0 cuCtxCreate_v2 out=c1 flags=0 device=0 -> 0 c1 | c1
//! end t0 -> 0 c1 | null
//! end t0 -> 201 - | null
//! ```
//!
//! Lines that begin with `end` are from draining each thread's stack.

use super::generate::generate;
use super::language::{ALL, Step, Trace, slot_name};
use super::play::{Name, Out, Outcome, play};
use std::collections::HashSet;
use std::fmt::Write;

pub(super) struct Recorded {
    pub(super) name: String,
    pub(super) trace: Trace,
    pub(super) outcomes: Vec<Outcome>,
}

/// What an H200 answered.
const H200: &str = include_str!("h200.txt");

pub(super) fn read() -> Vec<Recorded> {
    let texts =
        H200.split("\n# ").map(|text| text.trim_start_matches("# ")).filter(|text| !text.trim().is_empty());
    texts.map(parse).collect()
}

fn parse(text: &str) -> Recorded {
    let (name, lines) = text.split_once('\n').expect("a name and lines");
    let mut trace = Trace { steps: Vec::new() };
    let mut outcomes = Vec::new();
    for line in lines.lines().filter(|line| !line.is_empty() && !line.starts_with("//")) {
        let (step, outcome) = line.split_once(" -> ").unwrap_or_else(|| panic!("{name}: {line}"));
        if !step.starts_with("end") {
            trace.steps.push(Step::parse(step).unwrap_or_else(|| panic!("{name}: {line}")));
        }
        outcomes.push(parse_outcome(outcome).unwrap_or_else(|| panic!("{name}: {line}")));
    }
    Recorded { name: name.to_owned(), trace, outcomes }
}

fn parse_outcome(text: &str) -> Option<Outcome> {
    let (answer, current) = text.split_once(" | ")?;
    let mut words = answer.split(' ');
    let status = words.next()?.parse().ok()?;
    let outs = words.map(|word| match word {
        "-" => Some(Out::Untouched),
        word => word.parse().map(Out::Number).ok().or_else(|| parse_name(word).map(Out::Context)),
    });
    Some(Outcome { status, outs: outs.collect::<Option<_>>()?, current: parse_name(current)? })
}

fn parse_name(text: &str) -> Option<Name> {
    match text {
        "null" => Some(Name::Null),
        "?" => Some(Name::Unknown),
        name => (0..ALL).find(|slot| slot_name(*slot) == name).map(Name::Slot),
    }
}

/// A trace with the answers, in the format of the corpus.
pub(super) fn write(name: &str, trace: &Trace, outcomes: &[Outcome]) -> String {
    let mut text = format!("# {name}\n");
    for (at, outcome) in outcomes.iter().enumerate() {
        let step = trace.steps.get(at).map_or("end".to_owned(), Step::to_string);
        writeln!(text, "{step} -> {outcome}").expect("writing to a string");
    }
    text
}

/// The steps before a difference, and the difference.
pub(super) fn around(recorded: &Recorded, outcomes: &[Outcome], at: usize) -> String {
    let mut text = String::new();
    for before in at.saturating_sub(12)..=at {
        let step = recorded.trace.steps.get(before).map_or("end".to_owned(), Step::to_string);
        let was = recorded.outcomes.get(before).map_or("nothing".to_owned(), Outcome::to_string);
        let is = outcomes.get(before).map_or("nothing".to_owned(), Outcome::to_string);
        writeln!(text, "  {step} -> recorded {was}, now {is}").expect("writing to a string");
    }
    text
}

/// A selection of traces that covers as much as possible: each adds something that no earlier one shows.
///
/// A step shows its function, its answer, which arguments were omitted, and whether the current context and the context
/// it names are alive.
pub(super) fn choose(count: usize) -> Vec<(String, Trace)> {
    let table = super::simulated();
    let mut seen = HashSet::new();
    let mut chosen = Vec::new();
    for (name, text) in NAMED {
        chosen.push(((*name).to_owned(), Trace::parse(text).unwrap_or_else(|| panic!("{name}"))));
    }
    for seed in 1_000_000.. {
        if chosen.len() >= count {
            break;
        }
        let trace = generate(seed, 60);
        let outcomes = play(&trace, &table);
        let mut new = false;
        for (at, (step, outcome)) in trace.steps.iter().zip(&outcomes).enumerate() {
            let before = at.checked_sub(1).map(|before| trace.steps[before].call.function());
            let words = step.call.to_string();
            let lacks = words.matches("=null").count();
            let named = words.contains(&format!("={}", Name::Slot(super::language::PRIMARY)));
            new |= seen.insert((
                before,
                step.call.function(),
                outcome.status,
                lacks,
                named,
                outcome.current == Name::Null,
            ));
        }
        if new {
            chosen.push((format!("seed {seed}"), trace));
        }
    }
    chosen
}

/// Traces written by hand, and counter-examples that were found and shrunk.
const NAMED: &[(&str, &str)] = &[
    (
        "a destroyed context that lies below comes back to the top",
        "t0 cuCtxCreate_v2 out=c0 flags=0 device=0\nt0 cuCtxCreate_v2 out=c1 flags=0 device=0\n\
         t0 cuCtxDestroy_v2 context=c0\nt0 cuCtxPopCurrent_v2 out=here\nt0 cuCtxGetApiVersion context=null out=here\n\
         t0 cuCtxGetApiVersion context=c0 out=here\nt0 cuCtxGetFlags out=here\nt0 cuCtxDestroy_v2 context=c0",
    ),
    (
        "a context destroyed by another thread stays current",
        "t0 cuCtxCreate_v2 out=c0 flags=8 device=0\nt1 cuCtxDestroy_v2 context=c0\nt0 cuCtxSynchronize\n\
         t0 cuCtxGetDevice out=here\nt0 cuCtxSetCurrent context=null\nt0 cuCtxPopCurrent_v2 out=here",
    ),
    (
        "the kind of a resource is looked at before the context",
        "t0 cuCtxGetDevResource context=null out=here kind=9\nt0 cuDevicePrimaryCtxRetain out=here device=0\n\
         t0 cuCtxPushCurrent_v2 context=p\nt0 cuDevicePrimaryCtxRelease_v2 device=0\n\
         t0 cuCtxGetDevResource context=p out=here kind=0\nt0 cuCtxGetDevResource context=p out=here kind=1",
    ),
    (
        "detaching nothing from a destroyed context",
        "t0 cuCtxDetach context=null\nt0 cuDevicePrimaryCtxRetain out=here device=0\nt0 cuCtxSetCurrent context=p\n\
         t0 cuDevicePrimaryCtxRelease_v2 device=0\nt0 cuCtxDetach context=null\nt0 cuCtxDetach context=p",
    ),
    (
        "a reset takes the flags of an inactive primary context",
        "t0 cuDevicePrimaryCtxSetFlags_v2 device=0 flags=132\nt0 cuDevicePrimaryCtxReset_v2 device=0\n\
         t0 cuDevicePrimaryCtxGetState device=0 flags=here active=here",
    ),
    (
        "a primary context is made with one way to dump and not the other",
        "t0 cuDevicePrimaryCtxSetFlags_v2 device=0 flags=96\nt0 cuDevicePrimaryCtxRetain out=here device=0\n\
         t0 cuCtxPushCurrent_v2 context=p\nt0 cuCtxGetFlags out=here\nt0 cuDevicePrimaryCtxReset_v2 device=0\n\
         t0 cuDevicePrimaryCtxSetFlags_v2 device=0 flags=64\nt0 cuDevicePrimaryCtxRetain out=here device=0\n\
         t0 cuCtxGetFlags out=here",
    ),
    (
        "one flag of a primary context is told as it is now",
        "t0 cuDevicePrimaryCtxRetain out=here device=0\nt0 cuCtxPushCurrent_v2 context=p\nt0 cuCtxSetFlags flags=160\n\
         t0 cuDevicePrimaryCtxGetState device=0 flags=here active=here\nt0 cuCtxSetFlags flags=0\n\
         t0 cuDevicePrimaryCtxGetState device=0 flags=here active=here\n\
         t0 cuDevicePrimaryCtxSetFlags_v2 device=0 flags=176\nt0 cuCtxSetFlags flags=0\n\
         t0 cuDevicePrimaryCtxGetState device=0 flags=here active=here",
    ),
    (
        "the flags of peer access are looked at before the peer's life",
        "t0 cuCtxCreate_v2 out=c0 flags=0 device=0\nt0 cuCtxCreate_v2 out=c1 flags=0 device=0\n\
         t0 cuCtxDestroy_v2 context=c0\nt0 cuCtxEnablePeerAccess peer=c0 flags=1\n\
         t0 cuCtxEnablePeerAccess peer=c0 flags=0\nt0 cuCtxEnablePeerAccess peer=null flags=1",
    ),
    (
        "the version of a destroyed current context without a place for it",
        "t0 cuCtxCreate_v2 out=c0 flags=0 device=0\nt1 cuCtxDestroy_v2 context=c0\n\
         t0 cuCtxGetApiVersion context=null out=null\nt0 cuCtxGetApiVersion context=c0 out=null\n\
         t0 cuCtxGetApiVersion context=null out=here",
    ),
    (
        "a destroyed green context stays current",
        "t0 cuDevicePrimaryCtxRetain out=here device=0\nt0 cuGreenCtxCreate out=g0 part=1 device=0 flags=1\n\
         t0 cuCtxPushCurrent_v2 context=g0\nt0 cuCtxDestroy_v2 context=g0\nt0 cuGreenCtxDestroy green=g0\n\
         t0 cuCtxGetDevice out=here\nt0 cuCtxSynchronize\nt0 cuGreenCtxDestroy green=g0\n\
         t0 cuCtxPopCurrent_v2 out=here",
    ),
    (
        "streams tell their contexts",
        "t0 cuDevicePrimaryCtxRetain out=here device=0\nt0 cuGreenCtxCreate out=g0 part=1 device=0 flags=1\n\
         t0 cuGreenCtxStreamCreate out=s0 green=g0 flags=1 priority=-100\nt0 cuStreamGetGreenCtx stream=s0\n\
         t0 cuStreamGetCtx_v2 stream=s0\nt0 cuCtxPushCurrent_v2 context=g0\nt0 cuStreamCreate out=s1 flags=0\n\
         t0 cuStreamGetGreenCtx stream=s1\nt0 cuStreamGetCtx_v2 stream=s1\nt0 cuStreamGetGreenCtx stream=0\n\
         t0 cuStreamGetCtx_v2 stream=0\nt0 cuStreamGetGreenCtx stream=2\nt0 cuGreenCtxDestroy green=g0\n\
         t0 cuStreamDestroy_v2 stream=s0\nt0 cuStreamQuery stream=s1",
    ),
];
