//! An executable that keeps nothing has no user object; what is kept for a node that is set later is kept all the same.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{counter, module, stream};
use crate::harness::{is_simulated, owned_by, parked, pushed, run, run_alone};
use custack::context::wait_until_retired;
use custack::driver::instrument::{self, Calls, When, during};
use custack::error::CudaError;
use custack::graph::*;
use custack::memory::DeviceBuffer;
use custack::sim;
use custack::stream::{CaptureMode, Stream};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

#[track_caller]
fn uses_no_object(calls: &Calls) {
    for function in [
        "cuUserObjectCreate",
        "cuUserObjectRetain",
        "cuUserObjectRelease",
        "cuGraphRetainUserObject",
        "cuGraphReleaseUserObject",
    ] {
        assert_eq!(calls.of(function), 0, "{function} in {calls}");
    }
}

#[test]
fn a_captured_graph_of_kernels_has_no_user_object_and_a_launch_is_one_call() {
    run(|| {
        let _ctx = pushed();
        let (mut stream, module) = (stream(), module());
        let buffer = DeviceBuffer::from_slice(&[27u32]).unwrap();
        let at = buffer.as_ptr() as u64;
        let function = module.get_function(c"collatz").unwrap();
        let (mut exec, calls) = during(|| {
            let mut graph = stream
                .capture(CaptureMode::ThreadLocal, |capture| {
                    capture.keep(())?;
                    capture.keep((1, 2.0))?;
                    unsafe { custack::launch!(function<<<1, 1, 0, capture>>>(at, 1u32)) }
                })
                .unwrap();
            graph.keep([1u8; 4]).unwrap();
            let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
            exec.update(&mut graph).unwrap();
            exec
        });
        uses_no_object(&calls);
        for _ in 0..3 {
            let (result, calls) = during(|| exec.launch(&stream));
            assert_eq!((result, calls.to_string().as_str()), (Ok(()), "cuGraphLaunch"));
        }
        stream.synchronize().unwrap();
        let ((), calls) = during(|| drop(exec));
        assert_eq!(calls.to_string(), "cuGraphExecDestroy");
        assert_eq!(super::read(&buffer), [14], "27 takes 111 steps, 111 takes 69, and 69 takes 14");
    });
}

#[test]
fn a_graph_that_is_built_of_kernels_has_none_either() {
    run(|| {
        let ctx = pushed();
        let (stream, module) = (stream(), module());
        let buffer = DeviceBuffer::from_slice(&[27u32]).unwrap();
        let function = module.get_function(c"collatz").unwrap();
        let (at, count) = (buffer.as_ptr(), 1u32);
        let args = [(&raw const at).cast_mut().cast(), (&raw const count).cast_mut().cast::<c_void>()];
        let ((), calls) = during(|| {
            let mut graph = Graph::new(&ctx).unwrap();
            let fill = FillParams::elements(at as u64, 7, 4, 1);
            let copy = CopyParams::bytes(Place::Device(at as u64), Place::Device(at as u64), 4);
            let first = graph.add_empty(&[]).unwrap();
            let filled = unsafe { graph.add_fill(&[first], &fill, ()) }.unwrap();
            unsafe { graph.set_fill(filled, &fill, 7) }.unwrap();
            let copied = unsafe { graph.add_copy(&[filled], &copy, Some(at as u64)) }.unwrap();
            let node = unsafe { graph.add_kernel(&[copied], &function, 1, 1, 0, &args, ()) }.unwrap();
            unsafe { graph.set_kernel(node, &function, 1, 1, 0, &args, [1, 2]) }.unwrap();
            let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
            unsafe { exec.set_kernel(&mut graph, node, &function, 1, 1, 0, &args, ()) }.unwrap();
            let (result, calls) = during(|| exec.launch(&stream));
            assert_eq!((result, calls.to_string().as_str()), (Ok(()), "cuGraphLaunch"));
            graph.destroy_node(node).unwrap();
            drop((graph, exec));
            stream.synchronize().unwrap();
        });
        uses_no_object(&calls);
        assert_eq!(super::read(&buffer), [16], "7 takes 16 steps");
    });
}

// A driver may call the host functions of all contexts on one thread. So a test whose function waits runs alone if it waits
// for the retirement thread, which may be destroying another test's context, whose functions would have to come first.

