//! Graphs: how they are built, and what can be asked of them.

use super::capture::{memory, stream};
use crate::harness::{drain, is_simulated, other, run};
use custack_sys::ffi::*;
use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub(super) fn nodes(graph: CUgraph) -> Vec<CUgraphNode> {
    list(|nodes, count| call!(cuGraphGetNodes(graph, nodes, count)))
}

pub(super) fn type_of(node: CUgraphNode) -> u32 {
    let mut kind = 77;
    assert_eq!(call!(cuGraphNodeGetType(node, &mut kind)), 0);
    kind
}

pub(super) fn list(ask: impl Fn(*mut CUgraphNode, *mut usize) -> u32) -> Vec<CUgraphNode> {
    let mut count = 0;
    assert_eq!(ask(null_mut(), &mut count), 0);
    let mut nodes = vec![null_mut(); count];
    if count > 0 {
        assert_eq!(ask(nodes.as_mut_ptr(), &mut count), 0);
    }
    nodes
}

pub(super) fn graph() -> CUgraph {
    let mut graph = null_mut();
    assert_eq!(call!(cuGraphCreate(&mut graph, 0)), 0);
    graph
}

pub(super) fn destroy(graph: CUgraph) {
    assert_eq!(call!(cuGraphDestroy(graph)), 0);
}

pub(super) fn empty(graph: CUgraph, after: &[CUgraphNode]) -> CUgraphNode {
    let mut node = null_mut();
    assert_eq!(call!(cuGraphAddEmptyNode(&mut node, graph, after.as_ptr(), after.len())), 0);
    node
}

pub(super) fn empties<const N: usize>(graph: CUgraph) -> [CUgraphNode; N] {
    std::array::from_fn(|_| empty(graph, &[]))
}

pub(super) fn host(graph: CUgraph, after: &[CUgraphNode], params: CUDA_HOST_NODE_PARAMS) -> CUgraphNode {
    let mut node = null_mut();
    assert_eq!(call!(cuGraphAddHostNode(&mut node, graph, after.as_ptr(), after.len(), &params)), 0);
    node
}

pub(super) fn fill(
    graph: CUgraph,
    after: &[CUgraphNode],
    params: CUDA_MEMSET_NODE_PARAMS,
) -> (u32, CUgraphNode) {
    let mut node = null_mut();
    let (list, count) = (after.as_ptr(), after.len());
    (call!(cuGraphAddMemsetNode(&mut node, graph, list, count, &params, null_mut())), node)
}

/// As [`fill`], in the current context: memory of a graph is of none, as long as it is not there.
pub(super) fn fill_here(
    graph: CUgraph,
    after: &[CUgraphNode],
    params: CUDA_MEMSET_NODE_PARAMS,
) -> (u32, CUgraphNode) {
    let mut node = null_mut();
    let (list, count, here) = (after.as_ptr(), after.len(), crate::harness::current());
    (call!(cuGraphAddMemsetNode(&mut node, graph, list, count, &params, here)), node)
}

pub(super) fn bytes(dst: u64, value: u32, width: usize) -> CUDA_MEMSET_NODE_PARAMS {
    CUDA_MEMSET_NODE_PARAMS { dst, pitch: 0, value, elementSize: 1, width, height: 1 }
}

pub(super) fn copy(from: u64, to: u64, size: usize) -> CUDA_MEMCPY3D {
    // SAFETY: a struct of numbers and pointers.
    let zero: CUDA_MEMCPY3D = unsafe { std::mem::zeroed() };
    CUDA_MEMCPY3D {
        srcMemoryType: 2,
        srcDevice: from,
        dstMemoryType: 2,
        dstDevice: to,
        WidthInBytes: size,
        Height: 1,
        Depth: 1,
        ..zero
    }
}

pub(super) fn instantiate(graph: CUgraph, flags: u64) -> Result<CUgraphExec, u32> {
    let mut executable = 0x77 as CUgraphExec;
    let status = call!(cuGraphInstantiateWithFlags(&mut executable, graph, flags));
    assert_eq!(executable.addr() == 0x77, status != 0);
    if status == 0 { Ok(executable) } else { Err(status) }
}

pub(super) fn launch(executable: CUgraphExec, stream: CUstream) -> u32 {
    match call!(cuGraphLaunch(executable, stream)) {
        0 => call!(cuStreamSynchronize(stream)),
        status => status,
    }
}

