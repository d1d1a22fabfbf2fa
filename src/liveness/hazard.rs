//! Hazards: protection for short calls on a context's handle. Calls: protection for driver calls on streams and events, at
//! which the end of a capture would crash the driver, and for short ones whose work must not become part of a graph.

// Vouches for a handle while a hazard is published.
#![allow(unsafe_code)]

use super::participant::{Participant, Parts};
use super::record::Handle;
use super::sync::pause;
use super::thread::{PARTICIPANTS, Publication, own, publish};
use super::time_left::TimeLeft;
use crate::driver::Live;
use crate::fence;
use std::time::{Duration, Instant};

impl Handle {
    /// Calls `f` with the driver's handle while no thread can destroy the context; `None`, without a call, if it is not
    /// alive. A destroyer waits for `f`, so `f` makes one short driver call.
    #[inline]
    pub(crate) fn hazard<R>(&self, f: impl FnOnce(Live<'_>) -> R) -> Option<R> {
        let _published = publish(Participant::hazard, self.record().address())?;
        // SAFETY: the hazard is published and the context is alive, so a destroyer that comes now waits until `f` has
        // returned and the hazard is withdrawn.
        self.is_alive().then(|| f(unsafe { Live::new(self.raw()) }))
    }
}

/// Such a call is short unless the driver waits in it, for work that may itself wait for the thread that begins a capture.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// A driver call that takes longer is blocked, and has looked at its stream before. That takes less than a microsecond.
const LONGEST_LOOK: Duration = Duration::from_millis(100);

/// A call that waits for work is nearly always blocked already, and who begins a capture shall not wait for long.
const SHORT_LOOK: Duration = Duration::from_millis(20);

/// In place of a second part: the call would break a capture of the stream. No stream has this key.
pub(crate) const BREAKS: usize = 2;

/// Like [`BREAKS`], and the call waits for work.
pub(crate) const WAITS: usize = 4;

/// Like [`BREAKS`], and the call may use the events of a graph, which it does not name.
pub(crate) const OF_GRAPH: usize = 6;

/// A driver call, published until it is dropped.
pub(crate) struct Call(#[expect(dead_code, reason = "it is there to be dropped")] Publication<Parts>);

impl Call {
    /// Of a stream and 0, an event and 0, an event and a stream, [`OF_GRAPH`] and 0, a stream or an
    /// event and [`BREAKS`], [`WAITS`] or [`OF_GRAPH`], or a stream twice: then its work must not
    /// become part of a graph. The caller checks afterwards whether a capture is being ended that has
    /// one of them, and, in the last cases, whether the stream is capturing; see [`wait_for_calls`] and [`wait_for_uncaptured`].
    #[inline]
    pub(crate) fn publish(parts: [usize; 2]) -> Option<Call> {
        publish(Participant::call, parts).map(Call)
    }
}

/// Waits until no other thread makes such a call, or until those that do are blocked in the driver. The caller has said
/// before what it is about to do, and calls begin with a look at that.
pub(crate) fn wait_for_calls(is_such: impl Fn([usize; 2]) -> bool) {
    fence::heavy();
    wait_while(LONGEST_LOOK, || PARTICIPANTS.has_call(own(), &is_such));
}

/// Like [`wait_for_calls`], for calls that wait for work, after it or another fence.
pub(crate) fn wait_for_waits(is_such: impl Fn([usize; 2]) -> bool) {
    wait_while(SHORT_LOOK, || PARTICIPANTS.has_call(own(), &is_such));
}

/// Waits until no thread makes a call in the stream whose work must not become part of a graph. The caller has listed the
/// capture that it is about to begin, and such calls begin with a look at the list. False if that took too long. Also waits
/// until no other thread records or waits for an event in it, or makes a call that would break the capture, or until those that
/// do are blocked in the driver.
pub(crate) fn wait_for_uncaptured(stream: usize) -> bool {
    wait_for_calls(|[first, how]| how == stream || first == stream && matches!(how, BREAKS | OF_GRAPH));
    wait_for_waits(|parts| parts == [stream, WAITS]);
    wait_while(LONGEST_WAIT, || PARTICIPANTS.has_call(None, |parts| parts == [stream; 2]))
}

/// Waits until `is_so` is false, for as long as a call may look at its stream.
pub(crate) fn wait_for_looks(is_so: impl Fn() -> bool) {
    wait_while(LONGEST_LOOK, is_so);
}

/// Waits until `is_so` is false. False if that took too long.
pub(crate) fn wait_shortly_while(is_so: impl Fn() -> bool) -> bool {
    wait_while(LONGEST_WAIT, is_so)
}

fn wait_while(at_most: Duration, is_so: impl Fn() -> bool) -> bool {
    let (mut left, mut last, mut looks) = (TimeLeft::new(at_most), Instant::now(), 0);
    while is_so() {
        let now = Instant::now();
        if !left.pass(now - last) {
            return false;
        }
        last = now;
        looks += 1;
        pause(looks);
    }
    true
}
