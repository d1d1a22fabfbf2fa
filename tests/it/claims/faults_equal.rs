//! Stacks with several entries of one context: the top does not show how many of them are there. So after calls that failed
//! in a row, the stack is what it was only if custack looks below them.

use crate::harness::{current, is_simulated, parked, run, skip};
use custack::context::{Context, ContextStack, CurrentContext};
use custack::driver::instrument::{self, When};
use custack::sim;

const CONTEXTS: usize = 3;
const FUNCTIONS: [&str; 3] = ["cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuCtxGetCurrent"];

/// All stacks of so many entries, as the numbers of contexts; no entry is that of the next one's context, because a scope
/// whose context is current makes none.
fn stacks(depth: usize) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..depth {
        let longer = |stack: &Vec<usize>| {
            let stack = stack.clone();
            (0..CONTEXTS)
                .filter(|next| stack.last() != Some(next))
                .map(|next| [&stack[..], &[next]].concat())
                .collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

#[test]
fn several_entries_of_one_context_stay_as_many_when_calls_fail_in_a_row() {
    if !is_simulated() {
        return skip(
            "several_entries_of_one_context_stay_as_many_when_calls_fail_in_a_row",
            "a GPU's driver does not tell how deep its stack is",
        );
    }
    run(|| {
        let contexts: Vec<Context> = (0..CONTEXTS).map(|_| parked()).collect();
        let raws: Vec<_> = contexts.iter().map(|context| context.as_raw()).collect();
        for stack in (2..=5).flat_map(stacks) {
            for function in FUNCTIONS {
                for times in [1, 2, 3, 5] {
                    for (act, when) in (0..4).flat_map(|act| [(act, When::Before), (act, When::After)]) {
                        let case = format!("{stack:?}, act {act}, {function} fails {times} times, {when:?}");
                        let mut guards: Vec<_> = Vec::new();
                        stack.iter().for_each(|at| guards.push(contexts[*at].enter().unwrap()));
                        instrument::fail_times(Some(function), 1, times, 999, when);
                        let other = &contexts[(stack[stack.len() - 1] + act) % CONTEXTS];
                        match act {
                            3 => drop(guards.pop()),
                            0 => drop(ContextStack::push(other).and_then(|()| ContextStack::pop())),
                            1 => drop(other.enter()),
                            _ => drop(other.scoped(|_| Ok(()))),
                        }
                        instrument::disarm();
                        let _ = CurrentContext::get_current();
                        // What was pushed with an error of the pop is popped.
                        while ContextStack::depth() > guards.len() {
                            ContextStack::pop().unwrap_or_else(|error| panic!("{case}: {error}"));
                        }
                        while let Some(guard) = guards.pop() {
                            assert_eq!(current(), raws[stack[guards.len()]], "{case}");
                            assert_eq!(sim::depth(), guards.len() + 1, "{case}");
                            drop(guard);
                        }
                        assert_eq!((sim::depth(), ContextStack::depth()), (0, 0), "{case}");
                    }
                }
            }
        }
    });
}
