//! Several driver calls in a row fail, from any call on: afterwards the next call finds the stack
//! as it should be. While calls fail, every call that depends on the stack is told so.

use crate::harness::{current, drain, is_simulated, other, parked, run, said};
use custack::context::{Context, ContextStack, CurrentContext, UnownedContext};
use custack::driver::ffi::CUcontext;
use custack::driver::instrument::{self, When};
use custack::error::{CudaError, CudaResult};
use custack::memory::DeviceBuffer;

fn null() -> UnownedContext {
    std::thread::scope(|scope| scope.spawn(|| CurrentContext::get_current().unwrap()).join().unwrap())
}

const CODES: [u32; 3] = [2, 719, 999];

/// What is called next, and what it returns of the context that it finds.
type Next = (&'static str, fn(&UnownedContext) -> CudaResult<CUcontext>);

fn nexts() -> Vec<Next> {
    vec![
        ("get_current", |_| CurrentContext::get_current().map(|it| it.as_raw())),
        ("snapshot", |_| ContextStack::snapshot().map(|it| it.current().as_raw())),
        ("push", |other| {
            ContextStack::push(other)?;
            ContextStack::pop()?;
            Ok(current())
        }),
        ("enter", |other| other.enter().map(drop).map(|()| current())),
        ("scoped", |other| other.scoped(|current| current.synchronize()).map(|()| current())),
        ("synchronize", |other| other.synchronize().map(|()| current())),
        ("a buffer", |_| {
            let buffer = DeviceBuffer::from_slice(&[1u8])?;
            Ok(buffer.context().as_raw())
        }),
    ]
}

/// What is done. The function that it is given makes calls fail from then on.
type Act<'a> = Box<dyn Fn(&dyn Fn()) -> bool + 'a>;

/// A situation in which calls fail. It returns whether its call has succeeded; then the stack is
/// the second one.
struct Situation<'a> {
    name: &'static str,
    before: Vec<&'a Context>,
    act: Act<'a>,
    done: Vec<&'a Context>,
}

fn raws(stack: &[&Context]) -> Vec<CUcontext> {
    stack.iter().rev().map(|ctx| ctx.as_raw()).collect()
}

fn situations<'a>(a: &'a Context, b: &'a Context, base: &'a Context) -> Vec<Situation<'a>> {
    let mut all = Vec::new();
    let mut add = |name, before: &[&'a Context], done: &[&'a Context], act: Act<'a>| {
        all.push(Situation { name, before: before.to_vec(), done: done.to_vec(), act });
    };
    for below in [&[base][..], &[b, base], &[base, base], &[a, base]] {
        add(
            "leave",
            below,
            below,
            Box::new(|fail| {
                let guard = a.enter().unwrap();
                fail();
                drop(guard);
                true
            }),
        );
        add(
            "leave after a set",
            below,
            below,
            Box::new(|fail| {
                let guard = a.enter().unwrap();
                other::set(b.as_raw());
                fail();
                drop(guard);
                true
            }),
        );
        add(
            "leave what was current after a set",
            below,
            below,
            Box::new(|fail| {
                let guard = base.enter().unwrap();
                other::set(b.as_raw());
                fail();
                drop(guard);
                true
            }),
        );
        add(
            "leave what was current",
            below,
            below,
            Box::new(|fail| {
                let guard = base.enter().unwrap();
                fail();
                drop(guard);
                true
            }),
        );
        add(
            "leave in the other order",
            below,
            below,
            Box::new(|fail| {
                let (outer, inner) = (a.enter().unwrap(), b.enter().unwrap());
                drop(outer);
                fail();
                drop(inner);
                true
            }),
        );
        add(
            "leave in the other order what was current",
            below,
            below,
            Box::new(|fail| {
                let (outer, inner) = (base.enter().unwrap(), a.enter().unwrap());
                drop(outer);
                fail();
                drop(inner);
                true
            }),
        );
        add(
            "enter",
            below,
            below,
            Box::new(|fail| {
                fail();
                let _ = a.enter();
                true
            }),
        );
        add(
            "set",
            below,
            &[&below[..below.len() - 1], &[a]].concat(),
            Box::new(|fail| {
                fail();
                CurrentContext::set_current(a).is_ok()
            }),
        );
        add(
            "bind",
            below,
            &[&below[..below.len() - 1], &[a]].concat(),
            Box::new(|fail| {
                fail();
                a.bind().is_ok()
            }),
        );
        add(
            "push",
            below,
            &[below, &[a]].concat(),
            Box::new(|fail| {
                fail();
                ContextStack::push(a).is_ok()
            }),
        );
        add(
            "push what is current",
            below,
            &[below, &[base]].concat(),
            Box::new(|fail| {
                fail();
                ContextStack::push(base).is_ok()
            }),
        );
        let pushed = [below, &[a]].concat();
        add(
            "pop",
            &pushed,
            below,
            Box::new(|fail| {
                fail();
                ContextStack::pop().is_ok()
            }),
        );
    }
    let twice = [base, base];
    add(
        "pop one of two",
        &twice,
        &[base],
        Box::new(|fail| {
            fail();
            ContextStack::pop().is_ok()
        }),
    );
    all
}

