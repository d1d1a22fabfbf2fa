//! Pools, and memory in the order of streams.

use crate::harness::{drain, other, run};
use crate::run_alone;
use custack_sys::ffi::{CUcontext, CUmemLocation, CUmemPoolProps, CUmemoryPool, CUstream};
use std::ptr::{null, null_mut};

pub(super) const MIB: usize = 1 << 20;

pub(super) fn properties() -> CUmemPoolProps {
    CUmemPoolProps {
        allocType: 1,
        handleTypes: 0,
        location: CUmemLocation { kind: 1, id: 0 },
        win32SecurityAttributes: null_mut(),
        maxSize: 0,
        usage: 0,
        gpuDirectRDMACapable: 0,
        reserved: [0; 53],
    }
}

pub(super) fn create(properties: &CUmemPoolProps) -> (u32, CUmemoryPool) {
    let mut pool = null_mut();
    (call!(cuMemPoolCreate(&mut pool, properties)), pool)
}

pub(crate) fn own() -> CUmemoryPool {
    let (status, pool) = create(&properties());
    assert_eq!(status, 0);
    pool
}

pub(super) fn default_pool() -> CUmemoryPool {
    let mut pool = null_mut();
    assert_eq!(call!(cuDeviceGetDefaultMemPool(&mut pool, 0)), 0);
    pool
}

pub(super) fn destroy(pool: CUmemoryPool) -> u32 {
    call!(cuMemPoolDestroy(pool))
}

pub(super) fn stream() -> CUstream {
    let mut stream = null_mut();
    assert_eq!(call!(cuStreamCreate(&mut stream, 1)), 0);
    stream
}

/// A context on top of this thread's stack, and two streams of it.
pub(super) fn place() -> (CUcontext, CUstream, CUstream) {
    (other::create(), stream(), stream())
}

pub(super) fn leave(context: CUcontext) {
    drain();
    other::destroy(context);
}

pub(super) fn alloc(size: usize, stream: CUstream) -> (u32, u64) {
    let mut address = 7;
    (call!(cuMemAllocAsync(&mut address, size, stream)), address)
}

pub(super) fn alloc_from(pool: CUmemoryPool, size: usize, stream: CUstream) -> (u32, u64) {
    let mut address = 7;
    (call!(cuMemAllocFromPoolAsync(&mut address, size, pool, stream)), address)
}

pub(crate) fn got(pool: CUmemoryPool, size: usize, stream: CUstream) -> u64 {
    let (status, address) = alloc_from(pool, size, stream);
    assert_eq!(status, 0);
    address
}

pub(crate) fn free(address: u64, stream: CUstream) -> u32 {
    call!(cuMemFreeAsync(address, stream))
}

/// Fills some of the memory, and waits for that: a stream that is not ordered after the default one could free it earlier,
/// which the device answers with an error that ends the process's work.
pub(super) fn filled(address: u64) {
    assert_eq!(call!(cuMemsetD8_v2(address, 1, 16)), 0);
    sync(null_mut());
}

pub(super) fn sync(stream: CUstream) {
    assert_eq!(call!(cuStreamSynchronize(stream)), 0);
}

pub(super) fn get(pool: CUmemoryPool, attribute: u32) -> (u32, u64) {
    let mut value = 0u64;
    (call!(cuMemPoolGetAttribute(pool, attribute, (&raw mut value).cast())), value)
}

pub(crate) fn set(pool: CUmemoryPool, attribute: u32, value: u64) -> u32 {
    let mut value = value;
    call!(cuMemPoolSetAttribute(pool, attribute, (&raw mut value).cast()))
}

pub(super) fn reserved_used(pool: CUmemoryPool) -> (u64, u64) {
    (get(pool, 5).1, get(pool, 7).1)
}

#[test]
fn a_pool_begins_empty_and_with_all_reuse_allowed() {
    run(|| {
        let pool = own();
        let values: Vec<_> = (1..=8).map(|attribute| get(pool, attribute)).collect();
        assert_eq!(values, [(0, 1), (0, 1), (0, 1), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0)]);
        assert_eq!((get(pool, 0).0, get(pool, 9).0), (1, 1));
        // Switches take any number for on; peaks are set to 0 alone, and what is now cannot be set.
        assert_eq!((set(pool, 1, 5), get(pool, 1)), (0, (0, 1)));
        assert_eq!((set(pool, 4, 5), get(pool, 4)), (0, (0, 5)));
        let status = [0, 5, 6, 7, 8, 9].map(|attribute| (set(pool, attribute, 0), set(pool, attribute, 5)));
        assert_eq!(status, [(1, 1), (1, 1), (0, 1), (1, 1), (0, 1), (1, 1)]);
        assert_eq!(destroy(pool), 0);
    });
}

