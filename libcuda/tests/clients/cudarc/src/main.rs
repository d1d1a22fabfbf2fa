//! cudarc: contexts on two threads, bound in turn, and a kernel in a stream of each.

use cudarc::driver::{result, CudaContext, DriverError, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use std::sync::Arc;

const COUNT: usize = 1000;
const SUM: &str = include_str!("../../sum.ptx");

/// Adds two vectors of numbers in a context.
fn add(context: &Arc<CudaContext>, own: usize) -> Result<(), DriverError> {
    let stream = context.new_stream()?;
    let x: Vec<f32> = (0..COUNT).map(|i| i as f32).collect();
    let mut a = stream.clone_htod(&x)?;
    let b = stream.clone_htod(&vec![100.0 * own as f32; COUNT])?;
    let sum = context.load_module(Ptx::from_src(SUM))?.load_function("sum")?;
    let count = COUNT as u32;
    let mut launch = stream.launch_builder(&sum);
    launch.arg(&mut a).arg(&b).arg(&count);
    unsafe { launch.launch(LaunchConfig { grid_dim: (8, 1, 1), block_dim: (128, 1, 1), shared_mem_bytes: 0 })? };
    let sums = stream.clone_dtoh(&a)?;
    assert!(sums.iter().enumerate().all(|(i, sum)| *sum == (i + 100 * own) as f32), "{sums:?}");
    Ok(())
}

fn work(own: usize, primary: &Arc<CudaContext>) -> Result<(), DriverError> {
    assert_eq!(result::ctx::get_current()?, None);
    primary.bind_to_thread()?;
    assert_eq!(result::ctx::get_current()?, Some(primary.cu_ctx()));
    add(primary, own)?;
    // Another context takes the place of the primary one, which comes back when it is bound.
    let other = CudaContext::new_non_primary(0, 0)?;
    assert_eq!(result::ctx::get_current()?, Some(other.cu_ctx()));
    add(&other, own)?;
    add(primary, own)?;
    assert_eq!(result::ctx::get_current()?, Some(primary.cu_ctx()));
    drop(other);
    assert_eq!(result::ctx::get_current()?, Some(primary.cu_ctx()));
    println!("{own}: {COUNT} sums are right");
    Ok(())
}

fn main() -> Result<(), DriverError> {
    let primary = CudaContext::new(0)?;
    for own in 0..2 {
        let primary = primary.clone();
        std::thread::spawn(move || work(own, &primary)).join().unwrap()?;
    }
    assert_eq!(result::ctx::get_current()?, Some(primary.cu_ctx()));
    Ok(())
}
