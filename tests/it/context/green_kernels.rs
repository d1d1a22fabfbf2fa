//! Kernels in green contexts: on which multiprocessors they run, and that two of them run side by side.

// Launches kernels.
#![allow(unsafe_code)]

use super::green::all;
use crate::harness::{is_simulated, run};
use custack::context::GreenContext;
use custack::device::SmResource;
use custack::error::CudaError;
use custack::function::Function;
use custack::graph::{Graph, InstantiateFlags};
use custack::launch;
use custack::memory::CopyDestination;
use custack::module::Module;
use custack::stream::{BorrowedStream, CaptureMode, Stream, StreamFlags};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const TEXT: &str = ".version 7.0
.target sm_70
.address_size 64
.visible .entry where(.param .u64 out) {
    .reg .b64 %rd<4>; .reg .b32 %r<3>;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %smid; mov.u32 %r2, %ctaid.x;
    mul.wide.u32 %rd2, %r2, 4; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1; ret;
}
.visible .entry meets(.param .u64 own, .param .u64 other) {
    .reg .b64 %rd<3>; .reg .b32 %r1; .reg .pred %p1;
    ld.param.u64 %rd1, [own]; ld.param.u64 %rd2, [other]; st.volatile.global.u32 [%rd1], 1; membar.sys;
again:
    ld.volatile.global.u32 %r1, [%rd2]; setp.eq.u32 %p1, %r1, 0; @%p1 bra again; ret;
}
.visible .entry takes(.param .u64 cycles) {
    .reg .b64 %rd<5>; .reg .pred %p1;
    ld.param.u64 %rd1, [cycles]; mov.u64 %rd2, %clock64;
again:
    mov.u64 %rd3, %clock64; sub.u64 %rd4, %rd3, %rd2; setp.lt.u64 %p1, %rd4, %rd1; @%p1 bra again; ret;
}";
const BLOCKS: usize = 1024;

/// Two green contexts of different parts, and the primary context's module.
fn two_parts() -> ([GreenContext; 2], Module) {
    let groups = all().split(2, all().count() / 8).unwrap().groups;
    let greens = [&groups[0], &groups[1]].map(|part: &SmResource| GreenContext::new(part).unwrap());
    let module = greens[0].primary().load_module(TEXT.as_bytes()).unwrap();
    (greens, module)
}

/// The multiprocessors on which a kernel's blocks ran.
fn used(function: &Function<'_>, stream: &Stream) -> BTreeSet<u32> {
    let mut memory = stream.context().device_buffer(&[0u32; BLOCKS]).unwrap();
    // SAFETY: the kernel has this parameter, and writes a number for each block.
    unsafe { launch!(function<<<BLOCKS as u32, 32, 0, stream>>>(memory.as_device_ptr())) }.unwrap();
    stream.synchronize().unwrap();
    let mut seen = [0; BLOCKS];
    memory.copy_to(&mut seen).unwrap();
    seen.into_iter().collect()
}

#[test]
fn the_parts_of_a_split_have_no_multiprocessor_in_common() {
    run(|| {
        let (mut greens, module) = two_parts();
        let function = module.get_function(c"where").unwrap();
        let streams = [0, 1].map(|at| greens[at].create_stream(None).unwrap());
        let [one, two] = [0, 1].map(|at: usize| used(&function, &streams[at]));
        let count = greens[0].sm_resource().unwrap().count() as usize;
        assert_eq!((one.len(), two.len()), (count, count));
        assert!(one.is_disjoint(&two), "{one:?} {two:?}");
        let by_default = greens[1].scoped(|_| {
            // SAFETY: NULL is the default stream of the context that is current.
            let stream = unsafe { BorrowedStream::from_raw(std::ptr::null_mut()) }?;
            Ok::<_, custack::error::CudaError>(used(&function, &stream))
        });
        assert_eq!(by_default.unwrap(), two);
    });
}

/// Launches both kernels, each of which ends when the other one has begun.
fn meet(function: &Function<'_>, streams: [&Stream; 2]) {
    let mut flags = streams[0].context().device_buffer(&[0u32; 2]).unwrap();
    let [a, b] = [0, 1].map(|index: usize| flags[index..].as_device_ptr());
    let (one, two) = (streams[0], streams[1]);
    // SAFETY: the kernel has these parameters, which are words of a buffer that lives until both are done.
    unsafe {
        launch!(function<<<1, 1, 0, one>>>(a, b)).unwrap();
        launch!(function<<<1, 1, 0, two>>>(b, a)).unwrap();
    }
    one.synchronize().unwrap();
    two.synchronize().unwrap();
}