/// An executable in which the kernel of a node was set later, after a node that waits for a word. The value is kept for
/// the kernel.
fn set_later(ctx: &custack::context::Context) -> (GraphExec, Sender<()>, Arc<AtomicUsize>) {
    let mut graph = Graph::new(ctx).unwrap();
    let (go, wait) = channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let first = graph.add_host_func(&[], move || wait.lock().unwrap().recv().unwrap_or(())).unwrap();
    let buffer = ctx.scoped(|_| DeviceBuffer::from_slice(&[0u8; 16])).unwrap();
    let fill = FillParams::elements(buffer.as_ptr() as u64, 7, 1, 16);
    let node = unsafe { graph.add_fill(&[first], &fill, ()) }.unwrap();
    let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
    let value = Arc::new(AtomicUsize::new(0));
    // The buffer keeps the context at the driver, too. It goes first, so that who sees the value go can wait for it.
    let keep = (buffer, Arc::clone(&value));
    unsafe { exec.set_fill(&mut graph, node, &fill, keep) }.unwrap();
    (exec, go, value)
}

#[test]
fn what_is_kept_later_goes_with_the_last_launch_whoever_waits_for_it() {
    run_alone(|| {
        let ctx = pushed();
        let (a, b) = (stream(), stream());
        let (mut exec, go, value) = set_later(&ctx);
        exec.launch(&a).unwrap();
        let (result, calls) = during(|| exec.launch(&b));
        assert_eq!((result, calls.to_string().as_str()), (Ok(()), "cuEventRecord, cuGraphLaunch"));
        go.send(()).unwrap();
        a.synchronize().unwrap();
        drop((exec, a));
        assert_eq!(Arc::strong_count(&value), 2, "the second launch runs yet");
        wait_until_retired().unwrap();
        assert_eq!(Arc::strong_count(&value), 2, "nothing waits for it");
        go.send(()).unwrap();
        b.synchronize().unwrap();
        owned_by(&value, 1);
        wait_until_retired().unwrap();
    });
}

#[test]
fn what_is_kept_later_is_dropped_at_once_where_no_launch_can_use_it() {
    run_alone(|| {
        let ctx = pushed();
        let stream = stream();
        let (exec, _go, value) = set_later(&ctx);
        drop(exec);
        assert_eq!(Arc::strong_count(&value), 1, "it was never launched");
        let (mut exec, go, value) = set_later(&ctx);
        exec.launch(&stream).unwrap();
        go.send(()).unwrap();
        stream.synchronize().unwrap();
        drop(exec);
        assert_eq!(Arc::strong_count(&value), 1, "its launch is over");
    });
}

#[test]
fn what_is_kept_later_goes_also_if_its_context_is_gone_or_it_is_dropped_in_a_host_function() {
    run_alone(|| {
        let left = || if is_simulated() { (sim::objects(), sim::allocations()) } else { (0, 0) };
        let before = left();
        // The owner of the context is dropped during the launch, before the executable and after it.
        for exec_first in [true, false] {
            let ctx = pushed();
            let stream = stream();
            let (mut exec, go, value) = set_later(&ctx);
            exec.launch(&stream).unwrap();
            drop(stream);
            if exec_first {
                drop(exec);
                drop(ctx);
            } else {
                drop(ctx);
                drop(exec);
            }
            assert_eq!(Arc::strong_count(&value), 2, "it runs yet: {exec_first}");
            go.send(()).unwrap();
            owned_by(&value, 1);
            wait_until_retired().unwrap();
        }
        // In a host function.
        let (ctx, other) = (pushed(), parked());
        let (stream, there) = (stream(), other.scoped(|_| Ok(stream())).unwrap());
        let (mut exec, go, value) = set_later(&ctx);
        exec.launch(&stream).unwrap();
        there.add_callback(Box::new(move |_| drop(exec))).unwrap();
        there.synchronize().unwrap();
        wait_until_retired().unwrap();
        assert_eq!(Arc::strong_count(&value), 2);
        go.send(()).unwrap();
        owned_by(&value, 1);
        stream.synchronize().unwrap();
        wait_until_retired().unwrap();
        drop((stream, there, ctx, other));
        // The driver's own thread may still be letting go of the last things; what earlier tests used may have gone too.
        let begun = std::time::Instant::now();
        while left() > before && begun.elapsed().as_secs() < 10 {
            wait_until_retired().unwrap();
            std::thread::yield_now();
        }
        assert!(left() <= before);
    });
}

