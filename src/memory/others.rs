//! The streams that use memory whose home is another one.

use crate::stream::Shared;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

type Streams = Mutex<Vec<Arc<Shared>>>;

/// Streams, each of them once. Most memory has none, so the list is allocated only when needed.
#[derive(Debug, Default)]
pub(super) struct Others(OnceLock<Box<Streams>>);

fn lock(streams: &Streams) -> MutexGuard<'_, Vec<Arc<Shared>>> {
    streams.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Others {
    pub(super) fn add(&self, stream: &Arc<Shared>) {
        let mut all = lock(self.0.get_or_init(Box::default));
        if !all.iter().any(|known| Arc::ptr_eq(known, stream)) {
            all.push(Arc::clone(stream));
        }
    }

    #[inline]
    pub(super) fn is_none(&self) -> bool {
        self.0.get().is_none()
    }

    /// Clones, because no lock is held across a driver call.
    pub(super) fn all(&self) -> Vec<Arc<Shared>> {
        self.0.get().map_or(Vec::new(), |all| lock(all).clone())
    }
}
