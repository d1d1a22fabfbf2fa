//! Executables of graphs: in which order they work, and how they are updated.

use super::capture::{event, memory, stream};
use super::graph::*;
use crate::harness::{is_simulated, skip};
use custack_sys::ffi::*;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[test]
fn work_is_done_in_its_order_at_each_launch() {
    bench(|| {
        let (g, at, done, s) = (graph(), memory(64), AtomicU32::new(0), stream(0));
        let (_, first) = fill(g, &[], bytes(at, 7, 64));
        let (_, second) = fill(g, &[first], bytes(at + 1, 9, 1));
        let mut third = null_mut();
        let params = copy(at, at + 2, 2);
        assert_eq!(call!(cuGraphAddMemcpyNode(&mut third, g, &second, 1, &params, null_mut())), 0);
        host(g, &[third], counting(&done));
        let executable = instantiate(g, 0).unwrap();
        assert_eq!(call!(cuMemsetD8_v2(at, 0, 64)), 0);
        assert_eq!(value(at), [0; 4], "nothing is done yet");
        destroy(g);
        for times in 1..4 {
            assert_eq!(launch(executable, s), 0);
            assert_eq!((value(at), done.load(Ordering::SeqCst)), ([7, 9, 7, 9], times));
        }
        assert_eq!(call!(cuGraphLaunch(null_mut(), s)), 1);
        assert_eq!(call!(cuGraphUpload(executable, s)), 0);
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        assert_eq!(call!(cuGraphExecDestroy(executable)), 1);
        assert_eq!(call!(cuGraphLaunch(executable, s)), 1);
    });
}

static MEET: (std::sync::Mutex<u32>, std::sync::Condvar) =
    (std::sync::Mutex::new(0), std::sync::Condvar::new());

unsafe extern "C" fn meet(_data: *mut c_void) {
    let mut here = MEET.0.lock().unwrap();
    *here += 1;
    MEET.1.notify_all();
    let two = MEET.1.wait_timeout_while(here, Duration::from_secs(5), |here| *here < 2);
    drop(two);
}

#[test]
fn branches_run_side_by_side() {
    if !is_simulated() {
        let why = "the NVIDIA driver may call host functions one after the other, and did";
        return skip("branches_run_side_by_side", why);
    }
    bench(|| {
        let g = graph();
        let params = CUDA_HOST_NODE_PARAMS { fn_: Some(meet), userData: null_mut() };
        let start = std::time::Instant::now();
        host(g, &[], params);
        host(g, &[], params);
        let executable = instantiate(g, 0).unwrap();
        assert_eq!(launch(executable, stream(0)), 0);
        assert!(start.elapsed() < Duration::from_secs(5), "each waited for the other");
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        destroy(g);
    });
}

#[test]
fn launches_of_one_executable_come_one_after_the_other() {
    bench(|| {
        let (g, done, s, t) = (graph(), AtomicU32::new(0), stream(1), stream(1));
        host(g, &[], sleeping(&done));
        let executable = instantiate(g, 0).unwrap();
        let start = std::time::Instant::now();
        assert_eq!(call!(cuGraphLaunch(executable, s)), 0);
        assert_eq!(call!(cuGraphLaunch(executable, t)), 0);
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        assert_eq!(call!(cuStreamQuery(t)), 600, "it goes on without its executable");
        assert_eq!(call!(cuCtxSynchronize()), 0);
        assert_eq!(done.load(Ordering::SeqCst), 2);
        assert!(start.elapsed() >= Duration::from_millis(200));
        destroy(g);
    });
}

