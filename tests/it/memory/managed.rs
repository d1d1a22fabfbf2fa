//! Advice about managed memory, given and asked through the driver's table.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::done;
use crate::harness::{pushed, run, table};
use crate::stream::stream;
use custack::driver::ffi::CUmemLocation;
use custack::memory::*;
use custack::stream::CaptureMode;
use std::ptr::null_mut;

const PAGE: usize = 4096;
const PAGES: usize = 64;
const OF_HOST: i32 = -1;
const NONE: i32 = -2;
const INVALID_DEVICE: u32 = 101;

const READ_MOSTLY: u32 = 1;
const PREFERRED: u32 = 2;
const ACCESSED_BY: u32 = 3;
const PREFETCHED: u32 = 4;
const PREFERRED_TYPE: u32 = 5;

fn managed() -> (UnifiedBuffer<u8>, u64) {
    let buffer = UnifiedBuffer::from_slice(&[7u8; PAGES * PAGE]).unwrap();
    let at = buffer.as_ptr().expose_provenance() as u64;
    (buffer, at)
}

fn told(at: u64, size: usize, which: u32) -> (u32, i32) {
    let mut value = 77i32;
    let to = (&raw mut value).cast();
    (unsafe { (table().cuMemRangeGetAttribute)(to, 4, which, at, size) }, value)
}

fn advise(at: u64, size: usize, what: u32, device: i32) -> u32 {
    unsafe { (table().cuMemAdvise)(at, size, what, device) }
}

#[test]
fn advice_is_told_if_all_of_a_range_has_it() {
    run(|| {
        let _ctx = pushed();
        let (_buffer, at) = managed();
        let all = PAGES * PAGE;
        for (which, nothing) in [(READ_MOSTLY, 0), (PREFERRED, NONE), (ACCESSED_BY, NONE), (PREFETCHED, NONE)]
        {
            assert_eq!(told(at, all, which), (0, nothing), "{which}");
        }
        assert_eq!(advise(at, all, 1, 0), 0);
        assert_eq!(told(at, all, READ_MOSTLY), (0, 1));
        assert_eq!(advise(at + 8 * PAGE as u64, PAGE, 2, 0), 0);
        assert_eq!(told(at, all, READ_MOSTLY), (0, 0));
        assert_eq!(told(at, 4 * PAGE, READ_MOSTLY), (0, 1));

        assert_eq!(advise(at, all, 3, OF_HOST), 0);
        assert_eq!((told(at, all, PREFERRED), told(at, all, PREFERRED_TYPE)), ((0, OF_HOST), (0, 2)));
        assert_eq!(advise(at, all, 3, 0), 0);
        assert_eq!((told(at, all, PREFERRED), told(at, all, PREFERRED_TYPE)), ((0, 0), (0, 1)));
        assert_eq!(advise(at, all, 4, 0), 0);
        assert_eq!((told(at, all, PREFERRED), told(at, all, PREFERRED_TYPE)), ((0, NONE), (0, 0)));

        assert_eq!(advise(at, all, 5, 0), 0);
        let mut list = [77i32; 3];
        let to = list.as_mut_ptr().cast();
        assert_eq!(unsafe { (table().cuMemRangeGetAttribute)(to, 12, ACCESSED_BY, at, all) }, 0);
        assert_eq!(list, [0, NONE, NONE]);
        assert_eq!(advise(at, all, 6, 0), 0);
        assert_eq!(told(at, all, ACCESSED_BY), (0, NONE));
    });
}

#[test]
fn several_attributes_are_told_at_once() {
    run(|| {
        let _ctx = pushed();
        let (_buffer, at) = managed();
        assert_eq!(advise(at, PAGE, 1, 0), 0);
        let (mut mostly, mut preferred) = (77i32, 77i32);
        let mut places = [(&raw mut mostly).cast(), (&raw mut preferred).cast()];
        let (mut rooms, mut which) = ([4usize; 2], [READ_MOSTLY, PREFERRED]);
        let ask = table().cuMemRangeGetAttributes;
        let (to, rooms, which) = (places.as_mut_ptr(), rooms.as_mut_ptr(), which.as_mut_ptr());
        assert_eq!(unsafe { ask(to, rooms, which, 2, at, PAGE / 2) }, 0);
        assert_eq!((mostly, preferred), (1, NONE));
        assert_eq!(unsafe { ask(null_mut(), rooms, which, 2, at, PAGE) }, 1);
    });
}

