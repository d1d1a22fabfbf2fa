//! Captures that are begun and ended by hand.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{counter, is_free, something, stream};
use crate::harness::{pushed, run, table};
use custack::error::CudaError;
use custack::event::{Event, EventFlags};
use custack::graph::{Dependencies, EdgeData, InstantiateFlags};
use custack::memory::DeviceBuffer;
use custack::stream::{CaptureMode, CaptureStatus, StreamWaitEventFlags};
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
