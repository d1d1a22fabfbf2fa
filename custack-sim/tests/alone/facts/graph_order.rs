//! Graphs: which of several faults is named, and what is refused for the sake of more than one graph.

use super::capture::{event, memory, stream};
use super::graph::*;
use super::graph_memory::allocation;
use crate::harness::{current, other, run};
use crate::run_alone;
use custack_sys::ffi::*;
use std::ptr::{null, null_mut};

/// A graph with a child graph: both, and the node.
fn parent() -> (CUgraph, CUgraph, CUgraphNode) {
    let (g, own) = (graph(), graph());
    let (mut node, mut child) = (null_mut(), null_mut());
    assert_eq!(call!(cuGraphAddChildGraphNode(&mut node, g, null(), 0, own)), 0);
    assert_eq!(call!(cuGraphChildGraphNodeGetGraph(node, &mut child)), 0);
    destroy(own);
    (g, child, node)
}

fn update(executable: CUgraphExec, graph: CUgraph) -> u32 {
    // SAFETY: a struct of numbers and pointers.
    let mut info: CUgraphExecUpdateResultInfo = unsafe { std::mem::zeroed() };
    call!(cuGraphExecUpdate_v2(executable, graph, &mut info))
}

fn free(graph: CUgraph, address: u64) -> u32 {
    let mut node = null_mut();
    call!(cuGraphAddMemFreeNode(&mut node, graph, null(), 0, address))
}

fn allocate(graph: CUgraph) -> (u32, u64) {
    let (mut node, mut params) = (null_mut(), allocation(64));
    (call!(cuGraphAddMemAllocNode(&mut node, graph, null(), 0, &mut params)), params.dptr)
}

#[test]
fn edges_are_added_only_if_all_are_between_two_nodes() {
    run(|| {
        let _context = other::create();
        let g = graph();
        let nodes: [CUgraphNode; 3] = std::array::from_fn(|_| empty(g, &[]));
        let [a, b, _] = nodes;
        assert_eq!(edges(g, &[a, b], &[b, b]), 1);
        assert_eq!(edges(g, &[a, null_mut()], &[b, a]), 1);
        assert_eq!(edges_of(g, &nodes), vec![]);
        destroy(g);
        other::pop().map(other::destroy).unwrap();
    });
}

#[test]
fn edges_are_removed_only_if_all_are_between_two_nodes() {
    run(|| {
        let g = graph();
        let before = empty(g, &[]);
        let after = empty(g, &[before]);
        let (from, to) = ([before, null_mut()], [after, after]);
        assert_eq!(call!(cuGraphRemoveDependencies(g, from.as_ptr(), to.as_ptr(), 2)), 1);
        assert_eq!(edges_of(g, &[before, after]), vec![(0, 1)]);
        destroy(g);
    });
}

#[test]
fn what_an_executable_was_made_of_no_longer_frees_its_own() {
    run(|| {
        let _context = other::create();
        let g = graph();
        let (status, at) = allocate(g);
        let executable = instantiate(g, 0).unwrap();
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        assert_eq!((status, free(g, at)), (0, 1));
        destroy(g);
        other::pop().map(other::destroy).unwrap();
    });
}

#[test]
fn more_than_one_other_graph_may_free_what_a_graph_allocates() {
    run_alone(|| {
        let _context = other::create();
        let (g, second, s) = (graph(), graph(), stream(0));
        let (status, at) = allocate(g);
        assert_eq!((status, free(second, at)), (0, 0));
        assert_eq!(call!(cuStreamBeginCapture_v2(s, 2)), 0);
        assert_eq!(call!(cuMemFreeAsync(at, s)), 0);
        let mut third = null_mut();
        assert_eq!(call!(cuStreamEndCapture(s, &mut third)), 0);
        [third, second, g].into_iter().for_each(destroy);
        other::pop().map(other::destroy).unwrap();
    });
}

