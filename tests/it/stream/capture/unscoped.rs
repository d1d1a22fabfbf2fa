//! Captures that are begun and ended by hand.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{counter, is_free, something, stream};
use crate::harness::{parked, pushed, run, table};
use custack::error::CudaError;
use custack::event::{Event, EventFlags};
use custack::graph::{Dependencies, EdgeData, Graph, InstantiateFlags};
use custack::memory::DeviceBuffer;
use custack::stream::{CaptureMode, CaptureStatus, StreamFlags, StreamWaitEventFlags};
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[test]
fn a_capture_can_be_begun_and_ended_by_hand() {
    run(|| {
        let _ctx = pushed();
        let mut stream = stream();
        assert_eq!(unsafe { stream.end_capture() }.unwrap_err(), CudaError::IllegalState);
        unsafe { stream.begin_capture(CaptureMode::ThreadLocal) }.unwrap();
        assert_eq!(stream.capture_status(), Ok(CaptureStatus::Active));
        assert_eq!(stream.synchronize(), Err(CudaError::StreamCaptureUnsupported));
        let module = custack::module::Module::load_from_bytes(crate::module::KERNELS.as_bytes()).unwrap();
        unsafe { custack::launch!(module.count_up<<<1, 1, 0, stream>>>(5u32)) }.unwrap();
        let mut graph = unsafe { stream.end_capture() }.unwrap();
        assert_eq!(graph.nodes().unwrap().len(), 1);
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        is_free(&mut stream);
    });
}

#[test]
fn a_graph_into_which_no_capture_could_begin_keeps_nothing_of_the_streams_context() {
    run(|| {
        let ctx = pushed();
        let other = parked();
        let mut capturing = other.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let (mut graph, local) = (Graph::new(&ctx).unwrap(), CaptureMode::ThreadLocal);
        unsafe { capturing.begin_capture(local) }.unwrap();
        let another = Graph::new(&ctx).unwrap();
        let (error, mut by_hand) = unsafe { capturing.begin_capture_into(another, &[], local) }.unwrap_err();
        assert_eq!(error, CudaError::IllegalState);
        assert_eq!(capturing.capture_into(&mut graph, &[], local, |_| Ok(())), Err(CudaError::IllegalState));
        drop(unsafe { capturing.end_capture() }.unwrap());
        drop((capturing, other));
        for graph in [&mut graph, &mut by_hand] {
            assert_eq!(graph.instantiate(InstantiateFlags::empty()).map(drop), Ok(()));
        }
    });
}

#[test]
fn a_capture_that_a_host_function_cannot_end_goes_on_until_it_is_ended() {
    run(|| {
        let _ctx = pushed();
        let (capturing, working) = (Arc::new(stream()), stream());
        unsafe { capturing.begin_capture(CaptureMode::Relaxed) }.unwrap();
        let (within, (tell, told)) = (Arc::clone(&capturing), std::sync::mpsc::channel());
        let end = move || tell.send(unsafe { within.end_capture() }.map(drop)).unwrap();
        working.launch_host_func(end).unwrap();
        assert_eq!(told.recv().unwrap(), Err(CudaError::NotPermitted));
        working.synchronize().unwrap();
        assert_eq!(capturing.synchronize(), Err(CudaError::StreamCaptureUnsupported), "it is still known");
        unsafe { capturing.end_capture() }.unwrap();
        assert_eq!(capturing.capture_status(), Ok(CaptureStatus::None));
    });
}

