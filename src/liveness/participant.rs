//! What each thread publishes: the records that it is using at the moment, in cells of its own.
//!
//! A user publishes a record, then checks that its context is alive. A destroyer ends the life, then reads the cells of
//! all threads. Both have a fence between their two steps ([`fence`](crate::fence) says which kind), so at least one
//! sees the other. No cell is written by two threads at once, so users do not slow each other down.
//!
//! A *hazard* is published for a short call; a destroyer waits until it is withdrawn. A *lease* is published for a call
//! that may block; a destroyer that finds one gives up, and the thread that withdraws the lease checks, after another
//! fence, whether it has to destroy the context.
//!
//! A *call* is published for the stream and the event that a driver call is about to use, for a thread that ends a capture
//! ([`hazard`](super::hazard) says why).
//!
//! Participants are allocated on demand, never freed, and reused by later threads, so there are as many as there ever
//! were threads at once, without a limit. A participant is in the list before anything is published in it.
//!
//! This file is compiled twice, like [`life`](super::life).

// Follows the list of participants, which are never freed.
#![allow(unsafe_code)]

use super::sync::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence, pause, publish};

/// Most calls use one context; recording an event in a stream and enabling peer access use two.
const HAZARDS: usize = 2;
const LEASES: usize = 6;
/// There are calls within calls: an event that is recorded in a stream which must not capture meanwhile, or what a subscriber
/// of reports calls.
const CALLS: usize = 3;

/// What a call is on: a stream, an event, an event and a stream, or a stream twice. The first is not 0 while it is published.
pub(super) type Parts = [AtomicUsize; 2];

#[repr(align(128))]
pub(super) struct Participant {
    hazards: [AtomicUsize; HAZARDS],
    leases: [AtomicUsize; LEASES],
    calls: [Parts; CALLS],
    /// Whether a thread has it.
    in_use: AtomicBool,
    next: AtomicPtr<Participant>,
}

impl Participant {
    fn new() -> Participant {
        Participant {
            hazards: Default::default(),
            leases: Default::default(),
            calls: Default::default(),
            in_use: AtomicBool::new(true),
            next: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// A free cell for a hazard; `None` if all are in use.
    #[inline]
    pub(super) fn hazard(&self) -> Option<&AtomicUsize> {
        first_free(&self.hazards)
    }

    /// A free cell for a lease; `None` if all are in use.
    #[inline]
    pub(super) fn lease(&self) -> Option<&AtomicUsize> {
        first_free(&self.leases)
    }

    /// Free cells for a call; `None` if all are in use.
    #[inline]
    pub(super) fn call(&self) -> Option<&Parts> {
        let cells = &self.calls;
        if cells[0][0].load(Ordering::Relaxed) == 0 { Some(&cells[0]) } else { another_free_call(cells) }
    }

    /// Returns it for another thread to use.
    pub(super) fn give_up(&self) {
        self.in_use.store(false, Ordering::Release);
    }
}

#[inline]
fn first_free<const N: usize>(cells: &[AtomicUsize; N]) -> Option<&AtomicUsize> {
    // Nearly always the first one is free.
    if cells[0].load(Ordering::Relaxed) == 0 { Some(&cells[0]) } else { another_free(cells) }
}

#[cold]
fn another_free(cells: &[AtomicUsize]) -> Option<&AtomicUsize> {
    cells.iter().find(|cell| cell.load(Ordering::Relaxed) == 0)
}

#[cold]
fn another_free_call(cells: &[Parts]) -> Option<&Parts> {
    cells.iter().find(|[first, _]| first.load(Ordering::Relaxed) == 0)
}

/// Where something is published.
pub(super) trait Publishes {
    type What: Copy;

    /// Publishes before the thread's later reads.
    fn publish(&self, what: Self::What);

    fn withdraw(&self);
}

impl Publishes for AtomicUsize {
    type What = usize;

    #[inline]
    fn publish(&self, what: usize) {
        publish(self, what);
    }

    #[inline]
    fn withdraw(&self) {
        self.store(0, Ordering::Release);
    }
}

impl Publishes for Parts {
    type What = [usize; 2];

    #[inline]
    fn publish(&self, [first, second]: [usize; 2]) {
        self[1].store(second, Ordering::Relaxed);
        publish(&self[0], first);
    }

    #[inline]
    fn withdraw(&self) {
        self[1].store(0, Ordering::Release);
        self[0].store(0, Ordering::Release);
    }
}

/// Keeps something published while it exists, also during a panic.
pub(super) struct Published<'a, C: Publishes>(&'a C);

impl<'a, C: Publishes> Published<'a, C> {
    #[inline]
    pub(super) fn new(cell: &'a C, what: C::What) -> Published<'a, C> {
        cell.publish(what);
        Published(cell)
    }
}

impl<C: Publishes> Drop for Published<'_, C> {
    #[inline]
    fn drop(&mut self) {
        self.0.withdraw();
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

    /// Returns a participant for the calling thread alone, until it is given up.
    pub(super) fn join(&self) -> &Participant {
        let free = |one: &&Participant| {
            one.in_use.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        self.all().find(free).unwrap_or_else(|| self.add())
    }

    fn add(&self) -> &Participant {
        let new = Box::into_raw(Box::new(Participant::new()));
        // SAFETY: allocated one line above, and never freed while `self` exists.
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
            // SAFETY: what is linked was allocated in `add`, and is never freed while `self` exists.
            unsafe { at.as_ref() }
        };
        std::iter::successors(follow(&self.newest), move |one| follow(&one.next))
    }

    /// Waits until no thread has a hazard on the record. The caller has ended the life that users check, and executed
    /// its fence.
    pub(super) fn wait_for_hazards(&self, record: usize) {
        for cell in self.all().flat_map(|one| &one.hazards) {
            let mut looks = 0;
            while cell.load(Ordering::SeqCst) == record {
                looks += 1;
                pause(looks);
            }
        }
    }

    /// Whether a participant other than `own` makes a call on such parts.
    pub(super) fn has_call(&self, own: Option<&Participant>, is_such: impl Fn([usize; 2]) -> bool) -> bool {
        let is_own = |one: &Participant| own.is_some_and(|own| std::ptr::eq(one, own));
        // Loops, because there may be thousands of participants, and iterators are slow in builds that are not optimised.
        for one in self.all() {
            for [first, second] in &one.calls {
                let first = first.load(Ordering::SeqCst);
                if first != 0 && !is_own(one) && is_such([first, second.load(Ordering::SeqCst)]) {
                    return true;
                }
            }
        }
        false
    }

    /// Whether any thread has a lease on the record, for a caller that has just withdrawn one. Of two threads that do
    /// so at once, at least one sees that the other has withdrawn; since neither is a destroyer, both need a fence.
    pub(super) fn others_lease(&self, record: usize) -> bool {
        fence(Ordering::SeqCst);
        self.leased(record)
    }

    /// Whether any thread has a lease on the record.
    pub(super) fn leased(&self, record: usize) -> bool {
        self.all().flat_map(|one| &one.leases).any(|cell| cell.load(Ordering::SeqCst) == record)
    }
}
