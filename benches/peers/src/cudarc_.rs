//! cudarc. `bind_to_thread` is its only way to make a context current, and it cannot undo that; where a task needs to,
//! the driver's own `cuCtxSetCurrent` is called through cudarc's thin layer. It has no nesting.

mod work;

use crate::measure::Bench;
use crate::rusta::{Contexts, Shared};
use crate::tasks::*;
use cudarc::driver::result::{ctx, stream};
use cudarc::driver::{CudaContext, DriverError};
use std::hint::black_box;
use std::ptr::null_mut;
use std::sync::Arc;

const LIBRARY: &str = "cudarc";

fn unbind() {
    // SAFETY: a null handle pops the thread's context.
    unsafe { ctx::set_current(null_mut()) }.unwrap();
}

fn context(shared: Shared) -> Result<&'static Arc<CudaContext>, DriverError> {
    cudarc::driver::result::init()?;
    // SAFETY: the contexts are never destroyed, and belong to this device.
    let context = unsafe {
        CudaContext::from_raw_context(shared.device as usize, shared.device as i32, shared.raw as _)
    }?;
    unbind();
    Ok(Box::leak(Box::new(context)))
}

fn primary() -> Result<&'static Arc<CudaContext>, DriverError> {
    let context = CudaContext::new(0)?;
    unbind();
    Ok(Box::leak(Box::new(context)))
}

pub fn benches(contexts: &Contexts) -> Result<Vec<Bench>, String> {
    all(contexts).map_err(|error| format!("error {:?}", error.0))
}

fn all(contexts: &Contexts) -> Result<Vec<Bench>, DriverError> {
    let [a, b] = [context(contexts.pair[0])?, context(contexts.pair[1])?];
    let mut benches = vec![
        Bench::new(CURRENT, LIBRARY, move |run| {
            a.bind_to_thread().unwrap();
            run.time(|| a.bind_to_thread().unwrap());
            unbind();
        }),
        Bench::new(EMPTY, LIBRARY, move |run| {
            run.time(|| {
                a.bind_to_thread().unwrap();
                unbind();
            });
        }),
        Bench::new(SWITCH, LIBRARY, move |run| {
            a.bind_to_thread().unwrap();
            run.time(|| {
                b.bind_to_thread().unwrap();
                a.bind_to_thread().unwrap();
            });
            unbind();
        }),
        Bench::new(QUERY, LIBRARY, move |run| {
            a.bind_to_thread().unwrap();
            run.time(|| {
                a.bind_to_thread().unwrap();
                assert_eq!(stream::get_priority_range().unwrap().0, 0);
            });
            unbind();
        }),
        Bench::new(QUERY_OTHER, LIBRARY, move |run| {
            run.time(|| {
                a.bind_to_thread().unwrap();
                assert_eq!(stream::get_priority_range().unwrap().0, 0);
                unbind();
            });
        }),
        Bench::new(HANDLE, LIBRARY, move |run| run.time(|| drop(black_box(a.clone())))),
        Bench::new(FOREIGN, LIBRARY, move |run| {
            // SAFETY: the contexts are never destroyed.
            unsafe { ctx::set_current(a.cu_ctx()) }.unwrap();
            run.time(|| a.bind_to_thread().unwrap());
            unbind();
        }),
    ];
    benches.extend(work::benches(a, primary()?));
    if !contexts.devices.is_empty() {
        let contexts: Vec<_> = contexts.devices.iter().copied().map(context).collect::<Result<_, _>>()?;
        let count = contexts.len();
        let mut devices = Bench::new(DEVICES, LIBRARY, move |run| {
            run.time(|| contexts.iter().for_each(|context| context.bind_to_thread().unwrap()));
            unbind();
        });
        devices.per_iteration = count as u64;
        benches.push(devices);
    }
    Ok(benches)
}
