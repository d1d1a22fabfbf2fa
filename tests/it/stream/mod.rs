//! Streams.

mod borrowed;
mod callback;
#[cfg(all(
    feature = "graph",
    feature = "green",
    feature = "library",
    feature = "pool",
    feature = "texture",
    feature = "tracing"
))]
pub(crate) mod capture;
mod default;
pub(crate) mod host_function;
mod late;
mod mark;
pub(crate) mod scope;
mod values;

use crate::harness::{current, drain, is_simulated, parked, pushed, run, run_alone};
use custack::context::{Context, ContextStack};
use custack::driver::instrument::{self, When};
use custack::error::CudaError;
use custack::sim;
use custack::stream::{LegacyStream, Stream, StreamFlags, SynchronizationPolicy};
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
        // SAFETY: a stream of this context that no one else has.
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

#[test]
fn shutting_a_stream_down_waits_for_its_work_and_destroys_it() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let done = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&done);
        stream
            .launch_host_func(move || {
                std::thread::sleep(std::time::Duration::from_millis(30));
                count.fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
        let (result, calls) = instrument::during(|| stream.shutdown());
        assert!(result.is_ok());
        assert_eq!((done.load(Ordering::SeqCst), Arc::strong_count(&done)), (1, 1));
        assert_eq!(calls.to_string(), "cuStreamDestroy_v2, cuStreamSynchronize, cuStreamIsCapturing");
    });
}

#[test]
fn a_stream_is_destroyed_also_if_its_work_failed_and_the_first_error_comes_back() {
    run_alone(|| {
        let _ctx = pushed();
        let left = || if is_simulated() { sim::objects() } else { 0 };
        let before = left();
        for (function, when) in [
            ("cuStreamSynchronize", When::Before),
            ("cuStreamSynchronize", When::After),
            ("cuStreamDestroy_v2", When::After),
        ] {
            let stream = stream();
            instrument::fail(Some(function), 1, 719, when);
            let (error, spent) = stream.shutdown().unwrap_err();
            assert_eq!((error, left()), (CudaError::LaunchFailed, before), "{function} {when:?}");
            assert_eq!(spent.synchronize(), Err(CudaError::InvalidHandle));
            let (_, calls) = instrument::during(|| drop(spent));
            assert_eq!(calls.total(), 0);
        }
    });
}

#[test]
fn shutting_down_after_the_context_says_so_and_leaks_nothing() {
    run_alone(|| {
        let ctx = pushed();
        let (first, second) = (stream(), stream());
        let (tell, told) = channel();
        let in_host_function = stream();
        in_host_function
            .launch_host_func(move || {
                let (error, second) = second.shutdown().unwrap_err();
                assert_eq!(error, CudaError::NotPermitted);
                tell.send(second).unwrap();
            })
            .unwrap();
        // It is as it was.
        let second = told.recv().unwrap();
        second.synchronize().unwrap();
        assert!(second.shutdown().is_ok());
        drop(ctx);
        assert_eq!(first.shutdown().unwrap_err().0, CudaError::ContextIsDestroyed);
    });
}

#[test]
fn streams_are_made_in_contexts_that_are_not_current() {
    run(|| {
        let (ctx, other) = (parked(), pushed());
        let (stream, calls) = instrument::during(|| ctx.create_stream(StreamFlags::DEFAULT, Some(-99)));
        assert_eq!(calls.to_string(), "cuCtxPushCurrent_v2, cuCtxPopCurrent_v2, cuStreamCreateWithPriority");
        let stream = stream.unwrap();
        assert_eq!(stream.get_priority().unwrap(), ctx.stream_priority_range().unwrap().greatest);
        assert_eq!((stream.context(), stream.device()), (&ctx.get_unowned(), ctx.device()));
        assert_eq!(current(), other.as_raw());
        let handle = ctx.get_unowned();
        drop((ctx, stream));
        let (refused, calls) = instrument::during(|| handle.create_stream(StreamFlags::DEFAULT, None));
        assert_eq!((refused.unwrap_err(), calls.total()), (CudaError::ContextIsDestroyed, 0));
    });
}

#[test]
fn attributes_are_set_read_and_copied() {
    run(|| {
        let (ctx, other) = (parked(), pushed());
        let [a, b] = [&ctx, &ctx].map(|ctx| ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap());
        assert_eq!(a.synchronization_policy(), Ok(SynchronizationPolicy::Auto), "not told");
        for policy in [
            SynchronizationPolicy::Auto,
            SynchronizationPolicy::Spin,
            SynchronizationPolicy::Yield,
            SynchronizationPolicy::BlockingSync,
        ] {
            a.set_synchronization_policy(policy).unwrap();
            assert_eq!(a.synchronization_policy(), Ok(policy));
            b.copy_attributes(&a).unwrap();
            assert_eq!(b.synchronization_policy(), Ok(policy));
        }
        let range = ctx.stream_priority_range().unwrap();
        for (asked, got) in [(-99, range.greatest), (-4, -4), (99, range.least)] {
            a.set_priority(asked).unwrap();
            assert_eq!(a.get_priority(), Ok(got));
        }
        let far = other.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let (refused, calls) = instrument::during(|| far.copy_attributes(&a));
        assert_eq!((refused, calls.total()), (Err(CudaError::InvalidHandle), 0));
        LegacyStream::of(&ctx).copy_attributes(&a).unwrap();
    });
}

