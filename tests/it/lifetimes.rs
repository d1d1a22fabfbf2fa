//! What outlives what: owners, buffers and streams let go in callbacks, under waiting calls, on ending threads, and
//! after their contexts; and what a failed destroying leaves.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::harness::{current, drain, is_simulated, other, parked, pushed, run, run_alone, start, within};
use custack::context::{
    Context, ContextStack, CurrentContext, Origin, PrimaryContext, UnownedContext, wait_until_retired,
};
use custack::driver::instrument::{self, When};
use custack::error::CudaError;
use custack::event::{Event, EventFlags};
use custack::memory::{CopyDestination, DeviceBox, DeviceBuffer, LockedBuffer, UnifiedBox, UnifiedBuffer};
use custack::module::Module;
use custack::sim;
use custack::stream::{Stream, StreamFlags};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

fn stream_of(ctx: &UnownedContext) -> Stream {
    ctx.scoped(|_| Stream::new(StreamFlags::NON_BLOCKING, None)).unwrap()
}

/// Has the stream wait in a callback until told, and then drop these.
fn drop_in_callback<T: Send + 'static>(stream: &Stream, things: T) -> impl FnOnce() + Send + use<T> {
    let (go, wait) = channel();
    let callback = move |_| {
        let _ = wait.recv();
        drop(things);
    };
    stream.add_callback(Box::new(callback)).unwrap();
    move || go.send(()).unwrap()
}

#[test]
fn a_callback_may_drop_the_owner_that_another_thread_waits_for() {
    run_alone(|| {
        within(20, || {
            let ctx = parked();
            let (handle, stream) = (ctx.get_unowned(), stream_of(&ctx));
            let go = drop_in_callback(&stream, ctx);
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| stream.synchronize());
                std::thread::sleep(Duration::from_millis(20));
                go();
                assert_eq!(waiting.join().unwrap(), Ok(()));
            });
            wait_until_retired().unwrap();
            assert!(!handle.is_alive());
            assert_eq!(stream.synchronize(), Err(CudaError::ContextIsDestroyed));
        });
    });
}

#[test]
fn a_callback_may_drop_the_last_memory_of_a_context_that_another_thread_waits_for() {
    run_alone(|| {
        within(20, || {
            let ctx = parked();
            let stream = stream_of(&ctx);
            let locked = ctx.scoped(|_| LockedBuffer::new(&0u8, 16)).unwrap();
            let go = drop_in_callback(&stream, locked);
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| stream.synchronize());
                std::thread::sleep(Duration::from_millis(20));
                drop(ctx);
                go();
                assert_eq!(waiting.join().unwrap(), Ok(()));
            });
            wait_until_retired().unwrap();
        });
    });
}

#[test]
fn what_a_callback_drops_is_destroyed_soon_after_although_nobody_waits() {
    run_alone(|| {
        let (objects, allocations) = (sim::objects(), sim::allocations());
        let keeps = parked();
        let ctx = parked();
        let handle = ctx.get_unowned();
        let things = keeps
            .scoped(|_| {
                let module = Module::load_from_bytes(crate::module::KERNELS.as_bytes())?;
                let event = Event::new(EventFlags::DEFAULT)?;
                let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
                let memory =
                    (DeviceBox::new(&1u8)?, DeviceBuffer::from_slice(&[1u8])?, UnifiedBox::new(1u8)?);
                Ok((module, event, stream, memory, LockedBuffer::new(&1u8, 4)?, UnifiedBuffer::new(&1u8, 4)?))
            })
            .unwrap();
        let stream = stream_of(&keeps);
        let go = drop_in_callback(&stream, (ctx, things));
        drop(stream);
        go();
        // The callback comes at some time, and nobody has waited for it; then what it dropped is there to wait for.
        within(20, move || {
            while handle.is_alive() {
                std::thread::yield_now();
            }
            assert!(handle.clone().synchronize().is_err());
            wait_until_retired().unwrap();
            assert!(!handle.is_alive(), "dead once, dead for good");
        });
        keeps.synchronize().unwrap();
        wait_until_retired().unwrap();
        drop(keeps);
        if is_simulated() {
            assert_eq!((sim::objects(), sim::allocations()), (objects, allocations));
        }
    });
}

