//! `enter`, `scoped`, and guards dropped in every order.

use crate::harness::{current, drain, is_simulated, parked, pushed, run, run_alone, skip};
use custack::context::{Context, ContextStack, CurrentContext, How};
use custack::error::CudaError;
use custack::memory::DeviceBuffer;
use custack::sim;
use std::cell::RefCell;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn top_is(ctx: &Context) -> bool {
    current() == ctx.as_raw()
}

#[test]
fn entering_makes_current_and_leaving_restores_none() {
    run(|| {
        let ctx = parked();
        let guard = ctx.enter().unwrap();
        assert!(top_is(&ctx));
        drop(guard);
        assert!(current().is_null());
    });
}

#[test]
fn entering_makes_current_and_leaving_restores_another() {
    run(|| {
        let a = parked();
        let b = pushed();
        drop(a.enter().unwrap());
        assert!(top_is(&b));
        assert_eq!(drain(), [b.as_raw()]);
    });
}

#[test]
fn nested_scopes_restore_each() {
    run(|| {
        let (a, b, c) = (parked(), parked(), parked());
        a.scoped(|_| {
            b.scoped(|_| {
                c.scoped(|_| {
                    assert!(top_is(&c));
                    Ok(())
                })?;
                assert!(top_is(&b));
                Ok(())
            })?;
            assert!(top_is(&a));
            Ok(())
        })
        .unwrap();
        assert!(current().is_null());
    });
}

#[test]
fn entering_what_is_current_adds_no_entry() {
    run(|| {
        let ctx = pushed();
        let outer = ctx.enter().unwrap();
        let inner = ctx.enter().unwrap();
        assert_eq!(ContextStack::depth(), 1);
        drop((inner, outer));
        assert_eq!(drain(), [ctx.as_raw()]);
    });
}

#[test]
fn a_thousand_nested_scopes_of_two_contexts_leave_nothing() {
    run(|| {
        fn nest(a: &Context, b: &Context, left: usize) {
            if left > 0 {
                a.scoped(|_| {
                    assert!(top_is(a));
                    nest(b, a, left - 1);
                    assert!(top_is(a));
                    Ok(())
                })
                .unwrap();
            }
        }
        let (a, b) = (parked(), parked());
        nest(&a, &b, 1000);
        assert_eq!(ContextStack::depth(), 0);
        assert!(current().is_null());
    });
}

#[test]
fn an_outer_guard_dropped_first_leaves_the_inner_one_current() {
    run(|| {
        let (a, b) = (parked(), parked());
        let outer = a.enter().unwrap();
        let inner = b.enter().unwrap();
        drop(outer);
        assert!(top_is(&b));
        drop(inner);
        assert!(current().is_null());
        assert_eq!(ContextStack::depth(), 0);
    });
}

#[test]
fn every_order_of_four_guards_ends_with_the_stack_as_it_was() {
    run(|| {
        let base = pushed();
        let (a, b) = (parked(), parked());
        for order in orders(4) {
            let contexts = [&a, &b, &b, &a];
            let mut guards: Vec<_> = contexts.iter().map(|ctx| Some(ctx.enter().unwrap())).collect();
            for at in order {
                guards[at] = None;
                let top = (0..4).rev().find(|at| guards[*at].is_some());
                let expected = top.map_or(&base, |at| contexts[at]);
                assert!(top_is(expected), "the topmost living guard's context is current");
            }
            assert_eq!(ContextStack::depth(), 1);
        }
        assert_eq!(drain(), [base.as_raw()]);
    });
}

fn orders(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![vec![]];
    }
    let shorter = orders(n - 1).into_iter();
    shorter
        .flat_map(|order| {
            (0..n).map(move |at| {
                let mut longer = order.clone();
                longer.insert(at, n - 1);
                longer
            })
        })
        .collect()
}

