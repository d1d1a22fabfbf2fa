//! Pools, and memory in the order of streams.

use crate::harness::{drain, other, run, run_alone, table};
use custack::driver::ffi::{
    CUDA_MEMCPY2D, CUcontext, CUmemAccessDesc, CUmemLocation, CUmemPoolProps, CUmemoryPool, CUstream,
};
use std::ptr::{null, null_mut};

const MIB: usize = 1 << 20;

fn properties() -> CUmemPoolProps {
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

fn create(properties: &CUmemPoolProps) -> (u32, CUmemoryPool) {
    let mut pool = null_mut();
    (call!(cuMemPoolCreate(&mut pool, properties)), pool)
}

fn own() -> CUmemoryPool {
    let (status, pool) = create(&properties());
    assert_eq!(status, 0);
    pool
}

fn default_pool() -> CUmemoryPool {
    let mut pool = null_mut();
    assert_eq!(call!(cuDeviceGetDefaultMemPool(&mut pool, 0)), 0);
    pool
}

fn destroy(pool: CUmemoryPool) -> u32 {
    call!(cuMemPoolDestroy(pool))
}

fn stream() -> CUstream {
    let mut stream = null_mut();
    assert_eq!(call!(cuStreamCreate(&mut stream, 1)), 0);
    stream
}

/// A context on top of this thread's stack, and two streams of it.
fn place() -> (CUcontext, CUstream, CUstream) {
    (other::create(), stream(), stream())
}

fn leave(context: CUcontext) {
    drain();
    other::destroy(context);
}

fn alloc(size: usize, stream: CUstream) -> (u32, u64) {
    let mut address = 7;
    (call!(cuMemAllocAsync(&mut address, size, stream)), address)
}

fn alloc_from(pool: CUmemoryPool, size: usize, stream: CUstream) -> (u32, u64) {
    let mut address = 7;
    (call!(cuMemAllocFromPoolAsync(&mut address, size, pool, stream)), address)
}

fn got(pool: CUmemoryPool, size: usize, stream: CUstream) -> u64 {
    let (status, address) = alloc_from(pool, size, stream);
    assert_eq!(status, 0);
    address
}

fn free(address: u64, stream: CUstream) -> u32 {
    call!(cuMemFreeAsync(address, stream))
}

/// Fills some of the memory, and waits for that: a stream that is not ordered after the default one could free it earlier,
/// which the device answers with an error that ends the process's work.
fn filled(address: u64) {
    assert_eq!(call!(cuMemsetD8_v2(address, 1, 16)), 0);
    sync(null_mut());
}

fn sync(stream: CUstream) {
    assert_eq!(call!(cuStreamSynchronize(stream)), 0);
}

fn get(pool: CUmemoryPool, attribute: u32) -> (u32, u64) {
    let mut value = 0u64;
    (call!(cuMemPoolGetAttribute(pool, attribute, (&raw mut value).cast())), value)
}

fn set(pool: CUmemoryPool, attribute: u32, value: u64) -> u32 {
    let mut value = value;
    call!(cuMemPoolSetAttribute(pool, attribute, (&raw mut value).cast()))
}

fn reserved_used(pool: CUmemoryPool) -> (u64, u64) {
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
fn a_pitch_is_a_multiple_of_512_and_elements_are_of_4_8_or_16_bytes() {
    run(|| {
        let ctx = other::create();
        let pitch = |width, height, element| {
            let (mut address, mut pitch) = (0, 0);
            let status = call!(cuMemAllocPitch_v2(&mut address, &mut pitch, width, height, element));
            if status == 0 {
                assert_eq!(call!(cuMemFree_v2(address)), 0);
            }
            (status, pitch)
        };
        let pitches = [1, 512, 513, 5000, 65537].map(|width| pitch(width, 10, 4));
        assert_eq!(pitches, [(0, 512), (0, 512), (0, 1024), (0, 5120), (0, 66048)]);
        let elements = [0, 1, 2, 4, 8, 16, 32].map(|element| pitch(100, 10, element).0);
        assert_eq!(elements, [1, 1, 1, 0, 0, 0, 1]);
        assert_eq!((pitch(0, 10, 4).0, pitch(100, 0, 4).0, pitch(1 << 40, 1 << 20, 4).0), (1, 1, 2));
        assert_eq!(pitch(1 << 40, 1 << 40, 4).0, 1, "more than there can be");
        leave(ctx);
    });
}

#[test]
fn fills_are_aligned_and_within_memory_and_rows_do_not_overlap() {
    run(|| {
        let ctx = other::create();
        let mut at = 0;
        assert_eq!(call!(cuMemAlloc_v2(&mut at, 5120)), 0);
        assert_eq!((call!(cuMemsetD16_v2(at + 1, 1, 4)), call!(cuMemsetD32_v2(at + 2, 1, 4))), (1, 1));
        assert_eq!((call!(cuMemsetD32_v2(at + 1, 1, 0)), call!(cuMemsetD32_v2(0, 1, 0))), (0, 0));
        assert_eq!((call!(cuMemsetD32_v2(0, 1, 1)), call!(cuMemsetD32_v2(at, 1, 1 << 40))), (1, 1));
        let rows = |pitch, width, height| call!(cuMemsetD2D8_v2(at, pitch, 1, width, height));
        assert_eq!((rows(512, 100, 10), rows(512, 0, 10), rows(512, 100, 0)), (0, 0, 0));
        assert_eq!((rows(64, 100, 2), rows(0, 100, 1), rows(0, 100, 2)), (1, 0, 1));
        let words = |at, pitch, height| call!(cuMemsetD2D32_v2(at, pitch, 1, 100, height));
        assert_eq!((words(at, 402, 2), words(at, 400, 2), words(at + 2, 400, 2)), (1, 0, 1));
        assert_eq!(words(at, 512, 1_000_000), 1);
        assert_eq!(call!(cuMemFree_v2(at)), 0);
        leave(ctx);
    });
}

#[test]
fn rows_are_copied_within_memory_and_their_distance() {
    run(|| {
        let ctx = other::create();
        let mut at = 0;
        assert_eq!(call!(cuMemAlloc_v2(&mut at, 10240)), 0);
        let copy = |from: u64, x: usize, pitch: usize, size: (usize, usize)| {
            let copy = CUDA_MEMCPY2D {
                srcXInBytes: x,
                srcY: 0,
                srcMemoryType: 2,
                srcHost: null(),
                srcDevice: from,
                srcArray: null_mut(),
                srcPitch: pitch,
                dstXInBytes: 0,
                dstY: 0,
                dstMemoryType: 2,
                dstHost: null_mut(),
                dstDevice: at + 5120,
                dstArray: null_mut(),
                dstPitch: 512,
                WidthInBytes: size.0,
                Height: size.1,
            };
            call!(cuMemcpy2D_v2(&copy))
        };
        assert_eq!(
            (copy(at, 0, 512, (100, 10)), copy(at, 0, 512, (0, 10)), copy(at, 0, 512, (100, 0))),
            (0, 0, 0)
        );
        assert_eq!((copy(at, 0, 64, (100, 2)), copy(at, 64, 128, (100, 2))), (1, 1), "rows that overlap");
        assert_eq!((copy(at, 0, 0, (100, 1)), copy(at, 0, 101, (100, 2))), (0, 0));
        assert_eq!((copy(at, 0, 512, (100, 100_000)), copy(0, 0, 512, (100, 1))), (1, 1));
        assert_eq!((copy(0, 0, 0, (0, 0)), call!(cuMemcpy2D_v2(null()))), (0, 1));
        assert_eq!(call!(cuMemFree_v2(at)), 0);
        leave(ctx);
    });
}

#[test]
fn a_pools_own_device_always_reads_and_writes_it() {
    run_alone(|| {
        let pool = own();
        assert_eq!(access(pool, DEVICE), (0, 3));
        assert_eq!([3, 0, 1, 2].map(|flags| grant(pool, DEVICE, flags)), [0, 101, 801, 1]);
        assert_eq!(destroy(pool), 0);
    });
}

/// The status of granting access to a place of this kind and number.
fn grant(pool: CUmemoryPool, (kind, id): (u32, i32), flags: u32) -> u32 {
    let access = CUmemAccessDesc { location: CUmemLocation { kind, id }, flags };
    call!(cuMemPoolSetAccess(pool, &access, 1))
}

fn access(pool: CUmemoryPool, (kind, id): (u32, i32)) -> (u32, u32) {
    let (mut flags, mut location) = (7, CUmemLocation { kind, id });
    (call!(cuMemPoolGetAccess(&mut flags, pool, &mut location)), flags)
}

const NOWHERE: (u32, i32) = (0, 0);
const DEVICE: (u32, i32) = (1, 0);
const NO_DEVICE: (u32, i32) = (1, 99);
const HOST: (u32, i32) = (2, 0);
const NODE: (u32, i32) = (3, 0);

#[test]
fn pools_are_on_a_device_or_the_host_and_of_managed_memory_also_nowhere() {
    run_alone(|| {
        let made = |alloc_type, (kind, id), handles, most| {
            let location = CUmemLocation { kind, id };
            let asked = CUmemPoolProps {
                allocType: alloc_type,
                location,
                handleTypes: handles,
                maxSize: most,
                ..properties()
            };
            let (status, pool) = create(&asked);
            assert!(status != 0 || destroy(pool) == 0);
            status
        };
        let pinned = |place| made(1, place, 0, 0);
        assert_eq!([NOWHERE, DEVICE, NO_DEVICE, HOST, (2, 99), (9, 0)].map(pinned), [1, 0, 1, 0, 0, 1]);
        let managed = |place| made(2, place, 0, 0);
        assert_eq!([NOWHERE, DEVICE, NO_DEVICE, HOST, (2, 99), (9, 0)].map(managed), [0, 0, 1, 0, 0, 801]);
        assert_eq!([NODE, (3, -1), (3, 1)].map(pinned), [0, 1, 1]);
        assert_eq!((made(1, HOST, 0, 1), made(2, DEVICE, 0, 1)), (0, 1), "with a limit");
        assert_eq!((made(2, (9, 0), 0, 1), made(2, (9, 0), 1, 0)), (1, 1), "said before the place");
        assert_eq!(
            (made(1, DEVICE, 1, 0), made(1, HOST, 1, 0), made(2, DEVICE, 1, 0)),
            (0, 1, 1),
            "with handles"
        );
    });
}

/// The default pool of memory of a type at a place, and the one that stands for it.
fn pools_of((kind, id): (u32, i32), of_type: u32) -> [(u32, CUmemoryPool); 2] {
    let (mut default, mut current, mut location) = (null_mut(), null_mut(), CUmemLocation { kind, id });
    let asked = call!(cuMemGetDefaultMemPool(&mut default, &mut location, of_type));
    [(asked, default), (call!(cuMemGetMemPool(&mut current, &mut location, of_type)), current)]
}

fn set_pool((kind, id): (u32, i32), of_type: u32, pool: CUmemoryPool) -> u32 {
    call!(cuMemSetMemPool(&mut CUmemLocation { kind, id }, of_type, pool))
}

#[test]
fn each_place_has_a_default_pool_for_each_type_of_memory_that_may_be_there() {
    run_alone(|| {
        let places = [NOWHERE, DEVICE, NO_DEVICE, HOST, (2, 99), NODE, (3, 1), (3, -1)];
        let asked = |of_type| places.map(|place| pools_of(place, of_type).map(|(status, _)| status));
        assert_eq!(asked(1), [1, 0, 1, 0, 0, 0, 1, 1].map(|status| [status; 2]), "page-locked");
        assert_eq!(asked(2), [0, 0, 1, 0, 0, 0, 1, 1].map(|status| [status; 2]), "managed");
        assert_eq!((asked(0), asked(3)), ([[1; 2]; 8], [[1; 2]; 8]), "of no type");
        // The place is looked at first.
        for kind in [4, 5, u32::MAX] {
            assert_eq!([0, 1, 2].map(|of_type| pools_of((kind, 0), of_type)), [[(801, null_mut()); 2]; 3]);
        }
        let mut pool = null_mut();
        assert_eq!(call!(cuMemGetDefaultMemPool(&mut pool, null_mut(), 1)), 1);
        assert_eq!(call!(cuMemGetMemPool(null_mut(), &mut CUmemLocation { kind: 1, id: 0 }, 1)), 1);
        assert_eq!((set_pool(DEVICE, 1, null_mut()), pools_of(DEVICE, 1)[0].1), (1, default_pool()));
        // Each is another, the same again, and none is destroyed.
        let all = [(DEVICE, 1), (DEVICE, 2), (HOST, 1), (HOST, 2), (NODE, 1), (NODE, 2), (NOWHERE, 2)];
        let pools = all.map(|(place, of_type)| pools_of(place, of_type)[0].1);
        assert_eq!(pools, all.map(|(place, of_type)| pools_of(place, of_type)[1].1));
        assert_eq!(std::collections::BTreeSet::from(pools).len(), all.len());
        assert_eq!(pools.map(destroy), [1; 7]);
    });
}

#[test]
fn a_pool_stands_for_the_default_one_of_its_own_place_and_type() {
    run_alone(|| {
        let all = [(DEVICE, 1), (DEVICE, 2), (HOST, 1), (HOST, 2), (NODE, 1), (NOWHERE, 2)];
        for (place, of_type) in all {
            let location = CUmemLocation { kind: place.0, id: place.1 };
            let (status, pool) = create(&CUmemPoolProps { allocType: of_type, location, ..properties() });
            assert_eq!(status, 0, "{place:?}");
            for (other, other_type) in all {
                let fits = (other, other_type) == (place, of_type);
                assert_eq!(set_pool(other, other_type, pool), u32::from(!fits), "{place:?} {other:?}");
            }
            let [default, current] = pools_of(place, of_type);
            assert_eq!((default.0, current), (0, (0, pool)));
            assert_ne!(default.1, pool);
            // Once it is destroyed, the default one is the current one.
            assert_eq!(destroy(pool), 0);
            assert_eq!(pools_of(place, of_type), [default; 2]);
        }
    });
}

#[test]
fn memory_of_a_pool_of_a_numa_node_is_copied_without_access_that_was_granted() {
    run_alone(|| {
        let (context, stream, _) = place();
        let location = CUmemLocation { kind: 3, id: 0 };
        let (status, pool) = create(&CUmemPoolProps { location, ..properties() });
        let at = [(); 2].map(|()| {
            let mut at = 0;
            assert_eq!(call!(cuMemAllocFromPoolAsync(&mut at, 64, pool, stream)), 0);
            at
        });
        assert_eq!((status, call!(cuMemcpyAsync(at[0], at[1], 64, stream))), (0, 0));
        drain();
        assert_eq!((at.map(|at| call!(cuMemFree_v2(at))), destroy(pool)), ([0; 2], 0));
        leave(context);
    });
}

#[test]
fn memory_of_a_default_pool_is_of_the_device_of_its_context() {
    run_alone(|| {
        let (context, stream, _) = place();
        for (place, of_type, kind) in
            [(DEVICE, 1, 2), (DEVICE, 2, 2), (HOST, 1, 1), (HOST, 2, 2), (NODE, 1, 1), (NOWHERE, 2, 2)]
        {
            let (pool, mut at) = (pools_of(place, of_type)[0].1, 0);
            assert_eq!(call!(cuMemAllocFromPoolAsync(&mut at, 256, pool, stream)), 0, "{place:?}");
            drain();
            let of = |attribute| {
                let mut value = 9_u32;
                assert_eq!(call!(cuPointerGetAttribute((&raw mut value).cast(), attribute, at)), 0);
                value
            };
            // The type of memory, whether it is managed, the device.
            assert_eq!([2, 8, 9].map(of), [kind, u32::from(of_type == 2), 0], "{place:?} {of_type}");
            assert_eq!(call!(cuMemFree_v2(at)), 0);
        }
        leave(context);
    });
}

#[test]
fn pools_of_the_host_and_of_managed_memory_grant_access() {
    run_alone(|| {
        let of = |alloc_type, (kind, id)| {
            let location = CUmemLocation { kind, id };
            let (status, pool) = create(&CUmemPoolProps { allocType: alloc_type, location, ..properties() });
            assert_eq!(status, 0);
            pool
        };
        let (device, host, managed) = (own(), of(1, HOST), of(2, DEVICE));
        let all = [device, host, managed];
        assert_eq!(all.map(|pool| access(pool, DEVICE)), [(0, 3), (0, 0), (0, 0)]);
        assert_eq!(all.map(|pool| access(pool, HOST)), [(0, 0), (0, 3), (0, 0)]);
        assert_eq!(all.map(|pool| grant(pool, DEVICE, 0)), [101, 0, 0]);
        assert_eq!(all.map(|pool| grant(pool, NOWHERE, 3)), [801, 1, 1]);
        assert_eq!((grant(device, NO_DEVICE, 1), grant(managed, NO_DEVICE, 1)), (801, 801), "only to read");
        assert_eq!((grant(device, NO_DEVICE, 3), grant(host, NO_DEVICE, 3)), (101, 101));
        assert_eq!((grant(host, HOST, 3), grant(managed, HOST, 3)), (0, 0));
        // The device allocates from its own pools; one of managed memory it takes, and goes on with the other.
        assert_eq!(all.map(|pool| call!(cuDeviceSetMemPool(0, pool))), [0, 1, 0]);
        let mut current = null_mut();
        assert_eq!((call!(cuDeviceGetMemPool(&mut current, 0)), current), (0, device));
        assert_eq!(all.map(destroy), [0; 3]);
    });
}

#[test]
fn memory_of_the_host_is_not_filled_and_not_captured() {
    run_alone(|| {
        let (ctx, a, _) = place();
        let host = CUmemPoolProps { location: CUmemLocation { kind: 2, id: 0 }, ..properties() };
        let shared = CUmemPoolProps { handleTypes: 1, ..properties() };
        let pools = [host, shared].map(|asked| create(&asked).1);
        let memory = pools.map(|pool| got(pool, 256, a));
        assert_eq!(memory.map(|at| call!(cuMemsetD8Async(at, 1, 16, a))), [1, 0]);
        assert_eq!(memory.map(|at| free(at, a)), [0, 0]);
        sync(a);
        assert_eq!(call!(cuStreamBeginCapture_v2(a, 2)), 0);
        assert_eq!(pools.map(|pool| alloc_from(pool, 256, a)), [(801, 0); 2]);
        let mut graph = null_mut();
        assert_eq!(call!(cuStreamEndCapture(a, &mut graph)), 0);
        assert_eq!((call!(cuGraphDestroy(graph)), pools.map(destroy)), (0, [0, 0]));
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
fn memory_is_registered_once_and_unregistered_where_it_begins() {
    run(|| {
        let ctx = other::create();
        let mut values = vec![0u8; 16384];
        let start = values.as_mut_ptr().cast::<std::ffi::c_void>();
        let at = |offset: usize| start.wrapping_byte_add(offset);
        let register = |offset, size, flags| call!(cuMemHostRegister_v2(at(offset), size, flags));
        assert_eq!((register(0, 8192, 0), register(0, 8192, 0), register(100, 50, 0)), (0, 712, 712));
        let (mut address, mut flags) = (0, 0);
        assert_eq!(call!(cuMemHostGetDevicePointer_v2(&mut address, at(5), 0)), 0);
        assert_eq!((address, call!(cuMemHostGetFlags(&mut flags, start)), flags), (at(5) as u64, 0, 2));
        assert_eq!((call!(cuMemHostUnregister(at(1))), call!(cuMemFreeHost(start))), (1, 1));
        assert_eq!((call!(cuMemHostUnregister(start)), call!(cuMemHostUnregister(start))), (0, 713));
        assert_eq!((register(0, 0, 0), register(0, 16, 4), register(0, 16, 0x10)), (1, 1, 1));
        assert_eq!(call!(cuMemHostRegister_v2(null_mut(), 16, 0)), 1);
        assert_eq!(call!(cuMemHostUnregister(null_mut())), 1);
        let mut locked = null_mut();
        assert_eq!(call!(cuMemHostAlloc(&mut locked, 100, 4)), 0);
        assert_eq!((call!(cuMemHostGetFlags(&mut flags, locked)), flags), (0, 6));
        assert_eq!((call!(cuMemHostRegister_v2(locked, 100, 0)), call!(cuMemHostUnregister(locked))), (1, 1));
        assert_eq!(call!(cuMemFreeHost(locked)), 0);
        assert_eq!(
            (call!(cuMemHostAlloc(&mut locked, 100, 8)), call!(cuMemHostAlloc(null_mut(), 100, 0))),
            (1, 1)
        );
        leave(ctx);
        assert_eq!(register(0, 16, 0), 201);
    });
}

#[test]
fn copies_between_contexts_need_no_context() {
    run(|| {
        let ctx = other::create();
        let (mut from, mut to) = (0, 0);
        assert_eq!((call!(cuMemAlloc_v2(&mut from, 64)), call!(cuMemAlloc_v2(&mut to, 64))), (0, 0));
        let copy = |to, from, size| call!(cuMemcpyPeer(to, null_mut(), from, ctx, size));
        assert_eq!(
            (copy(to, from, 64), copy(0, 0, 0), copy(0, from, 64), copy(to, from, 1 << 30)),
            (0, 0, 1, 1)
        );
        assert_eq!((call!(cuMemFree_v2(from)), call!(cuMemFree_v2(to))), (0, 0));
        leave(ctx);
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
