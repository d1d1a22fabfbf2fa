//! Many threads, and owners dropped before, during and after their use.

// One test launches kernels.
#![allow(unsafe_code)]

use crate::harness::{current, is_simulated, parked, pushed, run, run_alone, times};
use custack::context::{Context, ContextStack, CurrentContext, UnownedContext};
use custack::driver::instrument;
use custack::error::{CudaError, CudaResult};
use custack::event::{Event, EventFlags};
use custack::launch;
use custack::memory::DeviceBuffer;
use custack::module::Module;
use custack::sim;
use custack::stream::{Stream, StreamFlags, StreamWaitEventFlags};
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
fn an_owner_dropped_after_its_users_destroys_the_context() {
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
        let rounds = if is_simulated() { times(60, 300) } else { 12 };
        sim::reuse_handles(true);
        let stop = AtomicBool::new(false);
        let (entered, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        let handle = std::sync::RwLock::new(parked().get_unowned());
        let started = Barrier::new(9);
        std::thread::scope(|scope| {
            for worker in 0..8 {
                let (stop, handle, entered, refused, started) =
                    (&stop, &handle, &entered, &refused, &started);
                scope.spawn(move || {
                    started.wait();
                    let mut last = false;
                    while !last {
                        // Once more after the stop, so that each thread has had a turn.
                        last = stop.load(Ordering::Relaxed);
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
            started.wait();
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
            let before = instrument::succeeded("cuCtxDestroy_v2");
            let start = Barrier::new(2);
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        #[allow(unsafe_code)]
                        // SAFETY: two owners of one context violate the contract, which is what is tested: the record
                        // lets only one of them destroy it.
                        let owner = unsafe { Context::from_raw(address as _) }.unwrap();
                        start.wait();
                        drop(owner);
                    });
                }
            });
            assert_eq!(instrument::succeeded("cuCtxDestroy_v2") - before, 1);
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

#[test]
fn more_threads_than_there_are_slots_take_turns() {
    run(|| {
        let ctx = parked();
        let all_here = Barrier::new(1100);
        std::thread::scope(|scope| {
            for _ in 0..1100 {
                let body = || {
                    ctx.synchronize().unwrap();
                    all_here.wait();
                    ctx.synchronize().unwrap();
                };
                std::thread::Builder::new().stack_size(64 * 1024).spawn_scoped(scope, body).unwrap();
            }
        });
    });
}

/// Sixteen threads enter, leave, push, set, clone and drop handles while owners come and go, until the given number of
/// contexts was made and destroyed.
#[test]
#[ignore = "started by hand, as it takes minutes on a GPU; see tests/README.md"]
fn stress() {
    let contexts =
        std::env::var("CUSTACK_STRESS_CONTEXTS").ok().and_then(|text| text.parse().ok()).unwrap_or(500);
    run_alone(|| {
        // The driver keeps some memory of its own after the first context.
        drop(parked());
        let before = memory_used();
        let stop = AtomicBool::new(false);
        let (entered, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        let handle = std::sync::RwLock::new(parked().get_unowned());
        std::thread::scope(|scope| {
            for worker in 0..16 {
                let (stop, handle, entered, refused) = (&stop, &handle, &entered, &refused);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let context: UnownedContext = handle.read().unwrap().clone();
                        let result = match worker % 4 {
                            0 => context.scoped(|_| context.clone().scoped(|current| current.synchronize())),
                            1 => ContextStack::push(&context).and_then(|()| ContextStack::pop().map(drop)),
                            2 => CurrentContext::set_current(&context)
                                .and_then(|()| ContextStack::pop().map(drop)),
                            _ => {
                                context.enter().and_then(|current| current.stream_priority_range().map(drop))
                            }
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
            for made in 1..=contexts {
                let owner = parked();
                let seen = entered.load(Ordering::Relaxed);
                *handle.write().unwrap() = owner.get_unowned();
                while entered.load(Ordering::Relaxed) == seen {
                    std::thread::yield_now();
                }
                drop(owner);
                if made % 50 == 0 {
                    println!("{made} contexts, memory used {:?}", memory_used());
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        let (entered, refused) = (entered.into_inner(), refused.into_inner());
        println!(
            "stress: {contexts} contexts, {entered} calls entered, {refused} refused, memory {before:?} before and {:?} after",
            memory_used()
        );
        assert!(entered > 0 && refused > 0);
    });
}

/// The used device memory in MiB, according to `nvidia-smi`; `None` if that is missing.
fn memory_used() -> Option<u64> {
    let mut tool = std::process::Command::new("nvidia-smi");
    tool.args(["--query-gpu=memory.used", "--format=csv,noheader,nounits"]);
    String::from_utf8(tool.output().ok()?.stdout).ok()?.lines().next()?.trim().parse().ok()
}

/// Destroys streams, events and modules while sixteen threads use others of the same context. The NVIDIA driver is said
/// to crash then; this many rounds of each kind did not.
#[test]
fn others_are_destroyed_while_sixteen_threads_use_theirs() {
    let rounds = std::env::var("CUSTACK_DESTROYS").ok().and_then(|text| text.parse().ok()).unwrap_or(50);
    run_alone(|| {
        let ctx = parked();
        let kernels = crate::module::KERNELS.as_bytes();
        let (stop, uses) = (AtomicBool::new(false), AtomicU64::new(0));
        let use_own = || {
            let (module, stream, event) = ctx.scoped(|_| {
                let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
                Ok((Module::load_from_bytes(kernels)?, stream, Event::new(EventFlags::DEFAULT)?))
            })?;
            let mut number = ctx.scoped(|_| DeviceBuffer::from_slice(&[1u32]))?;
            let pointer = number.as_device_ptr();
            while !stop.load(Ordering::Relaxed) {
                // SAFETY: the kernel takes these arguments and works on one number.
                unsafe { launch!(module.collatz<<<1, 1, 0, stream>>>(pointer, 1u32)) }?;
                event.record(&stream)?;
                stream.wait_event(&event, StreamWaitEventFlags::DEFAULT)?;
                stream.is_done()?;
                event.query()?;
                stream.synchronize()?;
                uses.fetch_add(1, Ordering::Relaxed);
                // The driver is not fair: without a pause, destroying makes hardly any progress.
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            CudaResult::Ok(())
        };
        let destroy = |kind: usize| {
            (0..rounds).try_for_each(|_| {
                ctx.scoped(|_| match kind {
                    0 => {
                        let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
                        let event = Event::new(EventFlags::DEFAULT)?;
                        event.record(&stream)?;
                        drop(stream);
                        drop(event);
                        Ok(())
                    }
                    1 => {
                        drop((Event::new(EventFlags::DEFAULT)?, Stream::new(StreamFlags::DEFAULT, None)?));
                        Ok(())
                    }
                    _ => Module::load_from_bytes(kernels)?.get_function(c"collatz").map(drop),
                })
            })
        };
        std::thread::scope(|scope| {
            let users: Vec<_> = (0..16).map(|_| scope.spawn(use_own)).collect();
            let destroyers: Vec<_> = (0..3)
                .map(|kind| {
                    scope.spawn({
                        let destroy = &destroy;
                        move || destroy(kind)
                    })
                })
                .collect();
            destroyers.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), Ok(())));
            stop.store(true, Ordering::Relaxed);
            users.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), Ok(())));
        });
        println!("destroyed: {rounds} of each kind beside {} uses", uses.into_inner());
    });
}