/// Makes the stack; performs the situation with faults; calls what is next; and compares.
fn check(situation: &Situation<'_>, fail: &dyn Fn(), next: Next, other: &UnownedContext, name: &str) {
    situation.before.iter().for_each(|ctx| ContextStack::push(*ctx).unwrap());
    let done = (situation.act)(fail);
    instrument::disarm();
    let expected = raws(if done { &situation.done } else { &situation.before });
    assert_eq!((next.1)(other), Ok(expected[0]), "{name}: {}", next.0);
    assert_eq!(ContextStack::depth(), expected.len(), "{name}: {}", next.0);
    assert_eq!(drain(), expected, "{name}: {}", next.0);
    for _ in 0..expected.len() {
        assert!(ContextStack::pop().is_err(), "{name}");
    }
    assert_eq!(ContextStack::depth(), 0, "{name}");
}

#[test]
fn after_any_number_of_failures_the_next_call_finds_the_stack_right() {
    run(|| {
        let (a, b, base, other) = (parked(), parked(), parked(), parked());
        // A real driver is slower, and its answers are the same.
        let most = if is_simulated() { 6 } else { 3 };
        let mut at = 0;
        for situation in situations(&a, &b, &base) {
            for (nth, times) in (1..=most).flat_map(|nth| (1..=most + 2).map(move |times| (nth, times))) {
                for when in [When::Before, When::After] {
                    for code in CODES {
                        // Each kind of next call in turn.
                        at += 1;
                        let next = nexts()[at % nexts().len()];
                        let fail = || instrument::fail_times(None, nth, times, code, when);
                        let name = format!(
                            "{} over {:?}, {times} calls from {nth}: {code} {when:?}",
                            situation.name,
                            raws(&situation.before)
                        );
                        check(&situation, &fail, next, &other, &name);
                    }
                }
            }
        }
    });
}

#[test]
fn while_calls_fail_every_next_call_says_what_is_wrong() {
    run(|| {
        let (a, base, other) = (parked(), parked(), parked());
        for (name, next) in nexts() {
            ContextStack::push(&base).unwrap();
            let guard = a.enter().unwrap();
            instrument::fail_times(None, 1, 1000, 999, When::Before);
            drop(guard);
            for _ in 0..3 {
                assert_eq!(next(&other), Err(CudaError::UnknownError), "{name}");
                let said = said(CudaError::UnknownError);
                assert!(said.contains("restore this thread's context stack"), "{name}: {said}");
            }
            instrument::disarm();
            assert_eq!(next(&other), Ok(base.as_raw()), "{name}");
            assert_eq!(ContextStack::pop().unwrap(), base.get_unowned());
            assert!(current().is_null());
        }
    });
}

#[test]
fn what_is_dropped_while_the_stack_could_not_be_restored_is_freed_all_the_same() {
    run(|| {
        let (a, base) = (parked(), parked());
        ContextStack::push(&base).unwrap();
        let (buffer, owner) = (DeviceBuffer::from_slice(&[1u8]).unwrap(), parked());
        let guard = a.enter().unwrap();
        instrument::fail_times(None, 1, 8, 999, When::Before);
        drop(guard);
        instrument::disarm();
        assert_eq!(DeviceBuffer::drop(buffer).map_err(|(error, _)| error), Ok(()));
        assert_eq!(Context::drop(owner).map_err(|(error, _)| error), Ok(()));
        assert_eq!(CurrentContext::get_current().unwrap(), base.get_unowned());
        assert_eq!(drain(), [base.as_raw()]);
    });
}

#[test]
fn an_owner_dropped_while_calls_fail_leaves_no_destroyed_context_current() {
    run(|| {
        let base = parked();
        // A GPU's driver takes a large part of a second for each context.
        let most = if is_simulated() { 8 } else { 2 };
        for (nth, times) in (1..=most).flat_map(|nth| (1..=most).map(move |times| (nth, times))) {
            for (when, below, is_current, by_hand) in [When::Before, When::After]
                .into_iter()
                .flat_map(|when| (0..8).map(move |bits| (when, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0)))
            {
                let name = format!("{times} calls from {nth}, {when:?}, {below}, {is_current}, {by_hand}");
                if below {
                    ContextStack::push(&base).unwrap();
                }
                let ctx = if is_current { crate::harness::pushed() } else { parked() };
                instrument::fail_times(None, nth, times, 999, when);
                let left = if by_hand {
                    Context::drop(ctx).err()
                } else {
                    drop(ctx);
                    None
                };
                instrument::disarm();
                let expected = match &left {
                    Some((_, ctx)) if ctx.is_alive() && is_current => ctx.get_unowned(),
                    _ if below => base.get_unowned(),
                    _ => null(),
                };
                assert_eq!(CurrentContext::get_current().unwrap(), expected, "{name}");
                drop(left);
                let below: Vec<_> = below.then(|| base.as_raw()).into_iter().collect();
                assert_eq!(drain(), below, "{name}");
                // The mirror may have the entry that the driver has lost, as after a pop by other
                // code.
                (0..ContextStack::depth()).for_each(|_| drop(ContextStack::pop()));
                custack::context::wait_until_retired().unwrap();
            }
        }
    });
}