#[test]
fn a_pool_needs_good_properties_and_pointers() {
    run(|| {
        // In a process without a context an H200 never answers about the last of these.
        let (ctx, ..) = place();
        let with = |change: fn(&mut CUmemPoolProps)| {
            let mut changed = properties();
            change(&mut changed);
            create(&changed).0
        };
        assert_eq!(call!(cuMemPoolCreate(null_mut(), &properties())), 1);
        assert_eq!(call!(cuMemPoolCreate(&mut null_mut(), null())), 1);
        assert_eq!(with(|p| p.allocType = 0), 1);
        assert_eq!(with(|p| p.location.kind = 0), 1);
        assert_eq!(with(|p| p.location.kind = 9), 1);
        assert_eq!(with(|p| p.location.id = 99), 1);
        assert_eq!(with(|p| p.location.id = -1), 1);
        assert_eq!(with(|p| p.handleTypes = 0x100), 1);
        assert_eq!(with(|p| p.reserved[20] = 1), 1);
        assert_eq!(with(|p| p.maxSize = 1 << 40), 0, "more than there is");
        assert_eq!(with(|p| p.maxSize = 1 << 50), 2);
        assert_eq!(with(|p| p.maxSize = usize::MAX), 2);
        leave(ctx);
    });
}

#[test]
fn the_devices_own_pool_stays_and_what_is_no_pool_is_refused() {
    run(|| {
        let (pool, mut found) = (default_pool(), null_mut());
        assert_eq!((call!(cuDeviceGetMemPool(&mut found, 0)), found == pool), (0, true));
        assert_eq!((destroy(pool), destroy(null_mut())), (1, 1));
        assert_eq!((get(null_mut(), 7).0, call!(cuMemPoolGetAttribute(pool, 7, null_mut()))), (1, 1));
        assert_eq!(
            (
                call!(cuDeviceGetDefaultMemPool(null_mut(), 0)),
                call!(cuDeviceGetDefaultMemPool(&mut found, 99))
            ),
            (1, 101)
        );
        assert_eq!((call!(cuDeviceSetMemPool(0, null_mut())), call!(cuDeviceSetMemPool(99, pool))), (1, 1));
    });
}

#[test]
fn a_destroyed_pool_is_refused_and_its_memory_stays() {
    run(|| {
        let (ctx, a, _) = place();
        let pool = own();
        let address = got(pool, 4096, a);
        assert_eq!(destroy(pool), 0);
        assert_eq!((get(pool, 7).0, alloc_from(pool, 16, a).0, destroy(pool)), (1, 1, 1));
        filled(address);
        assert_eq!(free(address, a), 0);
        sync(a);
        leave(ctx);
    });
}

#[test]
fn chunks_are_of_32_mib_and_what_is_used_is_counted_to_the_byte() {
    run(|| {
        let (ctx, a, _) = place();
        let pool = own();
        let (one, more) = (got(pool, 1, a), got(pool, 4 * MIB, a));
        assert_eq!(reserved_used(pool), (32 << 20, (4 << 20) + 1));
        assert_eq!((free(one, a), free(more, a)), (0, 0));
        assert_eq!(get(pool, 7), (0, 0));
        assert_eq!(get(pool, 8), (0, (4 << 20) + 1));
        sync(a);
        assert_eq!(reserved_used(pool), (0, 0));
        assert_eq!(destroy(pool), 0);
        leave(ctx);
    });
}

#[test]
fn the_most_that_a_pool_takes_is_rounded_up_to_chunks() {
    run(|| {
        let (ctx, a, _) = place();
        let mut small = properties();
        small.maxSize = 1;
        let (status, pool) = create(&small);
        assert_eq!((status, alloc_from(pool, 1, a).0, alloc_from(pool, 4 * MIB, a).0), (0, 0, 0));
        assert_eq!((alloc_from(pool, 31 * MIB, a).0, alloc_from(pool, 33 * MIB, a).0), (2, 2));
        assert_eq!(destroy(pool), 0);
        leave(ctx);
    });
}

#[test]
fn memory_is_freed_by_any_way_and_in_any_stream_once() {
    run(|| {
        let (ctx, a, b) = place();
        let got = || alloc(4096, a).1;
        assert_eq!(free(got(), b), 0, "in another stream");
        assert_eq!(free(got(), null_mut()), 0, "in the default one");
        let address = got();
        assert_eq!((call!(cuMemFree_v2(address)), call!(cuMemFree_v2(address))), (0, 1), "by cuMemFree");
        // A stream that is gone is not needed to free what was allocated in it.
        let gone = stream();
        let address = alloc(4096, gone).1;
        assert_eq!(call!(cuStreamDestroy_v2(gone)), 0);
        assert_eq!(free(address, b), 0);
        sync(b);
        leave(ctx);
    });
}

