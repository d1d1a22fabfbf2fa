//! Graphs and contexts that are dropped in any order.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{counter, stream};
use crate::harness::{is_simulated, owned_by, parked, pushed, run, run_alone};
use custack::context::wait_until_retired;
use custack::driver::instrument::{self, When};
use custack::error::CudaError;
use custack::event::{Event, EventFlags, EventRecordFlags};
use custack::graph::*;
use custack::sim;
use custack::stream::{CaptureMode, Stream, StreamWaitEventFlags};
use static_assertions::{assert_impl_all, assert_not_impl_any};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::Ordering;

// Graphs are used by one thread at a time; nodes are keys; a capture is of its thread.
assert_impl_all!(Graph: Send, Debug);
assert_not_impl_any!(Graph: Sync, Clone);
assert_impl_all!(GraphExec: Send, Debug);
assert_not_impl_any!(GraphExec: Sync, Clone);
assert_impl_all!(Node: Send, Sync, Copy, Eq, std::hash::Hash);
assert_not_impl_any!(Capture<'static>: Send, Sync);
assert_not_impl_any!(custack::stream::ThreadCaptureMode: Send, Sync);

#[test]
fn a_graph_keeps_its_contexts_at_the_driver_and_answers_that_they_are_destroyed() {
    run_alone(|| {
        let (below, ctx) = (parked(), pushed());
        let here = below.scoped(|_| Ok(stream())).unwrap();
        let mut graph = Graph::new(&ctx).unwrap();
        let (count, counts) = counter();
        let node = graph.add_host_func(&[], counts).unwrap();
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        let mut other = Graph::new(&below).unwrap();
        drop(ctx);
        let gone = Err(CudaError::ContextIsDestroyed);
        let (answers, calls) = instrument::during(|| {
            [
                graph.add_empty(&[node]).map(drop),
                graph.add_host_func(&[], || {}).map(drop),
                graph.nodes().map(drop),
                graph.edges().map(drop),
                graph.kind(node).map(drop),
                graph.destroy_node(node),
                graph.try_clone().map(drop),
                graph.instantiate(InstantiateFlags::empty()).map(drop),
                graph.to_dot(DotFlags::empty()).map(drop),
                exec.launch(&here),
                exec.upload(&here),
                exec.update(&mut other).map_err(|refused| refused.error),
                other.add_child(&[], &mut graph).map(drop),
                exec.set_host_func(&mut graph, node, || {}),
            ]
        });
        assert_eq!(answers, [gone; 14]);
        assert_eq!(calls.total(), 0, "{calls}");
        let ((), calls) = instrument::during(|| drop(graph));
        assert_eq!(
            (calls.to_string().as_str(), Arc::strong_count(&count)),
            ("cuGraphDestroy", 2),
            "it is kept"
        );
        let ((), calls) = instrument::during(|| drop(exec));
        assert_eq!((calls.of("cuGraphExecDestroy"), calls.of("cuCtxDestroy_v2")), (1, 1), "and not any more");
        owned_by(&count, 1);
    });
}

#[test]
fn events_of_another_context_are_kept_with_it() {
    run_alone(|| {
        let (ctx, there) = (pushed(), parked());
        let stream = stream();
        let event = Arc::new(there.scoped(|_| Event::new(EventFlags::DEFAULT)).unwrap());
        let mut graph = Graph::new(&ctx).unwrap();
        graph.add_event_wait(&[], &event).unwrap();
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        drop((there, event));
        assert_eq!(exec.launch(&stream), Err(CudaError::ContextIsDestroyed));
        assert_eq!(graph.nodes(), Err(CudaError::ContextIsDestroyed));
        drop((graph, exec));
        wait_until_retired().unwrap();
    });
}

#[test]
fn a_captured_graph_keeps_the_events_that_it_records_or_waits_for_outside_and_their_contexts() {
    run_alone(|| {
        let (_ctx, there) = (pushed(), parked());
        let mut stream = stream();
        let recorded = Arc::new(Event::new(EventFlags::DEFAULT).unwrap());
        let waited = Arc::new(there.create_event(EventFlags::DEFAULT).unwrap());
        let captured = stream.capture(CaptureMode::ThreadLocal, |capture| {
            // What passes no `Arc` is refused.
            let (record, wait) = (EventRecordFlags::EXTERNAL, StreamWaitEventFlags::EXTERNAL);
            assert_eq!(recorded.record_with_flags(capture, record), Err(CudaError::IllegalState));
            assert_eq!(capture.wait_event(&*recorded, wait), Err(CudaError::IllegalState));
            capture.record_external(&recorded)?;
            capture.wait_external(&waited)
        });
        let counts = [Arc::downgrade(&recorded), Arc::downgrade(&waited)];
        drop((recorded, waited));
        let mut graph = captured.unwrap();
        assert_eq!(graph.nodes().unwrap().len(), 2);
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(counts.each_ref().map(std::sync::Weak::strong_count), [1, 1]);
        drop(there);
        assert_eq!(exec.launch(&stream), Err(CudaError::ContextIsDestroyed));
        drop((graph, exec));
        wait_until_retired().unwrap();
    });
}

#[test]
fn an_executable_keeps_the_context_of_the_stream_in_which_it_was_uploaded() {
    run_alone(|| {
        let (ctx, there) = (pushed(), parked());
        let (here, upload) = (stream(), there.scoped(|_| Ok(stream())).unwrap());
        let (count, counts) = counter();
        let mut graph = Graph::new(&ctx).unwrap();
        graph.add_host_func(&[], counts).unwrap();
        let flags = InstantiateFlags::empty();
        let mut exec = graph.instantiate_and_upload(flags, &upload).unwrap();
        exec.launch(&here).unwrap();
        here.synchronize().unwrap();
        drop((there, upload));
        assert_eq!(exec.launch(&here), Err(CudaError::ContextIsDestroyed));
        assert_eq!(exec.update(&mut graph).map_err(|it| it.error), Err(CudaError::ContextIsDestroyed));
        // The graph has no part in that context.
        graph.instantiate(flags).unwrap().launch(&here).unwrap();
        here.synchronize().unwrap();
        drop((graph, exec, here));
        wait_until_retired().unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 2);
        owned_by(&count, 1);
    });
}

