//! Streams, memory and modules in unexpected circumstances: while their context is being destroyed, when a thread ends,
//! during a panic, on other threads, in other orders. And custack beside other code that changes its stack and destroys
//! its own contexts at the worst moments.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::harness::{
    current, device, drain, is_simulated, other, parked, pushed, run, run_alone, skip, within,
};
use crate::module::KERNELS;
use custack::context::{Context, ContextStack, CurrentContext, PrimaryContext, wait_until_retired};
use custack::driver::instrument::{self, When};
use custack::error::{CudaError, CudaResult};
use custack::event::{Event, EventFlags};
use custack::launch;
use custack::memory::{
    CopyDestination, DeviceBox, DeviceBuffer, LockedBuffer, UnifiedBox, UnifiedBuffer, UnifiedPointer,
};
use custack::module::Module;
use custack::sim;
use custack::stream::{Stream, StreamFlags};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One use of each kind of resource, in the current context.
fn round(module: &Module, shared: &Stream) -> CudaResult<()> {
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let event = Event::new(EventFlags::DEFAULT)?;
    let mut number = DeviceBuffer::from_slice(&[27u32])?;
    let pointer = number.as_device_ptr();
    unsafe { launch!(module.collatz<<<1, 1, 0, stream>>>(pointer, 1u32)) }?;
    event.record(&stream)?;
    event.synchronize()?;
    let mut steps = [0];
    number.copy_to(&mut steps)?;
    assert_eq!(steps, [111]);
    shared.add_callback(Box::new(|_| {}))?;
    shared.is_done().map(|_| ())
}

#[test]
fn an_owner_dropped_while_others_work_turns_their_calls_into_errors() {
    run_alone(|| {
        for delay in [0, 1, 3] {
            let ctx = pushed();
            let handle = ctx.get_unowned();
            let module = Module::load_from_bytes(KERNELS.as_bytes()).unwrap();
            let shared = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
            let (ready, rounds) = (Barrier::new(9), AtomicUsize::new(0));
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        ready.wait();
                        loop {
                            match handle.scoped(|_| round(&module, &shared)) {
                                Ok(()) => _ = rounds.fetch_add(1, Ordering::Relaxed),
                                Err(CudaError::ContextIsDestroyed) => break,
                                Err(other) => panic!("{other}"),
                            }
                        }
                        assert!(current().is_null());
                    });
                }
                ready.wait();
                std::thread::sleep(std::time::Duration::from_millis(delay * 5));
                Context::drop(ctx).unwrap();
            });
            assert!(current().is_null(), "{rounds:?} rounds");
        }
    });
}

#[test]
fn what_a_thread_keeps_until_its_end_is_destroyed_there() {
    struct Kept(Option<(Stream, DeviceBuffer<u32>, LockedBuffer<u8>, Module)>);
    impl Drop for Kept {
        fn drop(&mut self) {
            // Here custack's own thread-locals may be destroyed already.
            if let Some((stream, buffer, locked, module)) = self.0.take() {
                assert_eq!(stream.synchronize(), Ok(()));
                let mut back = [0];
                assert_eq!(buffer.copy_to(&mut back), Ok(()));
                assert_eq!((back, locked[0]), ([5], 6));
                drop((module, locked, buffer, stream));
            }
        }
    }
    thread_local! {
        static BEFORE: RefCell<Kept> = const { RefCell::new(Kept(None)) };
        static AFTER: RefCell<Kept> = const { RefCell::new(Kept(None)) };
    }
    run(|| {
        let ctx = parked();
        let make = || {
            Ok((
                Stream::new(StreamFlags::NON_BLOCKING, None)?,
                DeviceBuffer::from_slice(&[5])?,
                LockedBuffer::from_slice(&[6])?,
                Module::load_from_bytes(KERNELS.as_bytes())?,
            ))
        };
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // One is registered before custack's thread-locals, and so destroyed after them; the other after.
                BEFORE.with(|_| {});
                let kept = ctx.scoped(|_| make()).unwrap();
                BEFORE.set(Kept(Some(kept)));
                AFTER.set(Kept(Some(ctx.scoped(|_| make()).unwrap())));
            });
            // The scope alone does not wait for the destructors of thread-locals.
            thread.join().unwrap();
        });
        assert!(current().is_null());
        ctx.synchronize().unwrap();
    });
}

