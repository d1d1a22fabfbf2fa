//! What the simulated driver makes of memory in the order of streams: which addresses come again, and what is refused.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::facts::pool::{free, got, own, set};
use crate::gpu::{Stream, pushed, status};
use crate::harness::run_simulated;
use custack_sys::ffi::CUmemoryPool;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::mpsc::{Receiver, Sender, channel};

const SIZE: usize = 30 << 20;

/// What lets a stream have what another one has freed: after an event, by chance, or by a wait. These are the numbers of a
/// pool's attributes.
const EVENTS: u32 = 1;
const CHANCE: u32 = 2;
const WAITS: u32 = 3;
const RELEASE_THRESHOLD: u32 = 4;

fn stream() -> Stream {
    Stream::new().unwrap()
}

/// Holds a stream's work back until the sender is dropped.
fn hold(stream: &Stream) -> Sender<()> {
    unsafe extern "C" fn wait(receiver: *mut c_void) {
        let receiver = unsafe { Box::from_raw(receiver.cast::<Receiver<()>>()) };
        assert!(receiver.recv().is_err());
    }
    let (sender, receiver) = channel::<()>();
    let receiver = Box::into_raw(Box::new(receiver));
    assert_eq!(call!(cuLaunchHostFunc(stream.0, Some(wait), receiver.cast())), 0);
    sender
}

/// A pool that reuses memory in one of the ways.
fn pool(reuse: Option<u32>) -> CUmemoryPool {
    let pool = own();
    for kind in [EVENTS, CHANCE, WAITS] {
        assert_eq!(set(pool, kind, (reuse == Some(kind)).into()), 0);
    }
    pool
}

/// Whether the second stream gets what the first one has freed and not reached, after an event if one is asked for; and
/// whether it then waits for the first one.
fn reused(reuse: Option<u32>, with_event: bool) -> (bool, bool) {
    let _ctx = pushed();
    let (pool, a, b) = (pool(reuse), stream(), stream());
    let held = hold(&a);
    let first = got(pool, SIZE, a.0);
    assert_eq!(free(first, a.0), 0);
    if with_event {
        let mut event = null_mut();
        assert_eq!(call!(cuEventCreate(&mut event, 2)), 0);
        assert_eq!(call!(cuEventRecord(event, a.0)), 0);
        assert_eq!(call!(cuStreamWaitEvent(b.0, event, 0)), 0);
        assert_eq!(call!(cuEventDestroy_v2(event)), 0);
    }
    let second = got(pool, SIZE, b.0);
    let waits = b.is_done() == Ok(false);
    drop(held);
    assert_eq!(free(second, b.0), 0);
    assert_eq!([a.synchronize(), b.synchronize()], [Ok(()); 2]);
    assert_eq!(call!(cuMemPoolDestroy(pool)), 0);
    (first == second, waits)
}

#[test]
fn another_stream_gets_freed_memory_only_as_the_attributes_allow() {
    run_simulated("another_stream_gets_freed_memory_only_as_the_attributes_allow", || {
        assert_eq!(reused(None, false), (false, false));
        assert_eq!(reused(None, true), (false, true));
        assert_eq!(reused(Some(EVENTS), false), (false, false));
        assert_eq!(reused(Some(EVENTS), true), (true, true));
        assert_eq!(reused(Some(CHANCE), false), (false, false), "it is not free yet");
        assert_eq!(reused(Some(WAITS), false), (true, true));
    });
}

#[test]
fn what_is_free_is_reused_by_chance_or_after_the_host_has_seen_it() {
    run_simulated("what_is_free_is_reused_by_chance_or_after_the_host_has_seen_it", || {
        let _ctx = pushed();
        let (a, b) = (stream(), stream());
        for (reuse, synchronized, wanted) in
            [(None, false, false), (Some(CHANCE), false, true), (None, true, true)]
        {
            let pool = pool(reuse);
            assert_eq!(set(pool, RELEASE_THRESHOLD, u64::MAX), 0);
            let first = got(pool, SIZE, a.0);
            assert_eq!(free(first, a.0), 0);
            if synchronized {
                a.synchronize().unwrap();
            }
            let second = got(pool, SIZE, b.0);
            assert_eq!(second == first, wanted, "{reuse:?}, {synchronized}");
            assert_eq!(free(second, b.0), 0);
        }
    });
}

#[test]
fn a_call_on_freed_memory_is_refused_with_a_sentence() {
    run_simulated("a_call_on_freed_memory_is_refused_with_a_sentence", || {
        let _ctx = pushed();
        let (pool, a) = (pool(None), stream());
        // Else a wait of any other test gives the memory back to the device.
        assert_eq!(set(pool, RELEASE_THRESHOLD, u64::MAX), 0);
        let first = got(pool, SIZE, a.0);
        assert_eq!(free(first, a.0), 0);
        assert_eq!(call!(cuMemsetD8_v2(first, 1, 4)), 1);
        let why = custack_sim::log().pop().unwrap();
        assert!(why.contains("was freed in a stream"), "{why}");
        assert_eq!(call!(cuMemFreeAsync(first, a.0)), 1);
        let second = got(pool, SIZE, a.0);
        assert_eq!(call!(cuMemsetD8_v2(second + SIZE as u64 - 1, 1, 2)), 1);
        let why = custack_sim::log().pop().unwrap();
        assert!(why.contains("of an allocation of"), "{why}");
        assert_eq!(free(second, a.0), 0);
    });
}

#[test]
fn work_outside_the_order_of_the_memory_fails_with_a_sentence() {
    run_simulated("work_outside_the_order_of_the_memory_fails_with_a_sentence", || {
        let _ctx = pushed();
        let (pool, a, b) = (pool(None), stream(), stream());
        let held = hold(&a);
        let first = got(pool, SIZE, a.0);
        // `b` does not wait for the allocation, which is behind what holds `a`.
        assert_eq!(call!(cuMemsetD8Async(first, 1, 4, b.0)), 0);
        assert_eq!(b.synchronize(), Err(status::ILLEGAL_ADDRESS));
        let why = custack_sim::log().pop().unwrap();
        assert!(why.contains("of a pool, where no memory is now"), "{why}");
        drop(held);
    });
}
