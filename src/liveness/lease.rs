//! Leases: protection for calls that may block, and for calls with handles of streams, events, modules and memory.

// Vouches for a handle while a lease is published.
#![allow(unsafe_code)]

use super::destroy::claim;
use super::life::Phase;
use super::participant::Participant;
use super::record::{Handle, Record};
use super::retire::retire;
use super::thread::{PARTICIPANTS, Publication, publish};
use crate::driver::Live;
use crate::driver::ffi::CUcontext;
use crate::fence;
use std::sync::atomic::AtomicUsize;

/// Which contexts to grant a lease on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseOn {
    /// Only living contexts.
    Living,
    /// Retiring contexts too: to free and destroy what was made in them, which the driver still has. If a thread is claiming the
    /// context, the outcome is waited for: what is not destroyed because of a claim that is given up would stay for ever in a
    /// context of which other code has a share.
    Retiring,
    /// A context that the caller has pinned. A destroyer that has not seen the pin yet may have claimed the context for
    /// a moment; it will see the pin and give up the claim.
    Pinned,
}

/// While it exists, no thread destroys the context. A thread that wants to does not wait; the context is retired when
/// the lease is dropped, so the holder may take long.
pub(crate) struct Lease {
    raw: CUcontext,
    // Dropped in this order.
    _published: Publication<AtomicUsize>,
    _after: AfterLease,
}

impl Lease {
    #[inline]
    pub(crate) fn live(&self) -> Live<'_> {
        // SAFETY: the lease is published and the driver has the context. A later destroyer finds the lease, an earlier
        // one finds the pin, and either leaves the context alone until the lease is withdrawn.
        unsafe { Live::new(self.raw) }
    }
}

impl Handle {
    /// A lease on the context; `None` if it is not in an accepted phase.
    // Always inlined, and the lease is not a value before it is granted: moving it would cost as much as taking it.
    #[inline(always)]
    pub(crate) fn lease(&self, of: LeaseOn) -> Option<Lease> {
        let record = self.record();
        let published = publish(Participant::lease, record.address())?;
        let good = match of {
            LeaseOn::Living => self.is_alive(),
            LeaseOn::Retiring => matches!(self.settled_phase(), Phase::Alive | Phase::Retiring),
            LeaseOn::Pinned => self.phase() != Phase::Dead,
        };
        if good {
            return Some(Lease { raw: self.raw(), _published: published, _after: AfterLease(record) });
        }
        refused(published, record);
        None
    }
}

/// A destroyer that found what was published here may have left the context behind.
#[cold]
fn refused(published: Publication<AtomicUsize>, record: &'static Record) {
    drop(published);
    drop(AfterLease(record));
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
