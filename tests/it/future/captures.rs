//! Completions beside captures.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{Counting, held, poll, stream};
use crate::harness::{owned_by, parked, pushed, run, run_alone, within};
use custack::error::CudaError;
use custack::event::{Event, EventFlags};
use custack::stream::{CaptureMode, CaptureStatus, LegacyStream, StreamFlags};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

#[test]
fn a_stream_that_captures_is_not_awaited_and_goes_on_capturing() {
    run_alone(|| {
        let _ctx = pushed();
        let (mut stream, event) = (stream(), Event::new(EventFlags::DISABLE_TIMING).unwrap());
        let mut graph = stream
            .capture(CaptureMode::Global, |capture| {
                let called = AtomicUsize::new(0);
                let enqueued = capture.enqueue_async(|_| {
                    called.fetch_add(1, Ordering::SeqCst);
                    Ok(())
                });
                for refused in [capture.completion(), enqueued] {
                    assert_eq!(refused.unwrap_err(), CudaError::StreamCaptureUnsupported);
                }
                assert_eq!(called.into_inner(), 0);
                event.record(capture)?;
                assert_eq!(event.completion().unwrap_err(), CudaError::CapturedEvent);
                assert_eq!(capture.capture_status(), Ok(CaptureStatus::Active));
                Ok(())
            })
            .unwrap();
        assert_eq!(graph.nodes(), Ok(vec![]), "nothing of that is captured");
        stream.completion().unwrap().wait().unwrap();
    });
}

#[test]
fn a_stream_that_other_code_captures_is_not_awaited_either() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let table = crate::harness::table();
        assert_eq!(unsafe { (table.cuStreamBeginCapture_v2)(stream.as_raw(), 2) }, 0);
        assert_eq!(stream.completion().unwrap_err(), CudaError::StreamCaptureUnsupported);
        let mut graph = std::ptr::null_mut();
        assert_eq!(unsafe { (table.cuStreamEndCapture)(stream.as_raw(), &mut graph) }, 0);
        assert_eq!(unsafe { (table.cuGraphDestroy)(graph) }, 0);
    });
}

#[test]
fn completions_break_no_capture_of_other_streams() {
    within(60, || {
        run_alone(|| {
            let _ctx = pushed();
            let (mut capturing, working) = (stream(), stream());
            let (woken, waker) = Counting::waker();
            let go = held(&working);
            let mut before = working.completion().unwrap();
            assert!(poll(&mut before, &waker).is_pending());
            let mut graph = capturing
                .capture(CaptureMode::Global, |capture| {
                    // The thread that looks at it does so now.
                    std::thread::sleep(Duration::from_millis(20));
                    drop(go);
                    woken.reaches(1);
                    assert_eq!(capture.capture_status(), Ok(CaptureStatus::Active));
                    Ok(())
                })
                .unwrap();
            assert_eq!(graph.nodes(), Ok(vec![]));
            before.wait().unwrap();
        });
    });
}

#[test]
fn work_of_a_legacy_stream_is_awaited_though_a_blocking_stream_begins_a_capture_before_its_end_is_marked() {
    within(60, || {
        run_alone(|| {
            let context = parked();
            let mut blocking = context.create_stream(StreamFlags::DEFAULT, None).unwrap();
            let kept = Arc::new(());
            let value = (Arc::clone(&kept), context.device_buffer(&[1u32; 4]).unwrap());
            let (begin, begins) = channel();
            let (tell, told) = channel();
            let (end, ends) = channel::<()>();
            std::thread::scope(|scope| {
                let captured = scope.spawn(move || {
                    begins.recv().unwrap();
                    blocking.capture(CaptureMode::Relaxed, |_| {
                        tell.send(()).unwrap();
                        ends.recv().unwrap();
                        Ok(())
                    })
                });
                let legacy = LegacyStream::of(&context);
                let submitted = legacy.enqueue_async(|stream| {
                    stream.launch_host_func(|| {})?;
                    begin.send(()).unwrap();
                    told.recv().unwrap();
                    Ok(value)
                });
                let mut submitted = submitted.unwrap();
                let (_, waker) = Counting::waker();
                assert!(
                    poll(&mut submitted, &waker).is_pending(),
                    "it cannot be asked about during the capture"
                );
                end.send(()).unwrap();
                assert_eq!(submitted.wait().map(drop), Ok(()));
                assert_eq!(captured.join().unwrap().map(drop), Ok(()));
            });
            owned_by(&kept, 1);
        });
    });
}
