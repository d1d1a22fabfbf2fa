//! The protocols that keep a context from being destroyed while it is used, in every order of their steps.
//!
//! The files under test are the crate's own, compiled here with a model checker's atomics. A cell stands for what they
//! protect: using a context reads it, destroying writes it, and the checker fails if the two can overlap.

// The checker's cell is read and written through pointers.
#![allow(unsafe_code)]

#[path = "../../src/liveness/life.rs"]
#[allow(dead_code, reason = "what only the crate itself uses")]
mod life;
#[path = "../../src/liveness/participant.rs"]
#[allow(dead_code, reason = "what only the crate itself uses")]
mod participant;
#[path = "../../src/liveness/queue.rs"]
#[allow(dead_code, reason = "what only the crate itself uses")]
mod queue;

mod waits;

/// The checker's primitives, which the protocols import.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(super) use std::sync::PoisonError;

    /// The kernel's fence acts on every running thread; here each thread executes its own, as the crate does where the
    /// kernel has no such call or has lost it.
    pub(super) fn publish(cell: &AtomicUsize, what: usize) {
        cell.store(what, Ordering::Relaxed);
        loom::sync::atomic::fence(Ordering::SeqCst);
    }

    pub(super) fn pause(_looks: u32) {
        loom::thread::yield_now();
    }
}

use life::{Holder, Life, Phase};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use participant::{Participants, Published};
use queue::{Queue, State};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use sync::{AtomicPtr, AtomicU64, AtomicUsize, Condvar, Mutex};

const CONTEXT: usize = 0x1000;
const ID: u64 = 1;

/// A context, the memory behind its handle, and the participants.
struct World {
    life: Life,
    memory: UnsafeCell<u32>,
    participants: Participants,
    destroyed: AtomicU32,
}

// SAFETY: the checker checks that the cell is used by one thread at a time.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn new() -> Arc<World> {
        let life = Life::of(AtomicU64::new(0), AtomicUsize::new(0));
        life.begin(ID);
        let participants = Participants::of(AtomicPtr::new(ptr::null_mut()));
        Arc::new(World { life, memory: UnsafeCell::new(7), participants, destroyed: AtomicU32::new(0) })
    }

    /// What the driver does with the handle during a call.
    fn driver_reads(&self) -> u32 {
        // SAFETY: the checker reports an overlap with the write in `claim`.
        self.memory.with(|memory| unsafe { *memory })
    }

    /// The steps of a push.
    fn push(&self) -> Option<u32> {
        let participant = self.participants.join();
        let hazard = Published::new(participant.hazard().unwrap(), CONTEXT);
        let read = self.life.is_alive(ID).then(|| self.driver_reads());
        drop(hazard);
        participant.give_up();
        read
    }

    /// The steps of a call on a stream, and of freeing what was made in a retiring context.
    fn call(&self, also_retiring: bool, within: impl FnOnce()) -> Option<u32> {
        let good = |life: &Life| match also_retiring {
            false => life.is_alive(ID),
            true => matches!(life.settled_phase(ID), Phase::Alive | Phase::Retiring),
        };
        self.call_if(good, within)
    }

    /// The steps of freeing pinned memory.
    fn free(&self) -> Option<u32> {
        self.call_if(|life| life.phase(ID) != Phase::Dead, || {})
    }

    /// The steps of a call on a handle, while the caller has a pin: without a lease.
    fn call_pinned(&self) -> Option<u32> {
        (!self.life.is_dead(ID)).then(|| self.driver_reads())
    }

    fn call_if(&self, good: impl FnOnce(&Life) -> bool, within: impl FnOnce()) -> Option<u32> {
        let participant = self.participants.join();
        let lease = Published::new(participant.lease().unwrap(), CONTEXT);
        let good = good(&self.life);
        let read = good.then(|| {
            within();
            self.driver_reads()
        });
        drop(lease);
        participant.give_up();
        fence();
        // Whoever leaves a retiring context behind destroys it; the crate retires it.
        if self.life.retiring() == Some(ID) {
            self.claim();
        }
        read
    }

    fn claim(&self) -> bool {
        let claimed = self.life.claim(
            ID,
            fence,
            || self.participants.wait_for_hazards(CONTEXT),
            || self.participants.leased(CONTEXT),
        );
        if claimed {
            // SAFETY: the checker reports an overlap with a read.
            self.memory.with_mut(|memory| unsafe { *memory = 0 });
            self.destroyed.fetch_add(1, Ordering::SeqCst);
            assert!(self.life.step(ID, Phase::Destroying, Phase::Dead));
        }
        claimed
    }

    /// The steps of dropping the owner.
    fn drop_owner(&self) -> bool {
        self.life.step(ID, Phase::Alive, Phase::Retiring) && self.claim()
    }

    /// At the end the context was destroyed once, and no call can use it any more.
    fn is_over(&self) {
        assert_eq!(self.destroyed.load(Ordering::SeqCst), 1, "destroyed in the end, and once");
        assert_eq!((self.push(), self.call(true, || {})), (None, None));
        assert_eq!(self.life.phase(ID), Phase::Dead);
    }
}

