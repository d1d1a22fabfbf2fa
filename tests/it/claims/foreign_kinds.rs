//! Other code changes the stack within a scope, in each way and over each stack: after the scope
//! the stack is what it was, whether the scope had to switch or not.

use crate::harness::{current, device, drain, is_simulated, other, parked, pushed, run, run_alone};
use custack::context::{Context, ContextStack, CurrentContext, Origin, PrimaryContext, UnownedContext};
use custack::driver::ffi::CUcontext;
use custack::error::CudaError;
use std::ptr;

/// A change: its name, and what other code does with a context of its own and with the one below
/// the scope's.
type Change = (&'static str, fn(CUcontext, CUcontext));

fn pop() {
    // The stack may be empty.
    let _ = other::pop();
}

const CHANGES: [Change; 13] = [
    ("nothing", |_, _| ()),
    ("set", |own, _| other::set(own)),
    ("set what is below", |_, below| set_unless_null(below)),
    ("push", |own, _| other::push(own)),
    ("push what is below", |_, below| push_unless_null(below)),
    ("two pushes", |own, _| (other::push(own), other::push(own)).0),
    ("pop", |_, _| pop()),
    ("pop and push", |own, _| (pop(), other::push(own)).1),
    ("push, and set what is below", |own, below| (other::push(own), set_unless_null(below)).1),
    ("two pops", |_, _| (pop(), pop()).1),
    ("two pops and a push", |own, _| (pop(), pop(), other::push(own)).2),
    ("pop of everything", |_, _| drop(drain())),
    ("set of null", |_, _| other::set(ptr::null_mut())),
];

fn set_unless_null(raw: CUcontext) {
    if !raw.is_null() {
        other::set(raw);
    }
}

fn push_unless_null(raw: CUcontext) {
    if !raw.is_null() {
        other::push(raw);
    }
}

/// How a scope is made and ended.
type Scope = (&'static str, fn(&UnownedContext, &dyn Fn()));

const SCOPES: [Scope; 5] = [
    ("scoped", |ctx, f| {
        let done = ctx.scoped(|_| {
            f();
            Ok(())
        });
        assert_eq!(done, Ok(()));
    }),
    ("enter", |ctx, f| {
        let _guard = ctx.enter().unwrap();
        f();
    }),
    ("the inner of two", |ctx, f| {
        let outer = ctx.enter().unwrap();
        let inner = ctx.enter().unwrap();
        f();
        drop(inner);
        assert_eq!(current(), ctx.as_raw(), "after the inner scope");
        drop(outer);
    }),
    ("two, the outer dropped first", |ctx, f| {
        let outer = ctx.enter().unwrap();
        let inner = ctx.enter().unwrap();
        f();
        drop(outer);
        drop(inner);
    }),
    ("a scope that panics", |ctx, f| {
        let panicking = || {
            let _guard = ctx.enter().unwrap();
            f();
            std::panic::resume_unwind(Box::new("on purpose"));
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panicking)).is_err());
    }),
];

/// Pops what is left by the names that custack has for it, so that its mirror is empty as well.
#[track_caller]
fn drained() -> Vec<CUcontext> {
    let left = drain();
    for _ in 0..ContextStack::depth() {
        assert!(ContextStack::pop().is_err(), "the driver's stack is empty");
    }
    assert_eq!(ContextStack::depth(), 0);
    left
}

