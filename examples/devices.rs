//! One context for each device, and work spread over them.
//!
//! `cargo run --example devices`, or on a laptop with several simulated devices:
//! `CUSTACK_DRIVER=sim CUSTACK_SIM_DEVICES=4 cargo run --example devices`

use custack::context::{ContextStack, CurrentContext};
use custack::device::DeviceAttribute;
use custack::error::CudaResult;
use custack::prelude::*;
use std::error::Error;
use std::thread;

fn main() -> Result<(), Box<dyn Error>> {
    custack::init(CudaFlags::empty())?;
    let names = Device::devices()?.map(|device| device?.name()).collect::<CudaResult<Vec<_>>>()?;
    println!("Running on {}: {}.", custack::driver::current()?, names.join(", "));

    // Each context is popped after its creation: no device is preferred.
    let mut contexts = Vec::new();
    for device in Device::devices()? {
        contexts.push(Context::create_and_push(ContextFlags::SCHED_AUTO, device?)?);
        ContextStack::pop()?;
    }
    for ctx in &contexts {
        let device = ctx.device()?;
        let (major, minor) = device.compute_capability()?;
        println!(
            "{}: {}, compute capability {major}.{minor}, {} multiprocessors, {} GiB, at {}",
            ctx,
            device.name()?,
            device.get_attribute(DeviceAttribute::MultiprocessorCount)?,
            device.total_memory()? >> 30,
            device.pci_bus_id()?,
        );
    }

    // One thread per device, which keeps its context current.
    let jobs: Vec<u32> = (0..12).collect();
    let done = thread::scope(|scope| {
        let threads: Vec<_> = contexts
            .iter()
            .enumerate()
            .map(|(at, ctx)| {
                let mine: Vec<u32> = jobs.iter().copied().skip(at).step_by(contexts.len()).collect();
                scope.spawn(move || {
                    ctx.scoped(|current| {
                        current.synchronize()?;
                        Ok((CurrentContext::get_device()?, mine))
                    })
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a thread panicked"))
            .collect::<CudaResult<Vec<_>>>()
    })?;
    for (device, jobs) in done {
        println!("device {} did jobs {jobs:?}", device.as_raw());
    }

    // Or one thread for all devices, which switches from context to context.
    for ctx in contexts.iter().filter(|_| contexts.len() > 1) {
        ctx.scoped(|current| {
            let next = &contexts[(current.device()?.as_raw() as usize + 1) % contexts.len()];
            let reachable = current.device()?.can_access_peer(next.device()?)?;
            println!(
                "{} can{} access the memory of {}",
                **current,
                if reachable { "" } else { "not" },
                **next
            );
            Ok(())
        })?;
    }
    Ok(())
}
