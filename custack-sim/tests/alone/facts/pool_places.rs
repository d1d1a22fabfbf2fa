//! Where memory of a pool is: on a device, on the host, at a NUMA node, or managed.

use super::pool::*;
use crate::harness::drain;
use crate::run_alone;
use custack_sys::ffi::{CUmemAccessDesc, CUmemLocation, CUmemPoolProps, CUmemoryPool};
use std::ptr::null_mut;

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
            let [default, _] = pools_of(place, of_type);
            let location = CUmemLocation { kind: place.0, id: place.1 };
            let (status, pool) = create(&CUmemPoolProps { allocType: of_type, location, ..properties() });
            assert_eq!(status, 0, "{place:?}");
            for (other, other_type) in all {
                let fits = (other, other_type) == (place, of_type);
                assert_eq!(set_pool(other, other_type, pool), u32::from(!fits), "{place:?} {other:?}");
            }
            assert_eq!((default.0, pools_of(place, of_type)), (0, [default, (0, pool)]));
            assert_ne!(default.1, pool);
            // Once it is destroyed, the default one is the current one: of page-locked memory of a device. Elsewhere an H200
            // took that one too, in some orders of asking, so the default one is made the current one before.
            if (place, of_type) != (DEVICE, 1) {
                assert_eq!(set_pool(place, of_type, default.1), 0);
            }
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
        let node = of(1, NODE);
        assert_eq!((access(node, DEVICE), access(node, HOST)), ((0, 0), (0, 3)));
        for pool in [host, node] {
            assert_eq!(
                [HOST, NODE].map(|place| [3, 0, 2].map(|flags| grant(pool, place, flags))),
                [[0, 801, 1]; 2]
            );
            assert_eq!(access(pool, HOST), (0, 3), "it is not taken");
        }
        assert_eq!(
            [HOST, NODE].map(|place| [3, 0, 2].map(|flags| grant(managed, place, flags))),
            [[0, 0, 1]; 2]
        );
        assert_eq!(destroy(node), 0);
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
        let nowhere = CUmemLocation { kind: 0, id: 0 };
        let (status, nowhere) = create(&CUmemPoolProps { allocType: 2, location: nowhere, ..properties() });
        assert_eq!((status, alloc_from(nowhere, 256, a), destroy(nowhere)), (0, (1, 0), 0));
        let mut graph = null_mut();
        assert_eq!(call!(cuStreamEndCapture(a, &mut graph)), 0);
        assert_eq!((call!(cuGraphDestroy(graph)), pools.map(destroy)), (0, [0, 0]));
        leave(ctx);
    });
}