#[test]
fn in_a_callback_every_call_is_refused_without_asking() {
    run(|| {
        let ctx = pushed();
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        let (tell, told) = channel();
        let handle = ctx.get_unowned();
        let primary = PrimaryContext::retain(crate::harness::device()).unwrap();
        let callback = move |_| {
            let (answers, calls) = instrument::during(|| {
                let primary = PrimaryContext::drop(primary);
                let answers = [
                    handle.synchronize().err(),
                    handle.enter().err(),
                    handle.driver_id().err(),
                    ContextStack::push(&handle).err(),
                    ContextStack::pop().err(),
                    CurrentContext::get_current().err(),
                    CurrentContext::set_current(&handle).err(),
                    DeviceBuffer::from_slice(&[1u8]).err(),
                    Stream::new(StreamFlags::DEFAULT, None).err(),
                    wait_until_retired().err(),
                    primary.as_ref().err().map(|(error, _)| *error),
                    start().version().err(),
                ];
                let _ = start().to_string();
                let comes_back = primary.err().is_some_and(|(_, primary)| primary.is_alive());
                (answers, comes_back)
            });
            tell.send((answers, calls.total())).unwrap();
        };
        stream.add_callback(Box::new(callback)).unwrap();
        let ((answers, comes_back), calls) = told.recv().unwrap();
        assert_eq!(answers, [Some(CudaError::NotPermitted); 12]);
        assert!(comes_back, "refused before anything was done");
        assert_eq!(calls, 0);
        wait_until_retired().unwrap();
        drain();
    });
}

#[test]
fn dropping_an_owner_waits_for_no_other_threads_call() {
    run_alone(|| {
        let ctx = parked();
        let (handle, stream) = (ctx.get_unowned(), stream_of(&ctx));
        let (go, wait) = channel::<()>();
        stream
            .add_callback(Box::new(move |_| {
                let _ = wait.recv();
            }))
            .unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| stream.synchronize());
            std::thread::sleep(Duration::from_millis(50));
            let start = Instant::now();
            Context::drop(ctx).unwrap();
            assert!(start.elapsed() < Duration::from_secs(1), "it would have waited for ever");
            assert!(!handle.is_alive() && !waiting.is_finished());
            go.send(()).unwrap();
            assert_eq!(waiting.join().unwrap(), Ok(()));
        });
        wait_until_retired().unwrap();
    });
}

#[test]
fn more_threads_than_any_table_has_room_for_use_a_context_at_once() {
    run_alone(|| {
        within(60, || {
            let ctx = parked();
            let (stream, event) = (stream_of(&ctx), ctx.scoped(|_| Event::new(EventFlags::DEFAULT)).unwrap());
            let barrier = std::sync::Barrier::new(1_101);
            std::thread::scope(|scope| {
                for _ in 0..1_100 {
                    scope.spawn(|| {
                        ctx.scoped(|_| event.record(&stream)).unwrap();
                        barrier.wait();
                        // All are alive, and have entered; and each does it again.
                        event.record(&stream).unwrap();
                        barrier.wait();
                    });
                }
                barrier.wait();
                event.record(&stream).unwrap();
                stream.synchronize().unwrap();
                barrier.wait();
            });
            drop((stream, event, ctx));
            wait_until_retired().unwrap();
        });
    });
}

/// The program of three kinds: over `[A]`, a scope of B in which B's owner is dropped and then `act` is done.
fn in_a_scope_of_a_destroyed_context(act: impl Fn(&Context)) {
    let (a, c) = (pushed(), parked());
    let b_owner = parked();
    let b = b_owner.get_unowned();
    b.scoped(|_| {
        drop(b_owner);
        act(&c);
        Ok(())
    })
    .unwrap();
    assert_eq!((current(), ContextStack::depth()), (a.as_raw(), 1));
    assert_eq!(ContextStack::pop().unwrap(), a.get_unowned());
    assert_eq!(drain(), []);
}

