//! What the rest of custack does while a stream captures: a call works or is refused, and breaks no capture.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{MODES, something, stream};
use crate::harness::{device, parked, pushed, run_alone};
use custack::context::{Context, ContextFlags, ContextStack, CurrentContext, PrimaryContext, UnownedContext};
use custack::error::{CudaError, CudaResult};
use custack::event::{Event, EventFlags};
use custack::function::{FunctionAttribute, LaunchConfig, SettableAttribute};
use custack::graph::{DotFlags, FillParams, Graph, GraphExec, InstantiateFlags, Node};
use custack::launch;
use custack::library::Library;
use custack::memory::*;
use custack::module::{JitOptions, LinkInput, Linker, LoadingMode, Module};
use custack::stream::{
    BorrowedStream, CaptureMode, CaptureStatus, PerThreadStream, Stream, SynchronizationPolicy,
};
use std::sync::Mutex;

/// What the calls use, made before the capture.
struct Scene {
    context: UnownedContext,
    streams: [Stream; 2],
    events: [Event; 2],
    buffer: DeviceBuffer<u32>,
    ordered: DeviceBuffer<u32>,
    rows: PitchedBuffer<u32>,
    locked: LockedBuffer<u32>,
    module: Module,
    library: Library,
    pool: MemoryPool,
    graph: Graph,
    node: Node,
    exec: GraphExec,
}

impl Scene {
    fn new(context: &UnownedContext) -> Scene {
        let streams = [stream(), stream()];
        let event = || Event::new(EventFlags::DEFAULT).unwrap();
        let ordered = DeviceBuffer::from_slice_in(&[1; 4], &streams[0]).unwrap();
        let mut graph = Graph::new(context).unwrap();
        let node = graph.add_host_func(&[], || {}).unwrap();
        let exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        let scene = Scene {
            context: context.clone(),
            events: [event(), event()],
            buffer: DeviceBuffer::from_slice(&[1; 4]).unwrap(),
            ordered,
            rows: PitchedBuffer::from_slice(&[1; 4], 2).unwrap(),
            locked: LockedBuffer::new(&1, 4).unwrap(),
            module: Module::load_from_bytes(crate::module::KERNELS.as_bytes()).unwrap(),
            library: Library::load(crate::module::KERNELS.as_bytes(), &JitOptions::new()).unwrap(),
            pool: MemoryPool::new(device(), &PoolProperties::new()).unwrap(),
            graph,
            node,
            exec,
            streams,
        };
        scene.events.iter().for_each(|event| event.record(&scene.streams[0]).unwrap());
        scene.streams.iter().for_each(|stream| stream.synchronize().unwrap());
        scene
    }
}

type Call = fn(&mut Scene) -> CudaResult<()>;

