//! Graphs.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

mod exec;
mod in_flight;
mod kept;
mod later;
mod lifetimes;
mod raw;
mod update;

use crate::harness::{current, device, owned_by, parked, pushed, run, run_alone};
use crate::module::KERNELS;
use custack::context::ContextStack;
use custack::error::CudaError;
use custack::event::{Event, EventFlags};
use custack::graph::*;
use custack::memory::{CopyDestination, DeviceBuffer};
use custack::module::Module;
use custack::stream::{CaptureMode, Stream, StreamFlags};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub(super) fn edge() -> EdgeData {
    EdgeData::default()
}

pub(super) fn stream() -> Stream {
    Stream::new(StreamFlags::NON_BLOCKING, None).unwrap()
}

pub(super) fn module() -> Arc<Module> {
    Arc::new(Module::load_from_bytes(KERNELS.as_bytes()).unwrap())
}

pub(super) fn counter() -> (Arc<AtomicUsize>, impl FnMut() + Send + 'static) {
    let count = Arc::new(AtomicUsize::new(0));
    let here = Arc::clone(&count);
    let counts = move || {
        here.fetch_add(1, Ordering::SeqCst);
    };
    (count, counts)
}

/// Instantiates, launches `times` times, and waits.
pub(super) fn launched(graph: &mut Graph, times: usize) {
    let stream = graph.context().scoped(|_| Ok(stream())).unwrap();
    let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
    for _ in 0..times {
        exec.launch(&stream).unwrap();
    }
    stream.synchronize().unwrap();
}

/// Adds a node of `collatz` on the buffer, which is kept with its module.
pub(super) fn add_collatz(graph: &mut Graph, after: &[Node], buffer: &Arc<DeviceBuffer<u32>>) -> Node {
    let module = module();
    let function = module.get_function(c"collatz").unwrap();
    let (at, count) = (buffer.as_ptr(), buffer.len() as u32);
    let args = [(&raw const at).cast_mut().cast(), (&raw const count).cast_mut().cast::<c_void>()];
    let keep = (Arc::clone(&module), Arc::clone(buffer));
    unsafe { graph.add_kernel(after, &function, 1, 32, 0, &args, keep) }.unwrap()
}

pub(super) fn read(buffer: &DeviceBuffer<u32>) -> Vec<u32> {
    let mut back = vec![0; buffer.len()];
    buffer.copy_to(&mut back[..]).unwrap();
    back
}

#[test]
fn a_graph_is_built_of_nodes_and_edges_and_tells_them() {
    run(|| {
        let ctx = pushed();
        let mut graph = Graph::new(&ctx).unwrap();
        let (count, counts) = counter();
        let event = Arc::new(Event::new(EventFlags::DEFAULT).unwrap());
        let a = graph.add_empty(&[]).unwrap();
        let b = graph.add_host_func(&[a], counts).unwrap();
        let c = graph.add_event_record(&[a], &event).unwrap();
        let d = graph.add_event_wait(&[b, c], &event).unwrap();
        let mut child = Graph::new(&ctx).unwrap();
        child.add_empty(&[]).unwrap();
        let e = graph.add_child(&[d], &mut child).unwrap();
        assert_eq!(graph.nodes(), Ok(vec![a, b, c, d, e]));
        assert_eq!(graph.root_nodes(), Ok(vec![a]));
        let kinds: Vec<_> = [a, b, c, d, e].map(|node| graph.kind(node).unwrap()).into();
        use NodeKind::*;
        assert_eq!(kinds, [Empty, HostFunction, EventRecord, EventWait, Child]);
        let mut edges = graph.edges().unwrap();
        edges.sort();
        assert_eq!(edges, [(a, b, edge()), (a, c, edge()), (b, d, edge()), (c, d, edge()), (d, e, edge())]);
        assert_eq!(graph.dependencies(d), Ok(vec![(b, edge()), (c, edge())]));
        assert_eq!(graph.dependents(a), Ok(vec![(b, edge()), (c, edge())]));
        assert_eq!((graph.event(c), graph.event(d)), (Ok(event.as_raw()), Ok(event.as_raw())));
        assert_eq!(graph.child(e).unwrap().nodes().unwrap().len(), 1);

        graph.remove_edges(&[(c, d, edge())]).unwrap();
        assert_eq!(graph.dependencies(d), Ok(vec![(b, edge())]));
        assert_eq!(graph.remove_edges(&[(c, d, edge())]), Err(CudaError::InvalidValue));
        graph.add_edges(&[(c, d, edge())]).unwrap();
        graph.destroy_node(e).unwrap();
        launched(&mut graph, 2);
        assert_eq!(count.load(Ordering::SeqCst), 2);
        assert_eq!(current(), ctx.as_raw());
    });
}

