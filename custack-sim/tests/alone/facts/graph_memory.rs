//! What graphs own, keep and need: user objects, contexts, and memory of their own.

use super::capture::{memory, stream};
use super::graph::*;
use crate::harness::{drain, is_simulated, other, skip};
use crate::run_alone;
use custack_sys::ffi::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

fn user(counter: &AtomicU32) -> CUuserObject {
    let mut object = null_mut();
    counter.store(0, Ordering::SeqCst);
    let data = (&raw const *counter).cast_mut().cast();
    assert_eq!(call!(cuUserObjectCreate(&mut object, data, Some(count), 1, 1)), 0);
    object
}

#[test]
fn a_user_object_is_let_go_of_once_by_the_last_that_keeps_it() {
    bench(|| {
        static DONE: AtomicU32 = AtomicU32::new(0);
        let done = || DONE.load(Ordering::SeqCst);
        let mut object = null_mut();
        for (function, count, flags) in
            [(Some(count as _), 1, 0), (Some(count as _), 1, 2), (None, 1, 1), (Some(count as _), 0, 1)]
        {
            assert_eq!(call!(cuUserObjectCreate(&mut object, null_mut(), function, count, flags)), 1);
        }
        let object = user(&DONE);
        assert_eq!((call!(cuUserObjectRetain(object, 0)), call!(cuUserObjectRetain(object, 2))), (1, 0));
        assert_eq!((call!(cuUserObjectRelease(object, 2)), done()), (0, 0));
        assert_eq!((call!(cuUserObjectRelease(object, 1)), done()), (0, 1), "before the call returns");
        // The graph's reference, moved to it; then its clone's, its child's, its executable's.
        let (g, object) = (graph(), user(&DONE));
        assert_eq!(call!(cuGraphRetainUserObject(g, object, 1, 2)), 1);
        assert_eq!(call!(cuGraphRetainUserObject(g, object, 1, 1)), 0);
        let (mut clone, mut node) = (null_mut(), null_mut());
        assert_eq!(call!(cuGraphClone(&mut clone, g)), 0);
        let executable = instantiate(g, 0).unwrap();
        let parent = graph();
        assert_eq!(call!(cuGraphAddChildGraphNode(&mut node, parent, null(), 0, g)), 0);
        destroy(g);
        destroy(clone);
        assert_eq!((call!(cuGraphDestroyNode(node)), done()), (0, 0));
        assert_eq!((call!(cuGraphExecDestroy(executable)), done()), (0, 1));
        destroy(parent);
    });
}

#[test]
fn a_launch_keeps_what_its_executable_kept() {
    bench(|| {
        static DONE: AtomicU32 = AtomicU32::new(0);
        let (g, slow, object, s) = (graph(), AtomicU32::new(0), user(&DONE), stream(0));
        host(g, &[], sleeping(&slow));
        assert_eq!(call!(cuGraphRetainUserObject(g, object, 1, 1)), 0);
        let executable = instantiate(g, 0).unwrap();
        destroy(g);
        assert_eq!(call!(cuGraphLaunch(executable, s)), 0);
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        assert_eq!(DONE.load(Ordering::SeqCst), 0);
        assert_eq!(call!(cuStreamSynchronize(s)), 0);
        for _ in 0..500 {
            std::thread::sleep(Duration::from_millis(2));
            if DONE.load(Ordering::SeqCst) == 1 {
                return;
            }
        }
        panic!("it is kept for ever");
    });
}

#[test]
fn a_graph_outlives_the_contexts_of_its_nodes() {
    bench(|| {
        let first = crate::harness::current();
        let second = other::create();
        let (g, at) = (graph(), memory(64));
        fill(g, &[], bytes(at, 1, 8));
        other::destroy(second);
        let mut clone = null_mut();
        assert_eq!((nodes(g).len(), call!(cuGraphClone(&mut clone, g))), (1, 0));
        // To instantiate it would crash the driver.
        destroy(clone);
        destroy(g);
        let second = other::create();
        let g = graph();
        let executable = instantiate(g, 0).unwrap();
        other::destroy(second);
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        destroy(g);
        assert_eq!(crate::harness::current(), first);
    });
}

