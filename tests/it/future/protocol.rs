//! The slot between a future and the thread that completes it, and the inbox of that thread, in every order of their steps.

#[path = "../../../src/future/inbox.rs"]
mod inbox;
#[path = "../../../src/future/slot.rs"]
mod slot;

/// The checker's primitives, which both import.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(super) use std::sync::PoisonError;
}

use inbox::{Inbox, Kept};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use slot::Slot;
use std::task::{Poll, Wake, Waker};

/// Counts its calls. The checker's counter cannot be in a waker, which is the standard library's.
struct Told(std::sync::atomic::AtomicUsize);

impl Wake for Told {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

fn told() -> (std::sync::Arc<Told>, Waker) {
    let told = std::sync::Arc::new(Told(std::sync::atomic::AtomicUsize::new(0)));
    (std::sync::Arc::clone(&told), told.into())
}

impl Told {
    fn count(&self) -> usize {
        self.0.load(std::sync::atomic::Ordering::SeqCst)
    }
}

fn complete(slot: &Slot<u32, ()>) {
    if let Some(waker) = slot.complete(7) {
        waker.wake();
    }
}

#[test]
fn a_future_that_waits_is_woken_and_one_that_is_not_woken_has_the_outcome() {
    loom::model(|| {
        let slot = Arc::new(Slot::new(|_| {}));
        let driver = {
            let slot = Arc::clone(&slot);
            loom::thread::spawn(move || complete(&slot))
        };
        let (told, waker) = told();
        let polled = slot.poll(&waker);
        driver.join().unwrap();
        match polled {
            Poll::Ready(outcome) => assert_eq!((outcome, told.count()), (7, 0)),
            Poll::Pending => {
                assert_eq!(told.count(), 1, "the wake-up is not lost");
                assert!(slot.is_done());
                assert_eq!(slot.poll(&waker), Poll::Ready(7));
            }
        }
    });
}

#[test]
fn of_two_wakers_the_last_is_called() {
    loom::model(|| {
        let slot = Arc::new(Slot::new(|_| {}));
        let driver = {
            let slot = Arc::clone(&slot);
            loom::thread::spawn(move || complete(&slot))
        };
        let ((first, one), (second, other)) = (told(), told());
        if slot.poll(&one).is_pending() && slot.poll(&other).is_pending() {
            driver.join().unwrap();
            assert_eq!((first.count(), second.count()), (0, 1));
        }
    });
}

#[test]
fn a_future_that_goes_leaves_its_waker_and_its_outcome_nowhere() {
    static UNWANTED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    loom::model(|| {
        UNWANTED.store(0, std::sync::atomic::Ordering::SeqCst);
        let slot = Arc::new(Slot::new(|outcome| {
            UNWANTED.fetch_add(outcome, std::sync::atomic::Ordering::SeqCst);
        }));
        let woken = Arc::new(AtomicUsize::new(0));
        let driver = {
            let (slot, woken) = (Arc::clone(&slot), Arc::clone(&woken));
            loom::thread::spawn(move || {
                if let Some(waker) = slot.complete(7) {
                    woken.fetch_add(1, Ordering::SeqCst);
                    drop(waker);
                }
            })
        };
        let (told, waker) = told();
        let polled = slot.poll(&waker);
        drop(waker);
        let kept = std::sync::Arc::new(());
        let forgotten = slot.abandon(|| std::sync::Arc::clone(&kept)).is_some();
        driver.join().unwrap();
        // Whoever has the slot last lets go of it, after the outcome.
        drop(slot.take_kept());
        assert_eq!(std::sync::Arc::strong_count(&kept), 1);
        let was_pending = polled.is_pending();
        assert_eq!(usize::from(forgotten) + woken.load(Ordering::SeqCst), usize::from(was_pending));
        assert_eq!(std::sync::Arc::strong_count(&told), 1);
        let unwanted = UNWANTED.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!(
            unwanted,
            if was_pending { 7 } else { 0 },
            "polled, or given to what cares for it, and once"
        );
    });
}

#[test]
fn a_thread_that_sleeps_gets_all_that_two_others_add() {
    loom::model(|| {
        let inbox = Arc::new(Inbox::new());
        let adders: Vec<_> = [1, 2]
            .map(|work| {
                let inbox = Arc::clone(&inbox);
                loom::thread::spawn(move || inbox.add(work))
            })
            .into();
        // If a wake-up were lost, the last of these would wait for ever, which the checker reports.
        let mut taken = Vec::new();
        while taken.len() < 2 {
            let some = inbox.take(None);
            assert!(!some.is_empty());
            taken.extend(some);
        }
        adders.into_iter().for_each(|adder| adder.join().unwrap());
        taken.sort_unstable();
        assert_eq!((taken, inbox.count()), (vec![1, 2], 0));
    });
}

#[test]
fn what_the_count_shows_is_there_to_be_taken() {
    loom::model(|| {
        let inbox = Arc::new(Inbox::new());
        let adder = {
            let inbox = Arc::clone(&inbox);
            loom::thread::spawn(move || inbox.add(1))
        };
        let shown = inbox.count();
        let taken = inbox.take(Some(std::time::Instant::now()));
        assert!(shown <= taken.len());
        adder.join().unwrap();
        assert_eq!(inbox.count() + taken.len(), 1);
    });
}

/// A completion as two threads share it, and the thread that looks: one asks or drops while the other polls.
#[test]
fn work_that_two_threads_hand_over_is_looked_at_once_and_its_future_is_woken() {
    loom::model(|| {
        let shared = Arc::new((Kept::new(Some(())), Slot::new(|_| {}), Inbox::new()));
        let hand_over =
            |shared: &(Kept<()>, Slot<u32, ()>, Inbox<()>)| shared.0.hand_over(|work| shared.2.add(work));
        let looking = {
            let shared = Arc::clone(&shared);
            loom::thread::spawn(move || {
                assert_eq!(shared.2.take(None).len(), 1);
                complete(&shared.1);
            })
        };
        let asking = {
            let shared = Arc::clone(&shared);
            loom::thread::spawn(move || hand_over(&shared))
        };
        let (told, waker) = told();
        let polled = shared.1.poll(&waker);
        hand_over(&shared);
        asking.join().unwrap();
        looking.join().unwrap();
        match polled {
            Poll::Ready(outcome) => assert_eq!((outcome, told.count()), (7, 0)),
            Poll::Pending => {
                assert_eq!(told.count(), 1);
                assert_eq!(shared.1.poll(&waker), Poll::Ready(7));
            }
        }
        assert_eq!(shared.2.count(), 0, "it was handed over once");
    });
}

#[test]
fn work_that_is_looked_at_here_and_not_over_is_kept() {
    loom::model(|| {
        let mut kept = Kept::new(Some(1));
        assert!(!kept.look(|_| false) && kept.is_kept());
        assert!(kept.look(|_| true));
        assert!(!kept.is_kept() && !kept.look(|_| true), "it is gone");
        kept.hand_over(|_| panic!("it is gone"));
    });
}