#[test]
fn memory_that_a_graph_allocates_is_of_any_address_in_an_update() {
    run(|| {
        let _context = other::create();
        let graphs = [graph(), graph()];
        assert_eq!(graphs.map(|it| allocate(it).0), [0, 0]);
        let executable = instantiate(graphs[0], 0).unwrap();
        assert_eq!(update(executable, graphs[1]), 0);
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        graphs.into_iter().for_each(destroy);
        other::pop().map(other::destroy).unwrap();
    });
}

#[test]
fn the_device_launches_what_works_in_one_context() {
    run(|| {
        let first = other::create();
        let near = memory(64);
        let second = other::create();
        let far = memory(64);
        assert_eq!(other::pop(), Ok(second));
        let g = graph();
        let (_, before) = fill(g, &[], bytes(near, 1, 4));
        let executable = instantiate(g, 4).unwrap();
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        fill(g, &[before], bytes(far, 1, 4));
        assert_eq!(instantiate(g, 4), Err(1));
        destroy(g);
        other::destroy(first);
        other::destroy(second);
    });
}

#[test]
fn a_copy_that_the_device_launches_works_in_the_context_in_which_the_executable_is_made() {
    run(|| {
        let first = other::create();
        let near = memory(64);
        let second = other::create();
        let far = memory(64);
        for (filled, made_in) in [(near, first), (near, second), (far, first), (far, second)] {
            for (from, to, named) in [(near, near, second), (far, far, first), (near, far, first)] {
                let (g, mut node) = (graph(), null_mut());
                let (_, before) = fill(g, &[], bytes(filled, 1, 4));
                let params = copy(from, to, 4);
                assert_eq!(call!(cuGraphAddMemcpyNode(&mut node, g, &before, 1, &params, named)), 0);
                other::push(made_in);
                let made = instantiate(g, 4);
                assert_eq!(other::pop(), Ok(made_in));
                assert_eq!(made.is_ok(), (filled == near) == (made_in == first));
                if let Ok(executable) = made {
                    assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
                }
                destroy(g);
            }
        }
        assert_eq!(other::pop(), Ok(second));
        other::destroy(first);
        other::destroy(second);
    });
}

#[test]
fn a_fill_that_was_captured_is_of_the_context_of_its_stream() {
    run_alone(|| {
        let first = other::create();
        let near = memory(64);
        let second = other::create();
        let far = memory(64);
        assert_eq!(other::pop(), Ok(second));
        let s = stream(1);
        assert_eq!(call!(cuStreamBeginCapture_v2(s, 2)), 0);
        assert_eq!(call!(cuMemsetD8Async(near, 1, 4, s)), 0);
        assert_eq!(call!(cuMemsetD8Async(far, 1, 4, s)), 0);
        let (mut g, mut nodes, mut count) = (null_mut(), [null_mut(); 2], 2);
        assert_eq!(call!(cuStreamEndCapture(s, &mut g)), 0);
        assert_eq!(call!(cuGraphGetNodes(g, nodes.as_mut_ptr(), &mut count)), 0);
        assert_eq!(call!(cuGraphExecDestroy(instantiate(g, 4).unwrap())), 0);
        let executable = instantiate(g, 0).unwrap();
        let set =
            |to| call!(cuGraphExecMemsetNodeSetParams(executable, nodes[1], &bytes(to, 1, 4), current()));
        assert_eq!((set(near), set(far)), (0, 1), "whatever the memory was of");
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        destroy(g);
        other::destroy(first);
        other::destroy(second);
    });
}

#[test]
fn edge_data_is_written_for_as_many_edges_as_there_are() {
    run(|| {
        let g = graph();
        let before = empty(g, &[]);
        let after = empty(g, &[before]);
        let untouched = CUgraphEdgeData { from_port: 9, to_port: 9, kind: 9, reserved: [9; 5] };
        let (mut found, mut data, mut count) = ([null_mut(); 2], [untouched; 2], 2);
        let (list, of) = (found.as_mut_ptr(), data.as_mut_ptr());
        assert_eq!(call!(cuGraphNodeGetDependencies_v2(after, list, of, &mut count)), 0);
        assert_eq!((found, count), ([before, null_mut()], 1));
        assert_eq!((data[0].kind, data[1].kind), (0, 9));
        destroy(g);
    });
}

