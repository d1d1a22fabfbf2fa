//! Captures whose end the driver refuses: each goes on, and is ended later or lost.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{MODES, is_free, stream};
use crate::harness::{is_simulated, parked, pushed, run, run_alone};
use crate::report::reported;
use custack::context::wait_until_retired;
use custack::driver::instrument::{self, When};
use custack::error::{CudaError, CudaResult};
use custack::graph::{Capture, EdgeData, Graph};
use custack::memory::DeviceBuffer;
use custack::stream::{CaptureMode, CaptureStatus, Stream, StreamFlags};
use std::sync::{Arc, Barrier};

/// This thread's next calls of the function fail, or its next calls of any.
fn will_refuse(function: Option<&str>, times: u64, when: When) {
    instrument::fail_times(function, 1, times, CudaError::OperatingSystemError.code(), when);
}

/// custack asks twice; the driver does neither.
fn refuses_to_end<R>(f: impl FnOnce() -> CudaResult<R>) -> CudaError {
    will_refuse(Some("cuStreamEndCapture"), 2, When::Before);
    goes_on(f())
}

fn goes_on<R>(ended: CudaResult<R>) -> CudaError {
    assert!(!instrument::disarm(), "it was asked twice");
    let Err(error) = ended else { panic!("it was not ended") };
    assert_eq!(error, CudaError::OperatingSystemError);
    assert!(crate::harness::said(error).contains("which goes on"), "{error}");
    error
}

fn is_forbidden() {
    assert_eq!(DeviceBuffer::from_slice(&[1u32]).unwrap_err(), CudaError::StreamCaptureUnsupported);
}

#[test]
fn a_capture_by_hand_that_the_driver_does_not_end_goes_on_and_is_ended_later() {
    run_alone(|| {
        let _ctx = pushed();
        let (mut stream, mut buffer) = (stream(), DeviceBuffer::from_slice(&[1u32]).unwrap());
        for mode in MODES {
            unsafe { stream.begin_capture(mode) }.unwrap();
            unsafe { buffer.async_fill(2, &stream) }.unwrap();
            let first = stream.capture_dependencies().unwrap()[0].0;
            refuses_to_end(|| unsafe { stream.end_capture() });
            assert_eq!(stream.capture_status(), Ok(CaptureStatus::Active));
            assert_eq!(stream.synchronize(), Err(CudaError::StreamCaptureUnsupported));
            if mode == CaptureMode::Global {
                is_forbidden();
            }
            assert_eq!(
                unsafe { stream.begin_capture(mode) }.unwrap_err(),
                CudaError::IllegalState,
                "not a second one"
            );
            let mut graph = unsafe { stream.end_capture() }.unwrap();
            assert_eq!(graph.nodes(), Ok(vec![first]), "the keys are valid yet");
            is_free(&mut stream);
        }
    });
}

#[test]
fn a_graph_is_given_back_by_the_end_that_the_driver_makes() {
    run_alone(|| {
        let ctx = pushed();
        let (mut stream, mut buffer) = (stream(), DeviceBuffer::from_slice(&[1u32]).unwrap());
        let mut graph = Graph::new(&ctx).unwrap();
        let first = graph.add_empty(&[]).unwrap();
        let after = [(first, EdgeData::default())];
        unsafe { stream.begin_capture_into(graph, &after, CaptureMode::Relaxed) }.map_err(|it| it.0).unwrap();
        unsafe { buffer.async_fill(2, &stream) }.unwrap();
        refuses_to_end(|| unsafe { stream.end_capture() });
        let mut graph = unsafe { stream.end_capture() }.unwrap();
        assert_eq!((graph.nodes().unwrap().len(), graph.root_nodes()), (2, Ok(vec![first])));
        graph.add_empty(&[first]).unwrap();
        is_free(&mut stream);
    });
}

/// A closure's capture that the driver does not end is nobody's; its stream can only be dropped.
#[track_caller]
fn is_lost_with_its_stream(stream: Stream) {
    let error = unsafe { stream.end_capture() }.unwrap_err();
    assert_eq!(error, CudaError::IllegalState, "its closure is gone");
    is_forbidden();
    let said = reported(|| drop(stream));
    assert_eq!(said.len(), 1, "{said:?}");
    let text = &said[0].1;
    assert!(text.contains("capture lost") && text.contains("Ok("), "{text}");
    drop(DeviceBuffer::from_slice(&[1u32]).unwrap());
}

#[test]
fn a_capture_of_a_closure_that_the_driver_does_not_end_is_lost_with_its_stream() {
    run_alone(|| {
        let ctx = pushed();
        let kept = Arc::new(());
        let body = |kept: &Arc<()>| {
            let value = Arc::clone(kept);
            move |capture: &Capture<'_>| capture.launch_host_func(move || drop(Arc::clone(&value)))
        };
        let mut capturing = stream();
        refuses_to_end(|| capturing.capture(CaptureMode::Global, body(&kept)));
        is_lost_with_its_stream(capturing);

        let mut capturing = stream();
        let mut graph = Graph::new(&ctx).unwrap();
        refuses_to_end(|| capturing.capture_into(&mut graph, &[], CaptureMode::Global, body(&kept)));
        assert_eq!(graph.nodes(), Err(CudaError::InvalidHandle), "the graph is the capture's");
        is_lost_with_its_stream(capturing);
        drop(graph);

        wait_until_retired().unwrap();
        super::unscoped::wait_for_drops(&kept);
    });
}

