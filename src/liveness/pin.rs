//! Pins: protection for memory, which outlives calls but must not outlive its context.
//!
//! The driver gives the addresses of a destroyed context to others: on an H200 the next buffer of another context got
//! the address of a stale slice, and a safe write through it changed that buffer. So memory keeps its context at the
//! driver, while every handle is dead from the moment the owner is dropped.

use super::record::Handle;
use crate::driver::Live;

impl Handle {
    /// Keeps the context, on which the caller has a lease, until [`unpin`](Self::unpin) is called once.
    pub(crate) fn pin(&self, _lease: Live<'_>) {
        self.record().life.pin();
    }

    /// Removes a pin. True if it was the last of a retiring context, which the caller must [claim](Self::claim) then.
    #[inline]
    #[must_use = "the context may have to be destroyed"]
    pub(crate) fn unpin(&self) -> bool {
        let life = &self.record().life;
        life.unpin() && life.retiring() == Some(self.id)
    }
}
