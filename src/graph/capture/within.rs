//! The methods of [`Capture`].

// Uses the handle of the captured graph, and pointers to what is kept; see the `SAFETY` lines.
#![allow(unsafe_code)]

use super::running::refuse_captured;
use super::{Capture, Dependencies, Recordable};
use crate::context::{UnownedContext, captures};
use crate::driver::ffi::{CUevent, CUgraph, CUstream};
use crate::driver::{Driver, Held};
use crate::error::{CudaError, CudaResult, keep_note, twice};
use crate::event::{Event, EventFlags, EventRecordFlags};
use crate::graph::kept::Kept;
use crate::graph::{EdgeData, Node};
use crate::stream::{Stream, StreamWaitEventFlags};
use std::marker::PhantomData;
use std::sync::Arc;

impl Capture<'_> {
    /// Makes the graph, and all that is made from it, keep the value; see the [module](crate::graph).
    ///
    /// # Errors
    ///
    /// [`StreamCaptureInvalidated`](CudaError::StreamCaptureInvalidated) if the capture is broken. The value is then
    /// dropped.
    #[doc(alias = "cuGraphRetainUserObject")]
    #[inline]
    pub fn keep(&self, value: impl Send + 'static) -> CudaResult<()> {
        self.with_graph(|driver, _, graph| Kept::for_its_drop(driver, graph, value).map(|_| ()))
    }

    /// Captures a function, which is called at every launch, on a thread of the driver, where every driver call is
    /// refused. The graph keeps it. Executables that run at the same time call it one after the other.
    ///
    /// # Errors
    ///
    /// Like [`keep`](Self::keep). The function is then dropped.
    #[doc(alias = "cuLaunchHostFunc")]
    #[inline]
    pub fn launch_host_func(&self, f: impl FnMut() + Send + 'static) -> CudaResult<()> {
        self.with_graph(|driver, stream, graph| {
            let kept = Kept::by(driver, graph, f)?;
            let node = kept.as_host_function();
            // SAFETY: whatever can call the function keeps it.
            let launched = unsafe { driver.launch_host_func(stream, node.fn_, node.userData) };
            // If this failed, the node may exist all the same: it finds an empty place and calls nothing.
            launched.inspect_err(|_| kept.empty())
        })
    }

    /// Captures a record of the event, so that each launch records it for waits outside the graph, which keeps it.
    ///
    /// # Errors
    ///
    /// Like [`keep`](Self::keep); [`ContextIsDestroyed`](CudaError::ContextIsDestroyed) for the event's context.
    ///
    /// ```
    /// use custack::event::{Event, EventFlags};
    /// use custack::graph::InstantiateFlags;
    /// use custack::stream::{CaptureMode, Stream, StreamFlags};
    /// use std::sync::Arc;
    ///
    /// let _context = custack::quick_init()?;
    /// let mut stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    /// let launched = Arc::new(Event::new(EventFlags::DEFAULT)?);
    /// stream
    ///     .capture_executable(CaptureMode::ThreadLocal, InstantiateFlags::empty(), |capture| {
    ///         capture.record_external(&launched)
    ///     })?
    ///     .launch(&stream)?;
    /// launched.synchronize()?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuEventRecordWithFlags")]
    #[inline]
    pub fn record_external(&self, event: &Arc<Event>) -> CudaResult<()> {
        let flags = EventRecordFlags::EXTERNAL.bits();
        self.external(event, |driver, event, stream| driver.event_record_with_flags(event, stream, flags))
    }

    /// Captures a wait for the event, so that each launch waits for its last record outside the graph, which keeps it.
    ///
    /// # Errors
    ///
    /// Like [`record_external`](Self::record_external).
    #[doc(alias = "cuStreamWaitEvent")]
    #[inline]
    pub fn wait_external(&self, event: &Arc<Event>) -> CudaResult<()> {
        let flags = StreamWaitEventFlags::EXTERNAL.bits();
        self.external(event, |driver, event, stream| driver.stream_wait_event(stream, event, flags))
    }

    /// Makes a node that uses the event, which the graph keeps together with its context.
    #[inline]
    fn external(
        &self,
        event: &Arc<Event>,
        add: impl FnOnce(&Driver, Held<'_, CUevent>, Held<'_, CUstream>) -> CudaResult<()>,
    ) -> CudaResult<()> {
        captures::also_in(self.stream.key(), event.context().pin()?);
        self.with_graph(|driver, stream, graph| {
            // Also kept if the call fails, because the node may exist all the same.
            Kept::by(driver, graph, Arc::clone(event))?;
            event.in_graph().with(|driver, event| add(driver, event, stream))
        })
    }

    /// Records the work in this capture.
    ///
    /// # Errors
    ///
    /// Those of the work.
    #[inline]
    pub fn record(&self, what: impl Recordable) -> CudaResult<()> {
        what.record(self)
    }

    /// Captures another stream into the same graph: what the closure submits to it comes after the present work of this
    /// stream, and later work of this stream comes after that. The streams are joined whatever the closure does.
    ///
    /// The other stream may be of another context. Until the whole capture has ended, it cannot be used for anything
    /// else.
    ///
    /// # Errors
    ///
    /// The closure's; [`IllegalState`](CudaError::IllegalState) for a stream that is capturing already; any error of
    /// the driver.
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
    #[inline]
    pub fn fork(&self, other: &mut Stream, f: impl FnOnce(&Capture<'_>) -> CudaResult<()>) -> CudaResult<()> {
        refuse_captured(other)?;
        // Both events are made before anything is captured, so that nothing can prevent the join.
        let (forks, joins) = (mark(self.context())?, mark(other.context())?);
        forks.record(self)?;
        let waited = other.wait_event(&forks, StreamWaitEventFlags::DEFAULT);
        if waited.is_err() && !other.inner().captures() {
            return waited;
        }
        // Also if waiting has failed: without the join the whole capture would be lost.
        let mut joining = Joining { origin: self.stream, fork: other, joins, joined: false };
        let forked = Capture { stream: joining.fork, nodes: self.nodes, not_send: PhantomData };
        let result = waited.and_then(|()| f(&forked));
        let _note = result.is_err().then(keep_note);
        let joined = joining.join();
        result.and(joined)
    }

    /// What the stream's next work will depend on: right after a launch, the node of that launch. So a program finds the
    /// node that it [changes](super::super::GraphExec::set_kernel) later.
    ///
    /// # Errors
    ///
    /// [`StreamCaptureInvalidated`](CudaError::StreamCaptureInvalidated) if the capture is broken.
    #[doc(alias("cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v2", "cuStreamGetCaptureInfo_v3"))]
    #[inline]
    pub fn dependencies(&self) -> CudaResult<Vec<(Node, EdgeData)>> {
        let info = self.inner().with(Driver::stream_get_capture_info)?;
        active(info.status)?;
        let mut nodes = self.nodes.borrow_mut();
        Ok(info.after.into_iter().map(|(raw, edge)| (nodes.key(raw), EdgeData::of(edge))).collect())
    }

    /// Changes what the stream's next work will depend on: adds these nodes of the graph, or sets them instead.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](CudaError::InvalidHandle) for a node of another graph;
    /// [`StreamCaptureInvalidated`](CudaError::StreamCaptureInvalidated) if the capture is broken.
    #[doc(alias("cuStreamUpdateCaptureDependencies", "cuStreamUpdateCaptureDependencies_v2"))]
    #[inline]
    pub fn update_dependencies(&self, how: Dependencies, nodes: &[(Node, EdgeData)]) -> CudaResult<()> {
        let after = self.nodes.borrow().find_after(nodes)?;
        self.inner()
            .with(|driver, stream| driver.stream_update_capture_dependencies(stream, &after, how as u32))
    }

    /// Calls `f` with the graph that the stream captures into.
    #[inline]
    pub(super) fn with_graph<R>(
        &self,
        f: impl FnOnce(&Driver, Held<'_, CUstream>, Held<'_, CUgraph>) -> CudaResult<R>,
    ) -> CudaResult<R> {
        with_graph(self.stream, f)
    }
}

