//! The end of a capture: while the driver ends it, other threads make no calls on its streams and events.

use super::{ByHand, InProgress, NUMBERS, Which, list};
use crate::context::destroy::Pin;
use crate::context::in_call::let_waiting_calls_pass;
use crate::context::key::this_thread;
use crate::liveness::wait_for_calls;
use std::mem;
use std::sync::Weak;
use std::sync::atomic::Ordering;

/// Whether any capture is being ended.
#[inline]
pub(crate) fn ending() -> bool {
    NUMBERS.ending.load(Ordering::Relaxed) != 0
}

/// The numbers of the captures with one of these streams and events that other threads are ending.
#[cold]
pub(in crate::context) fn ending_elsewhere(keys: [usize; 2]) -> Vec<u64> {
    let here = this_thread();
    let elsewhere = |capture: &&InProgress| {
        capture.ended_by.is_some_and(|thread| thread != here) && keys.iter().any(|key| capture.has_part(*key))
    };
    list().iter().filter(elsewhere).map(|capture| capture.number).collect()
}

/// Whether one of these captures is still being ended.
pub(in crate::context) fn are_ending(numbers: &[u64]) -> bool {
    list().iter().any(|capture| capture.ended_by.is_some() && numbers.contains(&capture.number))
}

/// A capture that is about to end. It is in the list until [`into_pins`](Self::into_pins), because what is submitted to its
/// streams before the driver has ended it would become part of it. Until then, or until it [goes on](Self::goes_on), other
/// threads make no calls on its streams and events.
#[must_use = "other threads wait until the capture is over or goes on"]
pub(crate) struct Ending {
    pub(crate) number: u64,
    pub(crate) which: Which,
    pub(crate) pins: Vec<Pin>,
}

/// The capture of this number, to be ended by this thread alone.
pub(crate) fn end(number: u64) -> Option<Ending> {
    take(|capture| capture.number == number)
}

/// Like [`end`], for the capture that began in this stream by hand. The caller has the turn at the stream, in which it began.
pub(crate) fn end_in(stream: usize) -> Option<Ending> {
    take(|capture| capture.which.stream == stream && capture.is_by_hand())
}

/// Like [`end_in`], and for one that a closure has left, as the stream is being destroyed.
pub(crate) fn end_lost_in(stream: usize) -> Option<Ending> {
    take(|capture| capture.which.stream == stream && capture.by_hand.is_some())
}

fn take(is_it: impl Fn(&InProgress) -> bool) -> Option<Ending> {
    let_waiting_calls_pass();
    let ending = {
        let mut captures = list();
        let capture = captures.iter_mut().find(|capture| is_it(capture) && capture.ended_by.is_none())?;
        capture.ended_by = Some(this_thread());
        NUMBERS.ending.fetch_add(1, Ordering::SeqCst);
        Ending { number: capture.number, which: capture.which, pins: mem::take(&mut capture.pins) }
    };
    wait_for_calls(|parts| {
        let captures = list();
        let mut this = captures.iter().filter(|capture| capture.number == ending.number);
        this.any(|capture| parts.iter().any(|part| capture.has_part(*part)))
    });
    Some(ending)
}

impl Ending {
    /// The contexts of the graph, once the driver has ended the capture: also those that have joined it meanwhile.
    pub(crate) fn into_pins(mut self) -> Vec<Pin> {
        self.pins.extend(remove(self.number));
        self.pins
    }

    /// The driver has not ended the capture, so it goes on. One of a closure is left to what loses it.
    pub(crate) fn goes_on(self, stream: Weak<dyn ByHand>) {
        let mut captures = list();
        let Some(capture) = captures.iter_mut().find(|capture| capture.number == self.number) else { return };
        capture.ended_by = None;
        // Those of streams that joined meanwhile come after that of the capture itself.
        capture.pins.splice(0..0, self.pins);
        if capture.by_hand.is_none() {
            (capture.by_hand, capture.left) = (Some(stream), true);
        }
        NUMBERS.ending.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Removes a capture that is over, or has not begun. Its pins are returned, because dropping one may destroy its
/// context, which must not happen under the lock.
pub(crate) fn remove(number: u64) -> Vec<Pin> {
    let mut captures = list();
    let Some(at) = captures.iter().position(|capture| capture.number == number) else { return Vec::new() };
    NUMBERS.in_progress.fetch_sub(1, Ordering::SeqCst);
    let capture = captures.swap_remove(at);
    if capture.ended_by.is_some() {
        NUMBERS.ending.fetch_sub(1, Ordering::SeqCst);
    }
    capture.pins
}
