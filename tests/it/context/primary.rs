//! `PrimaryContext`: shares in the context that all code in the process uses.
//!
//! The driver has one primary context per device, counted for the whole process, so these tests run alone.

// Raw handles are taken over, and one test resets the context.
#![allow(unsafe_code)]

use crate::harness::{current, device, drain, is_simulated, parked, pushed, run_alone, table};
use custack::context::{ContextFlags, ContextStack, CurrentContext, Origin, PrimaryContext, UnownedContext};
use custack::driver::instrument::{self, When};
use custack::error::CudaError;
use custack::memory::DeviceBuffer;
use custack::sim;
use custack::stream::{Stream, StreamFlags};
use std::mem;
use std::ptr::null_mut;

fn retain() -> PrimaryContext {
    PrimaryContext::retain(device()).unwrap()
}

fn active() -> bool {
    PrimaryContext::state(device()).unwrap().active
}

/// What another library in the process does.
fn other_retains() {
    let mut raw = null_mut();
    // SAFETY: writes to a local.
    assert_eq!(unsafe { (table().cuDevicePrimaryCtxRetain)(&mut raw, 0) }, 0);
}

fn other_releases() {
    // SAFETY: no pointers.
    assert_eq!(unsafe { (table().cuDevicePrimaryCtxRelease_v2)(0) }, 0);
}

#[test]
fn retaining_activates_and_does_not_push() {
    run_alone(|| {
        assert!(!active());
        let primary = retain();
        assert!(active() && current().is_null());
        assert_eq!((primary.origin(), primary.device()), (Origin::Primary, device()));
        drop(primary);
        assert!(!active());
    });
}

#[test]
fn shares_are_counted_one_by_one() {
    run_alone(|| {
        let before = instrument::primary_retains();
        let (a, b) = (retain(), retain());
        let c = a.clone();
        assert_eq!(instrument::primary_retains(), before + 3);
        assert_eq!((&a, &b), (&b, &c));
        drop(a);
        drop(b);
        assert!(active() && c.is_alive());
        drop(c);
        assert!(!active());
    });
}

#[test]
fn a_primary_context_works_wherever_a_context_does() {
    run_alone(|| {
        let primary = retain();
        primary.scoped(|current| current.synchronize()).unwrap();
        ContextStack::push(&primary).unwrap();
        assert_eq!(CurrentContext::get_current().unwrap(), primary.get_unowned());
        assert_eq!(ContextStack::pop().unwrap(), primary.get_unowned());
        for (name, operation) in crate::context::unowned::operations() {
            assert_eq!(operation(&primary), Ok(()), "{name}");
        }
        assert!(current().is_null());
    });
}

#[test]
fn handles_die_with_the_last_share_and_not_before() {
    run_alone(|| {
        let (a, b) = (retain(), retain());
        let handle = a.get_unowned();
        drop(a);
        handle.synchronize().unwrap();
        drop(b);
        assert_eq!(handle.synchronize(), Err(CudaError::ContextIsDestroyed));
        let again = retain();
        assert_eq!(again.as_raw(), handle.as_raw(), "the driver gives the same handle");
        assert_ne!(again.get_unowned(), handle, "of another context");
        assert_eq!(handle.synchronize(), Err(CudaError::ContextIsDestroyed));
    });
}

#[test]
fn the_last_release_leaves_nothing_stale_here() {
    run_alone(|| {
        let base = pushed();
        let primary = retain();
        ContextStack::push(&primary).unwrap();
        drop(primary);
        assert_eq!(drain(), [base.as_raw()]);
    });
}

#[test]
fn the_context_is_kept_for_other_code_that_has_a_share() {
    run_alone(|| {
        let primary = retain();
        let handle = primary.get_unowned();
        other_retains();
        drop(primary);
        assert!(active());
        assert!(!handle.is_alive(), "custack cannot know how long the other share lasts");
        other_releases();
        assert!(!active());
    });
}

#[test]
fn a_primary_context_that_other_code_made_current_is_foreign_until_it_is_retained() {
    run_alone(|| {
        other_retains();
        let mut raw = null_mut();
        // SAFETY: writes to a local; the handle is retained.
        unsafe {
            assert_eq!((table().cuDevicePrimaryCtxRetain)(&mut raw, 0), 0);
            assert_eq!((table().cuCtxSetCurrent)(raw), 0);
        }
        let met = CurrentContext::get_current().unwrap();
        assert_eq!((met.origin(), met.as_raw()), (Origin::Foreign, raw));
        let primary = retain();
        assert_eq!(primary.get_unowned(), met, "the same context");
        drop(primary);
        other_releases();
        other_releases();
        drain();
    });
}

#[test]
fn releasing_by_hand_returns_errors_and_the_share() {
    run_alone(|| {
        let primary = retain();
        instrument::fail(Some("cuDevicePrimaryCtxRelease_v2"), 1, 719, When::Before);
        let (error, primary) = PrimaryContext::drop(primary).unwrap_err();
        assert_eq!(error, CudaError::LaunchFailed);
        assert!(active(), "the driver still has the share");
        assert_eq!(primary.synchronize(), Err(CudaError::ContextIsDestroyed), "but it might not");
        assert!(PrimaryContext::drop(primary).is_ok());
        assert!(active(), "the second drop calls nothing");
        other_releases();
        assert!(!active());
    });
}