#[test]
fn a_panic_in_a_scope_restores() {
    run(|| {
        let (a, b) = (parked(), pushed());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _ = a.scoped::<()>(|_| panic!("on purpose"));
        }));
        assert!(panicked.is_err());
        assert!(top_is(&b));
        assert_eq!(drain(), [b.as_raw()]);
    });
}

#[test]
fn a_panic_through_three_scopes_with_a_push_restores() {
    run(|| {
        let (a, b, c) = (parked(), parked(), parked());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _outer = a.enter().unwrap();
            let _same = a.enter().unwrap();
            ContextStack::push(&c).unwrap();
            let _inner = b.enter().unwrap();
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert!(current().is_null());
        assert_eq!(ContextStack::depth(), 0);
    });
}

#[test]
fn an_error_in_a_scope_restores_and_comes_back() {
    run(|| {
        let ctx = parked();
        assert_eq!(ctx.scoped::<()>(|_| Err(CudaError::NotReady)), Err(CudaError::NotReady));
        assert!(current().is_null());
    });
}

#[test]
fn what_a_scope_pushed_is_popped_with_it() {
    run(|| {
        let (a, b, base) = (parked(), parked(), pushed());
        a.scoped(|_| {
            ContextStack::push(&b)?;
            ContextStack::push(&a)
        })
        .unwrap();
        assert_eq!(drain(), [base.as_raw()]);
    });
}

#[test]
fn what_a_scope_pushed_on_a_current_context_is_popped_with_it() {
    run(|| {
        let (b, base) = (parked(), pushed());
        base.scoped(|_| ContextStack::push(&b)).unwrap();
        assert!(top_is(&base));
        assert_eq!(drain(), [base.as_raw()]);
    });
}

#[test]
fn a_context_created_in_a_scope_leaves_the_stack_with_it_and_lives() {
    run(|| {
        let (a, base) = (parked(), pushed());
        let made = a.scoped(|_| Ok(pushed())).unwrap();
        assert!(made.is_alive());
        assert!(top_is(&base));
        drop(made);
        assert_eq!(drain(), [base.as_raw()]);
    });
}

#[test]
fn what_was_pushed_between_two_guards_is_popped_after_the_outer_one() {
    run(|| {
        let (a, b, p) = (parked(), parked(), parked());
        let outer = a.enter().unwrap();
        ContextStack::push(&p).unwrap();
        let inner = b.enter().unwrap();
        drop(outer);
        assert!(top_is(&b));
        drop(inner);
        assert!(current().is_null());
    });
}

#[test]
fn pop_refuses_what_a_guard_entered() {
    run(|| {
        let ctx = parked();
        let guard = ctx.enter().unwrap();
        assert_eq!(ContextStack::pop().unwrap_err(), CudaError::HeldByGuard);
        assert!(
            crate::harness::said(CudaError::HeldByGuard).contains("guard.rs"),
            "says where it was entered"
        );
        assert!(top_is(&ctx));
        drop(guard);
        assert!(current().is_null());
    });
}

#[test]
fn pop_refuses_a_pushed_entry_that_a_guard_holds() {
    run(|| {
        let ctx = pushed();
        let guard = ctx.enter().unwrap();
        assert_eq!(ContextStack::pop().unwrap_err(), CudaError::HeldByGuard);
        drop(guard);
        assert_eq!(ContextStack::pop().unwrap(), ctx.get_unowned());
    });
}

#[test]
fn set_current_refuses_to_replace_what_a_guard_entered() {
    run(|| {
        let (a, b) = (parked(), parked());
        let none = CurrentContext::get_current().unwrap();
        let guard = a.enter().unwrap();
        assert_eq!(CurrentContext::set_current(&b), Err(CudaError::HeldByGuard));
        assert_eq!(CurrentContext::set_current(&none), Err(CudaError::HeldByGuard));
        assert!(top_is(&a));
        drop(guard);
    });
}