#[test]
fn a_capture_that_a_panic_leaves_and_the_driver_does_not_end_is_lost_with_its_stream() {
    run_alone(|| {
        let _ctx = pushed();
        let mut capturing = stream();
        will_refuse(Some("cuStreamEndCapture"), 2, When::Before);
        let panics = || capturing.capture(CaptureMode::Global, |_| panic!("on purpose, in a capture"));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).unwrap_err();
        assert!(!instrument::disarm());
        is_lost_with_its_stream(capturing);
    });
}

#[test]
fn whoever_ends_a_capture_into_a_graph_gets_that_graph_however_early_it_is() {
    run(|| {
        let ctx = pushed();
        let stream = stream();
        for _ in 0..200 {
            let mut graph = Graph::new(&ctx).unwrap();
            let first = graph.add_empty(&[]).unwrap();
            let mut ended = std::thread::scope(|scope| {
                let ending = scope.spawn(|| {
                    loop {
                        match unsafe { stream.end_capture() } {
                            Ok(graph) => return graph,
                            Err(error) => assert_eq!(error, CudaError::IllegalState, "{error}"),
                        }
                    }
                });
                unsafe { stream.begin_capture_into(graph, &[], CaptureMode::Relaxed) }
                    .map_err(|it| it.0)
                    .unwrap();
                ending.join().unwrap()
            });
            assert_eq!(ended.nodes(), Ok(vec![first]), "with the keys that its nodes have");
        }
    });
}

#[test]
fn a_capture_of_which_the_driver_cannot_say_whether_it_has_ended_goes_on() {
    run_alone(|| {
        let _ctx = pushed();
        let mut stream = stream();
        unsafe { stream.begin_capture(CaptureMode::Global) }.unwrap();
        // The end, twice, and the question whether the stream still captures.
        will_refuse(None, 3, When::Before);
        goes_on(unsafe { stream.end_capture() });
        is_forbidden();
        unsafe { stream.end_capture() }.unwrap();
        is_free(&mut stream);

        goes_on(stream.capture(CaptureMode::Global, |_| {
            will_refuse(None, 3, When::Before);
            Ok(())
        }));
        is_lost_with_its_stream(stream);
    });
}

#[test]
fn a_lost_capture_that_the_driver_does_not_end_ends_with_its_stream() {
    run_alone(|| {
        let _ctx = pushed();
        let stream = stream();
        let in_order = DeviceBuffer::from_slice_in(&[1u32; 4], &stream).unwrap();
        unsafe { stream.begin_capture(CaptureMode::Global) }.unwrap();
        let said = reported(|| {
            will_refuse(Some("cuStreamEndCapture"), 2, When::Before);
            drop(stream);
            assert!(!instrument::disarm(), "it was asked twice");
        });
        assert!(matches!(&said[..], [(_, text)] if text.contains("capture lost")), "{said:?}");
        is_forbidden();
        // The buffer has kept the stream.
        drop(in_order);
        wait_until_retired().unwrap();
        drop(DeviceBuffer::from_slice(&[1u32]).unwrap());

        // The driver destroys a stream, and with it the capture that it would not end before.
        let stream = super::stream();
        unsafe { stream.begin_capture(CaptureMode::Global) }.unwrap();
        let said = reported(|| {
            will_refuse(Some("cuStreamEndCapture"), 4, When::Before);
            drop(stream);
            assert!(!instrument::disarm(), "it was asked four times");
        });
        assert_eq!(said.iter().filter(|(_, text)| text.contains("capture lost")).count(), 2, "{said:?}");
        drop(DeviceBuffer::from_slice(&[1u32]).unwrap());
    });
}

#[test]
fn a_capture_whose_end_is_refused_is_lost_if_its_context_goes_at_that_moment() {
    run_alone(|| {
        let kept = pushed();
        // A context takes a GPU long.
        for _ in 0..if is_simulated() { 100 } else { 10 } {
            let ctx = parked();
            let stream = ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
            unsafe { stream.begin_capture(CaptureMode::Global) }.unwrap();
            let together = Barrier::new(2);
            std::thread::scope(|scope| {
                let _dropped = scope.spawn(|| {
                    together.wait();
                    drop(ctx);
                });
                will_refuse(Some("cuStreamEndCapture"), 2, When::Before);
                together.wait();
                let _ = unsafe { stream.end_capture() }.unwrap_err();
                instrument::disarm();
            });
            // On this thread nothing forbids it, though the stream is not dropped yet.
            drop(DeviceBuffer::from_slice(&[1u32]).unwrap());
        }
        drop(kept);
    });
}

#[test]
fn a_graph_keeps_the_contexts_of_a_capture_into_it_whose_end_fails_after_its_work() {
    run_alone(|| {
        let ctx = pushed();
        let (other, mut capturing) = (parked(), stream());
        let mut joined = other.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let mut graph = Graph::new(&ctx).unwrap();
        let error = capturing.capture_into(&mut graph, &[], CaptureMode::Relaxed, |capture| {
            capture.fork(&mut joined, |joined| joined.launch_host_func(|| {}))?;
            will_refuse(Some("cuStreamEndCapture"), 1, When::After);
            Ok(())
        });
        assert!(!instrument::disarm());
        error.unwrap_err();
        assert_eq!(graph.nodes().unwrap().len(), 1, "its nodes are there");
        drop(joined);
        let ((), calls) = instrument::during(|| drop(other));
        assert_eq!(calls.of("cuCtxDestroy_v2"), 0, "the graph keeps the context of its node");
        let ((), calls) = instrument::during(|| drop(graph));
        assert_eq!(calls.of("cuCtxDestroy_v2"), 1);
        is_free(&mut capturing);
    });
}