pub(super) fn edges(graph: CUgraph, from: &[CUgraphNode], to: &[CUgraphNode]) -> u32 {
    call!(cuGraphAddDependencies(graph, from.as_ptr(), to.as_ptr(), from.len()))
}

pub(super) fn edges_of(graph: CUgraph, nodes: &[CUgraphNode]) -> Vec<(usize, usize)> {
    let (mut from, mut to, mut count) = ([null_mut(); 16], [null_mut(); 16], 16);
    assert_eq!(call!(cuGraphGetEdges(graph, from.as_mut_ptr(), to.as_mut_ptr(), &mut count)), 0);
    places(nodes, &from[..count]).into_iter().zip(places(nodes, &to[..count])).collect()
}

pub(super) fn places(nodes: &[CUgraphNode], found: &[CUgraphNode]) -> Vec<usize> {
    found.iter().map(|node| nodes.iter().position(|it| it == node).unwrap()).collect()
}

pub(super) fn value(at: u64) -> [u8; 4] {
    let mut value = [0xee; 4];
    assert_eq!(call!(cuMemcpyDtoH_v2(value.as_mut_ptr().cast(), at, 4)), 0);
    value
}

pub(super) unsafe extern "C" fn count(data: *mut c_void) {
    // SAFETY: the tests pass a counter that outlives the work.
    unsafe { &*data.cast::<AtomicU32>() }.fetch_add(1, Ordering::SeqCst);
}

pub(super) unsafe extern "C" fn sleep(data: *mut c_void) {
    std::thread::sleep(Duration::from_millis(100));
    // SAFETY: as above.
    unsafe { count(data) };
}

pub(super) fn counting(counter: &AtomicU32) -> CUDA_HOST_NODE_PARAMS {
    CUDA_HOST_NODE_PARAMS { fn_: Some(count), userData: (&raw const *counter).cast_mut().cast() }
}

pub(super) fn sleeping(counter: &AtomicU32) -> CUDA_HOST_NODE_PARAMS {
    CUDA_HOST_NODE_PARAMS { fn_: Some(sleep), ..counting(counter) }
}

pub(super) fn bench(test: impl FnOnce() + Send) {
    run(|| {
        let context = other::create();
        test();
        assert_eq!(drain(), [context]);
        other::destroy(context);
    });
}

#[test]
fn graphs_and_nodes_are_made_of_what_is_there() {
    bench(|| {
        let mut node = null_mut();
        assert_eq!(call!(cuGraphCreate(&mut null_mut(), 1)), 1);
        assert_eq!(call!(cuGraphCreate(null_mut(), 0)), 1);
        assert_eq!(call!(cuGraphDestroy(null_mut())), 1);
        assert_eq!(call!(cuGraphClone(&mut null_mut(), null_mut())), 1);
        let (a, b) = (graph(), graph());
        let [first, stranger] = [empty(a, &[]), empty(b, &[])];
        for after in [vec![stranger], vec![first, first], vec![first, null_mut()]] {
            assert_eq!(call!(cuGraphAddEmptyNode(&mut node, a, after.as_ptr(), after.len())), 1);
        }
        assert_eq!(call!(cuGraphAddEmptyNode(&mut node, a, null(), 1)), 1);
        assert_eq!(call!(cuGraphAddEmptyNode(null_mut(), a, null(), 0)), 1);
        assert_eq!(nodes(a), [first]);
        assert_eq!(call!(cuGraphNodeGetType(null_mut(), &mut 0)), 1);
        assert_eq!(call!(cuGraphNodeGetType(first, null_mut())), 1);
        assert_eq!(call!(cuGraphDestroyNode(null_mut())), 1);
        destroy(a);
        assert_eq!(call!(cuGraphDestroy(a)), 1, "a graph that is gone is known to be");
        destroy(b);
    });
}