#[test]
fn edges_are_added_and_removed_all_or_none() {
    run(|| {
        let ctx = pushed();
        for allocates in [false, true] {
            let mut graph = Graph::new(&ctx).unwrap();
            let [a, b, c, d] = [(); 4].map(|()| graph.add_empty(&[]).unwrap());
            let (ab, bc, cd) = ((a, b, edge()), (b, c, edge()), (c, d, edge()));
            graph.add_edges(&[ab, bc]).unwrap();
            if allocates {
                graph.add_allocation(&[d], 64).unwrap();
            }
            let edges = |graph: &mut Graph| {
                let mut edges = graph.edges().unwrap();
                edges.sort();
                edges
            };
            let before = edges(&mut graph);
            for wrong in [&[cd, ab][..], &[cd, cd], &[ab, cd], &[cd, bc, ab], &[ab], &[cd, (a, a, edge())]] {
                assert_eq!(graph.add_edges(wrong), Err(CudaError::InvalidValue), "{wrong:?}");
                assert_eq!(edges(&mut graph), before, "{wrong:?}");
            }
            for wrong in [&[ab, cd][..], &[ab, ab], &[cd, ab], &[bc, ab, cd]] {
                assert_eq!(graph.remove_edges(wrong), Err(CudaError::InvalidValue), "{wrong:?}");
                assert_eq!(edges(&mut graph), before, "{wrong:?}");
            }
            assert_eq!(graph.add_edges(&[]), Ok(()));
            graph.add_edges(&[cd, (a, c, edge())]).unwrap();
            assert_eq!(edges(&mut graph).len(), before.len() + 2);
        }
    });
}

#[test]
fn kernels_copies_and_fills_run_in_their_order() {
    run(|| {
        let ctx = pushed();
        let numbers = Arc::new(DeviceBuffer::from_slice(&[0u32; 8]).unwrap());
        let copy = Arc::new(DeviceBuffer::from_slice(&[0u32; 8]).unwrap());
        let mut graph = Graph::new(&ctx).unwrap();
        let fill = FillParams::elements(numbers.as_ptr() as u64, 27, 4, 8);
        let filled = unsafe { graph.add_fill(&[], &fill, Arc::clone(&numbers)) }.unwrap();
        let computed = add_collatz(&mut graph, &[filled], &numbers);
        let copies = CopyParams::bytes(
            Place::Device(numbers.as_ptr() as u64),
            Place::Device(copy.as_ptr() as u64),
            32,
        );
        let copied = unsafe { graph.add_copy(&[computed], &copies, Arc::clone(&copy)) }.unwrap();
        assert_eq!(graph.fill(filled), Ok(fill));
        assert_eq!(graph.copy(copied), Ok(copies));
        let kernel = graph.kernel(computed).unwrap();
        assert_eq!((kernel.grid.x, kernel.block.x, kernel.shared_mem_bytes), (1, 32, 0));
        for wrong in
            [graph.fill(copied).map(drop), graph.copy(filled).map(drop), graph.kernel(filled).map(drop)]
        {
            assert_eq!(wrong, Err(CudaError::InvalidValue));
        }
        launched(&mut graph, 2);
        assert_eq!(read(&copy), [111; 8], "27 takes 111 steps");
        // A change of the graph is for what is made of it later.
        let other = FillParams::elements(fill.to, 7, 4, 8);
        unsafe { graph.set_fill(filled, &other, Arc::clone(&numbers)) }.unwrap();
        let half = CopyParams::bytes(copies.from, copies.to, 16);
        unsafe { graph.set_copy(copied, &half, Arc::clone(&copy)) }.unwrap();
        assert_eq!((graph.fill(filled), graph.copy(copied)), (Ok(other), Ok(half)));
        launched(&mut graph, 1);
        assert_eq!(read(&copy), [16, 16, 16, 16, 111, 111, 111, 111], "7 takes 16 steps");
    });
}

