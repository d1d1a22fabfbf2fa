//! What the driver says of an address, asked through its table.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::harness::{is_simulated, other, pushed, run, table};
use crate::stream::stream;
use custack::memory::*;
use custack::stream::{CaptureMode, Stream, StreamFlags};
use std::os::raw::c_void;
use std::ptr::{from_ref, null_mut};
use std::time::Duration;

const CONTEXT: u32 = 1;
const TYPE: u32 = 2;
const DEVICE_POINTER: u32 = 3;
const HOST_POINTER: u32 = 4;
const SYNC_MEMOPS: u32 = 6;
const BUFFER_ID: u32 = 7;
const IS_MANAGED: u32 = 8;
const ORDINAL: u32 = 9;
const START: u32 = 11;
const SIZE: u32 = 12;
const MAPPED: u32 = 13;
const POOL: u32 = 17;

/// What is written where nothing was.
const UNTOUCHED: u64 = 0x7777_7777_7777_7777;

/// The status and what was written, of which attributes of four bytes are the lower half.
fn attribute(at: u64, which: u32) -> (u32, u64) {
    let mut value = UNTOUCHED;
    let status = unsafe { (table().cuPointerGetAttribute)((&raw mut value).cast(), which, at) };
    (status, value)
}

fn word(at: u64, which: u32) -> u32 {
    let (status, value) = attribute(at, which);
    assert_eq!(status, 0, "attribute {which} of {at:#x}");
    value as u32
}

fn wide(at: u64, which: u32) -> u64 {
    let (status, value) = attribute(at, which);
    assert_eq!(status, 0, "attribute {which} of {at:#x}");
    value
}

fn attributes(at: u64, which: &[u32]) -> (u32, Vec<u64>) {
    let mut values = vec![0u64; which.len()];
    let mut which = which.to_vec();
    let mut places: Vec<*mut c_void> = values.iter_mut().map(|value| (&raw mut *value).cast()).collect();
    let (count, which) = (which.len() as u32, which.as_mut_ptr());
    let status = unsafe { (table().cuPointerGetAttributes)(count, which, places.as_mut_ptr(), at) };
    (status, values)
}

fn range(at: u64) -> (u32, u64, usize) {
    let (mut start, mut size) = (1, 1);
    (unsafe { (table().cuMemGetAddressRange_v2)(&mut start, &mut size, at) }, start, size)
}

fn address<T>(buffer: &mut DeviceBuffer<T>) -> u64 {
    buffer.as_device_ptr().as_raw().addr() as u64
}

#[test]
fn an_address_in_device_memory_tells_its_context_kind_and_range() {
    run(|| {
        let ctx = pushed();
        let mut buffer = DeviceBuffer::from_slice(&[1u8; 1000]).unwrap();
        let at = address(&mut buffer);
        for inside in [at, at + 1, at + 999] {
            assert_eq!(wide(inside, CONTEXT), ctx.get_unowned().as_raw().addr() as u64);
            assert_eq!(word(inside, TYPE), 2);
            assert_eq!(wide(inside, DEVICE_POINTER), inside);
            assert_eq!((word(inside, IS_MANAGED), word(inside, ORDINAL), word(inside, MAPPED)), (0, 0, 1));
            assert_eq!((wide(inside, START), wide(inside, SIZE)), (at, 1000));
            assert_eq!(wide(inside, POOL), 0);
            assert_eq!(range(inside), (0, at, 1000));
        }
        assert_eq!(attribute(at, HOST_POINTER).0, 1);
        assert_eq!(unsafe { (table().cuMemGetAddressRange_v2)(null_mut(), null_mut(), at) }, 0);
        let many = [CONTEXT, TYPE, HOST_POINTER, ORDINAL, START];
        let context = ctx.get_unowned().as_raw().addr() as u64;
        assert_eq!(attributes(at + 5, &many), (0, vec![context, 2, 0, 0, at]));
    });
}

#[test]
fn each_allocation_has_a_number_of_its_own() {
    run(|| {
        let _ctx = pushed();
        let numbers: Vec<u64> = (0..3)
            .map(|_| {
                let mut buffer = DeviceBuffer::from_slice(&[1u8; 100]).unwrap();
                let at = address(&mut buffer);
                assert_eq!(wide(at, BUFFER_ID), wide(at + 99, BUFFER_ID));
                wide(at, BUFFER_ID)
            })
            .collect();
        assert!(numbers[0] < numbers[1] && numbers[1] < numbers[2], "{numbers:?}");
    });
}