/// Every change in a scope of `ctx`, made in each way on the stack that `prepare` makes.
fn every_change(what: &str, own: CUcontext, ctx: &UnownedContext, prepare: &dyn Fn() -> Vec<CUcontext>) {
    for (scope, make) in SCOPES {
        for (change, body) in CHANGES {
            let before = prepare();
            // Looks like a set: of what lies below two pops, over one of two equal entries, or of
            // what lies below already.
            let like_a_set = change == "two pops" && before.len() > 3
                || change == "two pushes" && before.contains(&own)
                || change == "two pops and a push" && before.len() > 1 && before[0] == before[1];
            let below = before.iter().rev().nth(usize::from(current() == ctx.as_raw())).copied();
            // The context itself comes to the top, which is what the end of the scope looks for.
            let lower = before.len() - usize::from(current() == ctx.as_raw());
            let hides = ["pop", "two pops", "two pops and a push", "set of null"].contains(&change)
                || change.contains("what is below");
            let hidden = hides && before[..lower].contains(&ctx.as_raw());
            if like_a_set || hidden {
                drained();
                continue;
            }
            assert_eq!(current(), before.last().copied().unwrap_or_default(), "{what}");
            make(ctx, &|| body(own, below.unwrap_or_default()));
            assert_eq!(ContextStack::depth(), before.len(), "{what}, {scope}, {change}: the mirror");
            let after: Vec<_> = drained().into_iter().rev().collect();
            assert_eq!(after, before, "{what}, {scope}, {change}");
        }
    }
}

#[test]
fn every_change_in_a_scope_that_switches_is_undone_when_it_ends() {
    run(|| {
        let (p, q, a, own) = (parked(), parked(), parked(), parked());
        let stacks: [&[&Context]; 8] =
            [&[], &[&p], &[&q, &p], &[&p, &p], &[&a, &p], &[&p, &a, &p], &[&q, &p, &q, &p], &[&own]];
        for (at, stack) in stacks.iter().enumerate() {
            every_change(&format!("stack {at}"), own.as_raw(), &a, &|| {
                stack.iter().for_each(|ctx| ContextStack::push(*ctx).unwrap());
                stack.iter().map(|ctx| ctx.as_raw()).collect()
            });
        }
    });
}

#[test]
fn every_change_in_a_scope_that_finds_its_context_is_undone_when_it_ends() {
    run(|| {
        let (p, q, a, own) = (parked(), parked(), parked(), parked());
        let stacks: [&[&Context]; 7] =
            [&[&a], &[&p, &a], &[&q, &p, &a], &[&p, &p, &a], &[&a, &a], &[&a, &p, &a], &[&q, &own, &a]];
        for (at, stack) in stacks.iter().enumerate() {
            every_change(&format!("stack {at}"), own.as_raw(), &a, &|| {
                stack.iter().for_each(|ctx| ContextStack::push(*ctx).unwrap());
                stack.iter().map(|ctx| ctx.as_raw()).collect()
            });
        }
    });
}

#[test]
fn every_change_in_a_scope_of_a_context_that_was_set_or_is_primary_is_undone_when_it_ends() {
    run_alone(|| {
        let (p, own) = (parked(), parked());
        let primary = PrimaryContext::retain(device()).unwrap();
        every_change("set", own.as_raw(), &primary, &|| {
            CurrentContext::set_current(&primary).unwrap();
            vec![primary.as_raw()]
        });
        every_change("pushed and set", own.as_raw(), &primary, &|| {
            ContextStack::push(&p).unwrap();
            ContextStack::push(&own).unwrap();
            CurrentContext::set_current(&primary).unwrap();
            vec![p.as_raw(), primary.as_raw()]
        });
    });
}

#[test]
fn every_change_in_a_scope_whose_context_other_code_made_current_is_undone_when_it_ends() {
    run(|| {
        let (a, own) = (parked(), parked());
        every_change("found", own.as_raw(), &a, &|| {
            other::push(a.as_raw());
            (0..300).for_each(|_| a.scoped(|_| Ok(())).unwrap());
            assert_eq!(ContextStack::depth(), 1, "it is found");
            vec![a.as_raw()]
        });
    });
}

#[test]
fn every_change_in_guards_dropped_out_of_order_is_undone_when_the_last_is_gone() {
    run(|| {
        let (p, a, b, own) = (parked(), parked(), parked(), parked());
        for (change, body) in CHANGES {
            // The outer guard finds its context, or makes it current; other code acts between the
            // guards or within both.
            for (finds, between) in [(true, true), (true, false), (false, true), (false, false)] {
                let before = if finds { vec![&p, &a] } else { vec![&p] };
                before.iter().for_each(|ctx| ContextStack::push(*ctx).unwrap());
                let outer = a.enter().unwrap();
                if between {
                    body(own.as_raw(), p.as_raw());
                }
                let inner = b.enter().unwrap();
                if !between {
                    body(own.as_raw(), a.as_raw());
                }
                drop(outer);
                drop(inner);
                let before: Vec<_> = before.iter().map(|ctx| ctx.as_raw()).collect();
                let after: Vec<_> = drained().into_iter().rev().collect();
                if change != "two pushes" || !between {
                    assert_eq!(after, before, "{change}, {finds}, {between}");
                }
            }
        }
    });
}

