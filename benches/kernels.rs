//! How fast the simulated driver executes kernels.
//!
//! `CUSTACK_DRIVER=sim cargo bench --bench kernels` runs it; `custack-sim/tests/README.md` has figures.

#![allow(unsafe_code)]

use criterion::{Criterion, Throughput};
use custack::CudaFlags;
use custack::error::CudaResult;
use custack::launch;
use custack::memory::DeviceBuffer;
use custack::module::Module;
use custack::stream::{Stream, StreamFlags};
use std::time::Duration;

/// Instructions of a thread each time around.
const AROUND: u64 = 5;

fn around(criterion: &mut Criterion, module: &Module, stream: &Stream) {
    let mut group = criterion.benchmark_group("simple instructions");
    for (name, grid, block, times) in [
        ("of one thread", 1, 1, 100_000),
        ("of one warp", 1, 32, 100_000),
        ("of 64 blocks of 256", 64, 256, 10_000),
    ] {
        group.throughput(Throughput::Elements(u64::from(grid * block * times) * AROUND));
        group.bench_function(name, |bench| {
            bench.iter(|| {
                // SAFETY: the kernel takes one number, and touches no memory.
                unsafe { launch!(module.around<<<grid, block, 0, stream>>>(times)) }.expect("a launch");
                stream.synchronize().expect("an end");
            });
        });
    }
}

fn memory(criterion: &mut Criterion, module: &Module, stream: &Stream) -> CudaResult<()> {
    let count = 1u32 << 20;
    let mut buffers =
        [0, 1].map(|_| DeviceBuffer::from_slice(&vec![1.0f32; count as usize]).expect("memory"));
    let [x, y] = buffers.each_mut().map(|buffer| buffer.as_device_ptr());
    criterion.bench_function("saxpy of 1024 x 1024", |bench| {
        bench.iter(|| {
            let (grid, block) = (count / 256, 256);
            // SAFETY: both buffers have as many values.
            unsafe { launch!(module.saxpy<<<grid, block, 0, stream>>>(count, 0.5f32, x, y)) }
                .expect("a launch");
            stream.synchronize().expect("an end");
        });
    });
    let n = 256u32;
    let mut buffers =
        [0, 1, 2].map(|_| DeviceBuffer::from_slice(&vec![0.5f32; (n * n) as usize]).expect("memory"));
    let [a, b, c] = buffers.each_mut().map(|buffer| buffer.as_device_ptr());
    criterion.bench_function("tiled product of 256 x 256", |bench| {
        bench.iter(|| {
            let (grid, block) = ((n / 16, n / 16), (16, 16));
            // SAFETY: the buffers have n by n values.
            unsafe { launch!(module.product<<<grid, block, 0, stream>>>(n, a, b, c)) }.expect("a launch");
            stream.synchronize().expect("an end");
        });
    });
    criterion.bench_function("2^20 empty blocks", |bench| {
        bench.iter(|| {
            let blocks = 1u32 << 20;
            // SAFETY: the kernel does nothing.
            unsafe { launch!(module.nothing<<<blocks, 1, 0, stream>>>()) }.expect("a launch");
            stream.synchronize().expect("an end");
        });
    });
    Ok(())
}

fn main() -> CudaResult<()> {
    custack::init(CudaFlags::empty())?;
    let _context = custack::quick_init()?;
    println!("Running on {}.", custack::driver::current().expect("a driver"));
    let module = Module::load_from_bytes(include_bytes!("kernels.ptx"))?;
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let short = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2));
    let mut criterion = short.configure_from_args();
    around(&mut criterion, &module, &stream);
    memory(&mut criterion, &module, &stream)?;
    criterion.final_summary();
    Ok(())
}
