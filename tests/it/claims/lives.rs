//! No life of anything costs memory for ever: what custack and the simulated driver keep after many lives is what they keep
//! after a few.

use crate::claims::cost::counting_bytes;
use crate::harness::{device, is_simulated, other, parked, pushed, run_alone, skip, start, times};
use crate::library::CODE;
use crate::module::KERNELS;
use custack::context::{ContextStack, CurrentContext, GreenContext, PrimaryContext, wait_until_retired};
use custack::driver::instrument::{self, When};
use custack::event::{Event, EventFlags};
use custack::graph::{Graph, InstantiateFlags};
use custack::library::Library;
use custack::memory::{
    CopyDestination, DeviceBox, DeviceBuffer, LockedBuffer, MemoryPool, PoolProperties, UnifiedBuffer,
};
use custack::module::JitOptions;
use custack::sim;
use custack::stream::{CaptureMode, Stream, StreamFlags};
use std::mem;

/// One life of something, in a context of its own that outlives it and is not current, beside a share of the primary one.
struct World {
    context: custack::context::Context,
    other: custack::context::Context,
    stream: Stream,
}

type Life = (&'static str, fn(&World));

/// What needs no compiler: a million lives of each take seconds.
const LIVES: &[Life] = &[
    ("context", |_| drop(parked())),
    ("context that is current", |_| drop(pushed())),
    ("context whose handle is kept by a guard", |_| {
        let context = parked();
        let handle = context.get_unowned();
        let guard = handle.enter().unwrap();
        drop(context);
        drop(guard);
    }),
    ("context that memory keeps", |_| {
        let context = parked();
        let buffer = context.device_buffer(&[1u8]).unwrap();
        drop(context);
        drop(buffer);
    }),
    ("context that other code left current", |_| {
        let context = parked();
        other::push(context.as_raw());
        drop(context);
        while other::pop().is_ok() {}
    }),
    ("share of a primary context", |_| {
        drop(PrimaryContext::retain(custack::device::Device::get_device(1).unwrap()).unwrap())
    }),
    ("one of several shares", |_| drop(PrimaryContext::retain(device()).unwrap())),
    ("green context", |_| drop(green())),
    ("green context with a stream", |_| {
        let mut green = green();
        let stream = green.create_stream(None).unwrap();
        drop(green.enter().unwrap());
        drop(green);
        drop(stream);
    }),
    ("green context that is left current", |_| {
        let mut green = green();
        let handle = green.handle().clone();
        let guard = green.enter().unwrap();
        let by_handle = handle.enter().unwrap();
        drop(guard);
        drop(green);
        drop(by_handle);
    }),
    ("stream", |world| drop(world.context.create_stream(StreamFlags::NON_BLOCKING, None).unwrap())),
    ("event", |world| {
        let event = world.context.create_event(EventFlags::DISABLE_TIMING).unwrap();
        event.record(&world.stream).unwrap();
        event.synchronize().unwrap();
        world.stream.synchronize().unwrap();
    }),
    ("buffer", |world| {
        let buffer = world.context.device_buffer(&[1u32, 2]).unwrap();
        let mut back = [0; 2];
        buffer.copy_to(&mut back).unwrap();
    }),
    ("box", |world| drop(world.context.scoped(|_| DeviceBox::new(&1u32)).unwrap())),
    ("managed buffer", |world| drop(world.context.scoped(|_| UnifiedBuffer::from_slice(&[1u32])).unwrap())),
    ("page-locked buffer", |world| {
        drop(world.context.scoped(|_| LockedBuffer::from_slice(&[1u32])).unwrap())
    }),
    ("buffer in the order of a stream", |world| {
        drop(DeviceBuffer::from_slice_in(&[1u32], &world.stream).unwrap());
        world.stream.synchronize().unwrap();
    }),
    ("stream with memory", |world| {
        let stream = world.context.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let buffer = DeviceBuffer::from_slice_in(&[1u32], &stream).unwrap();
        drop(stream);
        drop(buffer);
    }),
    ("pool", |world| {
        let pool = MemoryPool::new(device(), &PoolProperties::new()).unwrap();
        drop(DeviceBuffer::from_slice_in(&[1u32], (&pool, &world.stream)).unwrap());
    }),
    ("graph", |world| drop(Graph::new(&world.context).unwrap())),
    ("guard", |world| {
        let outer = world.context.enter().unwrap();
        let inner = world.other.enter().unwrap();
        drop(outer);
        drop(inner);
    }),
    ("pushed context", |world| {
        ContextStack::push(&world.context).unwrap();
        CurrentContext::set_current(&world.other).unwrap();
        ContextStack::pop().unwrap();
    }),
    ("failure", |world| {
        instrument::fail(Some("cuCtxPushCurrent_v2"), 1, 719, When::Before);
        world.context.enter().unwrap_err();
        ContextStack::pop().unwrap_err();
    }),
];

/// What takes a thread, or more of one.
const SLOW: &[Life] = &[
    ("module", |world| {
        drop(world.context.load_module(b".version 7.0\n.target sm_70\n.address_size 64\n").unwrap())
    }),
    ("module with kernels", |world| {
        let module = world.context.load_module(KERNELS.as_bytes()).unwrap();
        let _ = module.get_function(c"sum").map(drop);
    }),
    ("library", |world| {
        let library = Library::load(CODE.as_bytes(), &JitOptions::default()).unwrap();
        world.context.scoped(|_| library.kernel_count()).unwrap();
    }),
    ("function that a stream calls", |world| {
        world.stream.launch_host_func(|| {}).unwrap();
        world.stream.synchronize().unwrap();
    }),
    ("stream dropped in such a function", |world| {
        let stream = world.context.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        world.stream.launch_host_func(move || drop(stream)).unwrap();
        world.stream.synchronize().unwrap();
        wait_until_retired().unwrap();
    }),
    ("graph of a context that is dropped", |_| {
        let context = parked();
        let mut graph = Graph::new(&context).unwrap();
        let executable = graph.instantiate(InstantiateFlags::empty()).unwrap();
        drop((context, graph, executable));
    }),
    ("capture and executable", |world| {
        let mut stream = world.context.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let captured = stream.capture(CaptureMode::Relaxed, |capture| capture.launch_host_func(|| {}));
        let mut executable = captured.unwrap().instantiate(InstantiateFlags::empty()).unwrap();
        executable.launch(&stream).unwrap();
        stream.synchronize().unwrap();
    }),
    ("thread", |world| {
        let context = world.context.get_unowned();
        let ends = move || {
            CurrentContext::set_current(&context).unwrap();
            Event::new(EventFlags::DISABLE_TIMING).map(drop).unwrap();
        };
        std::thread::spawn(ends).join().unwrap();
    }),
    ("thread that ends in a green context", |_| {
        let mut green = green();
        let ends = move || {
            mem::forget(green.enter().unwrap());
            green
        };
        let mut green = std::thread::spawn(ends).join().unwrap();
        drop(green.enter().unwrap());
    }),
];

fn green() -> GreenContext {
    let part = device().sm_resource().unwrap();
    GreenContext::new(&part).unwrap()
}

/// Lives some of each, then `count` more, and compares what is in use.
fn live(lives: &[Life], count: usize) {
    start();
    if !is_simulated() {
        return skip("lives", "a GPU's driver takes a large part of a second for each context");
    }
    for reuses in [true, false] {
        run_alone(|| {
            sim::reuse_handles(reuses);
            let context = parked();
            let stream = context.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
            let world = World { other: parked(), stream, context };
            let share = PrimaryContext::retain(device()).unwrap();
            for (name, life) in lives {
                counting_bytes(|in_use| {
                    (0..count.div_ceil(4).max(100)).for_each(|_| life(&world));
                    wait_until_retired().unwrap();
                    let before = in_use();
                    (0..count).for_each(|_| life(&world));
                    wait_until_retired().unwrap();
                    let more = in_use() - before;
                    // A little more or less is what is on its way between threads at that moment.
                    let most = count as i64 + 1024;
                    assert!(more < most, "{more} bytes are left of {count} lives: {name}, {reuses}");
                });
            }
            drop(share);
            sim::reuse_handles(false);
        });
    }
}

#[test]
fn no_life_of_anything_leaves_memory_in_use() {
    live(LIVES, times(100, 500));
    live(SLOW, times(20, 40));
}

#[test]
#[ignore = "takes minutes: a million lives of each"]
fn a_million_lives_of_anything_leave_no_memory_in_use() {
    live(LIVES, 1_000_000);
    live(SLOW, 10_000);
}
