//! Entries of dead contexts stay where they are when a call fails, as long as the driver has the contexts.

use crate::harness::{current, device, is_simulated, other, parked, pushed, run_alone};
use custack::context::{Context, ContextStack, CurrentContext, PrimaryContext, wait_until_retired};
use custack::driver::ffi::CUcontext;
use custack::driver::instrument::{self, When};
use custack::memory::DeviceBuffer;
use custack::sim;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// Compares the top and the depth with those of this stack, the bottom first.
#[track_caller]
fn is_stack(stack: &[CUcontext], case: &str) {
    assert_eq!(ContextStack::depth(), stack.len(), "the shadow stack: {case}");
    assert_eq!(current(), stack.last().copied().unwrap_or_default(), "current: {case}");
    if is_simulated() {
        assert_eq!(sim::depth(), stack.len(), "the driver's stack: {case}");
    }
}

/// Calls `act` again and again, each time with another call of it that fails, until none does. It
/// returns whether one failed.
fn with_each_fault(mut act: impl FnMut(&str, &dyn Fn()) -> bool) {
    for when in [When::Before, When::After] {
        for code in [1, 999] {
            let failed =
                |nth| act(&format!("call {nth}, {when:?}"), &|| instrument::fail(None, nth, code, when));
            assert!(!(1..=40).all(failed), "it makes calls for ever");
        }
    }
}

/// A primary context that other code has a share of, and this thread's guard on a life of it that is over.
#[test]
fn a_life_of_a_primary_context_that_is_over_stays_held_when_calls_on_later_ones_fail() {
    type Later = (&'static str, fn() -> Box<dyn FnOnce()>);
    fn retain() -> PrimaryContext {
        PrimaryContext::retain(device()).unwrap()
    }
    fn memory() -> DeviceBuffer<u8> {
        DeviceBuffer::from_slice(&[1]).unwrap()
    }
    let laters: [Later; 5] = [
        ("memory of a life that is over", || {
            let later = retain();
            let buffer = memory();
            drop(later);
            Box::new(|| drop(buffer))
        }),
        ("memory of a life before the latest, which is over", || {
            let later = retain();
            let buffer = memory();
            drop(later);
            drop(retain());
            Box::new(|| drop(buffer))
        }),
        ("memory of a life before the latest", || {
            let later = retain();
            let buffer = memory();
            drop(later);
            let latest = retain();
            Box::new(|| drop((buffer, latest)))
        }),
        ("a share", || {
            let later = retain();
            Box::new(|| drop(later))
        }),
        ("a scope", || {
            let later = retain();
            Box::new(move || {
                let _ = later.scoped(|_| Ok(()));
                let _ = ContextStack::push(&later).and_then(|()| ContextStack::pop());
            })
        }),
    ];
    run_alone(|| {
        for (name, later) in laters {
            with_each_fault(|fault, begin| {
                let case = format!("{name}, {fault}");
                let raw = other::retain_primary();
                let retains = instrument::primary_retains();
                let base = pushed();
                let first = retain();
                let handle = first.get_unowned();
                let guard = handle.enter().unwrap();
                drop(first);
                is_stack(&[base.as_raw(), raw], &case);
                let act = later();
                begin();
                act();
                let failed = !instrument::disarm();
                is_stack(&[base.as_raw(), raw], &case);
                assert!(!handle.is_alive());
                drop(guard);
                is_stack(&[base.as_raw()], &case);
                drop(base);
                // What a failed release has left.
                (retains - 1..instrument::primary_retains()).for_each(|_| other::release_primary());
                failed
            });
        }
    });
}

/// Another thread is in a call on a dead context, and returns as soon as this one has popped it to see what lies below.
#[test]
fn what_is_popped_in_order_to_see_what_lies_below_is_not_destroyed_meanwhile() {
    type Act = (&'static str, fn(Context, &Context) -> Option<Context>);
    let acts: [Act; 5] = [
        ("drop", |below, _| Context::drop(below).err().map(|(_, below)| below).filter(|it| it.is_alive())),
        ("push", |below, other| {
            let _ = ContextStack::push(other).and_then(|()| ContextStack::pop());
            Some(below)
        }),
        ("push what is below", |below, _| {
            let _ = ContextStack::push(&below).and_then(|()| ContextStack::pop());
            Some(below)
        }),
        ("enter", |below, other| {
            let _ = other.enter().map(drop);
            Some(below)
        }),
        ("a refused set", |below, _| {
            let _ = CurrentContext::set_current(&below);
            Some(below)
        }),
    ];
    run_alone(|| {
        let other = parked();
        for (name, act) in acts {
            with_each_fault(|fault, begin| {
                let case = format!("{name}, {fault}");
                let (below, dead) = (pushed(), pushed());
                let (below_raw, raw) = (below.as_raw(), dead.as_raw());
                let handle = dead.get_unowned();
                let guard = handle.enter().unwrap();
                let (go, goes) = channel::<()>();
                let (tell, inside) = channel();
                let busy = dead.get_unowned();
                let busy = thread::spawn(move || {
                    instrument::wait_in("cuCtxSynchronize", move || {
                        tell.send(()).unwrap();
                        let _ = goes.recv();
                    });
                    let _ = busy.synchronize();
                });
                inside.recv().unwrap();
                thread::spawn(move || drop(dead)).join().unwrap();
                is_stack(&[below_raw, raw], &case);
                let returns = go.clone();
                begin();
                instrument::wait_in("cuCtxPopCurrent_v2", move || {
                    let _ = returns.send(());
                    // Time for the other thread to destroy it, if it may.
                    thread::sleep(Duration::from_millis(2));
                });
                let below = act(below, &other);
                let failed = !instrument::disarm();
                instrument::wait_in("cuCtxPopCurrent_v2", || {});
                // What was pushed with an error of the pop.
                while ContextStack::depth() > 2 {
                    ContextStack::pop().unwrap();
                }
                is_stack(&[below_raw, raw], &case);
                let _ = go.send(());
                busy.join().unwrap();
                wait_until_retired().unwrap();
                drop(guard);
                let rest: &[_] = if below.is_some() { &[below_raw] } else { &[] };
                is_stack(rest, &case);
                drop(below);
                is_stack(&[], &case);
                failed
            });
        }
    });
}
