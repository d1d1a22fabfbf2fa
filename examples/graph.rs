//! A pipeline of three steps is captured once and launched ten thousand times: one driver call for each round instead
//! of one for each step. It also prints the graph in the DOT language.
//!
//! `cargo run --release --example graph`

// Launches are unsafe: nothing checks what kernels do with their arguments.
#![allow(unsafe_code)]

use custack::error::{CudaError, CudaResult};
use custack::function::Function;
use custack::graph::{DotFlags, InstantiateFlags};
use custack::launch;
use custack::prelude::*;
use custack::stream::CaptureMode;
use std::time::Instant;

const VALUES: u32 = 256;
const STEPS: u32 = 3;

/// One round: each step adds half of `x` to `y`.
fn round(saxpy: &Function<'_>, x: u64, y: u64, stream: &Stream) -> CudaResult<()> {
    for _ in 0..STEPS {
        // SAFETY: the kernel takes a factor, two addresses, and the number of values there; both buffers live until the
        // last launch is over.
        unsafe { launch!(saxpy<<<1, VALUES, 0, stream>>>(0.5f32, x, y, VALUES)) }?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _context = custack::quick_init()?;
    let driver = custack::driver::current()?;
    println!("Running on {driver}: {}.", Device::get_device(0)?.name()?);
    let rounds = if driver.is_simulated() { 500 } else { 10_000 };
    let module = Module::load_from_bytes(include_bytes!("kernels.ptx"))?;
    let saxpy = module.get_function(c"saxpy")?;
    let mut stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let mut x = DeviceBuffer::from_slice(&[2.0f32; VALUES as usize])?;
    let mut y = DeviceBuffer::from_slice(&[0.0f32; VALUES as usize])?;
    let (x_at, y_at) = (x.as_device_ptr().as_raw_mut() as u64, y.as_device_ptr().as_raw_mut() as u64);

    // Nothing runs here: the work becomes a graph.
    let mut graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        assert_eq!(capture.synchronize(), Err(CudaError::StreamCaptureUnsupported));
        round(&saxpy, x_at, y_at, capture)
    })?;
    println!("\nWhile a stream captures it cannot be waited for: {}.", CudaError::StreamCaptureUnsupported);
    println!("\nThe graph has {} nodes and {} edges:", graph.nodes()?.len(), graph.edges()?.len());
    println!("{}", graph.to_dot(DotFlags::empty())?);

    let mut executable = graph.instantiate(InstantiateFlags::empty())?;
    executable.upload(&stream)?;
    stream.synchronize()?;

    let begun = Instant::now();
    for _ in 0..rounds {
        executable.launch(&stream)?;
    }
    let given = begun.elapsed();
    stream.synchronize()?;
    let (given, done) = (given.as_secs_f64(), begun.elapsed().as_secs_f64());

    let begun = Instant::now();
    for _ in 0..rounds {
        round(&saxpy, x_at, y_at, &stream)?;
    }
    let singly_given = begun.elapsed().as_secs_f64();
    stream.synchronize()?;
    let singly_done = begun.elapsed().as_secs_f64();

    let micros = |seconds: f64| seconds * 1e6 / f64::from(rounds);
    println!("{rounds} rounds of {STEPS} kernels, in microseconds a round:");
    println!("                  given to the stream    done");
    println!("  as a graph      {:19.2} {:7.2}", micros(given), micros(done));
    println!("  one by one      {:19.2} {:7.2}", micros(singly_given), micros(singly_done));
    if driver.is_simulated() {
        println!("These are times of the simulation, not of a GPU.");
    }

    let mut sums = [0.0; VALUES as usize];
    y.copy_to(&mut sums)?;
    let expected = (2 * rounds * STEPS) as f32;
    assert!(sums.iter().all(|sum| *sum == expected), "{} and not {expected}", sums[0]);
    println!("\nEach value is {expected}, as it should be.");
    Ok(())
}
