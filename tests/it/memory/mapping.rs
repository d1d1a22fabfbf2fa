//! Memory that the program maps by itself, asked of the driver's table.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

#[cfg(unix)]
use super::interprocess::have_none;
use crate::driver::process::child_succeeds;
use crate::harness::{is_simulated, pushed, run, table};
use crate::stream::stream;
use custack::driver::ffi::{CUmemAccessDesc, CUmemAllocationProp, CUmemLocation};
use custack::stream::CaptureMode;
use std::os::raw::c_void;
use std::ptr::{null, null_mut, with_exposed_provenance_mut};

const ON_DEVICE: CUmemLocation = CUmemLocation { kind: 1, id: 0 };
const READ_WRITE: u32 = 3;
const NO_ACCESS: u32 = 0;

fn properties() -> CUmemAllocationProp {
    CUmemAllocationProp {
        kind: 1,
        requestedHandleTypes: 0,
        location: ON_DEVICE,
        win32HandleMetaData: null_mut(),
        compressionType: 0,
        gpuDirectRDMACapable: 0,
        usage: 0,
        reserved: [0; 4],
    }
}

fn granule() -> usize {
    let mut size = 0;
    assert_eq!(unsafe { (table().cuMemGetAllocationGranularity)(&mut size, &properties(), 0) }, 0);
    size
}

fn reserve(size: usize) -> u64 {
    let mut at = 0;
    assert_eq!(unsafe { (table().cuMemAddressReserve)(&mut at, size, 0, 0, 0) }, 0);
    assert!(at != 0 && at % granule() as u64 == 0, "{at:#x}");
    at
}

fn create(size: usize) -> u64 {
    let mut handle = 0;
    assert_eq!(unsafe { (table().cuMemCreate)(&mut handle, size, &properties(), 0) }, 0);
    handle
}

fn map(at: u64, size: usize, handle: u64) -> u32 {
    unsafe { (table().cuMemMap)(at, size, 0, handle, 0) }
}

fn unmap(at: u64, size: usize) -> u32 {
    unsafe { (table().cuMemUnmap)(at, size) }
}

fn grant(at: u64, size: usize, flags: u32) -> u32 {
    let access = CUmemAccessDesc { location: ON_DEVICE, flags };
    unsafe { (table().cuMemSetAccess)(at, size, &access, 1) }
}

fn release(handle: u64) -> u32 {
    unsafe { (table().cuMemRelease)(handle) }
}

fn unreserve(at: u64, size: usize) -> u32 {
    unsafe { (table().cuMemAddressFree)(at, size) }
}

/// Maps new memory, which a device may use, and releases its handle: it goes when it is unmapped.
fn mapped(at: u64, size: usize) {
    let handle = create(size);
    assert_eq!((map(at, size, handle), grant(at, size, READ_WRITE), release(handle)), (0, 0, 0));
}

/// Waits for the copy, which a GPU may still be doing when the call returns: to unmap the memory meanwhile, or to take the
/// access away, is an error of the device that ends the process's use of it.
fn write(at: u64, bytes: &[u8]) -> u32 {
    let status = unsafe { (table().cuMemcpyHtoD_v2)(at, bytes.as_ptr().cast(), bytes.len()) };
    if status != 0 {
        return status;
    }
    unsafe { (table().cuCtxSynchronize)() }
}

fn read(at: u64, count: usize) -> (u32, Vec<u8>) {
    let mut bytes = vec![0; count];
    (unsafe { (table().cuMemcpyDtoH_v2)(bytes.as_mut_ptr().cast(), at, count) }, bytes)
}

#[test]
fn memory_is_made_in_granules_of_2_mib() {
    run(|| {
        let _ctx = pushed();
        assert_eq!(granule(), 2 << 20);
        let t = table();
        let mut size = 0;
        assert_eq!(unsafe { (t.cuMemGetAllocationGranularity)(&mut size, &properties(), 1) }, 0);
        assert_eq!(size, 2 << 20);
        assert_eq!(unsafe { (t.cuMemGetAllocationGranularity)(&mut size, &properties(), 2) }, 1);
        assert_eq!(unsafe { (t.cuMemGetAllocationGranularity)(null_mut(), &properties(), 0) }, 1);
        assert_eq!(unsafe { (t.cuMemGetAllocationGranularity)(&mut size, null(), 0) }, 1);
    });
}

