//! Limits, configurations, and ranges of a context.

use super::{api_version, limit, set_limit};
use crate::harness::{other, run};
use custack_sys::ffi::CUexecAffinityParam;
use std::ptr::null_mut;

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
fn cache_limits_have_a_maximum() {
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
fn cache_configs_are_kept_but_bank_sizes_are_not() {
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
fn an_affinity_of_multiprocessors_can_be_read_but_not_requested() {
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
