//! Streams that write a value of memory, or wait for one, asked of the driver's table.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::stream;
use crate::harness::{pushed, run, table};
use custack::memory::{CopyDestination, DeviceBuffer, LockedBuffer, UnifiedBuffer};
use custack::stream::{CaptureMode, Stream};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const AT_LEAST: u32 = 0;
const EQUAL: u32 = 1;
const ANY_BIT: u32 = 2;
const NO_BIT: u32 = 3;
const WAIT_32: u64 = 1;
const WRITE_32: u64 = 2;
const WRITE_64: u64 = 5;
const BARRIER: u64 = 6;

fn wait(stream: &Stream, at: u64, value: u32, flags: u32) -> u32 {
    unsafe { (table().cuStreamWaitValue32_v2)(stream.as_raw(), at, value, flags) }
}

fn write(stream: &Stream, at: u64, value: u32, flags: u32) -> u32 {
    unsafe { (table().cuStreamWriteValue32_v2)(stream.as_raw(), at, value, flags) }
}

fn is_idle(stream: &Stream) -> bool {
    unsafe { (table().cuStreamQuery)(stream.as_raw()) == 0 }
}

fn address<T>(buffer: &mut DeviceBuffer<T>) -> u64 {
    buffer.as_device_ptr().as_raw().addr() as u64
}

/// A word that the host and the device have in common, and its address.
fn word() -> (LockedBuffer<u32>, u64) {
    let mut word = LockedBuffer::from_slice(&[0u32; 4]).unwrap();
    let at = word.as_mut_ptr().expose_provenance() as u64;
    (word, at)
}

fn set(word: &LockedBuffer<u32>, value: u32) {
    let at = word.as_ptr().cast_mut();
    unsafe { AtomicU32::from_ptr(at) }.store(value, Ordering::SeqCst);
}

#[test]
fn a_stream_writes_values_in_its_order() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let mut there = DeviceBuffer::from_slice(&[0u64; 4]).unwrap();
        let at = address(&mut there);
        assert_eq!((write(&stream, at, 7, 0), write(&stream, at + 4, 8, 0)), (0, 0));
        let wide = table().cuStreamWriteValue64_v2;
        assert_eq!(unsafe { wide(stream.as_raw(), at + 8, 1 << 40 | 5, 0) }, 0);
        assert_eq!(write(&stream, at, 9, 0), 0);
        stream.synchronize().unwrap();
        let mut back = [1u64; 4];
        there.copy_to(&mut back).unwrap();
        assert_eq!(back, [8 << 32 | 9, 1 << 40 | 5, 0, 0]);
    });
}

#[test]
fn a_stream_waits_until_the_host_writes_the_value() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let (word, at) = word();
        for (flags, value, too_early, enough) in [
            (AT_LEAST, 10, 9, 11),
            (EQUAL, 10, 11, 10),
            (ANY_BIT, 6, 9, 4),
            (NO_BIT, u32::MAX - 1, u32::MAX, 0),
        ] {
            set(&word, too_early);
            assert_eq!((wait(&stream, at, value, flags), write(&stream, at + 4, flags + 1, 0)), (0, 0));
            std::thread::sleep(std::time::Duration::from_millis(5));
            assert!(!is_idle(&stream), "{flags}");
            assert_ne!(unsafe { std::ptr::read_volatile(&word[1]) }, flags + 1);
            set(&word, enough);
            stream.synchronize().unwrap();
            assert_eq!(unsafe { std::ptr::read_volatile(&word[1]) }, flags + 1);
        }
    });
}

#[test]
fn at_least_is_around_the_circle_of_numbers() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let (word, at) = word();
        set(&word, 3);
        assert_eq!(wait(&stream, at, u32::MAX - 5, AT_LEAST), 0);
        stream.synchronize().unwrap();
        let mut wide = LockedBuffer::from_slice(&[3u64; 1]).unwrap();
        let at = wide.as_mut_ptr().expose_provenance() as u64;
        let ask = table().cuStreamWaitValue64_v2;
        assert_eq!(unsafe { ask(stream.as_raw(), at, u64::MAX - 5, AT_LEAST) }, 0);
        stream.synchronize().unwrap();
        assert_eq!(unsafe { ask(stream.as_raw(), at, 1 << 33, EQUAL) }, 0);
        assert!(!is_idle(&stream));
        unsafe { AtomicU64::from_ptr(wide.as_mut_ptr()) }.store(1 << 33, Ordering::SeqCst);
        stream.synchronize().unwrap();
    });
}