#[test]
fn nothing_is_made_in_a_destroyed_context() {
    run(|| {
        let _below = pushed();
        let ctx = parked();
        let handle = ctx.get_unowned();
        drop(ctx);
        assert_eq!(Graph::new(&handle).unwrap_err(), CudaError::ContextIsDestroyed);
    });
}

#[test]
fn graphs_dropped_in_host_functions_and_on_other_threads_are_destroyed() {
    run_alone(|| {
        let ctx = pushed();
        let left = || if is_simulated() { sim::objects() } else { 0 };
        let stream: Stream = stream();
        let before = left();
        let (count, counts) = counter();
        let mut graph = Graph::new(&ctx).unwrap();
        graph.add_host_func(&[], counts).unwrap();
        let exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        stream
            .add_callback(Box::new(move |_| {
                // By hand they come back; then they are retired.
                let (error, exec) = GraphExec::drop(exec).unwrap_err();
                let (again, graph) = Graph::drop(graph).unwrap_err();
                assert_eq!((error, again), (CudaError::NotPermitted, CudaError::NotPermitted));
                drop((graph, exec));
            }))
            .unwrap();
        stream.synchronize().unwrap();
        wait_until_retired().unwrap();
        owned_by(&count, 1);
        let mut graph = Graph::new(&ctx).unwrap();
        graph.add_empty(&[]).unwrap();
        let exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        std::thread::spawn(move || drop((graph, exec))).join().unwrap();
        assert_eq!(left(), before);
    });
}

