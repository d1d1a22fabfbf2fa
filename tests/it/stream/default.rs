//! The streams that exist without being created.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::harness::{current, parked, pushed, run};
use custack::context::{ContextHandle, ContextStack, UnownedContext};
use custack::driver::instrument::during;
use custack::error::CudaError;
use custack::event::{Event, EventFlags, EventStatus};
use custack::launch;
use custack::memory::{AsyncCopyDestination, CopyDestination};
use custack::stream::{LegacyStream, PerThreadStream, Stream, StreamFlags, StreamWaitEventFlags};
use static_assertions::{assert_impl_all, assert_not_impl_any};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

assert_impl_all!(LegacyStream: Send, Sync, Clone, std::fmt::Debug);
assert_not_impl_any!(PerThreadStream: Send, Sync);

/// Gives the stream a function that waits until it is told to go.
fn occupy(stream: &Stream) -> Sender<()> {
    let (go, wait) = channel::<()>();
    stream.launch_host_func(move || wait.recv().unwrap()).unwrap();
    go
}

/// Whether work that the second gets waits for what the first has, as is expected; if it should not, it comes.
fn follows(ctx: &impl ContextHandle, first: &Stream, second: &Stream, expected: bool) {
    let event = ctx.as_unowned().create_event(EventFlags::DISABLE_TIMING).unwrap();
    let go = occupy(first);
    event.record(second).unwrap();
    if expected {
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(event.query(), Ok(EventStatus::NotReady), "{second:?} behind {first:?}");
    } else {
        event.synchronize().unwrap();
    }
    go.send(()).unwrap();
    first.synchronize().unwrap();
    event.synchronize().unwrap();
}

#[test]
fn the_legacy_stream_waits_for_blocking_streams_and_they_for_it() {
    run(|| {
        let ctx = parked();
        let legacy = LegacyStream::of(&ctx);
        let blocking = ctx.create_stream(StreamFlags::DEFAULT, None).unwrap();
        let free = ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        for (other, expected) in [(&blocking, true), (&free, false)] {
            follows(&ctx, &legacy, other, expected);
            follows(&ctx, other, &legacy, expected);
        }
    });
}

#[test]
fn the_per_thread_stream_waits_for_the_legacy_one_and_for_no_other() {
    run(|| {
        let ctx = parked();
        let (legacy, mine) = (LegacyStream::of(&ctx), PerThreadStream::of(&ctx));
        let blocking = ctx.create_stream(StreamFlags::DEFAULT, None).unwrap();
        let free = ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        for (other, expected) in [(&*legacy, true), (&blocking, false), (&free, false)] {
            follows(&ctx, &mine, other, expected);
            follows(&ctx, other, &mine, expected);
        }
        // It has no NON_BLOCKING flag, whatever its name makes one think.
        assert_eq!(
            (mine.get_flags(), legacy.get_flags()),
            (Ok(StreamFlags::DEFAULT), Ok(StreamFlags::DEFAULT))
        );
    });
}

#[test]
fn each_thread_has_a_stream_of_its_own() {
    run(|| {
        let ctx = parked();
        let mine = PerThreadStream::of(&ctx);
        let go = occupy(&mine);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let theirs = PerThreadStream::of(&ctx);
                assert_eq!(theirs.is_done(), Ok(true));
                theirs.synchronize().unwrap();
                theirs.id().unwrap()
            });
            assert_ne!(other.join().unwrap(), mine.id().unwrap());
        });
        assert_eq!(mine.is_done(), Ok(false));
        go.send(()).unwrap();
        mine.synchronize().unwrap();
    });
}

#[test]
fn a_per_thread_stream_on_another_thread_is_refused_before_the_driver_is_asked() {
    run(|| {
        let ctx = pushed();
        let mine = PerThreadStream::of(&ctx);
        let event = Event::new(EventFlags::DEFAULT).unwrap();
        let (stream, borrowed) = (&*mine, mine.to_borrowed());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for stream in [stream, &borrowed] {
                    let (answers, calls) = during(|| {
                        let (a, b) = (stream.synchronize(), stream.launch_host_func(|| {}));
                        (
                            a,
                            b,
                            event.record(stream).err(),
                            stream.wait_event(&event, StreamWaitEventFlags::DEFAULT),
                        )
                    });
                    let refused = CudaError::InvalidHandle;
                    assert_eq!(answers, (Err(refused), Err(refused), Some(refused), Err(refused)));
                    assert_eq!(calls.total(), 0);
                }
            });
        });
        mine.synchronize().unwrap();
    });
}

