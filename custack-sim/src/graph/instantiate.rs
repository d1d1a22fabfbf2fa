//! Making executables from graphs.

use super::Operation;
use super::executable::{AUTO_FREE, Executable};
use super::parts::{Level, Part, Parts};
use crate::machine::*;
use custack_sys::ffi::CUresult;
use std::sync::Arc;

const UPLOAD: u64 = 2;
const DEVICE_LAUNCH: u64 = 4;
/// Nodes have no priorities here, and the flag for them is not returned, as in the driver.
const NODE_PRIORITY: u64 = 8;

/// Why no executable was made, as the driver numbers it.
pub(crate) const ERROR: u32 = 1;
pub(super) const INVALID_STRUCTURE: u32 = 2;
const UNSUPPORTED_OPERATION: u32 = 3;
const MORE_CONTEXTS: u32 = 4;

/// Why no executable was made: the status, the number of the reason, and the node that it is about, or 0.
pub(crate) struct NotMade {
    pub(crate) status: CUresult,
    pub(crate) reason: u32,
    pub(crate) node: usize,
}

impl From<CUresult> for NotMade {
    fn from(status: CUresult) -> NotMade {
        NotMade { status, reason: ERROR, node: 0 }
    }
}

impl Machine {
    fn known_flags(&mut self, flags: u64) -> Answer<()> {
        let known = AUTO_FREE | UPLOAD | DEVICE_LAUNCH | NODE_PRIORITY;
        if flags & !known != 0 || flags & (AUTO_FREE | DEVICE_LAUNCH) == AUTO_FREE | DEVICE_LAUNCH {
            return self
                .refuse(INVALID_VALUE, format_args!("{flags:#x} are no flags of an executable graph"));
        }
        Ok(())
    }

    /// With flags of the function that has no place for more.
    pub(crate) fn instantiate_plain(&mut self, has_out: bool, graph: usize, flags: u64) -> Answer<usize> {
        if flags & UPLOAD != 0 {
            return self.refuse(INVALID_VALUE, "an upload needs a stream");
        }
        self.instantiate(has_out, graph, flags, 0).map_err(|not_made| not_made.status)
    }

    /// Makes an executable in the current context; with an upload, in the stream's, and then only what the stream captures
    /// forbids it.
    pub(crate) fn instantiate(
        &mut self,
        has_out: bool,
        graph: usize,
        flags: u64,
        stream: usize,
    ) -> Result<usize, NotMade> {
        self.known_flags(flags)?;
        let context = if flags & UPLOAD == 0 {
            let context = self.healthy_current()?;
            self.may_wait()?;
            context
        } else {
            let found = self.stream_of(stream)?;
            self.no_node(stream)?;
            found.context
        };
        if self.graph(graph)?.embedded_in != 0 {
            self.refuse(NOT_SUPPORTED, "a child graph is instantiated with its parent")?;
        }
        if !has_out {
            self.refuse(INVALID_VALUE, "an executable graph needs a pointer for its handle, and got NULL")?;
        }
        if flags & DEVICE_LAUNCH != 0 {
            let parts = self.parts(graph)?;
            self.can_be_launched_by_device(&parts)?;
            self.is_of_one_context(&parts, context)?;
        }
        let allocates = self.has_memory_nodes(graph)?;
        if allocates && self.is_made_with_memory(graph, 0) {
            self.refuse(NOT_SUPPORTED, "a graph that allocates has one executable at a time")?;
        }
        let parts = self.parts(graph)?;
        self.check_parts(&parts)?;
        self.note_made(graph);
        let handle = self.graphs.next();
        let (kept, parts) = (flags & (AUTO_FREE | DEVICE_LAUNCH), Arc::new(parts));
        let made = Executable { graph, context, flags: kept, parts, allocates, last: None };
        self.graphs.executables.insert(handle, made);
        if flags & UPLOAD != 0 {
            self.reserve_for(handle)?;
        }
        Ok(handle)
    }

    /// Whether the graph has an executable that allocates, beside this one.
    pub(super) fn is_made_with_memory(&self, graph: usize, beside: usize) -> bool {
        let mut others = self.graphs.executables.iter().filter(|(handle, _)| **handle != beside);
        others.any(|(_, executable)| executable.graph == graph && executable.allocates)
    }

    /// The device launches what works in one context. A copy works in the one in which the executable is made.
    fn is_of_one_context(&mut self, parts: &Parts, made_in: Handle) -> Result<(), NotMade> {
        let home = |operation: &Operation| match operation {
            Operation::Copy(_) => made_in,
            other => other.home(),
        };
        let mut homes = parts.operations().into_iter().map(home).filter(|home| *home != 0);
        let first = homes.next();
        if homes.all(|home| Some(home) == first) {
            return Ok(());
        }
        let refused = self.refuse::<()>(INVALID_VALUE, "the device cannot launch what works in two contexts");
        Err(NotMade { status: refused.err().unwrap_or(INVALID_VALUE), reason: MORE_CONTEXTS, node: 0 })
    }

    /// The device launches kernels, fills, copies of its own memory, and graphs of them.
    fn can_be_launched_by_device(&mut self, parts: &Parts) -> Result<(), NotMade> {
        let unfit = |part: &&Part| match &part.operation {
            Operation::Kernel(_) | Operation::Fill(_) | Operation::Child(_) => false,
            Operation::Copy(copy) => copy.from.is_host() || copy.to.is_host(),
            _ => true,
        };
        let unfit =
            |level: &Level| (level.nodes.iter().find(unfit).map(|part| part.node), level.nodes.is_empty());
        let mut levels = parts.levels.iter().map(unfit);
        let Some((found, _)) = levels.find(|(node, is_empty)| node.is_some() || *is_empty) else {
            return Ok(());
        };
        let refused = self.refuse::<()>(INVALID_VALUE, "the device cannot launch what the graph has");
        let status = refused.err().unwrap_or(INVALID_VALUE);
        let (reason, node) = found.map_or((ERROR, 0), |node| (UNSUPPORTED_OPERATION, node));
        Err(NotMade { status, reason, node })
    }
}
