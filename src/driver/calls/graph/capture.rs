//! The calls that begin and end captures, and that ask about them.

// Calls through C function pointers, and reads the arrays that the driver returns.
#![allow(unsafe_code)]

use crate::driver::calls::{ask, made};
use crate::driver::ffi::*;
use crate::driver::{Driver, Held};
use crate::error::{CudaError, CudaResult, keep_note};
use std::ptr;

/// The status of a stream that is capturing.
const ACTIVE: u32 = 1;

impl Driver {
    pub(crate) fn stream_begin_capture(&self, stream: Held<'_, CUstream>, mode: u32) -> CudaResult<()> {
        let begun = ask!(self.cuStreamBeginCapture_v2(stream.raw(), mode));
        begun.inspect_err(|error| self.undo_begin(stream, *error, None))
    }

    /// After a beginning that failed: ends what began all the same, in this graph or in one of its own. A stream that is in a
    /// capture already answers 401, and that capture is somebody's.
    fn undo_begin(&self, stream: Held<'_, CUstream>, error: CudaError, into: Option<CUgraph>) {
        if error == CudaError::IllegalState {
            return;
        }
        let _note = keep_note();
        let Ok(Told { status: ACTIVE, graph, count, .. }) = self.capture_info(stream) else { return };
        // Other code may have begun one in the same moment. If it has captured nothing yet, it cannot be told from this one.
        let _ = match into {
            Some(own) if own == graph => self.end_capture_into(stream),
            None if count == 0 => self.end_capture(stream).and_then(|graph| self.discard_graph(graph)),
            _ => return,
        };
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
        begun.inspect_err(|error| self.undo_begin(held, *error, Some(graph)))
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
        end().or_else(|error| match self.still_captures(stream) {
            Ok(0) | Err(_) => Err(error),
            Ok(_) => end(),
        })
    }

    /// Like [`end_capture`](Self::end_capture), of a capture into a graph that somebody owns.
    pub(crate) fn end_capture_into(&self, stream: Held<'_, CUstream>) -> CudaResult<()> {
        let mut graph = ptr::null_mut();
        let mut end = || ask!(self.cuStreamEndCapture(stream.raw(), &mut graph));
        end().or_else(|error| match self.still_captures(stream) {
            Ok(0) | Err(_) => Err(error),
            Ok(_) => end(),
        })
    }

    /// Asks after an error whose note stays.
    fn still_captures(&self, stream: Held<'_, CUstream>) -> CudaResult<u32> {
        let _note = keep_note();
        self.stream_is_capturing(stream)
    }

    /// Destroys a graph that a capture has just returned.
    pub(crate) fn discard_graph(&self, graph: CUgraph) -> CudaResult<()> {
        // SAFETY: the driver has just given it to the caller, and to no one else.
        self.graph_destroy(unsafe { Held::new(graph) })
    }

    /// What the driver tells of the stream's capture; of one that captures nothing the status alone.
    pub(crate) fn stream_get_capture_info(&self, stream: Held<'_, CUstream>) -> CudaResult<CaptureInfo> {
        let Told { status, id, graph, nodes, edges, count } = self.capture_info(stream)?;
        if status != ACTIVE {
            return Ok(CaptureInfo { status, id: 0, graph: ptr::null_mut(), after: Vec::new() });
        }
        let full = CUgraphEdgeData { from_port: 0, to_port: 0, kind: 0, reserved: [0; 5] };
        let count = if nodes.is_null() { 0 } else { count };
        let at = |index: usize| {
            // SAFETY: the driver wrote the address of `count` nodes, and that of as many edges or null; both are valid
            // until the next call on the stream, which the caller makes.
            unsafe { (*nodes.add(index), if edges.is_null() { full } else { *edges.add(index) }) }
        };
        Ok(CaptureInfo { status, id, graph, after: (0..count).map(at).collect() })
    }

    fn capture_info(&self, stream: Held<'_, CUstream>) -> CudaResult<Told> {
        let mut told = Told {
            status: 0,
            id: 0,
            graph: ptr::null_mut(),
            nodes: ptr::null(),
            edges: ptr::null(),
            count: 0,
        };
        let Told { status, id, graph, nodes, edges, count } = &mut told;
        let stream = stream.raw();
        let newest = ask!(self.cuStreamGetCaptureInfo_v3(stream, status, id, graph, nodes, edges, count));
        match newest {
            Err(CudaError::CallRequiresNewerDriver) => {
                ask!(self.cuStreamGetCaptureInfo_v2(stream, status, id, graph, nodes, count))?;
            }
            other => other?,
        }
        Ok(told)
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

/// What the driver writes about a stream's capture.
struct Told {
    status: u32,
    id: u64,
    graph: CUgraph,
    /// What the stream's next work will come after, until the next call on the stream.
    nodes: *const CUgraphNode,
    edges: *const CUgraphEdgeData,
    count: usize,
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
