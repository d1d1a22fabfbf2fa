//! Memory in the order of streams that capture.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::harness::{device, pushed, run, run_alone};
use crate::stream::stream;
use custack::context::wait_until_retired;
use custack::driver::instrument;
use custack::error::CudaError;
use custack::graph::{Dependencies, FillParams, Graph, InstantiateFlags, NodeKind};
use custack::memory::*;
use custack::stream::{CaptureMode, CaptureStatus, Stream};
use std::sync::mpsc::channel;

const MODES: [CaptureMode; 3] = [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

#[test]
fn a_stream_that_captures_gives_no_memory_which_the_graph_would_own() {
    run_alone(|| {
        let _ctx = pushed();
        let pool = MemoryPool::new(device(), &PoolProperties::new()).unwrap();
        for mode in MODES {
            let mut home = stream();
            let mut graph = home
                .capture(mode, |capture| {
                    let order: &Stream = capture;
                    let answers = [
                        unsafe { DeviceBuffer::<u8>::uninitialized_in(64, order) }.map(drop),
                        unsafe { DeviceBuffer::<u8>::zeroed_in(64, (&pool, order)) }.map(drop),
                        DeviceBuffer::from_slice_in(&[1u8], order).map(drop),
                        DeviceBox::new_in(&1u8, order).map(drop),
                    ];
                    assert_eq!(answers, [Err(CudaError::StreamCaptureUnsupported); 4]);
                    assert_eq!(capture.capture_status(), Ok(CaptureStatus::Active));
                    Ok(())
                })
                .unwrap();
            assert_eq!(graph.nodes(), Ok(vec![]), "{mode:?}");
        }
        assert_eq!(pool.usage().unwrap().used, 0);
    });
}

#[test]
fn memory_of_a_graph_is_in_what_a_stream_captures_into_it() {
    run(|| {
        let ctx = pushed();
        let mut stream = stream();
        let mut graph = Graph::new(&ctx).unwrap();
        let (allocation, address) = graph.add_allocation(&[], 64).unwrap();
        let fill = FillParams::elements(address, 7, 1, 64);
        let filled = unsafe { graph.add_fill(&[allocation], &fill, ()) }.unwrap();
        let mut back = LockedBuffer::new(&0u8, 64).unwrap();
        let there = unsafe { DeviceSlice::from_raw_parts(DevicePointer::wrap(address as *mut u8), 64) };
        stream
            .capture_into(
                &mut graph,
                &[(filled, Default::default())],
                CaptureMode::ThreadLocal,
                |capture| unsafe { there.async_copy_to(&mut back, capture) },
            )
            .unwrap();
        let copied = *graph.nodes().unwrap().last().unwrap();
        graph.add_free(&[copied], allocation).unwrap();
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        for _ in 0..2 {
            back.fill(0);
            exec.launch(&stream).unwrap();
            stream.synchronize().unwrap();
            assert_eq!(back[..], [7; 64]);
        }
    });
}

#[test]
fn memory_that_is_dropped_while_its_home_captures_is_freed_outside_the_capture() {
    run_alone(|| {
        let _ctx = pushed();
        let pool = MemoryPool::new(device(), &PoolProperties::new()).unwrap();
        for mode in MODES {
            let (mut home, mut other) = (stream(), stream());
            let make = |home: &Stream| DeviceBuffer::from_slice_in(&[1u8; 100], (&pool, home)).unwrap();
            let (first, second, shared) = (make(&home), make(&home), make(&other));
            shared.also_used_in(&home).unwrap();
            [&home, &other].into_iter().for_each(|stream| stream.synchronize().unwrap());
            let mut graph = home
                .capture(mode, |capture| {
                    let ((), calls) = instrument::during(|| drop(first));
                    assert_eq!(calls.of("cuMemFreeAsync"), 0, "it would be a node");
                    capture.fork(&mut other, |_| {
                        drop((second, shared));
                        Ok(())
                    })?;
                    assert_eq!(capture.capture_status(), Ok(CaptureStatus::Active));
                    Ok(())
                })
                .unwrap();
            assert_eq!(graph.nodes(), Ok(vec![]), "{mode:?}");
            wait_until_retired().unwrap();
            drop(make(&home));
        }
    });
}

#[test]
fn what_is_dropped_and_moved_while_another_thread_begins_and_ends_captures_is_in_none_of_them() {
    run_alone(|| {
        let _ctx = pushed();
        let pool = MemoryPool::new(device(), &PoolProperties::new()).unwrap();
        let (mut home, other) = (stream(), stream());
        let (sender, receiver) = channel::<DeviceBuffer<u8>>();
        let other = &other;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for (number, mut buffer) in receiver.into_iter().enumerate() {
                    match number % 3 {
                        0 => {}
                        1 => assert_no_other(buffer.also_used_in(other)),
                        _ => assert_no_other(buffer.move_to(other)),
                    }
                    drop(buffer);
                }
            });
            for _ in 0..300 {
                (0..6).for_each(|_| {
                    let buffer = unsafe { DeviceBuffer::uninitialized_in(64, (&pool, &home)) };
                    sender.send(buffer.unwrap()).unwrap();
                });
                let mut graph = home.capture(CaptureMode::ThreadLocal, |_| Ok(())).unwrap();
                assert_eq!(graph.nodes(), Ok(vec![]));
            }
            drop(sender);
        });
        wait_until_retired().unwrap();
        // Everything that was not refused was done outside the captures: no stream is left capturing, or broken.
        [&home, other].into_iter().for_each(|stream| stream.synchronize().unwrap());
    });
}

