//! The default streams, of a context and of a thread in a context.

use super::{Attributes, LEAST_PRIORITY, Queue, Stream};
use crate::machine::*;
use std::sync::Arc;

/// The handle of the default stream of the current context; so is 0.
pub(super) const LEGACY: usize = 1;
/// The handle of the calling thread's stream in the current context.
const PER_THREAD: usize = 2;

#[derive(Clone, Copy)]
pub(super) enum Which {
    Legacy,
    PerThread,
}

/// Which default stream a handle stands for.
pub(super) fn which(handle: usize) -> Option<Which> {
    match handle {
        0 | LEGACY => Some(Which::Legacy),
        PER_THREAD => Some(Which::PerThread),
        _ => None,
    }
}

impl Machine {
    pub(super) fn default_stream(&mut self, which: Which) -> Answer<Stream> {
        let owner = self.healthy_top()?;
        let (context, green) = self.base_and_green(owner);
        match which {
            Which::Legacy => {
                self.no_capture_ends_in(owner, true)?;
                self.legacy_is_free(owner)?;
                let found = self.healthy(owner)?;
                let (queue, attributes) =
                    (Arc::clone(&found.default_stream), found.default_attributes.clone());
                let id = found.default_id.unwrap_or(0);
                Ok(Stream { context, green, flags: 0, id, queue, attributes })
            }
            Which::PerThread => self.per_thread_stream(owner),
        }
    }

    /// Made when a thread first asks. A thread that comes after one that has ended has that one's. Green contexts have
    /// none.
    fn per_thread_stream(&mut self, owner: Handle) -> Answer<Stream> {
        if self.is_green(owner) {
            return self.refuse(INVALID_HANDLE, "the per-thread stream, while a green context is current");
        }
        let thread = self.this_thread();
        if let Some(stream) = self.healthy(owner)?.per_thread.get(&thread) {
            return Ok(stream.clone());
        }
        let (id, attributes) = (self.next_id(), Attributes::new(LEAST_PRIORITY));
        let queue = Arc::default();
        let stream = Stream { context: owner, green: 0, flags: 0, id, queue, attributes };
        self.healthy(owner)?.per_thread.insert(thread, stream.clone());
        Ok(stream)
    }

    pub(super) fn stream_id(&mut self, handle: usize) -> Answer<u64> {
        let stream = self.stream_of(handle)?;
        if stream.id != 0 {
            return Ok(stream.id);
        }
        let id = self.next_id();
        Ok(*self.healthy(stream.owner())?.default_id.insert(id))
    }

    /// The context of a stream that has its memory, and its green context or 0.
    pub(super) fn contexts_of_stream(&mut self, handle: usize) -> Answer<(Handle, Handle)> {
        let stream = self.known_stream(handle)?;
        Ok((stream.context, stream.green))
    }

    /// The NULL stream is refused before it is asked what is current.
    pub(super) fn keep_default_stream(&mut self, handle: usize) -> Answer<()> {
        self.ready()?;
        if handle != 0 {
            self.stream_of(handle)?;
        }
        self.refuse(INVALID_HANDLE, "a default stream is not destroyed")
    }

    /// The queues of all threads' streams in a context.
    pub(super) fn per_thread_queues(&self, context: Handle) -> Vec<Arc<Queue>> {
        let streams = self.peek(context).into_iter().flat_map(|context| context.per_thread.values());
        streams.map(|stream| Arc::clone(&stream.queue)).collect()
    }
}