#[test]
fn a_panic_drops_everything_in_order() {
    run(|| {
        let (ctx, base) = (parked(), pushed());
        let result = catch_unwind(AssertUnwindSafe(|| {
            let _guard = ctx.enter().unwrap();
            let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
            let _unified = UnifiedBuffer::from_slice(&[1u8]).unwrap();
            let _buffer = DeviceBuffer::from_slice(&[1u8]).unwrap();
            stream.add_callback(Box::new(|_| {})).unwrap();
            panic!("on purpose");
        }));
        assert!(result.is_err());
        assert_eq!((current(), ContextStack::depth()), (base.as_raw(), 1));
        ctx.synchronize().unwrap();
    });
}

#[test]
fn a_context_may_be_dropped_before_what_was_made_in_it() {
    struct Program {
        _ctx: Context,
        _module: Module,
        _stream: Stream,
        _buffer: DeviceBuffer<u8>,
        _locked: LockedBuffer<u8>,
        _event: Event,
        _boxed: DeviceBox<u64>,
    }
    run_alone(|| {
        let program = Program {
            _ctx: pushed(),
            _module: Module::load_from_bytes(KERNELS.as_bytes()).unwrap(),
            _stream: Stream::new(StreamFlags::DEFAULT, None).unwrap(),
            _buffer: DeviceBuffer::from_slice(&[1]).unwrap(),
            _locked: LockedBuffer::from_slice(&[1]).unwrap(),
            _event: Event::new(EventFlags::DEFAULT).unwrap(),
            _boxed: DeviceBox::new(&1).unwrap(),
        };
        drop(program);
        assert!(current().is_null());
    });
}

#[test]
fn the_last_memory_of_a_context_may_be_freed_on_another_thread() {
    run_alone(|| {
        let ctx = pushed();
        let locked = LockedBuffer::from_slice(&[1u8, 2]).unwrap();
        let unified = UnifiedBuffer::from_slice(&[3u8]).unwrap();
        drop(ctx);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let other = pushed();
                assert_eq!((locked[1], unified[0]), (2, 3));
                drop(unified);
                drop(locked);
                assert_eq!(ContextStack::pop().unwrap(), other.get_unowned());
            });
        });
        assert!(current().is_null());
    });
}

#[test]
fn threads_that_find_a_foreign_context_at_once_get_one_handle() {
    run_alone(|| {
        within(60, || {
            const THREADS: usize = 4;
            // A real driver has memory for only a few.
            let rounds = if is_simulated() { 2_000 } else { 12 };
            let contexts: Vec<usize> = (0..rounds).map(|_| other::parked().addr()).collect();
            let arrived = AtomicUsize::new(0);
            let body = || {
                let meet = |(round, at): (usize, &usize)| {
                    other::push(*at as _);
                    arrived.fetch_add(1, Ordering::SeqCst);
                    while arrived.load(Ordering::SeqCst) < THREADS * (round + 1) {
                        std::thread::yield_now();
                    }
                    let met = CurrentContext::get_current().unwrap();
                    other::pop().unwrap();
                    met
                };
                contexts.iter().enumerate().map(meet).collect::<Vec<_>>()
            };
            let met: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(body)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            for round in 0..rounds {
                let of_all: Vec<_> = met.iter().map(|of_one| &of_one[round]).collect();
                assert!(of_all.iter().all(|it| it.is_alive() && *it == of_all[0]), "{round}: {of_all:?}");
            }
            contexts.iter().for_each(|at| other::destroy(*at as _));
        });
    });
}

#[test]
fn memory_of_a_context_that_other_code_destroyed_reaches_no_later_one() {
    let test = "memory_of_a_context_that_other_code_destroyed_reaches_no_later_one";
    if !is_simulated() {
        return skip(test, "the NVIDIA driver may crash on what other code destroyed");
    }
    run_alone(|| {
        within(20, || {
            sim::reuse_handles(true);
            let raw = other::create();
            let mut buffer = DeviceBuffer::from_slice(&[1u8; 4]).unwrap();
            other::destroy(raw);
            let (a, b) = (parked(), parked());
            assert_eq!(buffer.copy_to(&mut [0; 4]), Err(CudaError::ContextIsDestroyed));
            assert_eq!(buffer.copy_from(&[2; 4]), Err(CudaError::ContextIsDestroyed));
            let alive = instrument::contexts_alive();
            drop((a, b));
            assert_eq!(instrument::contexts_alive(), alive - 2, "nothing of them is in use");
            drop(buffer);
            wait_until_retired().unwrap();
            sim::reuse_handles(false);
        });
    });
}

