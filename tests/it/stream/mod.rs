//! Streams.

mod callback;

use crate::harness::{current, drain, parked, pushed, run};
use custack::context::{Context, ContextStack};
use custack::error::CudaError;
use custack::stream::{Stream, StreamFlags};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

pub(super) fn stream() -> Stream {
    Stream::new(StreamFlags::NON_BLOCKING, None).unwrap()
}

#[test]
fn a_stream_tells_what_it_is() {
    run(|| {
        let ctx = pushed();
        let range = ctx.stream_priority_range().unwrap();
        for (asked, got) in [(None, 0), (Some(-3), -3), (Some(-99), range.greatest), (Some(99), range.least)]
        {
            let stream = Stream::new(StreamFlags::NON_BLOCKING, asked).unwrap();
            assert_eq!((stream.get_priority(), stream.get_flags()), (Ok(got), Ok(StreamFlags::NON_BLOCKING)));
        }
        let (a, b) = (stream(), Stream::new(StreamFlags::DEFAULT, None).unwrap());
        assert_eq!(b.get_flags(), Ok(StreamFlags::DEFAULT));
        assert_ne!(a.id().unwrap(), b.id().unwrap());
        assert_eq!(a.context(), &ctx.get_unowned());
        drop((a, b));
        ContextStack::pop().unwrap();
    });
}

#[test]
fn a_stream_needs_a_context_and_known_flags() {
    run(|| {
        assert_eq!(Stream::new(StreamFlags::DEFAULT, None).unwrap_err(), CudaError::InvalidContext);
        let _ctx = pushed();
        // SAFETY: any bits can be asked for.
        #[allow(unsafe_code)]
        let odd = unsafe { StreamFlags::from_bits_unchecked(0x80) };
        assert_eq!(Stream::new(odd, None).unwrap_err(), CudaError::InvalidValue);
    });
}

#[test]
fn a_stream_works_whatever_is_current_and_leaves_the_stack_as_it_was() {
    run(|| {
        let (a, b) = (pushed(), pushed());
        let of_a = a.scoped(|_| Stream::new(StreamFlags::NON_BLOCKING, None)).unwrap();
        of_a.synchronize().unwrap();
        assert_eq!(of_a.is_done(), Ok(true));
        assert_eq!(current(), b.as_raw());
        ContextStack::pop().unwrap();
        ContextStack::pop().unwrap();
        of_a.synchronize().unwrap();
        assert_eq!(of_a.context(), &a.get_unowned());
        assert!(current().is_null());
        std::thread::scope(|scope| {
            scope.spawn(|| of_a.synchronize().unwrap());
        });
        drop(of_a);
        assert_eq!(drain(), []);
    });
}

#[test]
fn a_stream_that_outlives_its_context_is_inert() {
    run(|| {
        let ctx = pushed();
        let stream = stream();
        drop(ctx);
        assert_eq!(stream.synchronize(), Err(CudaError::ContextIsDestroyed));
        assert_eq!(
            stream.add_callback(Box::new(|_| panic!("never called"))),
            Err(CudaError::ContextIsDestroyed)
        );
        assert!(Stream::drop(stream).is_ok());
    });
}

#[test]
fn dropping_a_stream_does_not_wait_and_its_work_goes_on() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let (go, wait) = channel::<()>();
        let (tell, told) = channel();
        stream
            .add_callback(Box::new(move |_| {
                wait.recv().unwrap();
                tell.send(()).unwrap();
            }))
            .unwrap();
        drop(stream);
        go.send(()).unwrap();
        told.recv().unwrap();
    });
}

#[test]
fn destroying_a_context_waits_for_its_streams() {
    run(|| {
        let ctx = pushed();
        let stream = stream();
        let done = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&done);
        let slowly = move |_| {
            std::thread::sleep(std::time::Duration::from_millis(30));
            count.fetch_add(1, Ordering::SeqCst);
        };
        stream.add_callback(Box::new(slowly)).unwrap();
        Context::drop(ctx).unwrap();
        assert_eq!(done.load(Ordering::SeqCst), 1);
    });
}

#[test]
#[allow(unsafe_code)]
fn handles_are_given_away_and_taken_over() {
    run(|| {
        let ctx = parked();
        let raw = ctx.scoped(|_| Stream::new(StreamFlags::NON_BLOCKING, None)).unwrap().into_raw();
        // SAFETY: a stream of this context that nobody else has.
        let again = ctx.scoped(|_| unsafe { Stream::from_raw(raw) }).unwrap();
        assert_eq!(again.as_raw(), raw);
        again.synchronize().unwrap();
        // SAFETY: refused before the handle is used.
        assert_eq!(unsafe { Stream::from_raw(raw) }.unwrap_err(), CudaError::InvalidContext);
        assert!(Stream::drop(again).is_ok());
    });
}

#[test]
#[allow(unsafe_code)]
fn the_handle_is_the_first_thing_in_a_stream() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        // SAFETY: `repr(C)`; programs written for RustaCUDA read it so.
        let first = unsafe { std::ptr::from_ref(&stream).cast::<custack::driver::ffi::CUstream>().read() };
        assert_eq!(first, stream.as_raw());
    });
}
