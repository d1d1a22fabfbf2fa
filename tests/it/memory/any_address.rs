//! Copies between addresses of whatever kind, and those of arrays with one row, asked of the driver's table.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::done;
use crate::harness::{other, pushed, run, table};
use crate::stream::stream;
use custack::driver::ffi::{CUDA_ARRAY_DESCRIPTOR, CUarray};
use custack::graph::InstantiateFlags;
use custack::memory::*;
use custack::stream::CaptureMode;
use std::os::raw::c_void;
use std::ptr::null_mut;

const UNSIGNED_INT8: u32 = 1;
const UNSIGNED_INT32: u32 = 3;

fn device(buffer: &mut DeviceBuffer<u32>) -> u64 {
    buffer.as_device_ptr().as_raw().addr() as u64
}

fn of<T>(values: &[T]) -> u64 {
    values.as_ptr().expose_provenance() as u64
}

fn of_mut<T>(values: &mut [T]) -> u64 {
    values.as_mut_ptr().expose_provenance() as u64
}

fn copy(to: u64, from: u64, size: usize) -> u32 {
    unsafe { (table().cuMemcpy)(to, from, size) }
}

#[test]
fn a_copy_finds_out_what_its_addresses_are_of() {
    run(|| {
        let _ctx = pushed();
        let values: Vec<u32> = (0..100).collect();
        let mut there = DeviceBuffer::from_slice(&[0u32; 100]).unwrap();
        let mut again = DeviceBuffer::from_slice(&[0u32; 100]).unwrap();
        let (a, b) = (device(&mut there), device(&mut again));
        let mut back = vec![0u32; 100];
        assert_eq!(copy(a, of(&values), 400), 0);
        assert_eq!(copy(b, a, 400), 0);
        assert_eq!(copy(of_mut(&mut back), b, 400), 0);
        assert_eq!(back, values);
        let mut beside = vec![0u32; 100];
        assert_eq!(copy(of_mut(&mut beside), of(&back), 400), 0);
        assert_eq!(beside, values);
        let mut managed = UnifiedBuffer::from_slice(&[0u32; 100]).unwrap();
        assert_eq!(copy(of_mut(&mut managed), a, 400), 0);
        assert_eq!(managed[..], values);
        let mut locked = LockedBuffer::from_slice(&[0u32; 100]).unwrap();
        assert_eq!(copy(of_mut(&mut locked), of(&managed), 200), 0);
        assert_eq!((&locked[..50], locked[50]), (&values[..50], 0));
    });
}

#[test]
fn a_copy_past_the_end_of_what_has_its_address_is_refused() {
    run(|| {
        let _ctx = pushed();
        let mut there = DeviceBuffer::from_slice(&[1u32; 1 << 20]).unwrap();
        let at = device(&mut there);
        let mut back = vec![0u32; (1 << 20) + 1];
        assert_eq!(copy(of_mut(&mut back), at, 4 << 20), 0);
        assert_ne!(copy(of_mut(&mut back), at + 4, 4 << 20), 0);
        assert_eq!(copy(0, at, 4), 1);
        assert_eq!(copy(at, 0, 4), 1);
        assert_eq!(copy(0, 0, 0), 0);
    });
}

#[test]
fn a_copy_in_a_stream_comes_after_what_is_before_it() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let mut there = DeviceBuffer::from_slice(&[0u32; 64]).unwrap();
        let at = device(&mut there);
        let locked = LockedBuffer::from_slice(&[7u32; 64]).unwrap();
        let mut back = LockedBuffer::from_slice(&[0u32; 64]).unwrap();
        let both = |to, from| unsafe { (table().cuMemcpyAsync)(to, from, 256, stream.as_raw()) };
        assert_eq!((both(at, of(&locked)), both(of_mut(&mut back), at)), (0, 0));
        stream.synchronize().unwrap();
        assert_eq!(back[..], [7; 64]);
    });
}

#[test]
fn a_copy_of_any_addresses_becomes_a_node() {
    run(|| {
        let _ctx = pushed();
        let mut stream = stream();
        let (mut a, mut b) = (DeviceBuffer::from_slice(&[3u32; 8]), DeviceBuffer::from_slice(&[0u32; 8]));
        let (from, to) = (device(a.as_mut().unwrap()), device(b.as_mut().unwrap()));
        let raw = stream.as_raw();
        let mut captured = stream.capture(CaptureMode::ThreadLocal, |_| {
            done(unsafe { (table().cuMemcpyAsync)(to, from, 32, raw) })
        });
        let mut back = [0u32; 8];
        assert_eq!(copy(of_mut(&mut back), to, 32), 0);
        assert_eq!(back, [0; 8]);
        let mut exec = captured.as_mut().unwrap().instantiate(InstantiateFlags::empty()).unwrap();
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(copy(of_mut(&mut back), to, 32), 0);
        assert_eq!(back, [3; 8]);
    });
}

#[test]
fn without_a_context_nothing_is_copied() {
    run(|| {
        let (mut to, from) = ([0u32; 4], [1u32; 4]);
        assert_eq!(copy(of_mut(&mut to), of(&from), 16), 201);
        assert_eq!(to, [0; 4]);
    });
}

