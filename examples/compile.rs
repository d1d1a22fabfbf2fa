//! CUDA C++ that is compiled while the program runs, for the device that is there, and launched.
//!
//! `cargo run --example compile`

// Launches are unsafe: the arguments must have the types of the kernel's parameters.
#![allow(unsafe_code)]

use custack::launch;
use custack::nvrtc::{self, OutputKind, Program};
use custack::prelude::*;

const SOURCE: &str = r#"
#include "weight.h"

template <typename T>
__global__ void weigh(T *x, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) x[i] = WEIGHT * x[i] + T(i);
}
"#;

const COUNT: u32 = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let context = custack::quick_init()?;
    let device = Device::get_device(0)?;
    println!("Running on {}: {}.", custack::driver::current()?, device.name()?);

    let program = Program::new(SOURCE)
        .name("weigh.cu")
        .header("weight.h", "#define WEIGHT 3")
        .for_device(device)?
        .name_expression("weigh<float>");
    // Who can write to the folder decides what is loaded, so it is not one that everybody can write to.
    let folder = "target/compiled";
    let compiled = match program.compile_cached(OutputKind::Ptx, folder) {
        Ok(compiled) => compiled,
        // Without the compiler there is nothing to run; the error says what was tried, and how to get it.
        Err(error) => {
            println!("{error}.");
            return Ok(());
        }
    };
    let (major, minor) = nvrtc::version()?;
    let name = compiled.lowered_name("weigh<float>").ok_or("it was asked for")?;
    println!("NVRTC {major}.{minor} from {} compiled weigh<float> as {name:?}.", nvrtc::library()?);

    let module = context.load_nvrtc_module(&compiled)?;
    let weigh = module.get_function(name)?;
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let mut x = DeviceBuffer::from_slice(&[2.0f32; COUNT as usize])?;
    let there = x.as_device_ptr();
    // SAFETY: the kernel takes these, and the buffer lives until the stream is done.
    unsafe { launch!(weigh<<<COUNT.div_ceil(128), 128, 0, stream>>>(there, COUNT)) }?;
    stream.synchronize()?;
    let mut back = [0.0; COUNT as usize];
    x.copy_to(&mut back)?;
    println!("3 * 2 + 0 is {}, and 3 * 2 + 999 is {}.", back[0], back[999]);
    assert_eq!((back[0], back[999]), (6.0, 1005.0));

    let wrong = Program::new("__global__ void wrong() {\n    undeclared = 1;\n}\n").name("wrong.cu");
    println!("And a program with an error: {}", wrong.compile(OutputKind::Ptx).unwrap_err());
    Ok(())
}
