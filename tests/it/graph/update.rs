//! Executables that are changed: whole, or one node.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{add_collatz, counter, module, read, stream};
use crate::harness::{owned_by, pushed, run};
use custack::context::wait_until_retired;
use custack::driver::instrument;
use custack::error::CudaError;
use custack::event::{Event, EventFlags};
use custack::graph::*;
use custack::memory::DeviceBuffer;
use custack::stream::CaptureMode;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[test]
fn an_executable_is_updated_by_a_graph_that_differs_in_parameters_alone() {
    run(|| {
        let ctx = pushed();
        let stream = stream();
        let ((old, olds), (new, news)) = (counter(), counter());
        let (mut graph, mut other) = (Graph::new(&ctx).unwrap(), Graph::new(&ctx).unwrap());
        graph.add_host_func(&[], olds).unwrap();
        let node = other.add_host_func(&[], news).unwrap();
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        drop(graph);
        exec.update(&mut other).unwrap();
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!((old.load(Ordering::SeqCst), new.load(Ordering::SeqCst)), (0, 1));
        owned_by(&old, 1);

        // One node more, and another kind: refused, and as it was.
        let more = other.add_empty(&[node]).unwrap();
        let refused = exec.update(&mut other).unwrap_err();
        assert_eq!(
            (refused.error, refused.result),
            (CudaError::GraphExecUpdateFailure, UpdateResult::TopologyChanged)
        );
        other.destroy_node(more).unwrap();
        other.destroy_node(node).unwrap();
        let empty = other.add_empty(&[]).unwrap();
        let refused = exec.update(&mut other).unwrap_err();
        assert_eq!((refused.result, refused.node), (UpdateResult::NodeKindChanged, Some(empty)));
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(new.load(Ordering::SeqCst), 2);
        drop((exec, other));
        owned_by(&new, 1);
    });
}

#[test]
fn a_node_with_too_large_a_block_is_refused_with_the_kernel_and_the_limit() {
    run(|| {
        let ctx = pushed();
        let a = Arc::new(DeviceBuffer::from_slice(&[27u32]).unwrap());
        let mut graph = Graph::new(&ctx).unwrap();
        let node = add_collatz(&mut graph, &[], &a);
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        let module = module();
        let function = module.get_function(c"collatz").unwrap();
        let (at, count) = (a.as_ptr(), 1u32);
        let args = [(&raw const at).cast_mut().cast(), (&raw const count).cast_mut().cast::<c_void>()];
        let limits = [
            ((32, 32, 2), "a block has 2048 threads; this kernel takes at most 1024"),
            ((1025, 1, 1), "block.x is 1025, and may be 1 to 1024"),
            ((1, 1, 0), "block.z is 0, and may be 1 to 64"),
        ];
        for (block, limit) in limits {
            let sentence = format!("to make a node launch `collatz`: {limit}");
            let says =
                |error: CudaError| assert!(crate::harness::said(error).contains(&sentence), "{error:?}");
            says(unsafe { graph.add_kernel(&[], &function, 1, block, 0, &args, ()) }.unwrap_err());
            says(unsafe { graph.set_kernel(node, &function, 1, block, 0, &args, ()) }.unwrap_err());
            says(
                unsafe { exec.set_kernel(&mut graph, node, &function, 1, block, 0, &args, ()) }.unwrap_err(),
            );
        }
    });
}