#[test]
fn what_lies_below_a_scope_and_is_unknown_to_custack_stays_there() {
    run(|| {
        let (a, own) = (parked(), parked());
        let foreign = other::parked();
        for found in [false, true] {
            for (change, body) in CHANGES {
                // Where other code has popped what custack does not know, nothing shows what it
                // was.
                if change.contains("pop") && change != "pop and push" || change.contains("null") {
                    continue;
                }
                other::push(foreign);
                if found {
                    ContextStack::push(&a).unwrap();
                }
                a.scoped(|_| {
                    body(own.as_raw(), ptr::null_mut());
                    Ok(())
                })
                .unwrap();
                let before = if found { vec![a.as_raw(), foreign] } else { vec![foreign] };
                assert_eq!(drained(), before, "{change}, {found}");
            }
        }
        other::destroy(foreign);
    });
}

#[test]
fn a_context_that_other_code_destroys_in_its_own_scope_is_not_made_current_again() {
    run(|| {
        let base = pushed();
        for creates in [false, true] {
            for enters in [false, true] {
                // The scope finds it, or has to switch to it.
                let raw = if enters { other::parked() } else { other::create() };
                if enters {
                    other::push(raw);
                }
                let met = CurrentContext::get_current().unwrap();
                assert_eq!(met.origin(), Origin::Foreign);
                if enters {
                    assert_eq!(other::pop(), Ok(raw));
                } else {
                    (0..300).for_each(|_| met.scoped(|_| Ok(())).unwrap());
                }
                let mut later = ptr::null_mut();
                met.scoped(|_| {
                    other::destroy(raw);
                    if creates {
                        later = other::create();
                        other::pop().unwrap();
                    }
                    Ok(())
                })
                .unwrap();
                assert_eq!(current(), base.as_raw(), "{creates}, {enters}");
                if creates {
                    other::destroy(later);
                }
            }
        }
        assert_eq!(drained(), [base.as_raw()]);
    });
}

#[test]
fn a_context_whose_owner_is_dropped_in_its_scope_goes_whatever_other_code_did() {
    run_alone(|| {
        let (p, own) = (parked(), parked());
        for (change, body) in CHANGES {
            for finds in [true, false] {
                ContextStack::push(&p).unwrap();
                let ctx = if finds { pushed() } else { parked() };
                let handle = ctx.get_unowned();
                handle
                    .scoped(|_| {
                        drop(ctx);
                        body(own.as_raw(), p.as_raw());
                        Ok(())
                    })
                    .unwrap();
                assert_eq!(current(), p.as_raw(), "{change}, {finds}");
                assert_eq!(drained(), [p.as_raw()], "{change}, {finds}");
            }
        }
    });
}

#[test]
fn a_reset_of_the_primary_context_in_its_scope_leaves_the_stack_as_it_was() {
    run_alone(|| {
        let p = pushed();
        let primary = PrimaryContext::retain(device()).unwrap();
        for finds in [true, false] {
            if finds {
                ContextStack::push(&primary).unwrap();
            }
            primary
                .scoped(|_| {
                    other::reset_primary();
                    Ok(())
                })
                .unwrap();
            if finds {
                assert_eq!(current(), primary.as_raw());
                assert_eq!(ContextStack::pop().unwrap(), primary.get_unowned());
            }
            assert_eq!(current(), p.as_raw(), "{finds}");
        }
        drained();
    });
}

