//! Adding nodes whose safety custack can guarantee.

// Keys that were looked up become handles, and the driver holds a pointer to what is kept.
#![allow(unsafe_code)]

use super::kept::{Keeping, Kept, release};
use super::node::after as held;
use super::{Graph, Node};
use crate::driver::ffi::*;
use crate::driver::{Added, After, Driver, Held, NotAdded};
use crate::error::{CudaError, CudaResult};
use crate::event::Event;
use std::ptr;
use std::sync::Arc;

impl Graph {
    /// Adds a node that does nothing. Like every node it runs after those in `after`.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](CudaError::InvalidHandle) for a node of another graph; any error of the driver.
    #[doc(alias = "cuGraphAddEmptyNode")]
    #[inline]
    pub fn add_empty(&mut self, after: &[Node]) -> CudaResult<Node> {
        self.add(after, (), |driver, graph, after, ()| driver.graph_add_empty_node(graph, after))
    }

    /// Adds a node that calls the function at every launch, on a thread of the driver, where every driver call is
    /// refused. The graph keeps the function. Executables that run at the same time call it one after the other.
    ///
    /// # Errors
    ///
    /// Like [`add_empty`](Self::add_empty). The function is then dropped.
    #[doc(alias = "cuGraphAddHostNode")]
    #[inline]
    pub fn add_host_func(&mut self, after: &[Node], f: impl FnMut() + Send + 'static) -> CudaResult<Node> {
        self.add_keeping(after, Kept::by, f, |driver, graph, after, kept| {
            // SAFETY: whatever can call the function keeps it.
            let added = unsafe { driver.graph_add_host_node(graph, after, &kept.as_host_function()) };
            // A node that stays calls nothing.
            added.inspect_err(|refused| {
                if refused.stays {
                    kept.empty()
                }
            })
        })
    }

    /// Sets the function of a host function's node.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](CudaError::InvalidHandle) for a node of another graph;
    /// [`InvalidValue`](CudaError::InvalidValue) for a node of another kind.
    #[doc(alias = "cuGraphHostNodeSetParams")]
    #[inline]
    pub fn set_host_func(&mut self, node: Node, f: impl FnMut() + Send + 'static) -> CudaResult<()> {
        self.set_keeping(node, Kept::by, f, |driver, node, kept| {
            // SAFETY: as in `add_host_func`.
            unsafe { driver.graph_host_node_set_params(node, &kept.as_host_function()) }
        })
    }

    /// Adds a node that records the event, which the graph keeps.
    ///
    /// # Errors
    ///
    /// Like [`add_empty`](Self::add_empty); [`ContextIsDestroyed`](CudaError::ContextIsDestroyed) for the event's
    /// context.
    #[doc(alias = "cuGraphAddEventRecordNode")]
    #[inline]
    pub fn add_event_record(&mut self, after: &[Node], event: &Arc<Event>) -> CudaResult<Node> {
        self.owned.pin(event.context())?;
        self.add_keeping(after, Kept::by, Arc::clone(event), |driver, graph, after, _| {
            event.in_graph().with(|_, event| Ok(driver.graph_add_event_record_node(graph, after, event)))?
        })
    }

    /// Adds a node that waits for the event, which the graph keeps.
    ///
    /// # Errors
    ///
    /// Like [`add_event_record`](Self::add_event_record).
    #[doc(alias = "cuGraphAddEventWaitNode")]
    #[inline]
    pub fn add_event_wait(&mut self, after: &[Node], event: &Arc<Event>) -> CudaResult<Node> {
        self.owned.pin(event.context())?;
        self.add_keeping(after, Kept::by, Arc::clone(event), |driver, graph, after, _| {
            event.in_graph().with(|_, event| Ok(driver.graph_add_event_wait_node(graph, after, event)))?
        })
    }

    /// Sets the event of a node that records or waits for one.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](CudaError::InvalidHandle) for a node of another graph;
    /// [`InvalidValue`](CudaError::InvalidValue) for a node of another kind.
    #[doc(alias("cuGraphEventRecordNodeSetEvent", "cuGraphEventWaitNodeSetEvent"))]
    #[inline]
    pub fn set_event(&mut self, node: Node, event: &Arc<Event>) -> CudaResult<()> {
        let records = self.records(node)?;
        self.owned.pin(event.context())?;
        self.set_keeping(node, Kept::by, Arc::clone(event), |driver, node, _| {
            event.in_graph().with(|_, event| match records {
                true => driver.graph_event_record_node_set_event(node, event),
                false => driver.graph_event_wait_node_set_event(node, event),
            })
        })
    }

