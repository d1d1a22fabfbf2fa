//! What the driver does, asked through its table: each claim was seen on an H200, and holds on both drivers.
//!
//! These are what custack is built on. Where a new driver breaks one, the wrappers above have to be looked at.

// The tests are calls of the table.
#![allow(unsafe_code)]

use crate::harness::{current, drain, is_simulated, other, run, run_alone, skip, table};
use custack::driver::ffi::{CUcontext, CUctxCreateParams, CUdevResource, CUexecAffinityParam};
use std::ptr::null_mut;
use std::sync::mpsc::channel;

macro_rules! call {
    ($name:ident($($arg:expr),*)) => {
        // SAFETY: pointers to locals, and handles that are alive or held by a stack.
        unsafe { (table().$name)($($arg),*) }
    };
}

fn api_version(context: CUcontext) -> (u32, u32) {
    let mut version = 7777;
    (call!(cuCtxGetApiVersion(context, &mut version)), version)
}

fn id(context: CUcontext) -> (u32, u64) {
    let mut id = 7777;
    (call!(cuCtxGetId(context, &mut id)), id)
}

fn limit(limit: u32) -> (u32, usize) {
    let mut value = 7777;
    (call!(cuCtxGetLimit(&mut value, limit)), value)
}

fn flags() -> (u32, u32) {
    let mut flags = 7777;
    (call!(cuCtxGetFlags(&mut flags)), flags)
}

/// Sets a limit, and tells what became of it.
fn set_limit(which: u32, value: usize) -> (u32, usize) {
    (call!(cuCtxSetLimit(which, value)), limit(which).1)
}

fn create(flags: u32, device: i32) -> (u32, CUcontext) {
    let mut raw = 0x1111 as CUcontext;
    (call!(cuCtxCreate_v2(&mut raw, flags, device)), raw)
}

#[test]
fn init_takes_no_flags_and_may_be_repeated() {
    run(|| {
        assert_eq!(call!(cuInit(1)), 1);
        assert_eq!(call!(cuInit(0)), 0);
        assert_eq!(call!(cuInit(0)), 0);
    });
}

#[test]
fn with_nothing_bound_current_is_null() {
    run(|| assert!(current().is_null()));
}

#[test]
fn pop_of_an_empty_stack_is_201_and_writes_nothing() {
    run(|| {
        let mut raw = 0x3333 as CUcontext;
        assert_eq!(call!(cuCtxPopCurrent_v2(&mut raw)), 201);
        assert_eq!(raw.addr(), 0x3333);
    });
}

#[test]
fn pop_into_null_pops() {
    run(|| {
        let a = other::create();
        assert_eq!(call!(cuCtxPopCurrent_v2(null_mut())), 0);
        assert!(current().is_null());
        other::destroy(a);
    });
}

#[test]
fn null_handles_and_places_are_1() {
    run(|| {
        assert_eq!(call!(cuCtxPushCurrent_v2(null_mut())), 1);
        assert_eq!(call!(cuCtxDestroy_v2(null_mut())), 1);
        assert_eq!(call!(cuCtxCreate_v2(null_mut(), 0, 0)), 1);
        assert_eq!(call!(cuCtxGetCurrent(null_mut())), 1);
        assert_eq!(call!(cuDeviceGetCount(null_mut())), 1);
        assert_eq!(call!(cuDriverGetVersion(null_mut())), 1);
    });
}

#[test]
fn pushes_stack_up() {
    run(|| {
        let (a, b) = (other::parked(), other::parked());
        other::push(a);
        other::push(a);
        other::push(b);
        assert_eq!(drain(), [b, a, a]);
        other::destroy(a);
        other::destroy(b);
    });
}

#[test]
fn create_pushes_the_new_context() {
    run(|| {
        let a = other::create();
        let b = other::create();
        assert_eq!(current(), b);
        assert_eq!(drain(), [b, a]);
        other::destroy(a);
        other::destroy(b);
    });
}

#[test]
fn set_on_an_empty_stack_makes_one_entry() {
    run(|| {
        let a = other::parked();
        other::set(a);
        assert_eq!(drain(), [a]);
        other::destroy(a);
    });
}