/// The user's side of the fence after a lease, and the destroyer's side.
fn fence() {
    loom::sync::atomic::fence(sync::Ordering::SeqCst);
}

fn here(world: &Arc<World>, f: impl FnOnce(&World) + 'static) -> loom::thread::JoinHandle<()> {
    let world = world.clone();
    loom::thread::spawn(move || f(&world))
}

/// All orders if there are few steps; otherwise those with at most three interruptions, or one in a short run.
enum Orders {
    All,
    Interrupted3,
}
use Orders::{All, Interrupted3};

fn model(orders: Orders, test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = matches!(orders, Interrupted3).then_some(crate::harness::times(1, 3));
    model.check(test);
}

#[test]
fn a_hazard_never_meets_the_destroyer_that_waits_for_it() {
    model(All, || {
        let world = World::new();
        let user = here(&world, |world| assert_ne!(world.push(), Some(0), "freed"));
        assert!(world.drop_owner(), "hazards are waited for, so the owner destroys");
        user.join().unwrap();
        world.is_over();
    });
}

#[test]
fn a_lease_never_meets_the_destroyer_and_the_last_of_the_two_destroys() {
    model(All, || {
        let world = World::new();
        let user = here(&world, |world| assert_ne!(world.call(false, || {}), Some(0), "freed"));
        world.drop_owner();
        user.join().unwrap();
        world.is_over();
    });
}

#[test]
fn of_two_leases_withdrawn_at_once_one_destroys_the_context() {
    // The owner has been here and found the leases. After withdrawing, the crate's users have no fence of their own:
    // that one is for the destroyer.
    model(All, || {
        let world = World::new();
        assert!(world.life.step(ID, Phase::Alive, Phase::Retiring));
        let seen = Arc::new(AtomicUsize::new(0));
        let publish = || {
            let cell = world.participants.join().lease().unwrap();
            std::mem::forget(Published::new(cell, CONTEXT));
            ptr::from_ref(cell).expose_provenance()
        };
        let (mine, yours) = (publish(), publish());
        let withdraw = |world: &World, cell: usize, seen: &AtomicUsize| {
            // SAFETY: a cell of a participant, which lives as long as the world. Dropping does the same.
            unsafe { &*ptr::with_exposed_provenance::<AtomicUsize>(cell) }.store(0, sync::Ordering::Release);
            if !world.participants.others_lease(CONTEXT) {
                seen.fetch_add(1, sync::Ordering::Relaxed);
            }
        };
        let other = {
            let seen = seen.clone();
            here(&world, move |world| withdraw(world, yours, &seen))
        };
        withdraw(&world, mine, &seen);
        other.join().unwrap();
        assert_ne!(seen.load(sync::Ordering::Relaxed), 0, "each left it to the other");
    });
}

