//! Events that a stream keeps to mark the end of awaited work again.

use crate::context::Resource;
use crate::driver::ffi::CUevent;
use crate::driver::lock;
use std::sync::Mutex;

/// Events that nothing uses now. They are of the stream's context, and marked the end of its work.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Vec<Resource<CUevent>>>);

/// Rarely does more work of one stream wait at once.
const MOST: usize = 32;

impl Spare {
    pub(crate) fn take(&self) -> Option<Resource<CUevent>> {
        lock(&self.0).pop()
    }

    /// Keeps the event, or gives it back.
    pub(crate) fn keep(&self, event: Resource<CUevent>) -> Option<Resource<CUevent>> {
        let mut events = lock(&self.0);
        if events.len() == MOST {
            return Some(event);
        }
        events.push(event);
        None
    }
}