#[test]
fn memory_keeps_its_contents_while_it_is_mapped_elsewhere() {
    run(|| {
        let _ctx = pushed();
        let size = granule();
        let (first, second, handle) = (reserve(size), reserve(2 * size), create(size));
        assert_eq!((map(first, size, handle), grant(first, size, READ_WRITE)), (0, 0));
        assert_eq!(write(first + 1000, &[1, 2, 3, 4]), 0);
        assert_eq!(unmap(first, size), 0);
        assert_eq!((map(second + size as u64, size, handle), release(handle)), (0, 0));
        assert_eq!(grant(second + size as u64, size, READ_WRITE), 0);
        assert_eq!(read(second + size as u64 + 1000, 4), (0, vec![1, 2, 3, 4]));
        assert_eq!(unmap(second + size as u64, size), 0);
        assert_eq!((unreserve(first, size), unreserve(second, 2 * size)), (0, 0));
    });
}

#[test]
fn memory_that_is_mapped_twice_is_the_same_memory() {
    run(|| {
        let _ctx = pushed();
        let size = granule();
        let (a, b, handle) = (reserve(size), reserve(size), create(size));
        for at in [a, b] {
            assert_eq!((map(at, size, handle), grant(at, size, READ_WRITE)), (0, 0));
        }
        assert_eq!(write(a + 64, &[9; 16]), 0);
        assert_eq!(read(b + 64, 16), (0, vec![9; 16]));
        assert_eq!(unsafe { (table().cuMemsetD8_v2)(b + 64, 5, 8) }, 0);
        assert_eq!(read(a + 64, 16).1, [[5; 8], [9; 8]].concat());
        assert_eq!((unmap(a, size), unmap(b, size), release(handle)), (0, 0, 0));
        assert_eq!((unreserve(a, size), unreserve(b, size)), (0, 0));
    });
}

#[test]
fn what_lies_side_by_side_is_used_as_one() {
    run(|| {
        let _ctx = pushed();
        let size = granule();
        let at = reserve(4 * size);
        let between = at + size as u64;
        mapped(at, size);
        assert_eq!(write(between - 8, &[7; 8]), 0);
        assert_ne!(write(between - 8, &[7; 16]), 0);
        mapped(between, size);
        let bytes: Vec<u8> = (0..200).collect();
        assert_eq!(write(between - 100, &bytes), 0);
        assert_eq!(read(between - 100, 200), (0, bytes));
        assert_eq!(unsafe { (table().cuMemsetD32_v2)(at, 0x0505_0505, size / 2) }, 0);
        let (status, all) = read(at, 2 * size);
        assert!(status == 0 && all.iter().all(|byte| *byte == 5));
        assert_ne!(read(at + 2 * size as u64 - 4, 8).0, 0);
        // A hole ends it.
        mapped(at + 3 * size as u64, size);
        assert_ne!(read(at, 4 * size).0, 0);
        assert_eq!(read(at + 3 * size as u64, size).0, 0);
        assert_eq!((unmap(at, 2 * size), unmap(at + 3 * size as u64, size)), (0, 0));
        assert_eq!(unreserve(at, 4 * size), 0);
    });
}

#[test]
fn a_kernel_computes_across_what_lies_side_by_side() {
    run(|| {
        let _ctx = pushed();
        let (module, stream) = (crate::function::module(), stream());
        let size = granule();
        let at = reserve(2 * size);
        mapped(at, size);
        mapped(at + size as u64, size);
        let (x, y) = (at + size as u64 - 256, at);
        let ones: Vec<u8> = [1.0f32; 128].iter().flat_map(|value| value.to_ne_bytes()).collect();
        assert_eq!((write(x, &ones), write(y, &ones)), (0, 0));
        let mut function = null_mut();
        let name = c"saxpy".as_ptr();
        assert_eq!(unsafe { (table().cuModuleGetFunction)(&mut function, module.as_raw(), name) }, 0);
        let (mut a, mut from, mut to, mut count) = (2.0f32, x, y, 128u32);
        let mut arguments: [*mut c_void; 4] =
            [(&raw mut a).cast(), (&raw mut from).cast(), (&raw mut to).cast(), (&raw mut count).cast()];
        let launch = table().cuLaunchKernel;
        let raw = stream.as_raw();
        let list = arguments.as_mut_ptr();
        assert_eq!(unsafe { launch(function, 4, 1, 1, 32, 1, 1, 0, raw, list, null_mut()) }, 0);
        stream.synchronize().unwrap();
        let (status, found) = read(y, 512);
        let threes: Vec<u8> = [3.0f32; 128].iter().flat_map(|value| value.to_ne_bytes()).collect();
        assert!(status == 0 && found == threes);
        assert_eq!((unmap(at, 2 * size), unreserve(at, 2 * size)), (0, 0));
    });
}

