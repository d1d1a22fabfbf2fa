//! Graphs, their nodes, and executables. What fails on a graph succeeds there when it is tried again.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{Operation, stream};
use custack::context::CurrentContext;
use custack::error::CudaResult;
use custack::event::{Event, EventFlags};
use custack::function::LaunchConfig;
use custack::graph::*;
use custack::memory::DeviceBuffer;
use custack::module::Module;
use std::sync::Arc;

/// A kernel without parameters. Of others the driver says how many they have with error 1, so that a fault of that code
/// makes later launches seem to have too many.
const NOTHING: &[u8] = b".version 7.0 .target sm_70 .address_size 64 .visible .entry nothing() { ret; }";

fn graph() -> CudaResult<Graph> {
    Graph::new(&CurrentContext::get_current()?)
}

fn event() -> CudaResult<Arc<Event>> {
    Event::new(EventFlags::DEFAULT).map(Arc::new)
}

/// Tries again what failed, and returns the first error.
fn again<R>(mut f: impl FnMut() -> CudaResult<R>) -> CudaResult<R> {
    f().inspect_err(|error| assert!(f().is_ok(), "again after {error}"))
}

/// Changes edges. If that fails, they are as before, and a second attempt changes them.
fn change(graph: &mut Graph, f: impl Fn(&mut Graph) -> CudaResult<()>) -> CudaResult<()> {
    let before = graph.edges()?;
    f(graph).inspect_err(|error| {
        assert_eq!(graph.edges().unwrap(), before, "after {error}");
        f(graph).unwrap();
    })
}

/// Adds one node. If that fails, the graph has none, and a second attempt adds it.
fn add(graph: &mut Graph, mut f: impl FnMut(&mut Graph) -> CudaResult<Node>) -> CudaResult<Node> {
    let before = graph.nodes()?.len();
    f(graph).inspect_err(|error| {
        assert_eq!(graph.nodes().unwrap().len(), before, "after {error}");
        f(graph).unwrap();
    })
}