#[test]
fn a_release_that_fails_after_it_happened_is_not_repeated() {
    run_alone(|| {
        let primary = retain();
        instrument::fail(Some("cuDevicePrimaryCtxRelease_v2"), 1, 719, When::After);
        let (error, primary) = PrimaryContext::drop(primary).unwrap_err();
        assert_eq!((error, active()), (CudaError::LaunchFailed, false));
        other_retains();
        assert!(PrimaryContext::drop(primary).is_ok());
        assert!(active(), "the other share is not taken");
        other_releases();
    });
}

#[test]
fn a_failed_retain_leaves_no_share() {
    run_alone(|| {
        for when in [When::Before, When::After] {
            instrument::fail(Some("cuDevicePrimaryCtxRetain"), 1, 2, when);
            assert_eq!(PrimaryContext::retain(device()).err(), Some(CudaError::OutOfMemory));
            assert!(!active(), "{when:?}");
        }
    });
}

#[test]
fn a_clone_that_cannot_retain_holds_the_share_in_common() {
    run_alone(|| {
        let primary = retain();
        instrument::fail(Some("cuDevicePrimaryCtxRetain"), 1, 2, When::Before);
        assert_eq!(primary.try_clone().err(), Some(CudaError::OutOfMemory));
        instrument::fail(Some("cuDevicePrimaryCtxRetain"), 1, 2, When::Before);
        let clone = primary.clone();
        assert!(PrimaryContext::drop(primary).is_ok());
        assert!(active());
        clone.synchronize().unwrap();
        drop(clone);
        assert!(!active());
    });
}

#[test]
fn flags_are_set_before_or_while_it_is_active() {
    run_alone(|| {
        PrimaryContext::set_primary_flags(device(), ContextFlags::SCHED_YIELD).unwrap();
        let state = PrimaryContext::state(device()).unwrap();
        assert_eq!((state.flags, state.active), (ContextFlags::SCHED_YIELD, false));
        let primary = retain();
        assert_eq!(primary.flags().unwrap(), ContextFlags::SCHED_YIELD | ContextFlags::MAP_HOST);
        PrimaryContext::set_primary_flags(device(), ContextFlags::SCHED_SPIN).unwrap();
        assert_eq!(primary.flags().unwrap(), ContextFlags::SCHED_SPIN | ContextFlags::MAP_HOST);
        drop(primary);
        assert_eq!(PrimaryContext::state(device()).unwrap().flags, ContextFlags::empty());
    });
}

#[test]
fn flags_that_a_primary_context_cannot_have_are_refused() {
    run_alone(|| {
        let two = ContextFlags::SCHED_SPIN | ContextFlags::SCHED_YIELD;
        let device = device();
        let (result, calls) = instrument::during(|| PrimaryContext::set_primary_flags(device, two));
        assert_eq!((result, calls.total()), (Err(CudaError::InvalidValue), 0));
        let result = PrimaryContext::set_primary_flags(device, ContextFlags::MAP_HOST);
        assert_eq!(result, Err(CudaError::InvalidValue));
    });
}

#[test]
fn into_raw_and_from_raw_move_the_share() {
    run_alone(|| {
        let primary = retain();
        let handle = primary.get_unowned();
        let raw = primary.into_raw();
        assert!(active() && handle.is_alive());
        // SAFETY: the share given away above.
        let primary = unsafe { PrimaryContext::from_raw(raw, device()) }.unwrap();
        assert_eq!(primary.get_unowned(), handle);
        drop(primary);
        assert!(!active());
        // SAFETY: null is allowed.
        let error = unsafe { PrimaryContext::from_raw(null_mut(), device()) }.err();
        assert_eq!(error, Some(CudaError::InvalidContext));
    });
}

#[test]
fn a_reset_ends_the_context_and_keeps_the_shares() {
    run_alone(|| {
        let primary = retain();
        // SAFETY: nothing else in this process uses the context now, or until it is retained again.
        unsafe { PrimaryContext::reset(device()) }.unwrap();
        assert!(!active());
        drop(primary);
    });
}

#[test]
fn sixteen_threads_retain_use_and_release() {
    run_alone(|| {
        let keep = parked();
        // A real driver takes a large part of a second for each life of the primary context.
        let rounds = if is_simulated() { 20 } else { 4 };
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        let primary = retain();
                        let handle = primary.clone().get_unowned();
                        primary.synchronize().unwrap();
                        drop(primary);
                        // Another thread may have a share of the same life or of the next one.
                        let _ = handle.synchronize();
                    }
                });
            }
        });
        // A share that was dropped while another thread called the driver is released by the retirement thread.
        custack::context::wait_until_retired().unwrap();
        assert!(!active());
        keep.synchronize().unwrap();
    });
}