#[test]
fn one_stream_waits_for_what_another_one_writes() {
    run(|| {
        let _ctx = pushed();
        let (first, second) = (stream(), stream());
        let mut there = DeviceBuffer::from_slice(&[0u32; 2]).unwrap();
        let at = address(&mut there);
        assert_eq!((wait(&second, at, 5, EQUAL), write(&second, at + 4, 6, 0)), (0, 0));
        assert!(!is_idle(&second));
        assert_eq!(write(&first, at, 5, 0), 0);
        second.synchronize().unwrap();
        first.synchronize().unwrap();
        let mut back = [0u32; 2];
        there.copy_to(&mut back).unwrap();
        assert_eq!(back, [5, 6]);
    });
}

/// An operation of a batch as C lays it out.
fn operation(kind: u64, at: u64, value: u64, flags: u64) -> [u64; 6] {
    [kind, at, value, flags, 0, 0]
}

#[test]
fn a_batch_is_done_in_its_order_or_not_at_all() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let mut there = DeviceBuffer::from_slice(&[0u64; 2]).unwrap();
        let at = address(&mut there);
        let mut batch = [
            operation(WRITE_32, at, 3, 0),
            operation(WAIT_32, at, 3, EQUAL.into()),
            operation(BARRIER, 0, 0, 0),
            operation(WRITE_64, at + 8, 1 << 35, 0),
        ];
        let t = table();
        let ask = |batch: &mut [[u64; 6]], count, flags| unsafe {
            (t.cuStreamBatchMemOp_v2)(stream.as_raw(), count, batch.as_mut_ptr().cast(), flags)
        };
        assert_eq!(ask(&mut batch, 4, 0), 0);
        stream.synchronize().unwrap();
        let mut back = [0u64; 2];
        there.copy_to(&mut back).unwrap();
        assert_eq!(back, [3, 1 << 35]);

        batch[0][2] = 77;
        batch[3][1] = at + 1;
        assert_eq!(ask(&mut batch, 4, 0), 1);
        batch[3] = operation(99, at, 0, 0);
        assert_eq!(ask(&mut batch, 4, 0), 1);
        assert_eq!((ask(&mut batch, 1, 1), ask(&mut vec![batch[0]; 256], 256, 0)), (1, 1));
        assert_eq!(ask(&mut batch, 0, 0), 0);
        stream.synchronize().unwrap();
        there.copy_to(&mut back).unwrap();
        assert_eq!(back, [3, 1 << 35]);
    });
}

#[test]
fn values_are_of_aligned_memory_that_the_driver_knows_and_does_not_manage() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let mut there = DeviceBuffer::from_slice(&[0u32; 4]).unwrap();
        let at = address(&mut there);
        let managed = UnifiedBuffer::from_slice(&[0u32; 4]).unwrap();
        let mine = 0u32;
        let mine = std::ptr::from_ref(&mine).addr() as u64;
        for odd in [0, at + 2, managed.as_ptr().addr() as u64, mine] {
            assert_eq!((write(&stream, odd, 1, 0), wait(&stream, odd, 0, EQUAL)), (1, 1), "{odd:#x}");
        }
        assert_eq!(unsafe { (table().cuStreamWriteValue64_v2)(stream.as_raw(), at + 4, 1, 0) }, 1);
        for flags in [4, 5, 1 << 31] {
            assert_eq!((write(&stream, at, 1, flags), wait(&stream, at, 0, flags)), (1, 1));
        }
        assert_eq!(write(&stream, at, 1, 1), 1);
        stream.synchronize().unwrap();
        assert_eq!(managed[0], 0);
    });
}

#[cfg(feature = "graph")]
#[test]
fn what_is_written_and_waited_for_becomes_a_node_of_each() {
    run(|| {
        let _ctx = pushed();
        let mut stream = stream();
        let mut there = DeviceBuffer::from_slice(&[0u32; 2]).unwrap();
        let at = address(&mut there);
        let raw = stream.as_raw();
        let mut graph = stream
            .capture(CaptureMode::ThreadLocal, |_| {
                let t = table();
                assert_eq!(unsafe { (t.cuStreamWriteValue32_v2)(raw, at, 5, 0) }, 0);
                assert_eq!(unsafe { (t.cuStreamWaitValue32_v2)(raw, at, 5, EQUAL) }, 0);
                Ok(())
            })
            .unwrap();
        let mut back = [1u32; 2];
        there.copy_to(&mut back).unwrap();
        assert_eq!(back, [0, 0]);
        let mut exec = graph.instantiate(custack::graph::InstantiateFlags::empty()).unwrap();
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        there.copy_to(&mut back).unwrap();
        assert_eq!(back, [5, 0]);
    });
}