#[test]
fn a_stream_is_equal_to_what_stands_for_it_and_to_no_other() {
    use custack::driver::instrument;
    use custack::stream::PerThreadStream;
    static_assertions::assert_impl_all!(Stream: Send, Sync, Eq);
    run_alone(|| {
        let (ctx, there) = (pushed(), parked());
        let (one, two) = (stream(), stream());
        assert!(one == one && one != two && *one.to_borrowed() == one);
        // The default streams have the same raw handles in every context and on every thread.
        let (legacy, far) = (LegacyStream::of(&ctx), LegacyStream::of(&there));
        assert_eq!(legacy.as_raw(), far.as_raw());
        assert!(*legacy == *LegacyStream::of(&ctx) && *legacy != *far && *legacy != one);
        let mine = PerThreadStream::of(&ctx);
        assert!(*mine == *PerThreadStream::of(&ctx) && *mine != *legacy);
        let here: &Stream = &mine;
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(*here != *PerThreadStream::of(&ctx))).join().unwrap();
        });
        // The driver may give the handle of a stream that is gone with its context to a later one.
        sim::reuse_handles(true);
        let gone = there.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        drop(there);
        let next = parked();
        let streams: Vec<_> =
            (0..4).map(|_| next.create_stream(StreamFlags::NON_BLOCKING, None).unwrap()).collect();
        assert!(streams.iter().all(|later| *later != gone) && gone == gone);
        // And that of one whose destruction has failed.
        instrument::fail(Some("cuStreamDestroy_v2"), 1, 719, When::After);
        let (_, spent) = Stream::drop(two).unwrap_err();
        let later = stream();
        assert!(spent != later && spent == spent);
        sim::reuse_handles(false);
    });
}

#[cfg(all(feature = "graph", feature = "pool"))]
#[test]
fn what_is_shut_down_or_given_away_keeps_no_context() {
    use crate::harness::table;
    use custack::event::{Event, EventFlags};
    use custack::graph::Graph;
    use custack::memory::{MemoryPool, PoolProperties};
    use custack::module::Module;
    run_alone(|| {
        let ctx = pushed();
        let device = ctx.device().unwrap();
        let alive = instrument::contexts_alive();
        assert!(stream().shutdown().is_ok());
        let given = (
            stream().into_raw(),
            Event::new(EventFlags::DEFAULT).unwrap().into_raw(),
            Module::load_from_bytes(crate::module::KERNELS.as_bytes()).unwrap().into_raw(),
            Graph::new(&ctx).unwrap().into_raw(),
            MemoryPool::new(device, &PoolProperties::new()).unwrap().into_raw(),
        );
        // SAFETY: each was given up above, and is destroyed once.
        #[allow(unsafe_code)]
        let destroyed = unsafe {
            [
                (table().cuStreamDestroy_v2)(given.0),
                (table().cuEventDestroy_v2)(given.1),
                (table().cuModuleUnload)(given.2),
                (table().cuGraphDestroy)(given.3),
                (table().cuMemPoolDestroy)(given.4),
            ]
        };
        assert_eq!(destroyed, [0; 5]);
        assert!(Context::drop(ctx).is_ok());
        assert_eq!(instrument::contexts_alive(), alive - 1);
    });
}

#[test]
fn a_stream_that_memory_shares_is_shut_down_and_given_away_as_any_other() {
    use custack::memory::{CopyDestination, DeviceBuffer};
    run_alone(|| {
        let ctx = pushed();
        let left = || if is_simulated() { (sim::objects(), sim::allocations()) } else { (0, 0) };
        let before = left();
        let (shut, given) = (stream(), stream());
        let buffers = [&shut, &given].map(|home| DeviceBuffer::from_slice_in(&[7u32], home).unwrap());
        assert!(shut.shutdown().is_ok());
        let raw = given.into_raw();
        for buffer in buffers {
            let mut back = [0];
            buffer.copy_to(&mut back).unwrap();
            assert_eq!(back, [7]);
        }
        // SAFETY: given up above, and nothing uses it any more.
        #[allow(unsafe_code)]
        let again = unsafe { Stream::from_raw(raw) }.unwrap();
        again.synchronize().unwrap();
        drop(again);
        assert_eq!(left(), before);
        drop(ctx);
    });
}

#[test]
fn a_stream_that_could_not_be_made_costs_the_others_nothing() {
    use custack::event::{Event, EventFlags};
    use custack::memory::DeviceBuffer;
    run(|| {
        let _ctx = pushed();
        let (one, event) = (stream(), Event::new(EventFlags::DEFAULT).unwrap());
        let round = || {
            instrument::during(|| {
                event.record(&one).unwrap();
                one.synchronize().unwrap();
                drop(DeviceBuffer::from_slice_in(&[1u8], &one).unwrap());
            })
            .1
        };
        round();
        let before = round();
        for when in [When::Before, When::After] {
            instrument::fail(Some("cuStreamCreateWithPriority"), 1, 2, when);
            assert_eq!(Stream::new(StreamFlags::DEFAULT, None).unwrap_err(), CudaError::OutOfMemory);
            assert_eq!(round(), before);
        }
    });
}
