//! The calls that begin and end captures, and that ask about them.

// Calls through C function pointers, and reads the arrays that the driver returns.
#![allow(unsafe_code)]

use crate::driver::calls::{ask, made};
use crate::driver::ffi::*;
use crate::driver::{Driver, Held};
use crate::error::{CudaError, CudaResult};
use std::ptr;

impl Driver {
    pub(crate) fn stream_begin_capture(&self, stream: Held<'_, CUstream>, mode: u32) -> CudaResult<()> {
        let begun = ask!(self.cuStreamBeginCapture_v2(stream.raw(), mode));
        begun.inspect_err(|error| self.undo_begin(stream, *error, true))
    }

    /// After a beginning that failed: ends what began all the same. A stream that is in a capture already answers 401,
    /// and that capture is somebody's.
    fn undo_begin(&self, stream: Held<'_, CUstream>, error: CudaError, discard: bool) {
        if error == CudaError::IllegalState || !matches!(self.stream_is_capturing(stream), Ok(1..)) {
            return;
        }
        let ended = match discard {
            true => self.end_capture(stream).and_then(|graph| self.discard_graph(graph)),
            false => self.end_capture_into(stream),
        };
        let _ = ended;
    }

    /// Begins a capture into the graph, behind nodes of it, which the caller has looked up.
    pub(crate) fn stream_begin_capture_to_graph(
        &self,
        stream: Held<'_, CUstream>,
        graph: Held<'_, CUgraph>,
        after: &[(CUgraphNode, CUgraphEdgeData)],
        mode: u32,
    ) -> CudaResult<()> {
        let (nodes, edges): (Vec<_>, Vec<_>) = after.iter().copied().unzip();
        let (held, stream, graph) = (stream, stream.raw(), graph.raw());
        let (nodes, edges, count) = (nodes.as_ptr(), edges.as_ptr(), after.len());
        let begun = ask!(self.cuStreamBeginCaptureToGraph(stream, graph, nodes, edges, count, mode));
        begun.inspect_err(|error| self.undo_begin(held, *error, false))
    }

    /// Ends the capture, and returns the graph.
    ///
    /// A stream whose capture is not ended is of no use any more, so an ending that failed is tried once more if the
    /// stream is capturing yet. A driver that fails after it has ended the capture has written the graph, which is
    /// destroyed then.
    pub(crate) fn end_capture(&self, stream: Held<'_, CUstream>) -> CudaResult<CUgraph> {
        let end = || {
            let mut graph = ptr::null_mut();
            let asked = ask!(self.cuStreamEndCapture(stream.raw(), &mut graph));
            made!(self, asked, graph, graph_destroy)
        };
        end().or_else(|error| match self.stream_is_capturing(stream) {
            Ok(0) | Err(_) => Err(error),
            Ok(_) => end(),
        })
    }

    /// Like [`end_capture`](Self::end_capture), of a capture into a graph that somebody owns.
    pub(crate) fn end_capture_into(&self, stream: Held<'_, CUstream>) -> CudaResult<()> {
        let mut graph = ptr::null_mut();
        let mut end = || ask!(self.cuStreamEndCapture(stream.raw(), &mut graph));
        end().or_else(|error| match self.stream_is_capturing(stream) {
            Ok(0) | Err(_) => Err(error),
            Ok(_) => end(),
        })
    }

    /// Destroys a graph that a capture has just returned.
    pub(crate) fn discard_graph(&self, graph: CUgraph) -> CudaResult<()> {
        // SAFETY: the caller has it from the driver, and nobody else.
        self.graph_destroy(unsafe { Held::new(graph) })
    }

    /// What the driver tells of the stream's capture; of one that captures nothing the status alone.
    pub(crate) fn stream_get_capture_info(&self, stream: Held<'_, CUstream>) -> CudaResult<CaptureInfo> {
        let (mut status, mut id, mut graph) = (0, 0, ptr::null_mut());
        let (mut nodes, mut edges, mut count) = (ptr::null(), ptr::null(), 0);
        let stream = stream.raw();
        let newest = ask!(self.cuStreamGetCaptureInfo_v3(
            stream,
            &mut status,
            &mut id,
            &mut graph,
            &mut nodes,
            &mut edges,
            &mut count
        ));
        match newest {
            Err(CudaError::CallRequiresNewerDriver) => ask!(self.cuStreamGetCaptureInfo_v2(
                stream,
                &mut status,
                &mut id,
                &mut graph,
                &mut nodes,
                &mut count
            ))?,
            other => other?,
        }
        const ACTIVE: u32 = 1;
        if status != ACTIVE {
            return Ok(CaptureInfo { status, id: 0, graph: ptr::null_mut(), after: Vec::new() });
        }
        let full = CUgraphEdgeData { from_port: 0, to_port: 0, kind: 0, reserved: [0; 5] };
        let count = if nodes.is_null() { 0 } else { count };
        let at = |index: usize| {
            // SAFETY: the driver wrote where so many nodes are, and as many edges or null; they are good until the next
            // call on the stream, which the caller makes.
            unsafe { (*nodes.add(index), if edges.is_null() { full } else { *edges.add(index) }) }
        };
        Ok(CaptureInfo { status, id, graph, after: (0..count).map(at).collect() })
    }

    /// Makes the stream's next work come after these nodes, of the graph that it captures into: 0 besides those that it
    /// comes after now, 1 instead of them.
    pub(crate) fn stream_update_capture_dependencies(
        &self,
        stream: Held<'_, CUstream>,
        after: &[(CUgraphNode, CUgraphEdgeData)],
        flags: u32,
    ) -> CudaResult<()> {
        let (mut nodes, edges): (Vec<_>, Vec<_>) = after.iter().copied().unzip();
        let (stream, count) = (stream.raw(), nodes.len());
        if edges.iter().all(|edge| (edge.from_port, edge.to_port, edge.kind) == (0, 0, 0)) {
            return ask!(self.cuStreamUpdateCaptureDependencies(stream, nodes.as_mut_ptr(), count, flags));
        }
        ask!(self.cuStreamUpdateCaptureDependencies_v2(
            stream,
            nodes.as_mut_ptr(),
            edges.as_ptr(),
            count,
            flags
        ))
    }
}

/// The driver's information on a stream's capture.
pub(crate) struct CaptureInfo {
    /// 0 none, 1 active, 2 invalidated.
    pub(crate) status: u32,
    pub(crate) id: u64,
    pub(crate) graph: CUgraph,
    /// What the stream's next work will come after.
    pub(crate) after: Vec<(CUgraphNode, CUgraphEdgeData)>,
}