#[test]
fn the_flags_of_an_executable_are_some_alone() {
    bench(|| {
        let (g, at) = (graph(), memory(64));
        fill(g, &[], bytes(at, 1, 8));
        let read = [
            (0, Ok(0)),
            (1, Ok(1)),
            (2, Err(1)),
            (4, Ok(4)),
            (5, Err(1)),
            (8, Ok(0)),
            (12, Ok(4)),
            (16, Err(1)),
        ];
        for (flags, expected) in read {
            let found = instantiate(g, flags).map(|executable| {
                let mut flags = 99;
                assert_eq!(call!(cuGraphExecGetFlags(executable, &mut flags)), 0);
                assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
                flags
            });
            assert_eq!(found, expected, "{flags}");
        }
        let mut executable = null_mut();
        assert_eq!(call!(cuGraphInstantiateWithFlags(null_mut(), g, 0)), 1);
        assert_eq!(call!(cuGraphInstantiateWithFlags(&mut executable, null_mut(), 0)), 1);
        assert_eq!(call!(cuGraphInstantiateWithParams(&mut executable, g, null_mut())), 1);
        destroy(g);
    });
}

/// Updates an executable of one graph to another: the status, the reason, and which node it is about.
fn update(
    make: impl Fn(CUgraph) -> Vec<CUgraphNode>,
    other: impl Fn(CUgraph) -> Vec<CUgraphNode>,
) -> (u32, u32, Option<usize>) {
    let (a, b) = (graph(), graph());
    make(a);
    let executable = instantiate(a, 0).unwrap();
    let nodes = other(b);
    let mut info = CUgraphExecUpdateResultInfo { result: 77, errorNode: 7 as _, errorFromNode: 7 as _ };
    let status = call!(cuGraphExecUpdate_v2(executable, b, &mut info));
    assert_eq!(launch(executable, stream(0)), 0, "updated or not");
    assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
    destroy(a);
    destroy(b);
    (status, info.result, nodes.iter().position(|node| *node == info.errorNode))
}

#[test]
fn an_executable_becomes_what_has_the_same_shape() {
    static DONE: AtomicU32 = AtomicU32::new(0);
    let host = |g| host(g, &[], counting(&DONE));
    let two = |g| vec![empty(g, &[]), empty(g, &[])];
    let chain = |g| {
        let first = empty(g, &[]);
        vec![first, empty(g, &[first])]
    };
    let three = |g: CUgraph, pairs: &[(usize, usize)], hosts: &[usize]| {
        let n: Vec<_> = (0..4).map(|at| if hosts.contains(&at) { host(g) } else { empty(g, &[]) }).collect();
        pairs.iter().for_each(|(from, to)| assert_eq!(edges(g, &[n[*from]], &[n[*to]]), 0));
        n
    };
    bench(|| {
        assert_eq!(update(chain, chain), (0, 0, None));
        assert_eq!(update(two, |g| vec![empty(g, &[])]), (910, 2, None), "another number of nodes");
        assert_eq!(update(chain, two), (910, 2, Some(0)));
        assert_eq!(update(two, chain), (910, 2, None));
        assert_eq!(update(two, |g| vec![host(g), host(g)]), (910, 3, Some(1)), "from the latest on");
        assert_eq!(
            update(|g| vec![empty(g, &[]), host(g)], |g| vec![host(g), empty(g, &[])]),
            (910, 3, Some(1))
        );
        // In which order nodes and edges were made does not count, but for the edges to one node.
        let reversed = |g| {
            let [last, first] = empties(g);
            assert_eq!(edges(g, &[first], &[last]), 0);
            vec![last, first]
        };
        assert_eq!(update(chain, reversed), (0, 0, None));
        let diamond = [(0, 1), (0, 2), (1, 3), (2, 3)];
        let joined = [(0, 1), (0, 2), (2, 3), (1, 3)];
        assert_eq!(update(|g| three(g, &diamond, &[2]), |g| three(g, &diamond, &[2])), (0, 0, None));
        assert_eq!(update(|g| three(g, &diamond, &[2]), |g| three(g, &joined, &[2])), (910, 3, Some(2)));
    });
}

