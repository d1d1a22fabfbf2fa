//! Pins: what outlives calls and must not outlive its context, which is memory of every kind.
//!
//! A destroyed context gives its addresses away. On an H200 the next buffer of another context got the address of a
//! stale slice, and a safe write through it changed that buffer. So memory keeps its context at the driver, while
//! handles are dead from the moment the owner lets go.

use super::destroy::{Ending, claim};
use super::record::Handle;
use crate::driver::Live;

impl Handle {
    /// Keeps the context, on which the caller has a lease, until [`unpin`](Self::unpin) is called once.
    pub(crate) fn pin(&self, _lease: Live<'_>) {
        self.record().life.pin();
    }

    /// Takes a pin back. If the context was only kept by it, the caller is the one who ends it.
    #[must_use = "the context is to be ended"]
    pub(crate) fn unpin(&self) -> Option<Ending> {
        self.record().life.unpin().then(|| claim(self.record(), self.id)).flatten()
    }
}
