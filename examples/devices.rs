//! All devices of a machine: a primary context on each, kernels spread over them, the parts gathered by copies from device
//! to device, and tables of which devices reach each other and how fast.
//!
//! `cargo run --release --example devices`, or on a laptop with several simulated devices:
//! `CUSTACK_DRIVER=sim CUSTACK_SIM_DEVICES=4 cargo run --example devices`

// Launches and copies in streams are unsafe: nothing checks the kernel's parameters, and the memory must stay valid.
#![allow(unsafe_code)]

use custack::context::{PrimaryContext, UnownedContext};
use custack::device::DeviceAttribute;
use custack::error::CudaResult;
use custack::event::{Event, EventFlags};
use custack::launch;
use custack::memory::AsyncCopyDestination;
use custack::prelude::*;
use std::error::Error;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// How much is done: of a GPU much, so that launches and first uses do not count; of a laptop's cores little.
struct Sizes {
    /// The numbers on each device.
    numbers: usize,
    /// The launches of each measurement.
    launches: usize,
    /// The bytes of each copy that is measured.
    bytes: usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    custack::init(CudaFlags::empty())?;
    let is_simulated = custack::driver::current()?.is_simulated();
    let sizes = if is_simulated {
        Sizes { numbers: 1 << 14, launches: 2, bytes: 1 << 20 }
    } else {
        Sizes { numbers: 1 << 26, launches: 500, bytes: 1 << 30 }
    };
    let names = Device::devices()?.map(|device| device?.name()).collect::<CudaResult<Vec<_>>>()?;
    println!("Running on {}: {}.\n", custack::driver::current()?, names.join(", "));
    for device in Device::devices()? {
        println!("{}", described(device?)?);
    }

    let contexts = PrimaryContext::retain_all()?;
    let directions = UnownedContext::enable_peer_access_among(&contexts)?;
    println!(
        "\nPerformance rank of the links, 0 is the fastest; access is enabled in {directions} directions:"
    );
    println!("{}\n", Device::topology()?);

    let parts = compute(&contexts, sizes.numbers)?;
    gather(&contexts[0], &parts)?;

    let alone = rate(&contexts[..1], &sizes)?;
    let together = rate(&contexts, &sizes)?;
    println!(
        "Kernels on all {} at once compute {:.2} times what one computes: {:.3} and {:.3} billion numbers a second.\n",
        contexts.len(),
        together / alone,
        together / 1e9,
        alone / 1e9,
    );
    bandwidths(&contexts, sizes.bytes)?;
    if is_simulated {
        println!("\nThese are rates of the simulation, not of GPUs.");
    }
    Ok(())
}

fn described(device: Device) -> CudaResult<String> {
    let (major, minor) = device.compute_capability()?;
    let kind = device.mig_profile()?.map_or("GPU".to_owned(), |profile| format!("instance {profile}"));
    Ok(format!(
        "device {}: {kind} {} at {}, compute capability {major}.{minor}, {} multiprocessors, {} GiB",
        device.as_raw(),
        device.uuid_text()?,
        device.pci_bus_id()?,
        device.get_attribute(DeviceAttribute::MultiprocessorCount)?,
        device.total_memory()? >> 30,
    ))
}

/// Does `work` on a thread for each context, with the context current there; the results are in the order of the contexts.
fn on_each<T: Send>(
    contexts: &[PrimaryContext],
    work: impl Fn(usize) -> CudaResult<T> + Sync,
) -> CudaResult<Vec<T>> {
    let work = &work;
    thread::scope(|scope| {
        let start = |(at, ctx): (usize, &PrimaryContext)| {
            let ctx = ctx.get_unowned();
            scope.spawn(move || ctx.scoped(|_| work(at)))
        };
        let threads: Vec<_> = contexts.iter().enumerate().map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread panicked")).collect()
    })
}

fn kernels() -> CudaResult<Module> {
    Module::load_from_bytes(include_bytes!("kernels.ptx"))
}

/// The number x of the whole job. Small enough that a float has it exactly.
fn number(x: usize) -> f32 {
    (x % 100_000) as f32
}

/// Computes 2 * x + 1 on all devices; each keeps its part.
fn compute(contexts: &[PrimaryContext], count: usize) -> CudaResult<Vec<DeviceBuffer<f32>>> {
    on_each(contexts, |at| {
        let module = kernels()?;
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
        let numbers: Vec<f32> = (at * count..(at + 1) * count).map(number).collect();
        let mut x = DeviceBuffer::from_slice(&numbers)?;
        let mut y = DeviceBuffer::from_slice(&vec![1.0f32; count])?;
        let blocks = count.div_ceil(256) as u32;
        // SAFETY: the kernel takes a float, two addresses of as many floats as the count says, and that count.
        unsafe {
            launch!(module.saxpy<<<blocks, 256, 0, stream>>>(2.0f32, x.as_device_ptr(), y.as_device_ptr(), count as u32))?;
        }
        stream.synchronize()?;
        Ok(y)
    })
}

