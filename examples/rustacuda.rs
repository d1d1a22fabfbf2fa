//! RustaCUDA's three documented patterns, unchanged except for the crate's name.
//!
//! `cargo run --example rustacuda`

// In a program that moves over, Cargo.toml has this rename instead: rustacuda = { package = "custack", version = "..."
// }
extern crate custack as rustacuda;

use rustacuda::context::{Context, ContextFlags, ContextStack, CurrentContext};
use rustacuda::device::Device;
use std::error::Error;

fn single_context() -> Result<(), Box<dyn Error>> {
    rustacuda::init(rustacuda::CudaFlags::empty())?;
    let device = Device::get_device(0)?;
    let context = Context::create_and_push(ContextFlags::MAP_HOST | ContextFlags::SCHED_AUTO, device)?;
    // call functions which use the context
    CurrentContext::synchronize()?;

    // The context will be destroyed when dropped or it falls out of scope.
    drop(context);
    Ok(())
}

fn several_threads() -> Result<(), Box<dyn Error>> {
    let device = Device::get_device(0)?;
    let context = Context::create_and_push(ContextFlags::MAP_HOST | ContextFlags::SCHED_AUTO, device)?;
    let mut join_handles = vec![];

    for _ in 0..4 {
        let unowned = context.get_unowned();
        let join_handle = std::thread::spawn(move || {
            CurrentContext::set_current(&unowned).unwrap();
            // Call functions which use the context
            CurrentContext::synchronize().unwrap();
        });
        join_handles.push(join_handle);
    }
    // With RustaCUDA the other threads must not be using the context when it is destroyed. Here they would get an
    // error, but waiting for them is still good practice.
    for handle in join_handles {
        handle.join().unwrap();
    }
    drop(context);
    Ok(())
}

fn several_devices() -> Result<(), Box<dyn Error>> {
    // Create and pop contexts for each device
    let mut contexts = vec![];
    for device in Device::devices()? {
        let device = device?;
        let ctx = Context::create_and_push(ContextFlags::MAP_HOST | ContextFlags::SCHED_AUTO, device)?;
        ContextStack::pop()?;
        contexts.push(ctx);
    }
    CurrentContext::set_current(&contexts[0])?;

    // Call functions which will use the context
    println!(
        "several devices: {} contexts, device {:?} is current",
        contexts.len(),
        CurrentContext::get_device()?
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    rustacuda::init(rustacuda::CudaFlags::empty())?;
    println!("Running on {}: {}.", rustacuda::driver::current()?, Device::get_device(0)?.name()?);
    single_context()?;
    println!("one device, one thread: done");
    several_threads()?;
    println!("one device, several threads: done");
    several_devices()
}