#[test]
fn a_kernel_node_takes_as_many_arguments_as_the_kernel() {
    run(|| {
        let ctx = pushed();
        let mut graph = Graph::new(&ctx).unwrap();
        let module = module();
        let function = module.get_function(c"collatz").unwrap();
        for args in [&[][..], &[std::ptr::null_mut()], &[std::ptr::null_mut(); 3]] {
            let added = unsafe { graph.add_kernel(&[], &function, 1, 1, 0, args, ()) };
            assert_eq!(added, Err(CudaError::InvalidValue));
        }
        let (at, count) = (0u64, 0u32);
        let args = [(&raw const at).cast_mut().cast(), (&raw const count).cast_mut().cast::<c_void>()];
        let added = unsafe { graph.add_kernel(&[], &function, 0, 1, 0, &args, ()) };
        assert_eq!(added, Err(CudaError::InvalidValue), "a grid of nothing");
        assert_eq!(graph.nodes(), Ok(vec![]));
    });
}

#[test]
fn keys_are_of_one_graph_and_of_nodes_that_are_there() {
    run(|| {
        let ctx = pushed();
        let (mut graph, mut other) = (Graph::new(&ctx).unwrap(), Graph::new(&ctx).unwrap());
        let (node, strange) = (graph.add_empty(&[]).unwrap(), other.add_empty(&[]).unwrap());
        graph.destroy_node(node).unwrap();
        let event = Arc::new(Event::new(EventFlags::DEFAULT).unwrap());
        for wrong in [node, strange] {
            let answers = [
                graph.add_empty(&[wrong]).map(drop),
                graph.add_host_func(&[wrong], || {}).map(drop),
                graph.kind(wrong).map(drop),
                graph.destroy_node(wrong),
                graph.add_edges(&[(wrong, wrong, edge())]),
                graph.remove_edges(&[(wrong, wrong, edge())]),
                graph.dependencies(wrong).map(drop),
                graph.dependents(wrong).map(drop),
                graph.kernel(wrong).map(drop),
                graph.event(wrong).map(drop),
                graph.set_event(wrong, &event),
                graph.set_host_func(wrong, || {}),
                graph.child(wrong).map(drop),
                graph.add_free(&[], wrong).map(drop),
                graph.node_in_clone(wrong, &mut other).map(drop),
            ];
            for answer in answers {
                assert_eq!(answer, Err(CudaError::InvalidHandle));
            }
        }
        assert!(crate::harness::said(CudaError::InvalidHandle).contains("of another graph"));
        assert_eq!(graph.nodes(), Ok(vec![]));
        // A node that is added where one was is another.
        assert_ne!(graph.add_empty(&[]).unwrap(), node);
    });
}

