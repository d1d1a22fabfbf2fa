//! Shrinks a trace to the shortest one that still shows something.

use super::generate::is_safe;
use super::language::Trace;

/// Leaves out ever shorter runs of steps, as long as the rest is safe and still `shows` it.
pub(super) fn shrink(trace: &Trace, mut shows: impl FnMut(&Trace) -> bool) -> Trace {
    let mut best = trace.clone();
    let mut run = best.steps.len() / 2;
    while run > 0 {
        let before = best.steps.len();
        let mut at = 0;
        while at < best.steps.len() {
            let mut fewer = best.clone();
            fewer.steps.drain(at..(at + run).min(best.steps.len()));
            if !fewer.steps.is_empty() && is_safe(&fewer) && shows(&fewer) {
                best = fewer;
            } else {
                at += run;
            }
        }
        // One step at a time until none can be left out.
        if run > 1 || best.steps.len() == before {
            run /= 2;
        }
    }
    best
}

#[test]
fn shrinking_keeps_what_is_needed() {
    use super::language::Call;
    let trace = super::generate::generate(3, 200);
    let wanted =
        |trace: &Trace| trace.steps.iter().any(|step| matches!(step.call, Call::cuCtxSetLimit { .. }));
    assert!(wanted(&trace));
    assert_eq!(shrink(&trace, wanted).steps.len(), 1);
}