#[test]
fn every_call_after_a_scope_that_could_not_be_left_does_what_it_does_otherwise() {
    run(|| {
        let (a, base) = (parked(), parked());
        let null = null();
        type Call = (&'static str, fn(&UnownedContext) -> CudaResult<()>);
        let calls: [Call; 6] = [
            ("set_current", |ctx| CurrentContext::set_current(ctx)),
            ("bind", UnownedContext::bind),
            ("push", |ctx| ContextStack::push(ctx)),
            ("pop", |_| ContextStack::pop().map(drop)),
            ("forgotten enter", |ctx| ctx.enter().map(std::mem::forget)),
            ("two scopes", |ctx| ctx.scoped(|_| ctx.scoped(|_| Ok(())))),
        ];
        for (name, call) in calls {
            for (of, held) in [&*a, &*base, &null].into_iter().flat_map(|of| [(of, false), (of, true)]) {
                for scopes in 1..4 {
                    let outcome = |times| {
                        ContextStack::push(&base).unwrap();
                        let outer = held.then(|| base.enter().unwrap());
                        let mut guards: Vec<_> = (0..scopes)
                            .map(|at| if at % 2 == 0 { &a } else { &base }.enter().unwrap())
                            .collect();
                        instrument::fail_times(None, 1, times, 999, When::Before);
                        while guards.pop().is_some() {}
                        instrument::disarm();
                        let result = call(of);
                        // A call that was refused has restored nothing yet.
                        drop(CurrentContext::get_current());
                        let depth = ContextStack::depth();
                        drop(outer);
                        (result, depth, drain().iter().map(|raw| raw.addr()).collect::<Vec<_>>())
                    };
                    // What a guard that is forgotten holds stays in the mirror: each on its own thread.
                    let apart =
                        |times| std::thread::scope(|scope| scope.spawn(|| outcome(times)).join().unwrap());
                    let right = apart(0);
                    for times in 1..40 {
                        assert_eq!(apart(times), right, "{name} of {of}, {held}, {scopes}, {times}");
                    }
                }
            }
        }
    });
}

#[test]
fn what_was_destroyed_within_a_scope_goes_with_it_however_many_calls_fail() {
    run(|| {
        let base = parked();
        let most = if is_simulated() { 8 } else { 2 };
        for (deep, finds) in [(1, false), (1, true), (3, false), (3, true)] {
            for (nth, times) in (1..=most).flat_map(|nth| (1..=most).map(move |times| (nth, times))) {
                for when in [When::Before, When::After] {
                    ContextStack::push(&base).unwrap();
                    let below: Vec<_> = (0..deep).map(|_| crate::harness::pushed()).collect();
                    let (a, name) =
                        (parked(), format!("{deep}, {finds}, {times} calls from {nth}, {when:?}"));
                    let found = finds.then(|| below[deep - 1].get_unowned());
                    let found = found.as_ref().map(|top| top.enter().unwrap());
                    let guard = a.enter().unwrap();
                    drop(below);
                    drop(found);
                    instrument::fail_times(None, nth, times, 999, when);
                    drop(guard);
                    instrument::disarm();
                    assert_eq!(CurrentContext::get_current().unwrap(), base.get_unowned(), "{name}");
                    assert_eq!(ContextStack::depth(), 1, "{name}");
                    assert_eq!(ContextStack::pop().unwrap(), base.get_unowned(), "{name}");
                    assert!(current().is_null(), "{name}");
                }
            }
        }
    });
}

#[test]
fn the_last_memory_of_a_destroyed_context_leaves_nothing_on_the_stack_while_calls_fail() {
    run(|| {
        let base = parked();
        let most = if is_simulated() { 10 } else { 2 };
        for (nth, times) in (1..=most).flat_map(|nth| (1..=8.min(most)).map(move |times| (nth, times))) {
            for (when, below) in
                [When::Before, When::After].into_iter().flat_map(|it| [(it, true), (it, false)])
            {
                let name = format!("{times} calls from {nth}, {when:?}, {below}");
                let ctx = parked();
                let buffer = ctx.scoped(|_| DeviceBuffer::from_slice(&[1u8])).unwrap();
                drop(ctx);
                if below {
                    ContextStack::push(&base).unwrap();
                }
                instrument::fail_times(None, nth, times, 999, when);
                drop(buffer);
                instrument::disarm();
                let expected = if below { base.get_unowned() } else { null() };
                assert_eq!(CurrentContext::get_current().unwrap(), expected, "{name}");
                assert_eq!(drain().len(), usize::from(below), "{name}");
                (0..ContextStack::depth()).for_each(|_| drop(ContextStack::pop()));
            }
        }
    });
}
