//! The simulated driver's controls. Its behaviour as a driver is tested in `facts`.

// One test makes and destroys a context with memory in it behind custack's back.
#![allow(unsafe_code)]

use crate::harness::{current, is_simulated, other, parked, pushed, run, run_alone, skip};
use custack::context::{ContextStack, CurrentContext, PrimaryContext};
use custack::device::Device;
use custack::driver::ffi::CUcontext;
use custack::driver::instrument;
use custack::memory::{CopyDestination, DeviceBuffer};
use custack::sim;
use std::cell::RefCell;
use std::collections::BTreeSet;
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
        let before = sim::contexts_alive();
        let (a, b) = (pushed(), parked());
        assert_eq!((sim::contexts_alive(), sim::depth()), (before + 2, 1));
        let primary = PrimaryContext::retain(Device::get_device(1).unwrap()).unwrap();
        assert_eq!(
            (sim::contexts_alive(), sim::primary_retains(1), sim::primary_retains(9)),
            (before + 3, 1, 0)
        );
        drop((a, b, primary));
        assert_eq!((sim::contexts_alive(), sim::depth(), sim::primary_retains(1)), (before, 0, 0));
    });
}

#[test]
fn the_instruments_counts_agree_with_the_simulators() {
    if !simulated("the_instruments_counts_agree_with_the_simulators") {
        return;
    }
    run_alone(|| {
        let layer = instrument::contexts_alive();
        let machine = sim::contexts_alive();
        let kept: Vec<_> = (0..5).map(|_| parked()).collect();
        assert_eq!(instrument::contexts_alive() - layer, 5);
        assert_eq!(sim::contexts_alive() - machine, 5);
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
        let first = parked().as_raw();
        assert_ne!(parked().as_raw(), first);
        sim::reuse_handles(true);
        let reused = parked().as_raw();
        assert_eq!(parked().as_raw(), reused);
        sim::reuse_handles(false);
    });
}

#[test]
fn a_handle_is_freed_when_no_stack_holds_it_and_not_before() {
    if !simulated("a_handle_is_freed_when_no_stack_holds_it_and_not_before") {
        return;
    }
    run_alone(|| {
        sim::reuse_handles(true);
        let a = parked();
        let raw = a.as_raw();
        ContextStack::push(&a).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || drop(a));
        });
        let other = parked();
        assert_ne!(other.as_raw(), raw, "this thread's stack holds it");
        ContextStack::pop().unwrap();
        assert_eq!(parked().as_raw(), raw);
        sim::reuse_handles(false);
    });
}

#[test]
fn a_thread_that_ends_releases_its_stack() {
    if !simulated("a_thread_that_ends_releases_its_stack") {
        return;
    }
    run_alone(|| {
        sim::reuse_handles(true);
        let a = parked();
        let raw = a.as_raw();
        std::thread::scope(|scope| {
            scope.spawn(|| CurrentContext::set_current(&a).unwrap()).join().unwrap();
        });
        drop(a);
        assert_eq!(parked().as_raw(), raw, "no stack holds it any more");
        sim::reuse_handles(false);
    });
}

/// Records what is current, and how deep the stack is, when it is dropped.
struct Late(Arc<Mutex<Vec<(usize, usize)>>>);

impl Drop for Late {
    fn drop(&mut self) {
        let seen = (current().addr(), sim::depth());
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
        sim::reuse_handles(true);
        for late in [[true, false], [false, true], [true, true]] {
            let (contexts, seen) = seen_at_the_end(late);
            let expected = (contexts[1], 2);
            assert_eq!(seen, vec![expected; late.iter().filter(|late| **late).count()]);
            // The thread no longer holds the contexts: a destroyed one is freed, and its handle is reused.
            for context in contexts {
                other::destroy(context as CUcontext);
                assert_eq!(parked().as_raw().addr(), context);
            }
        }
        sim::reuse_handles(false);
    });
}

/// The address of a buffer of this size.
fn address(buffer: &mut DeviceBuffer<u8>) -> u64 {
    buffer.as_device_ptr().as_raw() as u64
}

fn buffer(size: usize) -> DeviceBuffer<u8> {
    DeviceBuffer::from_slice(&vec![7; size]).unwrap()
}