#[test]
fn nodes_edges_and_roots_have_their_order() {
    bench(|| {
        let g = graph();
        let n: [_; 6] = empties(g);
        assert_eq!(nodes(g), n);
        let mut places_for = [1 as CUgraphNode; 8];
        let mut count = 8;
        assert_eq!(call!(cuGraphGetNodes(g, places_for.as_mut_ptr(), &mut count)), 0);
        assert_eq!((count, places_for[6], places_for[7]), (6, null_mut(), null_mut()));
        assert_eq!(edges(g, &[n[0], n[0], n[1], n[3]], &[n[2], n[1], n[2], n[4]]), 0);
        assert_eq!(edges_of(g, &n), [(0, 2), (0, 1), (1, 2), (3, 4)]);
        let roots = || list(|list, count| call!(cuGraphGetRootNodes(g, list, count)));
        assert_eq!(places(&n, &roots()), [5, 3, 0], "the latest root first");
        let before = list(|list, count| call!(cuGraphNodeGetDependencies(n[2], list, count)));
        assert_eq!(places(&n, &before), [0, 1]);
        let after = list(|list, count| call!(cuGraphNodeGetDependentNodes(n[0], list, count)));
        assert_eq!(places(&n, &after), [2, 1]);
        // Those before the first that is refused are made.
        assert_eq!(edges(g, &[n[5], n[0]], &[n[4], n[2]]), 1);
        assert_eq!(edges_of(g, &n), [(0, 2), (0, 1), (1, 2), (3, 4), (5, 4)]);
        assert_eq!(edges(g, &[n[0]], &[n[0]]), 1);
        assert_eq!(edges(g, &[n[0]], &[null_mut()]), 1);
        assert_eq!(call!(cuGraphRemoveDependencies(g, &n[1], &n[5], 1)), 1);
        assert_eq!(call!(cuGraphRemoveDependencies(g, &n[0], &n[2], 1)), 0);
        assert_eq!(call!(cuGraphDestroyNode(n[4])), 0);
        assert_eq!(edges_of(g, &n), [(0, 1), (1, 2)]);
        destroy(g);
    });
}

#[test]
fn a_circle_is_found_when_the_graph_is_instantiated() {
    bench(|| {
        let g = graph();
        let [a, b] = empties(g);
        assert_eq!(edges(g, &[a, b], &[b, a]), 0);
        assert_eq!(instantiate(g, 0), Err(1));
        let mut params = CUDA_GRAPH_INSTANTIATE_PARAMS {
            flags: 0,
            hUploadStream: null_mut(),
            hErrNode_out: null_mut(),
            result_out: 9,
        };
        let mut executable = null_mut();
        assert_eq!(call!(cuGraphInstantiateWithParams(&mut executable, g, &mut params)), 1);
        assert_eq!((params.result_out, [a, b].contains(&params.hErrNode_out)), (2, true));
        assert_eq!(call!(cuGraphRemoveDependencies(g, &b, &a, 1)), 0);
        assert_eq!(call!(cuGraphExecDestroy(instantiate(g, 0).unwrap())), 0);
        destroy(g);
    });
}

#[test]
fn a_clone_has_a_node_for_each_of_its_original() {
    bench(|| {
        let g = graph();
        let n: [_; 3] = empties(g);
        assert_eq!(edges(g, &[n[0]], &[n[2]]), 0);
        let (mut clone, mut second) = (null_mut(), null_mut());
        assert_eq!(call!(cuGraphClone(&mut clone, g)), 0);
        let find = |node, graph| {
            let mut found = null_mut();
            (call!(cuGraphNodeFindInClone(&mut found, node, graph)), found)
        };
        let copies = n.map(|node| find(node, clone).1);
        assert_eq!(nodes(clone), copies);
        assert_eq!(edges_of(clone, &copies), [(0, 2)]);
        assert_eq!(find(empty(g, &[]), clone).0, 1, "made after the clone");
        assert_eq!((find(n[0], g).0, find(null_mut(), clone).0), (1, 1));
        assert_eq!(call!(cuGraphClone(&mut second, clone)), 0);
        assert_eq!((find(n[0], second).0, find(copies[0], second).0), (1, 0));
        assert_eq!(call!(cuGraphDestroyNode(copies[1])), 0);
        assert_eq!(find(n[1], clone).0, 1);
        [g, clone, second].into_iter().for_each(destroy);
    });
}

