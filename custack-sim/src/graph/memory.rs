//! Nodes that allocate and free: the address is reserved when the node is made, and the memory exists from a launch to
//! a free.

use super::Edge;
use super::Operation;
use crate::device::TOTAL_MEMORY;
use crate::machine::*;
use crate::memory;
use custack_sys::ffi::CUmemPoolProps;
use std::collections::BTreeSet;
use std::sync::Arc;

const PINNED: u32 = 1;
const MANAGED: u32 = 2;
const DEVICE: u32 = 1;

/// Memory of a graph.
#[derive(Clone)]
pub(crate) struct Allocation {
    pub(crate) address: u64,
    pub(crate) size: usize,
    pub(crate) device: i32,
    /// As long as a node, an executable or a launch allocates there.
    reserved: Arc<memory::Reserved>,
}

impl Machine {
    pub(super) fn has_memory_nodes(&mut self, graph: usize) -> Answer<bool> {
        let graph = self.graph(graph)?;
        Ok(graph.tried_memory || graph.memory_nodes > 0)
    }

    /// A child graph allocates and frees nothing.
    pub(crate) fn may_have_memory(&mut self, graph: usize) -> Answer<()> {
        if self.graph(graph)?.embedded_in != 0 {
            return self.refuse(NOT_SUPPORTED, "a child graph that allocates or frees");
        }
        Ok(())
    }

    /// The driver takes a graph for one that allocates as soon as that was tried behind nodes of the graph.
    pub(crate) fn note_memory(&mut self, graph: usize, after: &[Edge]) {
        let mut of_graph = after.iter().map(|edge| self.graphs.nodes.get(&edge.from));
        if of_graph.all(|of| of == Some(&graph)) {
            if let Some(graph) = self.graphs.graphs.get_mut(&graph) {
                graph.tried_memory = true;
            }
        }
    }

    pub(crate) fn check_allocation(&mut self, props: &PoolAsked) -> Answer<()> {
        let device = self.device(props.device).is_ok();
        if !matches!(props.kind, PINNED | MANAGED) || props.place != DEVICE || !device || props.size == 0 {
            return self
                .refuse(INVALID_VALUE, "a graph allocates pinned memory of a device, and not nothing");
        }
        if props.handles != 0 {
            return self.refuse(NOT_SUPPORTED, "memory of a graph is not shared under handles");
        }
        if props.size > TOTAL_MEMORY {
            return self.refuse(OUT_OF_MEMORY, format_args!("there are no {} bytes", props.size));
        }
        Ok(())
    }

    /// An allocation node: its address is reserved until all that allocates and frees there is gone.
    pub(crate) fn allocation(&mut self, size: usize, device: i32) -> Answer<Operation> {
        let reserved = memory::lock().addresses.reserve(size);
        match reserved {
            Some((address, reserved)) => {
                let reserved = Arc::new(reserved);
                Ok(Operation::Allocate(Allocation { address, size, device, reserved }))
            }
            None => self.refuse(OUT_OF_MEMORY, format_args!("there are no {size} addresses left")),
        }
    }

    /// An executable is made of the graph: what it may allocate is freed by other graphs or by streams from now on, even
    /// when it is gone.
    pub(super) fn note_made(&mut self, graph: usize) {
        if let Some(graph) = self.graphs.graphs.get_mut(&graph) {
            let allocations = graph.nodes.values().filter_map(|node| node.operation.allocation());
            graph.made.extend(allocations.map(|it| it.address));
        }
    }

    /// A node that frees: memory of this graph, which no other node of any graph frees, or of another, which no node of
    /// either frees.
    pub(crate) fn check_free(&mut self, graph: usize, address: u64) -> Answer<Operation> {
        let made = self.graph(graph)?.made.contains(&address);
        let allocates = |it: &Operation| matches!(it, Operation::Allocate(it) if it.address == address);
        let frees = |it: &Operation| matches!(it, Operation::Free(it) if *it == address);
        let mut graphs = self.graphs.graphs.iter();
        let owner = graphs.find(|(_, it)| it.nodes.values().any(|node| allocates(&node.operation)));
        let owner = owner.map(|(handle, _)| *handle);
        let own = owner == Some(graph);
        let concerns = |it: usize| own || it == graph || Some(it) == owner;
        let mut concerned = self.graphs.graphs.iter().filter(|(it, _)| concerns(**it));
        let freed = concerned.any(|(_, it)| it.nodes.values().any(|node| frees(&node.operation)));
        if freed || made || !(owner.is_some() || memory::lock().is_of_graph(address)) {
            return self.refuse(
                INVALID_VALUE,
                format_args!("no graph allocates at {address:#x}, or it is freed already"),
            );
        }
        Ok(Operation::Free(address))
    }

