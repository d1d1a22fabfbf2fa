//! Memory in the order of two streams: each part of a job has its own buffers, which one stream fills and the other
//! reads. They are dropped before either stream has started on them, and the host waits only at the end.
//!
//! `cargo run --release --example order`
//!
//! Which memory to use:
//!
//! * `DeviceBuffer::from_slice` and similar constructors, for memory that lives long: tables, weights, the buffers of a
//!   loop. All streams can use it at once, and freeing it waits for the work of its context.
//! * `DeviceBuffer::from_slice_in` and `uninitialized_in`, for short-lived memory. Allocating and freeing are work of
//!   the stream, and wait for nothing.
//! * `also_used_in`, if another stream also reads the buffer: that stream waits for the buffer, and the free waits for
//!   that stream. `move_to`, if the other stream takes the buffer over.
//! * A separate `MemoryPool`, for a part of the program whose memory is limited or measured. A release threshold, for a
//!   program that synchronises often: without one the pool gives unused memory back each time.

// Asynchronous copies and launches are unsafe: the memory must stay valid until the stream is done with it.
#![allow(unsafe_code)]

use custack::error::CudaError;
use custack::launch;
use custack::memory::{AsyncCopyDestination, LockedBuffer, MemoryPool, PoolProperties};
use custack::prelude::*;
use std::time::Instant;

const PART: usize = 1 << 12;
const PARTS: usize = 8;
const ROUNDS: usize = 100;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _context = custack::quick_init()?;
    println!("Running on {}: {}.", custack::driver::current()?, Device::get_device(0)?.name()?);
    let module = Module::load_from_bytes(include_bytes!("kernels.ptx"))?;
    let compute = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let copy = Stream::new(StreamFlags::NON_BLOCKING, None)?;

    let pool = MemoryPool::new(Device::get_device(0)?, &PoolProperties::new())?;
    pool.set_release_threshold(u64::MAX)?;

    let x = LockedBuffer::new(&2.0f32, PART)?;
    let mut results = LockedBuffer::new(&0.0f32, PART * PARTS)?;
    for part in 0..PARTS {
        let result = &mut results[part * PART..(part + 1) * PART];
        let count = PART as u32;
        // SAFETY: the page-locked memory lives until both streams are synchronised below. The buffers are freed in the
        // order of `compute`, and the second one after `copy` has read it.
        unsafe {
            let mut x_there = DeviceBuffer::from_slice_async_in(&x, (&pool, &compute))?;
            let mut y_there = DeviceBuffer::<f32>::uninitialized_in(PART, (&pool, &compute))?;
            y_there.async_fill(part as f32, &compute)?;
            launch!(module.saxpy<<<count / 256, 256, 0, compute>>>(10.0f32, x_there.as_device_ptr(), y_there.as_device_ptr(), count))?;
            y_there.also_used_in(&copy)?;
            y_there.async_copy_to(result, &copy)?;
        }
        // Both buffers are dropped here, and the next part may get the same memory.
    }
    println!("All {PARTS} parts are enqueued, and all their buffers are dropped: {:?}.", pool.usage()?);
    copy.synchronize()?;
    compute.synchronize()?;
    for (part, result) in results.chunks(PART).enumerate() {
        assert!(result.iter().all(|y| *y == 20.0 + part as f32), "part {part}");
    }
    println!("All {} results are right.", results.len());
    pool.trim_to(0)?;
    println!("After the pool was trimmed it has {} bytes.\n", pool.usage()?.reserved);

    let per_buffer = |make: &dyn Fn() -> Result<(), CudaError>| -> Result<u128, CudaError> {
        make()?;
        let start = Instant::now();
        for _ in 0..ROUNDS {
            make()?;
        }
        Ok(start.elapsed().as_nanos() / ROUNDS as u128)
    };
    // SAFETY: never read.
    let plain = per_buffer(&|| unsafe { DeviceBuffer::<u8>::uninitialized(4096) }.map(drop))?;
    // SAFETY: never read.
    let ordered = per_buffer(&|| unsafe { DeviceBuffer::<u8>::uninitialized_in(4096, &compute) }.map(drop))?;
    println!(
        "A buffer of 4 KiB is made and dropped in {plain} ns, in the order of a stream in {ordered} ns."
    );
    if custack::driver::current()?.is_simulated() {
        println!("These are times of the simulation, not of a GPU.");
    }
    Ok(())
}
