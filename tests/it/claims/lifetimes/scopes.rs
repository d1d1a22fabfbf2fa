//! Scopes whose context is destroyed, also on an ending thread.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::stream_of;
use crate::harness::{current, drain, is_simulated, other, parked, pushed, run_alone, within};
use custack::context::{Context, ContextStack, CurrentContext, wait_until_retired};
use custack::driver::instrument::{self, When};
use custack::error::CudaError;
use custack::event::{Event, EventFlags};
use std::sync::mpsc::channel;

#[test]
fn more_threads_than_any_fixed_table_holds_use_a_context_at_once() {
    run_alone(|| {
        within(60, || {
            let ctx = parked();
            let (stream, event) = (stream_of(&ctx), ctx.scoped(|_| Event::new(EventFlags::DEFAULT)).unwrap());
            let barrier = std::sync::Barrier::new(1_101);
            std::thread::scope(|scope| {
                for _ in 0..1_100 {
                    scope.spawn(|| {
                        ctx.scoped(|_| event.record(&stream)).unwrap();
                        barrier.wait();
                        // All threads are alive and have entered; now each enters again.
                        event.record(&stream).unwrap();
                        barrier.wait();
                    });
                }
                barrier.wait();
                event.record(&stream).unwrap();
                stream.synchronize().unwrap();
                barrier.wait();
            });
            drop((stream, event, ctx));
            wait_until_retired().unwrap();
        });
    });
}

/// The setup of three tests: on a stack of A alone, `act` runs in a scope of B whose owner is dropped first.
fn in_a_scope_of_a_destroyed_context(act: impl Fn(&Context)) {
    let (a, c) = (pushed(), parked());
    let b_owner = parked();
    let b = b_owner.get_unowned();
    b.scoped(|_| {
        drop(b_owner);
        act(&c);
        Ok(())
    })
    .unwrap();
    assert_eq!((current(), ContextStack::depth()), (a.as_raw(), 1));
    assert_eq!(ContextStack::pop().unwrap(), a.get_unowned());
    assert_eq!(drain(), []);
}

#[test]
fn a_push_over_a_scopes_destroyed_context_is_popped_with_the_scope() {
    run_alone(|| {
        in_a_scope_of_a_destroyed_context(|c| ContextStack::push(c).unwrap());
    });
}

#[test]
fn a_scopes_destroyed_context_is_neither_replaced_nor_popped() {
    run_alone(|| {
        let held = Some(CudaError::HeldByGuard);
        in_a_scope_of_a_destroyed_context(|c| assert_eq!(CurrentContext::set_current(c).err(), held));
        in_a_scope_of_a_destroyed_context(|_| assert_eq!(ContextStack::pop().err(), held));
        let none = std::thread::spawn(|| CurrentContext::get_current().unwrap()).join().unwrap();
        in_a_scope_of_a_destroyed_context(|_| assert_eq!(CurrentContext::set_current(&none).err(), held));
    });
}

#[test]
fn a_scope_also_pops_what_was_destroyed_below_it_meanwhile() {
    run_alone(|| {
        let (base, a, b) = (pushed(), pushed(), parked());
        b.scoped(|_| {
            drop(a);
            Ok(())
        })
        .unwrap();
        assert_eq!((current(), ContextStack::depth()), (base.as_raw(), 1), "by this thread");
        let a = pushed();
        b.scoped(|_| {
            std::thread::scope(|scope| scope.spawn(|| drop(a)).join().unwrap());
            Ok(())
        })
        .unwrap();
        assert_eq!((current(), ContextStack::depth()), (base.as_raw(), 1), "by another");
        assert_eq!(drain(), [base.as_raw()]);
    });
}

#[test]
fn a_scope_leaves_what_was_destroyed_before_it() {
    run_alone(|| {
        let (a, b) = (pushed(), parked());
        let raw = a.as_raw();
        std::thread::scope(|scope| scope.spawn(|| drop(a)).join().unwrap());
        b.scoped(|_| Ok(())).unwrap();
        assert_eq!((current(), ContextStack::depth()), (raw, 1), "what it was before");
        assert_eq!(CurrentContext::synchronize(), Err(CudaError::ContextIsDestroyed));
        assert_eq!(drain(), [raw]);
    });
}

#[test]
fn a_scope_of_what_was_current_leaves_what_was_destroyed_before_it() {
    run_alone(|| {
        let (base, a, b) = (pushed(), pushed(), pushed());
        let (raw, handle) = (a.as_raw(), b.get_unowned());
        std::thread::scope(|scope| scope.spawn(|| drop(a)).join().unwrap());
        handle
            .scoped(|_| {
                std::thread::scope(|scope| scope.spawn(|| drop(b)).join().unwrap());
                Ok(())
            })
            .unwrap();
        assert_eq!((current(), ContextStack::depth()), (raw, 2), "b was destroyed meanwhile, a before");
        assert_eq!(drain(), [raw, base.as_raw()]);
    });
}

