//! Waiting for a stream with a first poll that spins: it asks the stream itself, and records an event only for work that is
//! left.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{Counting, block_on, held, poll, stream};
use crate::harness::{is_simulated, other, parked, pushed, run, run_alone, skip, within};
use custack::context::{UnownedContext, wait_until_retired};
use custack::driver::instrument::{self, When};
use custack::error::CudaError;
use custack::event::{Event, EventFlags};
use custack::sim;
use custack::stream::{
    CaptureMode, CaptureStatus, LegacyStream, PerThreadStream, Stream, StreamFlags, StreamWaitEventFlags,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

/// Longer than any test: a poll that gives up only then asks to the end.
const LONG: Duration = Duration::from_secs(50);
/// Long enough for another thread to do something meanwhile.
const SHORT: Duration = Duration::from_millis(40);

fn sleeps(stream: &Stream) {
    stream.launch_host_func(|| thread::sleep(Duration::from_millis(5))).unwrap();
}

#[test]
fn short_work_costs_no_event() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        for work in [false, true] {
            if work {
                sleeps(&stream);
            }
            let (_, waker) = Counting::waker();
            let mut waiting = stream.synchronize_async().spinning_for(LONG);
            let (polled, calls) = instrument::during(|| poll(&mut waiting, &waker));
            assert_eq!(polled, Poll::Ready(Ok(())));
            assert_eq!(calls.of("cuEventRecord"), 0);
            assert_eq!(calls.of("cuStreamQuery") > 1, work);
        }
    });
}

#[test]
fn without_a_spin_the_work_is_marked_at_once() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let (waited, calls) = instrument::during(|| block_on(stream.synchronize_async()));
        assert_eq!(waited, Ok(()));
        assert_eq!((calls.of("cuStreamQuery"), calls.of("cuEventRecord")), (0, 1));
    });
}

#[test]
fn longer_work_is_marked_once_and_wakes_the_task() {
    within(60, || {
        run(|| {
            let _ctx = pushed();
            let stream = stream();
            for spin in [Duration::ZERO, Duration::from_micros(200)] {
                let go = held(&stream);
                let (woken, waker) = Counting::waker();
                let mut waiting = stream.synchronize_async().spinning_for(spin);
                let begun = Instant::now();
                let (polled, calls) = instrument::during(|| poll(&mut waiting, &waker));
                assert!(polled.is_pending());
                assert!(begun.elapsed() >= spin);
                assert_eq!(calls.of("cuEventRecord"), 1);
                // What comes later is not waited for.
                let later = held(&stream);
                drop(go);
                woken.reaches(1);
                assert_eq!(poll(&mut waiting, &waker), Poll::Ready(Ok(())));
                drop(later);
                stream.synchronize().unwrap();
            }
        });
    });
}

#[test]
fn it_is_polled_to_the_end_once() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let (_, waker) = Counting::waker();
        let mut waiting = stream.synchronize_async();
        while poll(&mut waiting, &waker).is_pending() {}
        assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut waiting, &waker))).is_err());
    });
}

#[test]
fn a_context_whose_owner_is_dropped_meanwhile_is_not_destroyed_by_the_poll() {
    within(60, || {
        run_alone(|| {
            // The work of the second round ends only after the poll.
            for (spin, ends) in [(LONG, true), (SHORT, false)] {
                let ctx = parked();
                let stream = ctx.scoped(|_| Ok(stream())).unwrap();
                let go = held(&stream);
                let (_, waker) = Counting::waker();
                let mut waiting = stream.synchronize_async().spinning_for(spin);
                let before = instrument::contexts_alive();
                let polled = thread::scope(|scope| {
                    let other = scope.spawn(move || {
                        thread::sleep(SHORT / 4);
                        drop(ctx);
                        assert_eq!(instrument::contexts_alive(), before);
                        if ends {
                            drop(go);
                            None
                        } else {
                            Some(go)
                        }
                    });
                    let (polled, calls) = instrument::during(|| poll(&mut waiting, &waker));
                    assert_eq!(calls.of("cuCtxDestroy_v2"), 0);
                    drop(other.join().unwrap());
                    polled
                });
                assert_eq!(polled, if ends { Poll::Ready(Ok(())) } else { Poll::Pending });
                if !ends {
                    assert_eq!(block_on(waiting), Ok(()));
                }
                wait_until_retired().unwrap();
                let begun = Instant::now();
                while instrument::contexts_alive() == before && begun.elapsed() < LONG {
                    thread::yield_now();
                }
                assert_eq!(instrument::contexts_alive(), before - 1);
            }
        });
    });
}

