//! Pins: protection for memory, which outlives calls but must not outlive its context.
//!
//! The driver gives the addresses of a destroyed context to others: on an H200 the next buffer of another context got
//! the address of a stale slice, and a safe write through it changed that buffer. So memory keeps its context at the
//! driver, while every handle is dead from the moment the owner is dropped.

use super::destroy::{Claimed, claim};
use super::record::Handle;
use crate::driver::Live;

impl Handle {
    /// Keeps the context, on which the caller has a lease, until [`unpin`](Self::unpin) is called once.
    pub(crate) fn pin(&self, _lease: Live<'_>) {
        self.record().life.pin();
    }

    /// Removes a pin. If it was the last thing that kept the context, the caller must destroy it.
    #[must_use = "the claimed context must be destroyed"]
    pub(crate) fn unpin(&self) -> Option<Claimed> {
        self.record().life.unpin().then(|| claim(self.record(), self.id)).flatten()
    }
}
