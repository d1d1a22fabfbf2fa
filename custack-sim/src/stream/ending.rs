//! The end of a capture, which takes a moment. A call on what the capture has, which another thread makes in this moment,
//! crashes the NVIDIA driver.

use super::capture::{Capture, Captured, ILLEGAL_STATE, Member};
use crate::machine::*;
use std::thread;

/// How often the thread lets others run meanwhile.
const MOMENT: usize = 3;

impl Machine {
    /// This thread is about to end the capture that the stream is in.
    fn ends_capture(&mut self, stream: usize) -> Answer<bool> {
        self.stream_is_in_no_ending_capture(stream)?;
        let Some(Member { id, .. }) = self.member(stream) else { return Ok(false) };
        let Some(capture) = self.captures.by_id.get_mut(&id) else { return Ok(false) };
        capture.ended_by = Some(thread::current().id());
        Ok(true)
    }

    /// The moment is over: if the driver refuses to end the capture, others may make calls on what it has again.
    pub(super) fn is_ended_or_goes_on(&mut self, stream: usize) {
        let Some(Member { id, .. }) = self.member(stream) else { return };
        if let Some(capture) = self.captures.by_id.get_mut(&id) {
            if capture.ended_by == Some(thread::current().id()) {
                capture.ended_by = None;
            }
        }
    }

    /// Refuses a call on a stream whose capture another thread is ending.
    pub(super) fn stream_is_in_no_ending_capture(&mut self, stream: usize) -> Answer<()> {
        match self.member(stream) {
            Some(Member { id, .. }) => self.is_not_ending(id),
            None => Ok(()),
        }
    }

    /// Like [`stream_is_in_no_ending_capture`](Self::stream_is_in_no_ending_capture), for a call that waits for all streams
    /// of a context; or only for those that block the legacy stream.
    pub(crate) fn no_capture_ends_in(&mut self, context: Handle, blocking: bool) -> Answer<()> {
        let members = self.captures.of_stream.values();
        let waited_for = members.filter(|it| it.context == context && (it.blocks || !blocking));
        let ids: Vec<u64> = waited_for.map(|member| member.id).collect();
        ids.into_iter().try_for_each(|id| self.is_not_ending(id))
    }

    /// Like [`stream_is_in_no_ending_capture`](Self::stream_is_in_no_ending_capture), for an event.
    pub(crate) fn event_is_in_no_ending_capture(&mut self, captured: Option<&Captured>) -> Answer<()> {
        captured.map_or(Ok(()), |captured| self.is_not_ending(captured.id))
    }

    /// Refuses a call on something of a capture that another thread is ending.
    fn is_not_ending(&mut self, capture: u64) -> Answer<()> {
        let here = thread::current().id();
        let is_elsewhere = |it: &Capture| it.ended_by.is_some_and(|thread| thread != here);
        if self.captures.by_id.get(&capture).is_some_and(is_elsewhere) {
            return self.misuse(ILLEGAL_STATE, "a call on what a capture has that another thread is ending");
        }
        Ok(())
    }
}

/// Passes the moment in which a capture is ended.
pub(super) fn begin_to_end(stream: usize) {
    let ends = {
        let mut machine = lock();
        machine.ends_capture(stream) == Ok(true)
    };
    if ends {
        (0..MOMENT).for_each(|_| thread::yield_now());
    }
}
