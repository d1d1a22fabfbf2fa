//! The example `ranks` with MPI: every process computes its part with a kernel, and MPI's collectives put the parts
//! together. It runs on several machines too.
//!
//! In this folder: `cargo build --release`, then `mpirun -n 4 target/release/ranks-mpi`; on a laptop with
//! `CUSTACK_DRIVER=sim` before it, and `CUSTACK_SIM_DEVICES=2` for two simulated devices. To build it needs an MPI with its
//! headers, and libclang: on Debian the packages `libopenmpi-dev`, `openmpi-bin` and `libclang-dev`.

use custack::launch;
use custack::prelude::*;
use mpi::collective::SystemOperation;
use mpi::datatype::PartitionMut;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use std::error::Error;
use std::ops::Range;

const COUNT: usize = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let universe = mpi::initialize().ok_or("MPI is initialised already")?;
    let world = universe.world();
    // An error of one process must end the others, which would wait for it for ever.
    if let Err(error) = work(&world) {
        eprintln!("Error: process {}: {error}", world.rank());
        world.abort(1);
    }
    Ok(())
}

fn work(world: &SimpleCommunicator) -> Result<(), Box<dyn Error>> {
    let (rank, size) = (world.rank() as usize, world.size() as usize);
    custack::init(CudaFlags::empty())?;
    let chosen = Device::for_this_process()?;
    println!("Running on {}: process {rank} of {size}; {chosen}.", custack::driver::current()?);
    // What the launcher's variable says is what MPI says of the processes that share this machine's memory.
    let here = world.split_shared(world.rank());
    if here.rank() != chosen.rank().rank() as i32 {
        return Err(format!("MPI says that it is number {} on this machine", here.rank()).into());
    }

    let part = compute(chosen.device(), part_of(rank, size))?;
    gather(world, &part)?;
    reduce(world, &part)
}

/// The numbers that this process computes.
fn part_of(rank: usize, size: usize) -> Range<usize> {
    COUNT * rank / size..COUNT * (rank + 1) / size
}

/// 2 * x + 1, for these x.
fn compute(device: Device, part: Range<usize>) -> Result<Vec<f32>, Box<dyn Error>> {
    let _context = Context::create_and_push(ContextFlags::SCHED_AUTO, device)?;
    let module = Module::load_from_bytes(include_bytes!("../../kernels.ptx"))?;
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

/// `MPI_Gatherv`: the first process gets all parts, which need not be of one length.
fn gather(world: &SimpleCommunicator, part: &[f32]) -> Result<(), Box<dyn Error>> {
    let size = world.size() as usize;
    let first = world.process_at_rank(0);
    if world.rank() > 0 {
        first.gather_varcount_into(part);
        return Ok(());
    }
    let parts: Vec<_> = (0..size).map(|rank| part_of(rank, size)).collect();
    let counts: Vec<i32> = parts.iter().map(|part| part.len() as i32).collect();
    let starts: Vec<i32> = parts.iter().map(|part| part.start as i32).collect();
    let mut all = vec![0.0f32; COUNT];
    first.gather_varcount_into_root(part, &mut PartitionMut::new(&mut all[..], counts, &starts[..]));
    if !all.iter().enumerate().all(|(x, got)| *got == 2.0 * x as f32 + 1.0) {
        return Err("the parts, put together, are wrong".into());
    }
    println!("All {COUNT} numbers are right, from {size} processes.");
    Ok(())
}

/// `MPI_Allreduce`: every process gets the sum of all parts.
fn reduce(world: &SimpleCommunicator, part: &[f32]) -> Result<(), Box<dyn Error>> {
    let mine: f64 = part.iter().copied().map(f64::from).sum();
    let mut all = 0.0;
    world.all_reduce_into(&mine, &mut all, SystemOperation::sum());
    // The sum of the odd numbers up to 2 * COUNT is a square. Doubles have all these sums exactly.
    if all != (COUNT * COUNT) as f64 {
        return Err(format!("the sum of all parts is {all}").into());
    }
    Ok(())
}
