//! Calls that would break a capture, on one thread, while another begins captures and has streams join them.

use crate::harness::{parked, run_alone};
use custack::context::Context;
use custack::error::{CudaError, CudaResult};
use custack::event::{Event, EventFlags};
use custack::graph::{Graph, GraphExec, InstantiateFlags};
use custack::stream::{CaptureMode, LegacyStream, Stream, StreamFlags, StreamWaitEventFlags};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TIME: Duration = Duration::from_millis(400);

type Call = fn(&Stream, &mut GraphExec) -> CudaResult<()>;

const CALLS: [(&str, Call); 10] = [
    ("launch", |stream, graph| graph.launch(stream)),
    ("launch_async", |stream, graph| graph.launch_async(stream).map(drop)),
    ("upload", |stream, graph| graph.upload(stream)),
    ("launch_host_func", |stream, _| stream.launch_host_func(|| {})),
    ("add_callback", |stream, _| stream.add_callback(Box::new(|_| {}))),
    ("synchronize", |stream, _| stream.synchronize()),
    ("is_done", |stream, _| stream.is_done().map(drop)),
    ("get_flags", |stream, _| stream.get_flags().map(drop)),
    ("set_priority", |stream, _| stream.set_priority(0)),
    ("completion", |stream, _| stream.completion().map(drop)),
];

fn event(context: &Context) -> Event {
    context.create_event(EventFlags::DISABLE_TIMING).unwrap()
}

/// Makes each call again and again in a stream while `capture` captures. Each is refused, or done outside of the captures.
fn beside(
    context: &Context,
    stream: &Stream,
    refusal: CudaError,
    mut capture: impl FnMut() -> CudaResult<Graph>,
) {
    for (name, call) in CALLS {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut graph = Graph::new(context).unwrap();
                graph.add_empty(&[]).unwrap();
                let mut executable = graph.instantiate(InstantiateFlags::empty()).unwrap();
                while !over.load(Ordering::SeqCst) {
                    if let Err(error) = call(stream, &mut executable) {
                        assert_eq!(error, refusal, "{name}");
                    }
                }
            });
            let begun = Instant::now();
            while begun.elapsed() < TIME {
                let captured = capture().map(|mut graph| graph.nodes().unwrap().len());
                over.store(captured != Ok(1), Ordering::SeqCst);
                assert_eq!(captured, Ok(1), "beside {name}");
            }
            over.store(true, Ordering::SeqCst);
        });
        stream.synchronize().unwrap();
    }
}

#[test]
fn calls_in_a_legacy_stream_break_no_capture_that_begins_meanwhile() {
    run_alone(|| {
        let context = parked();
        let mut blocking = context.create_stream(StreamFlags::DEFAULT, None).unwrap();
        let legacy = LegacyStream::of(&context);
        beside(&context, &legacy, CudaError::StreamCaptureImplicit, || {
            blocking.capture(CaptureMode::Relaxed, |capture| capture.launch_host_func(|| {}))
        });
    });
}

#[test]
fn calls_in_a_stream_break_no_capture_that_it_joins_meanwhile() {
    run_alone(|| {
        let context = parked();
        let mut origin = context.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let joining = context.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let (forks, joins) = (event(&context), event(&context));
        beside(&context, &joining, CudaError::StreamCaptureUnsupported, || {
            origin.capture(CaptureMode::Relaxed, |capture| {
                capture.launch_host_func(|| {})?;
                forks.record(capture)?;
                joining.wait_event(&forks, StreamWaitEventFlags::DEFAULT)?;
                joins.record(&joining)?;
                capture.wait_event(&joins, StreamWaitEventFlags::DEFAULT)
            })
        });
    });
}
