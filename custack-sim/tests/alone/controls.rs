//! The simulated driver's controls. Its behaviour as a driver is tested in `facts`.

use crate::gpu::{Buffer, parked, pushed};
use crate::harness::{current, is_simulated, other, run, skip};
use crate::run_alone;
use custack_sim::instrument;
use custack_sys::ffi::CUcontext;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex};

/// Skips the test on the NVIDIA driver, which has no controls.
fn simulated(test: &str) -> bool {
    if !is_simulated() {
        skip(test, "it is about the simulated driver's controls");
    }
    is_simulated()
}

#[test]
fn the_counts_are_those_of_living_objects() {
    if !simulated("the_counts_are_those_of_living_objects") {
        return;
    }
    run_alone(|| {
        let before = custack_sim::contexts_alive();
        let (a, b) = (pushed(), parked());
        assert_eq!((custack_sim::contexts_alive(), custack_sim::depth()), (before + 2, 1));
        let mut primary = null_mut();
        assert_eq!(call!(cuDevicePrimaryCtxRetain(&mut primary, 1)), 0);
        assert_eq!(
            (custack_sim::contexts_alive(), custack_sim::primary_retains(1), custack_sim::primary_retains(9)),
            (before + 3, 1, 0)
        );
        drop((a, b));
        assert_eq!(call!(cuDevicePrimaryCtxRelease_v2(1)), 0);
        assert_eq!(
            (custack_sim::contexts_alive(), custack_sim::depth(), custack_sim::primary_retains(1)),
            (before, 0, 0)
        );
    });
}

#[test]
fn the_instruments_counts_agree_with_the_simulators() {
    if !simulated("the_instruments_counts_agree_with_the_simulators") {
        return;
    }
    run_alone(|| {
        let layer = instrument::contexts_alive();
        let machine = custack_sim::contexts_alive();
        let kept: Vec<_> = (0..5).map(|_| parked()).collect();
        assert_eq!(instrument::contexts_alive() - layer, 5);
        assert_eq!(custack_sim::contexts_alive() - machine, 5);
        drop(kept);
        assert_eq!(instrument::contexts_alive(), layer);
    });
}

#[test]
fn handles_are_not_reused_unless_requested() {
    if !simulated("handles_are_not_reused_unless_requested") {
        return;
    }
    run_alone(|| {
        let first = parked().0;
        assert_ne!(parked().0, first);
        custack_sim::reuse_handles(true);
        let reused = parked().0;
        assert_eq!(parked().0, reused);
        custack_sim::reuse_handles(false);
    });
}

#[test]
fn a_handle_is_freed_when_no_stack_holds_it_and_not_before() {
    if !simulated("a_handle_is_freed_when_no_stack_holds_it_and_not_before") {
        return;
    }
    run_alone(|| {
        custack_sim::reuse_handles(true);
        let a = parked();
        let raw = a.0;
        other::push(raw);
        std::thread::scope(|scope| {
            scope.spawn(move || drop(a));
        });
        let other = parked();
        assert_ne!(other.0, raw, "this thread's stack holds it");
        assert_eq!(other::pop(), Ok(raw));
        assert_eq!(parked().0, raw);
        custack_sim::reuse_handles(false);
    });
}

#[test]
fn a_thread_that_ends_releases_its_stack() {
    if !simulated("a_thread_that_ends_releases_its_stack") {
        return;
    }
    run_alone(|| {
        custack_sim::reuse_handles(true);
        let a = parked();
        let raw = a.0;
        std::thread::scope(|scope| {
            scope.spawn(|| a.make_current()).join().unwrap();
        });
        drop(a);
        assert_eq!(parked().0, raw, "no stack holds it any more");
        custack_sim::reuse_handles(false);
    });
}

/// Records what is current, and how deep the stack is, when it is dropped.
struct Late(Arc<Mutex<Vec<(usize, usize)>>>);

impl Drop for Late {
    fn drop(&mut self) {
        let seen = (current().addr(), custack_sim::depth());
        self.0.lock().unwrap().push(seen);
    }
}

