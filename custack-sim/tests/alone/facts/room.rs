//! How much memory there is: what pools have and nothing uses is no obstacle, and managed memory is not bounded by the device.

use super::pool::*;
use crate::harness::other;
use crate::run_alone;
use custack_sys::ffi::{CUmemAllocationProp, CUmemLocation};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

const GIB: usize = 1 << 30;
const THRESHOLD: u32 = 4;

/// Bytes that are free and that there are.
fn info() -> (usize, usize) {
    let (mut free, mut total) = (0, 0);
    assert_eq!(call!(cuMemGetInfo_v2(&mut free, &mut total)), 0);
    (free, total)
}

/// What the default pool has for memory of earlier tests, which some keep for ever.
static OF_OTHERS: AtomicU64 = AtomicU64::new(0);

/// What the default pool has of the device for this test.
fn reserved() -> u64 {
    reserved_used(default_pool()).0 - OF_OTHERS.load(Ordering::Relaxed)
}

/// Leaves most of the device's memory unused in its default pool, and has the test allocate as much in other ways.
fn beside_a_reserve(test: impl FnOnce(usize) + Send) {
    run_alone(|| {
        let (ctx, stream, _) = place();
        let pool = default_pool();
        assert_eq!((set(pool, THRESHOLD, u64::MAX), call!(cuMemPoolTrimTo(pool, 0))), (0, 0));
        OF_OTHERS.store(reserved_used(pool).0, Ordering::Relaxed);
        let most = info().0 / 10 * 6 / (64 * MIB) * (64 * MIB);
        let (status, at) = alloc(most, stream);
        assert_eq!((status, free(at, stream)), (0, 0));
        sync(stream);
        assert_eq!(reserved(), most as u64);
        test(most);
        assert_eq!((set(pool, THRESHOLD, 0), call!(cuMemPoolTrimTo(pool, 0))), (0, 0));
        leave(ctx);
    });
}

#[test]
fn memory_that_is_allocated_by_itself_has_what_the_default_pool_keeps_and_does_not_use() {
    beside_a_reserve(|most| {
        let mut at = 0;
        assert_eq!(call!(cuMemAlloc_v2(&mut at, most)), 0);
        assert_eq!((reserved(), call!(cuMemFree_v2(at))), (0, 0));
    });
}

#[test]
fn memory_with_a_pitch_has_what_the_default_pool_keeps_and_does_not_use() {
    beside_a_reserve(|most| {
        let (mut at, mut pitch) = (0, 0);
        assert_eq!(call!(cuMemAllocPitch_v2(&mut at, &mut pitch, MIB, most / MIB, 4)), 0);
        assert_eq!((reserved(), call!(cuMemFree_v2(at))), (0, 0));
    });
}

/// Memory of the first device, to be mapped.
fn asked() -> CUmemAllocationProp {
    CUmemAllocationProp {
        kind: 1,
        requestedHandleTypes: 0,
        location: CUmemLocation { kind: 1, id: 0 },
        win32HandleMetaData: null_mut(),
        compressionType: 0,
        gpuDirectRDMACapable: 0,
        usage: 0,
        reserved: [0; 4],
    }
}

#[test]
fn memory_to_be_mapped_has_what_the_default_pool_keeps_and_does_not_use() {
    beside_a_reserve(|most| {
        let asked = asked();
        let mut handle = 0;
        assert_eq!(call!(cuMemCreate(&mut handle, most, &asked, 0)), 0);
        assert_eq!((reserved(), call!(cuMemRelease(handle))), (0, 0));
    });
}

#[test]
fn another_pool_has_what_the_default_one_keeps_and_does_not_use() {
    beside_a_reserve(|most| {
        let (pool, stream) = (own(), stream());
        let at = got(pool, most, stream);
        assert_eq!((reserved(), reserved_used(pool).1), (0, most as u64));
        assert_eq!(free(at, stream), 0);
        sync(stream);
        assert_eq!(destroy(pool), 0);
    });
}

#[test]
fn a_free_that_is_still_to_come_is_not_waited_for() {
    beside_a_reserve(|most| {
        let (stream, mut flag) = (stream(), null_mut());
        assert_eq!(call!(cuMemAllocHost_v2(&mut flag, 4)), 0);
        let word = flag.cast::<u32>();
        // SAFETY: four bytes that were just allocated.
        unsafe { word.write_volatile(0) };
        let (status, used) = alloc(most, stream);
        assert_eq!((status, call!(cuStreamWaitValue32_v2(stream, word as u64, 1, 0))), (0, 0));
        assert_eq!(free(used, stream), 0);
        let mut at = 0;
        assert_eq!(call!(cuMemAlloc_v2(&mut at, most)), 2);
        assert_eq!(reserved(), most as u64);
        // SAFETY: as above; the stream reads it meanwhile as the driver does.
        unsafe { word.write_volatile(1) };
        sync(stream);
        assert_eq!((call!(cuMemAlloc_v2(&mut at, most)), call!(cuMemFree_v2(at))), (0, 0));
        assert_eq!(call!(cuMemFreeHost(flag)), 0);
    });
}

#[test]
fn managed_memory_may_be_more_than_the_device_has_and_takes_nothing_of_it() {
    beside_a_reserve(|most| {
        let (before, mut at) = (info(), [0; 2]);
        assert_eq!(call!(cuMemAllocManaged(&mut at[0], 2 * before.1, 1)), 0, "twice all of it");
        assert_eq!(call!(cuMemAllocManaged(&mut at[1], 4096 * GIB, 1)), 0);
        assert_eq!(reserved(), most as u64);
        assert!(before.0 - info().0 < GIB, "{before:?}, and {:?} then", info());
        // It is used as any other.
        let end = at[1] + (4096 * GIB - 8) as u64;
        let (mut word, mut first) = (7u64, 7u64);
        assert_eq!(call!(cuMemsetD8_v2(end, 3, 8)), 0);
        assert_eq!(call!(cuMemcpyDtoH_v2((&raw mut word).cast(), end, 8)), 0);
        assert_eq!(call!(cuMemcpyDtoH_v2((&raw mut first).cast(), at[1], 8)), 0);
        assert_eq!((word, first), (0x0303_0303_0303_0303, 0));
        // SAFETY: within the allocation, which no work uses now.
        assert_eq!(unsafe { (end as *const u64).read() }, word);
        assert_eq!(at.map(|at| call!(cuMemFree_v2(at))), [0; 2]);
        assert_eq!(call!(cuMemAllocManaged(&mut at[0], 200_000 * GIB, 1)), 2);
    });
}

#[test]
fn page_locked_memory_takes_nothing_of_the_devices() {
    run_alone(|| {
        let ctx = other::create();
        let (before, mut at) = (info(), null_mut());
        assert_eq!(call!(cuMemAllocHost_v2(&mut at, 64 * MIB)), 0);
        let free = info().0;
        assert_eq!(call!(cuMemFreeHost(at)), 0);
        assert!(before.0 - free < 32 * MIB, "{before:?}, and {free} then");
        leave(ctx);
    });
}