#[test]
fn an_allocation_needs_a_size_and_a_pointer() {
    run(|| {
        let (ctx, a, _) = place();
        assert_eq!((alloc(0, a), free(0, a)), ((0, 0), 0), "nothing is allocated and freed for nothing");
        assert_eq!(call!(cuMemAllocAsync(null_mut(), 16, a)), 1);
        assert_eq!((alloc(1 << 50, a).0, alloc_from(null_mut(), 16, a).0), (2, 1));
        leave(ctx);
    });
}

#[test]
fn what_is_freed_in_no_order_stays_counted_as_used() {
    run_alone(|| {
        let (ctx, a, _) = place();
        let pool = own();
        let used = || {
            let mut used = 0u64;
            assert_eq!(call!(cuMemPoolGetAttribute(pool, 7, (&raw mut used).cast())), 0);
            used
        };
        let (first, second) = (got(pool, 256, a), got(pool, 64, a));
        sync(a);
        assert_eq!((used(), call!(cuMemFree_v2(first)), used()), (320, 0, 320));
        assert_eq!(free(second, a), 0);
        sync(a);
        assert_eq!((used(), destroy(pool)), (256, 0));
        leave(ctx);
    });
}

#[test]
fn memory_is_freed_without_a_context() {
    run(|| {
        let (ctx, a, _) = place();
        let (_, address) = alloc(64, a);
        sync(a);
        drain();
        assert_eq!((call!(cuMemFree_v2(0)), call!(cuMemFree_v2(address))), (0, 0));
        assert_eq!((call!(cuMemAlloc_v2(&mut 0, 64)), call!(cuMemAllocManaged(&mut 0, 64, 0))), (201, 1));
        other::push(ctx);
        leave(ctx);
    });
}

#[test]
fn memory_is_allocated_and_freed_in_a_stream_whatever_is_current() {
    run(|| {
        let (ctx, a, _) = place();
        drain();
        let (status, address) = alloc(4096, a);
        assert_eq!((status, call!(cuMemsetD8Async(address, 1, 16, a)), free(address, a)), (0, 0, 0));
        // Without a context current the default stream is no stream, and nothing is done without one.
        assert_eq!((alloc(16, null_mut()).0, call!(cuMemsetD8_v2(address, 1, 16))), (201, 201));
        other::push(ctx);
        sync(a);
        leave(ctx);
    });
}

#[test]
fn what_was_freed_by_a_call_is_refused_before_the_stream_gets_there() {
    run(|| {
        let (ctx, a, b) = place();
        let address = alloc(4096, a).1;
        assert_eq!(free(address, a), 0);
        assert_eq!((free(address, a), free(address, b), call!(cuMemFree_v2(address))), (1, 1, 1));
        assert_eq!(call!(cuMemsetD8Async(address, 1, 16, a)), 1);
        sync(a);
        let mut managed = 0;
        assert_eq!(call!(cuMemAllocManaged(&mut managed, 4096, 1)), 0);
        assert_eq!((free(managed, a), call!(cuMemFree_v2(managed))), (801, 0));
        let mut plain = 0;
        assert_eq!(call!(cuMemAlloc_v2(&mut plain, 4096)), 0);
        assert_eq!(free(plain, a), 0, "plain memory may be freed in a stream");
        sync(a);
        leave(ctx);
    });
}

#[test]
fn memory_of_a_pool_outlives_the_context_of_its_stream() {
    run(|| {
        let (below, b, _) = place();
        let (above, a, _) = place();
        let pool = own();
        let address = got(pool, 4096, a);
        assert_eq!(call!(cuCtxDestroy_v2(above)), 0);
        filled(address);
        assert_eq!(get(pool, 7), (0, 4096));
        assert_eq!((free(address, b), get(pool, 7), destroy(pool)), (0, (0, 0), 0));
        leave(below);
    });
}

#[test]
fn a_plain_free_of_a_pools_memory_waits_for_nothing_and_gives_it_to_the_next() {
    use std::sync::atomic::{AtomicBool, Ordering};
    unsafe extern "C" fn until(flag: *mut std::ffi::c_void) {
        // SAFETY: the test below passes a flag that outlives the stream's work.
        let flag = unsafe { &*flag.cast::<AtomicBool>() };
        while !flag.load(Ordering::SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    // A wait of another test would give the memory back to the device before it is asked for again.
    run_alone(|| {
        let (ctx, a, b) = place();
        let pool = own();
        let go = AtomicBool::new(false);
        let address = got(pool, 4096, a);
        sync(a);
        assert_eq!(call!(cuLaunchHostFunc(a, Some(until), (&raw const go).cast_mut().cast())), 0);
        assert_eq!(call!(cuMemFree_v2(address)), 0);
        assert_eq!(call!(cuStreamQuery(a)), 600, "its work from before has not run");
        assert_eq!(got(pool, 4096, b), address);
        go.store(true, Ordering::SeqCst);
        assert_eq!(free(address, b), 0);
        sync(a);
        sync(b);
        assert_eq!(destroy(pool), 0);
        leave(ctx);
    });
}
