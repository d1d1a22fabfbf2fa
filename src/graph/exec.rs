//! Executable graphs.

// Flags that the driver returned may have bits without a name.
#![allow(unsafe_code)]

use super::later::Later;
use super::owned::{Kind, Owned};
use super::{Graph, Node};
use crate::context::in_call::enter_graph;
use crate::context::{UnownedContext, refuse_unsafe};
use crate::driver::ffi::{CUgraph, CUgraphExec, CUstream};
use crate::driver::{Driver, Held};
use crate::error::{CudaError, CudaResult, DropResult};
use crate::stream::Stream;
use bitflags::bitflags;
use std::fmt;

bitflags! {
    /// Flags of [`Graph::instantiate`].
    pub struct InstantiateFlags: u64 {
        /// Each launch first frees the memory that earlier launches allocated and did not free.
        const AUTO_FREE_ON_LAUNCH = 1;
        /// The graph may also be launched from the device; cannot be combined with a flag other than
        /// `USE_NODE_PRIORITY`.
        const DEVICE_LAUNCH = 4;
        /// Kernels run with the priorities of their nodes, not with the stream's.
        const USE_NODE_PRIORITY = 8;
    }
}

/// A graph that can be launched; see the [module](super).
///
/// One thread at a time can use it. Its launches run one after the other, in whatever streams they are. If it is
/// dropped during a launch, the launch continues to its end, and what it uses is kept until then.
///
/// ```
/// use custack::graph::{Graph, InstantiateFlags};
/// use custack::stream::{Stream, StreamFlags};
///
/// let context = custack::quick_init()?;
/// let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
/// let mut graph = Graph::new(&context)?;
/// graph.add_host_func(&[], || println!("launched"))?;
/// let mut executable = graph.instantiate(InstantiateFlags::empty())?;
/// executable.launch(&stream)?;
/// stream.synchronize()?;
/// # Ok::<(), custack::error::CudaError>(())
/// ```
pub struct GraphExec {
    pub(super) owned: Owned<CUgraphExec>,
    /// The number of the graph that it was instantiated from, whose nodes it has.
    pub(super) source: u64,
    /// What it keeps, besides what its graph kept when it was instantiated. Dropped after the handle.
    pub(super) later: Option<Box<Later>>,
}

const KIND: Kind<CUgraphExec> =
    Kind { name: "an executable graph", destroy: |driver, exec| driver.graph_exec_destroy(exec) };

impl Graph {
    /// Instantiates the graph in its present state. Later changes of the graph do not affect the executable.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue) for a cycle, and for flags that cannot be combined;
    /// [`NotSupported`](CudaError::NotSupported) for a second executable of a graph that allocates or frees memory;
    /// [`StreamCaptureUnsupported`](CudaError::StreamCaptureUnsupported) while a capture forbids the call.
    #[doc(alias("cuGraphInstantiate", "cuGraphInstantiateWithFlags"))]
    #[inline]
    pub fn instantiate(&mut self, flags: InstantiateFlags) -> CudaResult<GraphExec> {
        self.instantiated(|driver, graph| driver.graph_instantiate(graph, flags.bits()))
    }

    /// Instantiates the graph, and [uploads](GraphExec::upload) it in the stream (CUDA 12.0 and later).
    ///
    /// # Errors
    ///
    /// Like [`instantiate`](Self::instantiate); [`StreamCaptureUnsupported`](CudaError::StreamCaptureUnsupported) for a
    /// stream that is capturing.
    #[doc(alias = "cuGraphInstantiateWithParams")]
    #[inline]
    pub fn instantiate_and_upload(
        &mut self,
        flags: InstantiateFlags,
        stream: &Stream,
    ) -> CudaResult<GraphExec> {
        let call = stream.inner().enter_breaking("upload a graph in a stream")?;
        // The executable belongs to the stream's context, whatever the contexts of its nodes are.
        let pin = stream.present_context()?.pin()?;
        let mut executable = self.instantiated(|driver, graph| {
            let make = |_: &Driver, stream: Held<'_, CUstream>| {
                driver.graph_instantiate_and_upload(graph, flags.bits(), stream)
            };
            stream.inner().with_in(&call, make)
        })?;
        executable.owned.add_pins([pin]);
        Ok(executable)
    }

    #[inline]
    fn instantiated(
        &mut self,
        make: impl FnOnce(&Driver, Held<'_, CUgraph>) -> CudaResult<CUgraphExec>,
    ) -> CudaResult<GraphExec> {
        refuse_unsafe("make a graph executable")?;
        let pins = self.owned.more_pins()?;
        let raw = self.inside(make)?;
        let source = self.nodes.graph();
        Ok(GraphExec { owned: Owned::new(raw, pins, KIND), source, later: None })
    }
}