#[test]
fn a_capture_by_hand_says_and_changes_what_comes_next_by_keys_of_its_graph() {
    run(|| {
        let _ctx = pushed();
        let (mut stream, joined, event) = (stream(), stream(), Event::new(EventFlags::DEFAULT).unwrap());
        let illegal = Err(CudaError::IllegalState);
        assert_eq!(stream.capture_dependencies(), Err(CudaError::IllegalState));
        assert_eq!(stream.update_capture_dependencies(Dependencies::Set, &[]), illegal);
        let mut buffer = DeviceBuffer::from_slice(&[0u32; 4]).unwrap();
        unsafe { stream.begin_capture(CaptureMode::ThreadLocal) }.unwrap();
        assert_eq!(stream.capture_dependencies(), Ok(vec![]));
        unsafe { buffer.async_fill(1, &stream) }.unwrap();
        let first = stream.capture_dependencies().unwrap();
        assert_eq!((first.len(), stream.capture_dependencies()), (1, Ok(first.clone())));
        event.record(&stream).unwrap();
        joined.wait_event(&event, StreamWaitEventFlags::DEFAULT).unwrap();
        assert_eq!(joined.capture_dependencies(), Ok(first.clone()));
        stream.join([&joined]).unwrap();
        stream.update_capture_dependencies(Dependencies::Set, &[]).unwrap();
        unsafe { buffer.async_fill(2, &stream) }.unwrap();
        let second = stream.capture_dependencies().unwrap();
        stream.update_capture_dependencies(Dependencies::Add, &first).unwrap();
        unsafe { buffer.async_fill(3, &stream) }.unwrap();
        let third = stream.capture_dependencies().unwrap();
        // A node of another graph is none of this one.
        let mut other = stream.context().create_graph().unwrap();
        let foreign = (other.add_empty(&[]).unwrap(), EdgeData::default());
        let refused = stream.update_capture_dependencies(Dependencies::Add, &[foreign]);
        assert_eq!(refused, Err(CudaError::InvalidHandle));
        let mut graph = unsafe { stream.end_capture() }.unwrap();
        assert_eq!(graph.nodes().unwrap(), [first[0].0, second[0].0, third[0].0]);
        let mut roots = graph.root_nodes().unwrap();
        roots.sort();
        assert_eq!(roots, [first[0].0, second[0].0]);
        let mut before: Vec<_> =
            graph.dependencies(third[0].0).unwrap().into_iter().map(|(node, _)| node).collect();
        before.sort();
        assert_eq!(before, [first[0].0, second[0].0]);
        assert_eq!(stream.capture_dependencies(), Err(CudaError::IllegalState));
        // A closure's capture has these as methods of its own.
        stream
            .capture(CaptureMode::ThreadLocal, |capture| {
                assert_eq!(capture.capture_dependencies(), Err(CudaError::IllegalState));
                Ok(())
            })
            .unwrap();
        is_free(&mut stream);
    });
}

#[test]
fn a_capture_by_hand_adds_to_a_graph_and_gives_it_back_with_its_keys_and_its_context() {
    run(|| {
        let ctx = pushed();
        let mut stream = stream();
        // The graph is of another context than the stream, whose work is captured.
        let other = crate::harness::parked();
        let mut graph = Graph::new(&other).unwrap();
        let (a, b) = (graph.add_empty(&[]).unwrap(), graph.add_empty(&[]).unwrap());
        let dropped = Arc::new(());
        graph.keep(Arc::clone(&dropped)).unwrap();
        let mut strange = Graph::new(&ctx).unwrap();
        let foreign = (strange.add_empty(&[]).unwrap(), EdgeData::default());
        let (error, graph) =
            unsafe { stream.begin_capture_into(graph, &[foreign], CaptureMode::ThreadLocal) }.unwrap_err();
        assert_eq!(error, CudaError::InvalidHandle);
        is_free(&mut stream);
        let after = [(a, EdgeData::default())];
        let mut buffer = DeviceBuffer::from_slice(&[0u32; 4]).unwrap();
        unsafe { stream.begin_capture_into(graph, &after, CaptureMode::ThreadLocal) }.unwrap();
        assert_eq!(stream.capture_dependencies().unwrap(), after);
        let (refused, strange) =
            unsafe { stream.begin_capture_into(strange, &[], CaptureMode::ThreadLocal) }.unwrap_err();
        assert_eq!(refused, CudaError::IllegalState);
        drop(strange);
        unsafe { buffer.async_fill(5, &stream) }.unwrap();
        let fill = stream.capture_dependencies().unwrap()[0].0;
        stream.keep_in_capture(Arc::clone(&dropped)).unwrap();
        let mut graph = unsafe { stream.end_capture() }.unwrap();
        assert_eq!(graph.nodes().unwrap(), [a, b, fill]);
        assert_eq!(graph.dependencies(fill).unwrap(), after);
        assert_eq!(graph.context(), &other.get_unowned());
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        drop(graph);
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(crate::function::read(&buffer), [5; 4]);
        assert_eq!(Arc::strong_count(&dropped), 3, "the executable keeps both");
        drop(exec);
        wait_for_drops(&dropped);
        is_free(&mut stream);
        drop(buffer);
    });
}

