//! Executable graphs.

// Owns a handle of the driver's; see the `SAFETY` lines.
#![allow(unsafe_code)]

use super::kept::{Kept, release};
use super::{Graph, Node, spent};
use crate::context::{Pin, UnownedContext, must_retire, refuse_unsafe, unbroken};
use crate::driver::ffi::{CUgraph, CUgraphExec};
use crate::driver::{Driver, Held, driver};
use crate::error::{CudaError, CudaResult, DropResult};
use crate::liveness::retire;
use crate::report;
use crate::stream::Stream;
use bitflags::bitflags;
use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

bitflags! {
    /// How a graph is made executable.
    pub struct InstantiateFlags: u64 {
        /// Each launch first frees what the launch before has allocated and not freed.
        const AUTO_FREE_ON_LAUNCH = 1;
        /// It may be launched from the device too; goes with no other but `USE_NODE_PRIORITY`.
        const DEVICE_LAUNCH = 4;
        /// Its kernels have the priorities that they were captured or set with, not the stream's.
        const USE_NODE_PRIORITY = 8;
    }
}

/// What was given to an executable, beside what its graph kept when it was made. It grows, and goes when the last launch of
/// the executable is over.
type Owners = Arc<Mutex<Vec<Box<dyn Any + Send>>>>;

/// A graph that can be launched; see the [module](super).
///
/// It is used by one thread at a time. Its launches come one after the other, whatever streams they are in. Dropped while a
/// launch runs it runs to its end, and what it uses is kept until then.
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
    raw: CUgraphExec,
    /// The number of the graph that it was made of, whose nodes it knows.
    pub(super) source: u64,
    pub(super) pins: Vec<Pin>,
    owners: Owners,
    spent: bool,
    not_sync: PhantomData<Cell<()>>,
}

// SAFETY: the driver's functions may be called on any thread; that it is on one at a time, `&mut self` and no `Sync` see to.
unsafe impl Send for GraphExec {}

impl Graph {
    /// Makes the graph, as it is now, executable.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue) for a circle, and for flags that do not go together;
    /// [`NotSupported`](CudaError::NotSupported) for a second executable of a graph that allocates or frees memory;
    /// [`StreamCaptureUnsupported`](CudaError::StreamCaptureUnsupported) while a capture forbids it.
    #[doc(alias("cuGraphInstantiate", "cuGraphInstantiateWithFlags"))]
    pub fn instantiate(&mut self, flags: InstantiateFlags) -> CudaResult<GraphExec> {
        self.instantiated(|driver, graph| driver.graph_instantiate(graph, flags.bits()))
    }

    /// Makes the graph executable, and has the stream do what its first launch would begin with (CUDA 12.0 and later).
    ///
    /// # Errors
    ///
    /// As [`instantiate`](Self::instantiate); [`StreamCaptureUnsupported`](CudaError::StreamCaptureUnsupported) for a stream
    /// that captures.
    #[doc(alias = "cuGraphInstantiateWithParams")]
    pub fn instantiate_and_upload(
        &mut self,
        flags: InstantiateFlags,
        stream: &Stream,
    ) -> CudaResult<GraphExec> {
        stream.refuse_in_capture("upload a graph in a stream")?;
        self.instantiated(|driver, graph| {
            stream.inner().with(|_, stream| driver.graph_instantiate_and_upload(graph, flags.bits(), stream))
        })
    }

    fn instantiated(
        &mut self,
        make: impl FnOnce(&Driver, Held<'_, CUgraph>) -> CudaResult<CUgraphExec>,
    ) -> CudaResult<GraphExec> {
        refuse_unsafe("make a graph executable")?;
        let pins = self.more_pins()?;
        let owners = Owners::default();
        let raw = self.inside(|driver, graph| lent(driver, graph, &owners, || make(driver, graph)))?;
        let source = self.nodes.graph();
        Ok(GraphExec { raw, source, pins, owners, spent: false, not_sync: PhantomData })
    }
}

/// Does `f` while the graph keeps the owners, so that the executable that is made or updated keeps them on.
fn lent<R>(
    driver: &Driver,
    graph: Held<'_, CUgraph>,
    owners: &Owners,
    f: impl FnOnce() -> CudaResult<R>,
) -> CudaResult<R> {
    let kept = Kept::by(driver, graph, Arc::clone(owners))?;
    let result = f();
    release(driver, graph, kept.object());
    result
}

/// Why an executable graph could not be updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UpdateResult {
    /// For a reason without a name.
    Failed,
    /// The other graph has other edges or another number of nodes.
    TopologyChanged,
    /// A node is of another kind.
    NodeKindChanged,
    /// A kernel is another one, on a driver that cannot change it.
    FunctionChanged,
    /// A parameter is another that cannot be changed.
    ParametersChanged,
    /// Something of the node cannot be changed.
    NotSupported,
    /// A kernel is another one that cannot take the place of the one before, as one of another context.
    UnsupportedFunctionChange,
    /// An attribute is another that cannot be changed.
    AttributesChanged,
    /// Another reason, by the driver's number.
    Other(u32),
}