#[test]
fn a_child_graph_is_not_instantiated_allocates_nothing_and_updates_nothing() {
    run(|| {
        let _context = other::create();
        let (g, child, _) = parent();
        let executable = instantiate(g, 0).unwrap();
        assert_eq!(call!(cuGraphInstantiateWithFlags(null_mut(), child, 0)), 801);
        assert_eq!((allocate(child).0, free(child, 0)), (801, 801));
        assert_eq!(update(executable, child), 1);
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        destroy(g);
        other::pop().map(other::destroy).unwrap();
    });
}

#[test]
fn a_graph_that_has_tried_to_free_has_one_executable() {
    run(|| {
        let _context = other::create();
        let (g, before) = (graph(), graph());
        let mine = memory(64);
        assert_eq!(call!(cuGraphAddMemFreeNode(null_mut(), g, null(), 0, mine)), 1);
        let old = instantiate(g, 0).unwrap();
        assert_eq!(free(g, mine), 1);
        let executable = instantiate(g, 0).unwrap();
        assert_eq!(instantiate(g, 0), Err(801));
        assert_eq!(call!(cuGraphInstantiateWithFlags(null_mut(), g, 0)), 1);
        assert_eq!(instantiate(g, 4), Err(1));
        assert_eq!((update(old, g), update(executable, g)), (801, 0));
        assert_eq!(update(executable, before), 0);
        assert_eq!(instantiate(g, 0), Err(801), "it stays the graph's");
        assert_eq!(call!(cuGraphRemoveDependencies(g, null(), null(), 1)), 801);
        for gone in [old, executable] {
            assert_eq!(call!(cuGraphExecDestroy(gone)), 0);
        }
        [g, before].into_iter().for_each(destroy);
        assert_eq!(call!(cuMemFree_v2(mine)), 0);
        other::pop().map(other::destroy).unwrap();
    });
}

#[test]
fn what_a_graph_frees_no_other_graph_frees() {
    run(|| {
        let _context = other::create();
        let (g, second) = (graph(), graph());
        let (status, at) = allocate(g);
        assert_eq!((status, free(g, at), free(second, at)), (0, 0, 1));
        let executable = instantiate(g, 0).unwrap();
        assert_eq!(launch(executable, null_mut()), 0, "in whichever order the nodes are");
        let (status, at) = allocate(g);
        assert_eq!((status, free(g, at)), (0, 0), "the executable has not this one");
        let (mut used, mut most) = (0u64, 0u64);
        assert_eq!(call!(cuDeviceGetGraphMemAttribute(0, 0, (&raw mut used).cast())), 0);
        assert_eq!(call!(cuDeviceGetGraphMemAttribute(0, 3, (&raw mut most).cast())), 0);
        assert!(used >= 32 << 20 && most >= used, "{used} of {most}");
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        [g, second].into_iter().for_each(destroy);
        other::pop().map(other::destroy).unwrap();
    });
}