#[test]
fn a_retired_graph_that_the_driver_still_refuses_to_destroy_is_not_retired_for_ever() {
    /// Makes the next attempt to destroy a graph fail, on the thread that drops this.
    struct Refusal;
    impl Drop for Refusal {
        fn drop(&mut self) {
            instrument::fail(Some("cuGraphDestroy"), 1, 800, When::Before);
        }
    }
    if !is_simulated() {
        let why = "the NVIDIA driver drops what a graph keeps on a thread of its own";
        return crate::harness::skip("a_retired_graph_that_the_driver_still_refuses_to_destroy", why);
    }
    run_alone(|| {
        let ctx = pushed();
        let stream = stream();
        let (mut first, second) = (Graph::new(&ctx).unwrap(), Graph::new(&ctx).unwrap());
        first.keep(Refusal).unwrap();
        let ((), calls) = instrument::during_on_all_threads(|| {
            stream.add_callback(Box::new(move |_| drop((first, second)))).unwrap();
            stream.synchronize().unwrap();
            wait_until_retired().unwrap();
        });
        assert_eq!(calls.of("cuGraphDestroy"), 2, "one attempt for each");
    });
}

#[test]
fn a_graph_whose_destroying_failed_is_spent() {
    run(|| {
        let ctx = pushed();
        for when in [When::Before, When::After] {
            let mut graph = Graph::new(&ctx).unwrap();
            graph.add_empty(&[]).unwrap();
            let exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
            instrument::fail(Some("cuGraphExecDestroy"), 1, 719, when);
            let (error, mut exec) = GraphExec::drop(exec).unwrap_err();
            assert_eq!(error, CudaError::LaunchFailed);
            assert_eq!(exec.launch(&stream()), Err(CudaError::InvalidHandle));
            instrument::fail(Some("cuGraphDestroy"), 1, 719, when);
            let (error, mut graph) = Graph::drop(graph).unwrap_err();
            assert_eq!(error, CudaError::LaunchFailed);
            assert_eq!(graph.nodes(), Err(CudaError::InvalidHandle));
            let ((), calls) = instrument::during(|| drop((graph, exec)));
            assert_eq!(calls.total(), 0, "{calls}");
        }
    });
}

#[test]
fn a_graph_can_be_given_away_and_taken_back() {
    run(|| {
        let ctx = pushed();
        let mut graph = Graph::new(&ctx).unwrap();
        let (count, counts) = counter();
        graph.add_host_func(&[], counts).unwrap();
        let raw = graph.into_raw();
        assert_eq!(Arc::strong_count(&count), 2);
        let mut graph = unsafe { Graph::from_raw(raw, &ctx) }.unwrap();
        assert_eq!(graph.nodes().unwrap().len(), 1);
        drop(graph);
        owned_by(&count, 1);
    });
}

#[test]
fn a_captured_graph_outlives_its_stream() {
    run(|| {
        let _ctx = pushed();
        let (count, counts) = counter();
        let mut graph =
            stream().capture(CaptureMode::ThreadLocal, |capture| capture.launch_host_func(counts)).unwrap();
        super::launched(&mut graph, 2);
        drop(graph);
        owned_by(&count, 1);
    });
}

/// An H200 crashed when an executable was destroyed after a context in which it had been launched, though not always.
#[test]
fn an_executable_keeps_the_contexts_in_which_it_was_launched_at_the_driver() {
    run_alone(|| {
        let (ctx, there) = (pushed(), parked());
        let (here, other) = (stream(), there.scoped(|_| Ok(stream())).unwrap());
        let mut graph = Graph::new(&ctx).unwrap();
        graph.add_host_func(&[], || {}).unwrap();
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        for stream in [&here, &other, &other] {
            exec.launch(stream).unwrap();
            exec.upload(stream).unwrap();
        }
        let ((), calls) = instrument::during(|| drop((there, other)));
        assert_eq!(calls.of("cuCtxDestroy_v2"), 0, "{calls}");
        // For the program that context is gone, and the executable goes on without it.
        exec.launch(&here).unwrap();
        here.synchronize().unwrap();
        let ((), calls) = instrument::during(|| drop(exec));
        assert_eq!((calls.of("cuGraphExecDestroy"), calls.of("cuCtxDestroy_v2")), (1, 1), "{calls}");
        wait_until_retired().unwrap();
    });
}
