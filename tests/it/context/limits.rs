//! `ResourceLimit` and `StreamPriorityRange`.

use crate::harness::{parked, pushed, run};
use custack::context::{CurrentContext, ResourceLimit, StreamPriorityRange};
use custack::error::CudaError;

const ALL: [ResourceLimit; 10] = [
    ResourceLimit::StackSize,
    ResourceLimit::PrintfFifoSize,
    ResourceLimit::MallocHeapSize,
    ResourceLimit::DeviceRuntimeSynchronizeDepth,
    ResourceLimit::DeviceRuntimePendingLaunchCount,
    ResourceLimit::MaxL2FetchGranularity,
    ResourceLimit::PersistingL2CacheSize,
    ResourceLimit::ShmemSize,
    ResourceLimit::CigEnabled,
    ResourceLimit::CigShmemFallbackEnabled,
];

#[test]
fn numbers_are_the_drivers() {
    for (number, limit) in ALL.into_iter().enumerate() {
        assert_eq!(limit as usize, number);
    }
}

#[test]
fn every_limit_is_read_or_reported_as_unsupported() {
    run(|| {
        let ctx = pushed();
        for limit in ALL {
            let by_handle = ctx.limit(limit);
            assert_eq!(by_handle, CurrentContext::get_resource_limit(limit));
            assert!(
                matches!(by_handle, Ok(_) | Err(CudaError::UnsupportedLimit)),
                "{limit:?}: {by_handle:?}"
            );
        }
    });
}

#[test]
fn a_limit_that_is_set_is_read_back_as_the_driver_rounded_it() {
    run(|| {
        let ctx = parked();
        ctx.set_limit(ResourceLimit::StackSize, 2000).unwrap();
        assert_eq!(ctx.limit(ResourceLimit::StackSize).unwrap(), 2000);
        ctx.set_limit(ResourceLimit::StackSize, 2001).unwrap();
        assert_eq!(ctx.limit(ResourceLimit::StackSize).unwrap(), 2016);
        ctx.scoped(|_| CurrentContext::set_resource_limit(ResourceLimit::StackSize, 4096)).unwrap();
        assert_eq!(ctx.limit(ResourceLimit::StackSize).unwrap(), 4096);
    });
}

#[test]
fn a_limit_out_of_range_is_refused_and_the_old_value_stays() {
    run(|| {
        let ctx = parked();
        let error = ctx.set_limit(ResourceLimit::StackSize, 1 << 40).unwrap_err();
        assert_eq!(error, CudaError::InvalidValue);
        assert!(crate::harness::said(error).contains("StackSize to 1099511627776"), "{error}");
        assert_eq!(ctx.limit(ResourceLimit::StackSize).unwrap(), 1024);
    });
}

#[test]
fn limits_that_cannot_be_set_say_why() {
    run(|| {
        let ctx = parked();
        assert_eq!(ctx.set_limit(ResourceLimit::ShmemSize, 1), Err(CudaError::NotPermitted));
        assert_eq!(ctx.set_limit(ResourceLimit::CigEnabled, 1), Err(CudaError::NotPermitted));
        let depth = ResourceLimit::DeviceRuntimeSynchronizeDepth;
        assert_eq!(ctx.set_limit(depth, 4), Err(CudaError::UnsupportedLimit));
        assert_eq!(ctx.limit(depth), Err(CudaError::UnsupportedLimit));
    });
}

#[test]
fn the_hidden_last_limit_is_refused() {
    run(|| {
        let _ctx = pushed();
        let none = ResourceLimit::__Nonexhaustive;
        assert_eq!(CurrentContext::get_resource_limit(none), Err(CudaError::InvalidValue));
        assert_eq!(CurrentContext::set_resource_limit(none, 1), Err(CudaError::InvalidValue));
    });
}

#[test]
fn setting_a_limit_does_not_change_another_context() {
    run(|| {
        let (a, b) = (parked(), parked());
        a.set_limit(ResourceLimit::MaxL2FetchGranularity, 32).unwrap();
        assert_eq!(b.limit(ResourceLimit::MaxL2FetchGranularity).unwrap(), 64);
    });
}

#[test]
fn the_priority_range_is_the_same_by_handle_and_by_current() {
    run(|| {
        let ctx = pushed();
        let range = ctx.stream_priority_range().unwrap();
        assert_eq!(range, CurrentContext::get_stream_priority_range().unwrap());
        assert_eq!(range, StreamPriorityRange { least: 0, greatest: -5 });
    });
}

#[test]
fn a_range_clamps_and_contains() {
    let range = StreamPriorityRange { least: 0, greatest: -5 };
    assert_eq!([-8, -5, -3, 0, 3].map(|priority| range.clamp(priority)), [-5, -5, -3, 0, 0]);
    assert_eq!([-6, -5, 0, 1].map(|priority| range.contains(priority)), [false, true, true, false]);
    let none = StreamPriorityRange { least: 0, greatest: 0 };
    assert_eq!((none.clamp(-1), none.contains(0)), (0, true));
    let wrong = StreamPriorityRange { least: -5, greatest: 0 };
    assert_eq!((wrong.clamp(-3), wrong.contains(-3)), (0, false), "no panic");
}

#[test]
fn multiprocessors_are_queried_and_persisting_lines_reset() {
    run(|| {
        let ctx = parked();
        assert_eq!(ctx.sm_count().unwrap(), 132);
        ctx.reset_persisting_l2_cache().unwrap();
    });
}