#[test]
fn a_node_of_an_executable_changes_within_its_kind() {
    bench(|| {
        let (g, at, done, s) = (graph(), memory(64), AtomicU32::new(0), stream(0));
        let (_, node) = fill(g, &[], bytes(at, 1, 4));
        let called = host(g, &[node], counting(&done));
        let executable = instantiate(g, 0).unwrap();
        let set = |node, params| call!(cuGraphExecMemsetNodeSetParams(executable, node, &params, null_mut()));
        let later = fill(g, &[], bytes(at, 1, 4)).1;
        let rows = CUDA_MEMSET_NODE_PARAMS { pitch: 16, height: 2, ..bytes(at, 2, 8) };
        assert_eq!(set(node, bytes(at, 2, 4)), 0);
        assert_eq!(set(node, bytes(at, 3, 8)), 0, "another size");
        assert_eq!(set(node, rows), 1, "rows where there was one");
        assert_eq!((set(called, bytes(at, 2, 4)), set(later, bytes(at, 2, 4))), (1, 1));
        assert_eq!(launch(executable, s), 0);
        assert_eq!((value(at), done.load(Ordering::SeqCst)), ([3; 4], 1));
        let mut kept = bytes(0, 0, 0);
        assert_eq!(call!(cuGraphMemsetNodeGetParams(node, &mut kept)), 0);
        assert_eq!(kept.value, 1, "the graph is as it was");
        let mut enabled = 9;
        assert_eq!(call!(cuGraphNodeSetEnabled(executable, called, 0)), 1);
        assert_eq!(call!(cuGraphNodeSetEnabled(executable, node, 0)), 0);
        assert_eq!(call!(cuGraphNodeGetEnabled(executable, node, &mut enabled)), 0);
        assert_eq!((enabled, call!(cuMemsetD8_v2(at, 0, 64))), (0, 0));
        assert_eq!(launch(executable, s), 0);
        assert_eq!(
            (value(at), done.load(Ordering::SeqCst)),
            ([0; 4], 2),
            "left out, and what comes after is not"
        );
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        destroy(g);
    });
}

#[test]
fn an_event_of_a_graph_is_recorded_at_each_launch() {
    bench(|| {
        let (g, done, s, e) = (graph(), AtomicU32::new(0), stream(0), event());
        let (mut record, mut found) = (null_mut(), null_mut());
        let first = host(g, &[], sleeping(&done));
        assert_eq!(call!(cuGraphAddEventRecordNode(&mut record, g, &first, 1, null_mut())), 1);
        assert_eq!(call!(cuGraphAddEventRecordNode(&mut record, g, &first, 1, e)), 0);
        assert_eq!(call!(cuGraphEventRecordNodeGetEvent(record, &mut found)), 0);
        assert_eq!(found, e);
        assert_eq!(call!(cuGraphEventWaitNodeGetEvent(record, &mut found)), 1);
        let executable = instantiate(g, 0).unwrap();
        assert_eq!(call!(cuGraphLaunch(executable, s)), 0);
        assert_eq!(call!(cuEventSynchronize(e)), 0);
        assert_eq!(done.load(Ordering::SeqCst), 1);
        assert_eq!(call!(cuStreamSynchronize(s)), 0);
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        destroy(g);
    });
}

/// The only node of what the stream captures while this is called, and the graph.
fn captured(stream: CUstream, calls: impl FnOnce()) -> (CUgraph, CUgraphNode) {
    let mut graph = null_mut();
    assert_eq!(call!(cuStreamBeginCapture_v2(stream, 2)), 0);
    calls();
    assert_eq!(call!(cuStreamEndCapture(stream, &mut graph)), 0);
    (graph, nodes(graph)[0])
}

