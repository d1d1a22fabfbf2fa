//! Streams of somebody else's.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::stream;
use crate::harness::{current, is_simulated, parked, pushed, run, run_alone, table};
use custack::context::{ContextStack, Origin};
use custack::error::CudaError;
use custack::event::EventFlags;
use custack::sim;
use custack::stream::{BorrowedStream, LegacyStream, PerThreadStream, Stream, StreamFlags};
use static_assertions::assert_impl_all;

assert_impl_all!(BorrowedStream<'static>: Send, Sync, Clone, std::fmt::Debug);

#[test]
fn a_borrowed_stream_is_the_same_and_is_not_destroyed() {
    run(|| {
        let ctx = pushed();
        let stream = stream();
        let borrowed = stream.to_borrowed();
        assert_eq!((borrowed.as_raw(), borrowed.context()), (stream.as_raw(), &ctx.get_unowned()));
        let again = borrowed.clone();
        borrowed.synchronize().unwrap();
        drop(borrowed);
        again.synchronize().unwrap();
        drop(again);
        stream.synchronize().unwrap();
        assert!(Stream::drop(stream).is_ok());
    });
}

#[test]
fn a_borrowed_raw_stream_knows_its_context() {
    run(|| {
        let (ctx, other) = (parked(), pushed());
        let stream = ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let borrowed = unsafe { BorrowedStream::from_raw(stream.as_raw()) }.unwrap();
        assert_eq!(borrowed.context(), &ctx.get_unowned());
        let event = ctx.create_event(EventFlags::DEFAULT).unwrap();
        event.record(&borrowed).unwrap();
        borrowed.synchronize().unwrap();
        assert_eq!(current(), other.as_raw());
        drop(ctx);
        assert_eq!(borrowed.synchronize(), Err(CudaError::ContextIsDestroyed));
        assert_eq!(stream.to_borrowed().synchronize(), Err(CudaError::ContextIsDestroyed));
    });
}

#[test]
fn a_stream_of_a_context_that_other_code_made_is_borrowed() {
    run(|| {
        let raw_context = crate::harness::other::parked();
        crate::harness::other::push(raw_context);
        let mut raw = std::ptr::null_mut();
        assert_eq!(unsafe { (table().cuStreamCreate)(&mut raw, 1) }, 0);
        crate::harness::other::pop().unwrap();
        {
            let borrowed = unsafe { BorrowedStream::from_raw(raw) }.unwrap();
            assert_eq!(
                (borrowed.context().origin(), borrowed.context().as_raw()),
                (Origin::Foreign, raw_context)
            );
            borrowed.launch_host_func(|| {}).unwrap();
            borrowed.synchronize().unwrap();
            assert_eq!(borrowed.device().unwrap(), crate::harness::device());
        }
        assert_eq!(unsafe { (table().cuStreamDestroy_v2)(raw) }, 0, "it was not destroyed");
        crate::harness::other::destroy(raw_context);
    });
}

#[test]
fn the_raw_default_streams_are_those_of_the_current_context() {
    run(|| {
        for raw in [0, 1, 2] {
            let none = unsafe { BorrowedStream::from_raw(raw as _) };
            assert_eq!(none.unwrap_err(), CudaError::InvalidContext);
        }
        let ctx = pushed();
        let [null, legacy, mine] =
            [0, 1, 2].map(|raw| unsafe { BorrowedStream::from_raw(raw as _) }.unwrap());
        ContextStack::pop().unwrap();
        for stream in [&null, &legacy, &mine] {
            assert_eq!(stream.context(), &ctx.get_unowned());
            stream.synchronize().unwrap();
        }
        assert_eq!(null.as_raw(), LegacyStream::of(&ctx).as_raw());
        assert_eq!(mine.as_raw(), PerThreadStream::of(&ctx).as_raw());
    });
}

#[test]
fn what_a_stream_keeps_to_be_waited_for_goes_with_it() {
    run_alone(|| {
        let ctx = pushed();
        let (stream, other) = (stream(), stream());
        let left = || if is_simulated() { sim::objects() } else { 0 };
        let before = left();
        {
            let (borrowed, legacy, mine) =
                (stream.to_borrowed(), LegacyStream::of(&ctx), PerThreadStream::of(&ctx));
            for from in [&*borrowed, &legacy, &mine] {
                from.fork([&other]).unwrap();
                from.fork([&other]).unwrap();
            }
            assert_eq!(left(), before + if is_simulated() { 3 } else { 0 });
        }
        let kept = before + if is_simulated() { 1 } else { 0 };
        assert_eq!(left(), kept, "the borrowed stream's is the stream's own");
        stream.fork([&other]).unwrap();
        let raw = stream.into_raw();
        assert_eq!(left(), before, "given away without it");
        drop(unsafe { Stream::from_raw(raw) }.unwrap());
        assert_eq!(left(), before - if is_simulated() { 1 } else { 0 });
    });
}