/// Copies all parts to this device, at once: each in a stream of its own, straight from the device that has it.
fn gather(ctx: &PrimaryContext, parts: &[DeviceBuffer<f32>]) -> Result<(), Box<dyn Error>> {
    let count = parts[0].len();
    let mut all = vec![0.0f32; count * parts.len()];
    ctx.scoped(|_| {
        // SAFETY: the copies write all of it before it is read.
        let mut here: DeviceBuffer<f32> = unsafe { DeviceBuffer::uninitialized(all.len())? };
        let mut streams = Vec::new();
        for (part, at) in parts.iter().zip((0..).step_by(count)) {
            let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
            // SAFETY: both sides live until the streams are synchronised below, and no two copies overlap.
            unsafe { here[at..at + count].async_copy_from(part, &stream)? };
            streams.push(stream);
        }
        streams.iter().try_for_each(Stream::synchronize)?;
        here.copy_to(&mut all[..])
    })?;
    let right = all.iter().enumerate().all(|(x, got)| *got == 2.0 * number(x) + 1.0);
    println!(
        "{} numbers from {} device{}, gathered on the first: {}.",
        all.len(),
        parts.len(),
        if parts.len() == 1 { "" } else { "s" },
        if right { "all right" } else { "some are wrong" }
    );
    if right { Ok(()) } else { Err("what was gathered is not what was computed".into()) }
}

/// How many numbers these devices compute in a second, all at once.
fn rate(contexts: &[PrimaryContext], sizes: &Sizes) -> CudaResult<f64> {
    let count = sizes.numbers;
    let ready = Barrier::new(contexts.len());
    let times = on_each(contexts, |_| {
        let prepared = prepare(count);
        // Also after an error, as the others wait.
        ready.wait();
        let (module, stream, mut x, mut y) = prepared?;
        let begun = Instant::now();
        for _ in 0..sizes.launches {
            let blocks = count.div_ceil(256) as u32;
            // SAFETY: as above.
            unsafe {
                launch!(module.saxpy<<<blocks, 256, 0, stream>>>(2.0f32, x.as_device_ptr(), y.as_device_ptr(), count as u32))?;
            }
        }
        stream.synchronize()?;
        Ok(begun.elapsed())
    })?;
    let longest = times.into_iter().max().unwrap_or(Duration::ZERO);
    Ok((contexts.len() * count * sizes.launches) as f64 / longest.as_secs_f64())
}

type Prepared = (Module, Stream, DeviceBuffer<f32>, DeviceBuffer<f32>);

/// What a measurement needs, after a first launch, which is slower.
fn prepare(count: usize) -> CudaResult<Prepared> {
    let (module, stream) = (kernels()?, Stream::new(StreamFlags::NON_BLOCKING, None)?);
    // SAFETY: zeros are floats.
    let (mut x, mut y) = unsafe { (DeviceBuffer::zeroed(count)?, DeviceBuffer::zeroed(count)?) };
    // SAFETY: as above.
    unsafe {
        launch!(module.saxpy<<<1, 256, 0, stream>>>(2.0f32, x.as_device_ptr(), y.as_device_ptr(), count.min(256) as u32))?;
    }
    stream.synchronize()?;
    Ok((module, stream, x, y))
}

/// Copies from every device to every other one, one copy after the other, and writes a table of GB/s.
fn bandwidths(contexts: &[PrimaryContext], bytes: usize) -> CudaResult<()> {
    println!("Copies of {} MiB from each device to each, in GB/s:", bytes >> 20);
    let headings = (0..contexts.len()).map(|to| format!(" {to:>8}"));
    println!("from \\ to{}", headings.collect::<String>());
    // SAFETY: zeros are bytes.
    let buffer = || unsafe { DeviceBuffer::<u8>::zeroed(bytes) };
    for (at, from) in contexts.iter().enumerate() {
        let source = from.scoped(|_| buffer())?;
        let mut row = String::new();
        for to in contexts {
            let time = to.scoped(|_| copy_time(&mut buffer()?, &source))?;
            row += &format!(" {:>8.1}", bytes as f64 / time.as_secs_f64() / 1e9);
        }
        println!("{at:>9}{row}");
    }
    Ok(())
}

/// The time of the shortest of some copies.
fn copy_time(dest: &mut DeviceBuffer<u8>, source: &DeviceBuffer<u8>) -> CudaResult<Duration> {
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let (before, after) = (Event::new(EventFlags::DEFAULT)?, Event::new(EventFlags::DEFAULT)?);
    let mut shortest = Duration::MAX;
    for _ in 0..5 {
        before.record(&stream)?;
        // SAFETY: the stream is synchronised before either side is used again.
        unsafe { dest.async_copy_from(source, &stream)? };
        after.record(&stream)?;
        stream.synchronize()?;
        shortest = shortest.min(after.elapsed_time(&before)?);
    }
    Ok(shortest.max(Duration::from_nanos(1)))
}
