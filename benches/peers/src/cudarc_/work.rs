//! Tasks on what is made in a context. cudarc's memory tracks its uses: a copy waits for the memory's events and
//! records them, and a buffer has two of its own and is allocated in stream order where the device supports that.

use super::{LIBRARY, unbind};
use crate::measure::{Bench, Run};
use crate::tasks::*;
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaContext, CudaFunction, CudaModule, CudaStream, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use std::hint::black_box;
use std::sync::Arc;

type Task = (&'static str, fn(&Arc<CudaContext>, &Run));

fn module(context: &Arc<CudaContext>) -> Arc<CudaModule> {
    context.load_module(Ptx::from_src(EMPTY_KERNEL.to_str().unwrap())).unwrap()
}

fn launch(stream: &CudaStream, function: &CudaFunction) {
    let shape = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (32, 1, 1), shared_mem_bytes: 0 };
    // SAFETY: the kernel takes these arguments and does nothing.
    unsafe { stream.launch_builder(function).arg(&0u64).arg(&1u32).launch(shape) }.unwrap();
}

fn launch_graph(context: &Arc<CudaContext>, kernels: usize, run: &Run) {
    let stream = context.new_stream().unwrap();
    let empty = module(context).load_function("empty").unwrap();
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    (0..kernels).for_each(|_| launch(&stream, &empty));
    let flags = CUgraphInstantiate_flags(0);
    let graph = stream.end_capture(flags).unwrap().unwrap();
    run.time_and_wait(|| graph.launch().unwrap(), || stream.synchronize().unwrap());
}

pub fn benches(context: &'static Arc<CudaContext>, primary: &'static Arc<CudaContext>) -> Vec<Bench> {
    let tasks: [Task; 11] = [
        (LAUNCH, |context, run| {
            let stream = context.new_stream().unwrap();
            let empty = module(context).load_function("empty").unwrap();
            run.time(|| launch(&stream, &empty));
            stream.synchronize().unwrap();
        }),
        (RECORD, |context, run| {
            let (stream, event) = (context.new_stream().unwrap(), context.new_event(None).unwrap());
            run.time_and_wait(|| event.record(&stream).unwrap(), || stream.synchronize().unwrap());
        }),
        (PASSED, |context, run| {
            let (stream, event) = (context.new_stream().unwrap(), context.new_event(None).unwrap());
            event.record(&stream).unwrap();
            stream.synchronize().unwrap();
            run.time(|| assert!(event.try_is_complete().unwrap()));
        }),
        (IDLE, |context, run| {
            let stream = context.new_stream().unwrap();
            run.time(|| stream.synchronize().unwrap());
        }),
        (STREAM, |context, run| {
            // Making a context's first stream waits for the context.
            let _beside = context.new_stream().unwrap();
            run.time(|| drop(black_box(context.new_stream().unwrap())));
        }),
        (FUNCTION, |context, run| {
            let module = module(context);
            run.time(|| drop(black_box(module.load_function("empty").unwrap())));
        }),
        (LAUNCH_NAMED, |context, run| {
            let (module, stream) = (module(context), context.new_stream().unwrap());
            run.time_and_wait(
                || launch(&stream, &module.load_function("empty").unwrap()),
                || stream.synchronize().unwrap(),
            );
        }),
        (COPY, |context, run| {
            let stream = context.new_stream().unwrap();
            let mut to = stream.alloc_zeros::<u8>(SIZE).unwrap();
            // SAFETY: any bytes are valid.
            let from = unsafe { context.alloc_pinned::<u8>(SIZE) }.unwrap();
            run.time_and_wait(
                || stream.memcpy_htod(&from, &mut to).unwrap(),
                || stream.synchronize().unwrap(),
            );
        }),
        (BUFFER, |context, run| {
            let stream = context.new_stream().unwrap();
            // SAFETY: the buffer is never read.
            let buffer = || unsafe { stream.alloc::<u8>(SIZE) }.unwrap();
            let _beside = buffer();
            run.time_and_wait(|| drop(black_box(buffer())), || stream.synchronize().unwrap());
        }),
        // The same again, as all its memory is in the order of a stream.
        (AWAITED, |context, run| {
            // It has no other way to wait than with the thread.
            let stream = context.new_stream().unwrap();
            let empty = module(context).load_function("empty").unwrap();
            run.time(|| {
                launch(&stream, &empty);
                stream.synchronize().unwrap();
            });
        }),
        (ORDERED, |context, run| {
            let stream = context.new_stream().unwrap();
            // SAFETY: it is never read.
            let buffer = || unsafe { stream.alloc::<u8>(SIZE) }.unwrap();
            let _beside = buffer();
            run.time_and_wait(|| drop(black_box(buffer())), || stream.synchronize().unwrap());
        }),
    ];
    let in_context = |(task, work): Task| {
        let context = if IN_PRIMARY.contains(&task) { primary } else { context };
        Bench::new(task, LIBRARY, move |run| {
            context.bind_to_thread().unwrap();
            work(context, run);
            unbind();
        })
    };
    let graph = |(task, kernels): (&'static str, usize)| {
        Bench::new(task, LIBRARY, move |run| {
            context.bind_to_thread().unwrap();
            launch_graph(context, kernels, run);
            unbind();
        })
    };
    tasks.map(in_context).into_iter().chain(GRAPHS.map(graph)).collect()
}
