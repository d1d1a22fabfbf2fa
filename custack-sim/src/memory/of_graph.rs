//! Memory of graphs: the addresses are reserved, and launches allocate and free it.

use super::{Allocation, Kind, Memory};
use crate::machine::Handle;
use std::collections::BTreeMap;

/// What the driver has of the device's memory for the allocations of a graph, however few bytes they are.
const CHUNK: u64 = 32 << 20;

/// The memory of graphs.
#[derive(Default)]
pub(super) struct OfGraphs {
    /// The graph of what is there, and its size, by address.
    there: BTreeMap<u64, (usize, usize)>,
    /// How many bytes of it each graph has.
    bytes: BTreeMap<usize, u64>,
    /// The bytes that the driver has for graphs: they stay until they are trimmed.
    reserved: u64,
    /// The most that were used, and the most that were reserved: each can be reset.
    most: [u64; 2],
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

    fn remove(&mut self, address: u64) {
        if let Some((graph, size)) = self.there.remove(&address) {
            let bytes = self.bytes.entry(graph).or_default();
            *bytes -= size as u64;
            if *bytes == 0 {
                self.bytes.remove(&graph);
            }
        }
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
        self.of_graphs.there.contains_key(&address)
    }

    /// A launch is made that allocates.
    pub(crate) fn insert_of_graph(&mut self, graph: usize, address: u64, size: usize, context: Handle) {
        let of_graphs = &mut self.of_graphs;
        of_graphs.remove(address);
        of_graphs.there.insert(address, (graph, size));
        *of_graphs.bytes.entry(graph).or_default() += size as u64;
        of_graphs.reserve(of_graphs.needed());
        self.there_of_graph(address, size, context);
    }

    /// A graph is uploaded that allocates so many bytes at each address: what it needs beside the memory that is there is
    /// reserved, and not kept for it.
    pub(crate) fn reserve_of_graph(&mut self, graph: usize, allocations: impl Iterator<Item = (u64, usize)>) {
        let of_graphs = &mut self.of_graphs;
        let missing = allocations.filter(|(address, _)| !of_graphs.there.contains_key(address));
        let own = of_graphs.bytes.get(&graph).copied().unwrap_or(0);
        let all = own + missing.map(|(_, size)| size as u64).sum::<u64>();
        let more = all.next_multiple_of(CHUNK) - own.next_multiple_of(CHUNK);
        of_graphs.reserve(of_graphs.needed() + more);
    }

    /// A launch is made, or a call, that frees; what is under way may still use it.
    pub(crate) fn free_of_graph(&mut self, address: u64) {
        self.of_graphs.remove(address);
    }

    /// A launch gets to the allocation.
    pub(crate) fn there_of_graph(&mut self, address: u64, size: usize, context: Handle) {
        if self.held.contains_key(&address) {
            return;
        }
        if let Some(allocation) = Allocation::new(Kind::Graph, context, size) {
            self.used += size;
            self.held.insert(address, allocation);
        }
    }

    /// A launch gets to the free. What a later launch has allocated meanwhile stays.
    pub(crate) fn gone_of_graph(&mut self, address: u64) {
        if !self.is_of_graph(address) {
            self.free(address);
        }
    }
}