    /// Adds a node that runs a copy of another graph in its present state. The node keeps what that graph keeps.
    ///
    /// A graph cannot be its own child, at which the driver would crash:
    ///
    /// ```compile_fail,E0499
    /// # let context = custack::quick_init().unwrap();
    /// let mut graph = context.create_graph().unwrap();
    /// graph.add_child(&[], &mut graph).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Like [`add_empty`](Self::add_empty); an error of the driver if the other graph allocates or frees memory.
    #[doc(alias = "cuGraphAddChildGraphNode")]
    #[inline]
    pub fn add_child(&mut self, after: &[Node], child: &mut Graph) -> CudaResult<Node> {
        child.owned.usable()?;
        child.owned.contexts().try_for_each(|context| self.owned.pin(context))?;
        self.add(after, child, |driver, graph, after, child| {
            child.with(|_, child| Ok(driver.graph_add_child_graph_node(graph, after, child)))?
        })
    }

    /// Adds a node that allocates device memory of this many bytes in the graph's context;
    /// [`Capture::allocate`](super::Capture::allocate) does that in a capture. The address is the same at
    /// every launch. Later nodes may use the memory until a node [frees](Self::add_free) it.
    ///
    /// Memory that the graph does not free stays allocated after a launch, and the graph cannot be launched again
    /// before it is freed, unless it was instantiated with
    /// [`AUTO_FREE_ON_LAUNCH`](super::InstantiateFlags::AUTO_FREE_ON_LAUNCH). A graph with such nodes can have only one
    /// executable at a time, and can be neither cloned nor added to another graph.
    ///
    /// # Errors
    ///
    /// Like [`add_empty`](Self::add_empty); [`InvalidValue`](CudaError::InvalidValue) for 0 bytes;
    /// [`OutOfMemory`](CudaError::OutOfMemory). The driver destroys no such node: if it fails after it has added one, the
    /// node stays in the graph, and each launch allocates its memory.
    ///
    /// ```
    /// use custack::graph::Graph;
    ///
    /// let context = custack::quick_init()?;
    /// let mut graph = Graph::new(&context)?;
    /// let (allocation, address) = graph.add_allocation(&[], 4096)?;
    /// let free = graph.add_free(&[allocation], allocation)?;
    /// assert_ne!(address, 0);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuGraphAddMemAllocNode")]
    #[inline]
    pub fn add_allocation(&mut self, after: &[Node], bytes: usize) -> CudaResult<(Node, CUdeviceptr)> {
        const PINNED: u32 = 1;
        const ON_DEVICE: u32 = 1;
        let device = self.context().device()?;
        let location = CUmemLocation { kind: ON_DEVICE, id: device.as_raw() };
        let mut params = CUDA_MEM_ALLOC_NODE_PARAMS {
            poolProps: CUmemPoolProps {
                allocType: PINNED,
                handleTypes: 0,
                location,
                win32SecurityAttributes: ptr::null_mut(),
                maxSize: 0,
                usage: 0,
                gpuDirectRDMACapable: 0,
                reserved: [0; 53],
            },
            accessDescs: ptr::null(),
            accessDescCount: 0,
            bytesize: bytes,
            dptr: 0,
        };
        let node = self.add(after, &mut params, |driver, graph, after, params| {
            driver.graph_add_mem_alloc_node(graph, after, params)
        })?;
        Ok((node, params.dptr))
    }

    /// Adds a node that frees the memory of an allocation node of this graph.
    ///
    /// # Errors
    ///
    /// Like [`add_empty`](Self::add_empty); [`InvalidValue`](CudaError::InvalidValue) for a node of another kind, and
    /// for an allocation that another node frees already. If the driver fails after it has added the node, the node stays
    /// in the graph and frees the memory.
    #[doc(alias = "cuGraphAddMemFreeNode")]
    #[inline]
    pub fn add_free(&mut self, after: &[Node], allocation: Node) -> CudaResult<Node> {
        let (address, _) = self.allocation(allocation)?;
        self.add(after, (), |driver, graph, after, ()| driver.graph_add_mem_free_node(graph, after, address))
    }

