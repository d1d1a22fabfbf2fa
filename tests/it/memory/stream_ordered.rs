//! Device memory that is allocated and freed in the order of streams.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::harness::{current, drain, is_simulated, other, parked, pushed, run, run_alone, within};
use crate::stream::stream;
use custack::context::{Context, ContextStack, wait_until_retired};
use custack::driver::instrument::{self, during};
use custack::error::{CudaError, CudaResult};
use custack::memory::*;
use custack::sim;
use custack::stream::{BorrowedStream, LegacyStream, Stream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};

fn four_kib(stream: &Stream) -> CudaResult<DeviceBuffer<u8>> {
    unsafe { DeviceBuffer::uninitialized_in(4096, stream) }
}

fn own_pool() -> MemoryPool {
    MemoryPool::new(crate::harness::device(), &PoolProperties::new()).unwrap()
}

/// Holds the stream until the sender is dropped.
fn hold(stream: &Stream) -> Sender<()> {
    let (sender, wait) = channel::<()>();
    stream.launch_host_func(move || assert!(wait.recv().is_err())).unwrap();
    sender
}

fn read<T: DeviceCopy + Default + Clone>(slice: &DeviceSlice<T>) -> Vec<T> {
    let mut back = vec![T::default(); slice.len()];
    slice.copy_to(&mut back).unwrap();
    back
}

#[test]
fn a_buffer_made_and_dropped_in_stream_order_costs_two_calls_whatever_is_current() {
    run(|| {
        let (ctx, _above) = (pushed(), pushed());
        let stream = ctx.scoped(|_| Ok(stream())).unwrap();
        let pool = own_pool();
        drop(four_kib(&stream).unwrap());
        let (_, calls) = during(|| drop(four_kib(&stream).unwrap()));
        assert_eq!(calls.to_string(), "cuMemAllocAsync, cuMemFreeAsync");
        let from_pool = || unsafe { DeviceBuffer::<u8>::uninitialized_in(4096, (&pool, &stream)) };
        let (_, calls) = during(|| drop(from_pool().unwrap()));
        assert_eq!(calls.to_string(), "cuMemAllocFromPoolAsync, cuMemFreeAsync");
        let (_, calls) = during(|| drop(unsafe { DeviceBox::<u64>::uninitialized_in(&stream) }.unwrap()));
        assert_eq!(calls.to_string(), "cuMemAllocAsync, cuMemFreeAsync");
        drain();
        let (_, calls) = during(|| drop(four_kib(&stream).unwrap()));
        assert_eq!(calls.total(), 2, "with nothing current");
    });
}

#[test]
fn what_a_stream_has_freed_it_gets_again_at_once() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        // No other test frees memory in it.
        let pool = own_pool();
        let make = || unsafe { DeviceBuffer::<u8>::uninitialized_in(4096, (&pool, &stream)) }.unwrap();
        let held = hold(&stream);
        let mut first = make();
        let address = first.as_device_ptr().as_raw();
        drop(first);
        assert_eq!(make().as_device_ptr().as_raw(), address);
        drop(held);
    });
}

#[test]
fn neither_making_nor_dropping_waits_for_the_stream() {
    within(60, || {
        run(|| {
            let _ctx = pushed();
            let stream = stream();
            let held = hold(&stream);
            let buffers: Vec<_> = (0..10).map(|_| four_kib(&stream).unwrap()).collect();
            drop(buffers);
            assert_eq!(stream.is_done(), Ok(false));
            drop(held);
            stream.synchronize().unwrap();
        });
    });
}

#[test]
fn copies_without_a_stream_come_in_the_order_of_the_memory() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let mut buffer = DeviceBuffer::from_slice_in(&[1u32, 2, 3, 4], &stream).unwrap();
        let held = hold(&stream);
        unsafe { buffer[1..3].async_fill(9, &stream) }.unwrap();
        // What is read now is behind the fill, which is behind what holds the stream.
        let opener = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(30));
            drop(held);
        });
        assert_eq!(read(&buffer[..3]), [1, 9, 9]);
        opener.join().unwrap();
        let ((), calls) = during(|| buffer[..1].copy_from(&[7]).unwrap());
        assert_eq!((calls.of("cuMemcpyHtoDAsync_v2"), calls.of("cuStreamSynchronize")), (1, 1), "{calls}");
        assert_eq!((calls.of("cuMemcpyHtoD_v2"), calls.of("cuCtxSynchronize")), (0, 0));
        assert_eq!(read(&buffer), [7, 9, 9, 4]);
    });
}

