//! A green context is on one thread's stack at a time, and may be entered again as soon as it is on none.

// Plays a program that keeps the owner apart from its guards.
#![allow(unsafe_code)]

use super::green::green;
use crate::harness::{current, drain, is_simulated, other, parked, run};
use custack::context::{
    Context, ContextStack, CurrentContext, CurrentGreenContext, GreenContext, UnownedContext,
};
use custack::driver::instrument::{self, When};
use custack::error::CudaError;
use std::cell::RefCell;
use std::mem;
use std::sync::mpsc::{Receiver, Sender, channel};

/// What another thread gets that enters it.
fn entered_elsewhere(green: &mut GreenContext) -> Result<(), CudaError> {
    std::thread::scope(|scope| scope.spawn(|| green.enter().map(drop)).join().unwrap())
}

fn is_on_this_stack(green: &GreenContext) -> bool {
    let snapshot = ContextStack::snapshot().unwrap();
    snapshot.entries().any(|entry| entry.context == green.handle())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Of the green context: by its owner the first time, by its handle then.
    Green,
    Other,
    Third,
}

/// All sequences of this length.
fn sequences(length: usize) -> Vec<Vec<Scope>> {
    let mut all = vec![vec![]];
    for _ in 0..length {
        let longer = all.iter().flat_map(|begun: &Vec<Scope>| {
            [Scope::Green, Scope::Other, Scope::Third].map(|next| [&begun[..], &[next]].concat())
        });
        all = longer.collect();
    }
    all
}

/// All orders of the numbers below `count`.
fn orders(count: usize) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for number in 0..count {
        let longer = all.iter().flat_map(|order: &Vec<usize>| {
            (0..=order.len()).map(move |at| [&order[..at], &[number], &order[at..]].concat())
        });
        all = longer.collect();
    }
    all
}

enum Guard<'a> {
    OfOwner {
        _it: CurrentGreenContext<'a>,
    },
    ByHandle {
        _it: CurrentContext<'a>,
    },
    /// Of the handle, where it was not current: refused.
    Refused,
    Gone,
}

/// Enters in this sequence and leaves in this order; another thread looks at each step.
fn enter_and_leave(
    green: &mut GreenContext,
    contexts: [&UnownedContext; 2],
    scopes: &[Scope],
    order: &[usize],
) {
    let handle = green.handle().clone();
    let owner: *mut GreenContext = green;
    let mut guards = Vec::new();
    for scope in scopes {
        guards.push(match scope {
            Scope::Other => Guard::ByHandle { _it: contexts[0].enter().unwrap() },
            Scope::Third => Guard::ByHandle { _it: contexts[1].enter().unwrap() },
            Scope::Green if guards.iter().any(|it| matches!(it, Guard::OfOwner { .. })) => {
                match handle.enter() {
                    Ok(guard) => Guard::ByHandle { _it: guard },
                    Err(error) => {
                        assert_eq!(error, CudaError::NotPermitted);
                        Guard::Refused
                    }
                }
            }
            // SAFETY: the owner is not used by reference while this guard lives.
            Scope::Green => Guard::OfOwner { _it: unsafe { &mut *owner }.enter().unwrap() },
        });
    }
    for at in order {
        guards[*at] = Guard::Gone;
        if !guards.iter().any(|it| matches!(it, Guard::OfOwner { .. })) {
            // SAFETY: no guard borrows the owner any more.
            let green = unsafe { &mut *owner };
            let expected = if is_on_this_stack(green) { Err(CudaError::HeldByGuard) } else { Ok(()) };
            let held = scopes
                .iter()
                .zip(&guards)
                .any(|(scope, guard)| *scope == Scope::Green && matches!(guard, Guard::ByHandle { .. }));
            assert!(!held || expected.is_err(), "a guard holds it: {scopes:?}, {order:?}");
            assert_eq!(entered_elsewhere(green), expected, "{scopes:?}, {order:?} at {at}");
        }
    }
    assert!(ContextStack::depth() == 0 && current().is_null(), "{scopes:?}, {order:?}");
    assert_eq!(entered_elsewhere(green), Ok(()), "{scopes:?}, {order:?}");
}

#[test]
fn it_may_be_entered_elsewhere_exactly_while_it_is_on_no_stack_whatever_order_guards_are_dropped_in() {
    run(|| {
        let (mut green, other, third) = (green(), parked(), parked());
        let length = if is_simulated() { 4 } else { 3 };
        for scopes in sequences(length) {
            for order in orders(length) {
                enter_and_leave(&mut green, [&other, &third], &scopes, &order);
            }
        }
    });
}

