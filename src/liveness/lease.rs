//! Leases: protection for calls that may block, and for calls with handles of streams, events, modules and memory.

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

/// Which contexts to grant a lease on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseOn {
    /// Only living contexts.
    Living,
    /// Retiring contexts too: to free and destroy what was made in them, which the driver still has.
    Retiring,
    /// A context that the caller has pinned. A destroyer that has not seen the pin yet may have claimed the context for
    /// a moment; it will see the pin and give up the claim.
    Pinned,
}

impl Handle {
    /// Calls `f` with the driver's handle while no thread destroys the context; `None`, without a call, if the context
    /// is not in an accepted phase.
    ///
    /// `f` may take long. A thread that wants to destroy the context meanwhile does not wait; the context is retired
    /// when `f` has returned.
    #[inline]
    pub(crate) fn lease<R>(&self, of: LeaseOn, f: impl FnOnce(Live<'_>) -> R) -> Option<R> {
        participate(|participant| match participant.lease() {
            Some(cell) => self.publish_lease(cell, of, f),
            None => participate_once(|other| self.lease_in_fresh(other, of, f)),
        })
    }

    #[cold]
    fn lease_in_fresh<R>(
        &self,
        other: &'static Participant,
        of: LeaseOn,
        f: impl FnOnce(Live<'_>) -> R,
    ) -> Option<R> {
        self.publish_lease(other.lease()?, of, f)
    }

    #[inline]
    fn publish_lease<R>(
        &self,
        cell: &'static AtomicUsize,
        of: LeaseOn,
        f: impl FnOnce(Live<'_>) -> R,
    ) -> Option<R> {
        // Dropped last, after the lease is withdrawn.
        let _after = AfterLease(self.record());
        let _published = Published::new(cell, self.record().address());
        let good = match of {
            LeaseOn::Living => self.is_alive(),
            LeaseOn::Retiring => matches!(self.phase(), Phase::Alive | Phase::Retiring),
            LeaseOn::Pinned => self.phase() != Phase::Dead,
        };
        // SAFETY: the lease is published and the driver has the context. A later destroyer finds the lease, an earlier
        // one finds the pin, and either leaves the context alone until the lease is withdrawn.
        good.then(|| f(unsafe { Live::new(self.raw()) }))
    }
}

/// Checks, after a lease was withdrawn, whether a destroyer found the lease and left the context behind.
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
        retire(move || claim(record, id).into_iter().for_each(|claimed| claimed.finish_quietly(0)));
    }
}
