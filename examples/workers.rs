//! One context, handles to it on several threads, and their results collected.
//!
//! `cargo run --example workers`

use custack::context::{CurrentContext, ResourceLimit, UnownedContext};
use custack::error::Failure;
use custack::prelude::*;
use std::error::Error;
use std::sync::mpsc;
use std::thread;

const WORKERS: usize = 4;
const ROUNDS: usize = 1000;

/// A worker's job: here it queries the context; in your program it would launch kernels.
fn work(worker: usize, context: &UnownedContext) -> Result<String, Failure> {
    // Once for all rounds; each round's own scope then finds its context current, and writes nothing that the workers
    // share.
    let done = context.scoped(|_| {
        for _ in 0..ROUNDS {
            context.scoped(|current| current.synchronize())?;
        }
        let stack = CurrentContext::get_resource_limit(ResourceLimit::StackSize)?;
        Ok(format!("worker {worker} did {ROUNDS} rounds in {context}, with {stack} bytes of stack a thread"))
    });
    // With what was asked, for the thread that joins this one.
    done.map_err(Failure::from)
}

fn main() -> Result<(), Box<dyn Error>> {
    custack::init(CudaFlags::empty())?;
    let device = Device::get_device(0)?;
    println!("Running on {}: {}.", custack::driver::current()?, device.name()?);

    let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, device)?;
    ctx.set_limit(ResourceLimit::StackSize, 4096)?;

    let (results, gathered) = mpsc::channel();
    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            // A handle is cheap, may be sent to any thread, and knows when its context is destroyed.
            let context = ctx.get_unowned();
            let results = results.clone();
            thread::spawn(move || results.send(work(worker, &context)))
        })
        .collect();
    drop(results);

    let mut lines = gathered.iter().collect::<Result<Vec<String>, Failure>>()?;
    lines.sort();
    lines.iter().for_each(|line| println!("{line}"));
    for worker in workers {
        worker.join().expect("a worker panicked")?;
    }

    // The context is destroyed with its owner; a handle that is left returns an error instead of crashing.
    let late = ctx.get_unowned();
    drop(ctx);
    println!("a late worker: {}", work(WORKERS, &late).unwrap_err());
    Ok(())
}
