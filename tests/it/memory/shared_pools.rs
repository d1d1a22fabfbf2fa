//! Pools that other processes open, asked of the driver's table.

#![cfg(unix)]
#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::interprocess::{from_text, have_none, to_text};
use crate::driver::process::child_with_input;
use crate::harness::{device, parked, pushed, run, table};
use crate::stream::stream;
use custack::driver::ffi::{CUmemLocation, CUmemPoolProps, CUmemPoolPtrExportData, CUmemoryPool};
use custack::error::CudaError;
use custack::memory::{CopyDestination, DeviceBuffer, IpcMemHandle, MemoryPool, PoolProperties};
use custack::stream::StreamFlags;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;

const DESCRIPTOR: u32 = 1;
const NOTHING: CUmemPoolPtrExportData = CUmemPoolPtrExportData { reserved: [0; 64] };

fn create(handles: u32) -> CUmemoryPool {
    let properties = CUmemPoolProps {
        allocType: 1,
        handleTypes: handles,
        location: CUmemLocation { kind: 1, id: 0 },
        ..unsafe { std::mem::zeroed() }
    };
    let mut pool = null_mut();
    assert_eq!(unsafe { (table().cuMemPoolCreate)(&mut pool, &properties) }, 0);
    pool
}

fn export(pool: CUmemoryPool, kind: u32, flags: u64) -> (u32, Option<OwnedFd>) {
    let mut file = -1i32;
    let status =
        unsafe { (table().cuMemPoolExportToShareableHandle)((&raw mut file).cast(), pool, kind, flags) };
    (status, (file >= 0).then(|| unsafe { OwnedFd::from_raw_fd(file) }))
}

fn import(file: i32, kind: u32, flags: u64) -> (u32, CUmemoryPool) {
    let (mut pool, file) = (null_mut(), std::ptr::without_provenance_mut(file as isize as usize));
    (unsafe { (table().cuMemPoolImportFromShareableHandle)(&mut pool, file, kind, flags) }, pool)
}

fn export_pointer(at: u64) -> (u32, CUmemPoolPtrExportData) {
    let mut data = NOTHING;
    (unsafe { (table().cuMemPoolExportPointer)(&mut data, at) }, data)
}

fn import_pointer(pool: CUmemoryPool, mut data: CUmemPoolPtrExportData) -> (u32, u64) {
    let mut at = 0;
    (unsafe { (table().cuMemPoolImportPointer)(&mut at, pool, &mut data) }, at)
}

fn allocate(pool: CUmemoryPool, stream: &custack::stream::Stream) -> u64 {
    let mut at = 0;
    assert_eq!(unsafe { (table().cuMemAllocFromPoolAsync)(&mut at, 4096, pool, stream.as_raw()) }, 0);
    at
}

fn read(at: u64) -> (u32, u32) {
    let mut value = 0u32;
    (unsafe { (table().cuMemcpyDtoH_v2)((&raw mut value).cast(), at, 4) }, value)
}

fn write(at: u64, value: u32) -> u32 {
    unsafe { (table().cuMemcpyHtoD_v2)(at, (&raw const value).cast(), 4) }
}

fn destroy(pool: CUmemoryPool) {
    assert_eq!(unsafe { (table().cuMemPoolDestroy)(pool) }, 0);
}

#[test]
fn a_pool_made_for_it_is_opened_by_a_descriptor_and_has_the_same_memory() {
    if have_none("a_pool_made_for_it_is_opened_by_a_descriptor_and_has_the_same_memory") {
        return;
    }
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let pool = create(DESCRIPTOR);
        let at = allocate(pool, &stream);
        stream.synchronize().unwrap();
        assert_eq!(export_pointer(at).0, 1, "before the pool itself is exported");
        let (status, file) = export(pool, DESCRIPTOR, 0);
        let (again, other) = export(pool, DESCRIPTOR, 0);
        let (file, other) = (file.unwrap(), other.unwrap());
        assert!(status == 0 && again == 0 && file.as_raw_fd() != other.as_raw_fd());
        let (status, opened) = import(file.as_raw_fd(), DESCRIPTOR, 0);
        assert!(status == 0 && opened != pool);

        let (status, data) = export_pointer(at);
        assert_eq!((status, export_pointer(at).1), (0, data));
        let (status, there) = import_pointer(opened, data);
        assert!(status == 0 && there != at);
        assert_eq!((write(at, 41), read(there)), (0, (0, 41)));
        assert_eq!((write(there + 4, 42), read(at + 4)), (0, (0, 42)));
        let mut none = 0;
        let alloc = table().cuMemAllocFromPoolAsync;
        assert_ne!(unsafe { alloc(&mut none, 4096, opened, stream.as_raw()) }, 0);
        // What is opened is freed there first.
        for at in [there, at] {
            assert_eq!(unsafe { (table().cuMemFreeAsync)(at, stream.as_raw()) }, 0);
        }
        stream.synchronize().unwrap();
        destroy(opened);
        destroy(pool);
    });
}