/// What is asked while a stream captures is refused.
fn assert_no_other(answer: custack::error::CudaResult<()>) {
    assert!(matches!(answer, Ok(()) | Err(CudaError::StreamCaptureUnsupported)), "{answer:?}");
}

#[test]
fn memory_that_is_dropped_while_its_home_captures_is_freed_after_the_work_before_the_capture() {
    run_alone(|| {
        let _ctx = pushed();
        let pool = MemoryPool::new(device(), &PoolProperties::new()).unwrap();
        // Or the driver may give that memory to another stream and have it wait.
        pool.set_reuse(PoolReuse::InternalDependencies, false).unwrap();
        for also in [false, true] {
            let (mut capturing, home, other) = (stream(), stream(), stream());
            let order = (&pool, if also { &home } else { &capturing });
            let mut buffer = DeviceBuffer::from_slice_in(&[0u32; 4], order).unwrap();
            if also {
                buffer.also_used_in(&capturing).unwrap();
            }
            home.synchronize().unwrap();
            capturing.synchronize().unwrap();
            let mut seen = LockedBuffer::new(&0u32, 4).unwrap();
            // Work from before the capture, which waits.
            let (go, wait) = channel::<()>();
            capturing.launch_host_func(move || assert!(wait.recv().is_err())).unwrap();
            unsafe { buffer.async_fill(7, &capturing) }.unwrap();
            unsafe { buffer.async_copy_to(&mut seen, &capturing) }.unwrap();
            let mut graph = capturing
                .capture(CaptureMode::Relaxed, |capture| {
                    drop(buffer);
                    assert_eq!(capture.capture_status(), Ok(CaptureStatus::Active));
                    // Another stream gets no memory that the work before the capture will use.
                    next(&pool, &other);
                    Ok(())
                })
                .unwrap();
            next(&pool, &other);
            drop(go);
            capturing.synchronize().unwrap();
            home.synchronize().unwrap();
            assert_eq!((graph.nodes(), &seen[..]), (Ok(vec![]), &[7; 4][..]), "also used elsewhere: {also}");
            wait_until_retired().unwrap();
        }
    });
}

/// Allocates in the order of the stream, and overwrites what was there.
fn next(pool: &MemoryPool, stream: &Stream) {
    drop(DeviceBuffer::from_slice_in(&[9u32; 4], (pool, stream)).unwrap());
}

#[test]
fn memory_that_a_capture_allocates_and_frees_is_the_graphs_at_every_launch() {
    run_alone(|| {
        let _ctx = pushed();
        let (mut stream, mut other) = (stream(), stream());
        let mut back = DeviceBuffer::from_slice(&[0u32; 4]).unwrap();
        let to = back.as_device_ptr();
        let mut nodes = Vec::new();
        let mut graph = stream
            .capture(CaptureMode::Global, |capture| {
                let memory = capture.allocate::<u32>(4)?;
                assert_eq!((memory.len(), memory.is_empty()), (4, false));
                nodes = capture.dependencies()?;
                let from = unsafe { DeviceSlice::from_raw_parts(memory.as_device_ptr(), 4) };
                unsafe { capture.fill_bytes(&memory, 7) }?;
                // A stream that has forked uses it, too.
                capture.fork(&mut other, |other| unsafe {
                    let to = DeviceSlice::from_raw_parts_mut(to, 4);
                    from.async_copy_to(to, other)
                })?;
                capture.free(memory)
            })
            .unwrap();
        let all = graph.nodes().unwrap();
        let kinds: Vec<_> = all.iter().map(|node| graph.kind(*node).unwrap()).collect();
        assert_eq!(kinds, [NodeKind::Allocation, NodeKind::Fill, NodeKind::Copy, NodeKind::Free]);
        assert_eq!(nodes[0].0, all[0]);
        let (address, bytes) = graph.allocation(all[0]).unwrap();
        assert_eq!((bytes, graph.freed(all[3])), (16, Ok(address)));
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        for _ in 0..2 {
            back.fill(0).unwrap();
            exec.launch(&stream).unwrap();
            stream.synchronize().unwrap();
            let mut values = [0; 4];
            back.copy_to(&mut values).unwrap();
            assert_eq!(values, [0x0707_0707; 4]);
        }
    });
}