#[test]
fn an_address_that_the_driver_does_not_know_has_no_attribute_but_nothings() {
    run(|| {
        let _ctx = pushed();
        let mine = 5u32;
        let at = from_ref(&mine).addr() as u64;
        for which in [CONTEXT, TYPE, HOST_POINTER, SYNC_MEMOPS, BUFFER_ID, IS_MANAGED] {
            assert_eq!(attribute(at, which), (1, UNTOUCHED), "{which}");
        }
        let many = [CONTEXT, TYPE, IS_MANAGED];
        assert_eq!(attributes(at, &many), (0, vec![0; 3]));
        assert_eq!(attributes(at, &[ORDINAL]).1[0] as u32 as i32, -2);
        assert_ne!(range(at).0, 0);
        let mut buffer = DeviceBuffer::from_slice(&[1u8; 1 << 21]).unwrap();
        let gone = address(&mut buffer);
        drop(buffer);
        assert_eq!(attribute(gone, TYPE).0, 1);
        assert_ne!(range(gone).0, 0);
    });
}

#[test]
fn attributes_that_do_not_exist_and_null_are_refused() {
    run(|| {
        let _ctx = pushed();
        let mut buffer = DeviceBuffer::from_slice(&[1u8; 16]).unwrap();
        let at = address(&mut buffer);
        for odd in [0, 1000] {
            assert_eq!(attribute(at, odd), (1, UNTOUCHED));
            // Those before it are told.
            assert_eq!(attributes(at, &[TYPE, odd]), (1, vec![2, 0]));
            assert_eq!(attributes(at, &[odd, TYPE]), (1, vec![0, 0]));
        }
        assert_eq!(unsafe { (table().cuPointerGetAttribute)(null_mut(), TYPE, at) }, 1);
        let (mut which, mut place) = (TYPE, null_mut::<c_void>());
        let many = table().cuPointerGetAttributes;
        assert_eq!(unsafe { many(1, null_mut(), &mut place, at) }, 1);
        assert_eq!(unsafe { many(1, &mut which, null_mut(), at) }, 1);
    });
}

#[test]
fn memory_of_the_hosts_and_managed_memory_have_one_address_for_both_sides() {
    run(|| {
        let ctx = pushed();
        let context = ctx.get_unowned().as_raw().addr() as u64;
        let locked = LockedBuffer::from_slice(&[3u32; 64]).unwrap();
        let at = locked.as_ptr().addr() as u64;
        assert_eq!((word(at, TYPE), word(at, IS_MANAGED), wide(at, CONTEXT)), (1, 0, context));
        assert_eq!((wide(at + 8, HOST_POINTER), wide(at + 8, DEVICE_POINTER)), (at + 8, at + 8));
        assert_eq!((wide(at, START), wide(at, SIZE)), (at, 256));

        let managed = UnifiedBuffer::from_slice(&[3u32; 64]).unwrap();
        let at = managed.as_ptr().addr() as u64;
        assert_eq!((word(at, TYPE), word(at, IS_MANAGED)), (2, 1));
        assert_eq!((wide(at, HOST_POINTER), wide(at, DEVICE_POINTER)), (at, at));

        let mut own = vec![0u8; 4096];
        RegisteredSlice::scoped(&mut own, RegisterFlags::empty(), |own| {
            let at = own.as_ptr().addr() as u64;
            assert_eq!((word(at + 1, TYPE), wide(at + 1, HOST_POINTER)), (1, at + 1));
            Ok(())
        })
        .unwrap();
        assert_eq!(attribute(own.as_ptr().addr() as u64, TYPE).0, 1);
    });
}