impl UpdateResult {
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

/// The executable was not updated, and is as it was.
// No `From` makes a `CudaError` of it: a second one would leave open, in closures that end with `Ok`, which error is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpdateRefused {
    /// What the driver answered: [`GraphExecUpdateFailure`](CudaError::GraphExecUpdateFailure) if the graphs do not fit.
    pub error: CudaError,
    /// Why they do not.
    pub result: UpdateResult,
    /// The node of the graph that was given, if it is one that does not fit.
    pub node: Option<Node>,
}

impl fmt::Display for UpdateRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.result, self.error)
    }
}

impl std::error::Error for UpdateRefused {}

impl From<CudaError> for UpdateRefused {
    fn from(error: CudaError) -> UpdateRefused {
        UpdateRefused { error, result: UpdateResult::Failed, node: None }
    }
}

impl GraphExec {
    /// Gives the stream one run of the graph: one driver call. The stream may be of another context than the nodes, where the
    /// driver allows it.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed), of the stream or of a node;
    /// [`StreamCaptureUnsupported`](CudaError::StreamCaptureUnsupported) for a stream that captures: add the graph to the
    /// other as a [child](Graph::add_child); [`InvalidValue`](CudaError::InvalidValue) while memory that an earlier launch
    /// has allocated is not freed.
    #[doc(alias = "cuGraphLaunch")]
    #[inline]
    pub fn launch(&mut self, stream: &Stream) -> CudaResult<()> {
        self.in_stream("launch a graph in a stream", stream, Driver::graph_launch)
    }

    /// Has the stream do what the next launch would begin with, such as sending the graph to the device.
    ///
    /// # Errors
    ///
    /// As [`launch`](Self::launch).
    #[doc(alias = "cuGraphUpload")]
    pub fn upload(&mut self, stream: &Stream) -> CudaResult<()> {
        self.in_stream("upload a graph in a stream", stream, Driver::graph_upload)
    }

    #[inline]
    fn in_stream(
        &mut self,
        what: &'static str,
        stream: &Stream,
        f: fn(&Driver, Held<'_, CUgraphExec>, Held<'_, crate::driver::ffi::CUstream>) -> CudaResult<()>,
    ) -> CudaResult<()> {
        self.usable()?;
        stream.refuse_in_capture(what)?;
        // SAFETY: this value owns the executable, and is borrowed; its contexts are kept at the driver.
        stream.inner().with(|driver, stream| f(driver, unsafe { Held::new(self.raw) }, stream))
    }

    /// Makes the executable what the graph would become, which must differ in parameters alone. Launches that were given
    /// before are not changed by it. What the graph keeps the executable keeps from now on.
    ///
    /// # Errors
    ///
    /// [`UpdateRefused`], with why; the executable is as it was then.
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
    pub fn update(&mut self, graph: &mut Graph) -> Result<(), UpdateRefused> {
        self.usable()?;
        let pins = graph.more_pins()?;
        let (raw, owners) = (self.raw, Arc::clone(&self.owners));
        let (answer, result, node) = graph.inside(|driver, graph| {
            // SAFETY: as in `in_stream`.
            let exec = unsafe { Held::new(raw) };
            lent(driver, graph, &owners, || Ok(driver.graph_exec_update(exec, graph)))
        })?;
        // The nodes of the graph may be in it by now, also if the call has failed.
        self.pin(pins);
        answer.map_err(|error| {
            // A name that is not in the graph is of no use to anybody.
            let known = graph.nodes().unwrap_or_default().into_iter();
            let node = known.into_iter().find(|key| graph.nodes.find(*key) == Ok(node));
            UpdateRefused { error, result: UpdateResult::from_raw(result), node }
        })
    }

