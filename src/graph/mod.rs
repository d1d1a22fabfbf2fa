//! Graphs: work that is described once, and then launched many times with one driver call each.
//!
//! A [`Graph`] describes work: nodes, and their order. It is [captured](crate::stream::Stream::capture) from a stream,
//! or built node by node. [Instantiating](Graph::instantiate) it makes a [`GraphExec`], which can be launched. One
//! thread at a time can use either (`&mut self`, and not `Sync`), because the driver does not lock them.
//!
//! ```
//! use custack::graph::{Graph, InstantiateFlags};
//! use custack::stream::{CaptureMode, Stream, StreamFlags};
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU32, Ordering};
//!
//! let _context = custack::quick_init()?;
//! let mut stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
//! let launches = Arc::new(AtomicU32::new(0));
//! let count = Arc::clone(&launches);
//!
//! // Nothing runs yet: the stream records.
//! let mut graph: Graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
//!     capture.launch_host_func(move || drop(count.fetch_add(1, Ordering::Relaxed)))
//! })?;
//! let mut executable = graph.instantiate(InstantiateFlags::empty())?;
//! for _ in 0..3 {
//!     executable.launch(&stream)?;
//! }
//! stream.synchronize()?;
//! assert_eq!(launches.load(Ordering::Relaxed), 3);
//! # Ok::<(), custack::error::CudaError>(())
//! ```
//!
//! # A capture, or nodes one by one
//!
//! Capture what is written for streams already, such as the calls of a library: it stays as it is, and the order of its work
//! becomes the edges. Build nodes where the program knows the graph as such, and changes single nodes later: it has their keys,
//! adds no edge that it does not mean, and needs no stream, so no call of another thread can come in between. Both go together:
//! [`capture_into`](crate::stream::Stream::capture_into) captures behind nodes that were built, and
//! [`Capture::dependencies`] has the keys of what was captured.
//!
//! # What is kept
//!
//! A launch may outlive the graph and the executable, and only the driver knows when it ends. So the graph *keeps* what
//! its nodes use: host functions and events always, other values if the program passes them to [`Graph::keep`],
//! [`Capture::keep`] or the parameter `keep` of a method that adds a node. A kept value is dropped when no graph,
//! clone, executable or launch is left that could use it. That happens on a thread of the driver, soon after a launch is done
//! and before or after whoever awaits it goes on; a program that has to know sends a message from a destructor. Owners (memory,
//! modules, streams) that are dropped there are destroyed a little later still, which
//! [`wait_until_retired`](crate::context::wait_until_retired) waits for.
//!
//! The driver launches a graph that keeps something more slowly, on an H200 by 0.3 us for each node. A value without a
//! destructor, such as `()`, is not kept, and costs nothing.
//!
//! The contexts of the nodes are kept at the driver too, as memory keeps its context. If the owner of one is gone,
//! every call with the graph returns [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed).
//!
//! # What is unsafe
//!
//! Kernels, copies and fills contain addresses, and run at every launch. Who adds such a node, or captures such work,
//! guarantees for *every* launch of anything made from the graph what a launch in a stream requires: the memory is
//! allocated (it is enough that the graph keeps it), and there is no data race on it.
//!
//! # What a failed call leaves
//!
//! A call that fails changes nothing, also if the driver fails after it has done its work: a node or an edge is taken out
//! again. There is one exception. The driver destroys no node of a graph that allocates or frees memory, so a node that was
//! added to such a graph stays, with all that it uses kept; one that would call a function calls nothing.
//!
//! # What is missing
//!
//! Conditional nodes (a CUDA 13 driver crashes if the capture of their body is broken), nodes for external semaphores
//! and batches of memory operations, and attributes of kernel nodes.

// Owns a handle of the driver's; see the `SAFETY` lines.
#![allow(unsafe_code)]

mod build;
mod capture;
mod dot;
mod edges;
mod exec;
mod exec_set;
mod kept;
mod later;
mod node;
mod owned;
mod params;
mod work;

pub use capture::{Capture, CapturedMemory, Dependencies, Recordable};
pub use dot::DotFlags;
pub use exec::{GraphExec, InstantiateFlags, UpdateRefused, UpdateResult};
pub use node::{EdgeData, Node, NodeKind};
pub use params::{CopyParams, FillParams, KernelParams, Place};

use crate::context::{ContextHandle, Pin, UnownedContext};
use crate::driver::ffi::CUgraph;
use crate::driver::{Driver, Held};
use crate::error::{CudaResult, DropResult};
use kept::Kept;
use node::Nodes;
use owned::{Kind, Owned};
use std::fmt;

/// A description of work; see the [module](self).
pub struct Graph {
    owned: Owned<CUgraph>,
    nodes: Box<Nodes>,
}

// SAFETY: the handles of the nodes may be used on any thread, by one at a time, as that of the graph.
unsafe impl Send for Graph {}

const KIND: Kind<CUgraph> = Kind { name: "a graph", destroy: |driver, graph| driver.graph_destroy(graph) };

impl UnownedContext {
    /// Makes a graph without nodes. Its copies, fills and allocations will be in this context.
    ///
    /// # Errors
    ///
    /// Like [`Graph::new`].
    ///
    /// ```
    /// let context = custack::quick_init()?;
    /// let mut graph = context.create_graph()?;
    /// let node = graph.add_empty(&[])?;
    /// assert_eq!((graph.nodes()?, graph.context()), (vec![node], &context.get_unowned()));
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuGraphCreate")]
    #[inline]
    pub fn create_graph(&self) -> CudaResult<Graph> {
        Graph::new(self)
    }
}

