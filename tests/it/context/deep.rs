//! Stacks that are too deep for the shadow stack's inline cells obey the same rules.

use crate::harness::{current, drain, parked, run, times};
use custack::context::{Context, ContextStack, CurrentContext};
use custack::error::CudaError;
use std::collections::VecDeque;

/// More than twice what the cells hold.
const DEPTH: usize = 45;

fn tower(contexts: &[Context; 2]) -> Vec<CurrentContext<'_>> {
    (0..DEPTH).map(|level| contexts[level % 2].enter().unwrap()).collect()
}

#[test]
fn a_snapshot_of_a_deep_stack_has_every_entry() {
    run(|| {
        let contexts = [parked(), parked()];
        let guards = tower(&contexts);
        assert_eq!(ContextStack::depth(), DEPTH);
        let snapshot = ContextStack::snapshot().unwrap();
        let entries: Vec<_> = snapshot.entries().collect();
        assert_eq!(entries.len(), DEPTH);
        for (level, entry) in entries.iter().rev().enumerate() {
            assert_eq!(
                (entry.context, entry.guards),
                (&contexts[level % 2].get_unowned(), 1),
                "level {level}"
            );
        }
        drop(guards);
        assert!(current().is_null() && drain().is_empty());
    });
}

#[test]
fn guards_of_a_deep_stack_are_dropped_in_any_order() {
    // Steps through the guards that are left: from the bottom, by sevens, and by thirteens from the top.
    for (start, step) in [(0, 0), (0, 7), (DEPTH, 13)] {
        run(|| {
            let contexts = [parked(), parked()];
            ContextStack::push(&contexts[0]).unwrap();
            let mut guards = tower(&contexts);
            let mut at = start;
            while !guards.is_empty() {
                at = (at + step) % guards.len();
                let top = guards.last().unwrap().as_raw();
                let (was_top, gone) = (at == guards.len() - 1, guards.remove(at));
                drop(gone);
                // The first guard found its context current and made no entry.
                let expected = if was_top {
                    guards.last().map_or(contexts[0].as_raw(), |top| top.as_raw())
                } else {
                    top
                };
                assert_eq!(current(), expected, "{} guards left", guards.len());
            }
            assert_eq!(drain(), [contexts[0].as_raw()]);
        });
    }
}

#[test]
fn a_deep_entry_is_held_by_its_guard() {
    run(|| {
        let contexts = [parked(), parked()];
        let guards = tower(&contexts);
        assert_eq!(ContextStack::pop().unwrap_err(), CudaError::HeldByGuard);
        for level in 0..DEPTH {
            ContextStack::push(&contexts[level % 2]).unwrap();
        }
        for level in (0..DEPTH).rev() {
            assert_eq!(ContextStack::pop().unwrap(), contexts[level % 2].get_unowned());
        }
        assert_eq!(ContextStack::pop().unwrap_err(), CudaError::HeldByGuard);
        drop(guards);
        assert_eq!(ContextStack::depth(), 0);
    });
}

#[test]
fn pushing_and_popping_at_every_depth_returns_the_right_entry() {
    run(|| {
        let contexts = [parked(), parked()];
        let mut expected = Vec::new();
        // Three up, two down, so that every depth is passed in both directions.
        for step in 0..5 * DEPTH {
            if step % 5 < 3 {
                ContextStack::push(&contexts[(step / 3) % 2]).unwrap();
                expected.push(contexts[(step / 3) % 2].get_unowned());
            } else {
                assert_eq!(Some(ContextStack::pop().unwrap()), expected.pop());
            }
            assert_eq!(ContextStack::depth(), expected.len());
            assert_eq!(CurrentContext::get_current().unwrap(), *expected.last().unwrap());
        }
        while let Some(context) = expected.pop() {
            assert_eq!(ContextStack::pop().unwrap(), context);
        }
    });
}

/// How often the entries of the stack are looked at or changed cannot be counted here, so this is about time: what is quadratic
/// takes hours.
#[test]
fn any_number_of_guards_is_dropped_in_the_order_they_were_made_in() {
    let many = times(20_000, 200_000);
    run(|| {
        let (base, contexts) = (parked(), [parked(), parked()]);
        ContextStack::push(&base).unwrap();
        let mut guards: VecDeque<_> = (0..many).map(|level| contexts[level % 2].enter().unwrap()).collect();
        // A new one for each that goes, as in a queue; then from both ends.
        for level in 0..many {
            drop(guards.pop_front());
            guards.push_back(contexts[level % 2].enter().unwrap());
        }
        while !guards.is_empty() {
            drop(guards.pop_front());
            drop(guards.pop_back());
        }
        assert_eq!(drain(), [base.as_raw()]);
        assert_eq!(ContextStack::depth(), 1);
    });
}

#[test]
fn what_was_destroyed_before_a_scope_stays_after_it_at_any_depth() {
    run(|| {
        let base = parked();
        for below in 0..=9 {
            let (dead, died) = (parked(), parked());
            let (dead_raw, died_raw) = (dead.as_raw(), died.as_raw());
            (0..below).for_each(|_| ContextStack::push(&base).unwrap());
            ContextStack::push(&dead).unwrap();
            ContextStack::push(&died).unwrap();
            // The mirror keeps its upper entries elsewhere than its lower ones.
            (0..8).for_each(|_| ContextStack::push(&base).unwrap());
            (0..8).for_each(|_| assert!(ContextStack::pop().is_ok()));
            drop(died.enter().unwrap());
            drop(dead);
            let handle = died.get_unowned();
            let guard = handle.enter().unwrap();
            drop(died);
            assert_eq!(current(), died_raw, "{below} below");
            drop(guard);
            assert_eq!((current(), ContextStack::depth()), (dead_raw, below + 1), "{below} below");
            drop(base.enter().unwrap());
            assert_eq!((current(), ContextStack::depth()), (dead_raw, below + 1), "{below} below");
            (0..=below).for_each(|_| assert!(ContextStack::pop().is_ok()));
        }
    });
}
