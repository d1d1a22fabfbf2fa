//! Memory of other processes.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::claims::spent::spent;
use crate::driver::process::{child, child_succeeds};
use crate::harness::{current, device, is_simulated, parked, pushed, run, skip, table};
use crate::stream::stream;
use custack::context::UnownedContext;
use custack::error::CudaError;
use custack::memory::{CopyDestination, DeviceBuffer, IpcBuffer, IpcMemHandle, MemoryPool};
use std::ptr::null_mut;

const WORDS: usize = 1000;

/// Whether processes share memory here; the simulated driver's do on Linux only.
pub(crate) fn have_none(test: &str) -> bool {
    let none = is_simulated() && !cfg!(target_os = "linux");
    if none {
        skip(test, "processes share memory of the simulated driver on Linux only");
    }
    none
}

pub(crate) fn to_text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn from_text(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).unwrap());
    digits.map(|two| u8::from_str_radix(two, 16).unwrap()).collect()
}

fn buffer(ctx: &UnownedContext) -> DeviceBuffer<u32> {
    let values: Vec<u32> = (0..WORDS as u32).collect();
    ctx.device_buffer(&values).unwrap()
}

#[test]
fn a_buffer_has_a_handle_that_goes_as_bytes() {
    if have_none("a_buffer_has_a_handle_that_goes_as_bytes") {
        return;
    }
    run(|| {
        let (ctx, other) = (parked(), pushed());
        let buffer = buffer(&ctx);
        let handle = buffer.ipc_handle().unwrap();
        assert_eq!(buffer.ipc_handle().unwrap(), handle);
        assert_eq!((handle.len(), handle.is_empty()), (WORDS, false));
        assert_eq!(IpcMemHandle::from_bytes(handle.to_bytes()), handle);
        assert_eq!(current(), other.as_raw());
        // What was there stays.
        let mut back = vec![0; WORDS];
        buffer.copy_to(&mut back).unwrap();
        assert!((0..WORDS as u32).eq(back));
        drop(ctx);
        assert_eq!(buffer.ipc_handle(), Err(CudaError::ContextIsDestroyed));
    });
}

#[test]
fn what_is_no_handle_of_another_process_is_not_opened() {
    if have_none("what_is_no_handle_of_another_process_is_not_opened") {
        return;
    }
    run(|| {
        let ctx = pushed();
        let own = buffer(&ctx).ipc_handle().unwrap();
        let wrong = [
            (own, CudaError::InvalidContext),
            (IpcMemHandle::from_bytes([0; 72]), CudaError::InvalidValue),
            (IpcMemHandle::from_bytes([0x5a; 72]), CudaError::InvalidValue),
        ];
        for (handle, error) in wrong {
            assert_eq!(unsafe { IpcBuffer::<u32>::open(handle) }.unwrap_err(), error);
            assert_eq!(unsafe { ctx.open_buffer(handle) }.unwrap_err(), error);
        }
    });
}

#[test]
fn only_memory_that_is_at_once_there_is_shared() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let empty = DeviceBuffer::<u32>::from_slice(&[]).unwrap();
        let ordered = DeviceBuffer::from_slice_in(&[1u32; 8], &stream).unwrap();
        let pool = MemoryPool::of_device(device()).unwrap();
        let pooled = DeviceBuffer::from_slice_in(&[1u32; 8], (&pool, &stream)).unwrap();
        for buffer in [empty, ordered, pooled] {
            assert_eq!(buffer.ipc_handle().unwrap_err(), CudaError::InvalidValue);
        }
        let (get, mut handle) =
            (table().cuIpcGetMemHandle, custack::driver::ffi::CUipcMemHandle { reserved: [0; 64] });
        for nowhere in [0, 12345] {
            assert_eq!(unsafe { get(&mut handle, nowhere) }, 1);
            assert_eq!(unsafe { (table().cuIpcCloseMemHandle)(nowhere) }, 1);
        }
        let mut there = DeviceBuffer::from_slice(&[1u32; 8]).unwrap();
        let at = there.as_device_ptr().as_raw().addr() as u64;
        assert_eq!(unsafe { get(null_mut(), at) }, 1);
        assert_eq!(unsafe { (table().cuIpcCloseMemHandle)(at) }, 1, "it is this process's own");
    });
}

