//! Hazards: protection for short calls on a context's handle.

// Vouches for a handle while a hazard is published.
#![allow(unsafe_code)]

use super::participant::Participant;
use super::record::Handle;
use super::thread::publish;
use crate::driver::Live;

impl Handle {
    /// Calls `f` with the driver's handle while no thread can destroy the context; `None`, without a call, if it is not
    /// alive. A destroyer waits for `f`, so `f` makes one short driver call.
    #[inline]
    pub(crate) fn hazard<R>(&self, f: impl FnOnce(Live<'_>) -> R) -> Option<R> {
        let _published = publish(Participant::hazard, self.record().address())?;
        // SAFETY: the hazard is published and the context is alive, so a destroyer that comes now waits until `f` has
        // returned and the hazard is withdrawn.
        self.is_alive().then(|| f(unsafe { Live::new(self.raw()) }))
    }
}