/// Two contexts on a thread that ends, and what two thread-locals observe then: one made before the first driver call,
/// one after.
fn seen_at_the_end(late: [bool; 2]) -> ([usize; 2], Vec<(usize, usize)>) {
    thread_local! {
        static BEFORE: RefCell<Option<Late>> = const { RefCell::new(None) };
        static AFTER: RefCell<Option<Late>> = const { RefCell::new(None) };
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let thread = std::thread::spawn(move || {
        if late[0] {
            BEFORE.set(Some(Late(Arc::clone(&notes))));
        }
        let contexts = [other::create(), other::create()];
        if late[1] {
            AFTER.set(Some(Late(notes)));
        }
        contexts.map(|context| context.addr())
    });
    let contexts = thread.join().unwrap();
    let seen = seen.lock().unwrap().clone();
    (contexts, seen)
}

#[test]
#[cfg(unix)]
fn thread_locals_find_the_stack_as_it_was_until_the_last_of_them_is_gone() {
    if !simulated("thread_locals_find_the_stack_as_it_was_until_the_last_of_them_is_gone") {
        return;
    }
    run_alone(|| {
        custack_sim::reuse_handles(true);
        for late in [[true, false], [false, true], [true, true]] {
            let (contexts, seen) = seen_at_the_end(late);
            let expected = (contexts[1], 2);
            assert_eq!(seen, vec![expected; late.iter().filter(|late| **late).count()]);
            // The thread no longer holds the contexts: a destroyed one is freed, and its handle is reused.
            for context in contexts {
                other::destroy(context as CUcontext);
                assert_eq!(parked().0.addr(), context);
            }
        }
        custack_sim::reuse_handles(false);
    });
}

fn buffer(size: usize) -> Buffer<u8> {
    Buffer::from_slice(&vec![7; size]).unwrap()
}

#[test]
fn addresses_are_not_reused_unless_requested() {
    if !simulated("addresses_are_not_reused_unless_requested") {
        return;
    }
    run_alone(|| {
        let _ctx = pushed();
        let once: BTreeSet<u64> = (0..20).map(|_| buffer(100).address()).collect();
        assert_eq!(once.len(), 20);
        custack_sim::reuse_addresses(true);
        let first = buffer(100).address();
        assert!(!once.contains(&first), "what was freed before is not given out");
        assert_eq!(buffer(1).address(), first);
        custack_sim::reuse_addresses(false);
        assert_ne!(buffer(100).address(), first);
    });
}

#[test]
fn the_next_contexts_buffer_gets_the_address_of_the_destroyed_ones() {
    if !simulated("the_next_contexts_buffer_gets_the_address_of_the_destroyed_ones") {
        return;
    }
    run_alone(|| {
        custack_sim::reuse_addresses(true);
        let other = parked();
        // Freed with its context, not individually.
        let stale = other::create();
        let mut raw = 0;
        assert_eq!(call!(cuMemAlloc_v2(&mut raw, 1000)), 0);
        other::destroy(stale);
        let next = other.scoped(|| buffer(1000));
        assert_eq!(next.address(), raw);
        let mut byte = [0u8];
        other.scoped(|| {
            assert_eq!(call!(cuMemcpyDtoH_v2(byte.as_mut_ptr().cast(), raw + 999, 1)), 0);
            drop(next);
        });
        assert_eq!(byte, [7]);
        drop(other);
        custack_sim::reuse_addresses(false);
    });
}

#[test]
fn freed_ranges_are_reused_first_fit_and_coalesce() {
    if !simulated("freed_ranges_are_reused_first_fit_and_coalesce") {
        return;
    }
    run_alone(|| {
        custack_sim::reuse_addresses(true);
        let _ctx = pushed();
        let mut all: Vec<_> = (0..8).map(|_| Some(buffer(1024))).collect();
        let at: Vec<u64> = all.iter().flatten().map(Buffer::address).collect();
        for index in [1, 3, 4, 6] {
            all[index] = None;
        }
        let small = buffer(1024);
        assert_eq!(small.address(), at[1], "the first that fits");
        let large = buffer(2560);
        assert_eq!(large.address(), at[3], "two that had joined");
        let third = buffer(1024);
        assert_eq!(third.address(), at[6]);
        let fresh = buffer(1);
        assert!(!at.contains(&fresh.address()));
        // Random allocations and frees never overlap, and keep their contents.
        drop((small, large, third, fresh, all));
        let mut seed = 7u64;
        let mut kept: Vec<(Buffer<u8>, u8)> = Vec::new();
        for step in 0..2000u32 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (size, which) = (1 + (seed >> 33) as usize % 5000, (seed >> 50) as usize);
            if kept.len() > 40 {
                let (gone, byte) = kept.swap_remove(which % kept.len());
                let mut read = vec![0; gone.len()];
                gone.copy_to(&mut read[..]).unwrap();
                assert!(read.iter().all(|other| *other == byte));
            }
            let byte = step as u8;
            let next = Buffer::from_slice(&vec![byte; size]).unwrap();
            let (begin, end) = (next.address(), next.address() + size as u64);
            for (other, _) in &kept {
                let from = other.address();
                assert!(end <= from || from + other.len() as u64 <= begin, "{begin:#x} {from:#x}");
            }
            kept.push((next, byte));
        }
        drop(kept);
        custack_sim::reuse_addresses(false);
    });
}

#[test]
fn refusals_are_logged_as_sentences() {
    if !simulated("refusals_are_logged_as_sentences") {
        return;
    }
    run(|| {
        assert_eq!(other::pop(), Err(201));
        assert_eq!(call!(cuCtxSynchronize()), 201);
        assert!(custack_sim::log().pop().unwrap().contains("no context is current on this thread"));
        assert_eq!(parked().scoped(|| call!(cuCtxSetLimit(0, 1 << 40))), 1);
        assert!(custack_sim::log().pop().unwrap().contains("limit 0 cannot be set to 1099511627776"));
        for _ in 0..100 {
            assert_eq!(call!(cuCtxSynchronize()), 201);
        }
        assert_eq!(custack_sim::log().len(), 64);
    });
}

#[test]
fn devices_can_be_added_and_not_taken_away() {
    if !simulated("devices_can_be_added_and_not_taken_away") {
        return;
    }
    run_alone(|| {
        let devices = || {
            let mut count = 0;
            assert_eq!(call!(cuDeviceGetCount(&mut count)), 0);
            count as usize
        };
        let count = devices();
        assert!(!custack_sim::set_devices(count - 1) && !custack_sim::set_devices(65));
        assert!(custack_sim::set_devices(count));
        assert_eq!(devices(), count);
    });
}