#[test]
fn a_captured_copy_between_addresses_of_any_kind_stays_one() {
    bench(|| {
        let (from, to, stream) = (memory(64), memory(64), stream(1));
        let (graph, node) = captured(stream, || assert_eq!(call!(cuMemcpyAsync(to, from, 64, stream)), 0));
        let mut told = copy(0, 0, 0);
        assert_eq!(call!(cuGraphMemcpyNodeGetParams(node, &mut told)), 0);
        assert_eq!(
            (told.srcMemoryType, told.srcDevice, told.dstMemoryType, told.dstDevice),
            (4, from, 4, to)
        );
        let executable = instantiate(graph, 0).unwrap();
        let set = |params| {
            call!(cuGraphExecMemcpyNodeSetParams(executable, node, &params, crate::harness::current()))
        };
        assert_eq!(
            (set(copy(from, to, 64)), set(told)),
            (1, 0),
            "addresses of the device's are another kind"
        );
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        destroy(graph);
    });
}

#[test]
fn memory_of_a_pool_is_filled_in_the_context_that_is_named() {
    bench(|| {
        let (own, stream) = (memory(64), stream(1));
        let mut pooled = 0;
        assert_eq!(call!(cuMemAllocAsync(&mut pooled, 64, stream)), 0);
        let graph = graph();
        let (_, node) = fill(graph, &[], bytes(own, 5, 64));
        let executable = instantiate(graph, 0).unwrap();
        let set =
            |context| call!(cuGraphExecMemsetNodeSetParams(executable, node, &bytes(pooled, 5, 64), context));
        let here = crate::harness::current();
        let second = crate::harness::other::create();
        assert_eq!(call!(cuCtxPopCurrent_v2(null_mut())), 0);
        assert_eq!([set(second), set(null_mut())], [1, 0], "the current one, where none is named");
        assert_eq!([set(second), set(here)], [0, 0], "any, once it fills memory of a pool");
        crate::harness::other::destroy(second);
        assert_eq!(fill(graph, &[], bytes(pooled, 5, 64)).0, 1, "a new node is given one");
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        destroy(graph);
        assert_eq!(call!(cuMemFreeAsync(pooled, stream)), 0);
    });
}

#[test]
fn a_captured_copy_works_in_the_context_of_what_it_reads_or_else_of_what_it_writes() {
    bench(|| {
        let here = crate::harness::current();
        let (own, to, stream) = (memory(64), memory(64), stream(1));
        let second = crate::harness::other::create();
        let theirs = memory(64);
        assert_eq!(call!(cuCtxPopCurrent_v2(null_mut())), 0);
        let mut bytes = [0u8; 64];
        let host = bytes.as_mut_ptr().cast::<c_void>();
        let between = |from| copy(from, to, 64);
        let onto = |at| CUDA_MEMCPY3D { srcMemoryType: 1, srcHost: host, ..copy(0, at, 64) };
        let off = |at| CUDA_MEMCPY3D { dstMemoryType: 1, dstHost: host, ..copy(at, 0, 64) };
        type Params<'a> = &'a dyn Fn(u64) -> CUDA_MEMCPY3D;
        let ways: [(&dyn Fn() -> u32, Params<'_>); 4] = [
            (&|| call!(cuMemcpy3DAsync_v2(&between(theirs), stream)), &between),
            (&|| call!(cuMemcpyDtoDAsync_v2(to, theirs, 64, stream)), &between),
            (&|| call!(cuMemcpyHtoDAsync_v2(theirs, host, 64, stream)), &onto),
            (&|| call!(cuMemcpyDtoHAsync_v2(host, theirs, 64, stream)), &off),
        ];
        for (call, params) in ways {
            let (graph, node) = captured(stream, || assert_eq!(call(), 0));
            let executable = instantiate(graph, 0).unwrap();
            let set = |at| call!(cuGraphExecMemcpyNodeSetParams(executable, node, &params(at), here));
            assert_eq!([set(own), set(theirs)], [1, 0]);
            assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
            destroy(graph);
        }
        assert_eq!(call!(cuCtxDestroy_v2(second)), 0);
    });
}
