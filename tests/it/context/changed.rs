//! Other code changed the stack: what custack does then, and what it takes the current context for.

#![allow(unsafe_code)]

use super::green::green;
use crate::harness::{current, device, drain, is_simulated, other, parked, pushed, run, run_alone, skip};
use custack::context::{Context, ContextStack, CurrentContext, GreenContext, PrimaryContext};
use custack::driver::instrument::{self, When};
use custack::error::CudaError;
use custack::memory::DeviceBuffer;
use custack::sim;
use std::mem;

/// Empties both stacks.
fn emptied() {
    drain();
    while ContextStack::depth() > 0 {
        assert!(ContextStack::pop().is_err());
    }
}

#[test]
fn setting_the_context_of_a_guard_restores_its_entry_where_other_code_covered_or_popped_it() {
    run(|| {
        let (base, own) = (pushed(), other::parked());
        for scopes in [0, 1, 2, 3, 17] {
            for pops in [false, true] {
                let contexts = [parked(), parked()];
                let at = |depth: usize| &contexts[depth % 2];
                let mut guards = vec![base.enter().unwrap()];
                guards.extend((0..scopes).map(|depth| at(depth).enter().unwrap()));
                let top = current();
                if pops && scopes > 0 {
                    assert_eq!(other::pop(), Ok(top))
                } else {
                    other::push(own)
                }
                assert_eq!(CurrentContext::set_current(&**guards.last().unwrap()), Ok(()));
                while let Some(guard) = guards.pop() {
                    assert_eq!(current(), guard.as_raw(), "{scopes} scopes");
                    drop(guard);
                }
                assert_eq!(
                    (drain(), current()),
                    (vec![base.as_raw()], std::ptr::null_mut()),
                    "{scopes} scopes"
                );
                other::push(base.as_raw());
            }
        }
        drain();
        other::destroy(own);
    });
}

#[test]
fn setting_a_context_does_not_replace_a_guards_entry_below_it_at_any_depth() {
    run(|| {
        // The mirror keeps its upper entries elsewhere than its lower ones.
        for scopes in 1..=16 {
            let (a, b, c) = (parked(), parked(), parked());
            let mut guards: Vec<_> =
                (0..scopes).map(|depth| if depth % 2 == 0 { &a } else { &b }.enter().unwrap()).collect();
            (0..9).for_each(|_| ContextStack::push(&c).unwrap());
            (0..8).for_each(|_| assert_eq!(ContextStack::pop(), Ok(c.get_unowned())));
            assert_eq!(other::pop(), Ok(c.as_raw()));
            assert_eq!(CurrentContext::set_current(&c), Err(CudaError::HeldByGuard), "{scopes} scopes");
            assert_eq!(ContextStack::pop().err(), Some(CudaError::HeldByGuard));
            while let Some(guard) = guards.pop() {
                assert!(guard.is_current().unwrap(), "{scopes} scopes");
                drop(guard);
            }
            assert!(current().is_null() && ContextStack::depth() == 0);
        }
    });
}

#[test]
fn what_lies_on_a_guards_entry_is_replaced_although_it_has_the_same_context() {
    run(|| {
        let (ctx, next) = (parked(), parked());
        let guard = ctx.enter().unwrap();
        ContextStack::push(&ctx).unwrap();
        assert_eq!(CurrentContext::set_current(&next), Ok(()));
        assert_eq!(other::pop(), Ok(next.as_raw()));
        other::push(ctx.as_raw());
        assert_eq!(ContextStack::pop(), Ok(ctx.get_unowned()), "other code's, on that of the guard");
        drop(guard);
        assert!(current().is_null());
    });
}

#[test]
fn what_other_code_replaced_below_a_scope_stays_after_it_whatever_it_did_in_the_scope() {
    run(|| {
        for sets in [false, true] {
            let (ctx, inner) = (pushed(), parked());
            let (below, within) = (other::parked(), other::parked());
            other::set(below);
            let guard = inner.enter().unwrap();
            if sets {
                other::set(within);
            }
            drop(guard);
            assert_eq!(current(), below);
            emptied();
            drop((ctx, inner));
            [below, within].into_iter().for_each(other::destroy);
        }
    });
}

#[test]
fn what_other_code_pushed_in_a_scope_goes_with_it_although_custack_never_saw_it() {
    run(|| {
        let ctx = pushed();
        for _ in 0..3 {
            let own = other::parked();
            let guard = ctx.enter().unwrap();
            other::push(own);
            drop(guard);
            assert_eq!((current(), drain()), (ctx.as_raw(), vec![ctx.as_raw()]));
            other::destroy(own);
            other::push(ctx.as_raw());
        }
    });
}

#[test]
fn of_what_other_code_made_current_only_the_latest_has_an_entry() {
    run(|| {
        let contexts = [parked(), parked()];
        other::push(contexts[0].as_raw());
        for ctx in contexts.iter().cycle().take(6) {
            other::set(ctx.as_raw());
            // custack asks what is current ever more rarely.
            (0..600).for_each(|_| ctx.synchronize().unwrap());
            assert_eq!(ContextStack::snapshot().unwrap().entries().len(), 1);
        }
        emptied();
    });
}

#[test]
fn a_context_that_is_to_be_destroyed_is_known_where_other_code_makes_it_current() {
    run(|| {
        let ctx = parked();
        let (handle, raw) = (ctx.get_unowned(), ctx.as_raw());
        let buffer = ctx.scoped(|_| DeviceBuffer::from_slice(&[1u8])).unwrap();
        drop(ctx);
        other::push(raw);
        assert_eq!(CurrentContext::get_current().unwrap(), handle, "memory keeps it");
        assert!(!handle.is_alive());
        assert_eq!(other::pop(), Ok(raw));
        drop(buffer);

        let ctx = parked();
        let (handle, raw) = (ctx.get_unowned(), ctx.as_raw() as usize);
        instrument::wait_in("cuCtxDestroy_v2", move || {
            let look = move || {
                other::push(raw as _);
                assert_eq!(CurrentContext::get_current().unwrap(), handle, "it is being destroyed");
                assert_eq!(other::pop(), Ok(raw as _));
            };
            std::thread::spawn(look).join().unwrap();
        });
        drop(ctx);
    });
}

