//! The slot between a future and the thread that completes it, in every order of their steps.

#[path = "../../../src/future/slot.rs"]
mod slot;

/// The checker's primitives, which the slot imports.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, Ordering};
    pub(super) use loom::sync::{Mutex, MutexGuard};
    pub(super) use std::sync::PoisonError;
}

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

fn complete(slot: &Slot<u32>) {
    if let Some(waker) = slot.complete(7) {
        waker.wake();
    }
}

#[test]
fn a_future_that_waits_is_woken_and_one_that_is_not_woken_has_the_outcome() {
    loom::model(|| {
        let slot = Arc::new(Slot::new());
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
        let slot = Arc::new(Slot::new());
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
fn a_future_that_goes_leaves_its_waker_nowhere() {
    loom::model(|| {
        let slot = Arc::new(Slot::new());
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
        let forgotten = slot.forget_waker().is_some();
        driver.join().unwrap();
        let was_pending = polled.is_pending();
        assert_eq!(usize::from(forgotten) + woken.load(Ordering::SeqCst), usize::from(was_pending));
        assert_eq!(std::sync::Arc::strong_count(&told), 1);
    });
}
