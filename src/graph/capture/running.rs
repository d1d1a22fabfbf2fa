//! Captures in progress, and how they end.

use super::by_hand::{self, Known};
use crate::context::Pin;
use crate::context::captures::{self, ByHand, Forbids, Turn};
use crate::driver::ffi::{CUgraph, CUgraphEdgeData, CUgraphNode, CUstream};
use crate::driver::{Driver, Held, driver, refuse_in_child, take_what_broke};
use crate::error::{CudaError, CudaResult, keep_note};
use crate::graph::Graph;
use crate::graph::node::Nodes;
use crate::graph::owned::Owned;
use crate::report;
use crate::stream::{CaptureMode, Shared, Stream};
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::ptr;
use std::sync::{Arc, Weak};

/// A capture in progress, which is ended on drop at the latest.
pub(super) struct Running<'a> {
    pub(super) stream: &'a Stream,
    pub(super) number: u64,
    /// Whether it captures into a graph of the program.
    into: bool,
    ended: bool,
}

/// The result of a capture: the graph, and the pins of its contexts. The graph is null if the capture went into one of
/// the program.
pub(super) struct Ended {
    pub(super) graph: CUgraph,
    pub(super) pins: Vec<Pin>,
    /// What is known of the graph of a capture by hand.
    pub(super) known: Option<Known>,
}

/// The turn in which a capture begins, and a pin, which is dropped after it, because that may destroy the context.
pub(super) type Beginning = (Turn, Option<Pin>);

/// How a capture is begun.
#[derive(Clone, Copy)]
pub(super) enum Begun<'a> {
    /// It ends with a closure; into a graph of the program, behind these nodes.
    InClosure(Option<Into<'a>>),
    /// As above; and whether the capture is lost before it has begun, so that its graph is destroyed, is written there.
    ByHand(Option<Into<'a>>, &'a Cell<bool>),
}

/// A graph, and the nodes behind which a capture goes on.
pub(super) type Into<'a> = (&'a Graph, &'a [(CUgraphNode, CUgraphEdgeData)]);

impl<'a> Running<'a> {
    /// The turn, too, is returned: until it is dropped, no other thread ends the capture by hand.
    #[inline]
    pub(super) fn begin(
        stream: &'a Stream,
        mode: CaptureMode,
        since: &'static Location<'static>,
        how: Begun<'_>,
    ) -> CudaResult<(Running<'a>, Beginning)> {
        let (into, lost) = match how {
            Begun::InClosure(into) => (into, None),
            Begun::ByHand(into, lost) => (into, Some(lost)),
        };
        let by_hand = lost.map(|_| what_ends(stream));
        refuse_captured(stream)?;
        let (member, pin) = stream.member()?;
        take_what_broke();
        let (is_into, blocking) = (into.is_some(), member.blocking);
        let begin = |driver: &Driver, stream: Held<'_, CUstream>| match into {
            None => driver.stream_begin_capture(stream, mode as u32),
            Some((graph, after)) => {
                graph.with(|_, graph| driver.stream_begin_capture_to_graph(stream, graph, after, mode as u32))
            }
        };
        let beginning = stream.inner().beginning()?;
        // Another thread may have been here first.
        refuse_captured(stream)?;
        // The owner of the context may be dropped meanwhile.
        let kept = lost.and_then(|_| pin.another().ok());
        let number = captures::begins(member, pin, forbids(mode), since, by_hand);
        let begun =
            stream.inner().will_capture(&beginning, blocking).and_then(|()| stream.inner().with(begin));
        if let Err(error) = begun {
            // What the pin keeps goes after the turn.
            drop(beginning);
            drop(captures::remove(number));
            return Err(error);
        }
        if let Some(lost) = lost.filter(|_| !captures::is_listed(number)) {
            drop(beginning);
            lost.set(true);
            // The owner of the context was dropped meanwhile, which has lost the capture, perhaps before it began.
            if let Some(Ok(graph)) =
                kept.and_then(|pin| stream.inner().with_pinned(&pin, Driver::end_capture))
            {
                let _ = driver().and_then(|driver| driver.discard_graph(graph));
            }
            return stream.context().gone();
        }
        stream.inner().keep_green_in_capture();
        Ok((Running { stream, number, into: is_into, ended: false }, (beginning, kept)))
    }

    /// Ends the capture, even if it is broken, or if the owner of its context was dropped meanwhile. One that the driver
    /// would not end is listed afterwards, until it is lost, and the program's graph, if it goes into one, is spent.
    #[inline]
    pub(super) fn end(&mut self, graph: Option<&mut Owned<CUgraph>>) -> CudaResult<Ended> {
        self.ended = true;
        refuse_in_child()?;
        let Some(ending) = captures::end(self.number) else {
            return Err(ended_by_others());
        };
        end(self.stream, ending, self.into, graph)
    }
}