#[test]
fn a_push_over_a_scopes_destroyed_context_goes_with_the_scope() {
    run_alone(|| {
        in_a_scope_of_a_destroyed_context(|c| ContextStack::push(c).unwrap());
    });
}

#[test]
fn a_scopes_destroyed_context_is_neither_replaced_nor_popped() {
    run_alone(|| {
        let held = Some(CudaError::HeldByGuard);
        in_a_scope_of_a_destroyed_context(|c| assert_eq!(CurrentContext::set_current(c).err(), held));
        in_a_scope_of_a_destroyed_context(|_| assert_eq!(ContextStack::pop().err(), held));
        let none = std::thread::spawn(|| CurrentContext::get_current().unwrap()).join().unwrap();
        in_a_scope_of_a_destroyed_context(|_| assert_eq!(CurrentContext::set_current(&none).err(), held));
    });
}

#[test]
fn a_scope_takes_along_what_was_destroyed_below_it_meanwhile() {
    run_alone(|| {
        let (base, a, b) = (pushed(), pushed(), parked());
        b.scoped(|_| {
            drop(a);
            Ok(())
        })
        .unwrap();
        assert_eq!((current(), ContextStack::depth()), (base.as_raw(), 1), "by this thread");
        let a = pushed();
        b.scoped(|_| {
            std::thread::scope(|scope| scope.spawn(|| drop(a)).join().unwrap());
            Ok(())
        })
        .unwrap();
        assert_eq!((current(), ContextStack::depth()), (base.as_raw(), 1), "by another");
        assert_eq!(drain(), [base.as_raw()]);
    });
}

#[test]
fn a_scope_leaves_what_was_destroyed_before_it() {
    run_alone(|| {
        let (a, b) = (pushed(), parked());
        let raw = a.as_raw();
        std::thread::scope(|scope| scope.spawn(|| drop(a)).join().unwrap());
        b.scoped(|_| Ok(())).unwrap();
        assert_eq!((current(), ContextStack::depth()), (raw, 1), "what it was before");
        assert_eq!(CurrentContext::synchronize(), Err(CudaError::ContextIsDestroyed));
        assert_eq!(drain(), [raw]);
    });
}

#[test]
fn a_scope_of_what_was_current_leaves_what_was_destroyed_before_it() {
    run_alone(|| {
        let (base, a, b) = (pushed(), pushed(), pushed());
        let (raw, handle) = (a.as_raw(), b.get_unowned());
        std::thread::scope(|scope| scope.spawn(|| drop(a)).join().unwrap());
        handle
            .scoped(|_| {
                std::thread::scope(|scope| scope.spawn(|| drop(b)).join().unwrap());
                Ok(())
            })
            .unwrap();
        assert_eq!((current(), ContextStack::depth()), (raw, 2), "b went meanwhile, a before");
        assert_eq!(drain(), [raw, base.as_raw()]);
    });
}

/// Runs this in the destructor of a thread-local, after custack's own thread-locals are destroyed.
fn at_the_end_of_a_thread(first: impl FnOnce() + Send, last: impl FnOnce() + Send + 'static) {
    struct AtEnd(Option<Box<dyn FnOnce()>>);
    impl Drop for AtEnd {
        fn drop(&mut self) {
            if let Some(last) = self.0.take() {
                last();
            }
        }
    }
    thread_local! {
        static AT_END: std::cell::RefCell<AtEnd> = const { std::cell::RefCell::new(AtEnd(None)) };
    }
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // Registered before custack has anything on this thread, so destroyed after it.
            AT_END.with(|_| {});
            first();
            AT_END.set(AtEnd(Some(Box::new(last))));
        });
        thread.join().unwrap();
    });
}

