//! What is dropped while a launch is in flight is destroyed after it.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{counter, module, stream};
use crate::harness::{is_simulated, owned_by, parked, pushed, run_alone, within};
use custack::context::wait_until_retired;
use custack::driver::instrument;
use custack::event::{Event, EventFlags};
use custack::graph::*;
use custack::memory::{CopyDestination, DeviceBuffer};
use custack::sim;
use custack::stream::Stream;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What is left in the whole process.
fn left() -> (usize, usize, i64) {
    let simulated = if is_simulated() { (sim::objects(), sim::allocations()) } else { (0, 0) };
    (simulated.0, simulated.1, instrument::contexts_alive())
}

/// Waits until no more than this is left: a graph lets go of what it kept some time after its last launch, and one of
/// an earlier test may have done so only now.
#[track_caller]
fn becomes(expected: (usize, usize, i64), when: &str) {
    let begun = Instant::now();
    let is_more = |(objects, allocations, contexts)| {
        objects > expected.0 || allocations > expected.1 || contexts > expected.2
    };
    while is_more(left()) {
        wait_until_retired().unwrap();
        assert!(begun.elapsed().as_secs() < 20, "{:?} is left, and not {expected:?}, {when}", left());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A node that waits until the sender is dropped.
fn waiting(graph: &mut Graph) -> (Node, Sender<()>) {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    (graph.add_host_func(&[], move || assert!(wait.lock().unwrap().recv().is_err())).unwrap(), go)
}

#[test]
fn all_that_a_graph_kept_is_destroyed_after_its_launch_in_flight_and_nothing_is_left() {
    run_alone(|| {
        let ctx = pushed();
        let launching = stream();
        let mut out = DeviceBuffer::from_slice(&[0u32; 4]).unwrap();
        let before = left();
        let (count, counts) = counter();
        {
            let home = stream();
            let ordered = DeviceBuffer::from_slice_in(&[7u32; 4], &home).unwrap();
            let plain = DeviceBuffer::from_slice(&[1u32; 4]).unwrap();
            // The driver changes no copy to memory of a pool, so that is only kept.
            let second = DeviceBuffer::from_slice(&[7u32; 4]).unwrap();
            home.synchronize().unwrap();
            let mut graph = Graph::new(&ctx).unwrap();
            let (first, go) = waiting(&mut graph);
            let at = |buffer: &DeviceBuffer<u32>| Place::Device(buffer.as_ptr() as u64);
            let (there, source) = (Place::Device(out.as_device_ptr().as_raw() as u64), at(&second));
            let copied =
                unsafe { graph.add_copy(&[first], &CopyParams::bytes(at(&plain), there, 16), plain) }
                    .unwrap();
            let last = graph.add_host_func(&[copied], || panic!("it was replaced")).unwrap();
            // A context, and what is in it, in an order in which it goes before them.
            let other = parked();
            let of_other = other.scoped(|_| Ok((stream(), Event::new(EventFlags::DEFAULT)?))).unwrap();
            let inner = Graph::new(&ctx).unwrap();
            graph.keep((other, of_other, inner, module(), stream())).unwrap();
            let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
            exec.set_host_func(&mut graph, last, counts).unwrap();
            let other_source = CopyParams::bytes(source, there, 16);
            unsafe { exec.set_copy(&mut graph, copied, &other_source, (ordered, second, home)) }.unwrap();
            exec.launch(&launching).unwrap();
            drop(graph);
            drop(exec);
            assert_eq!((count.load(Ordering::SeqCst), Arc::strong_count(&count)), (0, 2));
            assert_ne!(left(), before, "what is in flight has it");
            drop(go);
        }
        launching.synchronize().unwrap();
        let mut back = [0; 4];
        out.copy_to(&mut back).unwrap();
        assert_eq!((back, count.load(Ordering::SeqCst)), ([7; 4], 1));
        owned_by(&count, 1);
        becomes(before, "after the launch");
    });
}

#[test]
fn whatever_is_dropped_first_while_a_launch_is_in_flight_nothing_is_used_too_late_or_left() {
    within(120, || {
        run_alone(|| {
            for order in 0..24 {
                let before = left();
                let ctx = parked();
                let launching: Stream = ctx.scoped(|_| Ok(stream())).unwrap();
                let kept = ctx.scoped(|_| Ok((DeviceBuffer::from_slice(&[1u8; 64])?, module()))).unwrap();
                let mut graph = Graph::new(&ctx).unwrap();
                let at = kept.0.as_ptr() as u64;
                let (count, counts) = counter();
                let slowly =
                    graph.add_host_func(&[], || std::thread::sleep(Duration::from_millis(5))).unwrap();
                let filled =
                    unsafe { graph.add_fill(&[slowly], &FillParams::elements(at, 2, 1, 64), kept) }.unwrap();
                graph.add_host_func(&[filled], counts).unwrap();
                let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
                exec.launch(&launching).unwrap();
                let mut parts: Vec<Box<dyn FnOnce()>> = vec![
                    Box::new(|| drop(ctx)),
                    Box::new(|| drop(graph)),
                    Box::new(|| drop(exec)),
                    Box::new(|| drop(launching)),
                ];
                let mut code = order;
                for parts_left in (1..=4).rev() {
                    parts.remove(code % parts_left)();
                    code /= parts_left;
                }
                owned_by(&count, 1);
                assert_eq!(count.load(Ordering::SeqCst), 1, "in order {order}");
                becomes(before, &format!("in order {order}"));
            }
        });
    });
}

#[test]
fn the_contexts_of_the_nodes_are_kept_until_a_launch_in_a_stream_of_another_context_is_over() {
    run_alone(|| {
        let (_ctx, there) = (pushed(), parked());
        let here = stream();
        let before = left();
        let mut graph = Graph::new(&there).unwrap();
        let (node, go) = waiting(&mut graph);
        let event = Arc::new(there.create_event(EventFlags::DEFAULT).unwrap());
        graph.add_event_record(&[node], &event).unwrap();
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        exec.launch(&here).unwrap();
        let ((), calls) = instrument::during(|| drop((graph, exec, event, there)));
        assert_eq!((calls.of("cuGraphExecDestroy"), calls.of("cuCtxDestroy_v2")), (1, 0), "{calls}");
        drop(go);
        here.synchronize().unwrap();
        becomes((before.0, before.1, before.2 - 1), "after the launch");
    });
}