#[test]
fn two_leases_and_an_owner() {
    model(Interrupted3, || {
        let world = World::new();
        let one = here(&world, |world| assert_ne!(world.call(false, || {}), Some(0)));
        let two = here(&world, |world| assert_ne!(world.call(true, || {}), Some(0)));
        world.drop_owner();
        one.join().unwrap();
        two.join().unwrap();
        world.is_over();
    });
}

#[test]
fn what_cannot_be_freed_because_of_a_claim_goes_with_the_context() {
    // Another thread's lease has the claim given up. What was refused meanwhile would be left in a context that stays.
    model(Interrupted3, || {
        let world = World::new();
        let blocked = here(&world, |world| assert_ne!(world.call(false, || {}), Some(0)));
        let frees = here(&world, |world| {
            if world.call(true, || {}).is_none() {
                let phase = world.life.phase(ID);
                assert!(matches!(phase, Phase::Destroying | Phase::Dead), "not destroyed, and {phase:?}");
            }
        });
        world.drop_owner();
        blocked.join().unwrap();
        frees.join().unwrap();
        world.is_over();
    });
}

#[test]
fn a_hazard_a_lease_and_an_owner() {
    model(Interrupted3, || {
        let world = World::new();
        let one = here(&world, |world| assert_ne!(world.push(), Some(0)));
        let two = here(&world, |world| assert_ne!(world.call(false, || {}), Some(0)));
        world.drop_owner();
        one.join().unwrap();
        two.join().unwrap();
        world.is_over();
    });
}

#[test]
fn memory_freed_late_keeps_the_context_until_it_is_freed() {
    // A buffer of a context whose owner is being dropped: freed under a lease on the retiring context, then unpinned.
    model(All, || {
        let world = World::new();
        world.life.pin();
        let buffer = here(&world, |world| {
            assert_eq!(world.call(true, || {}), Some(7), "pinned memory can always be freed");
            if world.life.unpin() && world.life.retiring() == Some(ID) {
                world.claim();
            }
        });
        world.drop_owner();
        buffer.join().unwrap();
        world.is_over();
    });
}

#[test]
fn a_pin_made_while_the_owner_is_dropped_is_either_refused_or_kept() {
    model(Interrupted3, || {
        let world = World::new();
        let user = here(&world, |world| {
            let mut pinned = false;
            world.call(false, || {
                world.life.pin();
                pinned = true;
            });
            if pinned {
                assert_eq!(world.call_pinned(), Some(7), "pinned, and there");
                assert_eq!(world.free(), Some(7), "and can be freed");
                if world.life.unpin() && world.life.retiring() == Some(ID) {
                    world.claim();
                }
            }
        });
        world.drop_owner();
        user.join().unwrap();
        world.is_over();
    });
}

#[test]
fn two_pins_keep_the_context_for_calls_without_a_lease_until_both_are_given_back() {
    model(Interrupted3, || {
        let world = World::new();
        world.life.pin();
        world.life.pin();
        let give_back = |world: &World| {
            assert_eq!(world.call_pinned(), Some(7), "also while the owner is dropped, without a lease");
            if world.life.unpin() && world.life.retiring() == Some(ID) {
                world.claim();
            }
        };
        let one = here(&world, give_back);
        let two = here(&world, give_back);
        world.drop_owner();
        one.join().unwrap();
        two.join().unwrap();
        world.is_over();
    });
}

#[test]
fn of_two_owners_one_destroys() {
    model(All, || {
        let world = World::new();
        let first = here(&world, |world| {
            world.drop_owner();
        });
        world.drop_owner();
        first.join().unwrap();
        world.is_over();
    });
}

#[test]
fn a_thread_that_joins_while_a_destroyer_looks_for_hazards_is_seen() {
    // No thread has joined before: the participant itself is allocated while the destroyer walks the list.
    model(Interrupted3, || {
        let world = World::new();
        let one = here(&world, |world| assert_ne!(world.push(), Some(0)));
        let two = here(&world, |world| assert_ne!(world.push(), Some(0)));
        world.drop_owner();
        one.join().unwrap();
        two.join().unwrap();
        world.is_over();
    });
}