#[test]
fn an_executable_stays_in_the_context_of_its_memory() {
    run(|| {
        let first = other::create();
        let near = memory(64);
        let second = other::create();
        let far = memory(64);
        assert_eq!(other::pop(), Ok(second));
        let g = graph();
        let (_, node) = fill(g, &[], bytes(near, 1, 4));
        let executable = instantiate(g, 0).unwrap();
        let set = |to| call!(cuGraphExecMemsetNodeSetParams(executable, node, &bytes(to, 1, 4), current()));
        assert_eq!((set(near), set(far)), (0, 1));
        assert_eq!(call!(cuGraphMemsetNodeSetParams(node, &bytes(far, 1, 4))), 0);
        assert_eq!(update(executable, g), 910);
        let copies = graph();
        let (mut copied, here) = (null_mut(), current());
        let params = copy(near, far, 4);
        assert_eq!(call!(cuGraphAddMemcpyNode(&mut copied, copies, null(), 0, &params, here)), 0);
        let of_copies = instantiate(copies, 0).unwrap();
        let set = |params| call!(cuGraphExecMemcpyNodeSetParams(of_copies, copied, &params, here));
        assert_eq!((set(copy(near, near + 8, 4)), set(copy(far, near, 4))), (0, 1), "where it copies from");
        for gone in [executable, of_copies] {
            assert_eq!(call!(cuGraphExecDestroy(gone)), 0);
        }
        [g, copies].into_iter().for_each(destroy);
        other::destroy(first);
        other::destroy(second);
    });
}

#[test]
fn an_upload_is_forbidden_by_its_stream_alone() {
    run_alone(|| {
        let _context = other::create();
        let (s, free) = (stream(1), stream(1));
        let g = graph();
        let make = |stream, flags| {
            // SAFETY: a struct of numbers and pointers.
            let mut params: CUDA_GRAPH_INSTANTIATE_PARAMS = unsafe { std::mem::zeroed() };
            (params.flags, params.hUploadStream) = (flags, stream);
            let mut executable = null_mut();
            let status = call!(cuGraphInstantiateWithParams(&mut executable, g, &mut params));
            assert!(status != 0 || call!(cuGraphExecDestroy(executable)) == 0);
            status
        };
        assert_eq!(call!(cuStreamBeginCapture_v2(s, 2)), 0);
        assert_eq!((make(free, 2), make(s, 0), make(s, 2)), (0, 0, 900));
        let mut none = null_mut();
        assert_eq!(call!(cuStreamEndCapture(s, &mut none)), 901);
        assert_eq!(call!(cuGraphInstantiateWithFlags(null_mut(), null_mut(), 2)), 1);
        destroy(g);
        other::pop().map(other::destroy).unwrap();
    });
}

#[test]
fn edges_of_a_capture_are_told_beside_its_nodes() {
    run_alone(|| {
        let _context = other::create();
        let (s, mut status, mut edges) = (stream(1), 77, null());
        assert_eq!(call!(cuStreamBeginCapture_v2(s, 2)), 0);
        let (none, nowhere) = (null_mut(), null_mut());
        let asked = call!(cuStreamGetCaptureInfo_v3(
            s,
            &mut status,
            null_mut(),
            none,
            null_mut(),
            &mut edges,
            nowhere
        ));
        assert_eq!((asked, status), (1, 1));
        other::pop().map(other::destroy).unwrap();
    });
}

#[test]
fn work_that_is_not_joined_is_named_before_the_wrong_thread() {
    run_alone(|| {
        let _context = other::create();
        let (s, branch, e) = (stream(1), stream(1), event());
        let here = current().addr();
        assert_eq!(call!(cuStreamBeginCapture_v2(s, 0)), 0);
        assert_eq!(call!(cuEventRecord(e, s)), 0);
        assert_eq!(call!(cuStreamWaitEvent(branch, e, 0)), 0);
        assert_eq!(call!(cuLaunchHostFunc(branch, Some(nothing), null_mut())), 0);
        let raw = s.addr();
        let elsewhere = move || {
            assert_eq!(call!(cuCtxPushCurrent_v2(here as CUcontext)), 0);
            let mut graph = null_mut();
            let ended = call!(cuStreamEndCapture(raw as CUstream, &mut graph));
            assert_eq!(call!(cuCtxPopCurrent_v2(null_mut())), 0);
            ended
        };
        assert_eq!(std::thread::spawn(elsewhere).join().unwrap(), 904);
        other::pop().map(other::destroy).unwrap();
    });
}

unsafe extern "C" fn nothing(_: *mut std::ffi::c_void) {}