#[test]
fn a_default_stream_is_of_its_context_whatever_is_current() {
    run(|| {
        let (ctx, other) = (parked(), pushed());
        let (legacy, mine) = (LegacyStream::of(&ctx), PerThreadStream::of(&ctx));
        let go = occupy(&legacy);
        let blocking = ctx.create_stream(StreamFlags::DEFAULT, None).unwrap();
        for of_other in [&*LegacyStream::of(&other), &PerThreadStream::of(&other)] {
            assert_eq!(of_other.is_done(), Ok(true));
            assert_eq!(of_other.context(), &other.get_unowned());
        }
        assert_eq!(legacy.is_done(), Ok(false));
        assert_eq!(legacy.context(), &ctx.get_unowned());
        assert_eq!(legacy.device(), ctx.device());
        go.send(()).unwrap();
        for stream in [&*legacy, &mine, &blocking] {
            stream.synchronize().unwrap();
        }
        assert_eq!(current(), other.as_raw());
        ContextStack::pop().unwrap();
        legacy.synchronize().unwrap();
        assert!(current().is_null());
    });
}

#[test]
fn a_call_on_a_default_stream_costs_a_scope_and_itself() {
    run(|| {
        let (ctx, _other) = (parked(), pushed());
        let (legacy, mine) = (LegacyStream::of(&ctx), PerThreadStream::of(&ctx));
        for stream in [&*legacy, &mine] {
            let (_, calls) = during(|| stream.is_done());
            assert_eq!(calls.to_string(), "cuCtxPushCurrent_v2, cuCtxPopCurrent_v2, cuStreamQuery");
            let (_, calls) = during(|| {
                ctx.scoped(|_| {
                    during(|| stream.is_done()).1.total().eq(&2).then_some(()).ok_or(CudaError::UnknownError)
                })
                .unwrap()
            });
            assert_eq!(calls.of("cuStreamQuery"), 1);
        }
    });
}

#[test]
fn a_default_stream_of_a_destroyed_context_answers_so_without_a_call() {
    run(|| {
        let ctx = parked();
        let (legacy, mine) = (LegacyStream::of(&ctx), PerThreadStream::of(&ctx));
        let _other = pushed();
        drop(ctx);
        for stream in [&*legacy, &mine, &LegacyStream::of(&legacy.context().clone())] {
            let (answer, calls) = during(|| stream.synchronize());
            assert_eq!((answer, calls.total()), (Err(CudaError::ContextIsDestroyed), 0));
        }
        let nothing = LegacyStream::of(&unsafe { UnownedContext::from_raw(std::ptr::null_mut()) });
        assert_eq!(nothing.synchronize(), Err(CudaError::InvalidContext));
    });
}

#[test]
fn default_streams_take_work_of_every_kind() {
    run(|| {
        let ctx = parked();
        let module = ctx.load_module(crate::module::KERNELS.as_bytes()).unwrap();
        let (legacy, mine) = (LegacyStream::of(&ctx), PerThreadStream::of(&ctx));
        for stream in [&*legacy, &mine] {
            let mut number = ctx.device_buffer(&[0u32]).unwrap();
            let (start, end) = (
                ctx.create_event(EventFlags::DEFAULT).unwrap(),
                ctx.create_event(EventFlags::DEFAULT).unwrap(),
            );
            let mut back = [0u32];
            start.record(stream).unwrap();
            unsafe { number.async_copy_from(&[27u32], stream) }.unwrap();
            let pointer = number.as_device_ptr();
            unsafe { launch!(module.collatz<<<1, 1, 0, stream>>>(pointer, 1u32)) }.unwrap();
            unsafe { number.async_copy_to(&mut back, stream) }.unwrap();
            end.record(stream).unwrap();
            stream.wait_event(&end, StreamWaitEventFlags::DEFAULT).unwrap();
            let (tell, told) = channel();
            stream.add_callback(Box::new(move |status| tell.send(status).unwrap())).unwrap();
            assert_eq!(told.recv(), Ok(Ok(())));
            stream.synchronize().unwrap();
            assert_eq!(back, [111]);
            number.copy_to(&mut back).unwrap();
            assert!(end.elapsed_time(&start).unwrap() > Duration::ZERO);
            assert!(stream.get_priority().is_ok() && stream.id().is_ok());
        }
        assert!(current().is_null());
    });
}

#[test]
fn nobody_owns_a_default_stream() {
    run(|| {
        let _ctx = pushed();
        for raw in [0, 1, 2] {
            let owned = unsafe { Stream::from_raw(raw as _) };
            assert_eq!(owned.unwrap_err(), CudaError::InvalidHandle);
        }
    });
}