#[test]
fn a_participant_given_up_at_a_threads_end_serves_the_next_thread() {
    model(Interrupted3, || {
        let world = World::new();
        let users = here(&world, |world| {
            assert_ne!(world.push(), Some(0));
            assert_ne!(world.call(false, || {}), Some(0));
        });
        world.drop_owner();
        users.join().unwrap();
        world.is_over();
    });
}

#[test]
fn nested_uses_of_one_thread_need_one_participant() {
    model(All, || {
        let world = World::new();
        let user = here(&world, |world| {
            let participant = world.participants.join();
            let outer = Published::new(participant.lease().unwrap(), CONTEXT);
            if world.life.is_alive(ID) {
                let inner = Published::new(participant.lease().unwrap(), CONTEXT);
                let hazard = Published::new(participant.hazard().unwrap(), CONTEXT);
                assert_eq!(world.driver_reads(), 7);
                drop(hazard);
                drop(inner);
                assert_eq!(world.driver_reads(), 7, "the outer lease is still out");
            }
            drop(outer);
            participant.give_up();
            fence();
            if world.life.retiring() == Some(ID) {
                world.claim();
            }
        });
        world.drop_owner();
        user.join().unwrap();
        world.is_over();
    });
}

#[test]
fn a_handle_that_was_dead_once_stays_dead() {
    model(All, || {
        let world = World::new();
        let user = here(&world, |world| {
            let first = world.life.is_alive(ID);
            let second = world.push().is_some();
            let third = world.life.is_alive(ID);
            assert!((first || !second) && (second || !third), "no dead context comes back to life");
        });
        world.drop_owner();
        user.join().unwrap();
        world.is_over();
    });
}

#[test]
fn what_is_retired_is_done_before_the_waiting_ends() {
    model(Interrupted3, || {
        let queue = Arc::new(Queue::of(Mutex::new(State::new()), Condvar::new()));
        let done = Arc::new(AtomicU64::new(0));
        assert!(queue.wants_worker() && !queue.wants_worker());
        let worker = {
            let (queue, done) = (queue.clone(), done.clone());
            loom::thread::spawn(move || {
                for _ in 0..2 {
                    let job: u64 = queue.next();
                    done.fetch_add(job, sync::Ordering::Relaxed);
                    queue.done();
                }
            })
        };
        let other = {
            let queue = queue.clone();
            loom::thread::spawn(move || queue.push(1))
        };
        queue.push(10);
        assert!(queue.wait());
        assert!(done.load(sync::Ordering::Relaxed) >= 10, "the caller's own is done");
        other.join().unwrap();
        assert!(queue.wait());
        assert_eq!(done.load(sync::Ordering::Relaxed), 11);
        worker.join().unwrap();
    });
}

#[test]
fn what_is_expected_has_come_before_the_waiting_ends_and_needs_no_worker() {
    model(All, || {
        let queue = Arc::new(Queue::<u64>::of(Mutex::new(State::new()), Condvar::new()));
        let come = Arc::new(AtomicU64::new(0));
        queue.expect();
        let other = {
            let (queue, come) = (queue.clone(), come.clone());
            loom::thread::spawn(move || {
                come.store(1, sync::Ordering::Relaxed);
                queue.done();
            })
        };
        assert!(queue.wait());
        assert_eq!(come.load(sync::Ordering::Relaxed), 1);
        other.join().unwrap();
    });
}

#[test]
fn waiting_fails_if_no_worker_can_be_started() {
    model(All, || {
        let queue = Arc::new(Queue::of(Mutex::new(State::new()), Condvar::new()));
        let other = {
            let queue = queue.clone();
            loom::thread::spawn(move || {
                if queue.wants_worker() {
                    queue.has_no_worker();
                }
            })
        };
        queue.push(1);
        while !queue.wait() {
            if queue.wants_worker() {
                assert_eq!(queue.next(), 1);
                queue.done();
            }
        }
        other.join().unwrap();
    });
}

/// A capture, the memory of it that the driver frees at its end, and the participants.
struct Captured {
    ending: AtomicUsize,
    memory: UnsafeCell<u32>,
    participants: Participants,
}