#[test]
fn set_current_of_the_same_context_in_its_scope_succeeds() {
    run(|| {
        let ctx = parked();
        ctx.scoped(|_| {
            CurrentContext::set_current(&ctx)?;
            ctx.bind()
        })
        .unwrap();
        assert!(current().is_null());
    });
}

#[test]
fn set_current_above_a_guards_entry_succeeds() {
    run(|| {
        let (a, b, c) = (parked(), parked(), parked());
        a.scoped(|_| {
            ContextStack::push(&b)?;
            CurrentContext::set_current(&c)?;
            assert!(top_is(&c));
            assert_eq!(ContextStack::pop()?, c.get_unowned());
            Ok(())
        })
        .unwrap();
        assert!(current().is_null());
    });
}

#[test]
fn a_forgotten_guard_keeps_its_context_current() {
    run(|| {
        let (a, b) = (parked(), parked());
        let outer = a.enter().unwrap();
        mem::forget(b.enter().unwrap());
        drop(outer);
        assert!(top_is(&b), "it cannot be distinguished from a living one");
        assert_eq!(drain(), [b.as_raw(), a.as_raw()]);
    });
}

#[test]
fn destroying_the_context_of_a_forgotten_guard_leaves_its_entry() {
    run(|| {
        let (a, b) = (parked(), parked());
        let (outer, raw) = (a.enter().unwrap(), b.as_raw());
        mem::forget(b.get_unowned().enter().unwrap());
        drop(outer);
        drop(b);
        assert_eq!(CurrentContext::synchronize(), Err(CudaError::ContextIsDestroyed));
        assert_eq!(
            ContextStack::pop(),
            Err(CudaError::HeldByGuard),
            "it cannot be distinguished from a living one"
        );
        a.scoped(|current| current.synchronize()).unwrap();
        assert_eq!(drain(), [raw, a.as_raw()]);
    });
}

#[test]
fn an_owner_dropped_within_its_handles_scope_leaves_no_stale_context() {
    run(|| {
        let (a, base) = (parked(), pushed());
        let handle = a.get_unowned();
        let guard = handle.enter().unwrap();
        drop(a);
        assert_eq!(guard.synchronize(), Err(CudaError::ContextIsDestroyed));
        assert_eq!(CurrentContext::synchronize(), Err(CudaError::ContextIsDestroyed), "its entry stays");
        drop(guard);
        assert!(top_is(&base));
        assert_eq!(drain(), [base.as_raw()]);
    });
}

#[test]
fn an_owner_dropped_under_another_scope_is_cleared_when_that_ends() {
    run(|| {
        let (a, b, base) = (parked(), parked(), pushed());
        let handle = a.get_unowned();
        let outer = handle.enter().unwrap();
        let inner = b.enter().unwrap();
        drop(a);
        assert!(top_is(&b));
        drop(inner);
        drop(outer);
        assert_eq!(drain(), [base.as_raw()]);
    });
}

#[test]
fn guards_of_two_contexts_interleave() {
    run(|| {
        let (a, b) = (parked(), parked());
        let a1 = a.enter().unwrap();
        let b1 = b.enter().unwrap();
        let a2 = a.enter().unwrap();
        drop(b1);
        assert!(top_is(&a));
        drop(a1);
        assert!(top_is(&a));
        drop(a2);
        assert!(current().is_null());
    });
}

#[test]
fn a_guard_is_a_context_handle_too() {
    run(|| {
        let ctx = parked();
        let guard = ctx.enter().unwrap();
        ContextStack::push(&guard).unwrap();
        assert_eq!(ContextStack::depth(), 2);
        assert_eq!(ContextStack::pop().unwrap(), *guard);
        drop(guard);
    });
}

