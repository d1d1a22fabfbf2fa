//! Tasks that wait for the device without a thread: on tokio, each in its context, with two streams, a task that is
//! cancelled while its work goes on, and an error that arrives in the task whose work it is.
//!
//! `cargo run --example await`

// Launches and asynchronous copies are unsafe: the memory must stay valid until the stream is done with it.
#![allow(unsafe_code)]

use custack::context::ContextStack;
use custack::error::{CudaResult, Failure};
use custack::future::InContextExt;
use custack::launch;
use custack::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const COUNT: u32 = 1 << 12;

/// Two parts of a job on two streams at once, awaited together; the task's thread does something else meanwhile.
async fn both(kernels: Arc<Module>) -> CudaResult<f32> {
    let mut open = Vec::new();
    for part in [1.0f32, 2.0] {
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
        let kernels = Arc::clone(&kernels);
        // What the closure returns is kept until the work is done, and is the result of the future.
        open.push(stream.enqueue_async(|stream| {
            let mut x = DeviceBuffer::from_slice_in(&vec![part; COUNT as usize], stream)?;
            let mut y = DeviceBuffer::from_slice_in(&vec![10.0f32; COUNT as usize], stream)?;
            let (from, to) = (x.as_device_ptr(), y.as_device_ptr());
            // SAFETY: the kernel takes these, and the buffers are returned, with the module.
            unsafe {
                launch!(kernels.saxpy<<<COUNT.div_ceil(128), 128, 0, stream>>>(2.0f32, from, to, COUNT))
            }?;
            Ok((y, x, kernels))
        })?);
    }
    println!("Both parts are submitted; the thread is free.");
    let mut sum = 0.0;
    for part in open {
        let (y, ..) = part.await?;
        let mut back = vec![0.0; COUNT as usize];
        y.copy_to(&mut back)?;
        sum += back[0];
    }
    Ok(sum)
}

/// Says when what the work uses is freed.
struct Used(Arc<AtomicBool>);

impl Drop for Used {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Waits for work that takes a while.
async fn slow(freed: Arc<AtomicBool>) -> CudaResult<()> {
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let work = stream.enqueue_async(|stream| {
        stream.launch_host_func(|| std::thread::sleep(Duration::from_millis(200)))?;
        Ok(Used(freed))
    })?;
    work.await.map(drop)
}

/// A kernel that reads what is not there.
async fn failing(kernels: Arc<Module>) -> Result<(), Failure> {
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    // SAFETY: it is not: the addresses are wrong, so the kernel fails, and its context with it.
    unsafe { launch!(kernels.saxpy<<<1, 32, 0, stream>>>(1.0f32, 64u64, 64u64, 32u32)) }?;
    Ok(stream.synchronize_async().await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let context = custack::quick_init()?;
    println!("Running on {}: {}.", custack::driver::current()?, Device::get_device(0)?.name()?);
    let kernels = Arc::new(Module::load_from_bytes(include_bytes!("kernels.ptx"))?);
    // A task may go on on another thread after each `await`, so it takes the context along.
    ContextStack::pop()?;

    let sum = tokio::spawn(both(Arc::clone(&kernels)).in_context(&context)).await???;
    println!("2 * 1 + 10 and 2 * 2 + 10 are {sum} together.");
    assert_eq!(sum, 26.0);

    let freed = Arc::new(AtomicBool::new(false));
    let task = tokio::spawn(slow(Arc::clone(&freed)).in_context(&context));
    tokio::time::sleep(Duration::from_millis(50)).await;
    task.abort();
    let cancelled = task.await.is_err_and(|error| error.is_cancelled());
    println!("Cancelled: {cancelled}. Is what its work uses freed? {}.", freed.load(Ordering::SeqCst));
    assert!(cancelled && !freed.load(Ordering::SeqCst));
    context.synchronize()?;
    while !freed.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    println!("The work is done, and what it used is freed.");

    let error = tokio::spawn(failing(kernels).in_context(&context)).await??.unwrap_err();
    println!("Awaited work that failed: {error}");
    Ok(())
}