pub(super) const OPERATIONS: &[(&str, Operation)] = &[
    ("a graph that is built", || {
        let stream = stream()?;
        let event = Arc::new(Event::new(EventFlags::DEFAULT)?);
        let mut graph = Graph::new(stream.context())?;
        let first = graph.add_empty(&[])?;
        let second = graph.add_host_func(&[first], || {})?;
        let third = graph.add_event_record(&[second], &event)?;
        graph.set_event(third, &event)?;
        graph.add_event_wait(&[third], &event)?;
        graph.set_host_func(second, || {})?;
        let extra = graph.add_empty(&[third])?;
        graph.destroy_node(extra)?;
        let (allocation, address) = graph.add_allocation(&[third], 64)?;
        let fill = FillParams::elements(address, 1, 1, 64);
        let filled = unsafe { graph.add_fill(&[allocation], &fill, ()) }?;
        graph.add_free(&[filled], allocation)?;
        let _ = (graph.nodes()?, graph.edges()?, graph.kind(first)?, graph.to_dot(DotFlags::empty())?);
        let mut exec = graph.instantiate(InstantiateFlags::empty())?;
        exec.upload(&stream)?;
        stream.synchronize()
    }),
    ("a graph in a graph", || {
        let context = stream()?.context().clone();
        let (mut parent, mut child) = (Graph::new(&context)?, Graph::new(&context)?);
        let node = child.add_host_func(&[], || {})?;
        let mut clone = child.try_clone()?;
        child.node_in_clone(node, &mut clone)?;
        let inner = parent.add_child(&[], &mut child)?;
        drop(child);
        let mut exec = parent.instantiate(InstantiateFlags::empty())?;
        exec.set_child(&mut parent, inner, &mut clone)?;
        parent.child(inner).map(drop)
    }),
    ("an executable graph that is changed", || {
        let stream = stream()?;
        let mut graph = Graph::new(stream.context())?;
        let node = graph.add_host_func(&[], || {})?;
        let mut exec = graph.instantiate(InstantiateFlags::AUTO_FREE_ON_LAUNCH)?;
        exec.set_host_func(&mut graph, node, || {})?;
        exec.flags()?;
        exec.launch(&stream)?;
        stream.synchronize()?;
        exec.update(&mut graph).map_err(|refused| refused.error)
    }),
    ("nodes without addresses", || {
        let (mut graph, mut child, event) = (graph()?, graph()?, event()?);
        add(&mut graph, |graph| graph.add_empty(&[]))?;
        add(&mut graph, |graph| graph.add_host_func(&[], || {}))?;
        add(&mut graph, |graph| graph.add_event_record(&[], &event))?;
        add(&mut graph, |graph| graph.add_event_wait(&[], &event))?;
        add(&mut graph, |graph| graph.add_child(&[], &mut child))?;
        again(|| graph.keep(vec![1]))
    }),
    ("nodes that allocate and free", || {
        let mut graph = graph()?;
        // The driver takes no node out of such a graph again, so one that it added and then failed stays.
        let (allocation, address) = graph.add_allocation(&[], 64)?;
        let free = graph.add_free(&[allocation], allocation)?;
        let (_, bytes) = graph.allocation(allocation)?;
        assert_eq!((graph.freed(free)?, bytes), (address, 64));
        Ok(())
    }),
    ("nodes of a graph that allocates", || {
        let (stream, mut graph, event) = (stream()?, graph()?, event()?);
        let module = Arc::new(Module::load_from_bytes(NOTHING)?);
        let function = module.get_function(c"nothing")?;
        let (allocation, _) = graph.add_allocation(&[], 64)?;
        graph.add_free(&[allocation], allocation)?;
        // Such a node stays where the driver fails after it has added it, and what it uses is kept.
        let added = (|| {
            graph.add_host_func(&[], || {})?;
            graph.add_event_record(&[], &event)?;
            let keep = Arc::clone(&module);
            unsafe { graph.add_kernel(&[], &function, 1, 1, 0, &[], keep) }
        })();
        drop(event);
        let mut exec = graph.instantiate(InstantiateFlags::empty())?;
        exec.launch(&stream)?;
        stream.synchronize()?;
        added.map(drop)
    }),
    ("nodes that launch", || {
        let (module, mut graph) = (Module::load_from_bytes(NOTHING)?, graph()?);
        let function = module.get_function(c"nothing")?;
        let node =
            add(&mut graph, |graph| unsafe { graph.add_kernel(&[], &function, 1, 32, 0, &[], vec![1]) })?;
        again(|| unsafe { graph.set_kernel(node, &function, 2, 32, 0, &[], vec![2]) })?;
        graph.kernel(node).map(|kernel| assert_eq!(kernel.grid.x, 2))
    }),
    ("nodes that launch as a configuration says", || {
        let (module, mut graph) = (Module::load_from_bytes(NOTHING)?, graph()?);
        let function = module.get_function(c"nothing")?;
        let config = LaunchConfig::new(2, 32).cluster(2).priority(-1);
        let node = add(&mut graph, |graph| unsafe {
            graph.add_kernel_configured(&[], &function, &config, &[], vec![1])
        })?;
        let config = config.cooperative(true);
        again(|| unsafe { graph.set_kernel_configured(node, &function, &config, &[], vec![2]) })
    }),
    ("nodes that copy and fill", || {
        let (mut buffer, mut graph) = (DeviceBuffer::from_slice(&[1u32, 2])?, graph()?);
        let at = buffer.as_device_ptr().as_raw() as u64;
        let copy = CopyParams::bytes(Place::Device(at), Place::Device(at + 4), 4);
        let fill = FillParams::elements(at, 7, 4, 2);
        let copies = add(&mut graph, |graph| unsafe { graph.add_copy(&[], &copy, vec![1]) })?;
        let fills = add(&mut graph, |graph| unsafe { graph.add_fill(&[], &fill, vec![2]) })?;
        again(|| unsafe { graph.set_copy(copies, &copy, vec![3]) })?;
        again(|| unsafe { graph.set_fill(fills, &fill, vec![4]) })?;
        assert_eq!((graph.copy(copies)?, graph.fill(fills)?), (copy, fill));
        Ok(())
    }),
    ("nodes with events", || {
        let (mut graph, event, other) = (graph()?, event()?, event()?);
        let records = graph.add_event_record(&[], &event)?;
        let waits = graph.add_event_wait(&[records], &event)?;
        for node in [records, waits] {
            again(|| graph.set_event(node, &other))?;
            assert_eq!(graph.event(node)?, other.as_raw());
        }
        again(|| graph.set_event(waits, &event))
    }),
    ("edges", || {
        let mut graph = graph()?;
        let (first, second) = (graph.add_empty(&[])?, graph.add_empty(&[])?);
        let edges = [(first, second, EdgeData::default())];
        change(&mut graph, |graph| graph.add_edges(&edges))?;
        assert_eq!(graph.edges()?, edges);
        assert_eq!(graph.root_nodes()?, [first]);
        assert_eq!(graph.dependencies(second)?, [(first, EdgeData::default())]);
        assert_eq!(graph.dependents(first)?, [(second, EdgeData::default())]);
        change(&mut graph, |graph| graph.remove_edges(&edges))?;
        graph.root_nodes().map(|roots| assert_eq!(roots.len(), 2))
    }),
    ("a graph that is made executable and uploaded", || {
        let (stream, mut graph) = (stream()?, graph()?);
        graph.add_host_func(&[], || {})?;
        let mut exec = again(|| graph.instantiate_and_upload(InstantiateFlags::empty(), &stream))?;
        exec.launch(&stream)?;
        stream.synchronize()
    }),
    ("an executable whose launches are changed", || {
        let (module, mut graph) = (Module::load_from_bytes(NOTHING)?, graph()?);
        let function = module.get_function(c"nothing")?;
        let node = unsafe { graph.add_kernel(&[], &function, 1, 32, 0, &[], ()) }?;
        let mut exec = graph.instantiate(InstantiateFlags::empty())?;
        again(|| unsafe { exec.set_kernel(&mut graph, node, &function, 2, 32, 0, &[], vec![1]) })?;
        again(|| exec.set_enabled(&mut graph, node, false))?;
        assert!(!exec.is_enabled(&mut graph, node)?);
        let stream = stream()?;
        exec.launch(&stream)?;
        stream.synchronize()
    }),
    ("an executable whose copies and fills are changed", || {
        let (mut buffer, mut graph) = (DeviceBuffer::from_slice(&[1u32, 2])?, graph()?);
        let at = buffer.as_device_ptr().as_raw() as u64;
        let copy = CopyParams::bytes(Place::Device(at), Place::Device(at + 4), 4);
        let fill = FillParams::elements(at, 7, 4, 2);
        let copies = unsafe { graph.add_copy(&[], &copy, ()) }?;
        let fills = unsafe { graph.add_fill(&[copies], &fill, ()) }?;
        let mut exec = graph.instantiate(InstantiateFlags::empty())?;
        again(|| unsafe { exec.set_copy(&mut graph, copies, &copy, vec![1]) })?;
        again(|| unsafe { exec.set_fill(&mut graph, fills, &fill, vec![2]) })
    }),
    ("an executable whose events are changed", || {
        let (mut graph, event, other) = (graph()?, event()?, event()?);
        let records = graph.add_event_record(&[], &event)?;
        let waits = graph.add_event_wait(&[records], &event)?;
        let mut exec = graph.instantiate(InstantiateFlags::empty())?;
        again(|| exec.set_event(&mut graph, records, &other))?;
        again(|| exec.set_event(&mut graph, waits, &other))
    }),
    ("an executable that is dropped by hand", || {
        let mut graph = graph()?;
        let exec = graph.instantiate(InstantiateFlags::empty())?;
        GraphExec::drop(exec).map_err(|(error, _)| error)?;
        Graph::drop(graph).map_err(|(error, _)| error)
    }),
];