#[test]
fn set_replaces_the_top() {
    run(|| {
        let (a, b, x) = (other::parked(), other::parked(), other::parked());
        other::push(a);
        other::push(b);
        other::set(x);
        assert_eq!(drain(), [x, a]);
        [a, b, x].into_iter().for_each(other::destroy);
    });
}

#[test]
fn set_null_pops_and_is_nothing_on_an_empty_stack() {
    run(|| {
        let (a, b) = (other::parked(), other::parked());
        other::push(a);
        other::push(b);
        other::set(null_mut());
        assert_eq!(current(), a);
        other::set(null_mut());
        other::set(null_mut());
        assert!(current().is_null());
        [a, b].into_iter().for_each(other::destroy);
    });
}

#[test]
fn queries_without_a_context_are_201() {
    run(|| {
        assert_eq!(limit(0), (201, 7777));
        assert_eq!(limit(99), (201, 7777));
        assert_eq!(flags(), (201, 7777));
        assert_eq!(api_version(null_mut()), (201, 7777));
        assert_eq!(id(null_mut()), (201, 7777));
        assert_eq!(call!(cuCtxSynchronize()), 201);
        assert_eq!(call!(cuCtxSynchronize_v2(null_mut())), 201);
        assert_eq!(call!(cuCtxSetLimit(0, 1)), 201);
        assert_eq!(call!(cuCtxSetCacheConfig(99)), 201);
        assert_eq!(call!(cuCtxSetSharedMemConfig(99)), 201);
        assert_eq!(call!(cuCtxSetFlags(7)), 201);
        assert_eq!(call!(cuCtxResetPersistingL2Cache()), 201);
        assert_eq!(call!(cuCtxGetStreamPriorityRange(null_mut(), null_mut())), 201);
        assert_eq!(call!(cuCtxGetExecAffinity(null_mut(), 9)), 201);
        assert_eq!(call!(cuCtxRecordEvent(null_mut(), null_mut())), 201);
        assert_eq!(call!(cuCtxWaitEvent(null_mut(), null_mut())), 201);
        assert_eq!(call!(cuCtxAttach(null_mut(), 0)), 201);
        assert_eq!(call!(cuCtxDetach(null_mut())), 201);
        assert_eq!(call!(cuCtxEnablePeerAccess(null_mut(), 0)), 201);
        assert_eq!(call!(cuCtxDisablePeerAccess(null_mut())), 201);
    });
}

#[test]
fn some_look_at_their_place_before_the_context() {
    run(|| {
        assert_eq!(call!(cuCtxGetDevice(null_mut())), 1);
        assert_eq!(call!(cuCtxGetDevice_v2(null_mut(), null_mut())), 1);
        assert_eq!(call!(cuCtxGetFlags(null_mut())), 1);
        assert_eq!(call!(cuCtxGetId(null_mut(), null_mut())), 1);
        assert_eq!(call!(cuCtxGetDevResource(null_mut(), null_mut(), 1)), 1);
        // And the others after it.
        assert_eq!(call!(cuCtxGetLimit(null_mut(), 0)), 201);
        assert_eq!(call!(cuCtxGetCacheConfig(null_mut())), 201);
        assert_eq!(call!(cuCtxGetApiVersion(null_mut(), null_mut())), 201);
    });
}

#[test]
fn null_places_with_a_context_are_1() {
    run(|| {
        let a = other::create();
        assert_eq!(call!(cuCtxGetLimit(null_mut(), 0)), 1);
        assert_eq!(call!(cuCtxGetCacheConfig(null_mut())), 1);
        assert_eq!(call!(cuCtxGetSharedMemConfig(null_mut())), 1);
        assert_eq!(call!(cuCtxGetApiVersion(a, null_mut())), 1);
        assert_eq!(call!(cuCtxGetExecAffinity(null_mut(), 0)), 1);
        assert_eq!(call!(cuCtxAttach(null_mut(), 0)), 1);
        assert_eq!(call!(cuCtxGetStreamPriorityRange(null_mut(), null_mut())), 0);
        other::destroy(a);
    });
}

#[test]
fn a_stack_can_be_very_deep() {
    run(|| {
        let a = other::parked();
        for _ in 0..100_000 {
            other::push(a);
        }
        assert_eq!(drain().len(), 100_000);
        other::destroy(a);
    });
}