#[test]
fn copies_between_memory_of_any_orders_see_what_was_before() {
    run(|| {
        let _ctx = pushed();
        let (a, b) = (stream(), stream());
        for from_home in [None, Some(&a), Some(&b)] {
            for to_home in [None, Some(&a), Some(&b)] {
                let make = |home: Option<&Stream>, values: &[u32]| match home {
                    None => DeviceBuffer::from_slice(values).unwrap(),
                    Some(home) => DeviceBuffer::from_slice_in(values, home).unwrap(),
                };
                let (mut from, mut to) = (make(from_home, &[0; 4]), make(to_home, &[0; 4]));
                if let Some(home) = from_home {
                    unsafe { from.async_fill(5, home) }.unwrap();
                } else {
                    from.fill(5).unwrap();
                }
                to[1..].copy_from(&from[1..]).unwrap();
                // In the memory of the source is something else the next moment.
                drop(from);
                let after = make(from_home, &[6; 4]);
                assert_eq!(read(&to), [0, 5, 5, 5]);
                drop(after);
            }
        }
    });
}

#[test]
fn another_stream_uses_memory_after_its_order_and_the_free_waits_for_it() {
    run(|| {
        let _ctx = pushed();
        let (home, other) = (stream(), stream());
        // No other test frees memory in it.
        let pool = own_pool();
        let mut host = LockedBuffer::new(&0u32, 4).unwrap();
        let held_home = hold(&home);
        let mut buffer = unsafe { DeviceBuffer::<u32>::uninitialized_in(4, (&pool, &home)) }.unwrap();
        unsafe { buffer.async_fill(7, &home) }.unwrap();
        buffer.also_used_in(&other).unwrap();
        let held_other = hold(&other);
        unsafe { buffer.async_copy_to(&mut host, &other) }.unwrap();
        let address = buffer.as_device_ptr().as_raw();
        let ((), calls) = during(|| drop(buffer));
        assert_eq!(calls.to_string(), "cuStreamWaitEvent, cuEventRecord, cuMemFreeAsync");
        // The same memory again, in the same stream; its fill must not come before the other's copy.
        let mut next = unsafe { DeviceBuffer::<u32>::uninitialized_in(4, (&pool, &home)) }.unwrap();
        assert_eq!(next.as_device_ptr().as_raw(), address);
        unsafe { next.async_fill(1, &home) }.unwrap();
        drop(held_home);
        assert_eq!(home.is_done(), Ok(false), "it waits for the other stream");
        drop(held_other);
        home.synchronize().unwrap();
        assert_eq!(host[..], [7; 4]);
        assert_eq!(read(&next), [1; 4]);
    });
}

#[test]
fn the_home_itself_is_no_other_stream() {
    run(|| {
        let _ctx = pushed();
        let home = stream();
        let mut buffer = four_kib(&home).unwrap();
        let ((), calls) = during(|| {
            buffer.also_used_in(&home).unwrap();
            buffer.move_to(&home).unwrap();
        });
        assert_eq!(calls.total(), 0);
        let other = stream();
        buffer.also_used_in(&other).unwrap();
        buffer.also_used_in(&other).unwrap();
        let ((), calls) = during(|| drop(buffer));
        assert_eq!(calls.of("cuEventRecord"), 1, "each other stream is waited for once: {calls}");
    });
}

#[test]
fn memory_moves_from_the_order_of_one_stream_to_that_of_another() {
    run(|| {
        let _ctx = pushed();
        let (first, second) = (stream(), stream());
        let held = hold(&first);
        let mut buffer = unsafe { DeviceBuffer::<u32>::uninitialized_in(2, &first) }.unwrap();
        unsafe { buffer.async_fill(3, &first) }.unwrap();
        buffer.move_to(&second).unwrap();
        unsafe { buffer[..1].async_fill(4, &second) }.unwrap();
        drop((held, first));
        assert_eq!(read(&buffer), [4, 3]);
        let third = stream();
        let boxed = DeviceBox::new_in(&5u64, &second).unwrap();
        assert!(DeviceBuffer::free_in(buffer, &third).is_ok());
        assert!(DeviceBox::free_in(boxed, &third).is_ok());
    });
}

