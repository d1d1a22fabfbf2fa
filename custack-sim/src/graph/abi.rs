//! The C ABI of the graph chapter: graphs, their edges, user objects. Nodes and executables have files of their own.

// C functions that read and write through the pointers that they get.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

mod executable;
mod generic;
mod nodes;
mod params;

pub(crate) use executable::*;
pub(crate) use generic::*;
pub(crate) use nodes::*;
pub(crate) use params::copy_of;

use super::edges::Data;
use super::{Edge, Host};
use crate::abi::{c_abi, call, give, give_first, name, put};
use crate::machine::*;
use custack_sys::ffi::*;
use std::os::raw::{c_char, c_uint, c_void};

/// Writes handles into a list of as many places as `count` says, and how many there are. Places left over are NULL.
///
/// # Safety
///
/// `count` is NULL or valid for reads and writes, and each list is NULL or has `count` places.
unsafe fn give_list<const LISTS: usize>(
    machine: &mut Machine,
    lists: [*mut CUgraphNode; LISTS],
    count: *mut usize,
    found: &[[usize; LISTS]],
) -> Answer<()> {
    if count.is_null() {
        return machine.refuse(INVALID_VALUE, "a list needs a pointer for its length, and got NULL");
    }
    let given = lists.iter().filter(|list| !list.is_null()).count();
    if given != 0 && given != LISTS {
        return machine.refuse(INVALID_VALUE, "an edge has two ends, and one list is NULL");
    }
    if given == 0 {
        // SAFETY: as the caller guarantees.
        unsafe { count.write(found.len()) };
        return Ok(());
    }
    // SAFETY: the caller guarantees as many places as it says.
    unsafe {
        let places = count.read();
        for at in 0..places {
            for (list, out) in lists.iter().enumerate() {
                out.add(at).write(found.get(at).map_or(0, |handles| handles[list]) as CUgraphNode);
            }
        }
        count.write(found.len().min(places));
    }
    Ok(())
}

/// Writes the edge data, beside a list of edges; without space for it, all edges must be full dependencies. Places left
/// over are as for full dependencies if the list is `padded`, and else stay as they were.
///
/// # Safety
///
/// Like [`give_list`].
unsafe fn give_data(
    machine: &mut Machine,
    list: bool,
    out: *mut CUgraphEdgeData,
    count: *mut usize,
    (edges, padded): (&[Edge], bool),
) -> Answer<()> {
    if list && out.is_null() {
        return machine.check_lossless(edges);
    }
    if out.is_null() {
        return Ok(());
    }
    if !list {
        return machine.refuse(INVALID_VALUE, "what edges are like is told beside a list of them");
    }
    if count.is_null() {
        return Ok(());
    }
    // SAFETY: the caller guarantees as many places as it says.
    unsafe {
        let places = if padded { count.read() } else { edges.len().min(count.read()) };
        for at in 0..places {
            out.add(at).write(edges.get(at).map_or_else(Data::default, |edge| edge.data).into());
        }
    }
    Ok(())
}

/// The dependencies of a node, with the edge data.
///
/// # Safety
///
/// `nodes` and `edges` are NULL or have `count` places.
pub(crate) unsafe fn after(
    machine: &mut Machine,
    nodes: *const CUgraphNode,
    edges: *const CUgraphEdgeData,
    count: usize,
) -> Answer<Vec<Edge>> {
    if count > 0 && nodes.is_null() {
        return machine
            .refuse(INVALID_VALUE, format_args!("{count} nodes to come after, and the list is NULL"));
    }
    let read = |at: usize| {
        // SAFETY: the caller guarantees the places.
        let (node, data) =
            unsafe { (nodes.add(at).read(), (!edges.is_null()).then(|| edges.add(at).read())) };
        Edge::after(node.addr(), data.map_or_else(Data::default, Data::from))
    };
    Ok((0..count).map(read).collect())
}

/// Edges from these nodes to those.
///
/// # Safety
///
/// Each list is NULL or has `count` places.
unsafe fn edges(
    machine: &mut Machine,
    from: *const CUgraphNode,
    to: *const CUgraphNode,
    data: *const CUgraphEdgeData,
    count: usize,
) -> Answer<Vec<Edge>> {
    // SAFETY: the caller guarantees the places.
    let (edges, to) =
        unsafe { (after(machine, from, data, count)?, after(machine, to, std::ptr::null(), count)?) };
    Ok(edges.into_iter().zip(to).map(|(edge, to)| Edge { to: to.from, ..edge }).collect())
}