#[test]
fn a_guard_by_its_handle_holds_it_when_the_owner_s_is_dropped() {
    run(|| {
        let mut green = green();
        let handle = green.handle().clone();
        let by_owner = green.enter().unwrap();
        let by_handle = handle.enter().unwrap();
        drop(by_owner);
        let error = std::thread::scope(|scope| {
            scope.spawn(|| crate::harness::said(green.enter().map(drop).unwrap_err())).join().unwrap()
        });
        assert!(error.contains("still on the stack of another thread"), "{error}");
        drop(green.enter().expect("this thread has it"));
        drop(by_handle);
        assert_eq!(entered_elsewhere(&mut green), Ok(()));
    });
}

#[test]
fn a_destroyed_context_above_it_keeps_it_as_long_as_its_guard_lives() {
    run(|| {
        let (mut green, above) = (green(), parked());
        let handle = above.get_unowned();
        let by_owner = green.enter().unwrap();
        let tombstone = handle.enter().unwrap();
        drop(above);
        drop(by_owner);
        assert_eq!(entered_elsewhere(&mut green), Err(CudaError::HeldByGuard));
        drop(tombstone);
        assert_eq!(entered_elsewhere(&mut green), Ok(()));
        assert!(current().is_null());
    });
}

#[test]
fn a_panic_in_scopes_leaves_it() {
    run(|| {
        let (mut green, other) = (green(), parked());
        let scopes = || -> Result<(), CudaError> {
            green.scoped(|_| other.scoped(|_| -> Result<(), CudaError> { panic!("in the scopes") }))
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(scopes)).is_err());
        assert_eq!(entered_elsewhere(&mut green), Ok(()));
    });
}

#[test]
fn one_that_was_not_entered_or_could_not_be_left_is_told_by_what_is_on_the_stack() {
    run(|| {
        let mut green = green();
        for when in [When::Before, When::After] {
            for times in 1..4 {
                instrument::fail_times(Some("cuCtxPushCurrent_v2"), 1, times, 999, when);
                assert_eq!(green.enter().map(drop).unwrap_err(), CudaError::UnknownError);
                instrument::disarm();
                assert_eq!(entered_elsewhere(&mut green), Ok(()), "push, {when:?}, {times} times");

                let guard = green.enter().unwrap();
                instrument::fail_times(Some("cuCtxPopCurrent_v2"), 1, times, 999, when);
                drop(guard);
                instrument::disarm();
                let left = is_on_this_stack(&green);
                assert_eq!(!current().is_null(), left, "pop, {when:?}, {times} times");
                let expected = if left { Err(CudaError::HeldByGuard) } else { Ok(()) };
                assert_eq!(entered_elsewhere(&mut green), expected, "pop, {when:?}, {times} times");
                if left {
                    assert_eq!(ContextStack::pop().unwrap(), *green.handle());
                    assert_eq!(entered_elsewhere(&mut green), Ok(()), "{when:?}, {times} times");
                }
            }
        }
    });
}

#[test]
fn where_other_code_made_it_current_a_scope_leaves_it_all_the_same() {
    run(|| {
        let mut green = green();
        let handle = green.handle().clone();
        other::push(green.as_raw_context());
        for _ in 0..20 {
            let guard = green.enter().unwrap();
            drop(handle.enter().unwrap());
            drop(guard);
            assert_eq!(current(), green.as_raw_context());
            assert_eq!(entered_elsewhere(&mut green), Ok(()));
        }
        assert_eq!(drain(), [green.as_raw_context()]);
    });
}

#[test]
fn a_later_context_is_free_although_a_thread_has_its_predecessor_on_the_stack() {
    run(|| {
        for _ in 0..10 {
            let mut gone = green();
            mem::forget(gone.enter().unwrap());
            drop(gone);
            let mut next = green();
            assert_eq!(entered_elsewhere(&mut next), Ok(()));
            drop(next.enter().unwrap());
            let ((tell, told), (go, wait)) = (channel(), channel::<()>());
            std::thread::scope(|scope| {
                let next = &mut next;
                scope.spawn(move || {
                    let guard = next.enter().unwrap();
                    tell.send(()).unwrap();
                    wait.recv().unwrap();
                    drop(guard);
                });
                told.recv().unwrap();
                // The predecessor goes off this thread's stack, which does not touch what the other thread has.
                drain();
                assert_eq!(ContextStack::pop().map(drop), Err(CudaError::HeldByGuard));
                go.send(()).unwrap();
            });
            assert_eq!(entered_elsewhere(&mut next), Ok(()));
        }
    });
}

