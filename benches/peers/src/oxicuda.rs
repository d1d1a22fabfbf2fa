//! oxicuda-driver. `scoped` is its only way to make a context current. It cannot query a context's priority range.

use crate::measure::Bench;
use crate::rusta::{Contexts, Shared};
use crate::tasks::*;
use oxicuda_driver::CudaResult;
use oxicuda_driver::context::Context;
use oxicuda_driver::device::Device;
use oxicuda_driver::ffi::CUcontext;
use std::hint::black_box;
use std::sync::Arc;

const LIBRARY: &str = "oxicuda";

fn context(shared: Shared) -> CudaResult<&'static Arc<Context>> {
    let device = Device::get(shared.device as i32)?;
    // SAFETY: the contexts are never destroyed, and belong to this device.
    let context = unsafe { Context::from_raw_borrowed(CUcontext(shared.raw as _), device) };
    Ok(Box::leak(Box::new(Arc::new(context))))
}

fn scope(context: &Context) {
    context.scoped(|| Ok(black_box(0))).unwrap();
}

fn nest(depth: usize, outer: &Context, inner: &Context) -> CudaResult<()> {
    if depth == 0 { Ok(()) } else { outer.scoped(|| nest(depth - 1, inner, outer)) }
}

pub fn benches(contexts: &Contexts) -> Result<Vec<Bench>, String> {
    all(contexts).map_err(|error| format!("{error:?}"))
}

fn all(contexts: &Contexts) -> CudaResult<Vec<Bench>> {
    oxicuda_driver::init()?;
    let [a, b] = [context(contexts.pair[0])?, context(contexts.pair[1])?];
    let mut benches = vec![
        Bench::new(CURRENT, LIBRARY, move |run| {
            a.set_current().unwrap();
            run.time(|| scope(a));
        }),
        Bench::new(EMPTY, LIBRARY, move |run| run.time(|| scope(a))),
        Bench::new(SWITCH, LIBRARY, move |run| {
            a.set_current().unwrap();
            run.time(|| scope(b));
        }),
        Bench::new(SET, LIBRARY, move |run| {
            a.set_current().unwrap();
            run.time(|| a.set_current().unwrap());
        }),
        Bench::new(GET, LIBRARY, move |run| {
            a.set_current().unwrap();
            run.time(|| {
                black_box(Context::current_raw().unwrap());
            });
        }),
        Bench::new(HANDLE, LIBRARY, move |run| run.time(|| drop(black_box(a.clone())))),
    ];
    for (task, depth) in NESTED {
        let mut nested = Bench::new(task, LIBRARY, move |run| run.time(|| nest(depth, a, b).unwrap()));
        nested.per_iteration = depth as u64;
        benches.push(nested);
    }
    if !contexts.devices.is_empty() {
        let contexts: Vec<_> = contexts.devices.iter().copied().map(context).collect::<Result<_, _>>()?;
        let count = contexts.len();
        let mut devices = Bench::new(DEVICES, LIBRARY, move |run| {
            run.time(|| contexts.iter().for_each(|context| scope(context)));
        });
        devices.per_iteration = count as u64;
        benches.push(devices);
    }
    Ok(benches)
}
