//! RustaCUDA 0.1.3.

#[path = "work.rs"]
mod work;

use crate::measure::Bench;
use crate::raw;
use crate::tasks::*;
use ::rustacuda as library;
use rustacuda::CudaFlags;
use rustacuda::context::{Context, ContextFlags, ContextStack, CurrentContext, UnownedContext};
use rustacuda::device::Device;
use rustacuda::error::CudaResult;
use std::hint::black_box;

const LIBRARY: &str = "rustacuda";

/// A context that all libraries use: the cost of a push on several threads depends on where in memory the driver keeps
/// the context's count, so separate contexts would compare addresses.
#[derive(Clone, Copy)]
pub struct Shared {
    /// The owner is `!Send`; the handle goes to other threads.
    handle: &'static UnownedContext,
    pub raw: usize,
    pub device: u32,
}

/// Two contexts on the first device, and one on each device if there are several.
pub struct Contexts {
    pub pair: [Shared; 2],
    pub devices: Vec<Shared>,
}

fn context(device: u32) -> CudaResult<Shared> {
    let context = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(device)?)?;
    let raw = raw::current();
    ContextStack::pop()?;
    let handle = Box::leak(Box::new(context.get_unowned()));
    std::mem::forget(context);
    Ok(Shared { handle, raw, device })
}

/// RustaCUDA cannot take over a handle, so it creates the contexts.
pub fn contexts() -> CudaResult<Contexts> {
    rustacuda::init(CudaFlags::empty())?;
    let pair = [context(0)?, context(0)?];
    let count = Device::num_devices()?;
    let devices = if count > 1 { (0..count).map(context).collect::<Result<_, _>>()? } else { Vec::new() };
    Ok(Contexts { pair, devices })
}

#[inline]
fn scope(context: &UnownedContext) {
    ContextStack::push(context).unwrap();
    black_box(ContextStack::pop().unwrap());
}

pub fn benches(contexts: &Contexts) -> Result<Vec<Bench>, String> {
    let [a, b] = contexts.pair.map(|context| context.handle);
    let foreign = contexts.pair[0].raw;
    let driver = raw::Driver::open().map_err(|error| error.to_string())?;
    let mut benches = vec![
        Bench::new(CURRENT, LIBRARY, move |run| {
            ContextStack::push(a).unwrap();
            run.time(|| scope(a));
            ContextStack::pop().unwrap();
        }),
        Bench::new(EMPTY, LIBRARY, move |run| run.time(|| scope(a))),
        Bench::new(SWITCH, LIBRARY, move |run| {
            ContextStack::push(a).unwrap();
            run.time(|| scope(b));
            ContextStack::pop().unwrap();
        }),
        Bench::new(PUSH_POP, LIBRARY, move |run| run.time(|| scope(a))),
        Bench::new(SET, LIBRARY, move |run| {
            ContextStack::push(a).unwrap();
            run.time(|| CurrentContext::set_current(a).unwrap());
            ContextStack::pop().unwrap();
        }),
        Bench::new(GET, LIBRARY, move |run| {
            ContextStack::push(a).unwrap();
            run.time(|| {
                black_box(CurrentContext::get_current().unwrap());
            });
            ContextStack::pop().unwrap();
        }),
        Bench::new(QUERY, LIBRARY, move |run| {
            ContextStack::push(a).unwrap();
            run.time(|| assert_eq!(CurrentContext::get_stream_priority_range().unwrap().least, 0));
            ContextStack::pop().unwrap();
        }),
        Bench::new(QUERY_OTHER, LIBRARY, move |run| {
            run.time(|| {
                ContextStack::push(a).unwrap();
                assert_eq!(CurrentContext::get_stream_priority_range().unwrap().least, 0);
                ContextStack::pop().unwrap();
            });
        }),
        Bench::new(HANDLE, LIBRARY, move |run| {
            run.time(|| {
                black_box(a.clone());
            })
        }),
        Bench::new(FOREIGN, LIBRARY, move |run| {
            driver.set(foreign);
            run.time(|| scope(a));
            driver.pop();
        }),
        Bench::new(FOREIGN_SWITCH, LIBRARY, move |run| {
            driver.push(foreign);
            run.time(|| scope(b));
            driver.pop();
        }),
    ];
    benches.extend(work::benches(a));
    for (task, depth) in NESTED {
        let mut nested = Bench::new(task, LIBRARY, move |run| {
            run.time(|| {
                for level in 0..depth {
                    ContextStack::push(if level % 2 == 0 { a } else { b }).unwrap();
                }
                for _ in 0..depth {
                    black_box(ContextStack::pop().unwrap());
                }
            });
        });
        nested.per_iteration = depth as u64;
        benches.push(nested);
    }
    if !contexts.devices.is_empty() {
        let contexts: Vec<_> = contexts.devices.iter().map(|context| context.handle).collect();
        let count = contexts.len();
        let mut devices = Bench::new(DEVICES, LIBRARY, move |run| {
            run.time(|| contexts.iter().for_each(|context| scope(context)));
        });
        devices.per_iteration = count as u64;
        benches.push(devices);
    }
    Ok(benches)
}