#[test]
fn a_guard_holds_its_entry_on_an_ending_thread_too() {
    run_alone(|| {
        let (a, b) = (parked(), parked());
        let (c, d) = (parked(), parked());
        let (tell, told) = channel();
        let at_end = move || {
            let (handle, raw) = (b.get_unowned(), a.as_raw());
            ContextStack::push(&a).unwrap();
            handle
                .scoped(|_| {
                    drop(b);
                    assert_eq!(ContextStack::pop().err(), Some(CudaError::HeldByGuard));
                    assert_eq!(CurrentContext::set_current(&c).err(), Some(CudaError::HeldByGuard));
                    ContextStack::push(&c)
                })
                .unwrap();
            let after = (current() == raw, ContextStack::depth());
            let guard = d.enter().unwrap();
            let held = ContextStack::pop().err();
            drop(guard);
            let popped = ContextStack::pop().unwrap() == a.get_unowned();
            tell.send((after, held, popped, current().is_null())).unwrap();
        };
        at_the_end_of_a_thread(|| drop(CurrentContext::get_current()), at_end);
        assert_eq!(told.recv(), Ok(((true, 1), Some(CudaError::HeldByGuard), true, true)));
        wait_until_retired().unwrap();
    });
}

#[test]
fn what_custack_destroyed_never_becomes_other_codes() {
    run_alone(|| {
        let ctx = parked();
        let (tell, told) = channel();
        let locked = ctx.scoped(|_| LockedBuffer::new(&0u8, 1)).unwrap();
        let at_end = move || {
            let handle = ctx.get_unowned();
            let guard = handle.enter().unwrap();
            drop(ctx);
            let met = CurrentContext::get_current().unwrap();
            drop(locked);
            drop(guard);
            wait_until_retired().unwrap();
            tell.send((met.is_alive(), met.origin(), ContextStack::push(&met).err())).unwrap();
        };
        at_the_end_of_a_thread(|| drop(CurrentContext::get_current()), at_end);
        assert_eq!(told.recv(), Ok((false, Origin::Created, Some(CudaError::ContextIsDestroyed))));
    });
}

#[test]
fn a_stale_slice_never_reaches_another_contexts_memory() {
    run_alone(|| {
        sim::reuse_addresses(true);
        sim::reuse_handles(true);
        let (one, two) = (parked(), parked());
        let mut a = one.scoped(|_| DeviceBuffer::from_slice(&[1u8; 4])).unwrap();
        let part = &mut a[..];
        drop(one);
        let b = two.scoped(|_| DeviceBuffer::from_slice(&[2u8; 4])).unwrap();
        assert_ne!(part.as_ptr(), b.as_ptr(), "an address of a living buffer is not given out again");
        assert_eq!(part.copy_from(&[9; 4]), Err(CudaError::ContextIsDestroyed));
        assert_eq!(part.copy_to(&mut [0; 4]), Err(CudaError::ContextIsDestroyed));
        let mut back = [0; 4];
        b.copy_to(&mut back).unwrap();
        assert_eq!(back, [2; 4]);
        drop((a, b, two));
        sim::reuse_addresses(false);
        sim::reuse_handles(false);
    });
}

#[test]
fn a_dead_buffer_does_not_shadow_a_living_one() {
    run_alone(|| {
        sim::reuse_addresses(true);
        let (one, two) = (parked(), parked());
        let small = one.scoped(|_| DeviceBuffer::from_slice(&[1u8; 512])).unwrap();
        drop(one);
        let values: Vec<u8> = (0..1 << 20).map(|at| (at / 512) as u8).collect();
        let big = two.scoped(|_| DeviceBuffer::from_slice(&values)).unwrap();
        let mut back = [0; 512];
        for at in [0, 512, 1 << 19, (1 << 20) - 512] {
            big[at..at + 512].copy_to(&mut back).unwrap();
            assert_eq!(back, values[at..at + 512]);
        }
        drop(small);
        sim::reuse_addresses(false);
    });
}