    /// Whether a graph will allocate these bytes; else why they are refused.
    pub(super) fn is_reserved(&self, address: u64, size: usize, why: String) -> Result<(), String> {
        let within = |it: &Allocation| {
            let at = address.checked_sub(it.address).map(|at| at as usize);
            at.and_then(|at| at.checked_add(size)).is_some_and(|end| end <= it.size)
        };
        let of = |node: &super::Node| matches!(&node.operation, Operation::Allocate(it) if within(it));
        match self.graphs.graphs.values().any(|graph| graph.nodes.values().any(of)) {
            true => Ok(()),
            false => Err(why),
        }
    }

    pub(crate) fn node_allocation(&mut self, node: usize) -> Answer<Allocation> {
        match self.operation(node)? {
            Operation::Allocate(allocation) => Ok(allocation.clone()),
            _ => self.refuse(INVALID_VALUE, "the node allocates nothing"),
        }
    }

    pub(crate) fn node_free(&mut self, node: usize) -> Answer<u64> {
        match self.operation(node)? {
            Operation::Free(address) => Ok(*address),
            _ => self.refuse(INVALID_VALUE, "the node frees nothing"),
        }
    }

    /// In a capture: memory that the graph of the capture will have. Nothing is a node if nothing is asked for.
    pub(crate) fn captured_allocation(&mut self, stream: usize, size: usize) -> Answer<u64> {
        let device = self.stream_of(stream)?.context;
        let device = self.get(device).map_or(0, |context| context.device as i32);
        if size == 0 {
            return Ok(0);
        }
        self.check_allocation(&PoolAsked { size, kind: PINNED, place: DEVICE, device, handles: 0 })?;
        let operation = self.allocation(size, device)?;
        let address = operation.allocation().map_or(0, |allocation| allocation.address);
        self.record(stream, operation)?;
        Ok(address)
    }

    /// In a capture: memory that the graph of the capture allocates, and from then on has not.
    pub(crate) fn captured_free(&mut self, stream: usize, address: u64) -> Answer<()> {
        if address == 0 {
            return Ok(());
        }
        let Some(graph) = self.captured_graph(stream) else { return Err(INVALID_VALUE) };
        self.note_memory(graph, &[]);
        let operation = self.check_free(graph, address)?;
        self.record(stream, operation)
    }

    /// The driver takes the memory that a launch of the executable will need.
    pub(super) fn reserve_for(&mut self, executable: usize) -> Answer<()> {
        let found = self.executable(executable)?;
        let operations = found.parts.operations().into_iter();
        let allocations = operations.filter_map(Operation::allocation).map(|it| (it.address, it.size));
        memory::lock().reserve_of_graph(found.graph, allocations);
        Ok(())
    }

    /// Allocates and frees the memory of a launch when it is submitted: all of it or nothing. What a graph allocates and
    /// frees is gone afterwards, in whichever order its nodes are.
    pub(super) fn launch_memory(
        &mut self,
        graph: usize,
        operations: &[&Operation],
        context: Handle,
        frees_first: bool,
    ) -> Answer<()> {
        let allocations: Vec<_> = operations.iter().filter_map(|it| it.allocation()).collect();
        let freed: Vec<_> = operations.iter().filter_map(|it| it.freed()).collect();
        let there = |address| memory::lock().is_of_graph(address);
        if !frees_first && allocations.iter().any(|it| there(it.address)) {
            return self.refuse(INVALID_VALUE, "memory of an earlier launch is not freed yet");
        }
        let own: BTreeSet<u64> = allocations.iter().map(|it| it.address).collect();
        if freed.iter().any(|address| !own.contains(address) && !there(*address)) {
            return self.refuse(INVALID_VALUE, "a node frees what is not allocated");
        }
        let mut memory = memory::lock();
        for it in allocations {
            memory.insert_of_graph(graph, (it.address, it.size), &it.reserved, context);
        }
        freed.into_iter().for_each(|address| memory.free_of_graph(address));
        Ok(())
    }
}

/// The requested pool properties of an allocation node.
pub(crate) struct PoolAsked {
    pub(crate) size: usize,
    pub(crate) kind: u32,
    pub(crate) place: u32,
    pub(crate) device: i32,
    pub(crate) handles: u32,
}

impl PoolAsked {
    pub(crate) fn new(props: &CUmemPoolProps, size: usize) -> PoolAsked {
        let location = props.location;
        PoolAsked {
            size,
            kind: props.allocType,
            place: location.kind,
            device: location.id,
            handles: props.handleTypes,
        }
    }
}