c_abi! {
    fn cuGraphCreate(graph: *mut CUgraph, flags: c_uint) {
        give(graph, |m| m.create_graph(!graph.is_null(), flags).map(|it| it as CUgraph))
    }
    fn cuGraphDestroy(graph: CUgraph) { call(|m| m.destroy_graph(graph.addr())) }
    fn cuGraphClone(clone: *mut CUgraph, graph: CUgraph) {
        give(clone, |m| m.clone_graph(!clone.is_null(), graph.addr()).map(|it| it as CUgraph))
    }
    fn cuGraphNodeFindInClone(node: *mut CUgraphNode, original: CUgraphNode, clone: CUgraph) {
        call(|m| {
            m.node_type(original.addr())?;
            m.nodes_of(clone.addr())?;
            let found = m.find_in_clone(!node.is_null(), original.addr(), clone.addr());
            put(node, found.unwrap_or(0) as CUgraphNode);
            found.map(|_| ())
        })
    }
    fn cuGraphNodeGetType(node: CUgraphNode, kind: *mut c_uint) { give_first(kind, |m| m.node_type(node.addr())) }
    fn cuGraphGetNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) {
        call(|m| {
            let found: Vec<_> = m.nodes_of(graph.addr())?.into_iter().map(|node| [node]).collect();
            give_list(m, [nodes], count, &found)
        })
    }
    fn cuGraphGetRootNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) {
        call(|m| {
            let found: Vec<_> = m.roots_of(graph.addr())?.into_iter().map(|node| [node]).collect();
            give_list(m, [nodes], count, &found)
        })
    }
    fn cuGraphGetEdges(graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, count: *mut usize) {
        cuGraphGetEdges_v2(graph, from, to, std::ptr::null_mut(), count)
    }
    fn cuGraphGetEdges_v2(graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, edges: *mut CUgraphEdgeData, count: *mut usize) {
        call(|m| {
            let found = m.edges_of(graph.addr())?;
            give_data(m, !from.is_null() && !to.is_null(), edges, count, (&found, true))?;
            give_list(m, [from, to], count, &found.iter().map(|edge| [edge.from, edge.to]).collect::<Vec<_>>())
        })
    }
    fn cuGraphNodeGetDependencies(node: CUgraphNode, nodes: *mut CUgraphNode, count: *mut usize) {
        cuGraphNodeGetDependencies_v2(node, nodes, std::ptr::null_mut(), count)
    }
    fn cuGraphNodeGetDependencies_v2(node: CUgraphNode, nodes: *mut CUgraphNode, edges: *mut CUgraphEdgeData, count: *mut usize) {
        call(|m| {
            let found = m.edges_to(node.addr())?;
            give_data(m, !nodes.is_null(), edges, count, (&found, false))?;
            give_list(m, [nodes], count, &found.iter().map(|edge| [edge.from]).collect::<Vec<_>>())
        })
    }
    fn cuGraphNodeGetDependentNodes(node: CUgraphNode, nodes: *mut CUgraphNode, count: *mut usize) {
        cuGraphNodeGetDependentNodes_v2(node, nodes, std::ptr::null_mut(), count)
    }
    fn cuGraphNodeGetDependentNodes_v2(node: CUgraphNode, nodes: *mut CUgraphNode, edges: *mut CUgraphEdgeData, count: *mut usize) {
        call(|m| {
            let found = m.edges_from(node.addr())?;
            give_data(m, !nodes.is_null(), edges, count, (&found, false))?;
            give_list(m, [nodes], count, &found.iter().map(|edge| [edge.to]).collect::<Vec<_>>())
        })
    }
    fn cuGraphAddDependencies(graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, count: usize) {
        cuGraphAddDependencies_v2(graph, from, to, std::ptr::null(), count)
    }
    fn cuGraphAddDependencies_v2(graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, data: *const CUgraphEdgeData, count: usize) {
        call(|m| {
            let edges = edges(m, from, to, data, count)?;
            m.add_edges(graph.addr(), &edges)
        })
    }
    fn cuGraphRemoveDependencies(graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, count: usize) {
        cuGraphRemoveDependencies_v2(graph, from, to, std::ptr::null(), count)
    }
    fn cuGraphRemoveDependencies_v2(graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, data: *const CUgraphEdgeData, count: usize) {
        call(|m| {
            m.may_lose_edges(graph.addr())?;
            let edges = edges(m, from, to, data, count)?;
            m.remove_edges(graph.addr(), &edges)
        })
    }
    fn cuGraphDestroyNode(node: CUgraphNode) { call(|m| m.destroy_node(node.addr())) }
    fn cuGraphChildGraphNodeGetGraph(node: CUgraphNode, child: *mut CUgraph) {
        give(child, |m| m.child_of(node.addr()).map(|it| it as CUgraph))
    }
    fn cuGraphDebugDotPrint(graph: CUgraph, path: *const c_char, flags: c_uint) {
        call(|m| {
            let path = name(m, path)?;
            m.write_dot(graph.addr(), &path, flags)
        })
    }
    fn cuUserObjectCreate(object: *mut CUuserObject, data: *mut c_void, destroy: CUhostFn, count: c_uint, flags: c_uint) {
        give(object, |m| {
            let host = destroy.map(|_| Host { function: destroy, data: data.addr() });
            m.create_user(!object.is_null(), host, count, flags).map(|it| it as CUuserObject)
        })
    }
    fn cuUserObjectRetain(object: CUuserObject, count: c_uint) { call(|m| m.retain_user(object.addr(), count)) }
    fn cuUserObjectRelease(object: CUuserObject, count: c_uint) { call(|m| m.release_user(object.addr(), count)) }
    fn cuGraphRetainUserObject(graph: CUgraph, object: CUuserObject, count: c_uint, flags: c_uint) {
        call(|m| m.graph_retains(graph.addr(), object.addr(), count, flags))
    }
    fn cuGraphReleaseUserObject(graph: CUgraph, object: CUuserObject, count: c_uint) {
        call(|m| m.graph_releases(graph.addr(), object.addr(), count))
    }
}
