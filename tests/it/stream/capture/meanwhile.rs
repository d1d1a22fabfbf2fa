//! Calls that would break a capture, on one thread, while another begins captures and has streams join them.

#![allow(unsafe_code)]

use crate::harness::{parked, run_alone};
use custack::context::Context;
use custack::error::{CudaError, CudaResult};
use custack::event::{Event, EventFlags};
use custack::graph::{Graph, GraphExec, InstantiateFlags};
use custack::memory::{AsyncCopyDestination, CopyDestination};
use custack::stream::{CaptureMode, LegacyStream, Stream, StreamFlags, StreamWaitEventFlags};
use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TIME: Duration = Duration::from_millis(300);

/// How long this thread has run, or else the time: one that waits for a call looks again and again, while one that gets no
/// processor, or waits for a lock, has not run.
fn ran() -> Duration {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    let nanoseconds = fs::read_to_string("/proc/thread-self/schedstat").ok().and_then(|text| {
        let ran = text.split(' ').next()?.parse().ok()?;
        (ran != 0).then_some(ran)
    });
    nanoseconds.map_or_else(|| BEGUN.get_or_init(Instant::now).elapsed(), Duration::from_nanos)
}

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

fn stream(context: &Context, flags: StreamFlags) -> Stream {
    context.create_stream(flags, None).unwrap()
}

/// A capture of one node, which another stream joins.
fn captured_and_joined(origin: &mut Stream, joining: &Stream, events: &[Event; 2]) -> CudaResult<Graph> {
    let [forks, joins] = events;
    origin.capture(CaptureMode::Relaxed, |capture| {
        capture.launch_host_func(|| {})?;
        forks.record(capture)?;
        joining.wait_event(forks, StreamWaitEventFlags::DEFAULT)?;
        joins.record(joining)?;
        capture.wait_event(joins, StreamWaitEventFlags::DEFAULT)
    })
}

/// Makes a call again and again while captures of one node begin and end. Each call is refused, or done outside of the captures.
/// One that waits for work is waited for only shortly, so where the system stops its thread at the wrong moment it may break one.
/// Captures that wait for what waits for them do so each time; a machine that others use as well stalls only now and then.
fn beside(
    name: &str,
    refusal: CudaError,
    mut call: impl FnMut() -> CudaResult<()> + Send,
    capture: &mut dyn FnMut() -> CudaResult<Graph>,
) {
    let slow =
        (0..3).map(|_| slow_beside(name, refusal, &mut call, capture)).take_while(|(slow, _)| *slow > 1);
    let all: Vec<_> = slow.collect();
    assert!(all.len() < 3, "beside {name} of (slow, all) {all:?} captures waited for what waited for them");
}

/// How many of how many captures were slow.
fn slow_beside(
    name: &str,
    refusal: CudaError,
    call: &mut (dyn FnMut() -> CudaResult<()> + Send),
    capture: &mut dyn FnMut() -> CudaResult<Graph>,
) -> (usize, usize) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                if let Err(error) = call() {
                    assert_eq!(error, refusal, "{name}");
                }
            }
        });
        let (begun, mut slow, mut broken, mut captures) = (Instant::now(), 0, 0, 0);
        while begun.elapsed() < TIME {
            let one = ran();
            let captured = capture().map(|mut graph| graph.nodes().unwrap().len());
            let may_break = name == "synchronize" && captured == Err(CudaError::StreamCaptureInvalidated);
            over.store(captured != Ok(1) && !may_break, Ordering::SeqCst);
            assert!(captured == Ok(1) || may_break, "beside {name} {captured:?}");
            broken += usize::from(may_break);
            captures += 1;
            slow += usize::from(ran().saturating_sub(one) > Duration::from_millis(45));
        }
        over.store(true, Ordering::SeqCst);
        assert!(broken * 50 <= captures + 50, "beside {name} {broken} of {captures} captures were broken");
        (slow, captures)
    })
}

/// An executable graph; with a value that it keeps, it notes after each launch when that is over.
fn executable(context: &Context, keeps: bool) -> GraphExec {
    let mut graph = Graph::new(context).unwrap();
    graph.add_empty(&[]).unwrap();
    if keeps {
        graph.keep(vec![0u8]).unwrap();
    }
    graph.instantiate(InstantiateFlags::empty()).unwrap()
}

fn all_calls_beside(
    context: &Context,
    stream: &Stream,
    refusal: CudaError,
    mut capture: impl FnMut() -> CudaResult<Graph>,
) {
    for (name, call) in CALLS {
        for keeps in [false, true] {
            let mut graph = executable(context, keeps);
            beside(name, refusal, || call(stream, &mut graph), &mut capture);
            stream.synchronize().unwrap();
            if !name.contains("launch") || name == "launch_host_func" {
                break;
            }
        }
    }
}