#[test]
fn a_new_thread_starts_with_an_empty_stack() {
    run(|| {
        let a = other::create();
        std::thread::spawn(|| assert!(current().is_null())).join().unwrap();
        other::destroy(a);
    });
}

#[test]
fn a_destroyed_context_that_lies_below_comes_back_to_the_top() {
    run(|| {
        let a = other::create();
        let b = other::create();
        other::destroy(a);
        assert_eq!(current(), b);
        assert_eq!(other::pop(), Ok(b));
        assert_eq!(current(), a);
        assert_eq!(drain(), [a]);
        other::destroy(b);
    });
}

#[test]
fn destroying_what_is_current_here_pops_it_once() {
    run(|| {
        let a = other::create();
        let b = other::create();
        other::destroy(b);
        assert_eq!(current(), a);
        other::push(a);
        other::push(a);
        other::destroy(a);
        assert_eq!(api_version(null_mut()).0, 709);
        assert_eq!(drain(), [a, a]);
    });
}

/// A destroyed context on top of this thread's stack.
fn dead_current() -> CUcontext {
    let a = other::create();
    let b = other::create();
    other::destroy(a);
    assert_eq!(other::pop(), Ok(b));
    other::destroy(b);
    a
}

#[test]
fn on_a_destroyed_current_context_device_and_flags_succeed() {
    run(|| {
        dead_current();
        let mut device = 7777;
        assert_eq!((call!(cuCtxGetDevice(&mut device)), device), (0, 0));
        assert_eq!(flags(), (0, 0));
        drain();
    });
}

#[test]
fn on_a_destroyed_current_context_the_rest_is_709() {
    run(|| {
        let a = dead_current();
        let (mut n, mut affinity) = (0, CUexecAffinityParam::default());
        let mut out = null_mut();
        assert_eq!(limit(0), (709, 7777));
        assert_eq!(limit(99), (709, 7777));
        assert_eq!(api_version(null_mut()), (709, 7777));
        assert_eq!(api_version(a), (201, 7777), "by its name the answer is another");
        assert_eq!(id(null_mut()), (709, 7777));
        assert_eq!(id(a), (709, 7777));
        assert_eq!(call!(cuCtxSynchronize()), 709);
        assert_eq!(call!(cuCtxSynchronize_v2(a)), 709);
        assert_eq!(call!(cuCtxSetLimit(0, 2048)), 709);
        assert_eq!(call!(cuCtxSetLimit(99, 2048)), 709);
        assert_eq!(call!(cuCtxGetCacheConfig(&mut n)), 709);
        assert_eq!(call!(cuCtxGetCacheConfig(null_mut())), 709);
        assert_eq!(call!(cuCtxSetCacheConfig(1)), 709);
        assert_eq!(call!(cuCtxSetCacheConfig(9)), 709);
        assert_eq!(call!(cuCtxGetSharedMemConfig(&mut n)), 709);
        assert_eq!(call!(cuCtxSetSharedMemConfig(1)), 709);
        assert_eq!(call!(cuCtxGetStreamPriorityRange(null_mut(), null_mut())), 709);
        assert_eq!(call!(cuCtxResetPersistingL2Cache()), 709);
        assert_eq!(call!(cuCtxGetExecAffinity(&mut affinity, 0)), 709);
        assert_eq!(call!(cuCtxGetExecAffinity(&mut affinity, 7)), 709);
        assert_eq!(call!(cuCtxAttach(&mut out, 0)), 709);
        assert_eq!(call!(cuCtxDetach(a)), 709);
        assert_eq!(call!(cuCtxRecordEvent(a, null_mut())), 709);
        assert_eq!(call!(cuCtxWaitEvent(a, null_mut())), 709);
        assert_eq!(call!(cuCtxEnablePeerAccess(a, 0)), 709);
        assert_eq!(call!(cuCtxEnablePeerAccess(null_mut(), 0)), 709);
        assert_eq!(call!(cuCtxDisablePeerAccess(a)), 709);
        assert_eq!(call!(cuCtxDestroy_v2(a)), 709);
        // Some look at their pointer first, here too.
        assert_eq!(call!(cuCtxGetApiVersion(a, null_mut())), 1);
        assert_eq!(call!(cuCtxGetFlags(null_mut())), 1);
        drain();
    });
}

