//! Foreign contexts that custack finds current.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::scopes::at_the_end_of_a_thread;
use crate::harness::{current, other, parked, pushed, run, run_alone};
use custack::context::{ContextStack, CurrentContext, Origin, wait_until_retired};
use custack::driver::instrument::{self};
use custack::error::CudaError;
use custack::memory::LockedBuffer;
use std::sync::mpsc::channel;

#[test]
fn what_custack_destroyed_never_becomes_foreign() {
    run_alone(|| {
        let ctx = parked();
        let (tell, told) = channel();
        let locked = ctx.scoped(|_| LockedBuffer::new(&0u8, 1)).unwrap();
        let at_end = move || {
            let handle = ctx.get_unowned();
            let guard = handle.enter().unwrap();
            drop(ctx);
            let met = CurrentContext::get_current().unwrap();
            drop(locked);
            drop(guard);
            wait_until_retired().unwrap();
            tell.send((met.is_alive(), met.origin(), ContextStack::push(&met).err())).unwrap();
        };
        at_the_end_of_a_thread(|| drop(CurrentContext::get_current()), at_end);
        assert_eq!(told.recv(), Ok((false, Origin::Created, Some(CudaError::ContextIsDestroyed))));
    });
}

#[test]
fn a_foreign_context_is_found_current_without_a_switch() {
    run(|| {
        let (ctx, b) = (parked(), parked());
        other::push(ctx.as_raw());
        ctx.scoped(|_| Ok(())).unwrap();
        for _ in 0..3 {
            let (_, calls) =
                instrument::during(|| ctx.scoped(|current| current.stream_priority_range().map(drop)));
            assert_eq!(calls.of("cuCtxPushCurrent_v2"), 0, "from the second time on: {calls}");
        }
        assert_eq!(ContextStack::depth(), 1);
        let (_, calls) = instrument::during(|| ctx.scoped(|_| Ok(())));
        assert_eq!(calls.to_string(), "cuCtxGetCurrent x2");
        // Other code sets another context, and pops it again.
        other::set(b.as_raw());
        ctx.scoped(|current| current.synchronize()).unwrap();
        assert_eq!(current(), b.as_raw(), "as it was");
        assert_eq!(other::pop(), Ok(b.as_raw()));
        ctx.scoped(|current| current.synchronize()).unwrap();
        assert!(current().is_null(), "as it was");
    });
}

#[test]
fn a_guard_holds_a_found_entry() {
    run(|| {
        let (ctx, b) = (parked(), parked());
        other::push(ctx.as_raw());
        ctx.scoped(|_| Ok(())).unwrap();
        let guard = ctx.enter().unwrap();
        assert_eq!(ContextStack::pop().err(), Some(CudaError::HeldByGuard));
        assert_eq!(CurrentContext::set_current(&b).err(), Some(CudaError::HeldByGuard));
        drop(guard);
        assert_eq!(current(), ctx.as_raw());
        assert_eq!(ContextStack::pop().unwrap(), ctx.get_unowned());
    });
}

#[test]
fn what_other_code_made_current_within_a_scope_of_its_context_goes_with_the_scope() {
    run(|| {
        let (a, b) = (parked(), parked());
        other::push(a.as_raw());
        (0..2).for_each(|_| a.scoped(|_| Ok(())).unwrap());
        let guard = a.enter().unwrap();
        assert_eq!(ContextStack::depth(), 1, "found");
        other::set(b.as_raw());
        (0..3).for_each(|_| b.scoped(|_| Ok(())).unwrap());
        drop(guard);
        assert_eq!(current(), a.as_raw(), "as it was");
        assert_eq!(other::pop(), Ok(a.as_raw()));
        a.scoped(|current| current.synchronize()).unwrap();
        assert!(current().is_null());
    });
}

#[test]
fn a_found_context_that_was_destroyed_is_popped_with_the_scope() {
    run_alone(|| {
        let (base, a) = (pushed(), parked());
        let (handle, raw) = (a.get_unowned(), a.as_raw());
        ContextStack::pop().unwrap();
        other::push(base.as_raw());
        other::push(raw);
        (0..2).for_each(|_| handle.scoped(|_| Ok(())).unwrap());
        handle
            .scoped(|_| {
                std::thread::scope(|scope| scope.spawn(|| drop(a)).join().unwrap());
                Ok(())
            })
            .unwrap();
        assert_eq!(current(), base.as_raw());
        assert_eq!(other::pop(), Ok(base.as_raw()));
    });
}

#[test]
fn scopes_that_have_to_switch_pay_almost_nothing_for_probes() {
    run(|| {
        let ctx = parked();
        let (_, calls) = instrument::during(|| (0..10_000).try_for_each(|_| ctx.scoped(|_| Ok(()))));
        assert_eq!((calls.of("cuCtxPushCurrent_v2"), calls.of("cuCtxPopCurrent_v2")), (10_000, 10_000));
        assert!(calls.of("cuCtxGetCurrent") <= 50, "{calls}");
    });
}
