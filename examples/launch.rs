//! Loads a kernel, launches it, and reads back what it computed.
//!
//! `cargo run --example launch`

// A launch is unsafe: nothing checks that the kernel's parameters have the arguments' types.
#![allow(unsafe_code)]

use custack::launch;
use custack::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    custack::init(CudaFlags::empty())?;
    println!("Running on {}: {}.", custack::driver::current()?, Device::get_device(0)?.name()?);
    let _context = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    let module = Module::load_from_bytes(include_bytes!("kernels.ptx"))?;
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;

    let numbers: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let mut x = DeviceBuffer::from_slice(&numbers)?;
    let mut y = DeviceBuffer::from_slice(&[1.0f32; 1000])?;

    // SAFETY: the kernel takes a float, two addresses of as many floats as the count says, and that count.
    unsafe {
        launch!(module.saxpy<<<4, 256, 0, stream>>>(2.0f32, x.as_device_ptr(), y.as_device_ptr(), 1000u32))?;
    }
    stream.synchronize()?;

    let mut result = vec![0.0f32; 1000];
    y.copy_to(&mut result[..])?;
    println!("2 * x + 1, for x from 0: {:?} ... {:?}", &result[..4], &result[998..]);
    let right = result.iter().zip(&numbers).all(|(got, x)| *got == 2.0 * x + 1.0);
    println!("{}", if right { "All 1000 are right." } else { "That is wrong." });
    Ok(())
}
