//! Captures that were begun by hand: their nodes, which have keys before there is a graph.

use super::within::{active, with_graph};
use super::{Dependencies, EdgeData, Graph, Node, Nodes};
use crate::context::{Pin, UnownedContext, captures};
use crate::driver::{Driver, Locked, lock, refuse_in_child};
use crate::error::{CudaError, CudaResult};
use crate::graph::kept::Kept;
use crate::stream::Stream;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// What is known of the graph that a capture makes.
pub(super) struct Known {
    /// The nodes that have keys.
    pub(super) nodes: Box<Nodes>,
    /// The context of its copies, fills and allocations, if the program has made it.
    pub(super) context: Option<UnownedContext>,
}

impl Known {
    #[inline]
    fn new() -> Known {
        Known { nodes: Nodes::new(), context: None }
    }
}

/// By the number of the capture in progress.
static KNOWN: Mutex<BTreeMap<u64, Known>> = Mutex::new(BTreeMap::new());

#[inline]
fn all() -> Locked<'static, BTreeMap<u64, Known>> {
    lock(&KNOWN)
}

/// Of the capture that ends.
#[inline]
pub(super) fn take(capture: u64) -> Option<Known> {
    all().remove(&capture)
}

/// The nodes of the capture; those of captures that were lost are forgotten.
#[inline]
fn with<R>(capture: u64, f: impl FnOnce(&mut Nodes) -> R) -> R {
    let mut all = all();
    if !all.contains_key(&capture) {
        all.retain(|other, _| captures::is_listed(*other));
    }
    f(&mut all.entry(capture).or_insert_with(Known::new).nodes)
}

/// The graph is the capture's from here on, which keeps its contexts, and whose end gives it back. If the capture was lost
/// meanwhile, its graph is destroyed, and the pins are returned, to be dropped without a lock.
#[must_use]
#[inline]
pub(super) fn give(capture: u64, graph: Graph) -> Vec<Pin> {
    let Graph { owned, nodes } = graph;
    let context = Some(owned.context().clone());
    {
        let mut all = all();
        all.insert(capture, Known { nodes, context });
        // Also this one, if it was lost meanwhile.
        all.retain(|other, _| captures::is_listed(*other));
    }
    captures::has_begun(capture, owned.give_up())
}

impl Stream {
    /// Of a capture that was [begun by hand](Self::begin_capture), in this stream or in one that this has joined: what the
    /// stream's next work will depend on, as [`Capture::dependencies`](super::Capture::dependencies) in a closure. The keys are
    /// those of the graph that [`end_capture`](Self::end_capture) returns.
    ///
    /// # Errors
    ///
    /// [`IllegalState`](CudaError::IllegalState) if the stream is in no such capture;
    /// [`StreamCaptureInvalidated`](CudaError::StreamCaptureInvalidated) if the capture is broken.
    ///
    /// ```
    /// use custack::graph::Dependencies;
    /// use custack::memory::{AsyncCopyDestination, DeviceBuffer};
    /// use custack::stream::{CaptureMode, Stream, StreamFlags};
    ///
    /// let _context = custack::quick_init()?;
    /// let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    /// let (mut a, mut b) = (DeviceBuffer::from_slice(&[0u32])?, DeviceBuffer::from_slice(&[0u32])?);
    /// // SAFETY: all users of the stream and of the buffers are in this example, and the graph is not launched.
    /// let mut graph = unsafe {
    ///     stream.begin_capture(CaptureMode::ThreadLocal)?;
    ///     a.async_fill(1, &stream)?;
    ///     let first = stream.capture_dependencies()?;
    ///     stream.update_capture_dependencies(Dependencies::Set, &[])?;
    ///     b.async_fill(2, &stream)?; // beside the first
    ///     stream.update_capture_dependencies(Dependencies::Add, &first)?;
    ///     stream.end_capture()?
    /// };
    /// assert_eq!(graph.root_nodes()?.len(), 2);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v2", "cuStreamGetCaptureInfo_v3"))]
    #[inline]
    pub fn capture_dependencies(&self) -> CudaResult<Vec<(Node, EdgeData)>> {
        let capture = self.by_hand("ask what comes next")?;
        let info = self.inner().with(Driver::stream_get_capture_info)?;
        active(info.status)?;
        let key = |nodes: &mut Nodes| {
            info.after.into_iter().map(|(raw, edge)| (nodes.key(raw), EdgeData::of(edge))).collect()
        };
        Ok(with(capture, key))
    }

    /// Like [`capture_dependencies`](Self::capture_dependencies): changes what the stream's next work will depend on.
    ///
    /// # Errors
    ///
    /// Like [`capture_dependencies`](Self::capture_dependencies); [`InvalidHandle`](CudaError::InvalidHandle) for a node of
    /// another graph.
    #[doc(alias("cuStreamUpdateCaptureDependencies", "cuStreamUpdateCaptureDependencies_v2"))]
    #[inline]
    pub fn update_capture_dependencies(
        &self,
        how: Dependencies,
        nodes: &[(Node, EdgeData)],
    ) -> CudaResult<()> {
        let capture = self.by_hand("change what comes next")?;
        let after = with(capture, |known| known.find_after(nodes))?;
        self.inner().with(|driver, stream| {
            // The nodes exist as long as the capture, which is not ended during the call.
            active(driver.stream_is_capturing(stream)?)?;
            driver.stream_update_capture_dependencies(stream, &after, how as u32)
        })
    }

    /// Of a capture that was [begun by hand](Self::begin_capture), in this stream or in one that this has joined: makes the
    /// graph, and all that is made from it, keep the value, as [`Capture::keep`](super::Capture::keep) in a closure.
    ///
    /// # Errors
    ///
    /// Like [`capture_dependencies`](Self::capture_dependencies); any error of the driver. The value is then dropped.
    ///
    /// ```
    /// use custack::graph::InstantiateFlags;
    /// use custack::memory::{AsyncCopyDestination, DeviceBuffer};
    /// use custack::stream::{CaptureMode, Stream, StreamFlags};
    ///
    /// let _context = custack::quick_init()?;
    /// let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    /// let mut buffer = DeviceBuffer::from_slice(&[0u32; 4])?;
    /// // SAFETY: all users of the stream and of the buffer are in this example; the graph keeps the buffer.
    /// let mut graph = unsafe {
    ///     stream.begin_capture(CaptureMode::ThreadLocal)?;
    ///     buffer.async_fill(7, &stream)?;
    ///     stream.keep_in_capture(buffer)?;
    ///     stream.end_capture()?
    /// };
    /// graph.instantiate(InstantiateFlags::empty())?.launch(&stream)?;
    /// stream.synchronize()?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuGraphRetainUserObject")]
    #[inline]
    pub fn keep_in_capture(&self, value: impl Send + 'static) -> CudaResult<()> {
        self.by_hand("keep a value")?;
        with_graph(self, |driver, _, graph| Kept::for_its_drop(driver, graph, value).map(|_| ()))
    }

    /// The number of the stream's capture, which was begun by hand.
    #[inline]
    fn by_hand(&self, what: &'static str) -> CudaResult<u64> {
        refuse_in_child()?;
        captures::by_hand(self.key()).ok_or_else(|| {
            CudaError::IllegalState
                .note(format_args!("to {what} in a capture by hand; no such capture has this stream"))
        })
    }
}