impl Drop for Running<'_> {
    /// After a panic.
    #[inline]
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let _note = keep_note();
        match self.end(None) {
            Ok(ended) => discard(ended),
            Err(error) => {
                report::debug(format_args!("the end of a capture that a panic has left: {error:?}"))
            }
        }
    }
}

#[inline]
pub(super) fn end(
    stream: &Stream,
    mut ending: captures::Ending,
    into: bool,
    graph: Option<&mut Owned<CUgraph>>,
) -> CudaResult<Ended> {
    let (which, number) = (ending.which, ending.number);
    let Some(pin) = ending.pins.first() else {
        drop(ending.into_pins());
        return Err(ended_by_others());
    };
    let call = |driver: &Driver, stream: Held<'_, CUstream>| match into {
        false => driver.end_capture(stream),
        true => driver.end_capture_into(stream).map(|()| ptr::null_mut()),
    };
    let gone = || pin.context().gone();
    let broke = take_what_broke();
    let result = stream.inner().with_pinned(pin, call).unwrap_or_else(gone);
    match result {
        // What is known is taken while the capture is listed, because that of others is forgotten.
        Ok(graph) => {
            let known = by_hand::take(number);
            Ok(Ended { graph, pins: ending.into_pins(), known })
        }
        Err(error) => {
            if stream.inner().still_captures(pin) {
                if let Some(graph) = graph {
                    // It is the capture's from here on, which keeps its contexts, and is destroyed with it.
                    ending.pins.extend(graph.pins().iter().filter_map(|pin| pin.another().ok()));
                    graph.spend();
                }
                ending.goes_on(what_ends(stream));
                if !stream.context().is_alive() {
                    // What dropped the owner has found the capture being ended here.
                    captures::lose_of_context(stream.context().id());
                }
                return Err(error.note_instead(format_args!("to end a capture, which goes on: {which}")));
            }
            drop(by_hand::take(number));
            let pins = ending.into_pins();
            if let Some(graph) = graph {
                // A driver that has ended the capture all the same has made its nodes part of the graph.
                graph.add_pins(pins);
            }
            Err(match (error, broke) {
                (CudaError::StreamCaptureInvalidated, Some((function, status)))
                    if status != CudaError::StreamCaptureInvalidated.code() =>
                {
                    error.note_instead(format_args!(
                        "to end a capture: {which}, and {function} has broken that, which answered {status}"
                    ))
                }
                (CudaError::StreamCaptureInvalidated, _) => error.note_instead(format_args!(
                    "to end a capture: {which}, and another thread or other code has broken that"
                )),
                _ => error.note_instead(format_args!("to end a capture: {which}")),
            })
        }
    }
}

#[cold]
fn ended_by_others() -> CudaError {
    CudaError::StreamCaptureUnmatched.note(format_args!("to end a capture that other code has ended"))
}

/// What ends a capture that is lost.
#[inline]
fn what_ends(stream: &Stream) -> Weak<dyn ByHand> {
    let stream: Weak<Shared> = Arc::downgrade(stream.inner());
    stream
}

/// Destroys the graph of a capture that failed.
#[inline]
pub(super) fn discard(ended: Ended) {
    if !ended.graph.is_null() {
        drop(Graph::of(ended.graph, Nodes::new(), ended.pins));
    }
}

#[inline]
fn forbids(mode: CaptureMode) -> Forbids {
    match mode {
        CaptureMode::Global => Forbids::All,
        CaptureMode::ThreadLocal => Forbids::Own,
        CaptureMode::Relaxed => Forbids::None,
    }
}

/// Refuses to begin a second capture in a stream.
#[inline]
pub(super) fn refuse_captured(stream: &Stream) -> CudaResult<()> {
    if !captures::any() {
        return Ok(());
    }
    match captures::of_stream(stream.key()) {
        Some(which) => Err(CudaError::IllegalState.note(format_args!("to begin a capture: {which}"))),
        None => Ok(()),
    }
}

/// A graph of the program while a stream captures into it.
pub(super) struct Lent<'a, 'g> {
    pub(super) graph: &'g mut Graph,
    pub(super) nodes: RefCell<Box<Nodes>>,
    pub(super) running: Running<'a>,
}

impl Lent<'_, '_> {
    #[inline]
    pub(super) fn end(&mut self) -> CudaResult<()> {
        let result = self.running.end(Some(&mut self.graph.owned));
        // The keys from before are valid again.
        std::mem::swap(&mut self.graph.nodes, self.nodes.get_mut());
        match result {
            Ok(ended) => {
                self.graph.owned.add_pins(ended.pins);
                self.graph.owned.usable()
            }
            Err(error) => {
                // The driver destroys the graph of a broken capture.
                let broken = (900..=908).contains(&error.code()) || error == CudaError::ContextIsDestroyed;
                if broken {
                    self.graph.owned.spend();
                }
                Err(error)
            }
        }
    }
}

impl Drop for Lent<'_, '_> {
    /// After a panic.
    #[inline]
    fn drop(&mut self) {
        if !self.running.ended {
            let _note = keep_note();
            let _ = self.end();
        }
    }
}