/// Calls `f` with the graph that the stream, whose capture is known, captures into.
#[inline]
pub(super) fn with_graph<R>(
    stream: &Stream,
    f: impl FnOnce(&Driver, Held<'_, CUstream>, Held<'_, CUgraph>) -> CudaResult<R>,
) -> CudaResult<R> {
    stream.inner().with(|driver, stream| {
        let info = driver.stream_get_capture_info(stream)?;
        active(info.status)?;
        // SAFETY: the graph exists as long as the capture is in progress, which is not ended during the call.
        f(driver, stream, unsafe { Held::new(info.graph) })
    })
}

#[inline]
pub(super) fn active(status: u32) -> CudaResult<()> {
    match status {
        1 => Ok(()),
        0 => Err(CudaError::IllegalState.note(format_args!("to use a capture that other code has ended"))),
        _ => Err(CudaError::StreamCaptureInvalidated.note(format_args!("to use a capture that is broken"))),
    }
}

/// An event without timing in this context.
#[inline]
fn mark(context: &UnownedContext) -> CudaResult<Event> {
    Event::in_context(context, EventFlags::DISABLE_TIMING)
}

/// A stream that was forked from another, and is joined on drop at the latest.
struct Joining<'a> {
    origin: &'a Stream,
    fork: &'a Stream,
    joins: Event,
    joined: bool,
}

impl Joining<'_> {
    #[inline]
    fn join(&mut self) -> CudaResult<()> {
        self.joined = true;
        twice(|| self.joins.record(self.fork))?;
        twice(|| self.origin.wait_event(&self.joins, StreamWaitEventFlags::DEFAULT))
    }
}

impl Drop for Joining<'_> {
    /// After a panic.
    #[inline]
    fn drop(&mut self) {
        if !self.joined {
            let _note = keep_note();
            let _ = self.join();
        }
    }
}
