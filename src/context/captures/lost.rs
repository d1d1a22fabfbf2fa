//! Captures that were begun by hand and are lost: the stream is dropped, or the owner of its context.
//!
//! Such a capture can no longer be ended by the program, and a `Global` one would forbid calls to all threads for ever. So
//! it is ended here, its graph is destroyed, and that is reported.

use super::{Ending, InProgress, any, end, list, remove};
use crate::context::destroy::Pin;
use crate::context::relaxed::relax;
use crate::context::resource::must_retire;
use crate::driver::{driver, is_child};
use crate::error::{CudaError, CudaResult, keep_note};
use crate::liveness::retire;
use crate::report;
use std::sync::Arc;

/// A stream in which a capture was begun by hand. The pins are of the stream's context.
pub(crate) trait ByHand: Send + Sync {
    /// Has the driver end the capture and destroy its graph.
    fn end_capture(&self, pin: &Pin) -> CudaResult<()>;

    /// After the driver has refused that: whether the stream still captures.
    fn still_captures(&self, pin: &Pin) -> bool;
}

/// Has the driver end a capture and destroy its graph; the pin is of the context of its stream.
type EndCapture<'a> = &'a dyn Fn(&Pin) -> CudaResult<()>;

/// Whether a capture of this process is in progress: in the child of a fork they are the parent's.
#[inline]
fn is_any_here() -> bool {
    any() && !is_child()
}

/// The owner of the stream with this key is dropped.
#[inline]
pub(crate) fn lose_in(stream: usize) {
    if is_any_here() {
        lose("a stream is dropped", move |capture| capture.which.stream == stream);
    }
}

/// The owner of the context with this number is dropped.
#[inline]
pub(crate) fn lose_of_context(context: u64) {
    if is_any_here() {
        lose("a context is dropped", move |capture| capture.which.context == context);
    }
}

#[cold]
fn lose(why: &'static str, is_it: impl Fn(&InProgress) -> bool + Send + 'static) {
    if must_retire() { retire(move || lose_now(why, is_it)) } else { lose_now(why, is_it) }
}

fn lose_now(why: &str, is_it: impl Fn(&InProgress) -> bool) {
    for (number, by) in all(is_it) {
        if let Some(ending) = end(number) {
            lost(why, ending, &|pin| by.end_capture(pin), Some(&by));
        }
    }
}

/// The captures that are to be ended, and the streams that they began in, which are kept meanwhile. One whose stream is
/// being destroyed is ended there. One that another thread is ending is lost by that thread if the driver refuses to end it
/// and the owner of its context is gone.
fn all(is_it: impl Fn(&InProgress) -> bool) -> Vec<(u64, Arc<dyn ByHand>)> {
    let captures = list();
    let all = captures.iter().filter(|capture| capture.ended_by.is_none() && is_it(capture));
    all.filter_map(|capture| Some((capture.number, capture.by_hand.as_ref()?.upgrade()?))).collect()
}

/// The value of a stream of another owner, in which a capture may have been begun by hand, is dropped: nothing can vouch for
/// the stream from here on. `by` is the address of the value.
#[inline]
pub(crate) fn lose_of_value(by: usize, end_capture: EndCapture<'_>) {
    if is_any_here() {
        lose_of_known_value(by, end_capture);
    }
}

#[cold]
fn lose_of_known_value(by: usize, end_capture: EndCapture<'_>) {
    let began = |capture: &&InProgress| {
        capture.by_hand.is_some() && capture.streams.first().is_some_and(|member| member.by == by)
    };
    let number = list().iter().find(began).map(|capture| capture.number);
    if let Some(ending) = number.and_then(end) {
        // The driver cannot be called here, nor on another thread later.
        let refused = |_: &Pin| Err(CudaError::NotPermitted);
        lost("a stream is dropped", ending, if must_retire() { &refused } else { end_capture }, None);
    }
}

/// The capture that was begun by hand in the stream with this key is other code's from here on.
pub(crate) fn give_away(stream: usize) {
    if !is_any_here() {
        return;
    }
    let own = |capture: &&InProgress| capture.which.stream == stream && capture.by_hand.is_some();
    let number = list().iter().find(own).map(|capture| capture.number);
    // The pins are dropped without the lock.
    drop(number.map(remove));
}

/// Without a stream, or if that does not capture any more, the capture is over afterwards. One that the driver does not end
/// is left to what destroys the stream.
fn lost(why: &str, ending: Ending, end_capture: EndCapture<'_>, stream: Option<&Arc<dyn ByHand>>) {
    let _note = keep_note();
    let (which, ended) = (ending.which, ended(&ending, end_capture));
    let goes_on = |stream: &&Arc<dyn ByHand>| {
        ended.is_err() && ending.pins.first().is_some_and(|pin| stream.still_captures(pin))
    };
    // Both before the report, in which a subscriber may wait for what uses the capture's streams.
    let _pins = match stream.filter(goes_on) {
        Some(stream) => {
            ending.goes_on(Arc::downgrade(stream));
            Vec::new()
        }
        None => ending.into_pins(),
    };
    report::warn(format_args!("{why}, and its capture lost: {which}: {ended:?}"));
}

fn ended(ending: &Ending, end_capture: EndCapture<'_>) -> CudaResult<()> {
    let pin = ending.pins.first().ok_or(CudaError::ContextIsDestroyed)?;
    let _relaxed = relax(driver()?);
    end_capture(pin)
}