#[test]
fn only_memory_in_a_streams_order_is_moved_and_only_within_its_context() {
    run(|| {
        let (a, _b) = (parked(), pushed());
        let of_a = a.scoped(|_| Ok(stream())).unwrap();
        let of_b = stream();
        let mut plain = DeviceBuffer::from_slice(&[1u8]).unwrap();
        assert!(!plain.is_in_stream_order());
        assert_eq!(plain.also_used_in(&of_b), Err(CudaError::InvalidValue));
        assert_eq!(plain.move_to(&of_b), Err(CudaError::InvalidValue));
        let (error, plain) = DeviceBuffer::free_in(plain, &of_b).unwrap_err();
        assert_eq!(error, CudaError::InvalidValue);
        assert_eq!(read(&plain), [1], "it is as it was");
        let mut ordered = DeviceBuffer::from_slice_in(&[2u8], &of_b).unwrap();
        assert!(ordered.is_in_stream_order());
        assert_eq!(ordered.move_to(&of_a), Err(CudaError::InvalidHandle));
        // Streams of other contexts may use it, though.
        ordered.also_used_in(&of_a).unwrap();
        assert_eq!(read(&ordered), [2]);
        drop((a, of_a));
        assert!(DeviceBuffer::drop(ordered).is_ok(), "the work of a context that is gone is done");
    });
}

#[test]
fn a_stream_may_go_before_the_memory_in_its_order() {
    run_alone(|| {
        let _ctx = pushed();
        for by_hand in [false, true] {
            let stream = stream();
            let mut buffer = DeviceBuffer::from_slice_in(&[1u32, 2], &stream).unwrap();
            let before = instrument::calls().of("cuStreamDestroy_v2");
            if by_hand {
                assert!(Stream::drop(stream).is_ok());
            } else {
                drop(stream);
            }
            buffer[..1].copy_from(&[3]).unwrap();
            assert_eq!(read(&buffer), [3, 2]);
            assert_eq!(instrument::calls().of("cuStreamDestroy_v2"), before);
            let ((), calls) = during(|| drop(buffer));
            assert_eq!(calls.to_string(), "cuStreamDestroy_v2, cuMemFreeAsync");
        }
    });
}

#[test]
fn memory_in_a_streams_order_keeps_its_context_as_all_memory_does() {
    run_alone(|| {
        let ctx = parked();
        let alive = instrument::contexts_alive();
        let stream = ctx.scoped(|_| Ok(stream())).unwrap();
        let buffer = DeviceBuffer::from_slice_in(&[1u8], &stream).unwrap();
        drop(ctx);
        assert_eq!(buffer.copy_to(&mut [0]), Err(CudaError::ContextIsDestroyed));
        assert_eq!(four_kib(&stream).unwrap_err(), CudaError::ContextIsDestroyed);
        assert_eq!(buffer.also_used_in(&stream), Ok(()));
        assert_eq!(instrument::contexts_alive(), alive);
        drop(stream);
        drop(buffer);
        assert_eq!(instrument::contexts_alive(), alive - 1);
    });
}

#[test]
fn every_order_of_dropping_context_stream_and_memory_leaves_nothing() {
    run_alone(|| {
        for order in 0..24 {
            let before = if is_simulated() { (sim::objects(), sim::allocations()) } else { (0, 0) };
            let ctx = parked();
            let (stream, also) = ctx.scoped(|_| Ok((stream(), stream()))).unwrap();
            let buffer = four_kib(&stream).unwrap();
            buffer.also_used_in(&also).unwrap();
            let mut parts: Vec<Box<dyn FnOnce()>> = vec![
                Box::new(|| drop(ctx)),
                Box::new(|| drop(stream)),
                Box::new(|| drop(also)),
                Box::new(|| drop(buffer)),
            ];
            let mut code = order;
            for left in (1..=4).rev() {
                parts.remove(code % left)();
                code /= left;
            }
            wait_until_retired().unwrap();
            let after = if is_simulated() { (sim::objects(), sim::allocations()) } else { (0, 0) };
            assert_eq!(after, before, "in order {order}");
        }
    });
}

