//! The protocol that keeps destroying and entering apart, in every order that its steps can take.
//!
//! The file under test is the crate's own, compiled here over a model checker's atomics. What it protects is played by
//! a cell: entering reads it, destroying writes it, and the checker fails if the two can meet.

// The checker's cell is read and written through pointers.
#![allow(unsafe_code)]

#[path = "../../src/context/protocol.rs"]
#[allow(dead_code, reason = "what only the crate itself uses")]
mod protocol;

/// What the protocol is made of, here: the checker's own.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

    /// The system call of the real one puts a fence into every thread that runs; here each has its own.
    pub(super) fn announce(slot: &AtomicUsize, what: usize) {
        slot.store(what, Ordering::Relaxed);
        loom::sync::atomic::fence(Ordering::SeqCst);
    }

    pub(super) fn everyone_sees() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }

    pub(super) fn pause(_looks: u32) {
        loom::thread::yield_now();
    }
}

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use protocol::{Life, Slot, Slots};
use sync::{AtomicBool, AtomicU64, AtomicUsize};

const CONTEXT: usize = 0x1000;
const ID: u64 = 1;

/// A context, what lies behind its handle, and the slots of two threads.
struct World {
    life: Life,
    memory: UnsafeCell<u32>,
    slots: Slots<2>,
}

// SAFETY: that the cell is used by one thread at a time is what the checker checks.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn new() -> Arc<World> {
        let slot = || Slot { entering: AtomicUsize::new(0), taken: AtomicBool::new(false) };
        let slots = Slots { slots: [slot(), slot()], used: AtomicUsize::new(0) };
        Arc::new(World { life: Life(AtomicU64::new(ID)), memory: UnsafeCell::new(7), slots })
    }

    /// What a push does: the driver reads what is behind the handle.
    fn enter(&self) -> Option<u32> {
        let slot = self.slots.claim().expect("two threads, two slots");
        // SAFETY: the checker says if this meets the write below.
        let read = slot.enter(CONTEXT, &self.life, ID, || self.memory.with(|memory| unsafe { *memory }));
        slot.give_up();
        read
    }

    /// What dropping the owner does: the driver frees what is behind the handle.
    fn destroy(&self) -> bool {
        if !self.life.take(ID) {
            return false;
        }
        self.slots.wait_until_left(CONTEXT);
        // SAFETY: the checker says if this meets the read above.
        self.memory.with_mut(|memory| unsafe { *memory = 0 });
        true
    }
}

fn here(world: &Arc<World>, f: impl FnOnce(&World) + 'static) -> loom::thread::JoinHandle<()> {
    let world = world.clone();
    loom::thread::spawn(move || f(&world))
}

#[test]
fn entering_never_meets_destroying() {
    loom::model(|| {
        let world = World::new();
        let user = here(&world, |world| assert_ne!(world.enter(), Some(0), "freed"));
        assert!(world.destroy());
        assert_eq!(world.enter(), None, "refused from then on");
        user.join().unwrap();
    });
}

#[test]
fn of_two_destroyers_one_destroys() {
    loom::model(|| {
        let world = World::new();
        let first = here(&world, |world| {
            world.destroy();
        });
        world.destroy();
        first.join().unwrap();
        assert_eq!(world.enter(), None);
    });
}

#[test]
fn two_who_enter_and_one_who_destroys() {
    // Every order of three threads takes minutes (and passes); here those in which a thread is interrupted twice.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let world = World::new();
        let one = here(&world, |world| assert_ne!(world.enter(), Some(0)));
        let two = here(&world, |world| assert_ne!(world.enter(), Some(0)));
        assert!(world.destroy());
        one.join().unwrap();
        two.join().unwrap();
    });
}

#[test]
fn a_slot_given_up_at_a_threads_end_serves_the_next_thread() {
    loom::model(|| {
        let world = World::new();
        let users = here(&world, |world| {
            // One thread ends and the next begins: both find the first slot.
            assert_ne!(world.enter(), Some(0));
            assert_ne!(world.enter(), Some(0));
        });
        assert!(world.destroy());
        users.join().unwrap();
    });
}

#[test]
fn handles_cloned_and_dropped_touch_nothing_that_a_destroyer_waits_for() {
    loom::model(|| {
        let world = World::new();
        let user = here(&world, |world| {
            // A clone is a copy of an address and a number; asking whether it lives is a read.
            let alive = world.life.is(ID);
            let entered = world.enter().is_some();
            assert!(alive || !entered, "nobody comes back to life");
        });
        assert!(world.destroy());
        user.join().unwrap();
    });
}

#[test]
fn a_life_given_back_after_a_failed_destroy_can_be_entered() {
    loom::model(|| {
        let world = World::new();
        let user = here(&world, |world| {
            world.enter();
        });
        assert!(world.life.take(ID));
        world.slots.wait_until_left(CONTEXT);
        world.life.give_back(ID);
        user.join().unwrap();
        assert_eq!(world.enter(), Some(7));
    });
}
