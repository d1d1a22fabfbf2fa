//! Memory of graphs: the addresses are reserved, and launches allocate and free it.

use super::addresses::Reserved;
use super::{Allocation, Kind, Memory};
use crate::machine::Handle;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the driver has of the device's memory for the allocations of a graph, however few bytes they are.
const CHUNK: u64 = 32 << 20;

/// The memory of graphs.
#[derive(Default)]
pub(super) struct OfGraphs {
    /// What is there, and what launches that are under way free, by address.
    there: BTreeMap<u64, There>,
    /// How many bytes of it each graph has.
    bytes: BTreeMap<usize, u64>,
    /// The bytes that the driver has for graphs: they stay until they are trimmed.
    reserved: u64,
    /// The most that were used, and the most that were reserved: each can be reset.
    most: [u64; 2],
}

struct There {
    graph: usize,
    size: usize,
    is_freed: bool,
    /// How many frees are under way.
    frees: usize,
    /// Nothing else has the addresses before the last of them is done.
    _reserved: Arc<Reserved>,
}

impl OfGraphs {
    pub(super) const fn new() -> OfGraphs {
        OfGraphs { there: BTreeMap::new(), bytes: BTreeMap::new(), reserved: 0, most: [0; 2] }
    }

    /// Each graph has chunks of its own.
    fn needed(&self) -> u64 {
        self.bytes.values().map(|bytes| bytes.next_multiple_of(CHUNK)).sum()
    }

    fn reserve(&mut self, needed: u64) {
        self.reserved = self.reserved.max(needed);
        self.most = self.most.map(|most| most.max(self.reserved));
    }

    /// What is there is freed, if it is not yet.
    fn free(&mut self, address: u64) -> Option<&mut There> {
        let found = self.there.get_mut(&address)?;
        if !std::mem::replace(&mut found.is_freed, true) {
            let bytes = self.bytes.entry(found.graph).or_default();
            *bytes -= found.size as u64;
            if *bytes == 0 {
                self.bytes.remove(&found.graph);
            }
        }
        Some(found)
    }
}

impl Memory {
    /// What graphs use and have reserved, each now and at most: a chunk is used from the first launch or upload that needs it
    /// until it is trimmed, even if nothing is in it.
    pub(crate) fn count_of_graphs(&self, attribute: u32) -> u64 {
        match attribute {
            1 => self.of_graphs.most[0],
            3 => self.of_graphs.most[1],
            _ => self.of_graphs.reserved,
        }
    }

    /// The used or reserved bytes are at most what they are now.
    pub(crate) fn forget_most_of_graphs(&mut self, attribute: u32) {
        self.of_graphs.most[(attribute / 2) as usize] = self.of_graphs.reserved;
    }

    /// Gives back what no graph has memory in.
    pub(crate) fn trim_of_graphs(&mut self) {
        self.of_graphs.reserved = self.of_graphs.needed();
    }

    /// Whether a launch has allocated what begins here, and nothing has freed it.
    pub(crate) fn is_of_graph(&self, address: u64) -> bool {
        self.of_graphs.there.get(&address).is_some_and(|found| !found.is_freed)
    }

    /// A launch is made that allocates.
    pub(crate) fn insert_of_graph(
        &mut self,
        graph: usize,
        (address, size): (u64, usize),
        reserved: &Arc<Reserved>,
        context: Handle,
    ) {
        let of_graphs = &mut self.of_graphs;
        let frees = of_graphs.free(address).map_or(0, |before| before.frees);
        let there = There { graph, size, is_freed: false, frees, _reserved: Arc::clone(reserved) };
        of_graphs.there.insert(address, there);
        *of_graphs.bytes.entry(graph).or_default() += size as u64;
        of_graphs.reserve(of_graphs.needed());
        self.there_of_graph(address, size, context);
    }

    /// A graph is uploaded that allocates so many bytes at each address: what it needs beside the memory that is there is
    /// reserved, and not kept for it.
    pub(crate) fn reserve_of_graph(&mut self, graph: usize, allocations: impl Iterator<Item = (u64, usize)>) {
        let of_graphs = &mut self.of_graphs;
        let missing = allocations
            .filter(|(address, _)| of_graphs.there.get(address).is_none_or(|found| found.is_freed));
        let own = of_graphs.bytes.get(&graph).copied().unwrap_or(0);
        let all = own + missing.map(|(_, size)| size as u64).sum::<u64>();
        let more = all.next_multiple_of(CHUNK) - own.next_multiple_of(CHUNK);
        of_graphs.reserve(of_graphs.needed() + more);
    }

    /// A launch is made, or a call, that frees; what is under way may still use it.
    pub(crate) fn free_of_graph(&mut self, address: u64) {
        if let Some(found) = self.of_graphs.free(address) {
            found.frees += 1;
        }
    }

    /// A call frees at once.
    pub(super) fn forget_of_graph(&mut self, address: u64) {
        self.of_graphs.free(address);
        self.of_graphs.there.remove(&address);
    }

    /// A launch gets to the allocation.
    pub(crate) fn there_of_graph(&mut self, address: u64, size: usize, context: Handle) {
        if self.held.contains_key(&address) {
            return;
        }
        if let Some(allocation) = Allocation::new(Kind::Graph, context, size) {
            self.held.insert(address, allocation);
        }
    }

    /// A launch gets to the free. What a later launch has allocated meanwhile stays.
    pub(crate) fn gone_of_graph(&mut self, address: u64) {
        let Some(found) = self.of_graphs.there.get_mut(&address) else { return };
        found.frees = found.frees.saturating_sub(1);
        if found.is_freed && found.frees == 0 {
            self.of_graphs.there.remove(&address);
            self.held.remove(address);
        }
    }

    /// A launch is over that allocates here, and frees: the free may have come first.
    pub(crate) fn over_of_graph(&mut self, address: u64) {
        if !self.of_graphs.there.contains_key(&address) {
            self.held.remove(address);
        }
    }
}
