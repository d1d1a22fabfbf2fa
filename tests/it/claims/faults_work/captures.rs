//! Captures, and what is captured. What fails in a capture leaves the capture whole.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{Operation, SMALL, stream};
use custack::context::CurrentContext;
use custack::error::{CudaError, CudaResult};
use custack::event::{Event, EventFlags};
use custack::graph::{Capture, Dependencies, EdgeData, Graph, InstantiateFlags};
use custack::launch;
use custack::memory::{AsyncCopyDestination, DeviceBuffer};
use custack::module::Module;
use custack::stream::{CaptureMode, Stream, StreamWaitEventFlags};
use std::sync::Arc;

/// Captures the work. If some of it fails, the rest of the capture still becomes a graph.
fn captured(work: impl FnOnce(&Capture<'_>) -> CudaResult<()>) -> CudaResult<()> {
    let (mut stream, mut done) = (stream()?, Ok(()));
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        done = work(capture);
        Ok(())
    });
    if let Err(error) = done {
        assert!(graph.is_ok(), "{error} has broken the capture: {graph:?}");
    }
    done.and(graph.map(drop))
}

fn event() -> CudaResult<Event> {
    Event::new(EventFlags::DISABLE_TIMING)
}

pub(super) const OPERATIONS: &[(&str, Operation)] = &[
    ("a graph that is captured", || {
        let (mut stream, mut other) = (stream()?, stream()?);
        let mut graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
            capture.keep(vec![1, 2, 3])?;
            capture.launch_host_func(|| {})?;
            let after = capture.dependencies()?;
            capture.update_dependencies(Dependencies::Set, &after)?;
            capture.fork(&mut other, |other| other.launch_host_func(|| {}))?;
            assert_eq!(capture.synchronize(), Err(CudaError::StreamCaptureUnsupported));
            Ok(())
        })?;
        let _ = (stream.capture_status()?, stream.capture_id()?);
        let mut exec = graph.instantiate(InstantiateFlags::empty())?;
        exec.launch(&stream)?;
        stream.synchronize()
    }),
    ("a graph that is captured into", || {
        let mut stream = stream()?;
        let mut graph = Graph::new(stream.context())?;
        let first = graph.add_empty(&[])?;
        stream.capture_into(
            &mut graph,
            &[(first, EdgeData::default())],
            CaptureMode::ThreadLocal,
            |capture| capture.launch_host_func(|| {}),
        )?;
        graph.nodes().map(|nodes| assert_eq!(nodes.len(), 2))
    }),
    ("a graph that is captured and made executable", || {
        let mut stream = stream()?;
        let mut exec =
            stream.capture_executable(CaptureMode::Global, InstantiateFlags::empty(), |capture| {
                capture.launch_host_func(|| {})
            })?;
        exec.launch(&stream)?;
        stream.synchronize()
    }),
    ("a graph that is captured by hand", || {
        let stream = stream()?;
        unsafe { stream.begin_capture(CaptureMode::Global) }?;
        unsafe { stream.end_capture() }.map(drop)
    }),
    ("a graph that is captured by hand and lost", || {
        let (stream, event) = (stream()?, event()?);
        unsafe { stream.begin_capture(CaptureMode::ThreadLocal) }?;
        event.record(&stream)
    }),
    ("what a capture by hand depends on", || {
        let stream = stream()?;
        let mut buffer = DeviceBuffer::from_slice(&[1u32, 2])?;
        unsafe { stream.begin_capture(CaptureMode::Global) }?;
        let done = (|| {
            unsafe { buffer.async_fill(7, &stream) }?;
            let after = stream.capture_dependencies()?;
            stream.update_capture_dependencies(Dependencies::Set, &after)
        })();
        let graph = unsafe { stream.end_capture() };
        assert!(done.is_ok() || graph.is_ok(), "{done:?} has broken the capture: {graph:?}");
        done.and(graph.map(drop))
    }),
    ("a graph that a capture by hand adds to, and that keeps a value", || {
        let stream = stream()?;
        let mut graph = Graph::new(&CurrentContext::get_current()?)?;
        let after = [(graph.add_empty(&[])?, EdgeData::default())];
        unsafe { stream.begin_capture_into(graph, &after, CaptureMode::Global) }
            .map_err(|(error, _)| error)?;
        let kept = stream.keep_in_capture(vec![1]);
        unsafe { stream.end_capture() }.and_then(|mut graph| graph.nodes()).and(kept)
    }),
    ("memory that a capture allocates", || {
        captured(|capture| {
            let memory = capture.allocate::<u32>(4)?;
            unsafe { capture.fill_bytes(&memory, 7) }?;
            capture.free(memory)
        })
    }),
    ("a capture that is made executable and uploaded", || {
        let mut stream = stream()?;
        let flags = InstantiateFlags::empty();
        let work = |capture: &Capture<'_>| capture.launch_host_func(|| {});
        let mut exec = stream.capture_executable_and_upload(CaptureMode::Global, flags, work)?;
        exec.launch(&stream)?;
        stream.synchronize()
    }),
    ("a launch in a capture", || {
        let module = Module::load_from_bytes(SMALL.as_bytes())?;
        let function = module.get_function(c"takes")?;
        captured(|capture| unsafe { launch!(function<<<1, 1, 0, capture>>>(1u32)) })
    }),
    ("copies and fills in a capture", || {
        let (mut buffer, mut back) = (DeviceBuffer::from_slice(&[1u32, 2])?, [0; 2]);
        captured(|capture| unsafe {
            buffer.async_copy_from(&[3, 4], capture)?;
            buffer.async_fill(7, capture)?;
            buffer.async_copy_to(&mut back, capture)
        })
    }),
    ("what a capture keeps and calls", || {
        captured(|capture| {
            capture.keep(vec![1, 2, 3])?;
            capture.launch_host_func(|| {})?;
            capture.record(|again: &Capture<'_>| again.launch_host_func(|| {}))
        })
    }),
    ("events in a capture", || {
        let (inside, outside) = (event()?, Arc::new(event()?));
        captured(|capture| {
            inside.record(capture)?;
            capture.wait_event(&inside, StreamWaitEventFlags::DEFAULT)?;
            capture.record_external(&outside)?;
            capture.wait_external(&outside)
        })
    }),
    ("a fork in a capture", || {
        let mut other = stream()?;
        captured(|capture| capture.fork(&mut other, |other| other.launch_host_func(|| {})))
    }),
    ("a stream that joins a capture by hand", || {
        let (mut main, other, there, back) = (stream()?, stream()?, event()?, event()?);
        let graph = main.capture(CaptureMode::ThreadLocal, |capture| {
            there.record(capture)?;
            other.wait_event(&there, StreamWaitEventFlags::DEFAULT)?;
            back.record(&other)?;
            capture.wait_event(&back, StreamWaitEventFlags::DEFAULT)
        });
        // Its capture is over, also if it failed.
        other.synchronize().or_else(|error| other.synchronize().and(Err(error)))?;
        graph.map(drop)
    }),
    ("streams that fork and join in a capture", || {
        let (mut main, other) = (stream()?, stream()?);
        main.capture(CaptureMode::ThreadLocal, |capture| {
            Stream::fork(capture, [&other])?;
            capture.join([&other])
        })
        .map(drop)
    }),
];