#[test]
fn memory_of_a_pool_tells_the_pool_and_no_context() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let mut buffer = DeviceBuffer::from_slice_in(&[7u8; 100], &stream).unwrap();
        stream.synchronize().unwrap();
        let at = address(&mut buffer);
        let mut pool = null_mut();
        assert_eq!(unsafe { (table().cuDeviceGetDefaultMemPool)(&mut pool, 0) }, 0);
        assert_eq!((wide(at, POOL), wide(at, CONTEXT)), (pool.addr() as u64, 0));
        assert_eq!((word(at, TYPE), word(at, ORDINAL), wide(at, START)), (2, 0, at));
        assert!(wide(at, SIZE) >= 100);
    });
}

#[test]
fn synchronous_work_is_asked_to_synchronize_on_an_allocation() {
    run(|| {
        let _ctx = pushed();
        let mut buffer = DeviceBuffer::from_slice(&[1u8; 64]).unwrap();
        let mut beside = DeviceBuffer::from_slice(&[1u8; 64]).unwrap();
        let (at, beside) = (address(&mut buffer), address(&mut beside));
        let set = |which, value: u32, at| unsafe {
            (table().cuPointerSetAttribute)(from_ref(&value).cast(), which, at)
        };
        assert_eq!(word(at, SYNC_MEMOPS), 0);
        assert_eq!(set(SYNC_MEMOPS, 1, at + 10), 0);
        assert_eq!((word(at, SYNC_MEMOPS), word(beside, SYNC_MEMOPS)), (1, 0));
        assert_eq!(set(SYNC_MEMOPS, 0, at), 0);
        assert_eq!(word(at, SYNC_MEMOPS), 0);
        for which in [TYPE, BUFFER_ID, 1000] {
            assert_eq!(set(which, 1, at), 1, "{which}");
        }
        let mine = 1u32;
        assert_eq!(set(SYNC_MEMOPS, 1, from_ref(&mine).addr() as u64), 1);
        assert_eq!(unsafe { (table().cuPointerSetAttribute)(null_mut(), SYNC_MEMOPS, at) }, 1);
    });
}

#[test]
fn a_fill_of_memory_on_which_work_synchronizes_is_done_when_it_returns() {
    run(|| {
        let _ctx = pushed();
        let (busy, reader) = (Stream::new(StreamFlags::DEFAULT, None).unwrap(), stream());
        let mut buffer = DeviceBuffer::from_slice(&[1u8; 64]).unwrap();
        let mut back = LockedBuffer::new(&0u8, 64).unwrap();
        let (at, on) = (address(&mut buffer), 1u32);
        let set = unsafe { (table().cuPointerSetAttribute)(from_ref(&on).cast(), SYNC_MEMOPS, at) };
        busy.launch_host_func(|| std::thread::sleep(Duration::from_millis(10))).unwrap();
        assert_eq!((set, unsafe { (table().cuMemsetD8_v2)(at, 7, 64) }), (0, 0));
        unsafe { buffer.async_copy_to(&mut back, &reader) }.unwrap();
        reader.synchronize().unwrap();
        assert_eq!(back[..], [7; 64]);
    });
}

#[test]
fn a_thread_without_a_context_may_ask_what_an_address_is() {
    run(|| {
        let ctx = pushed();
        let mut buffer = DeviceBuffer::from_slice(&[1u8; 64]).unwrap();
        let at = address(&mut buffer);
        assert!(other::pop().is_ok());
        assert_eq!((word(at, TYPE), wide(at, SIZE)), (2, 64));
        assert_eq!(wide(at, CONTEXT), ctx.get_unowned().as_raw().addr() as u64);
        if is_simulated() {
            assert_eq!(range(at).0, 201);
        }
        other::push(ctx.get_unowned().as_raw());
        drop(buffer);
        assert!(other::pop().is_ok());
    });
}

#[cfg(feature = "graph")]
#[test]
fn to_ask_what_an_address_is_breaks_no_capture() {
    run(|| {
        let _ctx = pushed();
        let mut buffer = DeviceBuffer::from_slice(&[1u8; 64]).unwrap();
        let at = address(&mut buffer);
        let mut stream = stream();
        let graph = stream.capture(CaptureMode::ThreadLocal, |_| {
            assert_eq!((word(at, TYPE), range(at)), (2, (0, at, 64)));
            assert_eq!(attributes(at, &[TYPE, SIZE]), (0, vec![2, 64]));
            Ok(())
        });
        assert!(graph.is_ok());
    });
}