#[test]
fn a_context_makes_graphs_of_its_own_whatever_is_current() {
    run(|| {
        let (ctx, _other) = (parked(), pushed());
        let (graph, calls) = custack::driver::instrument::during(|| ctx.create_graph());
        let mut graph = graph.unwrap();
        assert_eq!((calls.to_string().as_str(), graph.context()), ("cuGraphCreate", &ctx.get_unowned()));
        graph.add_empty(&[]).unwrap();
        let handle = ctx.get_unowned();
        drop((graph, ctx));
        assert_eq!(handle.create_graph().unwrap_err(), CudaError::ContextIsDestroyed);
    });
}

#[test]
fn a_circle_is_refused() {
    run(|| {
        let ctx = pushed();
        let mut graph = Graph::new(&ctx).unwrap();
        let a = graph.add_empty(&[]).unwrap();
        let b = graph.add_empty(&[a]).unwrap();
        let closed = graph.add_edges(&[(b, a, edge())]);
        let made = graph.instantiate(InstantiateFlags::empty());
        assert!(closed.is_err() || made.is_err());
    });
}

#[test]
fn a_clone_is_another_graph_of_the_same_nodes() {
    run(|| {
        let ctx = pushed();
        let mut graph = Graph::new(&ctx).unwrap();
        let (count, counts) = counter();
        let a = graph.add_empty(&[]).unwrap();
        let b = graph.add_host_func(&[a], counts).unwrap();
        let mut clone = graph.try_clone().unwrap();
        let (a2, b2) =
            (graph.node_in_clone(a, &mut clone).unwrap(), graph.node_in_clone(b, &mut clone).unwrap());
        assert_eq!(clone.nodes(), Ok(vec![a2, b2]));
        assert_eq!(clone.edges(), Ok(vec![(a2, b2, edge())]));
        assert_eq!(clone.kind(a), Err(CudaError::InvalidHandle), "a key is of one graph");
        graph.destroy_node(a).unwrap();
        assert_eq!(clone.nodes().unwrap().len(), 2);
        drop(graph);
        launched(&mut clone, 1);
        assert_eq!(count.load(Ordering::SeqCst), 1, "it keeps what the other kept");
        drop(clone);
        owned_by(&count, 1);
    });
}

#[test]
fn memory_is_allocated_and_freed_by_nodes() {
    run(|| {
        let ctx = pushed();
        let stream = stream();
        let numbers = DeviceBuffer::from_slice(&[0u32; 4]).unwrap();
        let mut graph = Graph::new(&ctx).unwrap();
        assert_eq!(graph.add_allocation(&[], 0), Err(CudaError::InvalidValue));
        let (allocation, address) = graph.add_allocation(&[], 16).unwrap();
        assert_eq!(graph.allocation(allocation), Ok((address, 16)));
        let fill = FillParams::elements(address, 5, 4, 4);
        let filled = unsafe { graph.add_fill(&[allocation], &fill, ()) }.unwrap();
        let back = CopyParams::bytes(Place::Device(address), Place::Device(numbers.as_ptr() as u64), 16);
        let copied = unsafe { graph.add_copy(&[filled], &back, ()) }.unwrap();
        let mut unfreed = Graph::new(&ctx).unwrap();
        unfreed.add_allocation(&[], 16).unwrap();
        let free = graph.add_free(&[copied], allocation).unwrap();
        assert_eq!(graph.freed(free), Ok(address));
        assert_eq!(graph.add_free(&[copied], copied), Err(CudaError::InvalidValue));
        assert_eq!(graph.kind(allocation), Ok(NodeKind::Allocation));
        assert_eq!(graph.kind(free), Ok(NodeKind::Free));

        // One executable at a time, and no clones.
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        assert_eq!(graph.instantiate(InstantiateFlags::empty()).unwrap_err(), CudaError::NotSupported);
        assert_eq!(graph.try_clone().unwrap_err(), CudaError::NotSupported);
        for _ in 0..2 {
            exec.launch(&stream).unwrap();
        }
        stream.synchronize().unwrap();
        assert_eq!(read(&numbers), [5; 4]);

        let mut once = unfreed.instantiate(InstantiateFlags::empty()).unwrap();
        once.launch(&stream).unwrap();
        assert_eq!(once.launch(&stream), Err(CudaError::InvalidValue), "its memory is not freed");
        drop(once);
        let mut again = Graph::new(&ctx).unwrap();
        again.add_allocation(&[], 16).unwrap();
        let mut again = again.instantiate(InstantiateFlags::AUTO_FREE_ON_LAUNCH).unwrap();
        for _ in 0..3 {
            again.launch(&stream).unwrap();
        }
        stream.synchronize().unwrap();
    });
}