/// Runs `last` in the destructor of a thread-local, after custack's own thread-locals are destroyed.
pub(super) fn at_the_end_of_a_thread(first: impl FnOnce() + Send, last: impl FnOnce() + Send + 'static) {
    struct AtEnd(Option<Box<dyn FnOnce()>>);
    impl Drop for AtEnd {
        fn drop(&mut self) {
            if let Some(last) = self.0.take() {
                last();
            }
        }
    }
    thread_local! {
        static AT_END: std::cell::RefCell<AtEnd> = const { std::cell::RefCell::new(AtEnd(None)) };
    }
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // Registered before custack's thread-locals, and so destroyed after them.
            AT_END.with(|_| {});
            first();
            AT_END.set(AtEnd(Some(Box::new(last))));
        });
        thread.join().unwrap();
    });
}

#[test]
fn a_guard_holds_its_entry_on_an_ending_thread_too() {
    run_alone(|| {
        let (a, b) = (parked(), parked());
        let (c, d) = (parked(), parked());
        let (tell, told) = channel();
        let at_end = move || {
            let (handle, raw) = (b.get_unowned(), a.as_raw());
            ContextStack::push(&a).unwrap();
            handle
                .scoped(|_| {
                    drop(b);
                    assert_eq!(ContextStack::pop().err(), Some(CudaError::HeldByGuard));
                    assert_eq!(CurrentContext::set_current(&c).err(), Some(CudaError::HeldByGuard));
                    ContextStack::push(&c)
                })
                .unwrap();
            let after = (current() == raw, ContextStack::depth());
            let guard = d.enter().unwrap();
            let held = ContextStack::pop().err();
            drop(guard);
            let popped = ContextStack::pop().unwrap() == a.get_unowned();
            tell.send((after, held, popped, current().is_null())).unwrap();
        };
        at_the_end_of_a_thread(|| drop(CurrentContext::get_current()), at_end);
        assert_eq!(told.recv(), Ok(((true, 1), Some(CudaError::HeldByGuard), true, true)));
        wait_until_retired().unwrap();
    });
}

#[test]
fn a_failed_call_leaves_things_as_they_were_where_a_context_lies_twice() {
    run_alone(|| {
        let (base, ctx) = (pushed(), pushed());
        for times in 1..4 {
            for when in [When::Before, When::After] {
                for code in [1, 201, 719, 999] {
                    let fail = |function| instrument::fail(Some(function), 1, code, when);
                    let error = CudaError::from_code(code);
                    fail("cuCtxPushCurrent_v2");
                    assert_eq!(ContextStack::push(&ctx).err(), error);
                    fail("cuCtxPopCurrent_v2");
                    assert_eq!(ContextStack::pop().err(), error);
                    // A scope ends even if its pop fails.
                    let guard = base.enter().unwrap();
                    fail("cuCtxPopCurrent_v2");
                    drop(guard);
                    let inner = base.enter().unwrap();
                    ContextStack::push(&base).unwrap();
                    fail("cuCtxPopCurrent_v2");
                    drop(inner);
                    instrument::disarm();
                    let stack = drain();
                    let expected = [vec![ctx.as_raw(); times], vec![base.as_raw()]].concat();
                    assert_eq!(stack, expected, "{times} times, {code} {when:?}");
                    stack.iter().rev().for_each(|raw| other::push(*raw));
                    assert_eq!(ContextStack::depth(), times + 1);
                }
            }
            ContextStack::push(&ctx).unwrap();
        }
        while ContextStack::depth() > 0 {
            ContextStack::pop().unwrap();
        }
    });
}

#[test]
fn a_scope_leaves_what_was_destroyed_before_it_whatever_is_made_within_it() {
    run_alone(|| {
        let most = if is_simulated() { 5_000 } else { 5 };
        for made in [0, 1, most] {
            let (old, within, ctx) = (pushed(), pushed(), parked());
            let raw = old.as_raw();
            std::thread::scope(|scope| scope.spawn(|| drop(old)).join().unwrap());
            ctx.scoped(|_| {
                drop(within);
                (0..made).for_each(|_| drop(parked()));
                Ok(())
            })
            .unwrap();
            assert_eq!((current(), ContextStack::depth()), (raw, 1), "{made} were made");
            assert_eq!(ContextStack::pop().unwrap().as_raw(), raw);
        }
    });
}