#[test]
fn a_capture_by_hand_into_a_graph_that_is_broken_or_lost_takes_the_graph_with_it() {
    run(|| {
        let ctx = pushed();
        let kept = Arc::new(());
        let graph = || {
            let mut graph = Graph::new(&ctx).unwrap();
            graph.keep(Arc::clone(&kept)).unwrap();
            graph
        };
        let mut broken = stream();
        unsafe { broken.begin_capture_into(graph(), &[], CaptureMode::ThreadLocal) }.unwrap();
        assert_eq!(unsafe { (table().cuStreamSynchronize)(broken.as_raw()) }, 900);
        assert_eq!(broken.keep_in_capture(Arc::clone(&kept)), Err(CudaError::StreamCaptureInvalidated));
        assert_eq!(unsafe { broken.end_capture() }.unwrap_err(), CudaError::StreamCaptureInvalidated);
        wait_for_drops(&kept);
        is_free(&mut broken);
        assert_eq!(broken.keep_in_capture(Arc::clone(&kept)), Err(CudaError::IllegalState));
        let lost = stream();
        unsafe { lost.begin_capture_into(graph(), &[], CaptureMode::Relaxed) }.unwrap();
        lost.keep_in_capture(Arc::clone(&kept)).unwrap();
        drop(lost);
        wait_for_drops(&kept);
    });
}

/// Waits until nothing else has the value: the driver drops what graphs keep at its leisure.
pub(super) fn wait_for_drops(kept: &Arc<()>) {
    let begun = std::time::Instant::now();
    while Arc::strong_count(kept) > 1 {
        assert!(begun.elapsed().as_secs() < 10, "{} are left", Arc::strong_count(kept));
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn a_capture_of_a_thread_is_ended_on_that_thread_and_a_relaxed_one_anywhere() {
    run(|| {
        let _ctx = pushed();
        let mut stream = stream();
        unsafe { stream.begin_capture(CaptureMode::ThreadLocal) }.unwrap();
        let there =
            std::thread::scope(|scope| scope.spawn(|| unsafe { stream.end_capture() }).join().unwrap());
        assert_eq!(there.unwrap_err(), CudaError::StreamCaptureWrongThread);
        is_free(&mut stream);
        unsafe { stream.begin_capture(CaptureMode::Relaxed) }.unwrap();
        let there =
            std::thread::scope(|scope| scope.spawn(|| unsafe { stream.end_capture() }).join().unwrap());
        assert_eq!(there.unwrap().nodes().unwrap().len(), 0);
        is_free(&mut stream);
    });
}

#[test]
fn a_capture_is_ended_where_it_was_begun() {
    run(|| {
        let _ctx = pushed();
        let (mut a, mut b, event) = (stream(), stream(), Event::new(EventFlags::DEFAULT).unwrap());
        let mut graph = a
            .capture(CaptureMode::ThreadLocal, |a| {
                something(a)?;
                event.record(a)?;
                b.wait_event(&event, StreamWaitEventFlags::DEFAULT)?;
                assert_eq!(unsafe { b.end_capture() }.unwrap_err(), CudaError::StreamCaptureUnmatched);
                assert_eq!(a.capture_status(), Ok(CaptureStatus::Active));
                Ok(())
            })
            .unwrap();
        assert_eq!(graph.nodes().unwrap().len(), 1);
        is_free(&mut a);
        is_free(&mut b);
    });
}

#[test]
fn what_other_code_began_can_be_ended_and_what_it_ended_is_found_out() {
    run(|| {
        let _ctx = pushed();
        let mut stream = stream();
        assert_eq!(unsafe { (table().cuStreamBeginCapture_v2)(stream.as_raw(), 1) }, 0);
        assert_eq!(stream.capture_status(), Ok(CaptureStatus::Active));
        assert_eq!(stream.capture(CaptureMode::ThreadLocal, something).unwrap_err(), CudaError::IllegalState);
        assert_eq!(unsafe { stream.end_capture() }.unwrap().nodes().unwrap().len(), 0);
        is_free(&mut stream);

        let (count, counts) = counter();
        let result = stream.capture(CaptureMode::ThreadLocal, |capture| {
            let mut graph = std::ptr::null_mut();
            assert_eq!(unsafe { (table().cuStreamEndCapture)(capture.as_raw(), &mut graph) }, 0);
            assert_eq!(unsafe { (table().cuGraphDestroy)(graph) }, 0);
            assert_eq!(capture.launch_host_func(counts), Err(CudaError::IllegalState));
            Ok(())
        });
        assert_eq!(result.unwrap_err(), CudaError::IllegalState);
        assert_eq!(count.load(Ordering::SeqCst), 0);
        is_free(&mut stream);
    });
}
