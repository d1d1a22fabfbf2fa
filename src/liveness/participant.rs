//! What each thread publishes: the records that it is using at the moment, in cells of its own.
//!
//! A user publishes a record and then looks whether its context lives. A destroyer ends the life and then looks at the
//! cells of all threads. Each has a fence between its two steps ([`fence`](crate::fence) says of which kind), so at
//! least one sees the other. Nothing is written that two threads write, so users do not slow each other down.
//!
//! A *hazard* is published for a short call, and a destroyer waits until it is withdrawn. A *lease* is published for a
//! call that may block; a destroyer that finds one leaves, and the thread that withdraws it looks, behind a fence
//! again, whether it has to see to the destroying.
//!
//! Participants are made as they are needed, never freed, and taken over by later threads; so there are as many as
//! there were ever threads at once, and no limit to them. One is in the list before anything is published in it.
//!
//! This file is compiled twice, as [`life`](super::life) is.

// Follows the list of participants, which are never freed.
#![allow(unsafe_code)]

use super::sync::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence, pause, publish};

/// A call uses one context, and some two: an event recorded in a stream, access to a peer.
const HAZARDS: usize = 2;
const LEASES: usize = 6;

#[repr(align(128))]
pub(super) struct Participant {
    hazards: [AtomicUsize; HAZARDS],
    leases: [AtomicUsize; LEASES],
    /// Whether a thread has it.
    taken: AtomicBool,
    next: AtomicPtr<Participant>,
}

impl Participant {
    fn new() -> Participant {
        Participant {
            hazards: std::array::from_fn(|_| AtomicUsize::new(0)),
            leases: std::array::from_fn(|_| AtomicUsize::new(0)),
            taken: AtomicBool::new(true),
            next: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// A cell for a hazard; `None` if all are in use.
    #[inline]
    pub(super) fn hazard(&self) -> Option<&AtomicUsize> {
        first_free(&self.hazards)
    }

    /// A cell for a lease; `None` if all are in use.
    #[inline]
    pub(super) fn lease(&self) -> Option<&AtomicUsize> {
        first_free(&self.leases)
    }

    /// Lets another thread have it.
    pub(super) fn give_up(&self) {
        self.taken.store(false, Ordering::Release);
    }
}

#[inline]
fn first_free<const N: usize>(cells: &[AtomicUsize; N]) -> Option<&AtomicUsize> {
    // Nearly always it is the first.
    if cells[0].load(Ordering::Relaxed) == 0 { Some(&cells[0]) } else { another_free(cells) }
}

#[cold]
fn another_free(cells: &[AtomicUsize]) -> Option<&AtomicUsize> {
    cells.iter().find(|cell| cell.load(Ordering::Relaxed) == 0)
}

/// What is published while this value exists, also if what is done under it panics.
pub(super) struct Published<'a>(&'a AtomicUsize);

impl<'a> Published<'a> {
    #[inline]
    pub(super) fn new(cell: &'a AtomicUsize, what: usize) -> Published<'a> {
        publish(cell, what);
        Published(cell)
    }
}

impl Drop for Published<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

/// The participants of all threads.
pub(super) struct Participants {
    newest: AtomicPtr<Participant>,
}

impl Participants {
    pub(super) const fn of(newest: AtomicPtr<Participant>) -> Participants {
        Participants { newest }
    }

    /// One for the calling thread alone, until it gives it up.
    pub(super) fn join(&self) -> &Participant {
        let free = |one: &&Participant| {
            one.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        self.all().find(free).unwrap_or_else(|| self.add())
    }

    fn add(&self) -> &Participant {
        let new = Box::into_raw(Box::new(Participant::new()));
        // SAFETY: made a line above, and never freed while `self` exists.
        let participant = unsafe { &*new };
        let mut newest = self.newest.load(Ordering::SeqCst);
        loop {
            participant.next.store(newest, Ordering::Relaxed);
            match self.newest.compare_exchange(newest, new, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return participant,
                Err(other) => newest = other,
            }
        }
    }

    fn all(&self) -> impl Iterator<Item = &Participant> {
        let follow = |link: &AtomicPtr<Participant>| {
            let at = link.load(Ordering::SeqCst);
            // SAFETY: what is linked was made in `add`, and is never freed while `self` exists.
            unsafe { at.as_ref() }
        };
        std::iter::successors(follow(&self.newest), move |one| follow(&one.next))
    }

    /// Waits until nobody has a hazard on the record. The caller has ended what users look for, and fenced.
    pub(super) fn wait_for_hazards(&self, record: usize) {
        for cell in self.all().flat_map(|one| &one.hazards) {
            let mut looks = 0;
            while cell.load(Ordering::SeqCst) == record {
                looks += 1;
                pause(looks);
            }
        }
    }

    /// Whether anybody has a lease on the record, for one who has just withdrawn one. Of two who do so at once, at least
    /// one sees that the other has: that takes a fence on either side, as neither is a destroyer.
    pub(super) fn others_lease(&self, record: usize) -> bool {
        fence(Ordering::SeqCst);
        self.leased(record)
    }

    /// Whether anybody has a lease on the record.
    pub(super) fn leased(&self, record: usize) -> bool {
        self.all().flat_map(|one| &one.leases).any(|cell| cell.load(Ordering::SeqCst) == record)
    }
}
