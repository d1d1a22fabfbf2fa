//! One process for each device: every process computes its part with a kernel, and the first one puts the parts together.
//!
//! `cargo run --example ranks` runs alone. Several processes are started by any launcher, such as
//! `mpirun -n 4 target/debug/examples/ranks` or `srun -n 4 target/debug/examples/ranks`; on a laptop with
//! `CUSTACK_DRIVER=sim` before it, and `CUSTACK_SIM_DEVICES=2` for two simulated devices.
//!
//! The parts go through files in a folder of the job's own (`job/mod.rs`), which an argument may name. The folder is of one
//! machine; on several machines the processes of each put their own parts together. `examples/mpi` does the same with MPI's
//! collectives.

// A launch is unsafe: nothing checks that the kernel's parameters have the arguments' types.
#![allow(unsafe_code)]

mod job;

use custack::launch;
use custack::prelude::*;
use job::Job;
use std::env;
use std::error::Error;
use std::ops::Range;
use std::path::PathBuf;

const COUNT: usize = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    custack::init(CudaFlags::empty())?;
    let chosen = Device::for_this_process()?;
    let rank = chosen.rank().rank() as usize;
    let size = chosen
        .rank()
        .size()
        .ok_or("the launcher does not say how many processes there are; set CUSTACK_LOCAL_SIZE")?;
    let size = size as usize;
    // In one piece, so that the lines of several processes do not mix.
    println!("Running on {}: {}; {chosen}.", custack::driver::current()?, chosen.device().name()?);

    let part = compute(chosen.device(), part_of(rank, size))?;
    if size == 1 {
        return check(&part, 1);
    }
    let job = Job::meet(rank, env::args_os().nth(1).map(PathBuf::from))?;
    if rank > 0 {
        let bytes: Vec<u8> = part.iter().flat_map(|number| number.to_le_bytes()).collect();
        return Ok(job.put(&format!("part-{rank}"), &bytes)?);
    }
    let mut all = part;
    for other in 1..size {
        let bytes = job.take(&format!("part-{other}"))?;
        all.extend(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])));
    }
    check(&all, size)
}

/// The numbers that this process computes.
fn part_of(rank: usize, size: usize) -> Range<usize> {
    COUNT * rank / size..COUNT * (rank + 1) / size
}

/// 2 * x + 1, for these x.
fn compute(device: Device, part: Range<usize>) -> Result<Vec<f32>, Box<dyn Error>> {
    let _context = Context::create_and_push(ContextFlags::SCHED_AUTO, device)?;
    let module = Module::load_from_bytes(include_bytes!("kernels.ptx"))?;
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let numbers: Vec<f32> = part.map(|x| x as f32).collect();
    let (count, blocks) = (numbers.len() as u32, numbers.len().div_ceil(256) as u32);
    let mut x = DeviceBuffer::from_slice(&numbers)?;
    let mut y = DeviceBuffer::from_slice(&vec![1.0f32; numbers.len()])?;
    // SAFETY: the kernel takes a float, two addresses of as many floats as the count says, and that count.
    unsafe {
        launch!(module.saxpy<<<blocks, 256, 0, stream>>>(2.0f32, x.as_device_ptr(), y.as_device_ptr(), count))?;
    }
    stream.synchronize()?;
    let mut result = vec![0.0f32; numbers.len()];
    y.copy_to(&mut result[..])?;
    Ok(result)
}

fn check(all: &[f32], size: usize) -> Result<(), Box<dyn Error>> {
    let right = all.len() == COUNT && all.iter().enumerate().all(|(x, got)| *got == 2.0 * x as f32 + 1.0);
    if !right {
        return Err("the parts, put together, are wrong".into());
    }
    println!("All {COUNT} numbers are right, from {size} process{}.", if size == 1 { "" } else { "es" });
    Ok(())
}