#[test]
fn memory_is_used_only_where_access_was_granted() {
    run(|| {
        let _ctx = pushed();
        let size = granule();
        let (at, handle) = (reserve(size), create(size));
        assert_eq!(map(at, size, handle), 0);
        let access = |at| {
            let mut flags = 77;
            let status = unsafe { (table().cuMemGetAccess)(&mut flags, &ON_DEVICE, at) };
            (status, flags)
        };
        assert_eq!(access(at), (0, NO_ACCESS.into()));
        assert_ne!(write(at, &[1]), 0);
        assert_eq!(grant(at, size, READ_WRITE), 0);
        assert_eq!((access(at + 5), write(at, &[1])), ((0, READ_WRITE.into()), 0));
        assert_eq!(grant(at, size, NO_ACCESS), 0);
        assert_eq!(access(at), (0, NO_ACCESS.into()));
        // A device may find out too late to refuse it, and its context is in error then.
        if is_simulated() {
            assert_ne!(read(at, 1).0, 0);
        }
        assert_eq!(grant(at, size, READ_WRITE), 0);
        assert_eq!(read(at, 1), (0, vec![1]));
        // No devices, and addresses that are not mapped.
        let set_access = table().cuMemSetAccess;
        assert_eq!(unsafe { set_access(at, size, null(), 1) }, 1);
        assert_eq!(grant(at + size as u64, size, READ_WRITE), 1);
        assert_eq!(unmap(at, size), 0);
        assert_eq!(grant(at, size, READ_WRITE), 1);
        assert_eq!((access(at).0, release(handle), unreserve(at, size)), (1, 0, 0));
    });
}

#[test]
fn addresses_memory_and_mappings_that_cannot_be_are_refused() {
    run(|| {
        let _ctx = pushed();
        let t = table();
        let size = granule();
        let (mut at, mut handle) = (0, 0);
        unsafe {
            assert_eq!((t.cuMemAddressReserve)(&mut at, 0, 0, 0, 0), 1);
            assert_eq!((t.cuMemAddressReserve)(&mut at, size + 1, 0, 0, 0), 1);
            assert_eq!((t.cuMemAddressReserve)(&mut at, size, 3, 0, 0), 1);
            assert_eq!((t.cuMemAddressReserve)(&mut at, size, 0, 0, 1), 1);
            assert_eq!((t.cuMemAddressReserve)(null_mut(), size, 0, 0, 0), 1);
            assert_eq!((t.cuMemCreate)(&mut handle, 0, &properties(), 0), 1);
            assert_eq!((t.cuMemCreate)(&mut handle, size + 512, &properties(), 0), 1);
            assert_eq!((t.cuMemCreate)(&mut handle, size, &properties(), 1), 1);
            assert_eq!((t.cuMemCreate)(&mut handle, size, null(), 0), 1);
            assert_eq!((t.cuMemCreate)(null_mut(), size, &properties(), 0), 1);
            let nowhere = CUmemAllocationProp { location: CUmemLocation { kind: 1, id: 99 }, ..properties() };
            assert_eq!((t.cuMemCreate)(&mut handle, size, &nowhere, 0), 101);
            let odd = CUmemAllocationProp { kind: 0, ..properties() };
            assert_eq!((t.cuMemCreate)(&mut handle, size, &odd, 0), 1);
        }
        assert_eq!((at, handle), (0, 0));
        let (at, handle) = (reserve(2 * size), create(size));
        assert_eq!(map(at + 4096, size, handle), 1);
        // Only all of the memory is mapped.
        assert_eq!((map(at, 2 * size, handle), map(at, size / 2, handle)), (801, 801));
        assert_eq!(map(at + 2 * size as u64, size, handle), 1);
        assert_eq!(unsafe { (t.cuMemMap)(at, size, 0, handle, 1) }, 1);
        assert_eq!(map(at, size, handle), 0);
        assert_eq!(map(at, size, handle), 1);
        // Where nothing is mapped there is nothing to do, but a mapping is unmapped as a whole.
        assert_eq!((unmap(at, size / 2), unmap(at + size as u64, size)), (1, 0));
        assert_eq!((unreserve(at, 2 * size), unreserve(at, size)), (1, 1));
        assert_eq!((unmap(at, 2 * size), release(handle), unreserve(at, 2 * size)), (0, 0, 0));
        assert_eq!((unreserve(at, 2 * size), release(0)), (1, 1));
    });
}

