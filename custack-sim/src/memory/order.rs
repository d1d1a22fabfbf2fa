//! Which frees come before the work of a stream, because of the events that it waits for.

use crate::machine::Handle;
use crate::stream::{Moment, Stream};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A stream, also after it is destroyed: the context and the stream's number.
pub(crate) type StreamKey = (Handle, u64);

pub(crate) fn key(stream: &Stream) -> StreamKey {
    (stream.context, stream.id)
}

/// A free in the order of a stream, and the moment at which the stream gets there.
pub(super) struct Freed {
    pub(super) stream: StreamKey,
    number: u64,
    pub(super) moment: Arc<Moment>,
}

/// The last free of each other stream that comes before; those of the stream itself all do.
#[derive(Default, Clone)]
pub(super) struct Before(BTreeMap<StreamKey, u64>);

impl Before {
    pub(super) fn is_after(&self, freed: &Freed) -> bool {
        self.0.get(&freed.stream).is_some_and(|last| *last >= freed.number)
    }
}

#[derive(Default)]
pub(crate) struct Order {
    /// Frees so far.
    number: u64,
    streams: BTreeMap<StreamKey, Before>,
    events: BTreeMap<usize, Before>,
}

impl Order {
    pub(super) fn free(&mut self, stream: StreamKey, moment: Arc<Moment>) -> Freed {
        self.number += 1;
        Freed { stream, number: self.number, moment }
    }

    pub(super) fn of(&self, stream: StreamKey) -> Before {
        let mut before = self.streams.get(&stream).cloned().unwrap_or_default();
        before.0.insert(stream, self.number);
        before
    }

    /// The event is recorded in the stream.
    pub(crate) fn record(&mut self, event: usize, stream: StreamKey) {
        let before = self.of(stream);
        self.events.insert(event, before);
    }

    /// The stream waits for the event.
    pub(crate) fn wait(&mut self, stream: StreamKey, event: usize) {
        let Some(Before(others)) = self.events.get(&event).cloned() else { return };
        let before = self.streams.entry(stream).or_default();
        for (other, number) in others {
            let last = before.0.entry(other).or_default();
            *last = number.max(*last);
        }
    }

    pub(crate) fn forget_event(&mut self, event: usize) {
        self.events.remove(&event);
    }

    pub(crate) fn forget_stream(&mut self, stream: StreamKey) {
        self.streams.remove(&stream);
    }
}
