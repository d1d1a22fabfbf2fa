//! Lifetimes of contexts and their resources, and what a failed destruction leaves.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

mod callbacks;
mod found;
mod memory;
mod retired;
mod scopes;

use crate::harness::{current, is_simulated, pushed, run_alone};
use custack::context::{ContextStack, PrimaryContext, UnownedContext};
use custack::driver::instrument::{self, When};
use custack::error::CudaError;
use custack::memory::{CopyDestination, DeviceBox, DeviceBuffer, LockedBuffer, UnifiedBox};
use custack::sim;
use custack::stream::{Stream, StreamFlags};
use std::sync::mpsc::channel;

pub(super) fn stream_of(ctx: &UnownedContext) -> Stream {
    ctx.scoped(|_| Stream::new(StreamFlags::NON_BLOCKING, None)).unwrap()
}

/// Makes the stream wait in a callback until told to go on, and then drop these values.
pub(super) fn drop_in_callback<T: Send + 'static>(
    stream: &Stream,
    things: T,
) -> impl FnOnce() + Send + use<T> {
    let (go, wait) = channel();
    let callback = move |_| {
        let _ = wait.recv();
        drop(things);
    };
    stream.add_callback(Box::new(callback)).unwrap();
    move || go.send(()).unwrap()
}

#[test]
fn what_may_be_destroyed_does_not_come_back_as_usable() {
    run_alone(|| {
        let ctx = pushed();
        let leftovers = (sim::objects(), sim::allocations());
        for when in [When::After, When::Before] {
            let fail = |function| instrument::fail(Some(function), 1, 719, when);
            let mut leaked = 0;
            let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
            fail("cuStreamDestroy_v2");
            let (error, stream) = Stream::drop(stream).unwrap_err();
            assert_eq!(error, CudaError::LaunchFailed);
            assert_eq!(stream.synchronize(), Err(CudaError::InvalidHandle), "{when:?}");
            let (_, calls) = instrument::during(|| assert!(Stream::drop(stream).is_ok()));
            assert_eq!(calls.of("cuStreamDestroy_v2"), 0, "{when:?}: destroyed twice");
            leaked += 1;

            let value = UnifiedBox::new(7u32).unwrap();
            fail("cuMemFree_v2");
            let (_, value) = UnifiedBox::drop(value).unwrap_err();
            let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| *value));
            assert!(read.is_err(), "{when:?}: reading it would be a use after free");
            let (_, calls) = instrument::during(|| drop(value));
            assert_eq!(calls.of("cuMemFree_v2"), 0);
            leaked += 1;

            let boxed = DeviceBox::new(&7u32).unwrap();
            fail("cuMemFree_v2");
            let (_, boxed) = DeviceBox::drop(boxed).unwrap_err();
            assert_eq!(boxed.copy_to(&mut 0), Err(CudaError::InvalidHandle));
            assert!(DeviceBox::drop(boxed).is_ok());
            leaked += 1;
            if is_simulated() && when == When::After {
                assert_eq!((sim::objects(), sim::allocations()), leftovers, "{leaked} are gone, once each");
            }
        }
        drop(ctx);
    });
}

#[test]
fn neither_of_two_shares_is_alive_when_releasing_one_ended_both() {
    run_alone(|| {
        let device = crate::harness::device();
        let (one, two) = (PrimaryContext::retain(device).unwrap(), PrimaryContext::retain(device).unwrap());
        instrument::fail(Some("cuDevicePrimaryCtxRelease_v2"), 1, 719, When::After);
        let (_, one) = PrimaryContext::drop(one).unwrap_err();
        assert_eq!(two.synchronize(), Ok(()));
        drop(two);
        assert!(!one.is_alive());
        assert_eq!(one.synchronize(), Err(CudaError::ContextIsDestroyed));
        drop(one);
        assert!(!PrimaryContext::state(device).unwrap().active);
    });
}

#[test]
fn a_primary_context_that_lives_on_under_another_id_destroys_its_earlier_resources() {
    for order in 0..6 {
        run_alone(move || {
            let before = (sim::objects(), sim::allocations());
            let device = crate::harness::device();
            let one = PrimaryContext::retain(device).unwrap();
            let (locked, buffer, stream) = one
                .scoped(|_| {
                    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
                    Ok((LockedBuffer::new(&0u8, 1)?, DeviceBuffer::from_slice(&[0u8])?, stream))
                })
                .unwrap();
            drop(one);
            let two = PrimaryContext::retain(device).unwrap();
            let (mut locked, mut buffer, mut stream) = (Some(locked), Some(buffer), Some(stream));
            let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
            for which in orders[order] {
                match which {
                    0 => drop(locked.take()),
                    1 => drop(buffer.take()),
                    _ => drop(stream.take()),
                }
            }
            if is_simulated() {
                assert_eq!(
                    (sim::objects(), sim::allocations()),
                    before,
                    "order {order}: nothing waits for the second"
                );
            }
            two.synchronize().unwrap();
            drop(two);
            assert!(!PrimaryContext::state(device).unwrap().active);
        });
    }
}

#[test]
fn a_snapshot_of_a_primary_context_retained_again_agrees_with_the_driver() {
    run_alone(|| {
        let device = crate::harness::device();
        let one = PrimaryContext::retain(device).unwrap();
        let handle = one.get_unowned();
        let guard = handle.enter().unwrap();
        drop(one);
        let two = PrimaryContext::retain(device).unwrap();
        let snapshot = ContextStack::snapshot().unwrap();
        assert!(snapshot.agrees() && !snapshot.to_string().contains("other code"), "{snapshot}");
        drop(guard);
        assert!(current().is_null());
        drop(two);
    });
}
