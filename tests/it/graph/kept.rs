//! What a graph uses stays as long as anything can run that was made from it, and is dropped once.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{add_collatz, counter, launched, module, read, stream};
use crate::harness::{owned_by, pushed, run};
use custack::context::wait_until_retired;
use custack::driver::instrument::{self, When};
use custack::error::CudaError;
use custack::event::{Event, EventFlags};
use custack::graph::*;
use custack::memory::DeviceBuffer;
use custack::stream::CaptureMode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

#[test]
fn host_functions_are_called_at_every_launch_and_dropped_once() {
    run(|| {
        let ctx = pushed();
        let mut graph = Graph::new(&ctx).unwrap();
        let (count, counts) = counter();
        graph.add_host_func(&[], counts).unwrap();
        launched(&mut graph, 3);
        launched(&mut graph, 2);
        assert_eq!((count.load(Ordering::SeqCst), Arc::strong_count(&count)), (5, 2));
        drop(graph);
        owned_by(&count, 1);
    });
}

#[test]
fn an_executable_in_flight_keeps_what_it_uses_after_everything_is_dropped() {
    run(|| {
        let ctx = pushed();
        let stream = stream();
        let mut graph = Graph::new(&ctx).unwrap();
        let (go, wait) = channel::<()>();
        let wait = Mutex::new(wait);
        let first = graph.add_host_func(&[], move || wait.lock().unwrap().recv().unwrap()).unwrap();
        let (count, counts) = counter();
        graph.add_host_func(&[first], counts).unwrap();
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        exec.launch(&stream).unwrap();
        drop(graph);
        drop(exec);
        assert_eq!((count.load(Ordering::SeqCst), Arc::strong_count(&count)), (0, 2), "it runs yet");
        go.send(()).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 1);
        owned_by(&count, 1);
    });
}