#[test]
fn memory_keeps_its_context_at_the_driver_and_the_last_of_it_destroys() {
    run_alone(|| {
        let ctx = parked();
        let alive = instrument::contexts_alive();
        let (buffer, boxed) =
            ctx.scoped(|_| Ok((DeviceBuffer::from_slice(&[1u32, 2])?, DeviceBox::new(&3u32)?))).unwrap();
        drop(ctx);
        assert_eq!(instrument::contexts_alive(), alive);
        assert_eq!(buffer.copy_to(&mut [0; 2]), Err(CudaError::ContextIsDestroyed));
        drop(buffer);
        assert_eq!(instrument::contexts_alive(), alive);
        drop(boxed);
        assert_eq!(instrument::contexts_alive(), alive - 1);
    });
}

#[test]
fn values_that_the_driver_cannot_align_are_refused() {
    #[derive(Clone, Copy)]
    #[repr(align(4096))]
    struct Page(#[allow(dead_code, reason = "what fills it")] u8);
    unsafe impl custack::memory::DeviceCopy for Page {}
    run(|| {
        let _ctx = pushed();
        let (mut boxes, mut buffers) = (Vec::new(), Vec::new());
        for at in 0..8 {
            match UnifiedBox::new(Page(at)) {
                Ok(page) => {
                    assert!(std::ptr::from_ref(&*page).is_aligned() && page.0 == at);
                    boxes.push(page);
                }
                Err(error) => assert_eq!(error, CudaError::InvalidValue),
            }
            match LockedBuffer::new(&Page(at), 2) {
                Ok(pages) => {
                    assert!(pages.as_ptr().is_aligned() && pages[1].0 == at);
                    buffers.push(pages);
                }
                Err(error) => assert_eq!(error, CudaError::InvalidValue),
            }
            match UnifiedBuffer::new(&Page(at), 2) {
                Ok(pages) => assert!(pages.as_ptr().is_aligned()),
                Err(error) => assert_eq!(error, CudaError::InvalidValue),
            }
        }
        drop((boxes, buffers));
        drain();
    });
}

#[test]
fn any_number_of_values_without_a_size_is_made_at_once() {
    run(|| {
        let _ctx = pushed();
        within(20, || {
            assert_eq!(UnifiedBuffer::new(&(), usize::MAX).unwrap().len(), usize::MAX);
            assert_eq!(LockedBuffer::new(&(), usize::MAX).unwrap().len(), usize::MAX);
        });
        drain();
    });
}

#[test]
fn what_may_be_gone_does_not_come_back_as_usable() {
    run_alone(|| {
        let ctx = pushed();
        let leftovers = (sim::objects(), sim::allocations());
        for when in [When::After, When::Before] {
            let fail = |function| assert!(instrument::fail(Some(function), 1, 719, when));
            let mut leaked = 0;
            let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
            fail("cuStreamDestroy_v2");
            let (error, stream) = Stream::drop(stream).unwrap_err();
            assert_eq!(error, CudaError::LaunchFailed);
            assert_eq!(stream.synchronize(), Err(CudaError::InvalidHandle), "{when:?}");
            let (_, calls) = instrument::during(|| assert!(Stream::drop(stream).is_ok()));
            assert_eq!(calls.of("cuStreamDestroy_v2"), 0, "{when:?}: destroyed twice");
            leaked += 1;

            let value = UnifiedBox::new(7u32).unwrap();
            fail("cuMemFree_v2");
            let (_, value) = UnifiedBox::drop(value).unwrap_err();
            let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| *value));
            assert!(read.is_err(), "{when:?}: reading it would be a use after free");
            let (_, calls) = instrument::during(|| drop(value));
            assert_eq!(calls.of("cuMemFree_v2"), 0);
            leaked += 1;

            let boxed = DeviceBox::new(&7u32).unwrap();
            fail("cuMemFree_v2");
            let (_, boxed) = DeviceBox::drop(boxed).unwrap_err();
            assert_eq!(boxed.copy_to(&mut 0), Err(CudaError::InvalidHandle));
            assert!(DeviceBox::drop(boxed).is_ok());
            leaked += 1;
            if is_simulated() && when == When::After {
                assert_eq!((sim::objects(), sim::allocations()), leftovers, "{leaked} are gone, once each");
            }
        }
        drop(ctx);
    });
}

