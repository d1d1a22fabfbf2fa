//! cuda-async, whose futures are for an executor: here one that parks the thread. By default a poll spins for 20 us
//! first; set `CUDA_ASYNC_SPIN_BUDGET_US=0` to measure its reactor alone.

use crate::measure::{Bench, Run};
use crate::rusta::Contexts;
use crate::tasks::*;
use cuda_async::cuda_graph::CudaGraph;
use cuda_async::device_context::{init_device_contexts, load_module_from_ptx, with_device};
use cuda_async::device_future::DeviceFuture;
use cuda_async::device_operation::{DeviceOp, ExecutionContext};
use cuda_async::error::DeviceError;
use cuda_core::{DeviceBuffer, Function, launch_kernel_on_stream};
use std::ffi::{CStr, c_void};
use std::future::{Future, IntoFuture, Ready, ready};
use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{Thread, current, park};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A launch, of the empty kernel unless it takes no arguments.
struct Launch<'a> {
    function: &'a Function,
    threads: u32,
    arguments: &'a mut [*mut c_void],
}

// SAFETY: it stays on the thread that made it.
unsafe impl Send for Launch<'_> {}

impl DeviceOp for Launch<'_> {
    type Output = ();

    unsafe fn execute(self, context: &ExecutionContext) -> Result<(), DeviceError> {
        let (one, block, stream) = ((1, 1, 1), (self.threads, 1, 1), context.get_cuda_stream());
        // SAFETY: the kernel takes these arguments and writes nothing.
        unsafe { launch_kernel_on_stream(self.function, one, block, 0, stream, self.arguments) }?;
        Ok(())
    }
}

// The trait asks for it; the launches are scheduled on a stream instead.
impl IntoFuture for Launch<'_> {
    type Output = Result<(), DeviceError>;
    type IntoFuture = Ready<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        ready(Ok(()))
    }
}

fn each(source: &CStr, name: &str, threads: u32, count: usize, run: &Run) {
    let _ = init_device_contexts(0, 1);
    let stream = with_device(0, |device| device.new_stream()).unwrap().unwrap();
    let module = load_module_from_ptx(source.to_str().unwrap(), 0).unwrap();
    let function = module.load_function(name).unwrap();
    let waker = Waker::from(Arc::new(Unpark(current())));
    let (mut a, mut b) = (0u64, 1u32);
    let mut both = [(&raw mut a).cast(), (&raw mut b).cast()];
    run.time(|| {
        let launch = Launch { function: &function, threads, arguments: &mut both[..count] };
        let context = ExecutionContext::new(Arc::clone(&stream));
        let mut future = pin!(DeviceFuture::scheduled(launch, context));
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(result) => break result.unwrap(),
                Poll::Pending => park(),
            }
        }
    });
}

/// Empty kernels, for a graph.
struct Launches<'a>(&'a Function, usize);

// SAFETY: it stays on the thread that made it.
unsafe impl Send for Launches<'_> {}

impl DeviceOp for Launches<'_> {
    type Output = ();

    unsafe fn execute(self, context: &ExecutionContext) -> Result<(), DeviceError> {
        let (mut a, mut b) = (0u64, 1u32);
        let mut arguments = [(&raw mut a).cast(), (&raw mut b).cast()];
        for _ in 0..self.1 {
            let launch = Launch { function: self.0, threads: 32, arguments: &mut arguments };
            // SAFETY: as there.
            unsafe { launch.execute(context) }?;
        }
        Ok(())
    }
}

// As above: the trait asks for it.
impl IntoFuture for Launches<'_> {
    type Output = Result<(), DeviceError>;
    type IntoFuture = Ready<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        ready(Ok(()))
    }
}

fn launch_graph(kernels: usize, run: &Run) {
    let _ = init_device_contexts(0, 1);
    let stream = with_device(0, |device| device.new_stream()).unwrap().unwrap();
    let module = load_module_from_ptx(EMPTY_KERNEL.to_str().unwrap(), 0).unwrap();
    let function = module.load_function("empty").unwrap();
    let graph = CudaGraph::capture(Arc::clone(&stream), Launches(&function, kernels)).unwrap();
    run.time_and_wait(
        // SAFETY: the graph lives until the stream was waited for, and its kernels use no memory.
        || unsafe { graph.launch().async_on(&stream) }.unwrap(),
        || stream.synchronize().unwrap(),
    );
}

fn ordered(run: &Run) {
    let _ = init_device_contexts(0, 1);
    let stream = with_device(0, |device| device.new_stream()).unwrap().unwrap();
    // SAFETY: the buffer is never read.
    let buffer = || unsafe { DeviceBuffer::<u8>::uninitialized_async(&stream, SIZE) }.unwrap();
    let _beside = buffer();
    run.time_and_wait(|| drop(black_box(buffer())), || stream.synchronize().unwrap());
}

pub fn benches(_: &Contexts) -> Result<Vec<Bench>, String> {
    let library = match std::env::var("CUDA_ASYNC_SPIN_BUDGET_US").as_deref() {
        Ok("0") => "cuda-async, no spin",
        _ => "cuda-async",
    };
    let others = [
        Bench::new(ORDERED, library, ordered),
        Bench::new(AWAITED, library, |run| each(EMPTY_KERNEL, "empty", 32, 2, run)),
        Bench::new(LONG, library, |run| each(LONG_KERNEL, "long", 1, 0, run)),
    ];
    let graph = |(task, kernels)| Bench::new(task, library, move |run| launch_graph(kernels, run));
    Ok(GRAPHS.map(graph).into_iter().chain(others).collect())
}