#[test]
fn one_that_a_failed_call_left_on_the_stack_is_not_entered_elsewhere() {
    run(|| {
        let mut green = green();
        let base = parked();
        for below in [false, true] {
            for (nth, times) in (1..=4).flat_map(|nth| (1..=8).map(move |times| (nth, times))) {
                for when in [When::Before, When::After] {
                    let name = format!("{below}, {times} calls from {nth}, {when:?}");
                    if below {
                        ContextStack::push(&base).unwrap();
                    }
                    instrument::fail_times(None, nth, times, 999, when);
                    drop(green.enter());
                    instrument::disarm();
                    let left = current() == green.as_raw_context();
                    let elsewhere = entered_elsewhere(&mut green);
                    assert!(!left || elsewhere == Err(CudaError::HeldByGuard), "{name}: {elsewhere:?}");
                    // The next call restores the stack.
                    let now = CurrentContext::get_current().unwrap();
                    assert_eq!((now.as_raw(), ContextStack::depth()), (current(), below.into()), "{name}");
                    assert_eq!(entered_elsewhere(&mut green), Ok(()), "{name}");
                    assert_eq!(drain().len(), usize::from(below), "{name}");
                    (0..ContextStack::depth()).for_each(|_| drop(ContextStack::pop()));
                }
            }
        }
    });
}

/// In its destructor it does this with what it has.
struct Late(RefCell<Option<Box<dyn FnOnce()>>>);

impl Drop for Late {
    fn drop(&mut self) {
        if let Some(at_last) = self.0.take() {
            at_last();
        }
    }
}

thread_local! {
    static LATE: Late = const { Late(RefCell::new(None)) };
}

/// A thread that forgets a guard of it, in the destructor of a thread-local or before; it sends the owner from that destructor
/// and waits there. `first` says whether the thread-local is made before custack's, and so destroyed after them.
fn forgetful(
    first: bool,
    in_destructor: bool,
) -> (std::thread::JoinHandle<()>, Receiver<GreenContext>, Sender<()>) {
    let (tell, told) = channel();
    let (go, wait) = channel();
    let thread = std::thread::spawn(move || {
        let touch = || LATE.with(|_| ());
        if first {
            touch();
        }
        let mut green = green();
        drop(green.enter().unwrap());
        touch();
        if !in_destructor {
            mem::forget(green.enter().unwrap());
        }
        LATE.with(|late| {
            *late.0.borrow_mut() = Some(Box::new(move || {
                if in_destructor {
                    mem::forget(green.enter().unwrap());
                }
                tell.send(green).unwrap();
                wait.recv().unwrap();
            }));
        });
    });
    (thread, told, go)
}

#[test]
fn a_thread_that_forgot_a_guard_has_it_until_it_ends_whatever_of_it_is_destroyed_already() {
    run(|| {
        for (first, in_destructor) in [(true, true), (true, false), (false, true), (false, false)] {
            let (thread, told, go) = forgetful(first, in_destructor);
            let mut green = told.recv().unwrap();
            let error = green.enter().map(drop).unwrap_err();
            assert_eq!(error, CudaError::HeldByGuard, "{first}, {in_destructor}");
            assert!(current().is_null());
            go.send(()).unwrap();
            thread.join().unwrap();
            // Elsewhere the end of a thread cannot be told from that of its thread-locals.
            let expected = if cfg!(unix) { Ok(()) } else { Err(CudaError::HeldByGuard) };
            assert_eq!(green.enter().map(drop), expected, "{first}, {in_destructor}");
            assert_eq!(entered_elsewhere(&mut green), expected);
        }
    });
}

#[test]
fn what_an_ending_thread_left_properly_is_free_at_once() {
    run(|| {
        for first in [true, false] {
            let (tell, told) = channel();
            let (go, wait) = channel::<()>();
            let thread = std::thread::spawn(move || {
                if first {
                    LATE.with(|_| ());
                }
                let (mut green, mut owner) = (green(), Some(parked()));
                drop(green.enter().unwrap());
                LATE.with(|late| {
                    *late.0.borrow_mut() = Some(Box::new(move || {
                        let above: Context = owner.take().unwrap();
                        let guard = green.enter().unwrap();
                        let later = above.enter().unwrap();
                        drop(guard);
                        drop(later);
                        tell.send(green).unwrap();
                        wait.recv().unwrap();
                    }));
                });
            });
            let mut green = told.recv().unwrap();
            assert_eq!(green.enter().map(drop), Ok(()), "{first}");
            go.send(()).unwrap();
            thread.join().unwrap();
        }
    });
}