#[test]
fn a_destroyed_handle_that_a_stack_holds_can_be_pushed_and_set() {
    run(|| {
        let a = dead_current();
        other::push(a);
        other::set(a);
        assert_eq!(api_version(null_mut()).0, 709);
        assert_eq!(drain(), [a, a]);
    });
}

#[test]
fn a_context_destroyed_by_another_thread_stays_current_here() {
    run(|| {
        let a = other::create();
        let raw = a.addr();
        std::thread::spawn(move || other::destroy(raw as CUcontext)).join().unwrap();
        assert_eq!(current(), a);
        assert_eq!(call!(cuCtxSynchronize()), 709);
        assert_eq!(drain(), [a]);
    });
}

#[test]
fn threads_that_synchronise_while_the_context_is_destroyed_get_709() {
    run(|| {
        let a = other::parked();
        let raw = a.addr();
        let (ready, all_ready) = channel();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let ready = ready.clone();
                std::thread::spawn(move || {
                    other::push(raw as CUcontext);
                    ready.send(()).unwrap();
                    let last =
                        std::iter::repeat_with(|| call!(cuCtxSynchronize())).find(|status| *status != 0);
                    assert_eq!(last, Some(709));
                    drain();
                })
            })
            .collect();
        for _ in 0..4 {
            all_ready.recv().unwrap();
        }
        other::destroy(a);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn there_is_no_device_99_or_minus_1() {
    run(|| {
        assert_eq!(create(0, 99), (101, 0x1111 as CUcontext));
        assert_eq!(create(0, -1), (101, 0x1111 as CUcontext));
        assert_eq!(create(3, 99).0, 101, "the device is looked at before the flags");
        assert!(current().is_null());
    });
}

#[test]
fn ids_grow_and_are_not_reused() {
    run(|| {
        let a = other::parked();
        let first = id(a).1;
        other::destroy(a);
        let b = other::parked();
        assert!(id(b).1 > first);
        other::destroy(b);
    });
}

#[test]
fn two_scheduling_flags_and_unknown_bits_are_1() {
    run(|| {
        for flags in [0x3, 0x5, 0x6, 0x7, 0xff, 0x100, 0x1000, 0x8000_0000] {
            assert_eq!(create(flags, 0), (1, 0x1111 as CUcontext), "{flags:#x}");
        }
    });
}

#[test]
fn flags_read_back_as_given_but_one() {
    run(|| {
        let pairs =
            [(0, 0), (1, 1), (2, 2), (4, 4), (9, 9), (0x1c, 0x1c), (0x20, 0x20), (0x40, 0x20), (0xfc, 0xbc)];
        for (given, read) in pairs {
            let (status, a) = create(given, 0);
            assert_eq!((status, flags()), (0, (0, read)), "{given:#x}");
            other::destroy(a);
        }
    });
}

#[test]
fn set_flags_changes_some_and_keeps_others() {
    run(|| {
        let (_, a) = create(0x28, 0);
        for (given, read) in [(0, 0x28), (1, 0x29), (0x10, 0x38), (0x88, 0xa8), (0x40, 0x28)] {
            assert_eq!((call!(cuCtxSetFlags(given)), flags()), (0, (0, read)), "{given:#x}");
        }
        for given in [0x3, 0x7, 0x100, 0x8000] {
            assert_eq!(call!(cuCtxSetFlags(given)), 1, "{given:#x}");
        }
        assert_eq!(flags(), (0, 0x28));
        other::destroy(a);
    });
}

#[test]
fn limits_start_from_defaults() {
    run(|| {
        let a = other::create();
        assert_eq!(limit(0), (0, 1024));
        assert_eq!(limit(3).0, 215);
        assert_eq!(limit(4), (0, 2048));
        assert_eq!(limit(5), (0, 64));
        assert_eq!(limit(8), (0, 0));
        assert_eq!(limit(9).0, 215);
        assert_eq!(limit(10), (1, 7777));
        assert_eq!(limit(u32::MAX), (1, 7777));
        other::destroy(a);
    });
}

#[test]
fn stack_size_is_rounded_up_to_16_unless_it_is_that_already() {
    run(|| {
        let a = other::create();
        let pairs = [
            (4096, 4096),
            (1000, 1008),
            (15, 16),
            (1, 1),
            (0, 0),
            (3, 16),
            (20, 32),
            (18, 18),
            (17, 17),
            (33, 48),
        ];
        for (asked, got) in pairs {
            assert_eq!(set_limit(0, asked), (0, got), "{asked}");
        }
        assert_eq!(set_limit(0, 65536), (0, 65536));
        assert_eq!(set_limit(0, 1 << 20), (1, 65536));
        assert_eq!(set_limit(0, usize::MAX), (1, 65536));
        other::destroy(a);
    });
}

#[test]
fn buffer_limits_are_clamped_and_rounded() {
    run(|| {
        let a = other::create();
        for (asked, got) in [(0, 524_288), (1_048_577, 1_048_832), (8_650_753, 8_651_008), (1 << 40, 1 << 31)]
        {
            assert_eq!(set_limit(1, asked), (0, got), "printf {asked}");
        }
        assert_eq!(set_limit(1, usize::MAX), (0, 0), "the very largest wraps");
        for (asked, got) in [(0, 4_194_304), (8_388_609, 8_454_144), (1 << 30, 1 << 30)] {
            assert_eq!(set_limit(2, asked), (0, got), "heap {asked}");
        }
        assert_eq!(set_limit(2, usize::MAX), (0, 0));
        for (asked, got) in [(0, 32), (31, 32), (100, 100), (2049, 2049)] {
            assert_eq!(set_limit(4, asked), (0, got), "launches {asked}");
        }
        other::destroy(a);
    });
}

#[test]
fn cache_limits_have_an_end() {
    run(|| {
        let a = other::create();
        for (asked, status, got) in
            [(0, 0, 0), (33, 0, 33), (128, 0, 128), (129, 1, 128), (usize::MAX, 1, 128)]
        {
            assert_eq!(set_limit(5, asked), (status, got), "granularity {asked}");
        }
        assert_eq!(set_limit(6, 0), (0, 0));
        assert_eq!(set_limit(6, usize::MAX), (1, 0));
        other::destroy(a);
    });
}

#[test]
fn some_limits_cannot_be_set() {
    run(|| {
        let a = other::create();
        for (which, status) in [(3, 215), (7, 800), (8, 800), (9, 215), (10, 1), (u32::MAX, 1)] {
            assert_eq!(call!(cuCtxSetLimit(which, 1)), status, "limit {which}");
        }
        other::destroy(a);
    });
}

#[test]
fn limits_belong_to_one_context() {
    run(|| {
        let a = other::create();
        assert_eq!(set_limit(0, 4096), (0, 4096));
        let b = other::create();
        assert_eq!(limit(0), (0, 1024));
        other::destroy(b);
        assert_eq!(limit(0), (0, 4096));
        other::destroy(a);
    });
}

#[test]
fn cache_configs_are_kept_and_banks_are_not() {
    run(|| {
        let a = other::create();
        let mut read = 7;
        for config in 0..4 {
            assert_eq!(call!(cuCtxSetCacheConfig(config)), 0);
            assert_eq!((call!(cuCtxGetCacheConfig(&mut read)), read), (0, config));
        }
        for config in [4, u32::MAX] {
            assert_eq!(call!(cuCtxSetCacheConfig(config)), 1);
        }
        for (config, status) in [(0, 0), (1, 0), (2, 0), (3, 1), (u32::MAX, 1)] {
            assert_eq!(call!(cuCtxSetSharedMemConfig(config)), status);
            assert_eq!((call!(cuCtxGetSharedMemConfig(&mut read)), read), (0, 1));
        }
        other::destroy(a);
    });
}

#[test]
fn priorities_go_from_0_to_minus_5() {
    run(|| {
        let a = other::create();
        let (mut least, mut greatest) = (7, 7);
        assert_eq!(call!(cuCtxGetStreamPriorityRange(&mut least, &mut greatest)), 0);
        assert_eq!((least, greatest), (0, -5));
        assert_eq!(api_version(a), (0, 3020));
        assert_eq!(api_version(null_mut()), (0, 3020));
        other::destroy(a);
    });
}

#[test]
fn an_affinity_of_multiprocessors_can_be_read_and_not_had() {
    run(|| {
        let mut affinity = CUexecAffinityParam { kind: 0, sm_count: 16 };
        let mut out = null_mut();
        assert_eq!(call!(cuCtxCreate_v3(&mut out, &mut affinity, 1, 0, 0)), 224);
        assert!(out.is_null());
        assert_eq!(call!(cuCtxCreate_v3(&mut out, null_mut(), 0, 0, 0)), 0);
        assert_eq!((call!(cuCtxGetExecAffinity(&mut affinity, 0)), affinity.sm_count), (0, 132));
        assert_eq!(call!(cuCtxGetExecAffinity(&mut affinity, 1)), 224);
        other::destroy(out);
        assert_eq!(call!(cuCtxCreate_v4(&mut out, null_mut(), 0, 0)), 0);
        other::destroy(out);
    });
}

#[test]
fn usage_counts_end_a_context_with_the_last_detach() {
    run(|| {
        let a = other::create();
        let mut out = null_mut();
        assert_eq!((call!(cuCtxAttach(&mut out, 0)), out), (0, a));
        assert_eq!(call!(cuCtxAttach(&mut out, 1)), 1);
        assert_eq!((call!(cuCtxDetach(a)), current()), (0, a));
        let b = other::create();
        assert_eq!(call!(cuCtxDetach(a)), 201, "not current");
        other::destroy(b);
        assert_eq!(call!(cuCtxDetach(a)), 0);
        assert!(current().is_null());
    });
}

#[test]
fn what_creating_looks_at_first() {
    run(|| {
        let mut affinity = CUexecAffinityParam { kind: 0, sm_count: 16 };
        let mut queue = 0u64;
        let cig_params = (&raw mut queue).cast();
        let mut params =
            CUctxCreateParams { exec_affinity_params: null_mut(), num_exec_affinity_params: 0, cig_params };
        let mut out = null_mut();
        assert_eq!(call!(cuCtxCreate_v2(null_mut(), 3, 99)), 101, "the device");
        assert_eq!(call!(cuCtxCreate_v2(null_mut(), 3, 0)), 1);
        assert_eq!(call!(cuCtxCreate_v3(null_mut(), &mut affinity, 1, 0, 0)), 1, "then the pointer");
        assert_eq!(call!(cuCtxCreate_v3(&mut out, &mut affinity, 1, 3, 0)), 224, "then the affinities");
        assert_eq!(call!(cuCtxCreate_v4(&mut out, &mut params, 0, 99)), 101);
        assert_eq!(call!(cuDevicePrimaryCtxRetain(null_mut(), 99)), 101);
        assert_eq!(call!(cuDevicePrimaryCtxRetain(null_mut(), 0)), 1);
        assert_eq!(call!(cuDevicePrimaryCtxSetFlags_v2(99, 3)), 101);
        assert!(out.is_null());
    });
}

#[test]
fn the_place_of_a_limit_is_looked_at_before_the_limit() {
    run(|| {
        let a = other::create();
        for which in [0, 3, 9, 99] {
            assert_eq!(call!(cuCtxGetLimit(null_mut(), which)), 1);
        }
        other::destroy(a);
    });
}

#[test]
fn flushing_needs_a_context_and_a_scope() {
    run(|| {
        assert_eq!(call!(cuFlushGPUDirectRDMAWrites(0, 100)), 201);
        let a = other::create();
        assert_eq!(call!(cuFlushGPUDirectRDMAWrites(0, 100)), 0);
        assert_eq!(call!(cuFlushGPUDirectRDMAWrites(0, 200)), 0);
        assert_eq!(call!(cuFlushGPUDirectRDMAWrites(0, 5)), 1);
        assert_eq!(call!(cuFlushGPUDirectRDMAWrites(1, 100)), 1);
        other::destroy(a);
    });
}

#[test]
fn devices_answer_in_the_order_that_was_seen() {
    run(|| {
        let (mut width, mut value, mut capabilities) = (0usize, 0u64, [7u32; 13]);
        for (format, channels, elements) in
            [(1, 1, 1 << 30), (1, 4, 1 << 30), (2, 4, 1 << 29), (0x20, 4, 1 << 28)]
        {
            assert_eq!(call!(cuDeviceGetTexture1DLinearMaxWidth(&mut width, format, channels, 0)), 0);
            assert_eq!(width, elements);
        }
        assert_eq!(call!(cuDeviceGetTexture1DLinearMaxWidth(&mut width, 0, 3, 99)), 1);
        assert_eq!(call!(cuDeviceGetTexture1DLinearMaxWidth(&mut width, 1, 1, 99)), 101);
        assert_eq!(call!(cuDeviceGetGraphMemAttribute(99, 99, null_mut())), 101);
        assert_eq!(call!(cuDeviceGetGraphMemAttribute(0, 4, (&raw mut value).cast())), 1);
        assert_eq!(call!(cuDeviceSetGraphMemAttribute(0, 1, (&raw mut value).cast())), 0);
        assert_eq!(call!(cuDeviceSetGraphMemAttribute(0, 0, (&raw mut value).cast())), 1);
        let operations: [u32; 13] = std::array::from_fn(|at| at as u32);
        let (to, of) = (capabilities.as_mut_ptr(), operations.as_ptr());
        assert_eq!(call!(cuDeviceGetHostAtomicCapabilities(to, of, 13, 0)), 0);
        assert_eq!(call!(cuDeviceGetHostAtomicCapabilities(to, of, 0, 0)), 1);
        assert_eq!(call!(cuDeviceGetP2PAtomicCapabilities(to, of, 1, 0, 0)), 101);
        assert_eq!(capabilities, [0; 13]);
    });
}

#[test]
fn multiprocessors_are_a_resource_of_device_and_context() {
    run(|| {
        let a = other::create();
        // SAFETY: a plain C structure of numbers.
        let mut resource: CUdevResource = unsafe { std::mem::zeroed() };
        assert_eq!(call!(cuDeviceGetDevResource(0, &mut resource, 1)), 0);
        assert_eq!(resource.sm, [132, 8, 8]);
        assert_eq!(call!(cuCtxGetDevResource(a, &mut resource, 1)), 0);
        assert_eq!(resource.sm, [132, 8, 8]);
        assert_eq!(call!(cuDeviceGetDevResource(0, &mut resource, 0)), 914);
        assert_eq!(call!(cuCtxGetDevResource(null_mut(), &mut resource, 1)), 201);
        assert_eq!(call!(cuDeviceGetDevResource(99, &mut resource, 1)), 101);
        other::destroy(a);
    });
}

#[test]
fn memory_pools_are_the_devices_own() {
    run(|| {
        let (mut default, mut pool) = (null_mut(), null_mut());
        assert_eq!(call!(cuDeviceGetDefaultMemPool(&mut default, 0)), 0);
        assert_eq!((call!(cuDeviceGetMemPool(&mut pool, 0)), pool), (0, default));
        assert_eq!(call!(cuDeviceSetMemPool(0, pool)), 0);
        assert_eq!(call!(cuDeviceSetMemPool(0, null_mut())), 1);
        assert_eq!(call!(cuDeviceSetMemPool(99, pool)), 1);
        assert_eq!(call!(cuDeviceGetMemPool(&mut pool, 99)), 1);
    });
}

#[test]
fn an_event_that_is_null_is_400() {
    run(|| {
        let a = other::create();
        assert_eq!(call!(cuCtxRecordEvent(a, null_mut())), 400);
        assert_eq!(call!(cuCtxWaitEvent(a, null_mut())), 400);
        assert_eq!(call!(cuCtxRecordEvent(null_mut(), null_mut())), 201);
        other::destroy(a);
    });
}

fn retain() -> (u32, CUcontext) {
    let mut raw = 0x4444 as CUcontext;
    (call!(cuDevicePrimaryCtxRetain(&mut raw, 0)), raw)
}

fn state() -> (u32, i32) {
    let (mut flags, mut active) = (7777, 7777);
    assert_eq!(call!(cuDevicePrimaryCtxGetState(0, &mut flags, &mut active)), 0);
    (flags, active)
}

#[test]
fn retaining_a_primary_context_counts_and_does_not_push() {
    run_alone(|| {
        assert_eq!(call!(cuDevicePrimaryCtxRelease_v2(0)), 201, "released without a retain");
        let (status, p) = retain();
        assert_eq!((status, retain()), (0, (0, p)), "the same handle");
        assert!(current().is_null());
        assert_eq!(call!(cuCtxDestroy_v2(p)), 201);
        other::push(p);
        assert_eq!(call!(cuDevicePrimaryCtxRelease_v2(0)), 0);
        assert_eq!((state(), api_version(null_mut()).0), ((0, 1), 0));
        assert_eq!(call!(cuDevicePrimaryCtxRelease_v2(0)), 0);
        assert_eq!((state(), api_version(null_mut()).0), ((0, 0), 709), "still current, as destroyed");
        assert_eq!(call!(cuDevicePrimaryCtxRelease_v2(0)), 201);
        assert_eq!(retain(), (0, p));
        assert_eq!(api_version(null_mut()).0, 0, "alive again");
        assert_eq!(drain(), [p]);
        assert_eq!(call!(cuDevicePrimaryCtxRelease_v2(0)), 0);
    });
}

#[test]
fn a_released_primary_context_can_be_pushed_from_no_stack() {
    run_alone(|| {
        let (_, p) = retain();
        assert_eq!(call!(cuDevicePrimaryCtxRelease_v2(0)), 0);
        other::push(p);
        assert_eq!(api_version(null_mut()).0, 709);
        drain();
    });
}

#[test]
fn primary_flags_are_kept_until_the_last_release() {
    run_alone(|| {
        for flags in [3, 7, 8, 0x18, 0x100] {
            assert_eq!(call!(cuDevicePrimaryCtxSetFlags_v2(0, flags)), 1, "{flags:#x}");
        }
        assert_eq!(call!(cuDevicePrimaryCtxSetFlags_v2(0, 4)), 0);
        assert_eq!(state(), (4, 0));
        let (_, p) = retain();
        other::push(p);
        assert_eq!((state(), flags()), ((4, 1), (0, 12)), "it always maps host memory");
        assert_eq!(call!(cuDevicePrimaryCtxSetFlags_v2(0, 0x20)), 0);
        assert_eq!((state(), flags()), ((0x20, 1), (0, 8)));
        assert_eq!(call!(cuCtxSetFlags(1)), 0);
        assert_eq!((state(), flags()), ((0x20, 1), (0, 9)), "not told to the state");
        drain();
        assert_eq!(call!(cuDevicePrimaryCtxRelease_v2(0)), 0);
        assert_eq!(state(), (0, 0));
    });
}

#[test]
fn resetting_a_primary_context_keeps_its_count() {
    run_alone(|| {
        let (_, p) = retain();
        retain();
        other::push(p);
        assert_eq!(set_limit(0, 4096), (0, 4096));
        assert_eq!(call!(cuDevicePrimaryCtxReset_v2(0)), 0);
        assert_eq!((state(), api_version(null_mut()).0), ((0, 0), 709));
        assert_eq!(retain(), (0, p));
        assert_eq!((state(), limit(0)), ((0, 1), (0, 1024)), "alive again, with fresh limits");
        drain();
        for _ in 0..3 {
            assert_eq!(call!(cuDevicePrimaryCtxRelease_v2(0)), 0);
        }
        assert_eq!(call!(cuDevicePrimaryCtxRelease_v2(0)), 201);
    });
}

#[test]
fn the_capture_mode_is_the_threads_own_and_any_number() {
    fn exchange(mut mode: u32) -> (u32, u32) {
        (call!(cuThreadExchangeStreamCaptureMode(&mut mode)), mode)
    }
    // No context is current.
    run(|| {
        assert_eq!([exchange(1), exchange(2), exchange(3)], [(0, 0), (0, 1), (0, 2)]);
        std::thread::spawn(|| assert_eq!([exchange(1), exchange(0)], [(0, 0), (0, 1)])).join().unwrap();
        assert_eq!([exchange(u32::MAX), exchange(1), exchange(0)], [(0, 3), (0, u32::MAX), (0, 1)]);
    });
    run(|| assert_eq!([exchange(0)], [(0, 0)], "a thread that begins where another ended"));
}

#[test]
fn the_simulated_driver_speaks_where_the_real_one_would_crash() {
    if !is_simulated() {
        return skip(
            "the_simulated_driver_speaks_where_the_real_one_would_crash",
            "it would crash the process",
        );
    }
    // In a process of its own: the harness takes every misuse for a failure.
    let (status, text) = crate::process::child("misuse", &[]);
    assert!(status.success(), "{text}");
    assert!(text.contains("was freed"), "{text}");
    assert!(text.contains("was not given out by the simulated driver"), "{text}");
}
