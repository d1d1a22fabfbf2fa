//! The streams that use memory whose home is another one.

use crate::stream::Shared;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Streams, each of them once.
#[derive(Debug, Default)]
pub(super) struct Others(Mutex<Vec<Arc<Shared>>>);

impl Others {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Shared>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, stream: &Arc<Shared>) {
        let mut all = self.lock();
        if !all.iter().any(|known| Arc::ptr_eq(known, stream)) {
            all.push(Arc::clone(stream));
        }
    }

    /// Clones, as no lock is held across a call.
    pub(super) fn all(&self) -> Vec<Arc<Shared>> {
        self.lock().clone()
    }
}
