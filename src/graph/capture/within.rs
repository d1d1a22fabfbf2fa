//! What can be done within a capture.

// Handles of what is captured, and pointers to what is kept; see the `SAFETY` lines.
#![allow(unsafe_code)]

use super::running::refuse_captured;
use super::{Capture, Dependencies, Recordable, again};
use crate::context::UnownedContext;
use crate::driver::ffi::{CUgraph, CUstream};
use crate::driver::{Driver, Held};
use crate::error::{CudaError, CudaResult};
use crate::event::{Event, EventFlags};
use crate::graph::kept::Kept;
use crate::graph::{EdgeData, Node};
use crate::stream::{Stream, StreamWaitEventFlags};
use std::marker::PhantomData;

impl Capture<'_> {
    /// Has the graph, and all that is made from it, keep the value; see the [module](crate::graph).
    ///
    /// # Errors
    ///
    /// [`StreamCaptureInvalidated`](CudaError::StreamCaptureInvalidated) if the capture is broken. The value is dropped then.
    #[doc(alias = "cuGraphRetainUserObject")]
    pub fn keep(&self, value: impl Send + 'static) -> CudaResult<()> {
        self.with_graph(|driver, _, graph| Kept::by(driver, graph, value).map(|_| ()))
    }

    /// Has the function called at every launch, on a thread of the driver's, where every driver call is refused. It is kept,
    /// and dropped once. Executables that run at once call it one after the other.
    ///
    /// # Errors
    ///
    /// As [`keep`](Self::keep). The function is dropped then.
    #[doc(alias = "cuLaunchHostFunc")]
    pub fn launch_host_func(&self, f: impl FnMut() + Send + 'static) -> CudaResult<()> {
        self.with_graph(|driver, stream, graph| {
            let kept = Kept::by(driver, graph, f)?;
            let node = kept.as_host_function();
            // SAFETY: the function is kept by whatever can call it.
            let launched = unsafe { driver.launch_host_func(stream, node.fn_, node.userData) };
            // If it failed, the node may be there all the same: what it calls stays, and is empty.
            launched.inspect_err(|_| kept.empty())
        })
    }

    /// Gives the stream what can be recorded.
    ///
    /// # Errors
    ///
    /// Those of what is recorded.
    pub fn record(&self, what: impl Recordable) -> CudaResult<()> {
        what.record(self)
    }

    /// Has another stream capture into the same graph: what the closure gives to it comes after what this one has now, and
    /// what this one is given later comes after that. The two are joined again whatever the closure does.
    ///
    /// The other stream may be of another context. Until the whole capture is over nothing can be done with it besides.
    ///
    /// # Errors
    ///
    /// The closure's; [`IllegalState`](CudaError::IllegalState) for a stream that captures already; what the driver answers.
    ///
    /// ```
    /// use custack::stream::{CaptureMode, Stream, StreamFlags};
    ///
    /// let _context = custack::quick_init()?;
    /// let mut a = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    /// let mut b = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    /// let mut graph = a.capture(CaptureMode::ThreadLocal, |a| {
    ///     a.launch_host_func(|| println!("first"))?;
    ///     a.fork(&mut b, |b| b.launch_host_func(|| println!("beside")))?;
    ///     a.launch_host_func(|| println!("last"))
    /// })?;
    /// assert_eq!((graph.nodes()?.len(), graph.root_nodes()?.len()), (3, 1));
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    pub fn fork(&self, other: &mut Stream, f: impl FnOnce(&Capture<'_>) -> CudaResult<()>) -> CudaResult<()> {
        refuse_captured(other)?;
        // Both are made before anything is captured, so that nothing can come between the two streams and their joining.
        let (forks, joins) = (mark(self.context())?, mark(other.context())?);
        forks.record(self)?;
        other.wait_event(&forks, StreamWaitEventFlags::DEFAULT)?;
        let mut joining = Joining { origin: self.stream, fork: other, joins, joined: false };
        let result = f(&Capture { stream: joining.fork, nodes: self.nodes, not_send: PhantomData });
        let detail = result.err().and_then(CudaError::detail);
        let joined = joining.join();
        match result {
            Ok(()) => joined,
            Err(error) => Err(again(error, detail)),
        }
    }

    /// What the stream's next work will come after.
    ///
    /// # Errors
    ///
    /// [`StreamCaptureInvalidated`](CudaError::StreamCaptureInvalidated) if the capture is broken.
    #[doc(alias("cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v2", "cuStreamGetCaptureInfo_v3"))]
    pub fn dependencies(&self) -> CudaResult<Vec<(Node, EdgeData)>> {
        let info = self.inner().with(Driver::stream_get_capture_info)?;
        active(info.status)?;
        let mut nodes = self.nodes.borrow_mut();
        Ok(info.after.into_iter().map(|(raw, edge)| (nodes.key(raw), EdgeData::of(edge))).collect())
    }

    /// Has the stream's next work come after these nodes of the graph, besides what it would come after or instead.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](CudaError::InvalidHandle) for a node of another graph;
    /// [`StreamCaptureInvalidated`](CudaError::StreamCaptureInvalidated) if the capture is broken.
    #[doc(alias("cuStreamUpdateCaptureDependencies", "cuStreamUpdateCaptureDependencies_v2"))]
    pub fn update_dependencies(&self, how: Dependencies, nodes: &[(Node, EdgeData)]) -> CudaResult<()> {
        let after = self.nodes.borrow().find_after(nodes)?;
        self.inner()
            .with(|driver, stream| driver.stream_update_capture_dependencies(stream, &after, how as u32))
    }

    /// Calls `f` with the graph that the stream captures into.
    fn with_graph<R>(
        &self,
        f: impl FnOnce(&Driver, Held<'_, CUstream>, Held<'_, CUgraph>) -> CudaResult<R>,
    ) -> CudaResult<R> {
        self.inner().with(|driver, stream| {
            let info = driver.stream_get_capture_info(stream)?;
            active(info.status)?;
            // SAFETY: the graph is there as long as the capture is in progress, which this value stands for.
            f(driver, stream, unsafe { Held::new(info.graph) })
        })
    }
}

fn active(status: u32) -> CudaResult<()> {
    match status {
        1 => Ok(()),
        0 => Err(CudaError::IllegalState.note(format_args!("to use a capture that other code has ended"))),
        _ => Err(CudaError::StreamCaptureInvalidated),
    }
}

/// An event of a context that only orders.
fn mark(context: &UnownedContext) -> CudaResult<Event> {
    Event::in_context(context, EventFlags::DISABLE_TIMING)
}

/// Two streams of which one has forked from the other, and comes back in any case.
struct Joining<'a> {
    origin: &'a Stream,
    fork: &'a Stream,
    joins: Event,
    joined: bool,
}

impl Joining<'_> {
    fn join(&mut self) -> CudaResult<()> {
        self.joined = true;
        let record = || self.joins.record(self.fork);
        record().or_else(|_| record())?;
        let wait = || self.origin.wait_event(&self.joins, StreamWaitEventFlags::DEFAULT);
        wait().or_else(|_| wait())
    }
}

impl Drop for Joining<'_> {
    /// After a panic.
    fn drop(&mut self) {
        if !self.joined {
            let _ = self.join();
        }
    }
}
