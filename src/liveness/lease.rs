//! Leases: calls that may block, and calls with the handles of streams, events, modules and memory.

// Vouches for a handle while a lease is published.
#![allow(unsafe_code)]

use super::destroy::claim;
use super::life::Phase;
use super::participant::{Participant, Published};
use super::record::{Handle, Record};
use super::retire::retire;
use super::thread::{PARTICIPANTS, participate, participate_once};
use crate::driver::Live;
use crate::fence;
use std::sync::atomic::AtomicUsize;

/// Which contexts a lease can be had on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// One that is alive.
    Living,
    /// Also one that is retiring: to free and destroy what was made in it, which the driver has yet.
    Retiring,
    /// One that the caller has pinned. A destroyer who has not seen the pin yet may have claimed it for a moment; it will
    /// see it, and leave.
    Pinned,
}

impl Handle {
    /// Calls `f` with the driver's handle while nobody destroys the context; `None`, without a call, if it is over.
    ///
    /// `f` may take long. Whoever would destroy the context meanwhile leaves, and it is retired when `f` has returned.
    #[inline]
    pub(crate) fn lease<R>(&self, of: Of, f: impl FnOnce(Live<'_>) -> R) -> Option<R> {
        participate(|participant| match participant.lease() {
            Some(cell) => self.publish_lease(cell, of, f),
            None => participate_once(|other| self.lease_in_fresh(other, of, f)),
        })
    }

    #[cold]
    fn lease_in_fresh<R>(
        &self,
        other: &'static Participant,
        of: Of,
        f: impl FnOnce(Live<'_>) -> R,
    ) -> Option<R> {
        self.publish_lease(other.lease()?, of, f)
    }

    #[inline]
    fn publish_lease<R>(
        &self,
        cell: &'static AtomicUsize,
        of: Of,
        f: impl FnOnce(Live<'_>) -> R,
    ) -> Option<R> {
        // Dropped last, after the lease is withdrawn.
        let _after = AfterLease(self.record());
        let _published = Published::new(cell, self.record().address());
        let good = match of {
            Of::Living => self.is_alive(),
            Of::Retiring => matches!(self.phase(), Phase::Alive | Phase::Retiring),
            Of::Pinned => self.phase() != Phase::Dead,
        };
        // SAFETY: the lease is published and the driver has the context, so a destroyer that comes now finds the lease,
        // or one that has come finds the pin, and leaves the context as it is until the lease is withdrawn.
        good.then(|| f(unsafe { Live::new(self.raw()) }))
    }
}

/// Looks, after a lease was withdrawn, whether somebody found it and left the context to be destroyed.
struct AfterLease(&'static Record);

impl Drop for AfterLease {
    #[inline]
    fn drop(&mut self) {
        fence::light();
        if let Some(id) = self.0.life.retiring() {
            left_behind(self.0, id);
        }
    }
}

#[cold]
fn left_behind(record: &'static Record, id: u64) {
    if !record.life.is_pinned() && !PARTICIPANTS.others_lease(record.address()) {
        retire(move || claim(record, id).into_iter().for_each(|ending| ending.finish_quietly(0)));
    }
}