/// Why an executable graph could not be updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UpdateResult {
    /// The driver does not say why.
    Failed,
    /// The graphs have different edges, or different numbers of nodes.
    TopologyChanged,
    /// A node has another kind.
    NodeKindChanged,
    /// A node launches another kernel, which this driver cannot change.
    FunctionChanged,
    /// A parameter differs that cannot be changed.
    ParametersChanged,
    /// The driver cannot change something about the node.
    NotSupported,
    /// A node launches another kernel that cannot replace the earlier one, such as one of another context.
    UnsupportedFunctionChange,
    /// An attribute differs that cannot be changed.
    AttributesChanged,
    /// Another reason, with the driver's number.
    Other(u32),
}

impl UpdateResult {
    #[inline]
    fn from_raw(result: u32) -> UpdateResult {
        match result {
            0 | 1 => UpdateResult::Failed,
            2 => UpdateResult::TopologyChanged,
            3 => UpdateResult::NodeKindChanged,
            4 => UpdateResult::FunctionChanged,
            5 => UpdateResult::ParametersChanged,
            6 => UpdateResult::NotSupported,
            7 => UpdateResult::UnsupportedFunctionChange,
            8 => UpdateResult::AttributesChanged,
            other => UpdateResult::Other(other),
        }
    }
}

/// The error of an update; the executable is unchanged.
// There is no `From` to `CudaError`, as there is none of `Failure`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpdateRefused {
    /// The driver's error: [`GraphExecUpdateFailure`](CudaError::GraphExecUpdateFailure) if the graphs differ too much.
    pub error: CudaError,
    /// How they differ.
    pub result: UpdateResult,
    /// The node of the given graph that differs, if it is a single one.
    pub node: Option<Node>,
}

impl fmt::Display for UpdateRefused {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.result, self.error)
    }
}

impl std::error::Error for UpdateRefused {}

impl From<CudaError> for UpdateRefused {
    #[inline]
    fn from(error: CudaError) -> UpdateRefused {
        UpdateRefused { error, result: UpdateResult::Failed, node: None }
    }
}

impl GraphExec {
    /// Submits one launch of the graph to the stream, with one driver call; with two once a node was set for which
    /// something is kept ([`set_kernel`](Self::set_kernel) and the others), because custack then records an event. The
    /// stream may belong to another context than the nodes, if the driver allows it; then too an event is recorded, that
    /// context is kept at the driver as long as the executable, and those of the nodes until the launch is over.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed), for the stream's or a node's;
    /// [`StreamCaptureUnsupported`](CudaError::StreamCaptureUnsupported) for a stream that is capturing: add the graph
    /// as a [child](Graph::add_child) instead; [`InvalidValue`](CudaError::InvalidValue) while memory that an earlier
    /// launch allocated is not freed.
    #[doc(alias = "cuGraphLaunch")]
    #[inline]
    pub fn launch(&mut self, stream: &Stream) -> CudaResult<()> {
        self.submit("launch a graph in a stream", stream, Driver::graph_launch)
    }

    /// Prepares the next launch in the stream, for instance by copying the graph to the device.
    ///
    /// # Errors
    ///
    /// Like [`launch`](Self::launch).
    #[doc(alias = "cuGraphUpload")]
    #[inline]
    pub fn upload(&mut self, stream: &Stream) -> CudaResult<()> {
        self.submit("upload a graph in a stream", stream, Driver::graph_upload)
    }

