//! Many threads, and owners that go before, during and after their users.

use crate::harness::{current, is_simulated, parked, pushed, run, run_alone};
use custack::context::{Context, ContextStack, CurrentContext, UnownedContext};
use custack::driver::{account, sim};
use custack::error::CudaError;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[test]
fn one_context_on_sixteen_threads() {
    run(|| {
        let ctx = parked();
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        ctx.scoped(|current| {
                            assert_eq!(CurrentContext::get_current()?, **current);
                            ctx.scoped(|_| Ok(()))
                        })
                        .unwrap();
                    }
                    assert!(current().is_null());
                });
            }
        });
    });
}

#[test]
fn an_owner_dropped_before_its_users_start_refuses_them_all() {
    run(|| {
        let handle = parked().get_unowned();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_eq!(handle.scoped(|_| Ok(())), Err(CudaError::ContextIsDestroyed)));
            }
        });
    });
}

#[test]
fn an_owner_dropped_while_users_are_inside_turns_their_calls_into_errors() {
    run(|| {
        let ctx = parked();
        let handle = ctx.get_unowned();
        let (inside, gone) = (Barrier::new(9), Barrier::new(9));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let guard = handle.enter().unwrap();
                    inside.wait();
                    gone.wait();
                    assert_eq!(guard.synchronize(), Err(CudaError::ContextIsDestroyed));
                    assert_eq!(CurrentContext::synchronize(), Err(CudaError::ContextIsDestroyed));
                    assert_eq!(handle.enter().err(), Some(CudaError::ContextIsDestroyed));
                    drop(guard);
                    assert!(current().is_null());
                });
            }
            inside.wait();
            drop(ctx);
            gone.wait();
        });
    });
}

#[test]
fn an_owner_dropped_after_its_users_is_the_plain_case() {
    run_alone(|| {
        let ctx = parked();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| ctx.synchronize().unwrap());
            }
        });
        assert!(Context::drop(ctx).is_ok());
    });
}

#[test]
fn owners_come_and_go_under_load_and_every_refusal_is_context_is_destroyed() {
    run_alone(|| {
        let rounds = if is_simulated() { 300 } else { 12 };
        sim::reuse_handles(true);
        let stop = AtomicBool::new(false);
        let (entered, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        let handle = std::sync::RwLock::new(parked().get_unowned());
        std::thread::scope(|scope| {
            for worker in 0..8 {
                let (stop, handle, entered, refused) = (&stop, &handle, &entered, &refused);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let context: UnownedContext = handle.read().unwrap().clone();
                        let result = match worker % 4 {
                            0 => context.scoped(|current| current.synchronize()),
                            1 => ContextStack::push(&context).and_then(|()| ContextStack::pop().map(drop)),
                            2 => CurrentContext::set_current(&context)
                                .and_then(|()| ContextStack::pop().map(drop)),
                            _ => context.clone().stream_priority_range().map(drop),
                        };
                        match result {
                            Ok(()) => entered.fetch_add(1, Ordering::Relaxed),
                            Err(CudaError::ContextIsDestroyed) => refused.fetch_add(1, Ordering::Relaxed),
                            Err(error) => panic!("{error}"),
                        };
                    }
                    assert!(current().is_null());
                });
            }
            for _ in 0..rounds {
                let owner = parked();
                *handle.write().unwrap() = owner.get_unowned();
                std::thread::yield_now();
                drop(owner);
            }
            stop.store(true, Ordering::Relaxed);
        });
        sim::reuse_handles(false);
        assert!(entered.load(Ordering::Relaxed) + refused.load(Ordering::Relaxed) > 0);
    });
}

#[test]
fn two_threads_that_destroy_one_context_destroy_it_once() {
    run_alone(|| {
        for _ in 0..if is_simulated() { 100 } else { 2 } {
            let ctx = parked();
            let raw = ctx.into_raw();
            let address = raw.addr();
            let before = account::succeeded("cuCtxDestroy_v2");
            let start = Barrier::new(2);
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        #[allow(unsafe_code)]
                        // SAFETY: two owners of one context are against the contract, which is what is tested: the
                        // record lets one of them destroy it.
                        let owner = unsafe { Context::from_raw(address as _) }.unwrap();
                        start.wait();
                        drop(owner);
                    });
                }
            });
            assert_eq!(account::succeeded("cuCtxDestroy_v2") - before, 1);
        }
    });
}

#[test]
fn stacks_of_threads_are_their_own() {
    run(|| {
        let a = pushed();
        let b = parked();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(CurrentContext::get_current().unwrap().is_null());
                CurrentContext::set_current(&b).unwrap();
                assert_eq!(ContextStack::depth(), 1);
            });
        });
        assert_eq!((current(), ContextStack::depth()), (a.as_raw(), 1));
        ContextStack::pop().unwrap();
    });
}

#[test]
fn thousands_of_threads_reuse_their_slots() {
    run(|| {
        let ctx = parked();
        for _ in 0..if is_simulated() { 2000 } else { 500 } {
            std::thread::scope(|scope| {
                scope.spawn(|| ctx.synchronize().unwrap());
            });
        }
    });
}