#[test]
fn another_process_reads_and_writes_a_buffer() {
    if have_none("another_process_reads_and_writes_a_buffer") {
        return;
    }
    run(|| {
        let ctx = parked();
        for words in [WORDS, (1 << 22) + 3] {
            let values: Vec<u32> = (0..words as u32).collect();
            let buffer = ctx.device_buffer(&values).unwrap();
            let handle = to_text(&buffer.ipc_handle().unwrap().to_bytes());
            child_succeeds("memory of another process", &[("CUSTACK_TEST_MEMORY", &handle)]);
            let mut back = vec![0; words];
            buffer.copy_to(&mut back).unwrap();
            assert_eq!((back[0], back[1], back[words - 1]), (77, 1, 78));
        }
        let (status, text) = child("memory of another process", &[("CUSTACK_TEST_MEMORY", "")]);
        assert!(!status.success(), "{text}");
    });
}

/// What the test above runs in a process of its own.
pub(crate) fn open() {
    run(|| {
        let bytes = from_text(&std::env::var("CUSTACK_TEST_MEMORY").unwrap());
        let handle = IpcMemHandle::<u32>::from_bytes(bytes.try_into().unwrap());
        let (ctx, other) = (parked(), pushed());
        let mut buffer = unsafe { ctx.open_buffer(handle) }.unwrap();
        assert_eq!((buffer.len(), current()), (handle.len(), other.as_raw()));
        assert_eq!(buffer.context().as_raw(), ctx.as_raw());
        let (mut back, last) = (vec![0; handle.len()], handle.len() - 1);
        buffer.copy_to(&mut back).unwrap();
        assert!((0..handle.len() as u32).eq(back));
        let mut again = unsafe { ctx.open_buffer(handle) }.unwrap();
        assert_eq!(again.as_device_ptr(), buffer.as_device_ptr());
        assert_eq!(unsafe { IpcBuffer::open(handle) }.unwrap_err(), CudaError::InvalidHandle);
        buffer[..1].copy_from(&[77]).unwrap();
        drop(buffer);
        // It is open until it is closed as often as it was opened.
        again[last..].copy_from(&[78]).unwrap();
        let at = again.as_device_ptr().as_raw().addr() as u64;
        assert_eq!(unsafe { (table().cuMemFree_v2)(at) }, 1);
        let mut other_handle = custack::driver::ffi::CUipcMemHandle { reserved: [0; 64] };
        let get = |to: &mut _| unsafe { (table().cuIpcGetMemHandle)(to, at) };
        assert_eq!(get(&mut other_handle), 1);
        assert!(IpcBuffer::drop(again).is_ok());
        assert_eq!(unsafe { (table().cuIpcCloseMemHandle)(at) }, 1);
        let make = || unsafe { ctx.open_buffer(handle) }.unwrap();
        spent("cuIpcCloseMemHandle", make, IpcBuffer::drop, |buffer| {
            assert!(buffer.is_empty() && buffer[..].is_empty() && buffer.context().is_null());
            assert!(buffer.as_device_ptr().as_raw().addr() <= 4);
            buffer.copy_from(&[]).unwrap();
            buffer.copy_to(&mut []).unwrap();
        });
        // A buffer keeps its context.
        let last = unsafe { ctx.open_buffer(handle) }.unwrap();
        let handle_of_ctx = last.context().clone();
        drop(ctx);
        assert!(!handle_of_ctx.is_alive());
        assert_eq!(last.copy_to(&mut vec![0; handle.len()]), Err(CudaError::ContextIsDestroyed));
        drop(last);
    });
}