/// Sizes behind which there are no more addresses, on addresses that are reserved and on others. An H200 has unmapped what
/// was mapped behind those that were named, so nothing else may be mapped in the process.
#[test]
fn sizes_beyond_all_addresses_are_refused_or_end_with_the_reservation() {
    child_succeeds("sizes beyond all addresses", &[]);
}

/// One process of the test above.
pub(crate) fn sizes_beyond_all_addresses() {
    run(|| {
        let _ctx = pushed();
        let (size, most) = (granule(), usize::MAX & !(granule() - 1));
        let at = reserve(size);
        for start in [1, size as u64, at, !(size as u64 - 1)] {
            for count in [most, usize::MAX, usize::MAX >> 1] {
                // Of what is reserved all is unmapped, or nothing: an H200 has done both.
                assert!(unmap(start, count) != 0 || start == at, "{start:#x} {count:#x}");
                assert_ne!(grant(start, count, READ_WRITE), 0, "{start:#x} {count:#x}");
            }
        }
        for start in [1, size as u64, at, !(size as u64 - 1)] {
            for count in [most, usize::MAX, usize::MAX >> 1] {
                assert_ne!(unreserve(start, count), 0, "{start:#x} {count:#x}");
            }
        }
        // Whether an H200 still has it is not known.
        unreserve(at, size);
    });
}

#[test]
fn the_handle_of_what_is_mapped_can_be_had_again() {
    run(|| {
        let _ctx = pushed();
        let t = table();
        let size = granule();
        let asked = CUmemAllocationProp { requestedHandleTypes: 1, ..properties() };
        let (at, mut handle) = (reserve(size), 0);
        assert_eq!(unsafe { (t.cuMemCreate)(&mut handle, size, &asked, 0) }, 0);
        assert_eq!((map(at, size, handle), grant(at, size, READ_WRITE), release(handle)), (0, 0, 0));
        assert_eq!(write(at, &[4]), 0);
        let mut again = 0;
        let inside = with_exposed_provenance_mut(at as usize + 100);
        assert_eq!(unsafe { (t.cuMemRetainAllocationHandle)(&mut again, inside) }, 0);
        let mut told = properties();
        assert_eq!(unsafe { (t.cuMemGetAllocationPropertiesFromHandle)(&mut told, again) }, 0);
        assert_eq!((told.kind, told.requestedHandleTypes, told.location.id), (1, 1, 0));
        assert_eq!(unmap(at, size), 0);
        assert_eq!(unsafe { (t.cuMemRetainAllocationHandle)(&mut handle, inside) }, 1);
        assert_eq!((map(at, size, again), grant(at, size, READ_WRITE)), (0, 0));
        assert_eq!(read(at, 1), (0, vec![4]));
        assert_eq!((unmap(at, size), release(again), unreserve(at, size)), (0, 0, 0));
    });
}

#[test]
fn an_address_tells_what_is_reserved_and_mapped_there() {
    run(|| {
        let _ctx = pushed();
        let size = granule();
        let at = reserve(2 * size);
        let attribute = |at, which| {
            let mut value = 0u64;
            let status = unsafe { (table().cuPointerGetAttribute)((&raw mut value).cast(), which, at) };
            (status, value)
        };
        assert_eq!(attribute(at, 2).0, 1);
        mapped(at + size as u64, size);
        let inside = at + size as u64 + 10;
        // The context, the type of memory, the device, the reservation, and whether it is mapped.
        let found = [1, 2, 9, 11, 12, 13].map(|which| attribute(inside, which));
        assert_eq!(found, [0, 2, 0, at, 2 * size as u64, 1].map(|value| (0, value)));
        let (mut start, mut length) = (0, 0);
        assert_eq!(unsafe { (table().cuMemGetAddressRange_v2)(&mut start, &mut length, inside) }, 0);
        assert_eq!((start, length), (at + size as u64, size));
        assert_ne!(unsafe { (table().cuMemFree_v2)(at + size as u64) }, 0);
        assert_eq!((unmap(at + size as u64, size), unreserve(at, 2 * size)), (0, 0));
        assert_eq!(attribute(at, 11).0, 1);
    });
}

