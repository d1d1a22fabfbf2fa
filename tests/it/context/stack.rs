//! `ContextStack`, `get_current` and `set_current` behave exactly as the driver's functions.

use crate::harness::{current, drain, parked, pushed, run};
use custack::context::{ContextStack, CurrentContext, How};
use custack::error::CudaError;

#[test]
fn pop_returns_what_was_pushed() {
    run(|| {
        let (a, b) = (parked(), parked());
        ContextStack::push(&a).unwrap();
        ContextStack::push(&b.get_unowned()).unwrap();
        assert_eq!(ContextStack::pop().unwrap(), b.get_unowned());
        assert_eq!(ContextStack::pop().unwrap(), a.get_unowned());
    });
}

#[test]
fn the_same_context_may_be_pushed_many_times() {
    run(|| {
        let ctx = parked();
        for depth in 1..=100 {
            ContextStack::push(&ctx).unwrap();
            assert_eq!(ContextStack::depth(), depth);
        }
        for _ in 0..100 {
            assert_eq!(ContextStack::pop().unwrap(), ctx.get_unowned());
        }
        assert!(current().is_null());
    });
}

#[test]
fn pop_of_an_empty_stack_is_an_error() {
    run(|| {
        let error = ContextStack::pop().unwrap_err();
        assert_eq!(error, CudaError::InvalidContext);
        assert!(crate::harness::said(error).contains("empty stack"), "{error}");
        assert_eq!(ContextStack::depth(), 0);
    });
}

#[test]
fn a_popped_context_can_be_current_on_another_thread() {
    run(|| {
        let ctx = pushed();
        let popped = ContextStack::pop().unwrap();
        std::thread::spawn(move || {
            ContextStack::push(&popped).unwrap();
            assert_eq!(CurrentContext::get_current().unwrap(), popped);
            ContextStack::pop().unwrap();
        })
        .join()
        .unwrap();
        assert!(ctx.is_alive());
    });
}

#[test]
fn get_current_without_a_context_is_a_null_handle() {
    run(|| {
        let none = CurrentContext::get_current().unwrap();
        assert!(none.is_null() && !none.is_alive());
        assert_eq!(none, CurrentContext::get_current().unwrap());
        assert_eq!((none.id(), none.to_string()), (0, "no context".to_owned()));
    });
}

#[test]
fn set_current_makes_the_first_entry_and_then_replaces() {
    run(|| {
        let (a, b) = (parked(), parked());
        CurrentContext::set_current(&a).unwrap();
        CurrentContext::set_current(&b).unwrap();
        assert_eq!(ContextStack::depth(), 1);
        assert_eq!(drain(), [b.as_raw()]);
    });
}

#[test]
fn set_current_replaces_only_the_top() {
    run(|| {
        let (a, b, c) = (pushed(), pushed(), parked());
        CurrentContext::set_current(&c).unwrap();
        assert_eq!(drain(), [c.as_raw(), a.as_raw()]);
        assert!(b.is_alive());
    });
}

#[test]
fn set_current_of_null_unbinds() {
    run(|| {
        let none = CurrentContext::get_current().unwrap();
        let (a, _b) = (pushed(), pushed());
        CurrentContext::set_current(&none).unwrap();
        assert_eq!(CurrentContext::get_current().unwrap(), a.get_unowned());
        CurrentContext::set_current(&none).unwrap();
        CurrentContext::set_current(&none).unwrap();
        assert!(current().is_null());
        assert_eq!(ContextStack::depth(), 0);
    });
}

#[test]
fn saving_and_restoring_what_is_current_works_for_none_too() {
    run(|| {
        let ctx = parked();
        let saved = CurrentContext::get_current().unwrap();
        CurrentContext::set_current(&ctx).unwrap();
        CurrentContext::set_current(&saved).unwrap();
        assert!(current().is_null());
    });
}

#[test]
fn set_current_then_pop_balances_on_an_empty_stack() {
    run(|| {
        let ctx = parked();
        CurrentContext::set_current(&ctx).unwrap();
        assert_eq!(ContextStack::pop().unwrap(), ctx.get_unowned());
        assert!(current().is_null());
    });
}

#[test]
fn get_current_equals_the_handles_of_the_owner() {
    run(|| {
        let ctx = pushed();
        let got = CurrentContext::get_current().unwrap();
        assert_eq!(got, ctx.get_unowned());
        assert_eq!(got.as_raw(), ctx.as_raw());
        drop(ContextStack::pop());
    });
}

#[test]
fn pop_returns_a_destroyed_context_as_the_driver_does() {
    run(|| {
        let a = pushed();
        let b = pushed();
        let handle = a.get_unowned();
        drop(a);
        assert_eq!(ContextStack::pop().unwrap(), b.get_unowned());
        assert_eq!(CurrentContext::get_current().unwrap(), handle, "stale, and identified as such");
        assert_eq!(CurrentContext::synchronize(), Err(CudaError::ContextIsDestroyed));
        assert_eq!(ContextStack::pop().unwrap(), handle);
        assert!(current().is_null());
    });
}

#[test]
fn a_stale_current_context_is_replaced_by_set_current() {
    run(|| {
        let (a, b) = (pushed(), parked());
        std::thread::scope(|scope| {
            scope.spawn(|| drop(a));
        });
        CurrentContext::set_current(&b).unwrap();
        assert_eq!(drain(), [b.as_raw()]);
    });
}

#[test]
fn an_empty_snapshot_says_that_the_stack_is_empty() {
    run(|| {
        let snapshot = ContextStack::snapshot().unwrap();
        assert_eq!(snapshot.entries().len(), 0);
        assert!(snapshot.agrees() && snapshot.current().is_null());
        assert_eq!(snapshot.to_string(), "the context stack of thread test is empty");
    });
}

#[test]
fn a_snapshot_says_how_each_entry_was_made() {
    run(|| {
        let (a, b) = (pushed(), parked());
        ContextStack::push(&b).unwrap();
        ContextStack::push(&a).unwrap();
        CurrentContext::set_current(&b).unwrap();
        let snapshot = ContextStack::snapshot().unwrap();
        let hows: Vec<_> = snapshot.entries().map(|entry| entry.how).collect();
        assert_eq!(hows, [How::Set, How::Pushed, How::Created]);
        let text = snapshot.to_string();
        assert!(text.contains("stack.rs:") && text.contains("created at"), "{text}");
        assert_eq!(text.lines().count(), 4);
        drain();
    });
}

#[test]
fn bind_sets_once() {
    run(|| {
        let ctx = parked();
        ctx.bind().unwrap();
        ctx.bind().unwrap();
        assert_eq!(ContextStack::depth(), 1);
        assert!(ctx.is_current().unwrap());
        assert_eq!(drain(), [ctx.as_raw()]);
        assert!(!ctx.is_current().unwrap());
    });
}