#[test]
fn an_owner_whose_entry_other_code_popped_is_destroyed_once() {
    run_alone(|| {
        for when in [When::Before, When::After] {
            let ctx = pushed();
            assert_eq!(other::pop(), Ok(ctx.as_raw()));
            instrument::fail(Some("cuCtxDestroy_v2"), 1, 719, when);
            drop(ctx);
            assert_eq!((drain(), ContextStack::depth()), (vec![], 1));
            assert_eq!(ContextStack::pop().err(), Some(CudaError::InvalidContext));
        }
    });
}

#[test]
fn an_owner_whose_entry_other_code_covered_leaves_what_covers_it() {
    run_alone(|| {
        for when in [When::Before, When::After] {
            let (ctx, cover) = (pushed(), parked());
            let raw = ctx.as_raw();
            other::push(cover.as_raw());
            instrument::fail(Some("cuCtxDestroy_v2"), 1, 719, when);
            drop(ctx);
            assert_eq!(drain(), [cover.as_raw(), raw], "{when:?}");
            assert_eq!(ContextStack::pop().err(), Some(CudaError::InvalidContext));
        }
    });
}

#[test]
fn a_released_share_leaves_a_context_current_that_other_code_shares() {
    run_alone(|| {
        let raw = other::retain_primary();
        other::push(raw);
        let other = parked();
        for scopes in 0..4 {
            let primary = PrimaryContext::retain(device()).unwrap();
            for _ in 0..scopes {
                primary.scoped(|current| current.synchronize()).unwrap();
            }
            match scopes {
                3 => {
                    let handle = primary.get_unowned();
                    let guard = handle.enter().unwrap();
                    other
                        .scoped(|_| {
                            drop(primary);
                            Ok(())
                        })
                        .unwrap();
                    drop(guard);
                }
                _ => drop(primary),
            }
            assert_eq!(current(), raw, "it is alive, after {scopes} scopes");
        }
        assert_eq!(drain(), [raw]);
        other::push(raw);
        other::release_primary();
        let primary = PrimaryContext::retain(device()).unwrap();
        primary.synchronize().unwrap();
        drop(primary);
        assert!(current().is_null(), "destroyed");
    });
}

#[test]
fn a_context_that_a_pop_may_have_freed_does_not_come_back_as_usable() {
    run(|| {
        let ctx = pushed();
        let raw = other::create();
        let at = raw.addr();
        std::thread::scope(|scope| scope.spawn(|| other::destroy(at as _)).join().unwrap());
        let popped = ContextStack::pop().unwrap();
        assert_eq!((popped.as_raw(), popped.is_alive()), (raw, false));
        assert_eq!(ContextStack::push(&popped), Err(CudaError::ContextIsDestroyed));
        assert_eq!(ContextStack::pop().unwrap(), ctx.get_unowned());
        // A context that is alive is registered anew where it is current.
        let raw = other::create();
        assert_eq!(CurrentContext::get_current().unwrap().as_raw(), raw);
        CurrentContext::synchronize().unwrap();
        other::destroy(raw);
    });
}

#[test]
fn no_call_pops_a_guards_entry_after_other_code_popped_what_was_above_it() {
    run(|| {
        let (a, b, c) = (parked(), parked(), parked());
        let none = std::thread::spawn(|| CurrentContext::get_current().unwrap()).join().unwrap();
        let calls: [&dyn Fn() -> Option<CudaError>; 3] =
            [&|| ContextStack::pop().err(), &|| CurrentContext::set_current(&c).err(), &|| {
                CurrentContext::set_current(&none).err()
            }];
        for (which, call) in calls.iter().enumerate() {
            let guard = a.enter().unwrap();
            ContextStack::push(&b).unwrap();
            assert_eq!(other::pop(), Ok(b.as_raw()));
            assert_eq!(call(), Some(CudaError::HeldByGuard), "{which}");
            assert_eq!(current(), a.as_raw(), "{which}");
            guard.synchronize().unwrap();
            drop(guard);
            assert_eq!((drain(), ContextStack::depth()), (vec![], 0), "{which}");
        }
        let guard = a.enter().unwrap();
        ContextStack::push(&b).unwrap();
        ContextStack::push(&c).unwrap();
        assert_eq!((other::pop(), other::pop()), (Ok(c.as_raw()), Ok(b.as_raw())));
        assert_eq!(ContextStack::pop().err(), Some(CudaError::HeldByGuard));
        assert_eq!((current(), ContextStack::depth()), (a.as_raw(), 1));
        drop(guard);
        assert_eq!(drain(), []);
    });
}

