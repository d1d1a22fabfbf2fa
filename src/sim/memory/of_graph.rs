//! Memory of graphs: the addresses are reserved, and launches allocate and free it.

use super::{Allocation, Kind, Memory};
use crate::sim::machine::Handle;

impl Memory {
    /// Whether a launch has allocated what begins here, and nothing has freed it.
    pub(in crate::sim) fn is_of_graph(&self, address: u64) -> bool {
        self.of_graphs.contains(&address)
    }

    /// A launch is made that allocates.
    pub(in crate::sim) fn insert_of_graph(&mut self, address: u64, size: usize, context: Handle) {
        self.of_graphs.insert(address);
        self.there_of_graph(address, size, context);
    }

    /// A launch is made, or a call, that frees; what is under way may still use it.
    pub(in crate::sim) fn free_of_graph(&mut self, address: u64) {
        self.of_graphs.remove(&address);
    }

    /// A launch gets to the allocation.
    pub(in crate::sim) fn there_of_graph(&mut self, address: u64, size: usize, context: Handle) {
        if self.by_address.contains_key(&address) {
            return;
        }
        if let Some(allocation) = Allocation::new(Kind::Graph, context, size) {
            self.used += size;
            self.by_address.insert(address, allocation);
        }
    }

    /// A launch gets to the free. What a later launch has allocated meanwhile stays.
    pub(in crate::sim) fn gone_of_graph(&mut self, address: u64) {
        if !self.is_of_graph(address) {
            self.free(address);
        }
    }
}