    #[inline]
    fn submit(
        &mut self,
        what: &'static str,
        stream: &Stream,
        f: fn(&Driver, Held<'_, CUgraphExec>, Held<'_, CUstream>) -> CudaResult<()>,
    ) -> CudaResult<()> {
        // Also for the event that is recorded after the launch: it would become part of the capture.
        let call = stream.inner().enter_launch(what)?;
        let GraphExec { owned, later, .. } = self;
        owned.launched_in(stream)?;
        owned.usable()?;
        if owned.reaches_beyond(stream) {
            Later::keep_contexts(later, owned.pins())?;
        }
        let submit = || {
            let exec = owned.held()?;
            stream.inner().with_in(&call, |driver, stream| f(driver, exec, stream))
        };
        match later {
            None => submit(),
            Some(later) => later.launched(stream, &call, submit),
        }
    }

    /// Gives the executable the parameters of this graph, which may differ in parameters only. Earlier launches are not
    /// affected. From now on the executable also keeps what the graph keeps.
    ///
    /// # Errors
    ///
    /// [`UpdateRefused`], which says why; the executable is unchanged.
    ///
    /// ```
    /// use custack::graph::{Graph, InstantiateFlags, UpdateResult};
    ///
    /// let context = custack::quick_init()?;
    /// let mut graph = Graph::new(&context)?;
    /// let first = graph.add_empty(&[])?;
    /// let mut executable = graph.instantiate(InstantiateFlags::empty())?;
    /// executable.update(&mut graph).map_err(|refused| refused.error)?;
    ///
    /// graph.add_empty(&[first])?;
    /// let refused = executable.update(&mut graph).unwrap_err();
    /// assert_eq!(refused.result, UpdateResult::TopologyChanged);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuGraphExecUpdate", "cuGraphExecUpdate_v2"))]
    #[inline]
    pub fn update(&mut self, graph: &mut Graph) -> Result<(), UpdateRefused> {
        let exec = self.owned.held()?;
        let pins = graph.owned.more_pins()?;
        let (answer, result, node) = graph.inside(|driver, graph| {
            let _call = enter_graph()?;
            Ok(driver.graph_exec_update(exec, graph))
        })?;
        // The executable may have the graph's nodes now, even if the call failed.
        self.owned.add_pins(pins);
        answer.map_err(|error| {
            // Only a node of this graph has a key.
            let known = graph.nodes().unwrap_or_default().into_iter();
            let node = known.into_iter().find(|key| graph.nodes.find(*key) == Ok(node));
            UpdateRefused { error, result: UpdateResult::from_raw(result), node }
        })
    }

    /// The flags that it was instantiated with; bits without a name are kept.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
    #[doc(alias = "cuGraphExecGetFlags")]
    #[inline]
    pub fn flags(&mut self) -> CudaResult<InstantiateFlags> {
        let bits = self.owned.with(Driver::graph_exec_get_flags)?;
        // SAFETY: any bits are valid; the driver may have newer ones.
        Ok(unsafe { InstantiateFlags::from_bits_unchecked(bits) })
    }

    /// The context of the graph that it was instantiated from.
    #[inline]
    pub fn context(&self) -> &UnownedContext {
        self.owned.context()
    }

    /// The driver's handle.
    #[inline]
    pub fn as_raw(&self) -> CUgraphExec {
        self.owned.raw()
    }

    /// Destroys the executable; if that fails, returns the error and the executable. A running launch continues.
    ///
    /// # Errors
    ///
    /// Any error of the driver. It may have destroyed the executable all the same, so the returned one refuses every
    /// use with [`InvalidHandle`](CudaError::InvalidHandle), and dropping it does nothing; only after
    /// [`NotPermitted`](CudaError::NotPermitted), in a host function, is it unchanged.
    #[doc(alias = "cuGraphExecDestroy")]
    #[inline]
    pub fn drop(mut executable: GraphExec) -> DropResult<GraphExec> {
        executable.owned.destroy().map_err(|error| (error, executable))
    }
}

impl fmt::Debug for GraphExec {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphExec").field("raw", &self.as_raw()).field("context", self.context()).finish()
    }
}