#[test]
fn kernels_of_two_green_contexts_run_side_by_side() {
    run(|| {
        let (greens, module) = two_parts();
        let function = module.get_function(c"meets").unwrap();
        let streams = [0, 1].map(|at: usize| greens[at].create_stream(None).unwrap());
        for _ in 0..10 {
            meet(&function, [&streams[0], &streams[1]]);
        }
    });
}

#[test]
fn two_that_fill_their_parts_take_as_long_as_one() {
    run(|| {
        let (greens, module) = two_parts();
        let function = module.get_function(c"takes").unwrap();
        let [one, two] = [0, 1].map(|at: usize| greens[at].create_stream(None).unwrap());
        // All that a part has at once: on a GPU a twentieth of a second, and on the simulated driver next to nothing.
        let cycles: u64 = if is_simulated() { 1 } else { 100_000_000 };
        let blocks = greens[0].sm_resource().unwrap().count() * 8;
        let function = &function;
        let both = |streams: &[&Stream]| -> Duration {
            let begun = Instant::now();
            for stream in streams {
                let stream = *stream;
                // SAFETY: the kernel has this parameter, and no memory.
                unsafe { launch!(function<<<blocks, 256, 0, stream>>>(cycles)) }.unwrap();
            }
            streams.iter().for_each(|stream| stream.synchronize().unwrap());
            begun.elapsed()
        };
        both(&[&one, &two]);
        let (alone, together) = (both(&[&one]), both(&[&one, &two]));
        println!("one takes {alone:?}, two take {together:?}");
        assert!(is_simulated() || together < alone * 3 / 2, "{alone:?} {together:?}");
    });
}

/// An H200 crashes in a launch of a kernel whose green context is gone.
#[test]
fn whatever_comes_of_a_graph_that_was_captured_in_a_green_context_is_launched_while_that_lives() {
    run(|| {
        let ([made, _], module) = two_parts();
        let (primary, function) = (made.primary().clone(), module.get_function(c"where").unwrap());
        let mut memory = primary.device_buffer(&[0u32; BLOCKS]).unwrap();
        let to = memory.as_device_ptr();
        // SAFETY: the kernel has this parameter, and writes a number for each block into memory that lives longer.
        let work = |stream: &Stream| unsafe { launch!(function<<<BLOCKS as u32, 32, 0, stream>>>(to)) };
        let mut plain = primary.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let mut own = made.create_stream(None).unwrap();
        let mut graphs = vec![
            own.capture(CaptureMode::ThreadLocal, |within| work(within)).unwrap(),
            plain
                .capture(CaptureMode::ThreadLocal, |capture| capture.fork(&mut own, |within| work(within)))
                .unwrap(),
        ];
        let mut execs = Vec::new();
        for at in 0..2 {
            let mut copy = graphs[at].try_clone().unwrap();
            let mut parent = Graph::new(&primary).unwrap();
            parent.add_child(&[], &mut copy).unwrap();
            let mut updated = graphs[at].instantiate(InstantiateFlags::empty()).unwrap();
            updated.update(&mut copy).unwrap();
            execs.push(updated);
            graphs.extend([copy, parent]);
        }
        let instantiate = |graph: &mut Graph| graph.instantiate(InstantiateFlags::empty()).unwrap();
        execs.extend(graphs.iter_mut().map(instantiate));
        for exec in &mut execs {
            exec.launch(&plain).unwrap();
        }
        plain.synchronize().unwrap();
        drop((own, made));
        for exec in &mut execs {
            assert_eq!(exec.launch(&plain), Err(CudaError::ContextIsDestroyed));
        }
        // The driver's is there as long as any of them.
        for (mut graph, exec) in graphs.into_iter().zip(execs) {
            drop(exec);
            let late = graph.instantiate(InstantiateFlags::empty());
            let launched = late.and_then(|mut exec| exec.launch(&plain));
            assert_eq!(launched, Err(CudaError::ContextIsDestroyed));
        }
        plain.synchronize().unwrap();
    });
}