#[test]
fn a_capture_that_allocates_gives_one_executable_at_a_time_and_one_launch_until_the_memory_is_freed() {
    run(|| {
        let _ctx = pushed();
        let mut stream = stream();
        let captured = |stream: &mut Stream| {
            stream.capture(CaptureMode::ThreadLocal, |capture| capture.allocate::<u8>(64).map(drop)).unwrap()
        };
        let mut graph = captured(&mut stream);
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        assert_eq!(graph.instantiate(InstantiateFlags::empty()).unwrap_err(), CudaError::NotSupported);
        assert_eq!(graph.try_clone().unwrap_err(), CudaError::NotSupported);
        exec.launch(&stream).unwrap();
        assert_eq!(exec.launch(&stream), Err(CudaError::InvalidValue));
        stream.synchronize().unwrap();
        drop(exec);
        let mut graph = captured(&mut stream);
        let mut exec = graph.instantiate(InstantiateFlags::AUTO_FREE_ON_LAUNCH).unwrap();
        (0..3).for_each(|_| exec.launch(&stream).unwrap());
        stream.synchronize().unwrap();
    });
}

#[test]
fn memory_of_one_capture_is_not_used_in_another_nor_allocated_without_bytes() {
    run(|| {
        let _ctx = pushed();
        let (mut stream, mut kept) = (stream(), None);
        stream
            .capture(CaptureMode::ThreadLocal, |capture| {
                for len in [0, usize::MAX, usize::MAX / 4] {
                    let (refused, calls) = instrument::during(|| capture.allocate::<u32>(len).map(drop));
                    assert_eq!((refused, calls.total()), (Err(CudaError::InvalidMemoryAllocation), 0));
                }
                assert_eq!(capture.allocate::<()>(3).unwrap_err(), CudaError::InvalidMemoryAllocation);
                kept = Some(capture.allocate::<u32>(4)?);
                Ok(())
            })
            .unwrap();
        let kept = kept.unwrap();
        let mut graph = stream
            .capture(CaptureMode::ThreadLocal, |capture| {
                let (refused, calls) =
                    instrument::during(|| unsafe { [capture.fill_bytes(&kept, 1), capture.free(kept)] });
                assert_eq!((refused, calls.total()), ([Err(CudaError::InvalidHandle); 2], 0));
                assert_eq!(capture.capture_status(), Ok(CaptureStatus::Active));
                Ok(())
            })
            .unwrap();
        assert_eq!(graph.nodes(), Ok(vec![]));
    });
}

#[test]
fn memory_of_a_graph_is_freed_in_any_order_and_the_driver_does_not_mind() {
    run_alone(|| {
        let context = pushed();
        let mut home = stream();
        // In a second capture, whose free comes after nothing.
        let (mut graph, mut memory) = (Graph::new(&context).unwrap(), None);
        let allocate = |capture: &custack::graph::Capture<'_>| {
            memory = Some(capture.allocate::<u64>(4)?);
            Ok(())
        };
        home.capture_into(&mut graph, &[], CaptureMode::Relaxed, allocate).unwrap();
        let memory = memory.unwrap();
        home.capture_into(&mut graph, &[], CaptureMode::Relaxed, |capture| capture.free(memory)).unwrap();
        // After dependencies that were set to none.
        let unordered = home.capture(CaptureMode::Relaxed, |capture| {
            let memory = capture.allocate::<u64>(4)?;
            capture.update_dependencies(Dependencies::Set, &[])?;
            capture.free(memory)
        });
        // By hand.
        let mut by_hand = Graph::new(&context).unwrap();
        let (allocation, _) = by_hand.add_allocation(&[], 64).unwrap();
        by_hand.add_free(&[], allocation).unwrap();
        for mut graph in [graph, unordered.unwrap(), by_hand] {
            assert_eq!((graph.nodes().unwrap().len(), graph.edges()), (2, Ok(vec![])));
            let mut executable = graph.instantiate(InstantiateFlags::empty()).unwrap();
            executable.launch(&home).unwrap();
            home.synchronize().unwrap();
        }
    });
}
