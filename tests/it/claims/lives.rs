//! No life of anything costs memory for ever: what custack and the simulated driver keep after many lives is what they keep
//! after a few.

use crate::claims::cost::counting_bytes;
use crate::future::block_on;
use crate::harness::{device, is_simulated, other, parked, pushed, run_alone, settle, skip, start, times};
use crate::library::CODE;
use crate::module::KERNELS;
use custack::context::{ContextStack, CurrentContext, GreenContext, PrimaryContext, wait_until_retired};
use custack::driver::instrument::{self, When};
use custack::event::{Event, EventFlags};
use custack::future::InContextExt;
use custack::graph::{Graph, InstantiateFlags};
use custack::library::Library;
use custack::memory::array::{ArrayDescriptor, ArrayFormat, ArrayObject, ArrayObjectFlags};
use custack::memory::{
    CopyDestination, DeviceBox, DeviceBuffer, LockedBuffer, MemoryPool, PoolProperties, RegisterFlags,
    UnifiedBuffer,
};
use custack::module::JitOptions;
use custack::sim;
use custack::stream::{CaptureMode, Stream, StreamFlags};
use custack::texture::{Surface, Texture, TextureDescriptor};
use std::mem;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

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
    ("array", |world| drop(array(world, ArrayObjectFlags::empty()))),
    ("texture of an array", |world| {
        let array = array(world, ArrayObjectFlags::empty());
        drop(Texture::new(array, &TextureDescriptor::new()).unwrap());
    }),
    ("texture of memory", |world| {
        let buffer = world.context.device_buffer(&[1u32, 2]).unwrap();
        drop(Texture::of_buffer(buffer, &TextureDescriptor::new()).unwrap());
    }),
    ("surface", |world| drop(Surface::new(array(world, ArrayObjectFlags::SURFACE_LDST)).unwrap())),
    ("memory in rows", |world| drop(world.context.pitched_buffer(&[1u32, 2], 1).unwrap())),
    ("memory of the program", |world| {
        let registered = world.context.registered(&mut [0u32; 8], RegisterFlags::empty(), |_| Ok(()));
        registered.unwrap();
    }),
    ("graph", |world| drop(Graph::new(&world.context).unwrap())),
    ("graph with memory", |world| {
        let mut graph = Graph::new(&world.context).unwrap();
        let (allocation, _) = graph.add_allocation(&[], 4096).unwrap();
        graph.add_free(&[allocation], allocation).unwrap();
    }),
    ("graph in another", |world| {
        let (mut outer, mut inner) =
            (Graph::new(&world.context).unwrap(), Graph::new(&world.context).unwrap());
        inner.add_empty(&[]).unwrap();
        outer.add_child(&[], &mut inner).unwrap();
    }),
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
    ("launch with memory of its own", |world| {
        let mut graph = Graph::new(&world.context).unwrap();
        let (allocation, _) = graph.add_allocation(&[], 4096).unwrap();
        graph.add_free(&[allocation], allocation).unwrap();
        let mut executable = world.context.scoped(|_| graph.instantiate(InstantiateFlags::empty())).unwrap();
        executable.launch(&world.stream).unwrap();
        world.stream.synchronize().unwrap();
    }),
    ("future", |world| block_on(world.stream.completion().unwrap()).unwrap()),
    ("future that spins", |world| {
        block_on(world.stream.synchronize_async().spinning_for(Duration::from_millis(1))).unwrap();
    }),
    ("future that is dropped early", |world| {
        let (go, wait) = channel::<()>();
        world.stream.launch_host_func(move || assert!(wait.recv().is_err())).unwrap();
        let buffer = world.context.device_buffer(&[1u8]).unwrap();
        let completion = world.stream.enqueue_async(|_| Ok(buffer)).unwrap();
        drop((completion, go));
        wait_until_retired().unwrap();
    }),
    ("future of an event", |world| {
        let event = world.context.create_event(EventFlags::DISABLE_TIMING).unwrap();
        event.record(&world.stream).unwrap();
        block_on(event.completion().unwrap()).unwrap();
    }),
    ("future in a context that is dropped", |_| {
        let context = parked();
        let task = async { Stream::new(StreamFlags::NON_BLOCKING, None)?.completion()?.await };
        block_on(task.in_context(&context)).unwrap().unwrap();
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

fn descriptor(flags: ArrayObjectFlags) -> ArrayDescriptor {
    ArrayDescriptor::new([4, 4, 0], ArrayFormat::Float, 1, flags)
}

fn array(world: &World, flags: ArrayObjectFlags) -> ArrayObject {
    world.context.create_array(&descriptor(flags)).unwrap()
}

fn green() -> GreenContext {
    let part = device().sm_resource().unwrap();
    GreenContext::new(&part).unwrap()
}

/// Lives some of each, then `count` more, and compares what is in use.
fn live(lives: &[Life], count: usize) {
    start();
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
                    settle();
                    let (before, begun) = (in_use(), Instant::now());
                    (0..count).for_each(|_| life(&world));
                    let each = begun.elapsed() / count as u32;
                    // A thread of the driver lets go of what a launch used.
                    settle();
                    let more = in_use() - before;
                    println!("{name}, handles come again: {reuses}: {more} bytes, {each:?} a life");
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
    if !is_simulated() {
        return skip(
            "no_life_of_anything_leaves_memory_in_use",
            "a GPU's driver takes a large part of a second for each context",
        );
    }
    live(LIVES, times(100, 500));
    live(SLOW, times(20, 40));
}

#[test]
#[ignore = "takes an hour: a million lives of each; its output has the figures"]
fn a_million_lives_of_anything_leave_no_memory_in_use() {
    live(LIVES, 1_000_000);
    live(SLOW, 10_000);
}
