//! What the simulated driver makes of memory in the order of streams: which addresses come again, and what is refused.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::harness::{device, is_simulated, pushed, run_alone, skip, table};
use crate::stream::stream;
use custack::error::CudaError;
use custack::event::{Event, EventFlags};
use custack::memory::*;
use custack::sim;
use custack::stream::{Stream, StreamWaitEventFlags};
use std::sync::mpsc::{Sender, channel};

const SIZE: usize = 30 << 20;

/// A wait of another test shows the host what is free by then, and gives memory back to the device.
fn on_the_simulated_driver(name: &str, test: impl FnOnce() + Send) {
    if is_simulated() {
        run_alone(test);
    } else {
        skip(name, "it is about the simulated driver");
    }
}

fn hold(stream: &Stream) -> Sender<()> {
    let (sender, wait) = channel::<()>();
    stream.launch_host_func(move || assert!(wait.recv().is_err())).unwrap();
    sender
}

fn buffer(pool: &MemoryPool, stream: &Stream) -> (DeviceBuffer<u8>, usize) {
    let mut buffer = unsafe { DeviceBuffer::<u8>::uninitialized_in(SIZE, (pool, stream)) }.unwrap();
    let address = buffer.as_device_ptr().as_raw().addr();
    (buffer, address)
}

fn pool(reuse: Option<PoolReuse>) -> MemoryPool {
    let pool = MemoryPool::new(device(), &PoolProperties::new()).unwrap();
    for kind in
        [PoolReuse::FollowEventDependencies, PoolReuse::Opportunistic, PoolReuse::InternalDependencies]
    {
        pool.set_reuse(kind, reuse == Some(kind)).unwrap();
    }
    pool
}

/// Whether the second stream gets what the first one has freed and not reached, after an event if one is asked for; and
/// whether it then waits for the first one.
fn reused(reuse: Option<PoolReuse>, with_event: bool) -> (bool, bool) {
    let _ctx = pushed();
    let (pool, a, b) = (pool(reuse), stream(), stream());
    let held = hold(&a);
    let (first, address) = buffer(&pool, &a);
    drop(first);
    if with_event {
        let event = Event::new(EventFlags::DISABLE_TIMING).unwrap();
        event.record(&a).unwrap();
        b.wait_event(&event, StreamWaitEventFlags::DEFAULT).unwrap();
    }
    let (second, again) = buffer(&pool, &b);
    let waits = b.is_done() == Ok(false);
    drop(held);
    drop(second);
    (address == again, waits)
}

#[test]
fn another_stream_gets_freed_memory_only_as_the_attributes_allow() {
    on_the_simulated_driver("another_stream_gets_freed_memory_only_as_the_attributes_allow", || {
        assert_eq!(reused(None, false), (false, false));
        assert_eq!(reused(None, true), (false, true));
        assert_eq!(reused(Some(PoolReuse::FollowEventDependencies), false), (false, false));
        assert_eq!(reused(Some(PoolReuse::FollowEventDependencies), true), (true, true));
        assert_eq!(reused(Some(PoolReuse::Opportunistic), false), (false, false), "it is not free yet");
        assert_eq!(reused(Some(PoolReuse::InternalDependencies), false), (true, true));
    });
}

#[test]
fn what_is_free_is_reused_by_chance_or_after_the_host_has_seen_it() {
    on_the_simulated_driver("what_is_free_is_reused_by_chance_or_after_the_host_has_seen_it", || {
        let _ctx = pushed();
        let (a, b) = (stream(), stream());
        for (reuse, synchronized, wanted) in
            [(None, false, false), (Some(PoolReuse::Opportunistic), false, true), (None, true, true)]
        {
            let pool = pool(reuse);
            pool.set_release_threshold(u64::MAX).unwrap();
            let (first, address) = buffer(&pool, &a);
            drop(first);
            if synchronized {
                a.synchronize().unwrap();
            }
            assert_eq!(buffer(&pool, &b).1 == address, wanted, "{reuse:?}, {synchronized}");
        }
    });
}

#[test]
fn a_call_on_freed_memory_is_refused_with_a_sentence() {
    on_the_simulated_driver("a_call_on_freed_memory_is_refused_with_a_sentence", || {
        let _ctx = pushed();
        let (pool, a) = (pool(None), stream());
        // Else a wait of any other test gives the memory back to the device.
        pool.set_release_threshold(u64::MAX).unwrap();
        let (first, address) = buffer(&pool, &a);
        let at = address as u64;
        drop(first);
        assert_eq!(unsafe { (table().cuMemsetD8_v2)(at, 1, 4) }, 1);
        let why = sim::log().pop().unwrap();
        assert!(why.contains("was freed in a stream"), "{why}");
        assert_eq!(unsafe { (table().cuMemFreeAsync)(at, a.as_raw()) }, 1);
        let (second, _) = buffer(&pool, &a);
        assert_eq!(unsafe { (table().cuMemsetD8_v2)(at + SIZE as u64 - 1, 1, 2) }, 1);
        let why = sim::log().pop().unwrap();
        assert!(why.contains("of an allocation of"), "{why}");
        drop(second);
    });
}

#[test]
fn work_outside_the_order_of_the_memory_fails_with_a_sentence() {
    on_the_simulated_driver("work_outside_the_order_of_the_memory_fails_with_a_sentence", || {
        let _ctx = pushed();
        let (pool, a, b) = (pool(None), stream(), stream());
        let held = hold(&a);
        let (first, address) = buffer(&pool, &a);
        // `b` does not wait for the allocation, which is behind what holds `a`.
        assert_eq!(unsafe { (table().cuMemsetD8Async)(address as u64, 1, 4, b.as_raw()) }, 0);
        assert_eq!(b.synchronize(), Err(CudaError::IllegalAddress));
        let why = sim::log().pop().unwrap();
        assert!(why.contains("of a pool, where no memory is now"), "{why}");
        drop(held);
        drop(first);
    });
}
