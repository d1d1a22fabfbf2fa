//! Graphs.

use super::LIBRARY;
use super::ordered::stream;
use crate::measure::{Bench, Run};
use crate::tasks::*;
use custack::context::UnownedContext;
use custack::graph::InstantiateFlags;
use custack::launch;
use custack::module::Module;
use custack::stream::CaptureMode;

fn launch_graph(context: &UnownedContext, kernels: usize, run: &Run) {
    let module = context.scoped(|_| Module::load_from_string(EMPTY_KERNEL)).unwrap();
    let empty = module.get_function(c"empty").unwrap();
    let mut stream = stream(context);
    let mut graph = stream
        .capture(CaptureMode::ThreadLocal, |capture| {
            // SAFETY: the kernel takes these and does nothing.
            (0..kernels).try_for_each(|_| unsafe { launch!(empty<<<1, 32, 0, capture>>>(0u64, 1u32)) })
        })
        .unwrap();
    let mut executable = graph.instantiate(InstantiateFlags::empty()).unwrap();
    run.time_and_wait(|| executable.launch(&stream).unwrap(), || stream.synchronize().unwrap());
}

pub fn benches(context: &'static UnownedContext) -> Vec<Bench> {
    let graph = |(task, kernels)| {
        // The raw driver and cudarc have the context current, so custack has it, too.
        Bench::new(task, LIBRARY, move |run| {
            context.scoped(|_| Ok(launch_graph(context, kernels, run))).unwrap();
        })
    };
    GRAPHS.map(graph).into()
}
