//! Driver calls on what a capture may include: never while the capture is ended.
//!
//! A driver of CUDA 13.0 on an H200 crashes when one thread ends a capture and another begins a call on a stream or an
//! event of it, be it a query, or on the default stream of its context, or waits for the context. Calls at the beginning
//! of a capture and during it do no harm, nor do those that are blocked in the driver since before. So every such call is
//! published on its thread ([`Call`]) before it looks whether a capture is being ended; a thread that ends one says so in
//! the [list of captures](super::captures), then waits for the published calls. No lock is held during a driver call.
//!
//! A launch of a graph uses the events that its nodes record and wait for, and an update compares
//! them. Neither names them. So once any graph has such a node, these calls are published as calls
//! on every capture.
//!
//! Captures of other code are not known here, nor are events that other code gives to graphs.

use super::captures;
use super::handle::UnownedContext;
use super::key::{key_of_legacy_stream, key_of_whole_context};
use crate::error::{CudaError, CudaResult};
use crate::liveness::{
    BREAKS, Call, OF_GRAPH, WAITS, wait_for_calls, wait_for_looks, wait_for_waits, wait_shortly_while,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// One driver call. Until it is dropped, no other thread ends a capture at which the call would crash; unless it takes so
/// long that it must be blocked in the driver.
#[must_use = "it is held during the call"]
pub(crate) struct InCall(#[expect(dead_code, reason = "it is there to be dropped")] Option<Call>);

/// A call without a stream. A null context stands for any.
#[inline]
pub(crate) fn enter_legacy_stream(context: &UnownedContext) -> CudaResult<InCall> {
    enter([key_of_legacy_stream(context.as_raw().addr()), 0])
}

/// A call that concerns the whole context: `how` is [`BREAKS`](crate::liveness::BREAKS), or [`WAITS`] if it waits for that. A null
/// context stands for any.
#[inline]
pub(crate) fn enter_whole_context(context: &UnownedContext, how: usize) -> CudaResult<InCall> {
    enter([key_of_whole_context(context.as_raw().addr()), how])
}

static GRAPHS_USE_EVENTS: AtomicBool = AtomicBool::new(false);

/// A graph may have a node with an event from here on. No other thread has the graph yet.
pub(crate) fn a_graph_uses_an_event() {
    GRAPHS_USE_EVENTS.store(true, Ordering::Relaxed);
}

/// How a call is published that may use the events of a graph.
#[inline]
pub(crate) fn of_graph() -> usize {
    if GRAPHS_USE_EVENTS.load(Ordering::Relaxed) { OF_GRAPH } else { BREAKS }
}

/// A call without a stream that may use the events of a graph.
pub(crate) fn enter_graph() -> CudaResult<InCall> {
    enter([of_graph(), 0])
}

/// Waits until no other thread makes a call in the context's default stream, or until it is blocked in the driver. Calls
/// that begin later find the capture that the caller has listed.
pub(crate) fn wait_for_legacy_stream(context: &UnownedContext) {
    let legacy = [key_of_legacy_stream(context.as_raw().addr()), key_of_legacy_stream(0)];
    let is_such = |keys: [usize; 2]| keys.iter().any(|key| legacy.contains(key));
    wait_for_calls(|keys| is_such(keys) && keys[1] != WAITS);
    wait_for_waits(is_such);
}

/// Like [`wait_for_legacy_stream`], for calls that concern the whole context.
pub(crate) fn wait_for_whole_context(context: &UnownedContext) {
    let whole = [key_of_whole_context(context.as_raw().addr()), key_of_whole_context(0)];
    wait_for_calls(|[key, how]| whole.contains(&key) && how != WAITS);
    wait_for_waits(|[key, _]| whole.contains(&key));
}

/// A call on what has these keys, of which the second may be 0.
#[inline]
pub(super) fn enter(keys: [usize; 2]) -> CudaResult<InCall> {
    if keys[0] == 0 {
        return Ok(InCall(None));
    }
    let call = Call::publish(keys);
    if captures::ending() { enter_later(keys, call) } else { Ok(InCall(call)) }
}

/// A call in a stream whose work must not become part of a graph: until the result is dropped no capture begins in the stream
/// either. Refused if the stream captures; `what` is what was asked.
#[inline(always)]
pub(crate) fn enter_uncaptured(stream: usize, what: &'static str) -> CudaResult<InCall> {
    enter_outside(stream, stream, what)
}

/// A call that would break a capture of the stream: until the result is dropped no capture begins in the stream, unless the call
/// takes so long that it must be blocked in the driver. Refused if the stream captures; `what` is what was asked. `how` is
/// [`BREAKS`], [`WAITS`] or [`OF_GRAPH`]. `legacy` is the context of a legacy stream, in which the
/// call would break captures of blocking streams as well.
#[inline]
pub(crate) fn enter_breaking(
    stream: usize,
    how: usize,
    legacy: Option<&UnownedContext>,
    what: &'static str,
) -> CudaResult<InCall> {
    let refuse = || legacy.map_or(Ok(()), |context| captures::refuse_implicit(context, what));
    refuse()?;
    let call = enter_outside(stream, how, what)?;
    refuse().map(|()| call)
}

#[inline(always)]
fn enter_outside(stream: usize, with: usize, what: &'static str) -> CudaResult<InCall> {
    // Before anything is published, for which a thread that begins or ends the capture would wait.
    captures::refuse_in(stream, what)?;
    let call = Call::publish([stream, with]);
    if captures::any() { enter_unless_captured(stream, with, what, call) } else { Ok(InCall(call)) }
}

#[cold]
fn enter_unless_captured(
    stream: usize,
    with: usize,
    what: &'static str,
    call: Option<Call>,
) -> CudaResult<InCall> {
    captures::refuse_in(stream, what)?;
    if !captures::ending() {
        return Ok(InCall(call));
    }
    let call = enter_later([stream, with], call)?;
    // A capture may have begun while this call was not published.
    captures::refuse_in(stream, what)?;
    Ok(call)
}

#[cold]
fn enter_later(keys: [usize; 2], mut call: Option<Call>) -> CudaResult<InCall> {
    let mut _waiting = None;
    loop {
        let ending = captures::ending_elsewhere(keys);
        if ending.is_empty() {
            return Ok(InCall(call));
        }
        drop(call.take());
        // From now on no further capture begins to be ended, until this call is published.
        _waiting = Some(Waiting::announce());
        if !wait_shortly_while(|| captures::are_ending(&ending)) {
            return Err(CudaError::IllegalState.note(format_args!(
                "to use a stream or an event of a capture that another thread is ending, which does not come to an end"
            )));
        }
        call = Call::publish(keys);
    }
}

static WAITING: AtomicUsize = AtomicUsize::new(0);

/// A call that waits for the end of captures. Meanwhile no more of them begin to be ended, or the call would wait for ever
/// where threads capture one graph after the other.
struct Waiting(());

impl Waiting {
    fn announce() -> Waiting {
        WAITING.fetch_add(1, Ordering::SeqCst);
        Waiting(())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Called before a capture is ended.
pub(super) fn let_waiting_calls_pass() {
    wait_for_looks(|| WAITING.load(Ordering::SeqCst) != 0);
}