#[test]
fn of_two_shares_none_says_that_it_lives_when_the_other_took_it_along() {
    run_alone(|| {
        let device = crate::harness::device();
        let (one, two) = (PrimaryContext::retain(device).unwrap(), PrimaryContext::retain(device).unwrap());
        assert!(instrument::fail(Some("cuDevicePrimaryCtxRelease_v2"), 1, 719, When::After));
        let (_, one) = PrimaryContext::drop(one).unwrap_err();
        assert_eq!(two.synchronize(), Ok(()));
        drop(two);
        assert!(!one.is_alive());
        assert_eq!(one.synchronize(), Err(CudaError::ContextIsDestroyed));
        drop(one);
        assert!(!PrimaryContext::state(device).unwrap().active);
    });
}

#[test]
fn a_failed_call_leaves_things_as_they_were_where_a_context_lies_twice() {
    run_alone(|| {
        let (base, ctx) = (pushed(), pushed());
        for times in 1..4 {
            for when in [When::Before, When::After] {
                for code in [1, 201, 719, 999] {
                    let fail = |function| assert!(instrument::fail(Some(function), 1, code, when));
                    let error = CudaError::from_code(code);
                    fail("cuCtxPushCurrent_v2");
                    assert_eq!(ContextStack::push(&ctx).err(), error);
                    fail("cuCtxPopCurrent_v2");
                    assert_eq!(ContextStack::pop().err(), error);
                    // A scope whose pop fails is left all the same.
                    let guard = base.enter().unwrap();
                    fail("cuCtxPopCurrent_v2");
                    drop(guard);
                    let inner = base.enter().unwrap();
                    ContextStack::push(&base).unwrap();
                    fail("cuCtxPopCurrent_v2");
                    drop(inner);
                    instrument::disarm();
                    let stack = drain();
                    let expected = [vec![ctx.as_raw(); times], vec![base.as_raw()]].concat();
                    assert_eq!(stack, expected, "{times} times, {code} {when:?}");
                    stack.iter().rev().for_each(|raw| other::push(*raw));
                    assert_eq!(ContextStack::depth(), times + 1);
                }
            }
            ContextStack::push(&ctx).unwrap();
        }
        while ContextStack::depth() > 0 {
            ContextStack::pop().unwrap();
        }
    });
}

#[test]
fn a_primary_context_that_lives_on_under_another_number_lets_its_things_go() {
    for order in 0..6 {
        run_alone(move || {
            let before = (sim::objects(), sim::allocations());
            let device = crate::harness::device();
            let one = PrimaryContext::retain(device).unwrap();
            let (locked, buffer, stream) = one
                .scoped(|_| {
                    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
                    Ok((LockedBuffer::new(&0u8, 1)?, DeviceBuffer::from_slice(&[0u8])?, stream))
                })
                .unwrap();
            drop(one);
            let two = PrimaryContext::retain(device).unwrap();
            let (mut locked, mut buffer, mut stream) = (Some(locked), Some(buffer), Some(stream));
            let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
            for which in orders[order] {
                match which {
                    0 => drop(locked.take()),
                    1 => drop(buffer.take()),
                    _ => drop(stream.take()),
                }
            }
            if is_simulated() {
                assert_eq!(
                    (sim::objects(), sim::allocations()),
                    before,
                    "order {order}: nothing waits for the second"
                );
            }
            two.synchronize().unwrap();
            drop(two);
            assert!(!PrimaryContext::state(device).unwrap().active);
        });
    }
}