#[test]
fn a_scope_that_found_its_context_takes_off_what_other_code_replaced_it_with() {
    let in_what_was_found =
        |in_x: &(dyn Fn(&Context) + Sync), expected: &(dyn Fn(&Context, &Context) -> bool + Sync)| {
            run(|| {
                let (x, y) = (parked(), parked());
                other::push(x.as_raw());
                for _ in 0..3 {
                    x.scoped(|_| Ok(())).unwrap();
                }
                assert_eq!(ContextStack::depth(), 1, "it is found");
                x.scoped(|_| {
                    in_x(&y);
                    Ok(())
                })
                .unwrap();
                assert!(expected(&x, &y));
            });
        };
    let other_code_sets = |y: &Context| {
        other::set(y.as_raw());
        // It is found in turn, after a few scopes.
        for _ in 0..10 {
            y.scoped(|_| Ok(())).unwrap();
        }
    };
    in_what_was_found(&other_code_sets, &|x, _| drain() == [x.as_raw()]);
    in_what_was_found(&|y| ContextStack::push(y).unwrap(), &|x, _| drain() == [x.as_raw()]);
}

#[test]
fn buffers_without_memory_may_be_made_from_null() {
    run(|| {
        use std::ptr::null_mut as null;
        let none = unsafe { LockedBuffer::<u32>::from_raw_parts(null(), 0) };
        assert!(none.is_empty() && none.as_ptr().is_aligned());
        let none = unsafe { UnifiedBuffer::<u64>::from_raw_parts(UnifiedPointer::wrap(null()), 0) };
        assert!(none.is_empty() && none.as_ptr().is_aligned());
        let nothing = UnifiedBox::into_unified(UnifiedBox::new(()).unwrap());
        assert_eq!(unsafe { UnifiedBuffer::<()>::from_raw_parts(nothing, 1) }[..], [()]);
    });
}

#[test]
fn a_share_in_common_that_is_given_away_keeps_the_handles_good() {
    run_alone(|| {
        let one = PrimaryContext::retain(device()).unwrap();
        instrument::fail(Some("cuDevicePrimaryCtxRetain"), 1, 2, When::Before);
        let in_common = one.clone();
        let raw = one.into_raw();
        drop(PrimaryContext::retain(device()).unwrap());
        assert!(in_common.is_alive(), "other shares come and go");
        in_common.synchronize().unwrap();
        let handle = in_common.get_unowned();
        drop(in_common);
        assert!(handle.is_alive(), "what was given away was not given back");
        drop(unsafe { PrimaryContext::from_raw(raw, device()) }.unwrap());
        assert!(!handle.is_alive() && !PrimaryContext::state(device()).unwrap().active);
    });
}

#[test]
fn what_is_used_in_a_streams_order_reaches_no_later_context_after_other_code_destroyed_its_own() {
    let test = "what_is_used_in_a_streams_order_reaches_no_later_context";
    if !is_simulated() {
        return skip(test, "the NVIDIA driver may crash on what other code destroyed");
    }
    run_alone(|| {
        sim::reuse_handles(true);
        let raw = other::create();
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        let buffers: [_; 2] =
            std::array::from_fn(|_| DeviceBuffer::from_slice_in(&[1u8; 4], &stream).unwrap());
        let event = Event::new(EventFlags::DEFAULT).unwrap();
        other::destroy(raw);
        let later = parked();
        assert_eq!(later.as_raw(), raw);
        let [first, second] = buffers;
        let ((), calls) = instrument::during(|| {
            drop(first);
            drop((stream, event, second));
        });
        assert_eq!(calls.total(), 0, "{calls}");
        wait_until_retired().unwrap();
        assert_eq!(later.synchronize(), Ok(()));
        sim::reuse_handles(false);
    });
}
