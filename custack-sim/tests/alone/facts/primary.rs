//! Primary contexts.

use super::{api_version, flags, limit, retain, set_limit, state};
use crate::harness::{current, drain, other};
use crate::run_alone;
use std::ptr::null_mut;

#[test]
fn retaining_a_primary_context_counts_and_does_not_push() {
    run_alone(|| {
        assert_eq!(call!(cuDevicePrimaryCtxRelease_v2(0)), 201, "released without a retain");
        let p = retain();
        assert_eq!(retain(), p, "the same handle");
        assert!(current().is_null());
        assert_eq!(call!(cuCtxDestroy_v2(p)), 201);
        other::push(p);
        assert_eq!(call!(cuDevicePrimaryCtxRelease_v2(0)), 0);
        assert_eq!((state(), api_version(null_mut()).0), ((0, 1), 0));
        assert_eq!(call!(cuDevicePrimaryCtxRelease_v2(0)), 0);
        assert_eq!((state(), api_version(null_mut()).0), ((0, 0), 709), "still current, as destroyed");
        assert_eq!(call!(cuDevicePrimaryCtxRelease_v2(0)), 201);
        assert_eq!(retain(), p);
        assert_eq!(api_version(null_mut()).0, 0, "alive again");
        assert_eq!(drain(), [p]);
        assert_eq!(call!(cuDevicePrimaryCtxRelease_v2(0)), 0);
    });
}

#[test]
fn a_released_primary_context_can_be_pushed_from_no_stack() {
    run_alone(|| {
        let p = retain();
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
        let p = retain();
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
        let p = retain();
        retain();
        other::push(p);
        assert_eq!(set_limit(0, 4096), (0, 4096));
        assert_eq!(call!(cuDevicePrimaryCtxReset_v2(0)), 0);
        assert_eq!((state(), api_version(null_mut()).0), ((0, 0), 709));
        assert_eq!(retain(), p);
        assert_eq!((state(), limit(0)), ((0, 1), (0, 1024)), "alive again, with fresh limits");
        drain();
        for _ in 0..3 {
            assert_eq!(call!(cuDevicePrimaryCtxRelease_v2(0)), 0);
        }
        assert_eq!(call!(cuDevicePrimaryCtxRelease_v2(0)), 201);
    });
}
