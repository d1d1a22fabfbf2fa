//! Graphs that are deep or wide: an H100 launched child graphs 5,000 deep.

use super::capture::stream;
use super::graph::{
    bench, counting, destroy, edges, empty, graph, host, instantiate, launch, nodes, type_of,
};
use crate::allocations::allocations;
use crate::harness::{is_simulated, skip};
use custack_sys::ffi::*;
use std::collections::HashSet;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, ThreadId};

/// More than a thread's stack has room for, if each of them is a call.
const DEPTH: usize = 5000;
const WIDTH: usize = 100_000;

/// Adds a graph as a child; returns the copy that the parent has.
fn child(parent: CUgraph, after: &[CUgraphNode], of: CUgraph) -> CUgraph {
    let (mut node, mut inner) = (null_mut(), null_mut());
    assert_eq!(call!(cuGraphAddChildGraphNode(&mut node, parent, after.as_ptr(), after.len(), of)), 0);
    assert_eq!(call!(cuGraphChildGraphNodeGetGraph(node, &mut inner)), 0);
    inner
}

/// Graphs in each other, of which the innermost one counts. They are added from the outside, as adding copies what is inside.
fn deep(counter: &AtomicU32) -> CUgraph {
    let (outer, none) = (graph(), graph());
    let innermost = (0..DEPTH).fold(outer, |parent, _| child(parent, &[], none));
    host(innermost, &[], counting(counter));
    destroy(none);
    outer
}

#[test]
fn child_graphs_may_be_5000_deep() {
    bench(|| {
        let (counter, s) = (AtomicU32::new(0), stream(1));
        let outer = deep(&counter);
        let executable = instantiate(outer, 0).unwrap();
        assert_eq!((launch(executable, s), launch(executable, s)), (0, 0));
        assert_eq!(counter.load(Ordering::SeqCst), 2);
        // Another one like it, which counts elsewhere.
        let (other, there) = (AtomicU32::new(0), &mut null_mut());
        let like_it = deep(&other);
        let mut info =
            CUgraphExecUpdateResultInfo { result: 7, errorNode: null_mut(), errorFromNode: null_mut() };
        assert_eq!(call!(cuGraphExecUpdate_v2(executable, like_it, &mut info)), 0);
        assert_eq!(launch(executable, s), 0);
        assert_eq!((counter.load(Ordering::SeqCst), other.load(Ordering::SeqCst)), (2, 1));
        assert_eq!(call!(cuGraphClone(there, outer)), 0);
        [outer, like_it].into_iter().for_each(destroy);
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        let executable = instantiate(*there, 0).unwrap();
        destroy(*there);
        assert_eq!((launch(executable, s), counter.load(Ordering::SeqCst)), (0, 3));
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
    });
}

#[test]
fn a_graph_costs_its_own_nodes_when_it_is_added_to_another_however_deep_it_is() {
    if !is_simulated() {
        return skip(
            "a_graph_costs_its_own_nodes_when_it_is_added_to_another_however_deep_it_is",
            "it counts what the simulated driver does",
        );
    }
    bench(|| {
        let (mut g, counter, s) = (graph(), AtomicU32::new(0), stream(1));
        host(g, &[], counting(&counter));
        let mut costs = Vec::new();
        for _ in 0..DEPTH {
            let around = || {
                let outer = graph();
                child(outer, &[], g);
                destroy(std::mem::replace(&mut g, outer));
            };
            costs.push(allocations(around));
        }
        let (first, most) = (costs[..20].iter().max(), costs.iter().max());
        assert!(
            most <= first.map(|first| first + 8).as_ref(),
            "{most:?} allocations, and {first:?} at first"
        );
        // It is what it was added as, and copies are others.
        let (mut copy, mut inside) = (null_mut(), g);
        assert_eq!(call!(cuGraphClone(&mut copy, g)), 0);
        for _ in 0..DEPTH {
            let nodes = nodes(inside);
            assert_eq!((nodes.len(), type_of(nodes[0])), (1, 4));
            assert_eq!(call!(cuGraphChildGraphNodeGetGraph(nodes[0], &mut inside)), 0);
        }
        host(inside, &[], counting(&counter));
        for (graph, count) in [(g, 2), (copy, 3)] {
            let executable = instantiate(graph, 0).unwrap();
            assert_eq!((launch(executable, s), counter.load(Ordering::SeqCst)), (0, count));
            assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        }
        [g, copy].into_iter().for_each(destroy);
    });
}

