//! The cost of scopes and stack calls on the selected driver: the simulated one on a laptop, the NVIDIA driver on a
//! machine with a GPU.
//!
//! `cargo bench` runs it; `benches/peers` compares with other libraries.

use criterion::Criterion;
use custack::CudaFlags;
use custack::context::{Context, ContextFlags, ContextStack, CurrentContext};
use custack::device::Device;
use custack::error::CudaResult;
use std::hint::black_box;
use std::time::Duration;

fn parked() -> CudaResult<Context> {
    custack::init(CudaFlags::empty())?;
    let context = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    ContextStack::pop()?;
    Ok(context)
}

fn scopes(criterion: &mut Criterion) {
    let driver = custack::driver::current().expect("a driver");
    println!("Running on {driver}.");
    let (a, b) = (parked().expect("a context"), parked().expect("a context"));

    criterion.bench_function("push and pop", |bench| {
        bench.iter(|| {
            ContextStack::push(&a).unwrap();
            black_box(ContextStack::pop().unwrap());
        });
    });
    criterion
        .bench_function("scope from an empty stack", |bench| bench.iter(|| a.scoped(|_| Ok(())).unwrap()));
    ContextStack::push(&a).unwrap();
    criterion
        .bench_function("scope over another context", |bench| bench.iter(|| b.scoped(|_| Ok(())).unwrap()));
    criterion.bench_function("scope, context current", |bench| bench.iter(|| a.scoped(|_| Ok(())).unwrap()));
    criterion.bench_function("get_current", |bench| bench.iter(|| CurrentContext::get_current().unwrap()));
    criterion.bench_function("set_current", |bench| bench.iter(|| CurrentContext::set_current(&a).unwrap()));
    criterion
        .bench_function("priority range, current", |bench| bench.iter(|| a.stream_priority_range().unwrap()));
    criterion.bench_function("limit, not current", |bench| {
        bench.iter(|| b.limit(custack::context::ResourceLimit::StackSize).unwrap());
    });
    criterion.bench_function("refused: the owner is gone", |bench| {
        let gone = parked().unwrap().get_unowned();
        bench.iter(|| gone.enter().is_err());
    });
    ContextStack::pop().unwrap();
}

fn main() {
    let short = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    let mut criterion = short.configure_from_args();
    scopes(&mut criterion);
    criterion.final_summary();
}
