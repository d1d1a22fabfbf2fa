//! RustaCUDA: contexts on two threads, pushed and popped, and a kernel in each.

use rustacuda::context::{ContextHandle, ContextStack, CurrentContext, UnownedContext};
use rustacuda::error::CudaError;
use rustacuda::launch;
use rustacuda::prelude::*;
use std::ffi::CString;

const COUNT: usize = 1000;
const SUM: &str = include_str!("../../sum.ptx");

/// Adds two vectors of numbers in the current context.
fn add(own: usize) -> Result<(), CudaError> {
    let module = Module::load_from_string(&CString::new(SUM).unwrap())?;
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let mut x: Vec<f32> = (0..COUNT).map(|i| i as f32).collect();
    let mut a = DeviceBuffer::from_slice(&x)?;
    let mut b = DeviceBuffer::from_slice(&vec![100.0 * own as f32; COUNT])?;
    unsafe {
        launch!(module.sum<<<8, 128, 0, stream>>>(a.as_device_ptr(), b.as_device_ptr(), COUNT as u32))?;
    }
    stream.synchronize()?;
    a.copy_to(&mut x)?;
    assert!(x.iter().enumerate().all(|(i, sum)| *sum == (i + 100 * own) as f32), "{x:?}");
    Ok(())
}

fn work(own: usize, of_main: UnownedContext) -> Result<(), CudaError> {
    assert!(CurrentContext::get_current()?.get_inner().is_null());
    let device = Device::get_device(0)?;
    let first = Context::create_and_push(ContextFlags::SCHED_AUTO, device)?;
    let second = Context::create_and_push(ContextFlags::SCHED_AUTO, device)?;
    let current = || Ok::<_, CudaError>(CurrentContext::get_current()?.get_inner());
    assert_eq!(current()?, second.get_inner());
    ContextStack::pop()?;
    assert_eq!(current()?, first.get_inner());
    add(own)?;
    ContextStack::push(&second)?;
    add(own)?;
    ContextStack::pop()?;
    // A context that another thread made, over the thread's own.
    ContextStack::push(&of_main)?;
    assert_eq!(current()?, of_main.get_inner());
    ContextStack::pop()?;
    assert_eq!(current()?, first.get_inner());
    drop(second);
    drop(first);
    assert!(current()?.is_null());
    assert_eq!(ContextStack::pop().err(), Some(CudaError::InvalidContext));
    println!("{own}: {COUNT} sums are right");
    Ok(())
}

fn main() -> Result<(), CudaError> {
    rustacuda::init(CudaFlags::empty())?;
    let device = Device::get_device(0)?;
    let context = Context::create_and_push(ContextFlags::SCHED_AUTO, device)?;
    for own in 0..2 {
        let of_main = context.get_unowned();
        std::thread::spawn(move || work(own, of_main)).join().unwrap()?;
    }
    assert_eq!(CurrentContext::get_current()?.get_inner(), context.get_inner());
    Ok(())
}
