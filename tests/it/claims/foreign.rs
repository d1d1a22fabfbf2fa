//! Other code in the process changes the stack behind custack's back.

use crate::harness::{current, drain, other, parked, pushed, run};
use custack::context::{Context, ContextStack, CurrentContext, Origin};
use custack::driver::instrument;
use custack::error::CudaError;

/// A scope around something that cannot fail.
#[track_caller]
fn within(ctx: &Context, f: impl FnOnce()) {
    let done = ctx.scoped(|_| {
        f();
        Ok(())
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn a_foreign_context_is_identified_as_foreign_and_usable() {
    run(|| {
        let raw = other::create();
        let met = CurrentContext::get_current().unwrap();
        assert_eq!((met.as_raw(), met.origin()), (raw, Origin::Foreign));
        assert_eq!(CurrentContext::get_current().unwrap(), met, "registered once");
        met.synchronize().unwrap();
        assert!(met.to_string().contains("foreign"), "{met}");
        other::destroy(raw);
    });
}

#[test]
fn saving_and_restoring_works_for_a_foreign_context() {
    run(|| {
        let raw = other::create();
        let ctx = parked();
        let saved = CurrentContext::get_current().unwrap();
        CurrentContext::set_current(&ctx).unwrap();
        CurrentContext::set_current(&saved).unwrap();
        assert_eq!(current(), raw);
        other::destroy(raw);
        assert!(current().is_null());
    });
}

#[test]
fn a_scope_over_a_foreign_context_restores_it() {
    run(|| {
        let raw = other::create();
        let ctx = parked();
        within(&ctx, || assert_eq!(current(), ctx.as_raw()));
        assert_eq!(drain(), [raw]);
        other::destroy(raw);
    });
}

#[test]
fn a_context_that_other_code_made_current_is_entered_and_left() {
    run(|| {
        let ctx = parked();
        other::push(ctx.as_raw());
        assert_eq!(CurrentContext::get_current().unwrap(), ctx.get_unowned());
        ctx.synchronize().unwrap();
        assert_eq!(drain(), [ctx.as_raw()]);
    });
}

#[test]
fn a_set_within_a_scope_is_undone_when_it_ends() {
    run(|| {
        let (a, b, base) = (parked(), parked(), pushed());
        within(&a, || other::set(b.as_raw()));
        assert_eq!(current(), base.as_raw());
        assert_eq!(drain(), [base.as_raw()]);
    });
}

#[test]
fn a_push_left_in_a_scope_is_taken_off_when_it_ends() {
    run(|| {
        let (a, b, base) = (parked(), parked(), pushed());
        within(&a, || other::push(b.as_raw()));
        assert_eq!(drain(), [base.as_raw()]);
    });
}

#[test]
fn a_push_left_in_a_scope_from_an_empty_stack_is_taken_off_too() {
    run(|| {
        let (a, b) = (parked(), parked());
        within(&a, || other::push(b.as_raw()));
        assert!(current().is_null());
    });
}

#[test]
fn two_pushes_left_in_a_scope_leave_the_right_context_current() {
    run(|| {
        let (a, b, c, base) = (parked(), parked(), parked(), pushed());
        a.scoped(|_| {
            other::push(b.as_raw());
            other::push(c.as_raw());
            Ok(())
        })
        .unwrap();
        assert_eq!(current(), base.as_raw(), "how deep the stack is cannot be known");
        drain();
    });
}

#[test]
fn a_pop_within_a_scope_is_undone_when_it_ends() {
    run(|| {
        let (a, base) = (parked(), pushed());
        within(&a, || assert_eq!(other::pop(), Ok(a.as_raw())));
        assert_eq!(current(), base.as_raw());
        assert_eq!(drain(), [base.as_raw()]);
    });
}

#[test]
fn a_scope_survives_a_pop_of_everything() {
    run(|| {
        let a = parked();
        within(&a, || assert_eq!(drain(), [a.as_raw()]));
        assert!(current().is_null());
        assert_eq!(ContextStack::depth(), 0);
    });
}

#[test]
fn a_scope_whose_context_was_replaced_is_entered_anew() {
    run(|| {
        let (a, b) = (pushed(), parked());
        other::set(b.as_raw());
        within(&a, || assert_eq!(current(), a.as_raw()));
        assert_eq!(current(), b.as_raw());
        drain();
    });
}

#[test]
fn a_snapshot_shows_that_other_code_changed_the_stack() {
    run(|| {
        let (a, b) = (pushed(), parked());
        other::set(b.as_raw());
        let snapshot = ContextStack::snapshot().unwrap();
        assert!(!snapshot.agrees());
        assert_eq!(snapshot.current(), &b.get_unowned());
        assert!(snapshot.to_string().contains("other code has changed the stack"), "{snapshot}");
        other::set(a.as_raw());
        assert!(ContextStack::snapshot().unwrap().agrees());
        drain();
    });
}

#[test]
fn pop_returns_what_other_code_pushed() {
    run(|| {
        let (a, b) = (pushed(), parked());
        other::push(b.as_raw());
        assert_eq!(ContextStack::pop().unwrap(), b.get_unowned());
        assert_eq!(ContextStack::depth(), 1);
        assert_eq!(ContextStack::pop().unwrap(), a.get_unowned());
        assert_eq!(ContextStack::depth(), 0);
    });
}

#[test]
fn pop_returns_what_other_code_replaced_our_entry_with() {
    run(|| {
        let (_a, b) = (pushed(), parked());
        other::set(b.as_raw());
        assert_eq!(ContextStack::pop().unwrap(), b.get_unowned());
        assert_eq!(ContextStack::depth(), 0);
        assert!(current().is_null());
    });
}

#[test]
fn pop_returns_a_foreign_context_when_the_shadow_stack_is_empty() {
    run(|| {
        let raw = other::create();
        let popped = ContextStack::pop().unwrap();
        assert_eq!((popped.as_raw(), popped.origin()), (raw, Origin::Foreign));
        ContextStack::push(&popped).unwrap();
        assert_eq!(drain(), [raw]);
        other::destroy(raw);
    });
}

#[test]
fn a_stale_foreign_context_is_identified_as_destroyed() {
    run(|| {
        let a = other::create();
        let b = other::create();
        other::destroy(a);
        assert_eq!(other::pop(), Ok(b));
        let met = CurrentContext::get_current().unwrap();
        assert!(!met.is_alive() && met.as_raw() == a);
        assert_eq!(ContextStack::push(&met), Err(CudaError::ContextIsDestroyed));
        drain();
        other::destroy(b);
    });
}

#[test]
fn a_foreign_context_destroyed_within_our_scope_leaves_it_usable() {
    run(|| {
        let ctx = parked();
        ctx.scoped(|current| {
            let raw = other::create();
            other::destroy(raw);
            current.synchronize()
        })
        .unwrap();
        assert!(current().is_null());
    });
}

#[test]
fn guards_restore_over_foreign_changes_in_nested_scopes() {
    run(|| {
        let (a, b, f) = (parked(), parked(), parked());
        a.scoped(|_| {
            other::set(f.as_raw());
            within(&b, || assert_eq!(current(), b.as_raw()));
            Ok(())
        })
        .unwrap();
        assert!(current().is_null());
    });
}

#[test]
fn a_foreign_change_costs_a_few_calls_and_no_guessing() {
    run(|| {
        let (a, f, base) = (parked(), parked(), pushed());
        let guard = a.enter().unwrap();
        other::set(f.as_raw());
        let (_, calls) = instrument::during(|| drop(guard));
        assert_eq!(calls.to_string(), "cuCtxPopCurrent_v2, cuCtxGetCurrent");
        assert_eq!(drain(), [base.as_raw()]);
    });
}