#[cfg(feature = "graph")]
#[test]
fn a_capture_of_the_stream_is_refused_and_goes_on_whoever_began_it() {
    run_alone(|| {
        let _ctx = pushed();
        let mut stream = stream();
        let spin = Duration::from_millis(1);
        let graph = stream.capture(CaptureMode::Global, |capture| {
            let waited = block_on(capture.synchronize_async().spinning_for(spin));
            assert_eq!(waited, Err(CudaError::StreamCaptureUnsupported));
            assert_eq!(capture.capture_status(), Ok(CaptureStatus::Active));
            Ok(())
        });
        assert_eq!(graph.unwrap().nodes(), Ok(vec![]));

        let table = crate::harness::table();
        assert_eq!(unsafe { (table.cuStreamBeginCapture_v2)(stream.as_raw(), 0) }, 0);
        let waited = block_on(stream.synchronize_async().spinning_for(spin));
        assert_eq!(waited, Err(CudaError::StreamCaptureUnsupported));
        let mut graph = std::ptr::null_mut();
        let ended = unsafe { (table.cuStreamEndCapture)(stream.as_raw(), &mut graph) };
        assert_eq!(ended, 0, "it was not broken");
        assert_eq!(unsafe { (table.cuGraphDestroy)(graph) }, 0);
    });
}

#[test]
fn work_of_a_stream_that_other_code_captures_meanwhile_is_refused_and_kept_by_nothing() {
    within(120, || {
        run_alone(|| {
            let table = crate::harness::table();
            for _ in 0..5 {
                let ctx = parked();
                let stream = ctx.scoped(|_| Ok(stream())).unwrap();
                let go = held(&stream);
                let waited = thread::scope(|scope| {
                    let waiting =
                        scope.spawn(|| block_on(stream.synchronize_async().spinning_for(SHORT * 2)));
                    thread::sleep(SHORT / 4);
                    // Relaxed, so that another thread may end it.
                    assert_eq!(unsafe { (table.cuStreamBeginCapture_v2)(stream.as_raw(), 2) }, 0);
                    waiting.join().unwrap()
                });
                assert_eq!(waited, Err(CudaError::StreamCaptureUnsupported));
                let mut graph = std::ptr::null_mut();
                unsafe { (table.cuStreamEndCapture)(stream.as_raw(), &mut graph) };
                if !graph.is_null() {
                    assert_eq!(unsafe { (table.cuGraphDestroy)(graph) }, 0);
                }
                drop(go);
                // That no context is left is looked at in the end.
            }
        });
    });
}

#[cfg(feature = "graph")]
#[test]
fn a_capture_that_the_stream_joins_meanwhile_is_not_broken() {
    within(60, || {
        run_alone(|| {
            let _ctx = pushed();
            let (mut first, joined) = (stream(), stream());
            let [begun, ended] = [(); 2].map(|()| Event::new(EventFlags::DISABLE_TIMING).unwrap());
            let go = held(&joined);
            let graph = first.capture(CaptureMode::ThreadLocal, |capture| {
                thread::scope(|scope| {
                    let waiting = scope.spawn(|| block_on(joined.synchronize_async().spinning_for(LONG)));
                    thread::sleep(SHORT);
                    begun.record(capture)?;
                    joined.wait_event(&begun, StreamWaitEventFlags::DEFAULT)?;
                    assert_eq!(waiting.join().unwrap(), Err(CudaError::StreamCaptureUnsupported));
                    ended.record(&joined)?;
                    capture.wait_event(&ended, StreamWaitEventFlags::DEFAULT)
                })
            });
            graph.unwrap();
            drop(go);
            assert_eq!(block_on(joined.synchronize_async().spinning_for(LONG)), Ok(()));
        });
    });
}

#[cfg(feature = "graph")]
#[test]
fn asking_breaks_no_capture_of_another_stream() {
    run_alone(|| {
        let _ctx = pushed();
        let (mut capturing, working) = (stream(), stream());
        sleeps(&working);
        let graph = capturing.capture(CaptureMode::Global, |capture| {
            assert_eq!(block_on(working.synchronize_async().spinning_for(LONG)), Ok(()));
            assert_eq!(capture.capture_status(), Ok(CaptureStatus::Active));
            Ok(())
        });
        assert_eq!(graph.unwrap().nodes(), Ok(vec![]));
    });
}

#[test]
fn a_default_stream_is_waited_for_by_an_event_and_spins_too() {
    run(|| {
        let ctx = pushed();
        let (legacy, own) = (LegacyStream::of(&ctx), PerThreadStream::of(&ctx));
        for stream in [&*legacy, &*own] {
            sleeps(stream);
            let (_, waker) = Counting::waker();
            let mut waiting = stream.synchronize_async().spinning_for(LONG);
            let (polled, calls) = instrument::during(|| poll(&mut waiting, &waker));
            assert_eq!(polled, Poll::Ready(Ok(())));
            assert_eq!((calls.of("cuStreamQuery"), calls.of("cuEventRecord")), (0, 1));
        }
    });
}

