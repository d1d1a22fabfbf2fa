//! custack.

use crate::measure::Bench;
use crate::rusta::{Contexts, Shared};
use crate::tasks::*;
use custack::CudaFlags;
use custack::context::{ContextStack, CurrentContext, UnownedContext};
use custack::launch;
use custack::module::Module;
use custack::stream::{Stream, StreamFlags};
use std::ffi::{CStr, CString};
use std::hint::black_box;

const LIBRARY: &str = "custack";

fn context(shared: Shared) -> &'static UnownedContext {
    // SAFETY: nobody destroys the contexts.
    Box::leak(Box::new(unsafe { UnownedContext::from_raw(shared.raw as _) }))
}

fn scope(context: &UnownedContext) {
    drop(black_box(context.enter().unwrap()));
}

pub fn benches(contexts: &Contexts) -> Result<Vec<Bench>, String> {
    custack::init(CudaFlags::empty()).map_err(|error| error.to_string())?;
    let [a, b] = contexts.pair.map(context);
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
    ];
    benches.push(Bench::new(LAUNCH, LIBRARY, move |run| {
        ContextStack::push(a).unwrap();
        let module =
            Module::load_from_string(CStr::from_bytes_with_nul(EMPTY_KERNEL.as_bytes()).unwrap()).unwrap();
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        let name = CString::new("empty").unwrap();
        let empty = module.get_function(&name).unwrap();
        run.time(|| {
            // SAFETY: the kernel takes these and does nothing.
            unsafe { launch!(empty<<<1, 32, 0, stream>>>(0u64, 1u32)) }.unwrap();
        });
        stream.synchronize().unwrap();
        ContextStack::pop().unwrap();
    }));
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
