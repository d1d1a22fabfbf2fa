//! Memory that is not of a pool: pitched, page-locked and registered memory, fills and copies.

use super::pool::*;
use crate::harness::{other, run};
use custack_sys::ffi::CUDA_MEMCPY2D;
use std::ptr::{null, null_mut};

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
