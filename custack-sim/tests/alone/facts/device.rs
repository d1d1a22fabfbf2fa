//! Devices, flags, ids, and facts without a chapter of their own.

use super::{create, flags, id};
use crate::harness::{current, is_simulated, other, run, skip};
use custack_sys::ffi::{CUcontext, CUctxCreateParams, CUdevResource, CUexecAffinityParam};
use std::ptr::null_mut;

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
fn the_order_in_which_creation_checks_its_arguments() {
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
fn the_out_parameter_of_a_limit_is_checked_before_the_limit() {
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
fn devices_check_their_arguments_in_the_observed_order() {
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

/// The body of a child process: calls with handles that no driver has.
pub(crate) fn misuse() {
    let mut a = null_mut();
    let table = custack_sim::start().unwrap();
    macro_rules! call {
        ($name:ident($($arg:expr),*)) => {
            // SAFETY: the simulated driver survives wild handles, which is what is tested.
            unsafe { (table.$name)($($arg),*) }
        };
    }
    assert_eq!(call!(cuThreadExchangeStreamCaptureMode(&mut 0)), 3);
    assert_eq!(call!(cuThreadExchangeStreamCaptureMode(null_mut())), 3);
    assert_eq!(call!(cuInit(0)), 0);
    assert_eq!(call!(cuThreadExchangeStreamCaptureMode(null_mut())), 1);
    assert_eq!(call!(cuCtxCreate_v2(&mut a, 0, 0)), 0);
    assert_eq!(call!(cuCtxDestroy_v2(a)), 0);
    assert_eq!(call!(cuCtxPushCurrent_v2(a)), 201);
    assert_eq!(call!(cuCtxSetCurrent(a)), 201);
    assert_eq!(call!(cuCtxPushCurrent_v2(0x1234_5670 as _)), 201);
    assert_eq!(call!(cuCtxGetDevice_v2(&mut 0, a)), 201);
    assert_eq!((custack_sim::misuses(), custack_sim::depth()), (5, 0));
}

#[test]
fn the_simulated_driver_reports_what_would_crash_the_real_one() {
    if !is_simulated() {
        return skip(
            "the_simulated_driver_reports_what_would_crash_the_real_one",
            "it would crash the process",
        );
    }
    // In a process of its own: the harness treats every misuse as a failure.
    let (status, text) = crate::child::child("misuse", &[]);
    assert!(status.success(), "{text}");
    assert!(text.contains("was freed"), "{text}");
    assert!(text.contains("was not given out by the simulated driver"), "{text}");
}