#[test]
fn a_graph_is_written_as_a_text() {
    run(|| {
        let ctx = pushed();
        let mut graph = Graph::new(&ctx).unwrap();
        let a = graph.add_empty(&[]).unwrap();
        graph.add_host_func(&[a], || {}).unwrap();
        let text = graph.to_dot(DotFlags::empty()).unwrap();
        assert!(text.starts_with("digraph") && text.contains("->"), "{text}");
        assert!(graph.to_dot(DotFlags::VERBOSE).unwrap().len() > text.len());
        assert_eq!(graph.write_dot("a\0b", DotFlags::empty()), Err(CudaError::InvalidValue));
        assert!(graph.write_dot("/nowhere/at/all.dot", DotFlags::empty()).is_err());
    });
}

#[test]
fn graphs_work_whatever_is_current_and_leave_the_stack_as_it_was() {
    run(|| {
        let (ctx, other) = (parked(), pushed());
        let works = || {
            let mut graph = Graph::new(&ctx).unwrap();
            let (count, counts) = counter();
            let node = graph.add_host_func(&[], counts).unwrap();
            let event = Arc::new(ctx.scoped(|_| Event::new(EventFlags::DEFAULT)).unwrap());
            graph.add_event_record(&[node], &event).unwrap();
            let (allocation, address) = graph.add_allocation(&[], 64).unwrap();
            let fill = FillParams::elements(address, 1, 1, 64);
            let filled = unsafe { graph.add_fill(&[allocation], &fill, ()) }.unwrap();
            graph.add_free(&[filled], allocation).unwrap();
            launched(&mut graph, 1);
            assert_eq!(count.load(Ordering::SeqCst), 1);
            let mut stream = ctx.scoped(|_| Ok(stream())).unwrap();
            let mut graph =
                stream.capture(CaptureMode::Relaxed, |capture| capture.launch_host_func(|| {})).unwrap();
            launched(&mut graph, 1);
        };
        works();
        assert_eq!((current(), ContextStack::depth()), (other.as_raw(), 1));
        ContextStack::pop().unwrap();
        works();
        assert!(current().is_null());
        std::thread::scope(|scope| scope.spawn(works).join().unwrap());
    });
}

#[test]
fn what_graphs_allocated_and_no_graph_uses_goes_back_to_the_device() {
    run_alone(|| {
        let (ctx, device) = (pushed(), device());
        // What graphs of earlier tests have is theirs.
        let (earlier, _) = device.graph_memory().unwrap();
        for _ in 0..3 {
            let mut graph = Graph::new(&ctx).unwrap();
            let (allocation, _) = graph.add_allocation(&[], 64 << 20).unwrap();
            graph.add_free(&[allocation], allocation).unwrap();
            launched(&mut graph, 2);
        }
        let before = device.graph_memory().unwrap();
        // The NVIDIA driver gives the memory of a destroyed executable back some time later.
        let begun = Instant::now();
        let (used, reserved) = loop {
            ctx.synchronize().unwrap();
            device.trim_graph_memory().unwrap();
            let now = device.graph_memory().unwrap();
            if now.0 <= earlier || begun.elapsed() > Duration::from_secs(20) {
                break now;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        assert!(
            used <= earlier && reserved <= before.1,
            "{used} {reserved}, before that {before:?}, at first {earlier}"
        );
    });
}