#[test]
fn memory_that_is_dropped_in_a_callback_is_freed_soon_after() {
    run_alone(|| {
        let _ctx = pushed();
        let (home, other) = (stream(), stream());
        let before = sim::allocations();
        let buffer = four_kib(&home).unwrap();
        buffer.also_used_in(&other).unwrap();
        let second = four_kib(&home).unwrap();
        other
            .add_callback(Box::new(move |_| {
                drop(buffer);
                let (error, second) = DeviceBuffer::drop(second).unwrap_err();
                assert_eq!((error, second.len()), (CudaError::NotPermitted, 4096));
            }))
            .unwrap();
        other.synchronize().unwrap();
        wait_until_retired().unwrap();
        assert_eq!(sim::allocations(), before);
        home.synchronize().unwrap();
    });
}

#[test]
fn memory_that_a_thread_has_at_its_end_is_freed() {
    thread_local! {
        static KEPT: std::cell::RefCell<Option<DeviceBuffer<u8>>> = const { std::cell::RefCell::new(None) };
    }
    run_alone(|| {
        let ctx = pushed();
        let home = stream();
        let before = sim::allocations();
        let buffer = four_kib(&home).unwrap();
        std::thread::spawn(move || KEPT.with(|kept| *kept.borrow_mut() = Some(buffer))).join().unwrap();
        wait_until_retired().unwrap();
        assert_eq!(sim::allocations(), before);
        drop((home, ctx));
    });
}

#[test]
fn memory_in_a_stream_of_other_codes_context_is_freed_there() {
    run_alone(|| {
        let foreign = other::parked();
        let context = unsafe { custack::context::UnownedContext::from_raw(foreign) };
        let home = context.scoped(|_| Ok(stream())).unwrap();
        let buffer = four_kib(&home).unwrap();
        assert_eq!(buffer.context(), &context);
        drop((buffer, home));
        other::destroy(foreign);
    });
}

#[test]
fn memory_that_is_given_away_comes_back_with_its_order() {
    run(|| {
        let _ctx = pushed();
        let home = stream();
        let boxed = DeviceBox::new_in(&7u32, &home).unwrap();
        let pointer = DeviceBox::into_device(boxed);
        let again = unsafe { DeviceBox::from_device(pointer) };
        assert!(again.is_in_stream_order());
        let mut back = 0;
        again.copy_to(&mut back).unwrap();
        assert_eq!(back, 7);
        let pointer = DeviceBox::into_device(again);
        let (result, calls) = during(|| unsafe { cuda_free(pointer) });
        assert_eq!((result, calls.to_string()), (Ok(()), "cuMemFreeAsync".to_owned()));
    });
}

#[test]
fn nothing_is_allocated_for_nothing() {
    run(|| {
        let _ctx = pushed();
        let home = stream();
        let ((), calls) = during(|| unsafe {
            drop(DeviceBuffer::<u32>::uninitialized_in(0, &home).unwrap());
            drop(DeviceBuffer::<()>::zeroed_in(9, &home).unwrap());
            drop(DeviceBox::<()>::new_in(&(), &home).unwrap());
        });
        assert_eq!(calls.total(), 0);
        let huge = unsafe { DeviceBuffer::<u64>::uninitialized_in(usize::MAX / 2, &home) };
        assert_eq!(huge.unwrap_err(), CudaError::InvalidMemoryAllocation);
        let much = unsafe { DeviceBuffer::<u8>::uninitialized_in(1 << 45, &home) };
        assert_eq!(much.unwrap_err(), CudaError::OutOfMemory);
    });
}

#[test]
fn zeros_and_values_are_there_in_the_streams_order() {
    run(|| {
        let _ctx = pushed();
        let home = stream();
        // What was in the memory before must not be seen.
        drop(DeviceBuffer::from_slice_in(&[0xAAu8; 64], &home).unwrap());
        let zeros = unsafe { DeviceBuffer::<u8>::zeroed_in(64, &home) }.unwrap();
        assert_eq!(read(&zeros), [0; 64]);
        let from = LockedBuffer::from_slice(&[1u16, 2, 3]).unwrap();
        let values = unsafe { DeviceBuffer::from_slice_async_in(&from, &home) }.unwrap();
        assert_eq!(read(&values), [1, 2, 3]);
        let mut zero = 5u8;
        unsafe { DeviceBox::<u8>::zeroed_in(&home) }.unwrap().copy_to(&mut zero).unwrap();
        assert_eq!(zero, 0);
    });
}