fn array(width: usize, height: usize, format: u32, channels: u32) -> (u32, CUarray) {
    let asked = CUDA_ARRAY_DESCRIPTOR { Width: width, Height: height, Format: format, NumChannels: channels };
    let mut array = null_mut();
    (unsafe { (table().cuArrayCreate_v2)(&mut array, &asked) }, array)
}

#[test]
fn an_array_of_rows_is_made_and_told() {
    run(|| {
        assert_eq!(array(8, 4, UNSIGNED_INT8, 1).0, 201);
        let _ctx = pushed();
        for (width, height, channels) in [(8, 0, 1), (8, 4, 4)] {
            let (status, made) = array(width, height, UNSIGNED_INT32, channels);
            assert_eq!(status, 0);
            let mut told = CUDA_ARRAY_DESCRIPTOR::default();
            assert_eq!(unsafe { (table().cuArrayGetDescriptor_v2)(&mut told, made) }, 0);
            let asked = CUDA_ARRAY_DESCRIPTOR {
                Width: width,
                Height: height,
                Format: UNSIGNED_INT32,
                NumChannels: channels,
            };
            assert_eq!(told, asked);
            assert_eq!(unsafe { (table().cuArrayGetDescriptor_v2)(null_mut(), made) }, 1);
            assert_eq!(unsafe { (table().cuArrayDestroy)(made) }, 0);
        }
        for (width, format, channels) in [(0, UNSIGNED_INT8, 1), (8, 77, 1), (8, UNSIGNED_INT8, 3)] {
            assert_eq!(array(width, 0, format, channels).0, 1);
        }
        assert_eq!(unsafe { (table().cuArrayCreate_v2)(null_mut(), std::ptr::null()) }, 1);
    });
}

#[test]
fn a_row_is_copied_to_an_array_and_back_from_any_element_on() {
    run(|| {
        let _ctx = pushed();
        let values: Vec<u32> = (0..16).collect();
        let ((_, a), (_, b)) = (array(16, 0, UNSIGNED_INT32, 1), array(16, 0, UNSIGNED_INT32, 1));
        let t = table();
        let mut back = [0u32; 16];
        let to: *mut c_void = back.as_mut_ptr().cast();
        let mut there = DeviceBuffer::from_slice(&[0u32; 16]).unwrap();
        let at = device(&mut there);
        unsafe {
            assert_eq!((t.cuMemcpyHtoA_v2)(a, 0, values.as_ptr().cast(), 64), 0);
            assert_eq!((t.cuMemcpyAtoA_v2)(b, 32, a, 0, 32), 0);
            assert_eq!((t.cuMemcpyAtoD_v2)(at, a, 8, 16), 0);
            assert_eq!((t.cuMemcpyDtoA_v2)(b, 0, at, 16), 0);
            assert_eq!((t.cuMemcpyAtoH_v2)(to, b, 0, 16), 0);
            assert_eq!((t.cuMemcpyAtoH_v2)(to.cast::<u32>().add(8).cast(), b, 32, 32), 0);
        }
        assert_eq!((&back[..4], &back[8..]), (&[2, 3, 4, 5][..], &values[..8]));
        // From within an element on.
        assert_eq!(unsafe { (t.cuMemcpyAtoH_v2)(to, b, 2, 4) }, 0);
        assert_eq!(back[0], 3 << 16);
        // Beyond the row, and from nowhere.
        unsafe {
            assert_eq!((t.cuMemcpyAtoH_v2)(to, b, 60, 8), 1);
            assert_eq!((t.cuMemcpyHtoA_v2)(a, 0, std::ptr::null(), 4), 1);
            assert_eq!((t.cuArrayDestroy)(a), 0);
            assert_eq!((t.cuArrayDestroy)(b), 0);
        }
    });
}

#[test]
fn a_row_is_copied_to_an_array_in_the_order_of_a_stream() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let (_, made) = array(16, 0, UNSIGNED_INT8, 1);
        let values = LockedBuffer::from_slice(&[9u8; 16]).unwrap();
        let mut back = LockedBuffer::from_slice(&[0u8; 16]).unwrap();
        let (t, raw) = (table(), stream.as_raw());
        unsafe {
            assert_eq!((t.cuMemcpyHtoAAsync_v2)(made, 0, values.as_ptr().cast(), 16, raw), 0);
            assert_eq!((t.cuMemcpyAtoHAsync_v2)(back.as_mut_ptr().cast(), made, 4, 12, raw), 0);
        }
        stream.synchronize().unwrap();
        assert_eq!((&back[..12], &back[12..]), (&[9; 12][..], &[0; 4][..]));
        assert_eq!(unsafe { (t.cuArrayDestroy)(made) }, 0);
        assert!(other::pop().is_ok());
        other::push(_ctx.get_unowned().as_raw());
    });
}

#[test]
fn an_array_is_not_made_while_the_thread_captures() {
    run(|| {
        let _ctx = pushed();
        let mut stream = stream();
        let refused = stream.capture(CaptureMode::ThreadLocal, |_| {
            let (status, made) = array(16, 0, UNSIGNED_INT8, 1);
            assert!(status == 900 && made.is_null(), "{status}");
            Ok(())
        });
        assert!(refused.is_err());
        let (status, made) = array(16, 0, UNSIGNED_INT8, 1);
        assert_eq!((status, unsafe { (table().cuArrayDestroy)(made) }), (0, 0));
    });
}