#[test]
fn what_is_no_pool_or_no_memory_of_one_is_not_shared() {
    if have_none("what_is_no_pool_or_no_memory_of_one_is_not_shared") {
        return;
    }
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let (shared, private) = (create(DESCRIPTOR), create(0));
        let mut default = null_mut();
        assert_eq!(unsafe { (table().cuDeviceGetDefaultMemPool)(&mut default, 0) }, 0);
        for (pool, kind, flags) in [
            (shared, 0, 0),
            (shared, 2, 0),
            (shared, 1, 1),
            (null_mut(), 1, 0),
            (private, 1, 0),
            (default, 1, 0),
        ] {
            assert_eq!(export(pool, kind, flags).0, 1);
        }
        assert_eq!(unsafe { (table().cuMemPoolExportToShareableHandle)(null_mut(), shared, 1, 0) }, 1);
        let file = export(shared, DESCRIPTOR, 0).1.unwrap();
        for (kind, flags) in [(0, 0), (1, 1)] {
            assert_eq!(import(file.as_raw_fd(), kind, flags).0, 1);
        }
        let other = File::open("/dev/null").unwrap();
        assert_eq!((import(other.as_raw_fd(), 1, 0).0, import(-1, 1, 0).0), (999, 999));

        let (at, elsewhere) = (allocate(shared, &stream), allocate(private, &stream));
        stream.synchronize().unwrap();
        let data = export_pointer(at).1;
        for wrong in [at + 4, elsewhere, 0] {
            assert_eq!(export_pointer(wrong).0, 1);
        }
        assert_eq!(unsafe { (table().cuMemPoolExportPointer)(null_mut(), at) }, 1);
        assert_eq!(import_pointer(shared, data).0, 1, "the pool itself has it");
        for at in [at, elsewhere] {
            assert_eq!(unsafe { (table().cuMemFreeAsync)(at, stream.as_raw()) }, 0);
        }
        stream.synchronize().unwrap();
        assert_eq!(export_pointer(at).0, 1);
        [shared, private].into_iter().for_each(destroy);
    });
}

#[test]
fn another_process_reads_and_writes_memory_of_a_pool() {
    if have_none("another_process_reads_and_writes_memory_of_a_pool") {
        return;
    }
    run(|| {
        let ctx = parked();
        let stream = ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let pool = MemoryPool::new(device(), &PoolProperties::new().shareable()).unwrap();
        // Two, so that one does not begin with the pool's memory.
        let first = DeviceBuffer::from_slice_in(&[1u32; 3000], (&pool, &stream)).unwrap();
        assert_eq!(first.pool_handle(), Err(CudaError::InvalidValue), "the pool is exported first");
        let descriptor = pool.descriptor().unwrap();
        let values: Vec<u32> = (0..3000).collect();
        let buffer = DeviceBuffer::from_slice_in(&values, (&pool, &stream)).unwrap();
        stream.synchronize().unwrap();
        let handle = buffer.pool_handle().unwrap();
        assert_eq!((handle.len(), buffer.pool_handle().unwrap()), (3000, handle));
        assert_eq!(buffer.ipc_handle(), Err(CudaError::InvalidValue));
        let text = to_text(&handle.to_bytes());
        let (status, output) =
            child_with_input("pool of another process", descriptor, &[("CUSTACK_TEST_MEMORY", &text)]);
        assert!(status.success() && output.contains("scenario done"), "{output}");
        let mut back = vec![0; 3000];
        buffer.copy_to(&mut back).unwrap();
        assert_eq!(back[..3], [77, 1, 2]);
        let whole = MemoryPool::new(device(), &PoolProperties::new()).unwrap();
        assert_eq!(whole.descriptor().unwrap_err(), CudaError::InvalidValue);
    });
}

/// What the test above runs in a process of its own.
pub(crate) fn open() {
    run(|| {
        let bytes = from_text(&std::env::var("CUSTACK_TEST_MEMORY").unwrap());
        let handle = IpcMemHandle::<u32>::from_bytes(bytes.try_into().unwrap());
        let ctx = parked();
        let stream = ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let pool = MemoryPool::open(std::io::stdin(), device()).unwrap();
        let mut buffer = unsafe { DeviceBuffer::open_in(handle, (&pool, &stream)) }.unwrap();
        let mut back = vec![0; 3000];
        buffer.copy_to(&mut back).unwrap();
        assert!((0..3000).eq(back));
        buffer[..1].copy_from(&[77]).unwrap();
        assert!(
            DeviceBuffer::from_slice_in(&[1u32], (&pool, &stream)).is_err(),
            "it has no memory of its own"
        );
        let own = MemoryPool::of_device(device()).unwrap();
        assert_eq!(
            unsafe { DeviceBuffer::open_in(handle, (&own, &stream)) }.err(),
            Some(CudaError::InvalidValue)
        );
        drop(pool);
        drop(buffer);
        stream.synchronize().unwrap();
        let other = File::open("/dev/null").unwrap();
        assert_eq!(MemoryPool::open(other, device()).unwrap_err(), CudaError::UnknownError);
    });
}
