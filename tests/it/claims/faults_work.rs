//! The driver fails at every call that streams, events, memory and modules make: nothing is lost, and the stack stays.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::claims::faults::sweep;
use crate::harness::{current, drain, is_simulated, parked, pushed, run_alone};
use crate::module::KERNELS;
use custack::context::{ContextStack, CurrentContext, UnownedContext};
use custack::device::Device;
use custack::driver::instrument::{self, When};
use custack::error::{CudaError, CudaResult};
use custack::event::{Event, EventFlags, EventRecordFlags};
use custack::function::LaunchConfig;
use custack::graph::{Dependencies, DotFlags, EdgeData, FillParams, Graph, InstantiateFlags};
use custack::launch;
use custack::library::Library;
use custack::memory::array::{ArrayFormat, ArrayObject};
use custack::memory::*;
use custack::module::{JitOptions, LinkInput, Linker, Module};
use custack::sim;
use custack::stream::{
    BorrowedStream, CaptureMode, LegacyStream, PerThreadStream, Stream, StreamFlags, StreamWaitEventFlags,
    SynchronizationPolicy,
};
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Code with few calls to sweep over.
const SMALL: &str = ".version 7.0 .target sm_70 .address_size 64 .visible .const .u32 answer = 42;
    .visible .entry takes(.param .u32 one) { ret; }";

type Operation = fn() -> CudaResult<()>;

fn stream() -> CudaResult<Stream> {
    Stream::new(StreamFlags::NON_BLOCKING, None)
}