#[test]
fn a_node_of_an_executable_is_changed_and_what_is_kept_for_it_stays() {
    run(|| {
        let ctx = pushed();
        let stream = stream();
        let (a, b) = (
            Arc::new(DeviceBuffer::from_slice(&[27u32]).unwrap()),
            Arc::new(DeviceBuffer::from_slice(&[7u32]).unwrap()),
        );
        let mut graph = Graph::new(&ctx).unwrap();
        let node = add_collatz(&mut graph, &[], &a);
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        let module = module();
        let function = module.get_function(c"collatz").unwrap();
        let (at, count) = (b.as_ptr(), 1u32);
        let args = [(&raw const at).cast_mut().cast(), (&raw const count).cast_mut().cast::<c_void>()];
        let keep = (Arc::clone(&module), Arc::clone(&b));
        unsafe { exec.set_kernel(&mut graph, node, &function, 1, 1, 0, &args, keep) }.unwrap();
        assert_eq!(Arc::strong_count(&b), 2);
        exec.launch(&stream).unwrap();
        drop(graph);
        drop(exec);
        stream.synchronize().unwrap();
        assert_eq!((read(&a), read(&b)), (vec![27], vec![16]));
        let begun = std::time::Instant::now();
        while Arc::strong_count(&b) > 1 || Arc::strong_count(&a) > 1 {
            assert!(begun.elapsed().as_secs() < 20, "it is kept for ever");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        wait_until_retired().unwrap();
    });
}

#[test]
fn what_was_set_stays_after_an_update() {
    run(|| {
        let ctx = pushed();
        let stream = stream();
        let mut graph = Graph::new(&ctx).unwrap();
        let ((first, firsts), (second, seconds)) = (counter(), counter());
        let node = graph.add_host_func(&[], firsts).unwrap();
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        exec.set_host_func(&mut graph, node, seconds).unwrap();
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!((first.load(Ordering::SeqCst), second.load(Ordering::SeqCst)), (0, 1));
        exec.update(&mut graph).unwrap();
        assert_eq!(Arc::strong_count(&second), 2, "a launch before may yet call it");
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!((first.load(Ordering::SeqCst), second.load(Ordering::SeqCst)), (1, 1));
        drop((exec, graph));
        owned_by(&first, 1);
        owned_by(&second, 1);
    });
}

#[test]
fn events_fills_copies_and_children_are_changed() {
    run(|| {
        let ctx = pushed();
        let stream = stream();
        let (numbers, others) =
            (DeviceBuffer::from_slice(&[0u32; 4]).unwrap(), DeviceBuffer::from_slice(&[0u32; 4]).unwrap());
        let (at, there) = (numbers.as_ptr() as u64, others.as_ptr() as u64);
        let mut graph = Graph::new(&ctx).unwrap();
        let event = || Arc::new(Event::new(EventFlags::DEFAULT).unwrap());
        let (one, two) = (event(), event());
        let recorded = graph.add_event_record(&[], &one).unwrap();
        let fill = FillParams::elements(at, 1, 4, 4);
        let filled = unsafe { graph.add_fill(&[recorded], &fill, ()) }.unwrap();
        let copy = CopyParams::bytes(Place::Device(at), Place::Device(there), 16);
        let copied = unsafe { graph.add_copy(&[filled], &copy, ()) }.unwrap();
        let (mut child, mut again) = (Graph::new(&ctx).unwrap(), Graph::new(&ctx).unwrap());
        let ((first, firsts), (second, seconds)) = (counter(), counter());
        child.add_host_func(&[], firsts).unwrap();
        again.add_host_func(&[], seconds).unwrap();
        let inner = graph.add_child(&[copied], &mut child).unwrap();
        graph.set_event(recorded, &two).unwrap();
        assert_eq!(graph.event(recorded), Ok(two.as_raw()));
        assert_eq!(graph.set_event(filled, &two), Err(CudaError::InvalidValue));

        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        exec.set_event(&mut graph, recorded, &one).unwrap();
        unsafe { exec.set_fill(&mut graph, filled, &FillParams::elements(at, 9, 4, 4), ()) }.unwrap();
        unsafe { exec.set_copy(&mut graph, copied, &CopyParams::bytes(copy.from, copy.to, 8), ()) }.unwrap();
        exec.set_child(&mut graph, inner, &mut again).unwrap();
        drop((child, again));
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!((read(&numbers), read(&others)), (vec![9; 4], vec![9, 9, 0, 0]));
        assert_eq!((first.load(Ordering::SeqCst), second.load(Ordering::SeqCst)), (0, 1));
        one.synchronize().unwrap();
        // The graph is as it was.
        assert_eq!(graph.fill(filled), Ok(fill));
    });
}

#[test]
fn a_node_is_disabled_and_enabled() {
    run(|| {
        let ctx = pushed();
        let stream = stream();
        let numbers = Arc::new(DeviceBuffer::from_slice(&[3u32, 5]).unwrap());
        let at = numbers.as_ptr() as u64;
        let mut graph = Graph::new(&ctx).unwrap();
        let copy = CopyParams::bytes(Place::Device(at), Place::Device(at + 4), 4);
        let copied = unsafe { graph.add_copy(&[], &copy, ()) }.unwrap();
        let launched = add_collatz(&mut graph, &[copied], &numbers);
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        for (node, expected) in [(copied, [7, 5]), (launched, [7, 7])] {
            assert_eq!(exec.is_enabled(&mut graph, node), Ok(true));
            exec.set_enabled(&mut graph, node, false).unwrap();
            assert_eq!(exec.is_enabled(&mut graph, node), Ok(false));
            exec.launch(&stream).unwrap();
            stream.synchronize().unwrap();
            assert_eq!(read(&numbers), expected);
            exec.set_enabled(&mut graph, node, true).unwrap();
        }
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(read(&numbers), [16, 16]);
    });
}

#[test]
fn a_fill_is_not_disabled_because_a_driver_would_not_wait_for_what_comes_before_it() {
    run(|| {
        let ctx = pushed();
        let mut own = stream();
        let mut numbers = DeviceBuffer::from_slice(&[0u32]).unwrap();
        let mut built = Graph::new(&ctx).unwrap();
        let fill = FillParams::elements(numbers.as_ptr() as u64, 3, 4, 1);
        unsafe { built.add_fill(&[], &fill, ()) }.unwrap();
        let mut captured = own
            .capture(CaptureMode::ThreadLocal, |capture| unsafe { numbers.async_fill(3, capture) })
            .unwrap();
        for graph in [&mut built, &mut captured] {
            let node = graph.nodes().unwrap()[0];
            let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
            let (refused, calls) = instrument::during(|| exec.set_enabled(graph, node, false));
            assert_eq!((refused, calls.of("cuGraphNodeSetEnabled")), (Err(CudaError::NotSupported), 0));
            let text = crate::harness::said(refused.unwrap_err());
            assert!(text.contains("to disable a node that fills"), "{text}");
            assert_eq!(
                (exec.is_enabled(graph, node), exec.set_enabled(graph, node, true)),
                (Ok(true), Ok(()))
            );
            numbers.fill(0).unwrap();
            exec.launch(&own).unwrap();
            own.synchronize().unwrap();
            assert_eq!(read(&numbers), [3]);
        }
        let empty = built.add_empty(&[]).unwrap();
        let mut exec = built.instantiate(InstantiateFlags::empty()).unwrap();
        for enabled in [false, true] {
            assert_eq!(exec.set_enabled(&mut built, empty, enabled), Err(CudaError::InvalidValue));
        }
    });
}

#[test]
fn nodes_are_those_of_the_graph_that_it_was_made_of() {
    run(|| {
        let ctx = pushed();
        let mut graph = Graph::new(&ctx).unwrap();
        let node = graph.add_host_func(&[], || {}).unwrap();
        let mut clone = graph.try_clone().unwrap();
        let theirs = graph.node_in_clone(node, &mut clone).unwrap();
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        let (count, counts) = counter();
        assert_eq!(exec.set_host_func(&mut clone, theirs, counts), Err(CudaError::InvalidHandle));
        owned_by(&count, 1);
        assert_eq!(exec.set_enabled(&mut graph, theirs, false), Err(CudaError::InvalidHandle));
        graph.destroy_node(node).unwrap();
        assert_eq!(exec.set_host_func(&mut graph, node, || {}), Err(CudaError::InvalidHandle));
    });
}