#[test]
fn calls_in_a_legacy_stream_break_no_capture_that_begins_meanwhile() {
    run_alone(|| {
        let context = parked();
        let mut blocking = stream(&context, StreamFlags::DEFAULT);
        let legacy = LegacyStream::of(&context);
        let mut capture =
            || blocking.capture(CaptureMode::Relaxed, |capture| capture.launch_host_func(|| {}));
        all_calls_beside(&context, &legacy, CudaError::StreamCaptureImplicit, &mut capture);
        let record = event(&context);
        beside("record", CudaError::StreamCaptureImplicit, || record.record(&legacy), &mut capture);
    });
}

#[test]
fn calls_in_a_stream_break_no_capture_that_it_joins_meanwhile() {
    run_alone(|| {
        let context = parked();
        let (mut origin, joining) =
            (stream(&context, StreamFlags::NON_BLOCKING), stream(&context, StreamFlags::NON_BLOCKING));
        let events = [event(&context), event(&context)];
        all_calls_beside(&context, &joining, CudaError::StreamCaptureUnsupported, || {
            captured_and_joined(&mut origin, &joining, &events)
        });
    });
}

#[test]
fn calls_in_a_legacy_stream_break_no_capture_that_a_blocking_stream_joins_meanwhile() {
    run_alone(|| {
        let context = parked();
        let (mut origin, joining) =
            (stream(&context, StreamFlags::NON_BLOCKING), stream(&context, StreamFlags::DEFAULT));
        let (events, other) = ([event(&context), event(&context)], event(&context));
        let legacy = LegacyStream::of(&context);
        let mut capture = || captured_and_joined(&mut origin, &joining, &events);
        let implicit = CudaError::StreamCaptureImplicit;
        beside("record", implicit, || other.record(&legacy), &mut capture);
        let wait = || legacy.wait_event(&other, StreamWaitEventFlags::DEFAULT);
        beside("wait_event", implicit, wait, &mut capture);
    });
}

#[test]
fn calls_of_a_whole_context_break_no_capture_that_begins_meanwhile() {
    run_alone(|| {
        let context = parked();
        let mut origin = stream(&context, StreamFlags::NON_BLOCKING);
        let other = event(&context);
        let mut capture = || origin.capture(CaptureMode::Relaxed, |capture| capture.launch_host_func(|| {}));
        let refused = CudaError::StreamCaptureUnsupported;
        beside("synchronize", refused, || context.synchronize(), &mut capture);
        beside("record_event", refused, || context.record_event(&other), &mut capture);
        beside("wait_event", refused, || context.wait_event(&other), &mut capture);
    });
}

#[test]
fn queries_of_an_event_break_no_capture_that_it_is_recorded_in_meanwhile() {
    run_alone(|| {
        let context = parked();
        let (mut origin, outside) =
            (stream(&context, StreamFlags::NON_BLOCKING), stream(&context, StreamFlags::NON_BLOCKING));
        let recorded = event(&context);
        let mut capture = || {
            let captured = origin.capture(CaptureMode::Relaxed, |capture| {
                recorded.record(capture)?;
                capture.launch_host_func(|| {})
            });
            recorded.record(&outside)?;
            captured
        };
        // Between the capture and the next record it has no marker.
        let unmarked = |called: CudaResult<()>| {
            called.or_else(|error| match error {
                CudaError::InvalidValue => Ok(()),
                error => Err(error),
            })
        };
        let refused = CudaError::CapturedEvent;
        beside("query", refused, || unmarked(recorded.query().map(drop)), &mut capture);
        beside("synchronize", refused, || unmarked(recorded.synchronize()), &mut capture);
    });
}

#[test]
fn a_copy_between_two_contexts_is_refused_in_a_capture_and_stalls_none_elsewhere() {
    run_alone(|| {
        let (context, other) = (parked(), parked());
        let mut origin = stream(&context, StreamFlags::NON_BLOCKING);
        let mut to = context.device_buffer(&[1u32; 4]).unwrap();
        let from = other.device_buffer(&[2u32; 4]).unwrap();
        let captured = origin.capture(CaptureMode::Relaxed, |capture| {
            // SAFETY: refused.
            let copied = unsafe { to.async_copy_from(&from, capture) };
            assert_eq!(copied, Err(CudaError::StreamCaptureUnsupported));
            capture.launch_host_func(|| {})
        });
        assert_eq!(captured.unwrap().nodes().unwrap().len(), 1);
        let third = parked();
        let mut elsewhere = stream(&third, StreamFlags::NON_BLOCKING);
        let mut capture =
            || elsewhere.capture(CaptureMode::Relaxed, |capture| capture.launch_host_func(|| {}));
        let refused = CudaError::StreamCaptureUnsupported;
        beside("a copy", refused, || to.copy_from(&from), &mut capture);
    });
}