const OPERATIONS: [(&str, Operation); 33] = [
    ("a stream", || {
        let stream = stream()?;
        stream.add_callback(Box::new(|_| {}))?;
        let _ = (stream.get_flags()?, stream.get_priority()?, stream.id()?, stream.is_done()?);
        stream.synchronize()
    }),
    ("events", || {
        let (stream, start) = (stream()?, Event::new(EventFlags::DEFAULT)?);
        start.record(&stream)?;
        stream.wait_event(&start, StreamWaitEventFlags::DEFAULT)?;
        let end = Event::new(EventFlags::DEFAULT)?;
        end.record(&stream)?;
        end.synchronize()?;
        end.elapsed_time_f32(&start).map(|_| ())
    }),
    ("a host function", || {
        let stream = stream()?;
        stream.launch_host_func(|| {})?;
        stream.synchronize()
    }),
    ("a scope of work that borrows", || {
        let (mut stream, mut there) = (stream()?, DeviceBuffer::from_slice(&[1u32])?);
        let (value, mut seen, mut back) = ([7u32], false, [0u32]);
        stream.sync_scope(|scope| {
            scope.launch_host_func(|| seen = true)?;
            scope.copy_from(&mut there[..], &value[..])
        })?;
        stream.sync_scope(|scope| scope.copy_to(&there[..], &mut back[..]))?;
        assert_eq!((seen, back), (true, [7]));
        Ok(())
    }),
    ("default streams", || {
        let context = CurrentContext::get_current()?;
        for stream in [&*LegacyStream::of(&context), &PerThreadStream::of(&context)] {
            stream.launch_host_func(|| {})?;
            let _ = (stream.get_flags()?, stream.get_priority()?, stream.id()?, stream.is_done()?);
            Event::new(EventFlags::DEFAULT)?.record(stream)?;
            stream.synchronize()?;
        }
        Ok(())
    }),
    ("a borrowed stream", || {
        let stream = stream()?;
        unsafe { BorrowedStream::from_raw(stream.as_raw()) }?.synchronize()
    }),
    ("streams that fork and join", || {
        let (main, other) = (stream()?, stream()?);
        main.fork([&other])?;
        main.join([&other])?;
        main.synchronize()
    }),
    ("attributes of streams", || {
        let (a, b) = (stream()?, stream()?);
        a.set_synchronization_policy(SynchronizationPolicy::Yield)?;
        a.set_priority(-1)?;
        b.copy_attributes(&a)?;
        b.synchronization_policy().map(|_| ())
    }),
    ("events with flags", || {
        let (stream, event) = (stream()?, Event::new(EventFlags::DEFAULT)?);
        event.record_with_flags(&stream, EventRecordFlags::DEFAULT)?;
        event.synchronize()
    }),
    ("events of other processes", || {
        let event = Event::new(EventFlags::INTERPROCESS | EventFlags::DISABLE_TIMING)?;
        event.ipc_handle().map(|_| ())
    }),
    ("a device buffer", || {
        let mut buffer = DeviceBuffer::from_slice(&[1u32, 2, 3])?;
        buffer[0..1].copy_from(&[4])?;
        buffer.copy_to(&mut [0; 3])
    }),
    ("zeroed memory", || unsafe {
        DeviceBuffer::<u64>::zeroed(9).and(DeviceBox::<u8>::zeroed()).map(|_| ())
    }),
    ("memory in stream order", || {
        let (home, other) = (stream()?, stream()?);
        let mut buffer = unsafe { DeviceBuffer::<u32>::zeroed_in(9, &home) }?;
        buffer.also_used_in(&other)?;
        buffer.copy_from(&[7; 9])?;
        buffer.copy_to(&mut [0; 9])?;
        let mut copy = DeviceBuffer::from_slice_in(&[0; 9], &other)?;
        copy.copy_from(&buffer)?;
        copy.move_to(&home)?;
        DeviceBox::new_in(&1u32, &other)?.fill(2)
    }),
    ("a memory pool", || {
        let pool = MemoryPool::new(Device::get_device(0)?, &PoolProperties::new())?;
        pool.set_release_threshold(1 << 20)?;
        pool.set_reuse(PoolReuse::Opportunistic, false)?;
        let buffer = DeviceBuffer::from_slice_in(&[1u8], (&pool, &stream()?))?;
        pool.reset_peaks()?;
        drop(buffer);
        pool.trim_to(0)?;
        pool.grant(pool.device(), PoolAccess::ReadWrite)?;
        let _ = (
            pool.usage()?,
            pool.access(pool.device())?,
            pool.is_current()?,
            pool.reuses(PoolReuse::Opportunistic)?,
        );
        pool.make_current()
    }),
    ("fills", || {
        let (stream, mut buffer) = (stream()?, DeviceBuffer::from_slice(&[1u16, 2])?);
        buffer.fill(7)?;
        unsafe { buffer.async_fill(8, &stream) }?;
        stream.synchronize()
    }),
    ("rows", || {
        let mut rows = PitchedBuffer::from_slice(&[1u32; 6], 3)?;
        rows.fill(2)?;
        let zeros = unsafe { PitchedBuffer::<u32>::zeroed(3, 2) }?;
        rows.copy_part_from((1, 0), &zeros, (0, 0), (2, 2))?;
        rows.copy_to(&mut [0; 6])
    }),
    ("a registered slice", || {
        RegisteredSlice::scoped(&mut [0u64; 9], RegisterFlags::empty(), |slice| {
            slice.as_device_ptr().map(|_| ())
        })
    }),
    ("locked memory with flags", || unsafe {
        let mut buffer = LockedBuffer::<u8>::uninitialized_with(9, LockedFlags::PORTABLE)?;
        buffer.as_device_ptr().and(buffer.flags()).map(|_| ())
    }),
    ("a device box", || {
        let mut copy = DeviceBox::new(&1u64)?;
        copy.copy_from(&DeviceBox::new(&2)?)
    }),
    ("a unified buffer", || UnifiedBuffer::from_slice(&[1u8, 2]).map(|buffer| assert_eq!(buffer[1], 2))),
    ("a unified box", || UnifiedBox::new(7).map(|seven| assert_eq!(*seven, 7))),
    ("a locked buffer", || LockedBuffer::new(&1u8, 3).map(|buffer| assert_eq!(buffer.len(), 3))),
    ("an array", || ArrayObject::new_1d(4, ArrayFormat::Float, 1)?.descriptor().map(|_| ())),
    ("a module", || {
        let module = Module::load_from_bytes(KERNELS.as_bytes())?;
        let stream = stream()?;
        let mut answer = 0u32;
        module.get_global::<u32>(c"answer")?.copy_to(&mut answer)?;
        let mut number = DeviceBuffer::from_slice(&[27u32])?;
        let pointer = number.as_device_ptr();
        unsafe { launch!(module.collatz<<<1, 1, 0, stream>>>(pointer, 1u32)) }?;
        stream.synchronize()
    }),
    ("a graph that is captured", || {
        let (mut stream, mut other) = (stream()?, stream()?);
        let mut graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
            capture.keep(vec![1, 2, 3])?;
            capture.launch_host_func(|| {})?;
            let after = capture.dependencies()?;
            capture.update_dependencies(Dependencies::Set, &after)?;
            capture.fork(&mut other, |other| other.launch_host_func(|| {}))?;
            assert_eq!(capture.synchronize(), Err(CudaError::StreamCaptureUnsupported));
            Ok(())
        })?;
        let _ = (stream.capture_status()?, stream.capture_id()?);
        let mut exec = graph.instantiate(InstantiateFlags::empty())?;
        exec.launch(&stream)?;
        stream.synchronize()
    }),
    ("a graph that is captured into", || {
        let mut stream = stream()?;
        let mut graph = Graph::new(stream.context())?;
        let first = graph.add_empty(&[])?;
        stream.capture_into(
            &mut graph,
            &[(first, EdgeData::default())],
            CaptureMode::ThreadLocal,
            |capture| capture.launch_host_func(|| {}),
        )?;
        graph.nodes().map(|nodes| assert_eq!(nodes.len(), 2))
    }),
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
    ("an executable that is changed", || {
        let context = stream()?.context().clone();
        let mut graph = Graph::new(&context)?;
        let node = graph.add_host_func(&[], || {})?;
        let mut exec = graph.instantiate(InstantiateFlags::AUTO_FREE_ON_LAUNCH)?;
        exec.set_host_func(&mut graph, node, || {})?;
        exec.flags()?;
        exec.update(&mut graph).map_err(|refused| refused.error)
    }),
    ("a module with options", || {
        let options = JitOptions::new().max_registers(64);
        let module = Module::load_with_options(SMALL.as_bytes(), &options);
        let module = module.map_err(|refused| refused.error)?.0;
        let functions = module.functions()?;
        functions[0].parameters().map(|_| ())
    }),
    ("a linker", || {
        let mut linker = Linker::new(&JitOptions::new())?;
        linker.add(LinkInput::Ptx, SMALL.as_bytes(), c"kernels")?;
        linker.complete().map(|_| ()).map_err(|refused| refused.error)
    }),
    ("a library", || {
        let library = Library::load(SMALL.as_bytes(), &JitOptions::new())?;
        let (context, stream) = (CurrentContext::get_current()?, stream()?);
        let kernels = library.kernels()?;
        assert_eq!(kernels.len(), library.kernel_count()? as usize);
        let function = library.kernel(c"takes")?.function_in(&context)?;
        unsafe { launch!(function<<<1, 1, 0, stream>>>(1u32)) }?;
        let mut answer = 0u32;
        library.global_in::<u32>(&context, c"answer")?.copy_to(&mut answer)?;
        stream.synchronize()
    }),
    ("a launch with a configuration", || {
        let module = Module::load_from_bytes(SMALL.as_bytes())?;
        let (function, stream) = (module.get_function(c"takes")?, stream()?);
        let best = function.max_potential_block_size(|_| 0, 0)?;
        function.available_dynamic_shared_bytes(1, best.block_size)?;
        let config = LaunchConfig::new(2, 32).priority(-1);
        unsafe { launch!(function<<<config, stream>>>(1u32)) }?;
        stream.synchronize()
    }),
];