#[test]
fn a_snapshot_of_a_primary_context_retained_again_agrees_with_the_driver() {
    run_alone(|| {
        let device = crate::harness::device();
        let one = PrimaryContext::retain(device).unwrap();
        let handle = one.get_unowned();
        let guard = handle.enter().unwrap();
        drop(one);
        let two = PrimaryContext::retain(device).unwrap();
        let snapshot = ContextStack::snapshot().unwrap();
        assert!(snapshot.agrees() && !snapshot.to_string().contains("other code"), "{snapshot}");
        drop(guard);
        assert!(current().is_null());
        drop(two);
    });
}

#[test]
fn a_copy_between_two_contexts_is_done_before_its_source_can_be_freed() {
    run_alone(|| {
        let (one, two) = (parked(), parked());
        for _ in 0..20 {
            let from = one.scoped(|_| DeviceBuffer::from_slice(&vec![7u8; 1 << 20])).unwrap();
            let mut to = two.scoped(|_| DeviceBuffer::from_slice(&vec![0u8; 1 << 20])).unwrap();
            let (result, calls) = instrument::during(|| to.copy_from(&from));
            drop(from);
            assert_eq!((result, calls.of("cuCtxSynchronize")), (Ok(()), 1));
            let mut back = vec![0; 1 << 20];
            to.copy_to(&mut back).unwrap();
            assert!(back.iter().all(|byte| *byte == 7));
        }
    });
}

#[test]
fn other_codes_context_is_found_and_stayed_in() {
    run(|| {
        let (ctx, b) = (parked(), parked());
        other::push(ctx.as_raw());
        ctx.scoped(|_| Ok(())).unwrap();
        for _ in 0..3 {
            let (_, calls) =
                instrument::during(|| ctx.scoped(|current| current.stream_priority_range().map(drop)));
            assert_eq!(calls.of("cuCtxPushCurrent_v2"), 0, "from the second time on: {calls}");
        }
        assert_eq!(ContextStack::depth(), 1);
        let (_, calls) = instrument::during(|| ctx.scoped(|_| Ok(())));
        assert_eq!(calls.to_string(), "cuCtxGetCurrent");
        // Other code sets another one, and takes it off again.
        other::set(b.as_raw());
        ctx.scoped(|current| current.synchronize()).unwrap();
        assert_eq!(current(), b.as_raw(), "as it was");
        assert_eq!(other::pop(), Ok(b.as_raw()));
        ctx.scoped(|current| current.synchronize()).unwrap();
        assert!(current().is_null(), "as it was");
    });
}

#[test]
fn a_guard_on_other_codes_entry_holds_it() {
    run(|| {
        let (ctx, b) = (parked(), parked());
        other::push(ctx.as_raw());
        ctx.scoped(|_| Ok(())).unwrap();
        let guard = ctx.enter().unwrap();
        assert_eq!(ContextStack::pop().err(), Some(CudaError::HeldByGuard));
        assert_eq!(CurrentContext::set_current(&b).err(), Some(CudaError::HeldByGuard));
        drop(guard);
        assert_eq!(current(), ctx.as_raw());
        assert_eq!(ContextStack::pop().unwrap(), ctx.get_unowned());
    });
}

#[test]
fn what_other_code_put_within_a_scope_of_its_context_stays_its_own() {
    run(|| {
        let (a, b) = (parked(), parked());
        other::push(a.as_raw());
        (0..2).for_each(|_| a.scoped(|_| Ok(())).unwrap());
        let guard = a.enter().unwrap();
        assert_eq!(ContextStack::depth(), 1, "found");
        other::set(b.as_raw());
        (0..3).for_each(|_| b.scoped(|_| Ok(())).unwrap());
        drop(guard);
        assert_eq!(current(), b.as_raw(), "neither taken off nor replaced");
        assert_eq!(other::pop(), Ok(b.as_raw()));
        a.scoped(|current| current.synchronize()).unwrap();
        assert!(current().is_null());
    });
}

