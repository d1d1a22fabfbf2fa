//! A rayon thread pool whose workers share one context: each keeps it current permanently, and has its own stream.
//!
//! `cargo run --example pool`

// Launches are unsafe: nothing checks that the kernel's parameters have the arguments' types.
#![allow(unsafe_code)]

use custack::context::CurrentContext;
use custack::error::CudaError;
use custack::launch;
use custack::prelude::*;
use rayon::prelude::*;
use std::cell::OnceCell;

thread_local! {
    static STREAM: OnceCell<Stream> = const { OnceCell::new() };
}

/// Squares, on the device, in the worker's own stream: `x * x` is `x * x + 0`.
fn square(module: &Module, x: f32) -> Result<f32, CudaError> {
    STREAM.with(|stream| {
        if stream.get().is_none() {
            let _ = stream.set(Stream::new(StreamFlags::NON_BLOCKING, None)?);
        }
        let stream = stream.get().ok_or(CudaError::UnknownError)?;
        let (mut input, mut output) = (DeviceBuffer::from_slice(&[x])?, DeviceBuffer::from_slice(&[0.0f32])?);
        // SAFETY: the kernel takes a float, two addresses of one float, and their count.
        unsafe {
            launch!(module.saxpy<<<1, 1, 0, stream>>>(x, input.as_device_ptr(), output.as_device_ptr(), 1u32))?;
        }
        stream.synchronize()?;
        let mut result = [0.0];
        output.copy_to(&mut result)?;
        Ok(result[0])
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let context = custack::quick_init()?;
    println!("Running on {}: {}.", custack::driver::current()?, Device::get_device(0)?.name()?);
    let module = Module::load_from_bytes(include_bytes!("kernels.ptx"))?;

    let handle = context.get_unowned();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(4)
        // Every worker sets the context once; later calls find it current, which costs next to nothing.
        .start_handler(move |worker| match CurrentContext::set_current(&handle) {
            Ok(()) => println!("worker {worker} is ready"),
            Err(error) => println!("worker {worker}: {}", error.failure()),
        })
        .build()?;

    let squares: Result<Vec<f32>, CudaError> =
        pool.install(|| (0..200u16).into_par_iter().map(|x| square(&module, x.into())).collect());
    let squares = squares?;
    let right = squares.iter().enumerate().all(|(x, square)| *square == (x * x) as f32);
    println!(
        "200 squares, the last {}: {}.",
        squares[199],
        if right { "all right" } else { "some are wrong" }
    );
    Ok(())
}