#[test]
fn threads_allocate_in_streams_of_their_own_and_in_one() {
    run_alone(|| {
        let ctx = pushed();
        let shared = stream();
        std::thread::scope(|scope| {
            for thread in 0..8u32 {
                let (handle, shared) = (ctx.get_unowned(), &shared);
                scope.spawn(move || {
                    let own = handle.scoped(|_| Ok(stream())).unwrap();
                    for round in 0..50 {
                        let value = thread << 16 | round;
                        let mut one = DeviceBuffer::from_slice_in(&[value; 100], &own).unwrap();
                        let two = DeviceBuffer::from_slice_in(&[value; 33], shared).unwrap();
                        two.also_used_in(&own).unwrap();
                        assert_eq!(read(&one), [value; 100]);
                        one.move_to(shared).unwrap();
                        assert_eq!(read(&two), [value; 33]);
                        assert_eq!(read(&one), [value; 100]);
                    }
                    assert!(current().is_null());
                });
            }
        });
    });
}

#[test]
fn after_a_failed_free_the_buffer_is_empty() {
    run_alone(|| {
        let ctx = pushed();
        let home = stream();
        let buffer = four_kib(&home).unwrap();
        instrument::fail(Some("cuMemFreeAsync"), 1, 719, instrument::When::After);
        let (error, buffer) = DeviceBuffer::drop(buffer).unwrap_err();
        instrument::disarm();
        assert_eq!((error, buffer.len(), buffer.is_in_stream_order()), (CudaError::LaunchFailed, 0, false));
        drop((buffer, home));
        Context::drop(ctx).unwrap();
        assert_eq!(ContextStack::depth(), 0);
    });
}

#[test]
fn a_scope_of_another_stream_comes_after_the_order_of_the_memory() {
    run(|| {
        let _ctx = pushed();
        let (home, mut other) = (stream(), stream());
        let mut host = [0u32; 4];
        let buffer = DeviceBuffer::from_slice_in(&[7u32; 4], &home).unwrap();
        let mut copy = unsafe { DeviceBuffer::<u32>::uninitialized_in(4, &home) }.unwrap();
        let held = hold(&home);
        let opens = Arc::new(AtomicBool::new(false));
        let opened = Arc::clone(&opens);
        let opener = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(30));
            opens.store(true, Ordering::SeqCst);
            drop(held);
        });
        let ((), calls) = during(|| other.sync_scope(|scope| scope.copy_from(&mut *copy, &*buffer)).unwrap());
        assert!(calls.of("cuStreamWaitEvent") >= 1, "{calls}");
        assert!(opened.load(Ordering::SeqCst), "the work of the home has ended");
        other.sync_scope(|scope| scope.copy_to(&*copy, &mut host)).unwrap();
        assert_eq!(host, [7; 4]);
        opener.join().unwrap();
    });
}

#[test]
fn only_a_stream_that_stays_as_long_as_the_memory_is_its_home() {
    run(|| {
        let ctx = pushed();
        let own = stream();
        let borrowed = own.to_borrowed();
        let buffer = four_kib(&borrowed).unwrap();
        drop(own);
        let legacy = LegacyStream::of(&ctx);
        assert_eq!(four_kib(&legacy).unwrap_err(), CudaError::InvalidHandle);
        assert_eq!(buffer.also_used_in(&legacy), Err(CudaError::InvalidHandle));
        let given = stream();
        let foreign = unsafe { BorrowedStream::from_raw(given.as_raw()) }.unwrap();
        assert_eq!(four_kib(&foreign).unwrap_err(), CudaError::InvalidHandle);
        let (error, buffer) = DeviceBuffer::free_in(buffer, &foreign).unwrap_err();
        assert_eq!((error, buffer.len()), (CudaError::InvalidHandle, 4096));
    });
}

#[test]
fn a_copy_is_waited_for_although_a_capture_that_has_begun_meanwhile_forbids_to_wait() {
    run_alone(|| {
        let _ctx = pushed();
        let home = stream();
        let buffer = DeviceBuffer::from_slice_in(&[7u32; 4], &home).unwrap();
        let mut back = [0; 4];
        // As if another thread had begun a capture in the global mode just before.
        instrument::fail(Some("cuStreamSynchronize"), 1, 900, instrument::When::Before);
        let (result, calls) = during(|| buffer.copy_to(&mut back));
        assert_eq!((result, back), (Ok(()), [7; 4]));
        assert_eq!(calls.of("cuThreadExchangeStreamCaptureMode"), 2, "in the relaxed mode: {calls}");
    });
}
