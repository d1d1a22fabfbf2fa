//! Nodes as keys, which are checked before the driver is called.

use crate::driver::After;
use crate::driver::ffi::{CUgraphEdgeData, CUgraphNode, CUuserObject};
use crate::error::{CudaError, CudaResult};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// A node of one graph: a key, which can be copied and may outlive the node.
///
/// Every method that takes a key first checks that the node is of this graph and still exists, because the driver would
/// dereference any handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    graph: u64,
    number: u64,
}

/// The properties of an edge. With [`EdgeData::default`], as nearly all edges have it, the later node waits until the
/// earlier one is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub struct EdgeData {
    /// The point in the earlier node: 0 is its end; for a kernel, 1 is when all blocks have triggered the launch of
    /// dependents, and 2 is when all blocks have started.
    pub from_port: u8,
    /// The part of the later node that waits; 0 for all of it.
    pub to_port: u8,
    /// 0 for a full dependency; 1 if the later kernel may start before the earlier one has ended.
    pub kind: u8,
}

impl EdgeData {
    /// An edge with these ports and this kind.
    #[inline]
    pub fn new(from_port: u8, to_port: u8, kind: u8) -> EdgeData {
        EdgeData { from_port, to_port, kind }
    }

    #[inline]
    pub(super) fn of(raw: CUgraphEdgeData) -> EdgeData {
        EdgeData { from_port: raw.from_port, to_port: raw.to_port, kind: raw.kind }
    }

    #[inline]
    pub(super) fn raw(self) -> CUgraphEdgeData {
        let EdgeData { from_port, to_port, kind } = self;
        CUgraphEdgeData { from_port, to_port, kind, reserved: [0; 5] }
    }
}

/// What a node does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodeKind {
    /// It launches a kernel.
    Kernel,
    /// It copies memory.
    Copy,
    /// It fills memory.
    Fill,
    /// It calls a function of the program.
    HostFunction,
    /// It runs another graph.
    Child,
    /// It does nothing, and orders others.
    Empty,
    /// It waits for an event.
    EventWait,
    /// It records an event.
    EventRecord,
    /// It allocates memory.
    Allocation,
    /// It frees memory.
    Free,
    /// Another kind, with the driver's number.
    Other(u32),
}

impl NodeKind {
    #[inline]
    pub(super) fn from_raw(kind: u32) -> NodeKind {
        match kind {
            0 => NodeKind::Kernel,
            1 => NodeKind::Copy,
            2 => NodeKind::Fill,
            3 => NodeKind::HostFunction,
            4 => NodeKind::Child,
            5 => NodeKind::Empty,
            6 => NodeKind::EventWait,
            7 => NodeKind::EventRecord,
            10 => NodeKind::Allocation,
            11 => NodeKind::Free,
            other => NodeKind::Other(other),
        }
    }
}

/// A node that exists.
#[derive(Debug)]
struct Entry {
    raw: CUgraphNode,
    /// What the graph keeps for this version of the node.
    kept: Vec<CUuserObject>,
}

/// The nodes of a graph that have keys.
#[derive(Debug)]
pub(super) struct Nodes {
    graph: u64,
    next: u64,
    entries: HashMap<u64, Entry>,
    by_raw: HashMap<CUgraphNode, u64>,
}

// SAFETY: handles, which may be used on any thread, by one at a time.
#[allow(unsafe_code, reason = "a graph and its nodes may be used on any thread, by one at a time")]
unsafe impl Send for Nodes {}

impl Nodes {
    #[inline]
    pub(super) fn new() -> Box<Nodes> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let graph = NEXT.fetch_add(1, Ordering::Relaxed);
        Box::new(Nodes { graph, next: 1, entries: HashMap::new(), by_raw: HashMap::new() })
    }

    /// The number of the graph, never reused.
    #[inline]
    pub(super) fn graph(&self) -> u64 {
        self.graph
    }

    /// The key of a node that the driver returned.
    #[inline]
    pub(super) fn key(&mut self, raw: CUgraphNode) -> Node {
        let Nodes { graph, next, entries, by_raw } = self;
        let number = *by_raw.entry(raw).or_insert_with(|| {
            let number = *next;
            *next += 1;
            entries.insert(number, Entry { raw, kept: Vec::new() });
            number
        });
        Node { graph: *graph, number }
    }

    /// The node that the key stands for.
    #[inline]
    pub(super) fn find(&self, node: Node) -> CudaResult<CUgraphNode> {
        let entry = self.entries.get(&node.number).filter(|_| node.graph == self.graph);
        entry.map(|entry| entry.raw).ok_or_else(|| self.refuse(node))
    }

    #[cold]
    fn refuse(&self, node: Node) -> CudaError {
        let Node { graph, number } = node;
        let what = if graph == self.graph { "it was destroyed" } else { "it is of another graph" };
        CudaError::InvalidHandle.note(format_args!("to use node {number} of graph {graph}: {what}"))
    }

    /// The nodes that the keys stand for.
    #[inline]
    pub(super) fn find_all(&self, nodes: &[Node]) -> CudaResult<Vec<CUgraphNode>> {
        nodes.iter().map(|node| self.find(*node)).collect()
    }

    #[inline]
    pub(super) fn find_after(
        &self,
        after: &[(Node, EdgeData)],
    ) -> CudaResult<Vec<(CUgraphNode, CUgraphEdgeData)>> {
        after.iter().map(|(node, edge)| Ok((self.find(*node)?, edge.raw()))).collect()
    }

    /// Removes a destroyed node; returns what was kept for it.
    #[inline]
    pub(super) fn forget(&mut self, node: Node) -> Vec<CUuserObject> {
        let Some(entry) = self.entries.remove(&node.number) else { return Vec::new() };
        self.by_raw.remove(&entry.raw);
        entry.kept
    }

    /// Notes what is kept for the new version of a node; returns what was kept for the earlier one.
    #[inline]
    pub(super) fn keep(&mut self, node: Node, kept: Option<CUuserObject>) -> Vec<CUuserObject> {
        let Some(entry) = self.entries.get_mut(&node.number) else { return Vec::new() };
        std::mem::replace(&mut entry.kept, kept.into_iter().collect())
    }
}

/// The nodes as the driver takes them; `raw` is the result of [`Nodes::find_all`].
#[allow(unsafe_code, reason = "they were looked up a moment ago, and no one else can reach the graph")]
#[inline]
pub(super) fn after(raw: &[CUgraphNode]) -> After<'_> {
    // SAFETY: `raw` is of the graph that it is used for: the callers look it up in the same method, with the graph
    // borrowed.
    unsafe { After::new(raw) }
}