impl Graph {
    /// Makes a graph without nodes. Its copies, fills and allocations will be in this context.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed), or
    /// [`InvalidContext`](crate::error::CudaError::InvalidContext) for a null handle.
    ///
    /// ```
    /// use custack::graph::Graph;
    ///
    /// let context = custack::quick_init()?;
    /// let mut graph = Graph::new(&context)?;
    /// let first = graph.add_empty(&[])?;
    /// let second = graph.add_host_func(&[first], || println!("launched"))?;
    /// assert_eq!(graph.nodes()?, [first, second]);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuGraphCreate")]
    #[inline]
    pub fn new<C: ContextHandle>(context: &C) -> CudaResult<Graph> {
        let (raw, pin) = context.as_unowned().pinned(Driver::graph_create)?;
        Ok(Graph::of(raw, Nodes::new(), vec![pin]))
    }

    #[inline]
    fn of(raw: CUgraph, nodes: Box<Nodes>, pins: Vec<Pin>) -> Graph {
        Graph { owned: Owned::new(raw, pins, KIND), nodes }
    }

    /// The context that copies, fills and allocations are in.
    #[inline]
    pub fn context(&self) -> &UnownedContext {
        self.owned.context()
    }

    /// The driver's handle.
    #[inline]
    pub fn as_raw(&self) -> CUgraph {
        self.owned.raw()
    }

    /// Gives up ownership: the graph is not destroyed, and whoever has the handle owns it. It continues to keep what it
    /// keeps.
    #[inline]
    pub fn into_raw(self) -> CUgraph {
        self.owned.into_raw()
    }

    /// Takes ownership of a graph whose nodes are of this context.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed).
    ///
    /// # Safety
    ///
    /// The handle is valid, and nothing else uses or destroys the graph. Other contexts of nodes live as long as the
    /// graph and what is made from it.
    #[inline]
    pub unsafe fn from_raw<C: ContextHandle>(raw: CUgraph, context: &C) -> CudaResult<Graph> {
        let ((), pin) = context.as_unowned().pinned(|_| Ok(()))?;
        Ok(Graph::of(raw, Nodes::new(), vec![pin]))
    }

    /// Makes the graph, and all that is made from it, keep the value; see the [module](self).
    ///
    /// # Errors
    ///
    /// Any error of the driver. The value is then dropped.
    #[doc(alias(
        "cuGraphRetainUserObject",
        "cuUserObjectCreate",
        "cuUserObjectRelease",
        "cuGraphReleaseUserObject"
    ))]
    #[inline]
    pub fn keep(&mut self, value: impl Send + 'static) -> CudaResult<()> {
        self.with(|driver, graph| Kept::for_its_drop(driver, graph, value).map(|_| ()))
    }

    /// A copy of the graph, which keeps what this one keeps. Its nodes have other keys;
    /// [`node_in_clone`](Self::node_in_clone) returns them.
    ///
    /// # Errors
    ///
    /// Any error of the driver, which does not clone nodes that allocate or free memory.
    #[doc(alias = "cuGraphClone")]
    #[inline]
    pub fn try_clone(&mut self) -> CudaResult<Graph> {
        let pins = self.owned.more_pins()?;
        let raw = self.with(Driver::graph_clone)?;
        Ok(Graph::of(raw, Nodes::new(), pins))
    }

    /// The copy of a node in a clone of this graph.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](crate::error::CudaError::InvalidHandle) for a node of another graph; an error of the driver if
    /// the other graph is not a clone of this one.
    #[doc(alias = "cuGraphNodeFindInClone")]
    #[inline]
    pub fn node_in_clone(&mut self, node: Node, clone: &mut Graph) -> CudaResult<Node> {
        let original = self.nodes.find(node)?;
        // SAFETY: the key was looked up in this graph, which is borrowed.
        let original = unsafe { Held::new(original) };
        let found =
            self.with(|_, _| clone.with(|driver, clone| driver.graph_node_find_in_clone(original, clone)))?;
        Ok(clone.nodes.key(found))
    }

    /// Destroys the graph; if that fails, returns the error and the graph. What was made from it is not affected.
    ///
    /// # Errors
    ///
    /// Any error of the driver. It may have destroyed the graph all the same, so the returned one refuses every use
    /// with [`InvalidHandle`](crate::error::CudaError::InvalidHandle), and dropping it does nothing; only after
    /// [`NotPermitted`](crate::error::CudaError::NotPermitted), in a host function, is it unchanged.
    #[doc(alias = "cuGraphDestroy")]
    #[inline]
    pub fn drop(mut graph: Graph) -> DropResult<Graph> {
        graph.owned.destroy().map_err(|error| (error, graph))
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&Driver, Held<'_, CUgraph>) -> CudaResult<R>) -> CudaResult<R> {
        self.owned.with(f)
    }

    #[inline]
    fn inside<R>(&self, f: impl FnOnce(&Driver, Held<'_, CUgraph>) -> CudaResult<R>) -> CudaResult<R> {
        self.owned.inside(f)
    }
}

impl fmt::Debug for Graph {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("raw", &self.as_raw()).field("context", self.context()).finish()
    }
}
