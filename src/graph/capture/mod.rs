//! Captures: graphs made of what streams are given.

// Ending by hand is unsafe.
#![allow(unsafe_code)]

mod running;
mod within;

use super::node::Nodes;
use super::{EdgeData, Graph, GraphExec, InstantiateFlags, Node};
use crate::context::captures;
use crate::driver::Driver;
use crate::error::{CudaError, CudaResult};
use crate::stream::{CaptureMode, Stream};
use running::{Ended, Lent, Running, discard, end};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::Location;

/// How [`Capture::update_dependencies`] treats what the stream's next work comes after already.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dependencies {
    /// It comes after that too.
    Add = 0,
    /// It comes after that no more.
    Set = 1,
}

/// A stream that captures, within [`Stream::capture`]. It is used as the [`Stream`] that it derefs to; what cannot be
/// captured is refused.
///
/// It is of the thread that captures.
#[derive(Debug)]
pub struct Capture<'a> {
    stream: &'a Stream,
    nodes: &'a RefCell<Box<Nodes>>,
    not_send: PhantomData<*const ()>,
}

/// What can be given to a stream that captures, and so to a graph; every closure that takes a [`Capture`] is.
pub trait Recordable {
    /// Gives it to the stream.
    ///
    /// # Errors
    ///
    /// Those of what it gives.
    fn record(self, capture: &Capture<'_>) -> CudaResult<()>;
}

impl<F: FnOnce(&Capture<'_>) -> CudaResult<()>> Recordable for F {
    fn record(self, capture: &Capture<'_>) -> CudaResult<()> {
        self(capture)
    }
}

impl Deref for Capture<'_> {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        self.stream
    }
}