/// Waits a moment, and tells whether what is left changed in it.
fn settled_differs(seen: &mut (usize, usize), left: impl Fn() -> (usize, usize)) -> bool {
    std::thread::sleep(Duration::from_millis(20));
    std::mem::replace(seen, left()) != *seen
}

#[test]
fn nothing_is_lost_where_the_driver_fails() {
    run_alone(|| {
        let (_below, ctx) = (parked(), pushed());
        for (name, operation) in OPERATIONS {
            let left = || if is_simulated() { (sim::objects(), sim::allocations()) } else { (0, 0) };
            // What a launch uses goes some time after the launch is over.
            let settled = |expected: (usize, usize)| {
                let begun = Instant::now();
                while left() != expected && begun.elapsed().as_secs() < 1 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                left()
            };
            operation().unwrap();
            // What the first time used goes some time after it, too.
            let mut seen = left();
            while settled_differs(&mut seen, left) {}
            let before = Cell::new(seen);
            sweep(operation, |result, error, fault| {
                assert!(result == Ok(()) || result == Err(error), "{name}, {fault}: {result:?}");
                assert_eq!((current(), ContextStack::depth()), (ctx.as_raw(), 1), "{name}, {fault}");
                // A driver that says "gone" is believed; a destructor whose own call fails reports, and its context
                // takes along what it could not destroy.
                let said_gone = matches!(error, CudaError::InvalidContext | CudaError::ContextIsDestroyed);
                let not_done = fault.contains("Before") && result == Ok(());
                if !said_gone && !not_done {
                    assert_eq!(settled(before.get()), before.get(), "{name}, {fault}: {result:?}");
                }
                if said_gone || not_done {
                    std::thread::sleep(Duration::from_millis(if name.contains("graph") { 5 } else { 0 }));
                    before.set(left());
                }
                assert_eq!(operation(), Ok(()), "{name} again after {fault}");
                // What went with that fault may be gone only now.
                let (now, most) = (settled(before.get()), before.replace(left()));
                assert!(now.0 <= most.0 && now.1 <= most.1, "{name} again after {fault}: {now:?}, {most:?}");
            });
        }
        drain();
    });
}

