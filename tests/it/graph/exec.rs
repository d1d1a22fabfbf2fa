//! Executables: made with flags, uploaded, launched, and what a launch costs.

use super::{counter, stream};
use crate::harness::{parked, pushed, run, run_alone};
use custack::driver::instrument;
use custack::error::CudaError;
use custack::graph::*;
use custack::stream::{CaptureMode, CaptureStatus, Stream, StreamFlags};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[test]
fn a_launch_costs_one_driver_call() {
    run(|| {
        let ctx = pushed();
        let (here, stream) = (parked(), stream());
        let mut graph = Graph::new(&ctx).unwrap();
        graph.add_empty(&[]).unwrap();
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        let (result, calls) = instrument::during(|| exec.launch(&stream));
        assert_eq!((result, calls.to_string().as_str()), (Ok(()), "cuGraphLaunch"));
        let (result, calls) = here.scoped(|_| Ok(instrument::during(|| exec.launch(&stream)))).unwrap();
        assert_eq!((result, calls.to_string().as_str()), (Ok(()), "cuGraphLaunch"));
        stream.synchronize().unwrap();
    });
}

#[test]
fn executables_are_made_with_flags_and_uploaded() {
    run(|| {
        let ctx = pushed();
        let stream = stream();
        let mut graph = Graph::new(&ctx).unwrap();
        let (count, counts) = counter();
        graph.add_host_func(&[], counts).unwrap();
        let mut exec = graph.instantiate(InstantiateFlags::AUTO_FREE_ON_LAUNCH).unwrap();
        assert_eq!(exec.flags().unwrap(), InstantiateFlags::AUTO_FREE_ON_LAUNCH);
        exec.upload(&stream).unwrap();
        exec.launch(&stream).unwrap();
        let mut other = graph.instantiate_and_upload(InstantiateFlags::empty(), &stream).unwrap();
        other.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 2);
        let odd = InstantiateFlags::AUTO_FREE_ON_LAUNCH | InstantiateFlags::DEVICE_LAUNCH;
        assert_eq!(graph.instantiate(odd).unwrap_err(), CudaError::InvalidValue);
        assert!(GraphExec::drop(exec).is_ok());
    });
}

#[test]
fn a_graph_is_launched_in_streams_of_other_contexts() {
    run(|| {
        let (ctx, other) = (pushed(), parked());
        let there = other.scoped(|_| Stream::new(StreamFlags::NON_BLOCKING, None)).unwrap();
        let mut graph = Graph::new(&ctx).unwrap();
        let (count, counts) = counter();
        graph.add_host_func(&[], counts).unwrap();
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        exec.launch(&there).unwrap();
        there.synchronize().unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn launches_of_one_executable_come_one_after_the_other() {
    run(|| {
        let ctx = pushed();
        let (a, b) = (stream(), stream());
        let mut graph = Graph::new(&ctx).unwrap();
        let inside = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let here = std::sync::Arc::clone(&inside);
        let first = graph.add_host_func(&[], move || {
            assert_eq!(here.fetch_add(1, Ordering::SeqCst), 0);
            std::thread::sleep(Duration::from_millis(5));
        });
        let here = std::sync::Arc::clone(&inside);
        graph
            .add_host_func(&[first.unwrap()], move || {
                here.fetch_sub(1, Ordering::SeqCst);
            })
            .unwrap();
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        for stream in [&a, &b, &a] {
            exec.launch(stream).unwrap();
        }
        a.synchronize().unwrap();
        b.synchronize().unwrap();
        assert_eq!(inside.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn branches_run_at_once() {
    if !crate::harness::is_simulated() {
        let why = "the NVIDIA driver may call host functions one after the other, and did";
        return crate::harness::skip("branches_run_at_once", why);
    }
    run(|| {
        let ctx = pushed();
        let stream = stream();
        let mut graph = Graph::new(&ctx).unwrap();
        let begun = Instant::now();
        // Two branches that each wait for the other's word.
        let (to_b, from_a) = std::sync::mpsc::channel();
        let (to_a, from_b) = std::sync::mpsc::channel();
        let (from_a, from_b) = (std::sync::Mutex::new(from_a), std::sync::Mutex::new(from_b));
        graph
            .add_host_func(&[], move || {
                to_b.send(()).unwrap();
                from_b.lock().unwrap().recv_timeout(Duration::from_secs(10)).unwrap();
            })
            .unwrap();
        graph
            .add_host_func(&[], move || {
                to_a.send(()).unwrap();
                from_a.lock().unwrap().recv_timeout(Duration::from_secs(10)).unwrap();
            })
            .unwrap();
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(10));
    });
}

#[test]
fn a_graph_is_not_launched_into_a_capture_which_goes_on() {
    run_alone(|| {
        let ctx = pushed();
        let mut stream = stream();
        let mut graph = Graph::new(&ctx).unwrap();
        graph.add_empty(&[]).unwrap();
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        let mut captured = stream
            .capture(CaptureMode::Global, |capture| {
                assert_eq!(exec.launch(capture), Err(CudaError::StreamCaptureUnsupported));
                assert_eq!(exec.upload(capture), Err(CudaError::StreamCaptureUnsupported));
                assert_eq!(capture.capture_status(), Ok(CaptureStatus::Active));
                Ok(())
            })
            .unwrap();
        assert_eq!(captured.nodes(), Ok(vec![]));
    });
}