impl Stream {
    /// Captures what the closure gives to the stream: nothing of it is done, and it becomes a graph.
    ///
    /// The capture is ended before this returns, also after an error or a panic, which then goes on. While it is in progress
    /// calls are forbidden that the graph would lack, to whom the mode says ([`CaptureMode`]); such a call of custack's is
    /// refused and breaks nothing. What is dropped meanwhile is destroyed at once as ever.
    ///
    /// Work of other streams is captured if they [wait](Self::wait_event) for an event that was recorded in this one, and
    /// this one for them before the end; [`Capture::fork`] does both.
    ///
    /// What the closure gives to the stream by `unsafe` calls (launches, copies) runs at every launch of all that is made
    /// from the graph, and what those calls ask to be promised is asked for each of these. [`Capture::keep`] helps. A
    /// kernel's module must be loaded as long as the graph and what is made from it are there.
    ///
    /// # Errors
    ///
    /// The closure's; [`StreamCaptureInvalidated`](CudaError::StreamCaptureInvalidated) if something has broken the capture,
    /// with what it was; [`StreamCaptureUnjoined`](CudaError::StreamCaptureUnjoined) if another stream did not come back;
    /// [`IllegalState`](CudaError::IllegalState) for a stream that captures already;
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed), also if the context's owner was dropped in the closure.
    ///
    /// ```
    /// use custack::error::CudaError;
    /// use custack::stream::{CaptureMode, Stream, StreamFlags};
    ///
    /// let _context = custack::quick_init()?;
    /// let mut stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    /// let mut graph = stream.capture(CaptureMode::Global, |capture| {
    ///     assert_eq!(capture.synchronize(), Err(CudaError::StreamCaptureUnsupported));
    ///     capture.launch_host_func(|| println!("launched"))
    /// })?;
    /// assert_eq!(graph.nodes()?.len(), 1);
    /// # Ok::<(), CudaError>(())
    /// ```
    #[doc(alias("cuStreamBeginCapture", "cuStreamBeginCapture_v2", "cuStreamEndCapture"))]
    #[track_caller]
    pub fn capture(
        &mut self,
        mode: CaptureMode,
        f: impl FnOnce(&Capture<'_>) -> CudaResult<()>,
    ) -> CudaResult<Graph> {
        let mut running = Running::begin(self, mode, Location::caller(), None)?;
        let nodes = RefCell::new(Nodes::new());
        let result = f(&Capture { stream: running.stream, nodes: &nodes, not_send: PhantomData });
        let detail = result.err().and_then(CudaError::detail);
        let ended = running.end();
        match (result, ended) {
            (Ok(()), Ok(Ended { graph, pins })) => {
                let graph = Graph::of(graph, nodes.into_inner(), pins);
                graph.usable().map(|()| graph)
            }
            (Ok(()), Err(error)) => Err(error),
            (Err(error), ended) => {
                ended.into_iter().for_each(discard);
                Err(again(error, detail))
            }
        }
    }

    /// As [`capture`](Self::capture), into a graph that is there already: what the closure gives to the stream comes after
    /// these nodes of it (CUDA 12.3 and later).
    ///
    /// # Errors
    ///
    /// Those of [`capture`](Self::capture); [`InvalidHandle`](CudaError::InvalidHandle) for a node of another graph. After
    /// the closure's own error what was captured before it is in the graph. A capture that was broken takes the graph with
    /// it: the driver destroys it, and every call with it answers [`InvalidHandle`](CudaError::InvalidHandle).
    #[doc(alias = "cuStreamBeginCaptureToGraph")]
    #[track_caller]
    pub fn capture_into(
        &mut self,
        graph: &mut Graph,
        after: &[(Node, EdgeData)],
        mode: CaptureMode,
        f: impl FnOnce(&Capture<'_>) -> CudaResult<()>,
    ) -> CudaResult<()> {
        let after = graph.nodes.find_after(after)?;
        graph.pin(self.context())?;
        let running = Running::begin(self, mode, Location::caller(), Some((graph, &after)))?;
        let nodes = std::mem::replace(&mut graph.nodes, Nodes::new());
        let mut lent = Lent { graph, nodes: RefCell::new(nodes), running };
        let stream = lent.running.stream;
        let result = f(&Capture { stream, nodes: &lent.nodes, not_send: PhantomData });
        let detail = result.err().and_then(CudaError::detail);
        let ended = lent.end();
        match result {
            Ok(()) => ended,
            Err(error) => Err(again(error, detail)),
        }
    }

    /// As [`capture`](Self::capture), and makes the graph executable.
    ///
    /// # Errors
    ///
    /// Those of [`capture`](Self::capture) and of [`Graph::instantiate`].
    #[track_caller]
    pub fn capture_executable(
        &mut self,
        mode: CaptureMode,
        flags: InstantiateFlags,
        f: impl FnOnce(&Capture<'_>) -> CudaResult<()>,
    ) -> CudaResult<GraphExec> {
        self.capture(mode, f)?.instantiate(flags)
    }

    /// Begins a capture that [`end_capture`](Self::end_capture) ends: for code that cannot be put into a closure.
    ///
    /// A capture that is not ended is lost when the stream is dropped, which is reported.
    ///
    /// # Errors
    ///
    /// Those of [`capture`](Self::capture).
    ///
    /// # Safety
    ///
    /// Whoever else has the stream knows that it captures: what they give to it is not done, and is done again at every
    /// launch of the graph.
    #[doc(alias("cuStreamBeginCapture", "cuStreamBeginCapture_v2"))]
    #[track_caller]
    pub unsafe fn begin_capture(&self, mode: CaptureMode) -> CudaResult<()> {
        Running::begin(self, mode, Location::caller(), None).map(std::mem::forget)
    }

    /// Ends the capture that began in this stream, by whatever code, and gives the graph. One that is not relaxed is ended
    /// on the thread that began it, and lost if it is ended on another.
    ///
    /// # Errors
    ///
    /// [`IllegalState`](CudaError::IllegalState) if the stream does not capture;
    /// [`StreamCaptureUnmatched`](CudaError::StreamCaptureUnmatched) if the capture began in another;
    /// [`StreamCaptureWrongThread`](CudaError::StreamCaptureWrongThread); those of [`capture`](Self::capture).
    ///
    /// # Safety
    ///
    /// What the stream was given by `unsafe` calls may run as often as somebody launches what is made from the graph. A
    /// capture that other code began is of streams of this one's context, and into no graph that somebody owns.
    #[doc(alias = "cuStreamEndCapture")]
    pub unsafe fn end_capture(&self) -> CudaResult<Graph> {
        let at = self.key();
        let ended = match captures::ended_in(at) {
            Some(over) => end(self, over, false)?,
            None => {
                if let Some(which) = captures::of_stream(at) {
                    return Err(CudaError::StreamCaptureUnmatched
                        .note(format_args!("to end a capture in a stream that has joined it: {which}")));
                }
                let (graph, pin) = self.inner().with_pin(Driver::end_capture)?;
                Ended { graph, pins: vec![pin] }
            }
        };
        let graph = Graph::of(ended.graph, Nodes::new(), ended.pins);
        graph.usable().map(|()| graph)
    }
}

/// The error once more, with what was said of it.
fn again(error: CudaError, detail: Option<String>) -> CudaError {
    match detail {
        Some(detail) => error.note(format_args!("{detail}")),
        None => error,
    }
}