/// Calls on nothing that captures, which another test does not make.
const CALLS: [(&str, Call); 44] = [
    ("fork", |s| s.streams[0].fork([&s.streams[1]])),
    ("join", |s| s.streams[0].join([&s.streams[1]])),
    ("shut down", |_| stream().shutdown().map_err(|(error, _)| error)),
    ("scope", |s| s.streams[0].sync_scope(|scope| scope.launch_host_func(|| {}))),
    ("copy in a scope", |s| {
        let mut back = [0; 4];
        s.streams[1].sync_scope(|scope| scope.copy_to(&*s.buffer, &mut back))
    }),
    ("host function", |s| s.streams[0].launch_host_func(|| {})),
    ("borrow", |s| unsafe { BorrowedStream::from_raw(s.streams[0].as_raw()) }.map(drop)),
    ("per thread", |s| PerThreadStream::of(&s.context).launch_host_func(|| {})),
    ("policy", |s| s.streams[0].set_synchronization_policy(SynchronizationPolicy::Auto)),
    ("attributes", |s| s.streams[1].copy_attributes(&s.streams[0])),
    ("time", |s| s.events[1].elapsed_time(&s.events[0]).map(drop)),
    ("event for others", |_| {
        Event::new(EventFlags::INTERPROCESS | EventFlags::DISABLE_TIMING)?.ipc_handle().map(drop)
    }),
    ("ordered memory", |s| DeviceBuffer::from_slice_in(&[1u8], &s.streams[0]).map(drop)),
    ("memory of a pool", |s| DeviceBox::new_in(&1u8, (&s.pool, &s.streams[1])).map(drop)),
    ("also used", |s| s.ordered.also_used_in(&s.streams[1])),
    ("moved", |s| s.ordered.move_to(&s.streams[1])),
    ("copy of ordered", |s| s.ordered.copy_to(&mut [0; 4])),
    ("copy between", |s| s.buffer.copy_from(&s.ordered)),
    ("fill", |s| s.buffer.fill(2)),
    ("copy in a stream", |s| unsafe { s.buffer.async_copy_to(&mut s.locked, &s.streams[0]) }),
    ("rows", |s| s.rows.fill(3).and_then(|()| s.rows.copy_to(&mut [0; 4]))),
    ("new rows", |_| PitchedBuffer::from_slice(&[1u8; 4], 2).map(drop)),
    ("register", |_| RegisteredSlice::scoped(&mut [0u64; 9], RegisterFlags::empty(), |_| Ok(()))),
    ("flags of locked", |s| s.locked.flags().map(drop)),
    ("how much memory", |s| s.context.memory_info().map(drop)),
    ("pool", |_| MemoryPool::new(device(), &PoolProperties::new()).map(drop)),
    ("pool's statistics", |s| s.pool.usage().map(drop)),
    ("pool's settings", |s| {
        s.pool.set_release_threshold(1).and_then(|()| s.pool.grant(device(), PoolAccess::ReadWrite))
    }),
    ("trim", |s| s.pool.trim_to(0)),
    ("memory of graphs", |_| device().graph_memory().map(drop).and_then(|()| device().trim_graph_memory())),
    ("with options", |_| {
        let loaded = Module::load_with_options(crate::module::KERNELS.as_bytes(), &JitOptions::new());
        loaded.map(drop).map_err(|refused| refused.error)
    }),
    ("loading mode", |_| LoadingMode::of_driver().map(drop)),
    ("link", |_| {
        let mut linker = Linker::new(&JitOptions::new())?;
        linker.add(LinkInput::Ptx, crate::module::KERNELS.as_bytes(), c"kernels")?;
        linker.complete().map(drop).map_err(|refused| refused.error)
    }),
    ("library", |_| Library::load(crate::module::KERNELS.as_bytes(), &JitOptions::new()).map(drop)),
    ("kernel", |s| {
        let function = s.library.kernel(c"count_up")?.function_in(&s.context)?;
        let stream = &s.streams[0];
        unsafe { launch!(function<<<1, 1, 0, stream>>>(1u32)) }
    }),
    ("variable", |s| s.module.get_global::<u32>(c"answer")?.copy_to(&mut 0)),
    ("function", |s| {
        let mut function = s.module.get_function(c"count_up")?;
        function.get_attribute(FunctionAttribute::NumRegisters)?;
        function.set(SettableAttribute::MaxDynamicSharedSizeBytes, 64)?;
        function.max_potential_block_size(|_| 0, 0)?;
        let (config, stream) = (LaunchConfig::new(1, 1), &s.streams[0]);
        unsafe { launch!(function<<<config, stream>>>(1u32)) }
    }),
    ("graph", |s| {
        let fill = FillParams::elements(s.buffer.as_ptr() as u64, 1, 4, 4);
        let filled = unsafe { s.graph.add_fill(&[s.node], &fill, ()) }?;
        s.graph.to_dot(DotFlags::empty())?;
        s.graph.try_clone()?;
        s.graph.destroy_node(filled)
    }),
    ("allocating graph", |s| {
        let mut graph = Graph::new(&s.context)?;
        let (allocation, _) = graph.add_allocation(&[], 64)?;
        graph.add_free(&[allocation], allocation).map(drop)
    }),
    ("executable", |s| s.exec.set_host_func(&mut s.graph, s.node, || {})),
    ("update", |s| s.exec.update(&mut s.graph).map_err(|refused| refused.error)),
    ("upload and launch", |s| s.exec.upload(&s.streams[0]).and_then(|()| s.exec.launch(&s.streams[0]))),
    ("primary", |_| PrimaryContext::retain(device())?.stream_priority_range().map(drop)),
    ("context", |_| {
        let made = Context::create_and_push(ContextFlags::SCHED_AUTO, device())?;
        CurrentContext::set_current(&made)?;
        ContextStack::pop()?;
        Context::drop(made).map_err(|(error, _)| error)
    }),
];

/// Makes each call, and says which were refused.
fn make_all(scene: &mut Scene, capturing: &Stream, how: &str) -> Vec<&'static str> {
    let mut refused = Vec::new();
    for (name, call) in CALLS {
        match call(scene) {
            Ok(()) => {}
            Err(CudaError::StreamCaptureUnsupported) => refused.push(name),
            Err(error) => panic!("{name}, {how}: {error}"),
        }
        assert_eq!(capturing.capture_status(), Ok(CaptureStatus::Active), "{name}, {how}");
    }
    refused
}

#[test]
fn no_call_of_custack_breaks_a_capture_on_any_thread() {
    run_alone(|| {
        let ctx = pushed();
        let keep = parked();
        for mode in MODES {
            let scene = Mutex::new(Scene::new(&ctx));
            let mut graph = stream()
                .capture(mode, |capture| {
                    something(capture)?;
                    let capturing: &Stream = capture;
                    let here = make_all(&mut scene.lock().unwrap(), capturing, "on the capturing thread");
                    let there = std::thread::scope(|scope| {
                        let calls = || {
                            let _current = ctx.enter().unwrap();
                            make_all(&mut scene.lock().unwrap(), capturing, "on another thread")
                        };
                        scope.spawn(calls).join().unwrap()
                    });
                    match mode {
                        CaptureMode::Global => assert_eq!(here, there),
                        CaptureMode::ThreadLocal => assert!(here.len() > 1 && there.is_empty(), "{there:?}"),
                        _ => assert!(here.is_empty() && there.is_empty(), "{here:?} {there:?}"),
                    }
                    Ok(())
                })
                .unwrap();
            assert_eq!(graph.nodes().unwrap().len(), 1, "{mode:?}");
            // Everything works again.
            assert!(make_all_again(scene.into_inner().unwrap()).is_empty());
        }
        drop(keep);
    });
}

fn make_all_again(mut scene: Scene) -> Vec<&'static str> {
    let calls = CALLS.iter().filter(|(_, call)| call(&mut scene).is_err());
    calls.map(|(name, _)| *name).collect()
}