    /// The flags that it was made with; bits that have no name are kept.
    ///
    /// # Errors
    ///
    /// What the driver answers.
    #[doc(alias = "cuGraphExecGetFlags")]
    pub fn flags(&mut self) -> CudaResult<InstantiateFlags> {
        let bits = self.with(Driver::graph_exec_get_flags)?;
        // SAFETY: any bits are good; the driver may have newer ones.
        Ok(unsafe { InstantiateFlags::from_bits_unchecked(bits) })
    }

    /// The context of the graph that it was made of.
    pub fn context(&self) -> &UnownedContext {
        self.pins.first().map_or(UnownedContext::NONE, Pin::context)
    }

    /// The driver's handle.
    pub fn as_raw(&self) -> CUgraphExec {
        self.raw
    }

    /// Destroys the executable, and gives the error and the executable back if that fails. A launch that runs goes on.
    ///
    /// # Errors
    ///
    /// What the driver answers. It may have destroyed the executable all the same, so the one that comes back answers
    /// [`InvalidHandle`](CudaError::InvalidHandle), and dropping it does nothing; only after
    /// [`NotPermitted`](CudaError::NotPermitted), in a host function, is it as it was.
    #[doc(alias = "cuGraphExecDestroy")]
    pub fn drop(mut executable: GraphExec) -> DropResult<GraphExec> {
        match driver().and_then(|driver| executable.destroy(driver)) {
            Ok(()) | Err(CudaError::Deinitialized) => Ok(()),
            Err(error) => Err((error, executable)),
        }
    }

    fn destroy(&mut self, driver: &Driver) -> CudaResult<()> {
        if self.spent {
            return Ok(());
        }
        // SAFETY: this value owns the executable; its contexts are kept at the driver, which would crash without.
        let result = unbroken(driver, || driver.graph_exec_destroy(unsafe { Held::new(self.raw) }));
        self.spent = result != Err(CudaError::NotPermitted);
        result
    }

    /// Calls `f` with the handle.
    pub(super) fn with<R>(
        &self,
        f: impl FnOnce(&Driver, Held<'_, CUgraphExec>) -> CudaResult<R>,
    ) -> CudaResult<R> {
        let driver = driver()?;
        self.usable()?;
        // SAFETY: this value owns the executable, and is borrowed; its contexts are kept at the driver.
        f(driver, unsafe { Held::new(self.raw) })
    }

    #[inline]
    pub(super) fn usable(&self) -> CudaResult<()> {
        if self.spent {
            return Err(spent());
        }
        self.pins.iter().try_for_each(|pin| pin.context().usable())
    }

    /// Keeps these contexts too.
    pub(super) fn pin(&mut self, pins: Vec<Pin>) {
        for pin in pins {
            if !self.pins.iter().any(|other| other.context() == pin.context()) {
                self.pins.push(pin);
            }
        }
    }

    /// Has the executable keep the value until its last launch is over.
    pub(super) fn keep(&mut self, value: impl Send + 'static) {
        let value: Box<dyn Any + Send> = Box::new(value);
        self.owners.lock().unwrap_or_else(PoisonError::into_inner).push(value);
    }
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        if self.spent {
            return;
        }
        let driver = if must_retire() { Err(CudaError::NotPermitted) } else { driver() };
        match driver.and_then(|driver| self.destroy(driver)) {
            Ok(()) | Err(CudaError::Deinitialized) => {}
            Err(CudaError::NotPermitted) => {
                self.spent = true;
                let other = GraphExec {
                    raw: self.raw,
                    source: self.source,
                    pins: mem::take(&mut self.pins),
                    owners: Arc::clone(&self.owners),
                    spent: false,
                    not_sync: PhantomData,
                };
                retire(move || drop(other));
            }
            Err(error) => report::warn(format_args!("an executable graph could not be destroyed: {error}")),
        }
    }
}

impl fmt::Debug for GraphExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphExec").field("raw", &self.raw).field("context", self.context()).finish()
    }
}