#[test]
fn a_child_is_a_copy_that_its_parent_owns() {
    bench(|| {
        let (parent, child, done) = (graph(), graph(), AtomicU32::new(0));
        let first = empty(child, &[]);
        host(child, &[first], counting(&done));
        let (mut node, mut inner, mut found) = (null_mut(), null_mut(), null_mut());
        assert_eq!(call!(cuGraphAddChildGraphNode(&mut node, parent, null(), 0, child)), 0);
        assert_eq!(call!(cuGraphAddChildGraphNode(&mut node, parent, null(), 0, null_mut())), 1);
        assert_eq!(call!(cuGraphChildGraphNodeGetGraph(node, &mut inner)), 0);
        assert_ne!(inner, child);
        assert_eq!(call!(cuGraphNodeFindInClone(&mut found, first, inner)), 0);
        empty(child, &[]);
        assert_eq!(nodes(inner).len(), 2);
        assert_eq!(call!(cuGraphDestroy(inner)), 1);
        assert_eq!(instantiate(inner, 0), Err(801));
        assert_eq!(call!(cuGraphAddChildGraphNode(&mut found, child, null(), 0, inner)), 801);
        destroy(child);
        let executable = instantiate(parent, 0).unwrap();
        assert_eq!(launch(executable, stream(0)), 0);
        assert_eq!(done.load(Ordering::SeqCst), 1);
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        destroy(parent);
    });
}

#[test]
fn an_edge_may_say_more_than_one_after_the_other_only_between_kernels() {
    bench(|| {
        let g = graph();
        let [a, b] = empties(g);
        let data = |from_port, to_port, kind| CUgraphEdgeData { from_port, to_port, kind, reserved: [0; 5] };
        for wrong in [data(0, 0, 1), data(1, 0, 0), data(0, 1, 0), data(0, 0, 9)] {
            assert_eq!(call!(cuGraphAddDependencies_v2(g, &a, &b, &wrong, 1)), 1, "{wrong:?}");
        }
        assert_eq!(call!(cuGraphAddDependencies_v2(g, &a, &b, &data(0, 0, 0), 1)), 0);
        assert_eq!(call!(cuGraphAddDependencies_v2(g, &a, &b, null(), 1)), 1, "it is there");
        destroy(g);
    });
}

#[test]
fn edges_of_which_one_has_wrong_data_are_not_added_and_those_before_one_that_is_there_are() {
    bench(|| {
        let g = graph();
        let all @ [a, b, c] = empties(g);
        let data =
            |kind, last| CUgraphEdgeData { from_port: 0, to_port: 0, kind, reserved: [0, 0, 0, 0, last] };
        let (good, wrong) = (data(0, 0), [data(1, 0), data(2, 0), data(0, 1)]);
        let add = |from: [CUgraphNode; 3], to: [CUgraphNode; 3], data: [CUgraphEdgeData; 3]| {
            let (from, to) = (from.as_ptr(), to.as_ptr());
            call!(cuGraphAddDependencies_v2(g, from, to, data.as_ptr(), 3))
        };
        for wrong in wrong {
            assert_eq!(add([a; 3], [c, b, b], [good, good, wrong]), 1, "{wrong:?}");
            assert_eq!(add([a; 3], [b, c, b], [wrong, good, good]), 1, "{wrong:?}");
            assert_eq!(edges_of(g, &all), []);
        }
        assert_eq!(add([a, a, b], [c, b, b], [good; 3]), 1, "from a node to itself");
        assert_eq!(edges_of(g, &all), []);
        assert_eq!(add([a; 3], [b, b, c], [good; 3]), 1, "twice");
        assert_eq!(edges_of(g, &all), [(0, 1)]);
        assert_eq!(add([b, a, a], [c, b, c], [good, good, wrong[0]]), 1, "also one that is there");
        assert_eq!(edges_of(g, &all), [(0, 1)]);
        assert_eq!(add([b, a, a], [c, b, c], [good; 3]), 1, "there");
        assert_eq!(edges_of(g, &all), [(0, 1), (1, 2)]);
        destroy(g);
    });
}

