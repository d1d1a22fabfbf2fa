//! Waiting for a stream, which asks the stream itself before it records an event.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{Counting, block_on, held, poll, stream};
use crate::harness::{pushed, run, run_alone, within};
use custack::driver::instrument::{self, When};
use custack::error::CudaError;
use custack::stream::{CaptureMode, CaptureStatus, LegacyStream, PerThreadStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::time::{Duration, Instant};

#[test]
fn a_stream_without_work_costs_one_question_and_no_event() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let (waited, calls) = instrument::during(|| block_on(stream.synchronize_async()));
        assert_eq!(waited, Ok(()));
        assert_eq!(calls.of("cuStreamQuery"), 1);
        assert_eq!((calls.of("cuEventCreate"), calls.of("cuEventRecord")), (0, 0));
    });
}

#[test]
fn work_that_ends_while_the_first_poll_spins_costs_no_event() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        stream.launch_host_func(|| std::thread::sleep(Duration::from_millis(5))).unwrap();
        let (_, waker) = Counting::waker();
        let mut waiting = stream.synchronize_async().spinning_for(Duration::from_secs(20));
        let (polled, calls) = instrument::during(|| poll(&mut waiting, &waker));
        assert_eq!(polled, Poll::Ready(Ok(())));
        assert!(calls.of("cuStreamQuery") > 1);
        assert_eq!(calls.of("cuEventRecord"), 0);
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
                let (later, wait) = std::sync::mpsc::channel::<()>();
                stream.launch_host_func(move || assert!(wait.recv().is_err())).unwrap();
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
        assert_eq!(poll(&mut waiting, &waker), Poll::Ready(Ok(())));
        assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut waiting, &waker))).is_err());
    });
}

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
        assert_eq!(
            unsafe { (table.cuStreamEndCapture)(stream.as_raw(), &mut graph) },
            0,
            "it was not broken"
        );
        assert_eq!(unsafe { (table.cuGraphDestroy)(graph) }, 0);
    });
}

#[test]
fn asking_breaks_no_capture_of_another_stream() {
    run_alone(|| {
        let _ctx = pushed();
        let (mut capturing, working) = (stream(), stream());
        working.launch_host_func(|| std::thread::sleep(Duration::from_millis(2))).unwrap();
        let graph = capturing.capture(CaptureMode::Global, |capture| {
            let waiting = working.synchronize_async().spinning_for(Duration::from_secs(20));
            assert_eq!(block_on(waiting), Ok(()));
            assert_eq!(capture.capture_status(), Ok(CaptureStatus::Active));
            Ok(())
        });
        assert_eq!(graph.unwrap().nodes(), Ok(vec![]));
    });
}

#[test]
fn a_default_stream_is_waited_for_by_an_event() {
    run(|| {
        let ctx = pushed();
        let (legacy, own) = (LegacyStream::of(&ctx), PerThreadStream::of(&ctx));
        for stream in [&*legacy, &*own] {
            let (waited, calls) = instrument::during(|| block_on(stream.synchronize_async()));
            assert_eq!(waited, Ok(()));
            assert_eq!((calls.of("cuStreamQuery"), calls.of("cuEventRecord")), (0, 1));
        }
    });
}

#[test]
fn a_context_that_is_gone_is_said_at_the_first_poll() {
    run(|| {
        let ctx = pushed();
        let stream = stream();
        let waiting = stream.synchronize_async();
        drop(ctx);
        assert_eq!(block_on(waiting), Err(CudaError::ContextIsDestroyed));
    });
}

#[test]
fn a_question_that_fails_leaves_the_answer_to_an_event() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        instrument::fail(Some("cuStreamQuery"), 1, CudaError::UnknownError.code(), When::Before);
        assert_eq!(block_on(stream.synchronize_async()), Ok(()));
    });
}