#[test]
fn an_executable_that_is_dropped_in_a_capture_lets_go_of_what_it_kept_and_breaks_nothing() {
    run_alone(|| {
        let ctx = pushed();
        let mut stream = stream();
        let (mut exec, go, value) = set_later(&ctx);
        exec.launch(&stream).unwrap();
        let (count, counts) = counter();
        let mut graph = stream
            .capture(CaptureMode::Global, |capture| {
                capture.launch_host_func(counts)?;
                drop(exec);
                Ok(())
            })
            .unwrap();
        assert_eq!(Arc::strong_count(&value), 2);
        go.send(()).unwrap();
        owned_by(&value, 1);
        super::launched(&mut graph, 1);
        assert_eq!(count.load(Ordering::SeqCst), 1);
        wait_until_retired().unwrap();
    });
}

#[test]
fn launches_in_streams_of_several_contexts_and_default_streams_are_waited_for() {
    use custack::stream::{LegacyStream, PerThreadStream};
    run_alone(|| {
        let (ctx, other) = (pushed(), parked());
        let there = other.scoped(|_| Ok(stream())).unwrap();
        let legacy = LegacyStream::of(&ctx);
        let mine = PerThreadStream::of(&ctx);
        let here = stream();
        let streams: [&Stream; 5] = [&here, &there, &legacy, &mine, &there];
        for last in 0..streams.len() {
            let (mut exec, go, value) = set_later(&ctx);
            for stream in &streams[..=last] {
                exec.launch(stream).unwrap();
            }
            (0..last).for_each(|_| go.send(()).unwrap());
            // Elsewhere, where the stream may be another.
            std::thread::scope(|scope| scope.spawn(move || drop(exec)).join().unwrap());
            assert_eq!(Arc::strong_count(&value), 2, "{last}");
            go.send(()).unwrap();
            owned_by(&value, 1);
        }
        wait_until_retired().unwrap();
    });
}

#[test]
fn what_is_kept_later_outlives_its_launch_whatever_call_fails() {
    run_alone(|| {
        for nth in 1..=16 {
            for when in [When::Before, When::After] {
                let ctx = pushed();
                let stream = stream();
                let (mut exec, go, value) = set_later(&ctx);
                instrument::fail(None, nth, 719, when);
                let launched = exec.launch(&stream);
                drop(exec);
                instrument::disarm();
                assert!(launched == Ok(()) || launched == Err(CudaError::LaunchFailed));
                if launched.is_ok() {
                    assert_eq!(Arc::strong_count(&value), 2, "it runs yet: call {nth} {when:?}");
                }
                let _ = go.send(());
                stream.synchronize().unwrap();
                owned_by(&value, 1);
                drop((stream, ctx));
                wait_until_retired().unwrap();
            }
        }
    });
}

#[test]
fn what_is_kept_later_may_panic_when_dropped() {
    struct Grenade;
    impl Drop for Grenade {
        fn drop(&mut self) {
            panic!("on purpose, in what an executable kept");
        }
    }
    run(|| {
        let ctx = pushed();
        let mut graph = Graph::new(&ctx).unwrap();
        let buffer = DeviceBuffer::from_slice(&[0u8; 16]).unwrap();
        let fill = FillParams::elements(buffer.as_ptr() as u64, 7, 1, 16);
        let node = unsafe { graph.add_fill(&[], &fill, ()) }.unwrap();
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        unsafe { exec.set_fill(&mut graph, node, &fill, Grenade) }.unwrap();
        drop(exec);
    });
}

#[test]
fn a_launch_that_is_refused_in_a_capture_leaves_nothing_in_the_capture() {
    run_alone(|| {
        let ctx = pushed();
        let (here, mut capturing) = (stream(), stream());
        let mut graph = Graph::new(&ctx).unwrap();
        let node = graph.add_host_func(&[], || {}).unwrap();
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        let (count, counts) = counter();
        exec.set_host_func(&mut graph, node, counts).unwrap();
        exec.launch(&here).unwrap();
        let captured = capturing.capture(CaptureMode::ThreadLocal, |capture| {
            assert_eq!(exec.launch(capture), Err(CudaError::StreamCaptureUnsupported));
            drop(exec);
            Ok(())
        });
        assert_eq!(captured.unwrap().nodes().unwrap(), []);
        here.synchronize().unwrap();
        owned_by(&count, 1);
        assert_eq!(count.load(Ordering::SeqCst), 1);
    });
}