#[test]
fn without_a_current_context_graphs_are_built_and_launched_but_not_instantiated() {
    bench(|| {
        let (s, done, context) = (stream(0), AtomicU32::new(0), crate::harness::current());
        let g = graph();
        host(g, &[], counting(&done));
        let executable = instantiate(g, 0).unwrap();
        assert_eq!(other::pop(), Ok(context));
        empty(g, &[]);
        assert_eq!(instantiate(g, 0), Err(201));
        assert_eq!(launch(executable, s), 0);
        assert_eq!(done.load(Ordering::SeqCst), 1);
        other::push(context);
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        destroy(g);
    });
}

pub(super) fn allocation(bytesize: usize) -> CUDA_MEM_ALLOC_NODE_PARAMS {
    // SAFETY: a struct of numbers and pointers.
    let mut params: CUDA_MEM_ALLOC_NODE_PARAMS = unsafe { std::mem::zeroed() };
    (params.poolProps.allocType, params.poolProps.location.kind) = (1, 1);
    params.bytesize = bytesize;
    params
}

#[test]
fn memory_of_a_graph_has_its_address_before_and_is_there_after_a_launch() {
    bench(|| {
        let (g, s) = (graph(), stream(0));
        let (mut node, mut other, mut clone) = (null_mut(), null_mut(), null_mut());
        let add = |node: &mut CUgraphNode, params: &mut CUDA_MEM_ALLOC_NODE_PARAMS| {
            call!(cuGraphAddMemAllocNode(node, g, null(), 0, params))
        };
        let mut params = allocation(64);
        assert_eq!(add(&mut other, &mut allocation(0)), 1);
        assert_eq!(add(&mut node, &mut params), 0);
        let at = params.dptr;
        assert_eq!(at % 512, 0);
        assert_eq!(fill_here(g, &[node], bytes(at, 5, 64)).0, 0, "it can be named before it is there");
        assert_eq!(call!(cuMemsetD8_v2(at, 1, 4)), 1);
        assert_eq!(call!(cuGraphClone(&mut clone, g)), 801);
        assert_eq!(call!(cuGraphDestroyNode(node)), 801);
        let parent = graph();
        assert_eq!(call!(cuGraphAddChildGraphNode(&mut other, parent, null(), 0, g)), 801);
        let executable = instantiate(g, 0).unwrap();
        assert_eq!(instantiate(g, 0), Err(801), "one at a time");
        assert_eq!(launch(executable, s), 0);
        assert_eq!(value(at), [5; 4]);
        assert_eq!(launch(executable, s), 1, "not freed since");
        assert_eq!(call!(cuMemFree_v2(at)), 0);
        assert_eq!(launch(executable, s), 0);
        // Another graph may free it.
        let free = graph();
        assert_eq!(call!(cuGraphAddMemFreeNode(&mut other, free, null(), 0, at + 8)), 1);
        assert_eq!(call!(cuGraphAddMemFreeNode(&mut other, free, null(), 0, at)), 0);
        assert_eq!(call!(cuGraphAddMemFreeNode(&mut other, free, &other, 1, at)), 1);
        let freeing = instantiate(free, 0).unwrap();
        assert_eq!((launch(freeing, s), launch(freeing, s)), (0, 1));
        assert_eq!(call!(cuMemsetD8_v2(at, 1, 4)), 1);
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        let executable = instantiate(g, 1).unwrap();
        assert_eq!((launch(executable, s), launch(executable, s)), (0, 0), "freed by the launch itself");
        assert_eq!(call!(cuMemFree_v2(at)), 0);
        [executable, freeing].into_iter().for_each(|it| assert_eq!(call!(cuGraphExecDestroy(it)), 0));
        [g, parent, free].into_iter().for_each(destroy);
    });
}