#[test]
fn addresses_are_not_reused_unless_requested() {
    if !simulated("addresses_are_not_reused_unless_requested") {
        return;
    }
    run_alone(|| {
        let _ctx = pushed();
        let once: BTreeSet<u64> = (0..20).map(|_| address(&mut buffer(100))).collect();
        assert_eq!(once.len(), 20);
        sim::reuse_addresses(true);
        let first = address(&mut buffer(100));
        assert!(!once.contains(&first), "what was freed before is not given out");
        assert_eq!(address(&mut buffer(1)), first);
        sim::reuse_addresses(false);
        assert_ne!(address(&mut buffer(100)), first);
    });
}

#[test]
fn the_next_contexts_buffer_gets_the_address_of_the_destroyed_ones() {
    if !simulated("the_next_contexts_buffer_gets_the_address_of_the_destroyed_ones") {
        return;
    }
    run_alone(|| {
        sim::reuse_addresses(true);
        let other = parked();
        // Freed with its context, not individually.
        let stale = other::create();
        let table = crate::harness::table();
        let mut raw = 0;
        // SAFETY: writes to a local; a context is current.
        assert_eq!(unsafe { (table.cuMemAlloc_v2)(&mut raw, 1000) }, 0);
        other::destroy(stale);
        let mut next = other.scoped(|_| Ok(buffer(1000))).unwrap();
        assert_eq!(address(&mut next), raw);
        let mut byte = [0];
        next[999..].copy_to(&mut byte).unwrap();
        assert_eq!(byte, [7]);
        drop((next, other));
        sim::reuse_addresses(false);
    });
}

#[test]
fn freed_ranges_are_reused_first_fit_and_coalesce() {
    if !simulated("freed_ranges_are_reused_first_fit_and_coalesce") {
        return;
    }
    run_alone(|| {
        sim::reuse_addresses(true);
        let _ctx = pushed();
        let mut all: Vec<_> = (0..8).map(|_| Some(buffer(1024))).collect();
        let at: Vec<u64> = all.iter_mut().flatten().map(address).collect();
        for index in [1, 3, 4, 6] {
            all[index] = None;
        }
        let mut small = buffer(1024);
        assert_eq!(address(&mut small), at[1], "the first that fits");
        let mut large = buffer(2560);
        assert_eq!(address(&mut large), at[3], "two that had joined");
        let mut third = buffer(1024);
        assert_eq!(address(&mut third), at[6]);
        let mut fresh = buffer(1);
        assert!(!at.contains(&address(&mut fresh)));
        // Random allocations and frees never overlap, and keep their contents.
        drop((small, large, third, fresh, all));
        let mut seed = 7u64;
        let mut kept: Vec<(DeviceBuffer<u8>, u8)> = Vec::new();
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
            let mut next = DeviceBuffer::from_slice(&vec![byte; size]).unwrap();
            let (begin, end) = (address(&mut next), address(&mut next) + size as u64);
            for (other, _) in &mut kept {
                let from = address(other);
                assert!(end <= from || from + other.len() as u64 <= begin, "{begin:#x} {from:#x}");
            }
            kept.push((next, byte));
        }
        drop(kept);
        sim::reuse_addresses(false);
    });
}

#[test]
fn refusals_are_logged_as_sentences() {
    if !simulated("refusals_are_logged_as_sentences") {
        return;
    }
    run(|| {
        assert!(ContextStack::pop().is_err());
        CurrentContext::synchronize().unwrap_err();
        assert!(sim::log().pop().unwrap().contains("no context is current on this thread"));
        let ctx = parked();
        ctx.set_limit(custack::context::ResourceLimit::StackSize, 1 << 40).unwrap_err();
        assert!(sim::log().pop().unwrap().contains("limit 0 cannot be set to 1099511627776"));
        for _ in 0..100 {
            CurrentContext::synchronize().unwrap_err();
        }
        assert_eq!(sim::log().len(), 64);
    });
}

#[test]
fn devices_can_be_added_and_not_taken_away() {
    if !simulated("devices_can_be_added_and_not_taken_away") {
        return;
    }
    run_alone(|| {
        let count = Device::num_devices().unwrap() as usize;
        assert!(!sim::set_devices(count - 1) && !sim::set_devices(65));
        assert!(sim::set_devices(count));
        assert_eq!(Device::num_devices().unwrap() as usize, count);
    });
}