#[test]
fn where_the_driver_does_not_say_whether_a_context_is_destroyed_a_dead_one_is_not_taken_for_alive() {
    run(|| {
        let fail = || instrument::fail(Some("cuCtxGetApiVersion"), 1, 999, When::Before);
        let alive = other::create();
        fail();
        let current = CurrentContext::get_current().unwrap();
        assert!(current.is_alive(), "the driver has it");
        assert_eq!((other::pop(), current.as_raw()), (Ok(alive), alive));

        let dead = other::create();
        other::push(dead);
        other::destroy(dead);
        let current = CurrentContext::get_current().unwrap();
        assert!(!current.is_alive() && current.as_raw() == dead);
        fail();
        assert_eq!(CurrentContext::get_current().err(), Some(CudaError::UnknownError));
        assert_eq!(drain(), [dead]);
        // Not before: a driver may give the next context its handle.
        other::destroy(alive);
    });
}

#[test]
fn a_green_context_that_other_code_made_current_is_taken_when_its_owner_enters_it() {
    let entered_elsewhere = |green: &mut GreenContext| {
        std::thread::scope(|scope| scope.spawn(|| green.enter().map(drop)).join().unwrap())
    };
    run(|| {
        for found in [true, false] {
            let (mut green, below): (_, Context) = (green(), parked());
            let handle = green.handle().clone();
            if !found {
                ContextStack::push(&below).unwrap();
            }
            other::push(green.as_raw_context());
            if found {
                // Once custack has asked what is current, it has an entry.
                assert!((0..300).any(|_| handle.synchronize().is_ok()));
                assert_eq!(ContextStack::depth(), 1);
            }
            mem::forget(green.enter().unwrap());
            assert_eq!(entered_elsewhere(&mut green), Err(CudaError::HeldByGuard), "found: {found}");
            // The guard of the leaked scope holds its entry until this thread ends.
            drain();
        }
    });
}

#[test]
fn a_scope_says_which_context_it_expected_to_be_current() {
    run(|| {
        let (ctx, own) = (pushed(), other::parked());
        other::push(own);
        let said = crate::report::reported(|| drop(ctx.enter().unwrap()));
        assert_eq!(said.len(), 1, "{said:?}");
        let expected = format!("{ctx} should be current and is not");
        assert!(said[0].1.starts_with(&expected), "{said:?}");
        assert_eq!((drain(), current()), (vec![own, ctx.as_raw()], std::ptr::null_mut()));
        emptied();
        other::destroy(own);
    });
}

#[test]
fn what_a_guard_has_found_current_stays_when_this_thread_destroys_it() {
    run(|| {
        let ctx = parked();
        let (handle, raw) = (ctx.get_unowned(), ctx.as_raw());
        other::push(raw);
        // Once custack has asked what is current, it has an entry.
        assert!(
            (0..300)
                .any(|_| ctx.scoped(|_| Ok(ContextStack::depth())) == Ok(1) && ContextStack::depth() == 1)
        );
        let guard = handle.enter().unwrap();
        drop(ctx);
        assert_eq!((current(), ContextStack::depth()), (raw, 1));
        drop(guard);
        assert!(current().is_null());
        emptied();
    });
}

#[test]
fn a_destroyed_context_that_other_code_popped_is_replaced_by_no_other() {
    if !is_simulated() {
        let test = "a_destroyed_context_that_other_code_popped_is_replaced_by_no_other";
        return skip(test, "a GPU's driver does not tell how deep its stack is");
    }
    run_alone(|| {
        let (gone, inner) = (parked(), parked());
        let primary = PrimaryContext::retain(device()).unwrap();
        ContextStack::push(&gone).unwrap();
        ContextStack::push(&primary).unwrap();
        let guard = inner.enter().unwrap();
        std::thread::spawn(move || drop(gone)).join().unwrap();
        assert_eq!(drain().len(), 3);
        drop(guard);
        assert_eq!((current(), sim::depth()), (primary.as_raw(), 1));
        assert_eq!(drain(), [primary.as_raw()]);
        emptied();
    });
}

#[test]
fn of_several_entries_of_a_context_that_memory_keeps_those_stay_that_other_code_has_left() {
    if !is_simulated() {
        let test = "of_several_entries_of_a_context_that_memory_keeps_those_stay_that_other_code_has_left";
        return skip(test, "a GPU's driver does not tell how deep its stack is");
    }
    run(|| {
        let (added, next) = ([parked(), parked()], parked());
        for entries in 2..8 {
            let ctx = parked();
            let raw = ctx.as_raw();
            let kept = ctx.device_buffer(&[1u8]).unwrap();
            (0..entries).for_each(|_| ContextStack::push(&ctx).unwrap());
            std::thread::spawn(move || drop(ctx)).join().unwrap();
            assert_eq!(other::pop(), Ok(raw));
            added.iter().for_each(|it| other::push(it.as_raw()));
            instrument::fail(Some("cuCtxPushCurrent_v2"), 1, 999, When::Before);
            assert_eq!(ContextStack::push(&next), Err(CudaError::UnknownError));
            assert_eq!(drain(), vec![raw; entries - 1], "of {entries}");
            emptied();
            drop(kept);
        }
    });
}