#[test]
fn a_graph_that_frees_what_it_allocates_can_be_launched_again() {
    bench(|| {
        let (g, s, mut params) = (graph(), stream(0), allocation(64));
        let (mut node, mut free) = (null_mut(), null_mut());
        assert_eq!(call!(cuGraphAddMemAllocNode(&mut node, g, null(), 0, &mut params)), 0);
        let (_, used) = fill_here(g, &[node], bytes(params.dptr, 5, 64));
        assert_eq!(call!(cuGraphAddMemFreeNode(&mut free, g, &used, 1, params.dptr)), 0);
        let executable = instantiate(g, 0).unwrap();
        for _ in 0..3 {
            assert_eq!(call!(cuGraphLaunch(executable, s)), 0);
        }
        assert_eq!(call!(cuStreamSynchronize(s)), 0);
        assert_eq!(call!(cuMemsetD8_v2(params.dptr, 1, 4)), 1);
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        destroy(g);
    });
}

#[test]
fn an_upload_takes_what_a_launch_needs_and_keeps_it_for_no_graph() {
    run_alone(|| {
        let context = other::create();
        const CHUNK: u64 = 32 << 20;
        let s = stream(0);
        let reserved = || {
            let mut bytes = 0u64;
            assert_eq!(call!(cuDeviceGetGraphMemAttribute(0, 2, (&raw mut bytes).cast())), 0);
            bytes
        };
        let trimmed = || {
            assert_eq!((call!(cuStreamSynchronize(s)), call!(cuDeviceGraphMemTrim(0))), (0, 0));
            reserved()
        };
        let before = trimmed();
        let [a, b] = [64, 40 << 20].map(|size| {
            let (g, mut node, mut params) = (graph(), null_mut(), allocation(size));
            assert_eq!(call!(cuGraphAddMemAllocNode(&mut node, g, null(), 0, &mut params)), 0);
            (g, params.dptr, instantiate(g, 0).unwrap())
        });
        let after = |status| (status, (reserved() - before) / CHUNK);
        let upload = |executable| after(call!(cuGraphUpload(executable, s)));
        let launch = |executable| after(call!(cuGraphLaunch(executable, s)));
        assert_eq!([upload(a.2), upload(a.2), upload(b.2), upload(a.2)], [(0, 1), (0, 1), (0, 2), (0, 2)]);
        assert_eq!((trimmed() - before, launch(a.2)), (0, (0, 1)));
        assert_eq!([upload(a.2), upload(b.2)], [(0, 1), (0, 3)]);
        assert_eq!(trimmed() - before, CHUNK, "that of the one that was launched");
        assert_eq!([call!(cuMemFree_v2(a.1)), call!(cuGraphExecDestroy(a.2))], [0; 2]);
        assert_eq!(trimmed(), before);
        // An executable may be uploaded when it is made.
        let mut params = CUDA_GRAPH_INSTANTIATE_PARAMS {
            flags: 2,
            hUploadStream: s,
            hErrNode_out: null_mut(),
            result_out: 0,
        };
        let mut uploaded = null_mut();
        assert_eq!(call!(cuGraphInstantiateWithParams(&mut uploaded, a.0, &mut params)), 0);
        assert_eq!(reserved() - before, CHUNK);
        [uploaded, b.2].into_iter().for_each(|it| assert_eq!(call!(cuGraphExecDestroy(it)), 0));
        [a.0, b.0].into_iter().for_each(destroy);
        assert_eq!(trimmed(), before);
        assert_eq!(drain(), [context]);
        other::destroy(context);
    });
}

/// Holds a stream back until the flag is set.
unsafe extern "C" fn wait(flag: *mut c_void) {
    // SAFETY: the test's flag, which outlives the work.
    let flag = unsafe { &*flag.cast::<AtomicU32>() };
    while flag.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
}