type Making = fn(&UnownedContext) -> CudaResult<()>;

/// What can be made in a context that need not be current.
const MADE: [(&str, Making); 11] = [
    ("a stream", |ctx| ctx.create_stream(StreamFlags::NON_BLOCKING, None).map(|_| ())),
    ("an event", |ctx| ctx.create_event(EventFlags::DEFAULT).map(|_| ())),
    ("a module", |ctx| ctx.load_module(KERNELS.as_bytes()).map(|_| ())),
    ("a device buffer", |ctx| ctx.device_buffer(&[1u8]).map(|_| ())),
    ("an uninitialised one", |ctx| unsafe { ctx.device_buffer_uninitialized::<u32>(4) }.map(|_| ())),
    ("a device box", |ctx| ctx.device_box(&1u8).map(|_| ())),
    ("a unified buffer", |ctx| ctx.unified_buffer(&[1u8]).map(|_| ())),
    ("a unified box", |ctx| ctx.unified_box(1u8).map(|_| ())),
    ("a locked buffer", |ctx| ctx.locked_buffer(&1u8, 3).map(|_| ())),
    ("how much memory", |ctx| ctx.memory_info().map(|_| ())),
    ("an array", |ctx| ctx.scoped(|_| ArrayObject::new_1d(4, ArrayFormat::Float, 1).map(|_| ()))),
];

#[test]
fn what_is_made_in_a_context_leaves_the_stack_as_it_was_whatever_fails() {
    run_alone(|| {
        let (ctx, base) = (parked(), pushed());
        let left = || if is_simulated() { (sim::objects(), sim::allocations()) } else { (0, 0) };
        for (name, make) in MADE {
            make(&ctx).unwrap();
            let before = Cell::new(left());
            sweep(
                || make(&ctx),
                |result, error, fault| {
                    assert!(result == Ok(()) || result == Err(error), "{name}, {fault}: {result:?}");
                    assert_eq!((current(), ContextStack::depth()), (base.as_raw(), 1), "{name}, {fault}");
                    // As in the test above.
                    let said_gone =
                        matches!(error, CudaError::InvalidContext | CudaError::ContextIsDestroyed);
                    let not_done = fault.contains("Before") && result == Ok(());
                    if !said_gone && !not_done {
                        assert_eq!(left(), before.get(), "{name}, {fault}: {result:?}");
                    }
                    before.set(left());
                    assert_eq!(make(&ctx), Ok(()), "{name} again after {fault}");
                    assert_eq!(left(), before.get(), "{name} again after {fault}");
                },
            );
        }
        let handle = ctx.get_unowned();
        drop(ctx);
        for (name, make) in MADE {
            let (refused, calls) = instrument::during(|| make(&handle));
            assert_eq!((refused, calls.total()), (Err(CudaError::ContextIsDestroyed), 0), "{name}");
        }
        drain();
    });
}

#[test]
fn the_last_memory_destroys_its_context_also_where_a_call_fails() {
    run_alone(|| {
        for nth in 1..=8 {
            let ctx = pushed();
            let buffer = DeviceBuffer::from_slice(&[1u32]).unwrap();
            drop(ctx);
            let before = instrument::contexts_alive();
            instrument::fail(None, nth, 1, When::Before);
            drop(buffer);
            instrument::disarm();
            assert_eq!(instrument::contexts_alive(), before - 1, "at call {nth}");
        }
    });
}