#[test]
fn fills_and_copies_are_looked_at_when_they_are_added() {
    bench(|| {
        let (g, at) = (graph(), memory(4096));
        let good = bytes(at, 1, 8);
        let rows = CUDA_MEMSET_NODE_PARAMS { height: 4, ..good };
        let fills = [
            (good, 0),
            (CUDA_MEMSET_NODE_PARAMS { elementSize: 3, ..good }, 1),
            (CUDA_MEMSET_NODE_PARAMS { elementSize: 4, dst: at + 1, ..good }, 1),
            (CUDA_MEMSET_NODE_PARAMS { width: 0, ..good }, 1),
            (CUDA_MEMSET_NODE_PARAMS { height: 0, ..good }, 1),
            (CUDA_MEMSET_NODE_PARAMS { value: 0x1234, ..good }, 0),
            (CUDA_MEMSET_NODE_PARAMS { pitch: 999, ..good }, 0),
            (CUDA_MEMSET_NODE_PARAMS { width: 4097, ..good }, 1),
            (rows, 1),
            (CUDA_MEMSET_NODE_PARAMS { pitch: 4, ..rows }, 1),
            (CUDA_MEMSET_NODE_PARAMS { pitch: 64, ..rows }, 0),
        ];
        for (params, expected) in fills {
            assert_eq!(fill(g, &[], params).0, expected, "{params:?}");
        }
        let good = copy(at, at + 64, 16);
        let copies = [
            (good, 0),
            (CUDA_MEMCPY3D { WidthInBytes: 0, ..good }, 1),
            (CUDA_MEMCPY3D { Height: 0, ..good }, 1),
            (CUDA_MEMCPY3D { Depth: 0, ..good }, 1),
            (CUDA_MEMCPY3D { srcMemoryType: 0, ..good }, 1),
            (CUDA_MEMCPY3D { srcMemoryType: 9, ..good }, 1),
            (CUDA_MEMCPY3D { srcMemoryType: 4, ..good }, 0),
            (CUDA_MEMCPY3D { srcMemoryType: 1, ..good }, 1),
            (CUDA_MEMCPY3D { srcDevice: 0x77, ..good }, 1),
            (CUDA_MEMCPY3D { WidthInBytes: 5000, ..good }, 1),
            (CUDA_MEMCPY3D { Height: 4, ..good }, 0),
            (CUDA_MEMCPY3D { Height: 4, srcPitch: 8, dstPitch: 32, ..good }, 1),
        ];
        for (params, expected) in copies {
            let mut node = null_mut();
            let status = call!(cuGraphAddMemcpyNode(&mut node, g, null(), 0, &params, null_mut()));
            assert_eq!(status, expected, "{params:?}");
        }
        destroy(g);
    });
}

#[test]
fn a_graph_is_written_as_a_dot_file() {
    bench(|| {
        let (g, at, done) = (graph(), memory(64), AtomicU32::new(0));
        let (_, first) = fill(g, &[], bytes(at, 1, 8));
        let second = host(g, &[first], counting(&done));
        let mut third = null_mut();
        let params = copy(at, at + 16, 16);
        assert_eq!(call!(cuGraphAddMemcpyNode(&mut third, g, &second, 1, &params, null_mut())), 0);
        empty(g, &[third]);
        let file = std::env::temp_dir().join(format!("custack-dot-{}", std::process::id()));
        let path = CString::new(file.to_str().unwrap()).unwrap();
        assert_eq!(call!(cuGraphDebugDotPrint(g, c"/nowhere/x.dot".as_ptr(), 0)), 304);
        assert_eq!(call!(cuGraphDebugDotPrint(g, null(), 0)), 1);
        assert_eq!(call!(cuGraphDebugDotPrint(null_mut(), path.as_ptr(), 0)), 1);
        assert_eq!(call!(cuGraphDebugDotPrint(g, path.as_ptr(), 0)), 0);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let number = text.split("cluster_").nth(1).unwrap().split(' ').next().unwrap();
        let expected = DOT.replace('#', number);
        assert_eq!(text, expected);
        destroy(g);
        assert!(is_simulated() || number.parse::<u32>().is_ok());
    });
}

const DOT: &str = r##"digraph dot {
subgraph cluster_# {
label="graph_#" graph[style="dashed"];
"graph_#_node_0"[style="solid" shape="invtrapezium"label="0
MEMSET
(1,8)
"];

"graph_#_node_1"[style="solid" shape="rectangle" label="1
HOST
"];

"graph_#_node_2"[style="solid" shape="trapezium"label="2
MEMCPY
(DtoD,16)
"];

"graph_#_node_3"[style="solid" shape="rectangle" label="3
EMPTY
"];

"graph_#_node_0" -> "graph_#_node_1";
"graph_#_node_1" -> "graph_#_node_2";
"graph_#_node_2" -> "graph_#_node_3";
}
}
"##;
