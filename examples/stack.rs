//! The tour: two contexts, nested scopes, a snapshot, guards dropped out of order, and a handle whose owner is gone.
//!
//! `cargo run --example stack`

use custack::context::{ContextStack, CurrentContext};
use custack::error::Failure;
use custack::prelude::*;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    custack::init(CudaFlags::empty())?;
    let device = Device::get_device(0)?;
    println!("Running on {}: {}.\n", custack::driver::current()?, device.name()?);

    // Creating a context makes it current, on top of what was current before.
    let a = Context::create_and_push(ContextFlags::SCHED_AUTO, device)?;
    let b = Context::create_and_push(ContextFlags::SCHED_BLOCKING_SYNC, device)?;
    println!("Two contexts were created, so the second one is current:\n{}\n", ContextStack::snapshot()?);

    // A scope makes a context current and restores the stack when it ends, also after an error or a panic.
    a.scoped(|current| {
        println!("In a scope of {current}:\n{}\n", ContextStack::snapshot()?);
        b.scoped(|inner| {
            println!("And in one of {inner} within it:\n{}\n", ContextStack::snapshot()?);
            Ok(())
        })
    })?;
    println!("After both the stack is what it was: {} is current.\n", CurrentContext::get_current()?);

    // The methods of a context need no scope; they enter the context themselves.
    println!("{}: {:?}, streams from {:?}\n", a, a.flags()?, a.stream_priority_range()?);

    // Guards are for scopes that do not fit a closure. They may be dropped in any order.
    let outer = a.enter()?;
    let inner = b.enter()?;
    drop(outer);
    println!("The outer guard was dropped first, and the inner one's context stays current: {inner}.");
    drop(inner);
    println!("After both: {} is current, {} deep.\n", CurrentContext::get_current()?, ContextStack::depth());

    // An entry that a guard holds cannot be popped.
    let guard = a.enter()?;
    println!("Popping an entry that a guard holds: {}.\n", ContextStack::pop().unwrap_err().failure());
    drop(guard);

    // A handle may outlive its owner. It returns an error without a call to the driver, which would crash.
    let handle = a.get_unowned();
    drop(a);
    println!(
        "The owner is gone. Pushing its handle: {}.",
        ContextStack::push(&handle).unwrap_err().failure()
    );
    // A failure takes its text along to the thread that joins.
    let worker = std::thread::spawn(move || handle.synchronize().map_err(Failure::from));
    println!("Synchronising it on another thread: {}.\n", worker.join().unwrap().unwrap_err());

    drop(b);
    println!("At the end {}.", ContextStack::snapshot()?);
    Ok(())
}