// SAFETY: the checker checks that the cell is used by one thread at a time.
unsafe impl Sync for Captured {}
// SAFETY: as above.
unsafe impl Send for Captured {}

impl Captured {
    /// The steps of a call on the stream or the event at this place of its parts; it is made unless the capture is ended.
    fn call(&self, parts: [usize; 2]) {
        let participant = self.participants.join();
        let call = Published::new(participant.call().unwrap(), parts);
        if self.ending.load(sync::Ordering::Relaxed) == 0 {
            // SAFETY: the checker reports an overlap with the write in `end`.
            self.memory.with(|memory| unsafe { *memory });
        }
        drop(call);
        participant.give_up();
    }

    /// The steps of ending it.
    fn end(&self) {
        self.ending.store(1, sync::Ordering::SeqCst);
        fence();
        while self.participants.has_call(None, |parts| parts.contains(&CONTEXT)) {
            loom::thread::yield_now();
        }
        // SAFETY: the checker reports an overlap with a read.
        self.memory.with_mut(|memory| unsafe { *memory = 0 });
    }
}

#[test]
fn a_call_never_meets_the_end_of_a_capture() {
    for parts in [[CONTEXT, 0], [1, CONTEXT]] {
        model(All, move || {
            let participants = Participants::of(AtomicPtr::new(ptr::null_mut()));
            let captured = Captured { ending: AtomicUsize::new(0), memory: UnsafeCell::new(7), participants };
            let captured = Arc::new(captured);
            let caller = {
                let captured = captured.clone();
                loom::thread::spawn(move || captured.call(parts))
            };
            captured.end();
            caller.join().unwrap();
        });
    }
}

#[test]
fn a_green_context_is_taken_by_one_thread_at_a_time_also_where_its_predecessor_is_let_go_late() {
    loom::model(|| {
        let world = Arc::new((Holder::of(AtomicU64::new(0)), UnsafeCell::new(0u32)));
        // A thread has an earlier context of this record on its stack, destroyed; then the record serves the next.
        assert_eq!(world.0.take(3), Ok(true));
        world.0.begin();
        let takes = |thread: u64| {
            let world = Arc::clone(&world);
            loom::thread::spawn(move || {
                let taken = world.0.take(thread);
                if taken == Ok(true) {
                    assert_eq!(world.0.take(thread), Ok(false));
                    // SAFETY: the checker reports an overlap.
                    world.1.with_mut(|cell| unsafe { *cell += 1 });
                    world.0.let_go(thread);
                }
                taken.is_ok()
            })
        };
        let (one, two) = (takes(1), takes(2));
        world.0.let_go(3);
        let taken = [one.join().unwrap(), two.join().unwrap()];
        assert!(taken.contains(&true));
        assert_eq!(world.0.take(3), Ok(true), "all have let go");
    });
}

#[test]
fn all_that_a_thread_publishes_at_once_is_found() {
    loom::model(|| {
        let world = World::new();
        let mine = world.participants.join();
        let some = || 1..20;
        let leases: Vec<_> = some().map_while(|record| Some(Published::new(mine.lease()?, record))).collect();
        let hazards: Vec<_> =
            some().map_while(|record| Some(Published::new(mine.hazard()?, record))).collect();
        let calls: Vec<_> = some().map_while(|key| Some(Published::new(mine.call()?, [key, 0]))).collect();
        assert_eq!((leases.len(), hazards.len(), calls.len()), (6, 2, 3));
        assert_eq!(some().filter(|record| world.participants.leased(*record)).count(), 6);
        let has_call = |key| world.participants.has_call(None, |parts| parts == [key, 0]);
        assert_eq!(some().filter(|key| has_call(*key)).count(), 3);
        assert!(!world.participants.has_call(Some(mine), |_| true), "its own");
        assert!(!has_call(0), "nothing is a call on nothing");
        drop(calls);
        assert!(!world.participants.has_call(None, |_| true));
        drop((leases, hazards));
        mine.give_up();
        assert!(ptr::eq(world.participants.join(), mine), "it serves the next thread");
    });
}