#[test]
fn memory_of_an_earlier_life_keeps_a_held_entry_of_a_later_one_when_a_call_fails() {
    run_alone(|| {
        for when in [When::Before, When::After] {
            let first = PrimaryContext::retain(device()).unwrap();
            let buffer = first.scoped(|_| DeviceBuffer::from_slice(&[1u32])).unwrap();
            drop(first);
            let second = PrimaryContext::retain(device()).unwrap();
            let handle = second.get_unowned();
            let guard = handle.enter().unwrap();
            let kept = DeviceBuffer::from_slice(&[2u32]).unwrap();
            drop(second);
            instrument::fail(Some("cuCtxPopCurrent_v2"), 1, 1, when);
            drop(buffer);
            assert!(!instrument::disarm());
            assert_eq!(drain(), [handle.as_raw()], "{when:?}");
            drop((guard, kept));
        }
    });
}

#[test]
fn a_context_taken_over_while_memory_keeps_it_destroys_its_earlier_streams() {
    run_alone(|| {
        let objects = sim::objects();
        let one = retain();
        let (stream, buffer) = one
            .scoped(|_| {
                Ok((Stream::new(StreamFlags::NON_BLOCKING, None)?, DeviceBuffer::from_slice(&[1u8])?))
            })
            .unwrap();
        let raw = one.as_raw();
        drop(one);
        other_retains();
        // SAFETY: the share retained above.
        let again = unsafe { UnownedContext::from_raw(raw) };
        drop(buffer);
        drop(stream);
        if is_simulated() {
            assert_eq!(sim::objects(), objects, "the driver has the same context");
        }
        again.synchronize().unwrap();
        other_releases();
        assert!(!active());
    });
}

#[test]
fn a_share_that_is_dropped_takes_nothing_from_the_others() {
    use custack::event::{Event, EventFlags};
    use custack::memory::CopyDestination;
    run_alone(|| {
        let (one, two) = (retain(), retain());
        let (stream, event, buffer) = one
            .scoped(|_| {
                let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
                let buffer = DeviceBuffer::from_slice_in(&[5u8; 100], &stream)?;
                Ok((stream, Event::new(EventFlags::DEFAULT)?, buffer))
            })
            .unwrap();
        drop(one);
        let ((), calls) = instrument::during(|| {
            event.record(&stream).unwrap();
            event.synchronize().unwrap();
            let mut back = [0; 100];
            buffer.copy_to(&mut back).unwrap();
            assert_eq!(back, [5; 100]);
        });
        assert_eq!(calls.of("cuDevicePrimaryCtxRetain"), 0, "{calls}");
        assert_eq!((stream.context(), stream.is_done()), (&two.get_unowned(), Ok(true)));
        drop((buffer, event, stream, two));
        assert!(!active());
    });
}

#[test]
fn what_an_earlier_life_has_left_is_destroyed_as_long_as_the_driver_has_the_context_and_not_later() {
    run_alone(|| {
        for later_lives in 0..3 {
            let objects = sim::objects();
            let one = retain();
            let made = || Stream::new(StreamFlags::NON_BLOCKING, None);
            let (stream, left) = one.scoped(|_| Ok((made()?, made()?))).unwrap();
            let kept = |life: PrimaryContext| life.device_buffer(&[1u8]).unwrap();
            let mut buffer = kept(one);
            for _ in 0..later_lives {
                // Memory of each life keeps the context until there is memory of the next.
                let next = kept(retain());
                drop(mem::replace(&mut buffer, next));
            }
            let last = retain();
            let ((), calls) = instrument::during(|| drop(stream));
            assert_eq!(calls.of("cuStreamDestroy_v2"), 1, "after {later_lives} lives: {calls}");
            drop((last, buffer));
            assert!(!active());
            let anew = retain();
            let ((), calls) = instrument::during(|| drop(left));
            assert_eq!(calls.total(), 0, "it went with its context: {calls}");
            drop(anew);
            if is_simulated() {
                assert_eq!(sim::objects(), objects);
            }
        }
    });
}

#[test]
fn a_life_that_begins_while_the_last_share_of_another_is_released_takes_nothing_over() {
    run_alone(|| {
        for released_first in [true, false] {
            let one = retain();
            let stream = one.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
            let buffer = one.device_buffer(&[1u8]).unwrap();
            drop(one);
            let releases = move || std::thread::spawn(move || drop(buffer)).join().unwrap();
            let next = if released_first {
                // Before the driver has counted the share.
                instrument::wait_in("cuDevicePrimaryCtxRetain", releases);
                retain()
            } else {
                // After that, so that the driver keeps the context.
                let raw = crate::harness::other::retain_primary();
                releases();
                // SAFETY: the share that was just retained.
                unsafe { PrimaryContext::from_raw(raw, device()) }.unwrap()
            };
            let ((), calls) = instrument::during(|| drop(stream));
            assert_eq!(calls.total(), 0, "no share that custack knew of kept it: {calls}");
            assert_eq!(next.synchronize(), Ok(()));
            drop(next);
            assert!(!active());
        }
    });
}
