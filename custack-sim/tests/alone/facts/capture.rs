//! Captures: what they record, what they forbid, and how they end.

use super::graph::{nodes, type_of};
use crate::harness::{drain, other};
use crate::run_alone;
use custack_sys::ffi::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

const NONE: u32 = 0;
const ACTIVE: u32 = 1;
const INVALID: u32 = 2;

pub(super) fn stream(flags: u32) -> CUstream {
    let mut stream = null_mut();
    assert_eq!(call!(cuStreamCreate(&mut stream, flags)), 0);
    stream
}

pub(super) fn event() -> CUevent {
    let mut event = null_mut();
    assert_eq!(call!(cuEventCreate(&mut event, 0)), 0);
    event
}

pub(super) fn memory(size: usize) -> u64 {
    let mut address = 0;
    assert_eq!(call!(cuMemAlloc_v2(&mut address, size)), 0);
    address
}

fn status(stream: CUstream) -> u32 {
    let mut status = 77;
    assert_eq!(call!(cuStreamIsCapturing(stream, &mut status)), 0);
    status
}

fn begin(stream: CUstream, mode: u32) {
    assert_eq!(call!(cuStreamBeginCapture_v2(stream, mode)), 0);
}

/// Ends a capture; the graph is NULL exactly if there is an error.
fn end(stream: CUstream) -> Result<CUgraph, u32> {
    let mut graph = 0x77 as CUgraph;
    let status = call!(cuStreamEndCapture(stream, &mut graph));
    assert_eq!(graph.is_null(), status != 0, "{status}");
    if status == 0 { Ok(graph) } else { Err(status) }
}

fn destroyed(graph: CUgraph) {
    assert_eq!(call!(cuGraphDestroy(graph)), 0);
}

unsafe extern "C" fn nothing(_data: *mut c_void) {}

fn host(stream: CUstream) -> u32 {
    call!(cuLaunchHostFunc(stream, Some(nothing), null_mut()))
}

/// What the tests of this file have, in a context of their own.
struct Bench {
    context: CUcontext,
    s: CUstream,
    t: CUstream,
    buffer: u64,
    outside: CUevent,
}

// SAFETY: handles of the driver, which may be used on any thread.
unsafe impl Sync for Bench {}

/// With no test beside it: a global capture forbids things to all threads, and is broken by them.
fn bench(flags: u32, test: impl FnOnce(&Bench) + Send) {
    run_alone(|| {
        let context = other::create();
        let (s, t, buffer, outside) = (stream(flags), stream(flags), memory(4096), event());
        assert_eq!(call!(cuEventRecord(outside, t)), 0);
        assert_eq!(call!(cuCtxSynchronize()), 0);
        test(&Bench { context, s, t, buffer, outside });
        assert_eq!(drain(), [context]);
        other::destroy(context);
    });
}

/// On a thread of its own, with the context current.
fn elsewhere<R: Send>(bench: &Bench, f: impl FnOnce(&Bench) -> R + Send) -> R {
    std::thread::scope(|scope| {
        let body = || {
            other::push(bench.context);
            let result = f(bench);
            drain();
            result
        };
        scope.spawn(body).join().unwrap()
    })
}