    /// Destroys the node and its edges. What was kept for it is dropped when nothing that was made from the graph
    /// before can run any more.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](CudaError::InvalidHandle) for a node of another graph; [`NotSupported`](CudaError::NotSupported) in a
    /// graph that allocates or frees memory.
    #[doc(alias = "cuGraphDestroyNode")]
    #[inline]
    pub fn destroy_node(&mut self, node: Node) -> CudaResult<()> {
        let raw = self.nodes.find(node)?;
        let destroyed = self.with(|driver, graph| {
            // SAFETY: the key was looked up in this graph.
            let result = driver.graph_destroy_node(unsafe { Held::new(raw) });
            // A driver that fails may have destroyed it all the same; then it is no longer in the graph's list of
            // nodes.
            let gone = result.is_ok() || driver.graph_get_nodes(graph).is_ok_and(|all| !all.contains(&raw));
            Ok((result, gone))
        })?;
        if destroyed.1 {
            let kept = self.nodes.forget(node);
            self.with(|driver, graph| {
                kept.into_iter().for_each(|object| release(driver, graph, object));
                Ok(())
            })?;
        }
        destroyed.0
    }

    /// Adds a node.
    #[inline]
    pub(super) fn add<T>(
        &mut self,
        after: &[Node],
        with: T,
        add: impl FnOnce(&Driver, Held<'_, CUgraph>, After<'_>, T) -> Added,
    ) -> CudaResult<Node> {
        let after = self.nodes.find_all(after)?;
        let raw =
            self.inside(|driver, graph| add(driver, graph, held(&after), with).map_err(|not| not.error))?;
        Ok(self.nodes.key(raw))
    }

    /// Adds a node and what is kept for it.
    #[inline]
    pub(super) fn add_keeping<T: Send + 'static>(
        &mut self,
        after: &[Node],
        keep: Keeping<T>,
        value: T,
        add: impl FnOnce(&Driver, Held<'_, CUgraph>, After<'_>, &Kept<T>) -> Added,
    ) -> CudaResult<Node> {
        let after = self.nodes.find_all(after)?;
        let (raw, object) = self.inside(|driver, graph| {
            let kept = keep(driver, graph, value)?;
            match add(driver, graph, held(&after), &kept) {
                Ok(raw) => Ok((raw, kept.object())),
                Err(NotAdded { error, stays }) => {
                    // A node that stays may use it at every launch.
                    if !stays {
                        kept.give_up(driver, graph);
                    }
                    Err(error)
                }
            }
        })?;
        let node = self.nodes.key(raw);
        self.nodes.keep(node, object);
        Ok(node)
    }

    /// Sets the parameters of a node, and replaces what is kept for it.
    #[inline]
    pub(super) fn set_keeping<T: Send + 'static>(
        &mut self,
        node: Node,
        keep: Keeping<T>,
        value: T,
        set: impl FnOnce(&Driver, Held<'_, CUgraphNode>, &Kept<T>) -> CudaResult<()>,
    ) -> CudaResult<()> {
        let raw = self.nodes.find(node)?;
        let object = self.inside(|driver, graph| {
            let kept = keep(driver, graph, value)?;
            // SAFETY: the key was looked up in this graph.
            match set(driver, unsafe { Held::new(raw) }, &kept) {
                Ok(()) => Ok(kept.object()),
                // The node may have the new parameters all the same, so what is kept for them stays.
                Err(error) => Err(error),
            }
        })?;
        let before = self.nodes.keep(node, object);
        self.with(|driver, graph| {
            before.into_iter().for_each(|object| release(driver, graph, object));
            Ok(())
        })
    }

    /// Whether an event node records its event; refuses nodes of other kinds.
    #[inline]
    pub(super) fn records(&mut self, node: Node) -> CudaResult<bool> {
        match self.kind(node)? {
            super::NodeKind::EventRecord => Ok(true),
            super::NodeKind::EventWait => Ok(false),
            other => {
                Err(CudaError::InvalidValue.note(format_args!("to set the event of a node of {other:?}")))
            }
        }
    }
}