#[cfg(feature = "graph")]
#[test]
fn a_graph_copies_to_what_is_mapped() {
    run(|| {
        let _ctx = pushed();
        let mut stream = stream();
        let size = granule();
        let at = reserve(2 * size);
        mapped(at, size);
        mapped(at + size as u64, size);
        let middle = at + size as u64 - 4;
        assert_eq!(write(at, &[8; 8]), 0);
        let raw = stream.as_raw();
        let mut graph = stream
            .capture(CaptureMode::ThreadLocal, |_| {
                assert_eq!(unsafe { (table().cuMemcpyDtoDAsync_v2)(middle, at, 8, raw) }, 0);
                Ok(())
            })
            .unwrap();
        let mut exec = graph.instantiate(custack::graph::InstantiateFlags::empty()).unwrap();
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(read(middle, 8), (0, vec![8; 8]));
        drop((exec, graph));
        assert_eq!((unmap(at, 2 * size), unreserve(at, 2 * size)), (0, 0));
    });
}

#[cfg(unix)]
const DESCRIPTOR: u32 = 1;

#[cfg(unix)]
fn create_to_share(size: usize) -> u64 {
    let asked = CUmemAllocationProp { requestedHandleTypes: DESCRIPTOR, ..properties() };
    let mut handle = 0;
    assert_eq!(unsafe { (table().cuMemCreate)(&mut handle, size, &asked, 0) }, 0);
    handle
}

#[cfg(unix)]
fn export(handle: u64, kind: u32, flags: u64) -> (u32, i32) {
    let mut file = -1i32;
    let status =
        unsafe { (table().cuMemExportToShareableHandle)((&raw mut file).cast(), handle, kind, flags) };
    (status, file)
}

#[cfg(unix)]
fn import(file: i32, kind: u32) -> (u32, u64) {
    let (mut handle, file) = (0, std::ptr::without_provenance_mut(file as isize as usize));
    (unsafe { (table().cuMemImportFromShareableHandle)(&mut handle, file, kind) }, handle)
}

#[cfg(unix)]
#[test]
fn memory_made_for_it_is_opened_by_a_descriptor() {
    if have_none("memory_made_for_it_is_opened_by_a_descriptor") {
        return;
    }
    run(|| {
        use std::os::fd::FromRawFd;
        let _ctx = pushed();
        let size = granule();
        let (own, private) = (create_to_share(size), create(size));
        let (status, file) = export(own, DESCRIPTOR, 0);
        assert!(status == 0 && file >= 0);
        let (again, other) = export(own, DESCRIPTOR, 0);
        assert!(again == 0 && other >= 0 && other != file);
        for kind in [0, 2, 3, 8] {
            assert_eq!(export(own, kind, 0).0, 1);
        }
        assert_eq!((export(own, 1, 1).0, export(0, 1, 0).0, export(private, 1, 0).0), (1, 1, 1));
        assert_eq!(unsafe { (table().cuMemExportToShareableHandle)(null_mut(), own, 1, 0) }, 1);

        let (status, opened) = import(file, DESCRIPTOR);
        assert!(status == 0 && opened != own);
        let (first, second) = (reserve(size), reserve(size));
        for (at, handle) in [(first, own), (second, opened)] {
            assert_eq!((map(at, size, handle), grant(at, size, READ_WRITE)), (0, 0));
        }
        assert_eq!((write(first, &[5, 6]), read(second, 2)), (0, (0, vec![5, 6])));
        assert_eq!((write(second, &[7]), read(first, 2)), (0, (0, vec![7, 6])));
        let mut told = properties();
        assert_eq!(unsafe { (table().cuMemGetAllocationPropertiesFromHandle)(&mut told, opened) }, 0);
        assert_eq!(
            (told.kind, told.requestedHandleTypes, told.location.kind, told.location.id),
            (1, 0, 1, 0)
        );
        // What was opened is not shared any further.
        assert_eq!(export(opened, DESCRIPTOR, 0).0, 1);
        assert_eq!((import(file, 0).0, import(file, 2).0, import(-1, 1).0), (1, 801, 999));
        assert_eq!(unsafe { (table().cuMemImportFromShareableHandle)(null_mut(), null_mut(), 1) }, 1);
        for (at, handle) in [(first, own), (second, opened)] {
            assert_eq!((unmap(at, size), release(handle), unreserve(at, size)), (0, 0, 0));
        }
        assert_eq!(release(private), 0);
        for file in [file, other] {
            drop(unsafe { std::os::fd::OwnedFd::from_raw_fd(file) });
        }
    });
}