/// A call, and what it answers in a capture of each mode; then what it answers on another thread.
type Row = (&'static str, fn(&Bench) -> u32, [u32; 3], [u32; 3]);

fn sweep(flags: u32, rows: &[Row]) {
    bench(flags, |bench| {
        for (name, ask, here, there) in rows {
            for mode in 0..3 {
                for (expected, away) in [(here, false), (there, true)] {
                    let expected = expected[mode];
                    begin(bench.s, mode as u32);
                    let answer = if away { elsewhere(bench, ask) } else { ask(bench) };
                    let case = format!("{name} in mode {mode}, on another thread: {away}");
                    assert_eq!(answer, expected, "{case}");
                    let broken = matches!(expected, 900..=907);
                    assert_eq!(status(bench.s), if broken { INVALID } else { ACTIVE }, "{case}");
                    match end(bench.s) {
                        Ok(graph) => destroyed(graph),
                        Err(error) => assert_eq!(error, 901, "{case}"),
                    }
                    assert_eq!(call!(cuCtxSynchronize()), 0);
                }
            }
        }
    });
}

/// What may wait is forbidden to the thread of a capture that is not relaxed, and to all by a global one.
const FORBIDDEN: ([u32; 3], [u32; 3]) = ([900, 900, 0], [900, 0, 0]);
const ALLOWED: ([u32; 3], [u32; 3]) = ([0; 3], [0; 3]);
const ALWAYS: ([u32; 3], [u32; 3]) = ([900; 3], [900; 3]);
const WRONG: ([u32; 3], [u32; 3]) = ([1; 3], [1; 3]);
const MISSING: ([u32; 3], [u32; 3]) = ([400; 3], [400; 3]);
const LEGACY: ([u32; 3], [u32; 3]) = ([906; 3], [906; 3]);

macro_rules! row {
    ($expected:ident, $name:ident($($arg:expr),*)) => {
        (stringify!($name), |_| call!($name($($arg),*)), $expected.0, $expected.1)
    };
    ($expected:ident, |$b:ident| $name:ident($($arg:expr),*)) => {
        (stringify!($name), |$b| call!($name($($arg),*)), $expected.0, $expected.1)
    };
}

#[test]
fn calls_that_may_wait_break_the_captures_that_forbid_them() {
    sweep(
        0,
        &[
            row!(FORBIDDEN, cuMemAlloc_v2(&mut 0, 64)),
            row!(FORBIDDEN, cuMemFree_v2(0)),
            row!(FORBIDDEN, cuMemAllocManaged(&mut 0, 64, 1)),
            row!(WRONG, cuMemAllocManaged(&mut 0, 64, 0)),
            row!(MISSING, cuLibraryUnload(null_mut())),
            row!(FORBIDDEN, cuMemAllocHost_v2(&mut null_mut(), 64)),
            row!(FORBIDDEN, cuCtxSetLimit(0, 1024)),
            row!(FORBIDDEN, cuCtxSetCacheConfig(0)),
            row!(FORBIDDEN, cuCtxSetSharedMemConfig(0)),
            row!(FORBIDDEN, |b| cuStreamQuery(b.t)),
            row!(FORBIDDEN, |b| cuStreamSynchronize(b.t)),
            row!(FORBIDDEN, |b| cuEventQuery(b.outside)),
            row!(FORBIDDEN, |b| cuEventSynchronize(b.outside)),
        ],
    );
}

#[test]
fn calls_that_only_ask_or_make_something_break_no_capture() {
    sweep(
        0,
        &[
            row!(ALLOWED, cuInit(0)),
            row!(ALLOWED, cuDeviceGetCount(&mut 0)),
            row!(ALLOWED, cuCtxGetDevice(&mut 0)),
            row!(ALLOWED, cuCtxGetFlags(&mut 0)),
            row!(ALLOWED, cuCtxSetFlags(0)),
            row!(ALLOWED, cuCtxGetLimit(&mut 0, 0)),
            row!(ALLOWED, cuCtxGetCacheConfig(&mut 0)),
            row!(ALLOWED, cuCtxResetPersistingL2Cache()),
            row!(ALLOWED, cuStreamCreate(&mut null_mut(), 0)),
            row!(ALLOWED, |b| cuStreamGetPriority(b.s, &mut 0)),
            row!(ALLOWED, |b| cuStreamGetCtx(b.s, &mut null_mut())),
            row!(ALLOWED, |b| cuStreamWaitEvent(b.t, b.outside, 0)),
            row!(ALLOWED, |b| cuLaunchHostFunc(b.t, Some(nothing), null_mut())),
            row!(ALLOWED, |b| cuMemsetD8Async(b.buffer, 0, 64, b.t)),
            row!(ALLOWED, cuEventCreate(&mut null_mut(), 0)),
            row!(ALLOWED, |b| cuEventElapsedTime(&mut 0.0, b.outside, b.outside)),
            row!(ALLOWED, cuMemGetInfo_v2(&mut 0, &mut 0)),
            row!(ALLOWED, cuGraphCreate(&mut null_mut(), 0)),
        ],
    );
}

#[test]
fn what_can_be_no_node_breaks_the_capture_whatever_its_mode() {
    sweep(
        1,
        &[
            row!(ALWAYS, cuCtxSynchronize()),
            row!(ALWAYS, |b| cuStreamQuery(b.s)),
            row!(ALWAYS, |b| cuStreamSynchronize(b.s)),
            row!(ALWAYS, |b| cuStreamGetFlags(b.s, &mut 0)),
            row!(ALWAYS, |b| cuStreamGetId(b.s, &mut 0)),
            row!(ALWAYS, cuCtxSynchronize_v2(null_mut())),
            row!(WRONG, |b| cuStreamGetFlags(b.s, null_mut())),
            row!(WRONG, |b| cuStreamGetId(b.s, null_mut())),
            row!(WRONG, |b| cuStreamGetDevice(b.s, null_mut())),
            row!(WRONG, |b| cuStreamAddCallback(b.s, None, null_mut(), 0)),
            row!(ALLOWED, |b| cuMemsetD8_v2(b.buffer, 0, 64)),
            row!(ALLOWED, |b| cuMemsetD8Async(b.buffer, 0, 64, null_mut())),
            row!(ALLOWED, cuStreamGetFlags(null_mut(), &mut 0)),
        ],
    );
}

#[test]
fn the_legacy_stream_breaks_captures_of_blocking_streams() {
    sweep(
        0,
        &[
            row!(LEGACY, cuStreamQuery(null_mut())),
            row!(LEGACY, cuStreamSynchronize(null_mut())),
            row!(LEGACY, cuStreamGetFlags(null_mut(), &mut 0)),
            row!(LEGACY, |b| cuMemsetD8_v2(b.buffer, 0, 64)),
            row!(LEGACY, |b| cuMemsetD8Async(b.buffer, 0, 64, null_mut())),
            row!(LEGACY, |b| cuEventRecord(b.outside, null_mut())),
            row!(LEGACY, cuStreamBeginCapture_v2(null_mut(), 0)),
            row!(WRONG, cuStreamGetFlags(null_mut(), null_mut())),
            row!(WRONG, cuLaunchHostFunc(null_mut(), None, null_mut())),
            row!(WRONG, cuStreamAddCallback(null_mut(), None, null_mut(), 0)),
        ],
    );
    bench(0, |b| {
        begin(b.s, 0);
        assert_eq!(call!(cuStreamIsCapturing(null_mut(), &mut 0)), 906, "which breaks nothing");
        assert_eq!(status(b.s), ACTIVE);
        destroyed(end(b.s).unwrap());
    });
}

#[test]
fn an_event_of_a_capture_breaks_it_where_it_is_waited_for_from_outside() {
    bench(0, |b| {
        let captured = event();
        begin(b.s, 2);
        assert_eq!(call!(cuEventRecord(captured, b.s)), 0);
        // The first event is checked as a whole before the second.
        let elapsed = |from, to| call!(cuEventElapsedTime(&mut 0.0, from, to));
        assert_eq!((elapsed(captured, null_mut()), elapsed(event(), captured)), (907, 400));
        assert_eq!(status(b.s), ACTIVE);
        let second = other::create();
        assert_eq!(call!(cuCtxWaitEvent(second, captured)), 907);
        assert_eq!((status(b.s), end(b.s).map(destroyed)), (INVALID, Err(901)));
        begin(b.s, 2);
        assert_eq!((call!(cuStreamWaitEvent(b.s, captured, 1)), status(b.s)), (1, INVALID));
        assert_eq!((elapsed(captured, null_mut()), end(b.s).map(destroyed)), (1, Err(901)));
        assert_eq!(call!(cuCtxPopCurrent_v2(null_mut())), 0);
        other::destroy(second);
    });
}

#[test]
fn a_threads_mode_lets_pass_what_captures_forbid() {
    for (own, expected) in [(0, 900), (1, 900), (2, 0), (7, 900)] {
        bench(0, |b| {
            let mut mode = own;
            begin(b.s, 0);
            assert_eq!(call!(cuThreadExchangeStreamCaptureMode(&mut mode)), 0);
            assert_eq!(call!(cuMemAlloc_v2(&mut 0, 64)), expected, "mode {own}");
            assert_eq!(call!(cuThreadExchangeStreamCaptureMode(&mut mode)), 0);
            assert_eq!(mode, own);
            assert_eq!(end(b.s).map(destroyed).err(), (expected != 0).then_some(901));
        });
        bench(0, |b| {
            begin(b.s, 0);
            let elsewhere = elsewhere(b, |_| {
                let mut mode = own;
                call!(cuThreadExchangeStreamCaptureMode(&mut mode));
                call!(cuMemAlloc_v2(&mut 0, 64))
            });
            assert_eq!(elsewhere, if own == 0 { 900 } else { 0 }, "mode {own}");
            assert_eq!(end(b.s).map(destroyed).is_ok(), own != 0);
        });
    }
}

#[test]
fn a_capture_begins_once_and_not_in_the_legacy_stream() {
    bench(0, |b| {
        assert_eq!(call!(cuStreamBeginCapture_v2(null_mut(), 0)), 900);
        assert_eq!(call!(cuStreamBeginCapture_v2(null_mut(), 3)), 1, "the mode is looked at first");
        assert_eq!(end(b.s), Err(401));
        assert_eq!(call!(cuStreamIsCapturing(b.s, null_mut())), 1);
        begin(b.s, 0);
        assert_eq!(call!(cuStreamBeginCapture_v2(b.s, 0)), 401);
        assert_eq!(call!(cuStreamBeginCapture_v2(b.s, 9)), 1);
        destroyed(end(b.s).unwrap());
    });
}

#[test]
fn work_becomes_nodes_one_after_the_other() {
    bench(0, |b| {
        begin(b.s, 0);
        assert_eq!(call!(cuMemsetD8Async(b.buffer, 7, 64, b.s)), 0);
        assert_eq!(call!(cuMemcpyDtoDAsync_v2(b.buffer + 64, b.buffer, 64, b.s)), 0);
        assert_eq!(host(b.s), 0);
        assert_eq!(call!(cuMemsetD8Async(b.buffer, 7, 0, b.s)), 0, "nothing is no node");
        assert_eq!(call!(cuLaunchHostFunc(b.s, None, null_mut())), 1, "which breaks nothing");
        assert_eq!(call!(cuMemcpyDtoDAsync_v2(0x77, b.buffer, 64, b.s)), 1, "nor does this");
        let graph = end(b.s).unwrap();
        let found = nodes(graph);
        assert_eq!(found.iter().map(|node| type_of(*node)).collect::<Vec<_>>(), [2, 1, 3]);
        let mut fill =
            CUDA_MEMSET_NODE_PARAMS { dst: 0, pitch: 9, value: 0, elementSize: 0, width: 0, height: 0 };
        assert_eq!(call!(cuGraphMemsetNodeGetParams(found[0], &mut fill)), 0);
        assert_eq!((fill.dst, fill.pitch, fill.value), (b.buffer, 0, 7));
        assert_eq!((fill.elementSize, fill.width, fill.height), (1, 64, 1));
        let mut before = [null_mut(); 4];
        let mut count = 4;
        assert_eq!(call!(cuGraphNodeGetDependencies(found[2], before.as_mut_ptr(), &mut count)), 0);
        assert_eq!((count, before[0]), (1, found[1]));
        destroyed(graph);
    });
}

#[test]
fn an_invalid_capture_takes_no_work_and_ends_without_a_graph() {
    bench(0, |b| {
        begin(b.s, 2);
        assert_eq!(call!(cuStreamSynchronize(b.s)), 900);
        assert_eq!(status(b.s), INVALID);
        assert_eq!(host(b.s), 901);
        assert_eq!(call!(cuMemsetD8Async(b.buffer, 0, 0, b.s)), 901);
        assert_eq!(call!(cuEventRecord(b.outside, b.s)), 901);
        assert_eq!(call!(cuStreamWaitEvent(b.s, b.outside, 0)), 901);
        assert_eq!(call!(cuStreamGetPriority(b.s, &mut 0)), 901);
        assert_eq!(call!(cuStreamUpdateCaptureDependencies(b.s, null_mut(), 0, 0)), 901);
        assert_eq!(call!(cuStreamBeginCapture_v2(b.s, 0)), 401);
        assert_eq!(end(b.s), Err(901));
        assert_eq!(status(b.s), NONE);
        assert_eq!(call!(cuStreamSynchronize(b.s)), 0);
    });
}

#[test]
fn a_capture_spreads_by_events_and_has_to_be_joined() {
    bench(0, |b| {
        let (fork, join) = (event(), event());
        for joined in [true, false] {
            begin(b.s, 0);
            assert_eq!(host(b.s), 0);
            assert_eq!(call!(cuEventRecord(fork, b.s)), 0);
            assert_eq!(call!(cuStreamWaitEvent(b.t, fork, 0)), 0);
            assert_eq!(status(b.t), ACTIVE);
            assert_eq!(host(b.t), 0);
            if joined {
                assert_eq!(call!(cuEventRecord(join, b.t)), 0);
                assert_eq!(call!(cuStreamWaitEvent(b.s, join, 0)), 0);
            }
            match end(b.s) {
                Ok(graph) => {
                    assert!(joined);
                    assert_eq!(nodes(graph).len(), 2);
                    destroyed(graph);
                }
                Err(error) => assert_eq!((error, joined), (904, false)),
            }
            assert_eq!((status(b.s), status(b.t)), (NONE, NONE));
        }
        // The events are of a capture that is over.
        assert_eq!(call!(cuEventQuery(fork)), 1);
        assert_eq!(call!(cuStreamWaitEvent(b.t, fork, 0)), 1);
        assert_eq!(call!(cuEventRecord(fork, b.t)), 0);
        assert_eq!(call!(cuEventSynchronize(fork)), 0);
    });
}

#[test]
fn a_fork_without_work_of_its_own_is_joined() {
    bench(0, |b| {
        let fork = event();
        begin(b.s, 0);
        assert_eq!(host(b.s), 0);
        assert_eq!(call!(cuEventRecord(fork, b.s)), 0);
        assert_eq!(call!(cuStreamWaitEvent(b.t, fork, 0)), 0);
        destroyed(end(b.s).unwrap());
    });
}

#[test]
fn a_capture_ends_where_it_began() {
    bench(0, |b| {
        let fork = event();
        begin(b.s, 0);
        assert_eq!(call!(cuEventRecord(fork, b.s)), 0);
        assert_eq!(call!(cuStreamWaitEvent(b.t, fork, 0)), 0);
        assert_eq!(end(b.t), Err(903));
        assert_eq!((status(b.s), status(b.t)), (INVALID, INVALID));
        // It has not ended, so other threads are answered as in any broken capture.
        assert_eq!(elsewhere(b, |b| call!(cuGraphLaunch(null_mut(), b.t))), 900);
        assert_eq!(elsewhere(b, |b| host(b.t)), 901);
        assert_eq!(end(b.s), Err(901));
        assert_eq!((status(b.s), status(b.t)), (NONE, NONE));
        for (mode, expected) in [(0, Err(908)), (1, Err(908)), (2, Ok(()))] {
            begin(b.s, mode);
            assert_eq!(elsewhere(b, |b| end(b.s).map(destroyed)), expected, "mode {mode}");
            assert_eq!(status(b.s), NONE, "it is over all the same");
        }
    });
}

#[test]
fn events_of_elsewhere_break_a_capture() {
    bench(0, |b| {
        begin(b.s, 0);
        assert_eq!(call!(cuStreamWaitEvent(b.s, event(), 0)), 0, "never recorded, it is nothing to wait for");
        assert_eq!(call!(cuStreamWaitEvent(b.s, b.outside, 0)), 905);
        assert_eq!(end(b.s), Err(901));
        let captured = event();
        begin(b.s, 0);
        begin(b.t, 0);
        assert_eq!(call!(cuEventRecord(captured, b.s)), 0);
        assert_eq!(call!(cuStreamWaitEvent(b.t, captured, 0)), 902);
        assert_eq!((end(b.s), end(b.t)), (Err(901), Err(901)));
        for ask in [|e| call!(cuEventQuery(e)), |e| call!(cuEventSynchronize(e))] {
            begin(b.s, 2);
            assert_eq!(call!(cuEventRecord(captured, b.s)), 0);
            assert_eq!(ask(captured), 907);
            assert_eq!(end(b.s), Err(901));
        }
    });
}

#[test]
fn an_external_event_is_a_node_and_only_in_a_capture() {
    bench(0, |b| {
        assert_eq!(call!(cuEventRecordWithFlags(b.outside, b.s, 1)), 401);
        assert_eq!(call!(cuStreamWaitEvent(b.s, b.outside, 1)), 401);
        assert_eq!(call!(cuEventRecordWithFlags(b.outside, b.s, 2)), 1);
        assert_eq!(call!(cuStreamWaitEvent(b.s, b.outside, 2)), 1);
        begin(b.s, 0);
        assert_eq!(call!(cuStreamWaitEvent(b.s, b.outside, 1)), 0);
        assert_eq!(call!(cuEventRecordWithFlags(b.outside, b.s, 1)), 0);
        let graph = end(b.s).unwrap();
        assert_eq!(nodes(graph).into_iter().map(type_of).collect::<Vec<_>>(), [6, 7]);
        destroyed(graph);
    });
}

#[test]
fn two_captures_are_broken_one_by_one() {
    bench(0, |b| {
        begin(b.s, 0);
        begin(b.t, 0);
        assert_eq!(call!(cuStreamSynchronize(b.s)), 900);
        assert_eq!((status(b.s), status(b.t)), (INVALID, ACTIVE));
        assert_eq!(end(b.s), Err(901));
        destroyed(end(b.t).unwrap());
        begin(b.s, 0);
        begin(b.t, 2);
        assert_eq!(call!(cuMemAlloc_v2(&mut 0, 64)), 900);
        assert_eq!((status(b.s), status(b.t)), (INVALID, ACTIVE), "the relaxed one forbids nothing");
        assert_eq!(end(b.s), Err(901));
        destroyed(end(b.t).unwrap());
    });
}

#[test]
fn a_destroyed_stream_takes_its_capture_along() {
    bench(0, |b| {
        let (gone, fork) = (stream(0), event());
        begin(gone, 0);
        assert_eq!(call!(cuEventRecord(fork, gone)), 0);
        assert_eq!(call!(cuStreamWaitEvent(b.t, fork, 0)), 0);
        assert_eq!(call!(cuStreamDestroy_v2(gone)), 0);
        assert_eq!(status(b.t), NONE);
        assert_eq!(call!(cuMemAlloc_v2(&mut 0, 64)), 0);
        // Of a fork that is gone the work is still there, and cannot be joined.
        let gone = stream(0);
        begin(b.s, 0);
        assert_eq!(call!(cuEventRecord(fork, b.s)), 0);
        assert_eq!(call!(cuStreamWaitEvent(gone, fork, 0)), 0);
        assert_eq!(host(gone), 0);
        assert_eq!(call!(cuStreamDestroy_v2(gone)), 0);
        assert_eq!(status(b.s), ACTIVE);
        assert_eq!(end(b.s), Err(904));
    });
}

#[test]
fn a_capture_tells_its_graph_and_what_comes_next() {
    bench(0, |b| {
        let (mut state, mut id, mut graph, mut count) = (7, 777, 7 as CUgraph, 777);
        let (mut after, mut edges) = (null(), null());
        let mut ask = |state: &mut u32, id: &mut u64, graph: &mut CUgraph, count: &mut usize| {
            assert_eq!(
                call!(cuStreamGetCaptureInfo_v3(b.s, state, id, graph, &mut after, &mut edges, count)),
                0
            );
        };
        ask(&mut state, &mut id, &mut graph, &mut count);
        assert_eq!((state, id, graph.addr(), count), (NONE, 777, 7, 777), "nothing else is written");
        begin(b.s, 0);
        ask(&mut state, &mut id, &mut graph, &mut count);
        let first = id;
        assert_eq!((state, count), (ACTIVE, 0));
        assert_eq!(host(b.s), 0);
        ask(&mut state, &mut id, &mut graph, &mut count);
        assert_eq!((id, count), (first, 1));
        let mut by_hand = null_mut();
        assert_eq!(call!(cuGraphAddEmptyNode(&mut by_hand, graph, null(), 0)), 0);
        let mut both = [by_hand, by_hand];
        assert_eq!(call!(cuStreamUpdateCaptureDependencies(b.s, both.as_mut_ptr(), 2, 0)), 0);
        ask(&mut state, &mut id, &mut graph, &mut count);
        assert_eq!(count, 2, "a node twice is there once");
        assert_eq!(call!(cuStreamUpdateCaptureDependencies(b.s, both.as_mut_ptr(), 1, 2)), 1);
        assert_eq!(call!(cuStreamUpdateCaptureDependencies(b.s, null_mut(), 1, 0)), 1);
        assert_eq!(call!(cuStreamUpdateCaptureDependencies(b.s, null_mut(), 0, 1)), 0);
        ask(&mut state, &mut id, &mut graph, &mut count);
        assert_eq!((state, count), (ACTIVE, 0));
        assert_eq!(call!(cuGraphDestroyNode(by_hand)), 401);
        assert_eq!(call!(cuGraphDestroy(graph)), 401);
        assert_eq!(end(b.s), Ok(graph));
        destroyed(graph);
    });
}

#[test]
fn a_capture_into_a_graph_that_fails_takes_the_graph_along() {
    bench(0, |b| {
        let mut graph = null_mut();
        let mut first = null_mut();
        assert_eq!(call!(cuGraphCreate(&mut graph, 0)), 0);
        assert_eq!(call!(cuGraphAddEmptyNode(&mut first, graph, null(), 0)), 0);
        assert_eq!(call!(cuStreamBeginCaptureToGraph(b.s, null_mut(), null(), null(), 0, 0)), 1);
        assert_eq!(call!(cuStreamBeginCaptureToGraph(b.s, graph, null(), null(), 1, 0)), 1);
        assert_eq!(call!(cuStreamBeginCaptureToGraph(b.s, graph, &first, null(), 1, 0)), 0);
        assert_eq!(call!(cuStreamBeginCaptureToGraph(b.t, graph, null(), null(), 0, 0)), 401);
        assert_eq!(host(b.s), 0);
        assert_eq!(end(b.s), Ok(graph));
        assert_eq!(nodes(graph).len(), 2);
        assert_eq!(call!(cuStreamBeginCaptureToGraph(b.s, graph, null(), null(), 0, 0)), 0);
        assert_eq!(call!(cuStreamSynchronize(b.s)), 900);
        assert_eq!(end(b.s), Err(901));
        assert_eq!(call!(cuGraphGetNodes(graph, null_mut(), &mut 0)), 1);
    });
}

#[test]
fn a_capture_spreads_to_streams_of_other_contexts() {
    bench(0, |b| {
        let second = other::create();
        let (far, joined, fork) = (stream(0), event(), b.outside);
        assert_eq!(other::pop(), Ok(second));
        begin(b.s, 0);
        assert_eq!(call!(cuEventRecord(fork, b.s)), 0);
        assert_eq!(call!(cuStreamWaitEvent(far, fork, 0)), 0);
        assert_eq!(status(far), ACTIVE);
        assert_eq!(host(far), 0);
        assert_eq!(call!(cuEventRecord(joined, far)), 0);
        assert_eq!(call!(cuStreamWaitEvent(b.s, joined, 0)), 0);
        let graph = end(b.s).unwrap();
        assert_eq!(nodes(graph).len(), 1);
        destroyed(graph);
        other::destroy(second);
    });
}

#[test]
fn a_context_takes_the_captures_of_its_streams_along() {
    bench(0, |b| {
        let second = other::create();
        begin(stream(0), 0);
        other::destroy(second);
        assert_eq!(call!(cuMemAlloc_v2(&mut 0, 64)), 0);
        begin(b.s, 0);
        destroyed(end(b.s).unwrap());
    });
}

#[test]
fn memory_in_the_order_of_a_captured_stream_is_of_the_graph() {
    bench(0, |b| {
        let (mut at, mut other) = (0, 0);
        begin(b.s, 2);
        assert_eq!(call!(cuMemAllocAsync(&mut at, 64, b.s)), 0);
        assert_eq!(call!(cuMemAllocAsync(&mut other, 64, b.s)), 0);
        assert_eq!(call!(cuMemAllocAsync(&mut 0, 0, b.s)), 0, "nothing is no node");
        assert_eq!(call!(cuMemsetD8Async(at, 5, 64, b.s)), 0);
        assert_eq!(call!(cuMemFreeAsync(b.buffer, b.s)), 1, "which no graph allocates");
        assert_eq!(call!(cuMemFreeAsync(at, b.s)), 0);
        assert_eq!(call!(cuMemFreeAsync(at, b.s)), 1);
        assert_eq!(call!(cuMemFreeAsync(at, b.t)), 1, "it is not there yet");
        let graph = end(b.s).unwrap();
        assert_eq!(nodes(graph).into_iter().map(type_of).collect::<Vec<_>>(), [10, 10, 2, 11]);
        let mut executable = null_mut();
        assert_eq!(call!(cuGraphInstantiateWithFlags(&mut executable, graph, 0)), 0);
        for _ in 0..2 {
            assert_eq!(call!(cuGraphLaunch(executable, b.s)), 0);
            assert_eq!(call!(cuGraphLaunch(executable, b.s)), 1, "not all of it is freed");
            assert_eq!(call!(cuMemFreeAsync(other, b.s)), 0);
        }
        assert_eq!(call!(cuStreamSynchronize(b.s)), 0);
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        destroyed(graph);
        begin(b.s, 0);
        assert_eq!(call!(cuMemAllocAsync(&mut at, 64, b.t)), 900);
        assert_eq!(end(b.s), Err(901));
    });
}
