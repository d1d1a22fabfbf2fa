//! Hazards: protection for short calls on a context's handle, and for short calls that a stream must not capture.

// Vouches for a handle while a hazard is published.
#![allow(unsafe_code)]

use super::participant::Participant;
use super::record::Handle;
use super::sync::pause;
use super::thread::{PARTICIPANTS, Publication, publish};
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

/// Keeps captures from beginning in a stream, for a short call, until it is dropped.
pub(crate) struct Uncaptured(#[expect(dead_code, reason = "it is there to be dropped")] Publication);

impl Uncaptured {
    /// The stream is known by the address of its handle. The caller checks afterwards whether it is capturing, and so
    /// does not meet a thread that lists a capture before it calls [`wait_for_uncaptured`].
    #[inline]
    pub(crate) fn publish(stream: usize) -> Option<Uncaptured> {
        publish(Participant::hazard, stream).map(Uncaptured)
    }
}

/// Waits until no thread makes a call in the stream that must not be captured, which all begin with a look at the list
/// of captures. False if that took too long.
pub(crate) fn wait_for_uncaptured(stream: usize) -> bool {
    fence::heavy();
    let start = Instant::now();
    let mut looks = 0;
    while PARTICIPANTS.has_hazard(stream) {
        if start.elapsed() > LONGEST_WAIT {
            return false;
        }
        looks += 1;
        pause(looks);
    }
    true
}
