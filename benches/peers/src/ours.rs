//! custack.

use crate::measure::Bench;
use crate::tasks::*;
use custack::CudaFlags;
use custack::context::{Context, ContextFlags, ContextStack, CurrentContext, UnownedContext};
use custack::device::Device;
use custack::error::CudaResult;
use std::hint::black_box;

const LIBRARY: &str = "custack";

fn context(device: u32) -> CudaResult<&'static Context> {
    let context = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(device)?)?;
    ContextStack::pop()?;
    Ok(Box::leak(Box::new(context)))
}

fn scope(context: &UnownedContext) {
    drop(black_box(context.enter().unwrap()));
}

pub fn benches() -> Result<Vec<Bench>, String> {
    all().map_err(|error| error.to_string())
}

fn all() -> CudaResult<Vec<Bench>> {
    custack::init(CudaFlags::empty())?;
    let (a, b) = (context(0)?, context(0)?);
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
        Bench::new(HANDLE, LIBRARY, move |run| run.time(|| drop(black_box(a.get_unowned())))),
    ];
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
    let count = Device::num_devices()?;
    if count > 1 {
        let contexts: Vec<_> = (0..count).map(context).collect::<Result<_, _>>()?;
        let mut devices = Bench::new(DEVICES, LIBRARY, move |run| {
            run.time(|| contexts.iter().for_each(|context| scope(context)));
        });
        devices.per_iteration = count.into();
        benches.push(devices);
    }
    Ok(benches)
}