#[test]
fn a_snapshot_says_where_each_context_was_entered() {
    run(|| {
        let (a, b) = (pushed(), parked());
        let _guard = b.enter().unwrap();
        let snapshot = ContextStack::snapshot().unwrap();
        let entries: Vec<_> = snapshot.entries().collect();
        assert_eq!(entries.len(), 2);
        assert_eq!(
            (entries[0].context, entries[0].how, entries[0].guards),
            (&b.get_unowned(), How::Entered, 1)
        );
        assert_eq!(
            (entries[1].context, entries[1].how, entries[1].guards),
            (&a.get_unowned(), How::Created, 0)
        );
        assert!(entries[0].location.file().ends_with("guard.rs"));
        assert!(snapshot.agrees());
        let text = snapshot.to_string();
        assert!(text.contains("entered at") && text.contains("held by a guard"), "{text}");
        drop(_guard);
        assert_eq!(ContextStack::pop().unwrap(), a.get_unowned());
    });
}

#[test]
fn a_guard_that_lives_in_a_thread_local_is_left_when_the_thread_ends() {
    run_alone(|| {
        let ctx = Box::leak(Box::new(parked()));
        let ctx: &'static Context = ctx;
        std::thread::spawn(move || {
            thread_local! {
                static KEPT: RefCell<Option<CurrentContext<'static>>> = const { RefCell::new(None) };
            }
            KEPT.with(|kept| *kept.borrow_mut() = Some(ctx.enter().unwrap()));
        })
        .join()
        .unwrap();
        assert_eq!(ctx.synchronize(), Ok(()));
        // The owner is leaked, so the context is destroyed by its raw handle.
        crate::harness::other::destroy(ctx.as_raw());
    });
}

#[test]
fn entering_in_the_destructor_of_a_thread_local_works() {
    struct Last(Context);
    impl Drop for Last {
        fn drop(&mut self) {
            let other = self.0.get_unowned();
            self.0
                .scoped(|current| {
                    assert!(current.is_current()?);
                    other.scoped(|current| current.synchronize())
                })
                .unwrap();
        }
    }
    run_alone(|| {
        thread_local! {
            static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
        }
        let ctx = parked();
        std::thread::spawn(move || {
            // Registered before custack's thread-locals, and so destroyed after them.
            LAST.with(|last| *last.borrow_mut() = None);
            let _ = ContextStack::depth();
            LAST.with(|last| *last.borrow_mut() = Some(Last(ctx)));
        })
        .join()
        .unwrap();
    });
}

#[test]
fn a_scope_on_the_simulated_driver_is_one_deep_for_it_too() {
    if !is_simulated() {
        return skip(
            "a_scope_on_the_simulated_driver_is_one_deep_for_it_too",
            "no real driver tells its depth",
        );
    }
    run(|| {
        let (a, b) = (parked(), parked());
        a.scoped(|_| {
            assert_eq!(sim::depth(), 1);
            b.scoped(|_| {
                assert_eq!((sim::depth(), ContextStack::depth()), (2, 2));
                Ok(())
            })
        })
        .unwrap();
        assert_eq!(sim::depth(), 0);
    });
}

#[test]
fn freeing_memory_of_a_destroyed_context_leaves_its_tombstones() {
    run(|| {
        let ctx = pushed();
        ContextStack::push(&ctx).unwrap();
        let buffer = DeviceBuffer::from_slice(&[1u32]).unwrap();
        let raw = ctx.as_raw();
        std::thread::spawn(move || drop(ctx)).join().unwrap();
        assert_eq!((current(), ContextStack::depth()), (raw, 2));
        drop(buffer);
        assert_eq!((current(), ContextStack::depth()), (raw, 2), "nothing asked for it to be popped");
        assert_eq!(drain(), [raw, raw]);
    });
}

#[test]
fn a_refused_pop_says_how_its_entry_was_made() {
    run(|| {
        let ctx = pushed();
        let guard = ctx.enter().unwrap();
        let text = crate::harness::said(ContextStack::pop().unwrap_err());
        assert!(text.contains("created at"), "the guard holds the entry of the creation: {text}");
        drop(guard);
        drain();
    });
}
