//! How a context ends where the driver's calls fail: it is destroyed once, and its drop says so.

#![allow(unsafe_code)]

use super::green::green;
use crate::harness::{current, other, parked, run_alone};
use custack::context::{Context, GreenContext, wait_until_retired};
use custack::driver::instrument::{self, When};
use custack::error::CudaError;

const UNKNOWN: u32 = 999;
const INVALID: u32 = 201;
const DESTROYED: u32 = 709;

/// Drops a context after `prepare`, which has calls fail; its result, and how many contexts are left of one.
fn dropped(prepare: impl FnOnce()) -> (Result<(), CudaError>, i64) {
    let before = instrument::contexts_alive();
    let ctx = parked();
    let raw = ctx.as_raw();
    prepare();
    let result = Context::drop(ctx).map_err(|(error, _)| error);
    instrument::disarm();
    wait_until_retired().unwrap();
    assert!(current().is_null(), "{result:?}");
    let left = instrument::contexts_alive() - before;
    if left > 0 {
        other::destroy(raw);
    }
    (result, left)
}

#[test]
fn a_context_is_destroyed_although_calls_fail_and_its_drop_says_whether_it_was() {
    run_alone(|| {
        let ctx = parked();
        let (_, calls) = instrument::during(|| Context::drop(ctx).unwrap());
        assert_eq!(
            calls.to_string(),
            "cuCtxDestroy_v2, cuCtxPushCurrent_v2 x2, cuCtxPopCurrent_v2, cuCtxGetCurrent x3"
        );
        let destroy = Some("cuCtxDestroy_v2");
        let unknown = Err(CudaError::UnknownError);
        let once = |code, when| dropped(|| instrument::fail(destroy, 1, code, when));
        assert_eq!(once(UNKNOWN, When::Before), (Ok(()), 0), "the second attempt");
        assert_eq!(once(UNKNOWN, When::After), (unknown, 0), "of earlier work");
        for code in [INVALID, DESTROYED] {
            assert_eq!(once(code, When::After), (Ok(()), 0), "as if other code had done it");
        }
        let twice = |code| dropped(|| instrument::fail_times(destroy, 1, 2, code, When::Before));
        assert_eq!(twice(UNKNOWN), (unknown, 1));
        assert_eq!(twice(INVALID), (Err(CudaError::InvalidContext), 1), "it is not destroyed");
        // The third call destroys, after two pushes. The fourth asks whether it did.
        let and_no_answer = dropped(|| instrument::fail_times(None, 3, 2, UNKNOWN, When::Before));
        assert_eq!(and_no_answer, (Ok(()), 0), "the driver is asked again, and then to destroy it");
        let second_attempt = |code| {
            dropped(|| {
                instrument::fail(destroy, 1, UNKNOWN, When::Before);
                let again = move || instrument::fail(destroy, 1, code, When::After);
                instrument::wait_in("cuCtxGetApiVersion", again);
            })
        };
        assert_eq!(second_attempt(UNKNOWN), (unknown, 0));
        assert_eq!(second_attempt(INVALID), (Ok(()), 0), "as if other code had done it");
    });
}

#[test]
fn a_green_context_is_destroyed_although_calls_fail_and_its_drop_says_whether_it_was() {
    run_alone(|| {
        let destroyed = |code, when| {
            let before = instrument::contexts_alive();
            let green = green();
            instrument::fail(Some("cuGreenCtxDestroy"), 1, code, when);
            let result = GreenContext::drop(green).map_err(|(error, _)| error);
            instrument::disarm();
            wait_until_retired().unwrap();
            (result, instrument::contexts_alive() - before)
        };
        let unknown = Err(CudaError::UnknownError);
        assert_eq!(destroyed(UNKNOWN, When::Before), (unknown, 0), "it may be of earlier work");
        assert_eq!(destroyed(UNKNOWN, When::After), (unknown, 0), "it may be of earlier work");
        assert_eq!(destroyed(DESTROYED, When::Before), (Ok(()), 0), "the second attempt");
        assert_eq!(destroyed(DESTROYED, When::After), (Ok(()), 0), "as if other code had done it");
    });
}