fn wait_until(done: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !done() {
        assert!(begun.elapsed().as_secs() < 20, "it never comes");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

#[test]
fn buffers_and_modules_that_are_kept_may_be_dropped_before_the_launch() {
    run(|| {
        let ctx = pushed();
        let stream = stream();
        let numbers = Arc::new(DeviceBuffer::from_slice(&[27u32, 7]).unwrap());
        let weak = Arc::downgrade(&numbers);
        let back = DeviceBuffer::from_slice(&[0u32; 2]).unwrap();
        let mut graph = Graph::new(&ctx).unwrap();
        let computed = add_collatz(&mut graph, &[], &numbers);
        let copy =
            CopyParams::bytes(Place::Device(numbers.as_ptr() as u64), Place::Device(back.as_ptr() as u64), 8);
        unsafe { graph.add_copy(&[computed], &copy, ()) }.unwrap();
        drop(numbers);
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        drop(graph);
        assert!(weak.upgrade().is_some());
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(read(&back), [111, 16]);
        drop(exec);
        wait_until(|| weak.strong_count() == 0);
        wait_until_retired().unwrap();
    });
}

#[test]
fn events_of_nodes_are_kept() {
    run(|| {
        let ctx = pushed();
        let stream = stream();
        let event = Arc::new(Event::new(EventFlags::DEFAULT).unwrap());
        let weak = Arc::downgrade(&event);
        let mut graph = Graph::new(&ctx).unwrap();
        let recorded = graph.add_event_record(&[], &event).unwrap();
        graph.add_event_wait(&[recorded], &event).unwrap();
        drop(event);
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        drop(graph);
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert!(weak.upgrade().is_some());
        drop(exec);
        wait_until(|| weak.strong_count() == 0);
        wait_until_retired().unwrap();
    });
}

#[test]
fn a_child_keeps_what_its_graph_kept() {
    run(|| {
        let ctx = pushed();
        let (mut parent, mut child) = (Graph::new(&ctx).unwrap(), Graph::new(&ctx).unwrap());
        let (count, counts) = counter();
        child.add_host_func(&[], counts).unwrap();
        parent.add_child(&[], &mut child).unwrap();
        drop(child);
        launched(&mut parent, 2);
        assert_eq!((count.load(Ordering::SeqCst), Arc::strong_count(&count)), (2, 2));
        let node = parent.nodes().unwrap()[0];
        let taken = parent.child(node).unwrap();
        parent.destroy_node(node).unwrap();
        assert_eq!(Arc::strong_count(&count), 2);
        drop(taken);
        owned_by(&count, 1);
    });
}

#[test]
fn what_was_kept_for_a_node_goes_with_its_last_version() {
    run(|| {
        let ctx = pushed();
        let mut graph = Graph::new(&ctx).unwrap();
        let ((old, olds), (new, news)) = (counter(), counter());
        let node = graph.add_host_func(&[], olds).unwrap();
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        graph.set_host_func(node, news).unwrap();
        assert_eq!(Arc::strong_count(&old), 2, "the executable has it");
        let stream = stream();
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        launched(&mut graph, 1);
        assert_eq!((old.load(Ordering::SeqCst), new.load(Ordering::SeqCst)), (1, 1));
        drop(exec);
        owned_by(&old, 1);
        graph.destroy_node(node).unwrap();
        owned_by(&new, 1);
    });
}

#[test]
fn what_is_refused_is_not_kept() {
    run(|| {
        let ctx = pushed();
        let mut graph = Graph::new(&ctx).unwrap();
        let foreign = Graph::new(&ctx).unwrap().add_empty(&[]).unwrap();
        let (count, counts) = counter();
        assert_eq!(graph.add_host_func(&[foreign], counts), Err(CudaError::InvalidHandle));
        owned_by(&count, 1);
        for function in ["cuUserObjectCreate", "cuGraphRetainUserObject", "cuGraphAddHostNode"] {
            for when in [When::Before, When::After] {
                let (count, counts) = counter();
                instrument::fail(Some(function), 1, 719, when);
                assert_eq!(graph.add_host_func(&[], counts), Err(CudaError::LaunchFailed));
                owned_by(&count, 1);
                assert_eq!(graph.nodes(), Ok(vec![]), "{function} {when:?}");
            }
        }
        assert_eq!(graph.edges(), Ok(vec![]));
    });
}

#[test]
fn a_value_is_kept_by_all_that_is_made_from_a_graph() {
    run(|| {
        let ctx = pushed();
        let mut graph = Graph::new(&ctx).unwrap();
        let value = Arc::new(());
        graph.keep(Arc::clone(&value)).unwrap();
        graph.add_empty(&[]).unwrap();
        let clone = graph.try_clone().unwrap();
        let exec = clone_exec(&mut graph);
        drop(graph);
        assert_eq!(Arc::strong_count(&value), 2);
        drop(clone);
        assert_eq!(Arc::strong_count(&value), 2);
        drop(exec);
        owned_by(&value, 1);
    });
}

fn clone_exec(graph: &mut Graph) -> GraphExec {
    graph.try_clone().unwrap().instantiate(InstantiateFlags::empty()).unwrap()
}

#[test]
fn what_is_kept_may_panic_when_dropped_and_may_be_a_context_a_stream_and_a_graph() {
    struct Grenade;
    impl Drop for Grenade {
        fn drop(&mut self) {
            panic!("on purpose, in what a graph kept");
        }
    }
    run(|| {
        let ctx = pushed();
        let mut graph = Graph::new(&ctx).unwrap();
        graph.keep(Grenade).unwrap();
        let other = crate::harness::parked();
        let inner = Graph::new(&other).unwrap();
        graph.keep((other, stream(), inner, module())).unwrap();
        drop(graph);
        wait_until_retired().unwrap();
    });
}

#[test]
fn a_panic_in_a_host_function_goes_no_further_and_every_call_there_is_refused() {
    run(|| {
        let ctx = pushed();
        let handle = ctx.get_unowned();
        let mut graph = Graph::new(&ctx).unwrap();
        let refused = Arc::new(AtomicBool::new(false));
        let here = Arc::clone(&refused);
        let first = graph
            .add_host_func(&[], move || {
                let answer = handle.synchronize();
                here.store(answer == Err(CudaError::NotPermitted), Ordering::SeqCst);
                panic!("on purpose, in a host function of a graph")
            })
            .unwrap();
        let (count, counts) = counter();
        graph.add_host_func(&[first], counts).unwrap();
        launched(&mut graph, 2);
        assert_eq!(count.load(Ordering::SeqCst), 2);
        assert!(refused.load(Ordering::SeqCst));
    });
}

#[test]
fn one_function_is_called_once_at_a_time_by_executables_that_run_at_once() {
    run(|| {
        let ctx = pushed();
        let mut graph = Graph::new(&ctx).unwrap();
        let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let seen = (Arc::clone(&inside), Arc::clone(&most));
        graph
            .add_host_func(&[], move || {
                seen.1.fetch_max(seen.0.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(std::time::Duration::from_millis(5));
                seen.0.fetch_sub(1, Ordering::SeqCst);
            })
            .unwrap();
        let streams = [stream(), stream(), stream()];
        let mut execs = Vec::new();
        for stream in &streams {
            let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
            exec.launch(stream).unwrap();
            execs.push(exec);
        }
        streams.iter().for_each(|stream| stream.synchronize().unwrap());
        assert_eq!((inside.load(Ordering::SeqCst), most.load(Ordering::SeqCst)), (0, 1));
    });
}

#[test]
fn what_a_capture_keeps_outlives_its_closure() {
    run(|| {
        let _ctx = pushed();
        let mut stream = stream();
        let numbers = Arc::new(DeviceBuffer::from_slice(&[27u32]).unwrap());
        let at = numbers.as_ptr();
        let module = module();
        let mut graph = stream
            .capture(CaptureMode::ThreadLocal, |capture| {
                let function = module.get_function(c"collatz")?;
                unsafe { custack::launch!(function<<<1, 1, 0, capture>>>(at as u64, 1u32)) }?;
                capture.keep((Arc::clone(&module), Arc::clone(&numbers)))
            })
            .unwrap();
        drop(module);
        launched(&mut graph, 1);
        assert_eq!(read(&numbers), [111]);
        drop(graph);
        owned_by(&numbers, 1);
        wait_until_retired().unwrap();
    });
}

#[test]
fn a_node_that_the_driver_does_not_take_out_again_keeps_what_it_uses_and_calls_nothing() {
    run(|| {
        let ctx = pushed();
        let stream = stream();
        let (ran, kept) = (Arc::new(AtomicUsize::new(0)), Arc::new(()));
        let event = Arc::new(Event::new(EventFlags::DEFAULT).unwrap());
        let memory = DeviceBuffer::from_slice(&[0u32]).unwrap();
        for allocates in [false, true] {
            let mut graph = Graph::new(&ctx).unwrap();
            if allocates {
                let (allocation, _) = graph.add_allocation(&[], 64).unwrap();
                graph.add_free(&[allocation], allocation).unwrap();
            }
            let before = graph.nodes().unwrap().len();
            let counts = Arc::clone(&ran);
            instrument::fail(Some("cuGraphAddHostNode"), 1, 999, When::After);
            let added = graph.add_host_func(&[], move || {
                counts.fetch_add(1, Ordering::SeqCst);
            });
            assert_eq!(added, Err(CudaError::UnknownError));
            instrument::fail(Some("cuGraphAddEventRecordNode"), 1, 999, When::After);
            assert_eq!(graph.add_event_record(&[], &event), Err(CudaError::UnknownError));
            let fill = FillParams::elements(memory.as_ptr() as u64, 7, 4, 1);
            instrument::fail(Some("cuGraphAddMemsetNode"), 1, 999, When::After);
            let added = unsafe { graph.add_fill(&[], &fill, Arc::clone(&kept)) };
            assert_eq!(added, Err(CudaError::UnknownError));
            // The driver destroys no node of a graph that allocates.
            let more = if allocates { 3 } else { 0 };
            assert_eq!(graph.nodes().unwrap().len(), before + more);
            owned_by(&ran, 1);
            assert_eq!(Arc::strong_count(&kept), 1 + usize::from(allocates));
            assert_eq!(Arc::strong_count(&event), 1 + usize::from(allocates));
            let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
            exec.launch(&stream).unwrap();
            stream.synchronize().unwrap();
            assert_eq!(ran.load(Ordering::SeqCst), 0);
            drop((graph, exec));
            owned_by(&kept, 1);
            owned_by(&event, 1);
        }
    });
}