#[test]
fn bind_and_set_take_no_entry_that_a_guard_holds() {
    run(|| {
        let (p, a, own) = (parked(), parked(), parked());
        type Call = (&'static str, fn(&UnownedContext) -> Result<(), CudaError>);
        let calls: [Call; 2] =
            [("bind", |ctx| ctx.bind()), ("set_current", |ctx| CurrentContext::set_current(ctx))];
        for (name, call) in calls {
            for (change, body) in CHANGES {
                for pushes in [true, false] {
                    ContextStack::push(&p).unwrap();
                    let guard = a.enter().unwrap();
                    if pushes {
                        ContextStack::push(&p).unwrap();
                        body(own.as_raw(), a.as_raw());
                        // An entry of the program's own may be replaced.
                        let _ = call(&p);
                    } else {
                        body(own.as_raw(), p.as_raw());
                        let _ = call(&a);
                        assert_eq!(current(), a.as_raw(), "{name}, {change}");
                    }
                    drop(guard);
                    assert_eq!(current(), p.as_raw(), "{name}, {change}, {pushes}");
                    // A set over two entries of other code is a third change.
                    let left = drained();
                    assert!(
                        left == [p.as_raw()] || pushes && change == "two pushes",
                        "{name}, {change}: {left:?}"
                    );
                }
            }
        }
    });
}

#[test]
fn a_deep_stack_is_restored_after_a_pop_of_everything() {
    run(|| {
        let (a, b) = (parked(), parked());
        let deep = if is_simulated() { 1000 } else { 100 };
        let stack: Vec<_> = (0..deep).map(|at| [&a, &b][at % 2]).collect();
        stack.iter().for_each(|ctx| ContextStack::push(*ctx).unwrap());
        for ctx in [&a, &b] {
            ctx.scoped(|_| {
                assert!(drain().len() >= deep);
                Ok(())
            })
            .unwrap();
        }
        let left: Vec<_> = stack.iter().rev().map(|ctx| ctx.as_raw()).collect();
        assert_eq!(drained(), left);
    });
}

#[test]
fn an_entry_that_was_to_be_looked_at_goes_with_an_outer_scope() {
    run(|| {
        let (p, a, b) = (parked(), pushed(), parked());
        for inner_first in [true, false] {
            let outer = a.enter().unwrap();
            ContextStack::push(&p).unwrap();
            let middle = p.enter().unwrap();
            ContextStack::push(&a).unwrap();
            ContextStack::push(&a).unwrap();
            let found = a.enter().unwrap();
            let inner = b.enter().unwrap();
            drop(found);
            if inner_first {
                drop(inner);
                drop(middle);
                assert_eq!((current(), ContextStack::depth()), (p.as_raw(), 2));
                drop(outer);
            } else {
                drop(outer);
                drop(middle);
                drop(inner);
            }
            assert_eq!((current(), ContextStack::depth()), (a.as_raw(), 1));
        }
        assert_eq!(drained(), [a.as_raw()]);
    });
}

#[test]
fn a_primary_context_that_only_other_code_shares_is_made_current_again() {
    run_alone(|| {
        let own = parked();
        let raw = other::retain_primary();
        for (change, body) in CHANGES {
            other::push(raw);
            let met = CurrentContext::get_current().unwrap();
            assert_eq!((met.as_raw(), met.origin()), (raw, Origin::Foreign));
            (0..300).for_each(|_| met.scoped(|_| Ok(())).unwrap());
            met.scoped(|_| {
                body(own.as_raw(), ptr::null_mut());
                Ok(())
            })
            .unwrap();
            assert_eq!(drained(), [raw], "{change}");
        }
        other::release_primary();
    });
}

#[test]
fn a_context_that_other_code_created_and_replaced_in_its_scope_is_not_used_again() {
    run(|| {
        let (base, later) = (pushed(), parked());
        let raw = other::create();
        let met = CurrentContext::get_current().unwrap();
        (0..300).for_each(|_| met.scoped(|_| Ok(())).unwrap());
        met.scoped(|_| {
            // As far as custack can tell, it may be destroyed.
            other::destroy(raw);
            other::push(later.as_raw());
            Ok(())
        })
        .unwrap();
        assert_eq!(drained(), [base.as_raw()]);
    });
}
