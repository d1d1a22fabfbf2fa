//! Captures: graphs made from the work of streams.

// Beginning and ending a capture by hand is unsafe.
#![allow(unsafe_code)]

mod by_hand;
mod memory;
mod running;
mod within;

use super::node::Nodes;
use super::{EdgeData, Graph, GraphExec, InstantiateFlags, Node};
use crate::context::captures;
use crate::driver::{Driver, driver};
use crate::error::{CudaError, CudaResult, DropResult, keep_note};
use crate::stream::{CaptureMode, Stream};
pub use memory::CapturedMemory;
use running::{Begun, Ended, Lent, Running, discard, end};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::Location;

/// How [`Capture::update_dependencies`] treats the existing dependencies of the stream's next work.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dependencies {
    /// The given nodes are added to them.
    Add = 0,
    /// The given nodes replace them.
    Set = 1,
}

/// A stream that is capturing, within [`Stream::capture`]. It derefs to [`Stream`]; calls that cannot be captured are
/// refused.
///
/// It cannot leave the thread.
#[derive(Debug)]
pub struct Capture<'a> {
    stream: &'a Stream,
    nodes: &'a RefCell<Box<Nodes>>,
    not_send: PhantomData<*const ()>,
}

/// Work that can be recorded in a capture; every closure that takes a [`Capture`] is.
pub trait Recordable {
    /// Submits the work to the stream.
    ///
    /// # Errors
    ///
    /// Those of the work.
    fn record(self, capture: &Capture<'_>) -> CudaResult<()>;
}

impl<F: FnOnce(&Capture<'_>) -> CudaResult<()>> Recordable for F {
    #[inline]
    fn record(self, capture: &Capture<'_>) -> CudaResult<()> {
        self(capture)
    }
}

impl Deref for Capture<'_> {
    type Target = Stream;

    #[inline]
    fn deref(&self) -> &Stream {
        self.stream
    }
}

