//! The streams that use memory whose home is another one.

use crate::context::Pin;
use crate::driver::lock;
use crate::stream::Shared;
use std::sync::{Arc, Mutex, OnceLock};

/// A stream, whose context is kept at the driver: while that were destroyed, nothing could wait for the stream's work.
#[derive(Debug)]
pub(super) struct Other {
    pub(super) stream: Arc<Shared>,
    pub(super) pin: Pin,
}

type Streams = Mutex<Vec<Arc<Other>>>;

/// Streams, each of them once. Most memory has none, so the list is allocated only when needed.
#[derive(Debug, Default)]
pub(super) struct Others(OnceLock<Box<Streams>>);

impl Others {
    pub(super) fn add(&self, other: Other) {
        let mut all = lock(self.0.get_or_init(Box::default));
        if all.iter().any(|known| Arc::ptr_eq(&known.stream, &other.stream)) {
            // Dropping the pin may destroy its context, which must not happen under the lock.
            drop(all);
            return drop(other);
        }
        all.push(Arc::new(other));
    }

    #[inline]
    pub(super) fn is_none(&self) -> bool {
        self.0.get().is_none()
    }

    /// Clones, because no lock is held across a driver call.
    pub(super) fn all(&self) -> Vec<Arc<Other>> {
        self.0.get().map_or(Vec::new(), |all| lock(all).clone())
    }
}