/// A graph, its copies and theirs: each node is found in the copy of its own graph, at every depth, whatever was looked at first.
#[test]
fn nodes_are_found_in_copies_of_child_graphs() {
    bench(|| {
        let inside = |graph: CUgraph| {
            let mut inner = null_mut();
            assert_eq!(call!(cuGraphChildGraphNodeGetGraph(nodes(graph)[0], &mut inner)), 0);
            inner
        };
        for looks_first in [false, true] {
            let (inmost, middle, outer, mut copy) = (graph(), graph(), graph(), null_mut());
            empty(inmost, &[empty(inmost, &[])]);
            child(middle, &[], inmost);
            child(outer, &[], middle);
            if looks_first {
                assert_eq!(nodes(inside(inside(outer))).len(), 2);
            }
            assert_eq!(call!(cuGraphClone(&mut copy, outer)), 0);
            let mut pair = (outer, copy);
            loop {
                let (of, there) = (nodes(pair.0), nodes(pair.1));
                for (node, copy) in of.iter().zip(&there) {
                    let mut found = null_mut();
                    assert_eq!(call!(cuGraphNodeFindInClone(&mut found, *node, pair.1)), 0);
                    assert_eq!(found, *copy);
                }
                if of.len() == 2 {
                    break;
                }
                pair = (inside(pair.0), inside(pair.1));
            }
            [inmost, middle, outer, copy].into_iter().for_each(destroy);
        }
    });
}

#[test]
fn what_comes_after_a_child_graph_waits_for_all_that_is_in_it() {
    bench(|| {
        let (outer, none, counters) = (graph(), graph(), [const { AtomicU32::new(0) }; 3]);
        let inner = child(outer, &[], none);
        let inmost = child(inner, &[], none);
        let slow = CUDA_HOST_NODE_PARAMS { fn_: Some(super::graph::sleep), ..counting(&counters[0]) };
        host(inmost, &[], slow);
        // An empty child graph is done at once.
        child(inner, &[], none);
        let mut node = null_mut();
        let nodes = super::graph::nodes(outer);
        let looks =
            CUDA_HOST_NODE_PARAMS { fn_: Some(looks), userData: (&raw const counters).cast_mut().cast() };
        assert_eq!(call!(cuGraphAddHostNode(&mut node, outer, nodes.as_ptr(), nodes.len(), &looks)), 0);
        let executable = instantiate(outer, 0).unwrap();
        assert_eq!(launch(executable, stream(1)), 0);
        assert_eq!(counters.map(|it| it.into_inner()), [1, 1, 1]);
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        [outer, none].into_iter().for_each(destroy);
    });
}

/// Writes to the second counter what the first one is, and that it was called.
unsafe extern "C" fn looks(data: *mut c_void) {
    // SAFETY: the test passes counters that outlive the work.
    let counters = unsafe { &*data.cast::<[AtomicU32; 3]>() };
    counters[1].store(counters[0].load(Ordering::SeqCst), Ordering::SeqCst);
    counters[2].fetch_add(1, Ordering::SeqCst);
}

/// The threads on which host functions were called.
static THREADS: Mutex<Option<HashSet<ThreadId>>> = Mutex::new(None);

unsafe extern "C" fn notes_its_thread(_: *mut c_void) {
    THREADS.lock().unwrap().get_or_insert_default().insert(thread::current().id());
}

#[test]
fn a_graph_of_100_000_nodes_side_by_side_runs_on_few_threads() {
    bench(|| {
        let g = graph();
        let first = empty(g, &[]);
        let notes = CUDA_HOST_NODE_PARAMS { fn_: Some(notes_its_thread), userData: null_mut() };
        for at in 0..WIDTH {
            // On a GPU host functions take some microseconds each.
            if at % 50 == 0 {
                host(g, &[first], notes);
            } else {
                empty(g, &[first]);
            }
        }
        let mut roots = 0;
        assert_eq!((call!(cuGraphGetRootNodes(g, null_mut(), &mut roots)), roots), (0, 1));
        let executable = instantiate(g, 0).unwrap();
        let s = stream(1);
        assert_eq!((launch(executable, s), launch(executable, s)), (0, 0));
        let threads = THREADS.lock().unwrap().take().unwrap().len();
        // Two launches.
        let most = if is_simulated() { 2 * 128 } else { WIDTH / 50 };
        assert!((1..=most).contains(&threads), "{threads} threads");
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        destroy(g);
    });
}

#[test]
fn a_chain_of_20_000_nodes_is_launched_in_its_order() {
    bench(|| {
        let (g, counter) = (graph(), AtomicU32::new(0));
        let mut nodes = vec![host(g, &[], counting(&counter))];
        for _ in 0..20_000 {
            nodes.push(empty(g, &[]));
        }
        nodes.push(host(g, &[], counting(&counter)));
        assert_eq!(edges(g, &nodes[..nodes.len() - 1], &nodes[1..]), 0);
        let circle = edges(g, &nodes[nodes.len() - 1..], &nodes[..1]);
        assert_eq!((circle, instantiate(g, 0)), (0, Err(1)));
        let end = &nodes[nodes.len() - 1];
        assert_eq!(call!(cuGraphRemoveDependencies(g, end, &nodes[0], 1)), 0);
        let executable = instantiate(g, 0).unwrap();
        assert_eq!((launch(executable, stream(1)), counter.load(Ordering::SeqCst)), (0, 2));
        // Nodes that go take their edges with them.
        assert_eq!(nodes[1..10_000].iter().map(|node| call!(cuGraphDestroyNode(*node))).max(), Some(0));
        let mut count = 0;
        assert_eq!(call!(cuGraphGetEdges(g, null_mut(), null_mut(), &mut count)), 0);
        assert_eq!(count, nodes.len() - 1 - 10_000);
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        destroy(g);
    });
}
