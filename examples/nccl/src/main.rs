//! An all-reduce of custack's buffers by NCCL, in custack's contexts and streams.
//!
//! In this folder, `cargo build --release`, and then
//!
//! * `target/release/allreduce-nccl threads`: one thread for each device of this process;
//! * `mpirun -n 4 target/release/allreduce-nccl processes`, or `srun`, `torchrun --no-python`: one process for each device;
//!   they hand NCCL's id around in a file, in a folder of the job's own (`../job/mod.rs`).
//!
//! Without an argument it is processes if a launcher has started several, else threads. It works with one device too, and
//! needs a GPU. NCCL is opened at run time: `LIBNCCL` names it where the system does not find it.

#[path = "../../job/mod.rs"]
mod job;
mod nccl;

use custack::context::PrimaryContext;
use custack::event::{Event, EventFlags};
use custack::memory::AsyncCopyDestination;
use custack::prelude::*;
use job::Job;
use nccl::{Nccl, UniqueId};
use std::error::Error;
use std::time::Duration;
use std::{env, thread};

/// The numbers in each buffer: 256 MiB.
const COUNT: usize = 1 << 26;
const REPEATS: u32 = 20;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    custack::init(CudaFlags::empty())?;
    let driver = custack::driver::current()?;
    if driver.is_simulated() {
        return Err("NCCL runs on GPUs only".into());
    }
    let nccl = Nccl::open()?;
    let chosen = Device::for_this_process()?;
    let rank = chosen.rank().rank() as usize;
    let size = chosen.rank().size().unwrap_or(1) as usize;
    if rank == 0 {
        println!("Running on {driver}: {}; NCCL {}.", chosen.device().name()?, nccl.version()?);
    }
    match env::args().nth(1).as_deref() {
        Some("threads") => over_threads(&nccl),
        Some("processes") => over_processes(&nccl, chosen.device(), rank, size),
        None if size > 1 => over_processes(&nccl, chosen.device(), rank, size),
        None => over_threads(&nccl),
        Some(other) => Err(format!("{other}: expected `threads` or `processes`").into()),
    }
}

/// One thread for each device. The id is made once, and given to each thread.
fn over_threads(nccl: &Nccl) -> Result<(), Failure> {
    let devices = Device::devices()?.collect::<Result<Vec<_>, _>>()?;
    let (id, size) = (nccl.make_id()?, devices.len());
    let times = thread::scope(|scope| {
        let start = |(rank, device): (usize, &Device)| {
            let device = *device;
            scope.spawn(move || reduce(nccl, device, id, rank, size))
        };
        let threads: Vec<_> = devices.iter().enumerate().map(start).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a thread panicked")?)
            .collect::<Result<Vec<Duration>, Failure>>()
    })?;
    report("threads", size, times.into_iter().max().unwrap_or_default());
    Ok(())
}

/// One device for each process. The first process makes the id and writes it to a file, which the others read.
fn over_processes(nccl: &Nccl, device: Device, rank: usize, size: usize) -> Result<(), Failure> {
    if size > Device::num_devices()? as usize && Device::num_devices()? > 1 {
        return Err(format!("NCCL takes one process for each device, and {size} are too many").into());
    }
    // Removed when this ends, which the first process does last: all have read the id once they have reduced together.
    let job = if size > 1 { Some(Job::meet(rank, None)?) } else { None };
    let id = match &job {
        Some(job) if rank > 0 => read_id(job)?,
        _ => nccl.make_id()?,
    };
    if let Some(job) = job.as_ref().filter(|_| rank == 0) {
        job.put(ID, &id.0)?;
    }
    let time = reduce(nccl, device, id, rank, size)?;
    if rank == 0 {
        report("processes", size, time);
    }
    Ok(())
}

/// The name under which the first process hands the id over.
const ID: &str = "nccl-id";

fn read_id(job: &Job) -> Result<UniqueId, Failure> {
    let bytes = job.take(ID)?;
    Ok(UniqueId(bytes.try_into().map_err(|_| "the file with NCCL's id has a wrong length")?))
}

/// What this member puts in; below 2^24 for every sum, so that floats have it exactly.
fn number(rank: usize, at: usize) -> f32 {
    (at % 1000 + rank) as f32
}

/// One member: joins, reduces, and looks at the result. Returns the time of one all-reduce.
fn reduce(nccl: &Nccl, device: Device, id: UniqueId, rank: usize, size: usize) -> Result<Duration, Failure> {
    // NCCL takes the context that is current; a primary one, which is the CUDA runtime's.
    let primary = PrimaryContext::retain(device)?;
    let _current = primary.enter()?;
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let numbers: Vec<f32> = (0..COUNT).map(|at| number(rank, at)).collect();
    let mut buffer = DeviceBuffer::from_slice(&numbers)?;
    let member = nccl.join(id, rank, size)?;

    // SAFETY: the stream and the buffer are of this context, and live until the stream is synchronised; all members do
    // the same.
    unsafe { member.all_reduce_sum(&mut buffer, &stream)? };
    stream.synchronize()?;
    let mut sums = vec![0.0f32; COUNT];
    buffer.copy_to(&mut sums[..])?;
    let expected = |at: usize| (size * (at % 1000) + size * (size - 1) / 2) as f32;
    if let Some(at) = (0..COUNT).find(|at| sums[*at] != expected(*at)) {
        return Err(format!("member {rank}: number {at} is {}, and not {}", sums[at], expected(at)).into());
    }

    let (before, after) = (Event::new(EventFlags::DEFAULT)?, Event::new(EventFlags::DEFAULT)?);
    // Zeros stay zeros, however often they are added up.
    let zeros = vec![0.0f32; COUNT];
    // SAFETY: the stream is synchronised before the zeros are dropped.
    unsafe { buffer.async_copy_from(&zeros[..], &stream)? };
    before.record(&stream)?;
    for _ in 0..REPEATS {
        // SAFETY: as above.
        unsafe { member.all_reduce_sum(&mut buffer, &stream)? };
    }
    after.record(&stream)?;
    stream.synchronize()?;
    Ok(after.elapsed_time(&before)? / REPEATS)
}

fn report(over: &str, size: usize, time: Duration) {
    let bytes = (COUNT * size_of::<f32>()) as f64;
    let rate = bytes / time.as_secs_f64() / 1e9;
    // Of each byte this much goes over the links, whatever the number of members.
    let on_links = rate * 2.0 * (size as f64 - 1.0) / size as f64;
    println!(
        "All {COUNT} sums are right, over {size} {over}: {:.3} ms for {} MiB, {rate:.1} GB/s, {on_links:.1} GB/s on the links.",
        time.as_secs_f64() * 1e3,
        bytes as usize >> 20,
    );
}