#[test]
fn a_question_that_fails_leaves_the_answer_and_the_time_to_an_event() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        sleeps(&stream);
        instrument::fail(Some("cuStreamQuery"), 1, CudaError::UnknownError.code(), When::Before);
        let (_, waker) = Counting::waker();
        let mut waiting = stream.synchronize_async().spinning_for(LONG);
        assert_eq!(poll(&mut waiting, &waker), Poll::Ready(Ok(())));
    });
}

#[test]
fn a_poll_that_cannot_relax_the_thread_does_not_ask_the_stream() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        sleeps(&stream);
        instrument::fail(
            Some("cuThreadExchangeStreamCaptureMode"),
            1,
            CudaError::UnknownError.code(),
            When::Before,
        );
        let (waited, calls) = instrument::during(|| block_on(stream.synchronize_async().spinning_for(SHORT)));
        assert_eq!(waited, Ok(()));
        assert_eq!((calls.of("cuStreamQuery"), calls.of("cuEventRecord")), (0, 1));
    });
}

#[test]
fn an_event_that_cannot_be_made_is_an_error_before_the_stream_is_asked() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let go = held(&stream);
        instrument::fail(Some("cuEventCreate"), 1, CudaError::OutOfMemory.code(), When::Before);
        let (waited, calls) = instrument::during(|| block_on(stream.synchronize_async().spinning_for(LONG)));
        assert_eq!(waited, Err(CudaError::OutOfMemory));
        assert_eq!(calls.of("cuStreamQuery"), 0);
        drop(go);
    });
}

#[test]
fn a_context_that_is_gone_is_said_at_the_first_poll() {
    run(|| {
        for spin in [Duration::ZERO, LONG] {
            let ctx = pushed();
            let stream = stream();
            let waiting = stream.synchronize_async().spinning_for(spin);
            drop(ctx);
            assert_eq!(block_on(waiting), Err(CudaError::ContextIsDestroyed));
        }
    });
}

#[test]
fn a_stream_that_could_not_be_destroyed_is_an_invalid_handle() {
    run(|| {
        let _ctx = pushed();
        instrument::fail(Some("cuStreamDestroy_v2"), 1, CudaError::UnknownError.code(), When::Before);
        let (_, spent) = Stream::drop(stream()).unwrap_err();
        for spin in [Duration::ZERO, LONG] {
            let waited = block_on(spent.synchronize_async().spinning_for(spin));
            assert_eq!(waited, Err(CudaError::InvalidHandle));
        }
    });
}

#[test]
fn a_panic_in_the_closure_of_awaited_work_destroys_no_context_on_this_thread() {
    run_alone(|| {
        let ctx = parked();
        let stream = ctx.scoped(|_| Ok(stream())).unwrap();
        let ((), calls) = instrument::during(|| {
            let panics = || {
                let _ = stream.enqueue_async(|_| -> custack::error::CudaResult<()> {
                    thread::scope(|scope| scope.spawn(|| drop(ctx)).join().unwrap());
                    panic!("on purpose")
                });
            };
            assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        });
        assert_eq!(calls.of("cuCtxDestroy_v2"), 0);
        wait_until_retired().unwrap();
    });
}

#[test]
fn a_stream_is_not_asked_once_its_context_is_known_to_be_gone() {
    if !is_simulated() {
        let test = "a_stream_is_not_asked_once_its_context_is_known_to_be_gone";
        return skip(test, "the NVIDIA driver may crash on what other code destroyed");
    }
    run_alone(|| {
        sim::reuse_handles(true);
        let raw = other::parked();
        let stream =
            unsafe { UnownedContext::from_raw(raw) }.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let (at, (tell, told)) = (raw as usize, channel());
        instrument::wait_in("cuThreadExchangeStreamCaptureMode", move || {
            let replaced = move || {
                other::destroy(at as _);
                parked()
            };
            tell.send(thread::spawn(replaced).join().unwrap()).unwrap();
        });
        let (_, waker) = Counting::waker();
        let mut waiting = stream.synchronize_async().spinning_for(LONG);
        let (polled, calls) = instrument::during(|| poll(&mut waiting, &waker));
        assert_eq!(polled, Poll::Ready(Err(CudaError::ContextIsDestroyed)));
        assert_eq!(calls.of("cuStreamQuery"), 0, "{calls}");
        assert_eq!(told.recv().unwrap().as_raw(), raw, "the driver has given the handle to another");
        drop(waiting);
        drop(stream);
        sim::reuse_handles(false);
    });
}