impl Stream {
    /// Captures what the closure submits to the stream: none of it runs, and it becomes a graph.
    ///
    /// The capture ends before this returns, even after an error or a panic. While it is in progress, calls that cannot
    /// be part of a graph are forbidden, to the threads that the mode says ([`CaptureMode`]); custack refuses such a
    /// call, so that it does not break the capture. What is dropped meanwhile is destroyed as usual;
    /// memory in the order of a stream that captures waits for the work from before the capture.
    ///
    /// The work of another stream is captured if that stream [waits](Self::wait_event) for an event of this one; this
    /// one must wait for the other before the end. [`Capture::fork`] does both.
    ///
    /// What the closure submits by `unsafe` calls (launches, copies) runs at every launch of anything made from the
    /// graph, and the requirements of those calls apply to each of these launches. [`Capture::keep`] helps. A kernel's
    /// module must stay loaded as long as the graph, or anything made from it, exists.
    ///
    /// # Errors
    ///
    /// The closure's; [`StreamCaptureInvalidated`](CudaError::StreamCaptureInvalidated) if something broke the capture,
    /// with a note of what; [`StreamCaptureUnjoined`](CudaError::StreamCaptureUnjoined) if another stream was not
    /// joined; [`IllegalState`](CudaError::IllegalState) for a stream that is capturing already;
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed), also if the context's owner was dropped in the closure. A
    /// capture that the driver refuses to end goes on until the stream, or the owner of its context, is dropped.
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
    #[inline]
    pub fn capture(
        &mut self,
        mode: CaptureMode,
        f: impl FnOnce(&Capture<'_>) -> CudaResult<()>,
    ) -> CudaResult<Graph> {
        let (mut running, _) = Running::begin(self, mode, Location::caller(), Begun::InClosure(None))?;
        let nodes = RefCell::new(Nodes::new());
        let result = f(&Capture { stream: running.stream, nodes: &nodes, not_send: PhantomData });
        let _note = result.is_err().then(keep_note);
        let ended = running.end(None);
        match (result, ended) {
            (Ok(()), Ok(Ended { graph, pins, .. })) => {
                let graph = Graph::of(graph, nodes.into_inner(), pins);
                graph.owned.usable().map(|()| graph)
            }
            (Ok(()), Err(error)) => Err(error),
            (Err(error), ended) => {
                ended.into_iter().for_each(discard);
                Err(error)
            }
        }
    }

    /// Like [`capture`](Self::capture), but adds to an existing graph: what the closure submits comes after these nodes
    /// (CUDA 12.3 and later).
    ///
    /// # Errors
    ///
    /// Those of [`capture`](Self::capture); [`InvalidHandle`](CudaError::InvalidHandle) for a node of another graph.
    /// After the closure's own error the graph has what was captured before. If the capture was broken, the driver
    /// destroys the graph, and every call with it returns [`InvalidHandle`](CudaError::InvalidHandle).
    #[doc(alias = "cuStreamBeginCaptureToGraph")]
    #[track_caller]
    #[inline]
    pub fn capture_into(
        &mut self,
        graph: &mut Graph,
        after: &[(Node, EdgeData)],
        mode: CaptureMode,
        f: impl FnOnce(&Capture<'_>) -> CudaResult<()>,
    ) -> CudaResult<()> {
        let after = graph.nodes.find_after(after)?;
        let before = graph.owned.pins().len();
        graph.owned.pin(self.context())?;
        let begun = Running::begin(self, mode, Location::caller(), Begun::InClosure(Some((graph, &after))));
        let (running, _) = begun.inspect_err(|_| graph.owned.unpin_after(before))?;
        let nodes = std::mem::replace(&mut graph.nodes, Nodes::new());
        let mut lent = Lent { graph, nodes: RefCell::new(nodes), running };
        let stream = lent.running.stream;
        let result = f(&Capture { stream, nodes: &lent.nodes, not_send: PhantomData });
        let _note = result.is_err().then(keep_note);
        let ended = lent.end();
        result.and(ended)
    }

    /// Like [`capture`](Self::capture), and instantiates the graph.
    ///
    /// # Errors
    ///
    /// Those of [`capture`](Self::capture) and of [`Graph::instantiate`].
    #[track_caller]
    #[inline]
    pub fn capture_executable(
        &mut self,
        mode: CaptureMode,
        flags: InstantiateFlags,
        f: impl FnOnce(&Capture<'_>) -> CudaResult<()>,
    ) -> CudaResult<GraphExec> {
        self.capture(mode, f)?.instantiate(flags)
    }

    /// Like [`capture_executable`](Self::capture_executable), and [uploads](GraphExec::upload) the executable in this stream
    /// (CUDA 12.0 and later).
    ///
    /// # Errors
    ///
    /// Those of [`capture`](Self::capture) and of [`Graph::instantiate_and_upload`].
    ///
    /// ```
    /// use custack::graph::InstantiateFlags;
    /// use custack::stream::{CaptureMode, Stream, StreamFlags};
    ///
    /// let _context = custack::quick_init()?;
    /// let mut stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    /// let mut executable = stream.capture_executable_and_upload(
    ///     CaptureMode::ThreadLocal,
    ///     InstantiateFlags::empty(),
    ///     |capture| capture.launch_host_func(|| println!("launched")),
    /// )?;
    /// executable.launch(&stream)?; // the first launch finds the graph on the device
    /// stream.synchronize()?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuGraphInstantiateWithParams")]
    #[track_caller]
    #[inline]
    pub fn capture_executable_and_upload(
        &mut self,
        mode: CaptureMode,
        flags: InstantiateFlags,
        f: impl FnOnce(&Capture<'_>) -> CudaResult<()>,
    ) -> CudaResult<GraphExec> {
        self.capture(mode, f)?.instantiate_and_upload(flags, self)
    }

    /// Begins a capture that [`end_capture`](Self::end_capture) ends: for code that does not fit into a closure.
    ///
    /// What a [`Capture`] offers beyond a stream is here: [`capture_status`](Self::capture_status),
    /// [`capture_id`](Self::capture_id), [`capture_dependencies`](Self::capture_dependencies) and
    /// [`update_capture_dependencies`](Self::update_capture_dependencies); [`keep_in_capture`](Self::keep_in_capture);
    /// [`fork`](Self::fork) and [`join`](Self::join); and [`begin_capture_into`](Self::begin_capture_into) for an existing
    /// graph. Functions to call at every launch, events for what is outside, and memory that the graph allocates have only
    /// the closure's form, because that borrows what they use until the capture has ended.
    ///
    /// It ends with this value at the latest: if the stream, or the owner of its context, is dropped first, the capture is
    /// lost, which is reported. A [`BorrowedStream`](crate::stream::BorrowedStream) or a
    /// [`PerThreadStream`](crate::stream::PerThreadStream) is such a value too, whoever has the stream: its capture is lost
    /// with the value and its clones that it was begun in, because nothing else knows how long the stream lives.
    ///
    /// # Errors
    ///
    /// Those of [`capture`](Self::capture).
    ///
    /// # Safety
    ///
    /// All users of the stream know that it is capturing: their work does not run now, but at every launch of the
    /// graph.
    #[doc(alias("cuStreamBeginCapture", "cuStreamBeginCapture_v2"))]
    #[track_caller]
    #[inline]
    pub unsafe fn begin_capture(&self, mode: CaptureMode) -> CudaResult<()> {
        let lost = Cell::new(false);
        let begun = Running::begin(self, mode, Location::caller(), Begun::ByHand(None, &lost));
        let (running, _beginning) = begun?;
        drop(captures::has_begun(running.number, Vec::new()));
        std::mem::forget(running);
        Ok(())
    }

    /// Like [`begin_capture`](Self::begin_capture), but adds to an existing graph: what is submitted comes after these nodes
    /// (CUDA 12.3 and later). The graph is the capture's, until [`end_capture`](Self::end_capture) returns it, with the keys
    /// that its nodes have; if the capture is broken or lost, the driver destroys it.
    ///
    /// # Errors
    ///
    /// Those of [`begin_capture`](Self::begin_capture), with the graph as it was; [`InvalidHandle`](CudaError::InvalidHandle)
    /// for a node of another graph.
    ///
    /// # Safety
    ///
    /// That of [`begin_capture`](Self::begin_capture).
    ///
    /// ```
    /// use custack::graph::{EdgeData, Graph};
    /// use custack::memory::{AsyncCopyDestination, DeviceBuffer};
    /// use custack::stream::{CaptureMode, Stream, StreamFlags};
    ///
    /// let context = custack::quick_init()?;
    /// let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    /// let mut buffer = DeviceBuffer::from_slice(&[0u32; 4])?;
    /// let mut graph = Graph::new(&context)?;
    /// let first = graph.add_host_func(&[], || println!("first"))?;
    /// // SAFETY: all users of the stream and of the buffer are in this example, and the graph is not launched.
    /// let mut graph = unsafe {
    ///     let after = [(first, EdgeData::default())];
    ///     stream.begin_capture_into(graph, &after, CaptureMode::ThreadLocal).map_err(|(error, _)| error)?;
    ///     buffer.async_fill(7, &stream)?;
    ///     stream.end_capture()?
    /// };
    /// assert_eq!((graph.nodes()?.len(), graph.root_nodes()?), (2, vec![first]));
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuStreamBeginCaptureToGraph")]
    #[track_caller]
    #[inline]
    pub unsafe fn begin_capture_into(
        &self,
        mut graph: Graph,
        after: &[(Node, EdgeData)],
        mode: CaptureMode,
    ) -> DropResult<Graph> {
        let (since, lost) = (Location::caller(), Cell::new(false));
        let begun = graph.nodes.find_after(after).and_then(|after| {
            let how = Begun::ByHand(Some((&graph, &after)), &lost);
            let (running, beginning) = Running::begin(self, mode, since, how)?;
            let number = running.number;
            std::mem::forget(running);
            Ok((beginning, number))
        });
        match begun {
            // Until then no other thread ends it.
            Ok((beginning, number)) => {
                let lost = by_hand::give(number, graph);
                drop((beginning, lost));
                Ok(())
            }
            Err(error) => {
                if lost.get() {
                    graph.owned.spend();
                }
                Err((error, graph))
            }
        }
    }

    /// Ends the capture that began in this stream, and returns the graph. A capture that is not relaxed must be ended
    /// on the thread that began it, or it is lost.
    ///
    /// # Errors
    ///
    /// [`IllegalState`](CudaError::IllegalState) if the stream is not capturing, and within the closure of
    /// [`capture`](Self::capture) and the others, which ends its own capture;
    /// [`StreamCaptureUnmatched`](CudaError::StreamCaptureUnmatched) if the capture began in another stream;
    /// [`StreamCaptureWrongThread`](CudaError::StreamCaptureWrongThread); those of [`capture`](Self::capture). If the driver
    /// refuses the call and the stream still captures, the capture goes on, and may be ended later.
    ///
    /// # Safety
    ///
    /// What was submitted by `unsafe` calls may run at every launch of anything made from the graph. If other code
    /// began the capture, all its streams are of this stream's context, and it does not capture into a graph that has
    /// an owner.
    #[doc(alias = "cuStreamEndCapture")]
    #[inline]
    pub unsafe fn end_capture(&self) -> CudaResult<Graph> {
        // A call that the driver would not take leaves the capture in the list.
        driver()?;
        let at = self.key();
        let beginning = self.inner().beginning()?;
        let mut ended = match captures::end_in(at) {
            Some(ending) => {
                drop(beginning);
                end(self, ending, false, None)?
            }
            None => {
                if let Some(which) = captures::of_closure(at) {
                    return Err(CudaError::IllegalState
                        .note(format_args!("to end by hand a capture that ends with its closure: {which}")));
                }
                if let Some(which) = captures::of_stream(at) {
                    return Err(CudaError::StreamCaptureUnmatched
                        .note(format_args!("to end a capture in a stream that has joined it: {which}")));
                }
                let pin = self.context().pin()?;
                let graph = self.inner().with(Driver::end_capture);
                // Before the pin, because dropping that may destroy the context.
                drop(beginning);
                Ended { graph: graph?, pins: vec![pin], known: None }
            }
        };
        let (nodes, context) = ended.known.map_or_else(|| (Nodes::new(), None), |it| (it.nodes, it.context));
        // The context of a graph comes first: the program's own has kept its.
        if let Some(at) = ended.pins.iter().position(|pin| Some(pin.context()) == context.as_ref()) {
            ended.pins.swap(0, at);
        }
        let graph = Graph::of(ended.graph, nodes, ended.pins);
        graph.owned.usable().map(|()| graph)
    }
}
