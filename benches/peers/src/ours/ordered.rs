//! Memory in the order of a stream.

use super::LIBRARY;
use crate::measure::Bench;
use crate::tasks::*;
use custack::context::UnownedContext;
use custack::memory::DeviceBuffer;
use custack::stream::{Stream, StreamFlags};
use std::hint::black_box;

pub fn stream(context: &UnownedContext) -> Stream {
    context.create_stream(StreamFlags::NON_BLOCKING, None).unwrap()
}

pub fn bench(context: &'static UnownedContext) -> Bench {
    Bench::new(ORDERED, LIBRARY, move |run| {
        let stream = stream(context);
        // SAFETY: it is never read.
        let buffer = || unsafe { DeviceBuffer::<u8>::uninitialized_in(SIZE, &stream) }.unwrap();
        let _beside = buffer();
        run.time_and_wait(|| drop(black_box(buffer())), || stream.synchronize().unwrap());
    })
}
