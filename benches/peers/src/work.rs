//! Tasks on what is made in a context: the same source for RustaCUDA and custack, which share their names;
//! `super::library` is one or the other.

use super::LIBRARY;
use super::library::context::{ContextStack, UnownedContext};
use super::library::event::{Event, EventFlags, EventStatus};
use super::library::launch;
use super::library::memory::{AsyncCopyDestination, DeviceBuffer, LockedBuffer};
use super::library::module::Module;
use super::library::stream::{Stream, StreamFlags};
use crate::measure::{Bench, Run};
use crate::tasks::*;
use std::hint::black_box;

type Task = (&'static str, fn(&Run));

fn stream() -> Stream {
    Stream::new(StreamFlags::NON_BLOCKING, None).unwrap()
}

fn event() -> Event {
    Event::new(EventFlags::DISABLE_TIMING).unwrap()
}

fn module() -> Module {
    Module::load_from_string(EMPTY_KERNEL).unwrap()
}

fn buffer() -> DeviceBuffer<u8> {
    // SAFETY: the buffer is never read.
    unsafe { DeviceBuffer::uninitialized(SIZE) }.unwrap()
}

pub fn benches(context: &'static UnownedContext) -> Vec<Bench> {
    let tasks: [Task; 9] = [
        (LAUNCH, |run| {
            let (module, stream) = (module(), stream());
            let empty = module.get_function(c"empty").unwrap();
            run.time(|| {
                // SAFETY: the kernel takes these arguments and does nothing.
                unsafe { launch!(empty<<<1, 32, 0, stream>>>(0u64, 1u32)) }.unwrap();
            });
            stream.synchronize().unwrap();
        }),
        (RECORD, |run| {
            let (stream, event) = (stream(), event());
            run.time_and_wait(|| event.record(&stream).unwrap(), || stream.synchronize().unwrap());
        }),
        (PASSED, |run| {
            let (stream, event) = (stream(), event());
            event.record(&stream).unwrap();
            stream.synchronize().unwrap();
            run.time(|| assert_eq!(event.query().unwrap(), EventStatus::Ready));
        }),
        (IDLE, |run| {
            let stream = stream();
            run.time(|| stream.synchronize().unwrap());
        }),
        (STREAM, |run| {
            let _beside = stream();
            run.time(|| drop(black_box(stream())));
        }),
        (FUNCTION, |run| {
            let module = module();
            run.time(|| {
                black_box(module.get_function(c"empty").unwrap());
            });
        }),
        (LAUNCH_NAMED, |run| {
            let (module, stream) = (module(), stream());
            run.time_and_wait(
                // SAFETY: the kernel takes these arguments and does nothing.
                || unsafe { launch!(module.empty<<<1, 32, 0, stream>>>(0u64, 1u32)) }.unwrap(),
                || stream.synchronize().unwrap(),
            );
        }),
        (COPY, |run| {
            let (stream, mut to) = (stream(), buffer());
            let from = LockedBuffer::new(&1, SIZE).unwrap();
            run.time_and_wait(
                // SAFETY: both sides live, and nothing else reads or writes them.
                || unsafe { to.async_copy_from(&from, &stream) }.unwrap(),
                || stream.synchronize().unwrap(),
            );
        }),
        (BUFFER, |run| {
            // The driver maps memory in larger pieces; this keeps one mapped.
            let _beside = buffer();
            run.time(|| drop(black_box(buffer())));
        }),
    ];
    let in_context = |(task, work): Task| {
        Bench::new(task, LIBRARY, move |run| {
            ContextStack::push(context).unwrap();
            work(run);
            ContextStack::pop().unwrap();
        })
    };
    tasks.map(in_context).into()
}
