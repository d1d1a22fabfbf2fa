//! Adding nodes, and setting their parameters.

use super::{Copy, Edge, Fill, Host, Kernel, Operation};
use crate::machine::*;
use crate::memory;

impl Machine {
    /// The given context, or else the current one, if any.
    pub(crate) fn named_context(&mut self, context: Handle) -> Answer<Handle> {
        self.ready()?;
        if context == 0 && self.top()? == 0 {
            return Ok(0);
        }
        if context == 0 {
            return self.healthy_current();
        }
        self.healthy(context).map(|_| context)
    }

    /// The context that a node works in.
    pub(crate) fn node_context(&mut self, node: usize) -> Answer<Handle> {
        self.operation(node).map(|operation| operation.context())
    }

    pub(crate) fn check_copy(&mut self, copy: &Copy) -> Answer<()> {
        let [width, height, depth] = copy.extent;
        let empty = width == 0 || height == 0 || depth == 0;
        for side in [&copy.from, &copy.to] {
            let near = side.pitch != 0 && side.pitch < side.start[0].saturating_add(width);
            if empty || !matches!(side.kind, 1..=4) || near || side.base() == 0 {
                return self
                    .refuse(INVALID_VALUE, "a copy of nothing, from or to nowhere, or of rows too near");
            }
            let span = side.span(copy.extent);
            let found = if side.is_host() { Ok(()) } else { memory::lock().check(side.device, span) };
            if let Err(why) = found.or_else(|why| self.is_reserved(side.device, span, why)) {
                return self.refuse(INVALID_VALUE, why);
            }
        }
        Ok(())
    }

    /// The memory says in which context it is filled where none is named, and that of a pool or a graph does not.
    pub(crate) fn check_home(&mut self, to: u64) -> Answer<()> {
        if memory::lock().context_of(to) == 0 {
            return self.refuse(INVALID_VALUE, "a fill of memory of no context, and no context is named");
        }
        Ok(())
    }

    pub(crate) fn check_fill(&mut self, fill: &Fill) -> Answer<()> {
        let aligned = [1, 2, 4].contains(&fill.element) && fill.to % u64::from(fill.element.max(1)) == 0;
        let rows = fill.height == 1 || fill.pitch >= fill.width.saturating_mul(fill.element as usize);
        if !aligned || !rows || fill.width == 0 || fill.height == 0 {
            return self.refuse(INVALID_VALUE, "a fill of nothing, misaligned, or of rows too near");
        }
        let found = memory::lock().check(fill.to, fill.span());
        match found.or_else(|why| self.is_reserved(fill.to, fill.span(), why)) {
            Ok(()) => Ok(()),
            Err(why) => self.refuse(INVALID_VALUE, why),
        }
    }

    pub(crate) fn check_host(&mut self, host: Host) -> Answer<Operation> {
        match host.function {
            Some(_) => Ok(Operation::Host(host)),
            None => self.refuse(INVALID_VALUE, "the host function is NULL"),
        }
    }

    pub(crate) fn check_event(&mut self, event: usize) -> Answer<()> {
        if event == 0 {
            return self.refuse(INVALID_VALUE, "an event is needed, and got NULL");
        }
        self.event_of(event).map(|_| ())
    }

    /// Adds a node; the parameters are checked last.
    pub(crate) fn add_operation(
        &mut self,
        has_out: bool,
        graph: usize,
        after: &[Edge],
        operation: impl FnOnce(&mut Machine) -> Answer<Operation>,
    ) -> Answer<usize> {
        self.dependencies(graph, after)?;
        if !has_out {
            return self.refuse(INVALID_VALUE, "a node needs a pointer for its handle, and got NULL");
        }
        let operation = operation(self)?;
        let is_kernel = matches!(operation, Operation::Kernel(_));
        for edge in after {
            self.check_data(edge, is_kernel)?;
        }
        self.add_node(graph, after, operation)
    }

    /// Sets the operation of a node, which keeps its type.
    pub(crate) fn set_operation(
        &mut self,
        node: usize,
        number: u32,
        operation: impl FnOnce(&mut Machine) -> Answer<Operation>,
    ) -> Answer<()> {
        if self.operation(node)?.number() != number {
            return self.refuse(INVALID_VALUE, "parameters of another type than the node's");
        }
        let mut operation = operation(self)?;
        let place = self.operation(node)?;
        operation.keep_attributes(place);
        *place = operation;
        Ok(())
    }

    /// Sets the event of a node: `cuGraphEventRecordNodeSetEvent` accepts record nodes only, and its counterpart wait
    /// nodes.
    pub(crate) fn node_event(&mut self, node: usize, records: bool) -> Answer<usize> {
        match self.operation(node)? {
            Operation::Record(event) if records => Ok(*event),
            Operation::Wait(event) if !records => Ok(*event),
            _ => self.refuse(INVALID_VALUE, "the node is of another type"),
        }
    }

    pub(crate) fn node_kernel(&mut self, node: usize) -> Answer<Kernel> {
        match self.operation(node)? {
            Operation::Kernel(kernel) => {
                let kernel = kernel.clone();
                match self.is_alive(kernel.told_context()) {
                    true => Ok(kernel),
                    false => self.misuse(
                        CONTEXT_IS_DESTROYED,
                        "the parameters of a kernel whose context is destroyed",
                    ),
                }
            }
            _ => self.refuse(INVALID_VALUE, "the node is no kernel"),
        }
    }

    pub(crate) fn node_copy(&mut self, node: usize) -> Answer<Copy> {
        match self.operation(node)? {
            Operation::Copy(copy) => Ok(*copy),
            _ => self.refuse(INVALID_VALUE, "the node is no copy"),
        }
    }

    pub(crate) fn node_fill(&mut self, node: usize) -> Answer<Fill> {
        match self.operation(node)? {
            Operation::Fill(fill) => Ok(*fill),
            _ => self.refuse(INVALID_VALUE, "the node is no fill"),
        }
    }

    pub(crate) fn node_host(&mut self, node: usize) -> Answer<Host> {
        match self.operation(node)? {
            Operation::Host(host) => Ok(*host),
            _ => self.refuse(INVALID_VALUE, "the node is no host function"),
        }
    }
}
