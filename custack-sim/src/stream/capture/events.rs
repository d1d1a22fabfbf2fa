//! Events that are recorded in a capture: by them it spreads to other streams.

use super::{CAPTURE_IMPLICIT, CAPTURE_MERGE, CAPTURED_EVENT, ILLEGAL_STATE, Member, union};
use crate::graph::Edge;
use crate::machine::*;
use crate::stream::default::{Which, which};

/// The captured state of an event.
#[derive(Clone)]
pub(crate) struct Captured {
    pub(crate) id: u64,
    tips: Vec<Edge>,
}

impl Machine {
    /// The state of an event that is recorded in a stream which captures.
    pub(crate) fn captured_event(&mut self, stream: usize) -> Option<Captured> {
        let Member { key, id, .. } = self.member(stream)?;
        let tips = self.captures.by_id.get(&id)?.tips.get(&key).cloned().unwrap_or_default();
        Some(Captured { id, tips })
    }

    /// Refuses an event of a capture that is over or invalid.
    pub(crate) fn is_live(&mut self, captured: &Captured) -> Answer<()> {
        if self.captures.by_id.get(&captured.id).is_some_and(|capture| !capture.invalid) {
            return Ok(());
        }
        self.refuse(INVALID_VALUE, "the event was recorded in a capture that is over")
    }

    /// Refuses a query of an event that was recorded in a capture; depending on the call this breaks the capture.
    pub(crate) fn is_real(&mut self, captured: Option<&Captured>, breaks: bool) -> Answer<()> {
        let Some(captured) = captured else { return Ok(()) };
        self.is_live(captured)?;
        if breaks {
            self.invalidate(captured.id);
        }
        self.refuse(CAPTURED_EVENT, "the event was recorded in a capture, and never comes")
    }

    /// A stream waits for an event of a capture, and takes part in it from then on.
    pub(crate) fn wait_captured(&mut self, stream: usize, captured: &Captured) -> Answer<()> {
        let live = self.is_live(captured);
        self.breaks_capture(stream, live)?;
        if matches!(which(stream), Some(Which::Legacy)) {
            self.invalidate(captured.id);
            return self.refuse(CAPTURE_IMPLICIT, "the legacy stream would be captured");
        }
        self.join_capture(stream, captured.id)?;
        let Some(Member { key, id: own, .. }) = self.member(stream) else { return Err(ILLEGAL_STATE) };
        if own != captured.id {
            self.invalidate(own);
            self.invalidate(captured.id);
            return self.refuse(CAPTURE_MERGE, "a captured stream waits for an event of another capture");
        }
        if let Some(capture) = self.captures.by_id.get_mut(&own) {
            union(capture.tips.entry(key).or_default(), &captured.tips);
        }
        Ok(())
    }
}