#[test]
fn a_found_context_that_was_destroyed_goes_with_the_scope() {
    run_alone(|| {
        let (base, a) = (pushed(), parked());
        let (handle, raw) = (a.get_unowned(), a.as_raw());
        ContextStack::pop().unwrap();
        other::push(base.as_raw());
        other::push(raw);
        (0..2).for_each(|_| handle.scoped(|_| Ok(())).unwrap());
        handle
            .scoped(|_| {
                std::thread::scope(|scope| scope.spawn(|| drop(a)).join().unwrap());
                Ok(())
            })
            .unwrap();
        assert_eq!(current(), base.as_raw());
        assert_eq!(other::pop(), Ok(base.as_raw()));
    });
}

#[test]
fn scopes_that_have_to_switch_pay_nothing_for_looking() {
    run(|| {
        let ctx = parked();
        let (_, calls) = instrument::during(|| (0..10_000).try_for_each(|_| ctx.scoped(|_| Ok(()))));
        assert_eq!((calls.of("cuCtxPushCurrent_v2"), calls.of("cuCtxPopCurrent_v2")), (10_000, 10_000));
        assert!(calls.of("cuCtxGetCurrent") <= 50, "{calls}");
    });
}

#[test]
fn what_is_retired_breaks_nobodys_capture() {
    if is_simulated() {
        return crate::harness::skip(
            "what_is_retired_breaks_nobodys_capture",
            "the simulated driver captures no streams",
        );
    }
    run_alone(|| {
        type Stream3 = unsafe extern "C" fn(custack::driver::ffi::CUstream, u32) -> u32;
        type Ended = unsafe extern "C" fn(custack::driver::ffi::CUstream, *mut *mut ()) -> u32;
        let library = unsafe { libloading::Library::new(crate::harness::start().library()) }.unwrap();
        let begin = unsafe { library.get::<Stream3>(b"cuStreamBeginCapture_v2") }.unwrap();
        let end = unsafe { library.get::<Ended>(b"cuStreamEndCapture") }.unwrap();
        let destroy =
            unsafe { library.get::<unsafe extern "C" fn(*mut ()) -> u32>(b"cuGraphDestroy") }.unwrap();

        let ctx = pushed();
        let gone = parked();
        let things = gone
            .scoped(|_| Ok((DeviceBuffer::from_slice(&[1u8; 64])?, LockedBuffer::new(&0u8, 64)?)))
            .unwrap();
        let more = (DeviceBuffer::from_slice(&[1u8; 64]).unwrap(), Event::new(EventFlags::DEFAULT).unwrap());
        let (busy, captured) = (stream_of(&ctx), stream_of(&ctx));
        let go = drop_in_callback(&busy, (gone, things, more));
        const GLOBAL: u32 = 0;
        assert_eq!(unsafe { begin(captured.as_raw(), GLOBAL) }, 0);
        let frees = instrument::succeeded("cuMemFree_v2");
        go();
        // On this thread nothing may be asked that a capture forbids; the retirement thread is told by itself.
        while instrument::succeeded("cuMemFree_v2") < frees + 2 {
            std::thread::yield_now();
        }
        wait_until_retired().unwrap();
        let mut graph = std::ptr::null_mut();
        assert_eq!(unsafe { end(captured.as_raw(), &mut graph) }, 0, "901 if it was invalidated");
        assert!(!graph.is_null());
        assert_eq!(unsafe { destroy(graph) }, 0);
        busy.synchronize().unwrap();
        drop(ctx);
        drain();
    });
}

#[test]
fn a_scope_leaves_what_was_destroyed_before_it_whatever_is_made_within_it() {
    run_alone(|| {
        let most = if is_simulated() { 5_000 } else { 5 };
        for made in [0, 1, most] {
            let (old, within, ctx) = (pushed(), pushed(), parked());
            let raw = old.as_raw();
            std::thread::scope(|scope| scope.spawn(|| drop(old)).join().unwrap());
            ctx.scoped(|_| {
                drop(within);
                (0..made).for_each(|_| drop(parked()));
                Ok(())
            })
            .unwrap();
            assert_eq!((current(), ContextStack::depth()), (raw, 1), "{made} were made");
            assert_eq!(ContextStack::pop().unwrap().as_raw(), raw);
        }
    });
}