#[test]
fn only_managed_memory_is_advised_about_and_prefetched() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let mut other = DeviceBuffer::from_slice(&[1u8; PAGE]).unwrap();
        let at = other.as_device_ptr().as_raw().addr() as u64;
        let prefetch =
            |at, size, device| unsafe { (table().cuMemPrefetchAsync)(at, size, device, stream.as_raw()) };
        assert_eq!((advise(at, PAGE, 1, 0), told(at, PAGE, READ_MOSTLY).0, prefetch(at, PAGE, 0)), (1, 1, 1));
        let (_buffer, at) = managed();
        let all = PAGES * PAGE;
        assert_eq!((advise(at, 0, 1, 0), told(at, 0, READ_MOSTLY).0, prefetch(at, 0, 0)), (1, 1, 1));
        for what in [0, 7] {
            assert_eq!(advise(at, all, what, 0), 1);
        }
        assert_eq!((advise(at, all, 3, 99), prefetch(at, all, 99)), (INVALID_DEVICE, INVALID_DEVICE));
        // Named as a location, the same device has another status.
        for (kind, id) in [(1, 99), (0, 0)] {
            let at_none = CUmemLocation { kind, id };
            assert_eq!(unsafe { (table().cuMemAdvise_v2)(at, all, 3, at_none) }, 1);
        }
        assert_eq!((told(at, all, 0).0, told(at, all, 99).0), (1, 1));
        let mut value = 0i64;
        let to = (&raw mut value).cast();
        assert_eq!(unsafe { (table().cuMemRangeGetAttribute)(to, 8, READ_MOSTLY, at, all) }, 1);
        assert_eq!(unsafe { (table().cuMemRangeGetAttribute)(null_mut(), 4, READ_MOSTLY, at, all) }, 1);
    });
}

#[test]
fn a_prefetch_is_in_the_order_of_its_stream_and_changes_no_value() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let (buffer, at) = managed();
        let all = PAGES * PAGE;
        let t = table();
        assert_eq!(unsafe { (t.cuMemPrefetchAsync)(at, all, 0, stream.as_raw()) }, 0);
        assert_eq!(told(at, all, PREFETCHED), (0, 0));
        let host = CUmemLocation { kind: 2, id: 0 };
        assert_eq!(unsafe { (t.cuMemPrefetchAsync_v2)(at, all, host, 0, stream.as_raw()) }, 0);
        assert_eq!(told(at, all, PREFETCHED), (0, OF_HOST));
        assert_eq!(unsafe { (t.cuMemPrefetchAsync_v2)(at, all, host, 1, stream.as_raw()) }, 1);
        let nowhere = CUmemLocation { kind: 0, id: 0 };
        assert_eq!(unsafe { (t.cuMemPrefetchAsync_v2)(at, all, nowhere, 0, stream.as_raw()) }, 1);
        assert_eq!(unsafe { (t.cuMemAdvise_v2)(at, all, 3, host) }, 0);
        assert_eq!(told(at, all, PREFERRED), (0, OF_HOST));
        stream.synchronize().unwrap();
        assert!(buffer.iter().all(|value| *value == 7));
    });
}

#[cfg(feature = "graph")]
#[test]
fn a_prefetch_is_not_captured() {
    run(|| {
        let _ctx = pushed();
        let mut stream = stream();
        let (_buffer, at) = managed();
        let raw = stream.as_raw();
        let refused = stream.capture(CaptureMode::ThreadLocal, |_| {
            done(unsafe { (table().cuMemPrefetchAsync)(at, PAGE, 0, raw) })
        });
        assert!(refused.is_err());
        assert_eq!(unsafe { (table().cuMemPrefetchAsync)(at, PAGE, 0, raw) }, 0);
        stream.synchronize().unwrap();
    });
}

#[test]
fn a_stream_may_have_managed_memory_to_itself() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let (buffer, at) = managed();
        let attach =
            |at, size, flags| unsafe { (table().cuStreamAttachMemAsync)(stream.as_raw(), at, size, flags) };
        for flags in [4, 2, 1] {
            assert_eq!(attach(at, 0, flags), 0);
        }
        assert_eq!(attach(at, PAGES * PAGE, 1), 0);
        assert_eq!((attach(at, PAGE, 1), attach(at, 0, 3), attach(at + 8, 0, 4)), (1, 1, 1));
        // The default stream is not one stream that could have it alone.
        assert_eq!(unsafe { (table().cuStreamAttachMemAsync)(null_mut(), at, 0, 4) }, 1);
        stream.synchronize().unwrap();
        assert_eq!(buffer[0], 7);
    });
}