/// Memory of a graph that is freed by its launch, or not: the executable and the address.
fn allocating(size: usize, frees: bool) -> (CUgraphExec, u64) {
    let (g, mut params) = (graph(), allocation(size));
    let (mut node, mut free) = (null_mut(), null_mut());
    assert_eq!(call!(cuGraphAddMemAllocNode(&mut node, g, null(), 0, &mut params)), 0);
    if frees {
        assert_eq!(call!(cuGraphAddMemFreeNode(&mut free, g, &node, 1, params.dptr)), 0);
    }
    let executable = instantiate(g, 0).unwrap();
    destroy(g);
    (executable, params.dptr)
}

/// The device's memory that is free.
fn left() -> usize {
    let (mut free, mut total) = (0, 0);
    assert_eq!(call!(cuMemGetInfo_v2(&mut free, &mut total)), 0);
    free
}

#[test]
fn a_launch_that_is_under_way_frees_nothing_but_memory_of_its_graph() {
    if !is_simulated() {
        return skip(
            "a_launch_that_is_under_way_frees_nothing_but_memory_of_its_graph",
            "it is about which addresses the simulated driver gives out again",
        );
    }
    const SIZE: usize = 40 << 20;
    type Make = fn(CUstream) -> (u64, Box<dyn FnOnce()>);
    let makes: [Make; 3] = [
        |_| {
            let at = memory(SIZE);
            (at, Box::new(move || assert_eq!(call!(cuMemFree_v2(at)), 0)))
        },
        |stream| {
            let (pool, mut at) = (super::pool::own(), 0);
            assert_eq!(call!(cuMemAllocFromPoolAsync(&mut at, SIZE, pool, stream)), 0);
            let free = move || {
                assert_eq!(call!(cuMemFreeAsync(at, stream)), 0);
                assert_eq!(call!(cuStreamSynchronize(stream)), 0);
                assert_eq!(super::pool::destroy(pool), 0);
            };
            (at, Box::new(free))
        },
        |stream| {
            let (executable, at) = allocating(SIZE, false);
            assert_eq!(launch(executable, stream), 0);
            assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
            (at, Box::new(move || assert_eq!(call!(cuMemFree_v2(at)), 0)))
        },
    ];
    run_alone(|| {
        custack_sim::reuse_addresses(true);
        let context = other::create();
        let (busy, s) = (stream(1), stream(1));
        // What frees it: the launch itself, another graph's, or the stream.
        for (make, by) in makes.iter().flat_map(|make| (0..3).map(move |by| (make, by))) {
            let (go, before) = (AtomicU32::new(0), left());
            let flag = (&raw const go).cast_mut().cast();
            let (executable, at) = allocating(SIZE, by == 0);
            assert_eq!(call!(cuLaunchHostFunc(busy, Some(wait), flag)), 0);
            assert_eq!(call!(cuGraphLaunch(executable, busy)), 0);
            if by == 1 {
                let (free, mut node) = (graph(), null_mut());
                assert_eq!(call!(cuGraphAddMemFreeNode(&mut node, free, null(), 0, at)), 0);
                let freeing = instantiate(free, 0).unwrap();
                assert_eq!(call!(cuGraphLaunch(freeing, busy)), 0);
                assert_eq!(call!(cuGraphExecDestroy(freeing)), 0);
                destroy(free);
            } else if by == 2 {
                assert_eq!(call!(cuMemFreeAsync(at, busy)), 0);
            }
            assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
            let (made, free) = make(s);
            assert_ne!(made, at, "it is freed, but its free is under way");
            assert_eq!(call!(cuMemsetD8Async(made, 7, SIZE, s)), 0);
            go.store(1, Ordering::SeqCst);
            assert_eq!(call!(cuStreamSynchronize(busy)), 0);
            assert_eq!(call!(cuStreamSynchronize(s)), 0);
            assert_eq!(value(made + SIZE as u64 - 4), [7; 4]);
            free();
            assert_eq!(left(), before);
            let again = memory(SIZE);
            assert_eq!(again, at, "now it is another's");
            assert_eq!(call!(cuMemFree_v2(again)), 0);
        }
        drain();
        other::destroy(context);
        custack_sim::reuse_addresses(false);
    });
}
