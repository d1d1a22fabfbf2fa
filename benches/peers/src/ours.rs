//! custack.

mod awaiting;
mod graph;
mod ordered;
#[path = "work.rs"]
mod work;

use crate::measure::Bench;
use crate::raw;
use crate::rusta::{Contexts, Shared};
use crate::tasks::*;
use ::custack as library;
use custack::CudaFlags;
use custack::context::PrimaryContext;
use custack::context::{ContextStack, CurrentContext, UnownedContext};
use custack::device::Device;
use std::hint::black_box;

const LIBRARY: &str = "custack";

fn context(shared: Shared) -> &'static UnownedContext {
    // SAFETY: the contexts are never destroyed.
    Box::leak(Box::new(unsafe { UnownedContext::from_raw(shared.raw as _) }))
}

fn primary() -> Result<&'static UnownedContext, String> {
    let retained = Device::get_device(0).and_then(PrimaryContext::retain);
    let context: &PrimaryContext = Box::leak(Box::new(retained.map_err(|error| error.to_string())?));
    Ok(Box::leak(Box::new(context.get_unowned())))
}

fn scope(context: &UnownedContext) {
    drop(black_box(context.enter().unwrap()));
}

pub fn benches(contexts: &Contexts) -> Result<Vec<Bench>, String> {
    custack::init(CudaFlags::empty()).map_err(|error| error.to_string())?;
    let [a, b] = contexts.pair.map(context);
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
        Bench::new(PUSH_POP, LIBRARY, move |run| {
            run.time(|| {
                ContextStack::push(a).unwrap();
                black_box(ContextStack::pop().unwrap());
            });
        }),
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
            run.time(|| assert_eq!(a.stream_priority_range().unwrap().least, 0));
            ContextStack::pop().unwrap();
        }),
        Bench::new(QUERY_OTHER, LIBRARY, move |run| {
            run.time(|| assert_eq!(a.stream_priority_range().unwrap().least, 0));
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
    benches.push(ordered::bench(a));
    benches.extend(graph::benches(a));
    benches.extend(awaiting::benches(primary()?));
    for (task, depth) in NESTED {
        let mut nested = Bench::new(task, LIBRARY, move |run| {
            let mut guards = Vec::with_capacity(depth);
            run.time(|| {
                for level in 0..depth {
                    guards.push(if level % 2 == 0 { a } else { b }.enter().unwrap());
                }
                while guards.pop().is_some() {}
            });
        });
        nested.per_iteration = depth as u64;
        benches.push(nested);
    }
    if !contexts.devices.is_empty() {
        let contexts: Vec<_> = contexts.devices.iter().copied().map(context).collect();
        let count = contexts.len();
        let mut devices = Bench::new(DEVICES, LIBRARY, move |run| {
            run.time(|| contexts.iter().for_each(|context| scope(context)));
        });
        devices.per_iteration = count as u64;
        benches.push(devices);
    }
    Ok(benches)
}
