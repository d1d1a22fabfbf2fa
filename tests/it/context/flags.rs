//! `ContextFlags`.

use crate::harness::{device, parked, run};
use custack::context::{Context, ContextFlags, CurrentContext};
use custack::driver::instrument;
use custack::error::CudaError;

fn created(flags: ContextFlags) -> Context {
    let ctx = Context::create_and_push(flags, device()).unwrap();
    custack::context::ContextStack::pop().unwrap();
    ctx
}

#[test]
fn bits_are_the_drivers() {
    let bits = [
        (ContextFlags::SCHED_AUTO, 0),
        (ContextFlags::SCHED_SPIN, 1),
        (ContextFlags::SCHED_YIELD, 2),
        (ContextFlags::SCHED_BLOCKING_SYNC, 4),
        (ContextFlags::MAP_HOST, 8),
        (ContextFlags::LMEM_RESIZE_TO_MAX, 0x10),
        (ContextFlags::COREDUMP_ENABLE, 0x20),
        (ContextFlags::USER_COREDUMP_ENABLE, 0x40),
        (ContextFlags::SYNC_MEMOPS, 0x80),
    ];
    for (flag, bits) in bits {
        assert_eq!(flag.bits(), bits);
    }
}

#[test]
fn flags_read_back_as_given() {
    run(|| {
        for flags in [
            ContextFlags::SCHED_AUTO,
            ContextFlags::SCHED_YIELD | ContextFlags::MAP_HOST,
            ContextFlags::SYNC_MEMOPS,
        ] {
            let ctx = created(flags);
            assert_eq!(ctx.flags().unwrap(), flags);
            ctx.scoped(|_| {
                assert_eq!(CurrentContext::get_flags()?, flags);
                Ok(())
            })
            .unwrap();
        }
    });
}

#[test]
fn flags_of_newer_drivers_are_not_lost() {
    run(|| {
        let ctx = created(ContextFlags::USER_COREDUMP_ENABLE);
        assert!(ctx.flags().unwrap().contains(ContextFlags::COREDUMP_ENABLE), "as the driver reports it");
    });
}

#[test]
fn two_scheduling_flags_are_refused_before_the_driver_is_called() {
    run(|| {
        let two = ContextFlags::SCHED_SPIN | ContextFlags::SCHED_BLOCKING_SYNC | ContextFlags::MAP_HOST;
        let device = device();
        let (result, calls) = instrument::during(|| Context::create_and_push(two, device));
        let error = result.unwrap_err();
        assert_eq!((error, calls.total()), (CudaError::InvalidValue, 0));
        assert!(crate::harness::said(error).contains("SCHED_SPIN | SCHED_BLOCKING_SYNC"), "{error}");

        let ctx = parked();
        let (result, calls) = instrument::during(|| ctx.set_flags(two));
        assert_eq!((result, calls.total()), (Err(CudaError::InvalidValue), 0));
    });
}

#[test]
fn set_flags_changes_the_scheduling_and_keeps_the_rest() {
    run(|| {
        let ctx = created(ContextFlags::MAP_HOST | ContextFlags::SCHED_SPIN);
        ctx.set_flags(ContextFlags::SCHED_YIELD | ContextFlags::LMEM_RESIZE_TO_MAX).unwrap();
        let expected = ContextFlags::MAP_HOST | ContextFlags::SCHED_YIELD | ContextFlags::LMEM_RESIZE_TO_MAX;
        assert_eq!(ctx.flags().unwrap(), expected);
    });
}

#[test]
fn set_flags_on_a_context_that_is_destroyed_while_current_is_refused() {
    run(|| {
        let ctx = parked();
        let handle = ctx.get_unowned();
        let guard = handle.enter().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| drop(ctx));
        });
        assert_eq!(guard.set_flags(ContextFlags::SCHED_SPIN), Err(CudaError::ContextIsDestroyed));
        assert_eq!(CurrentContext::get_flags(), Ok(ContextFlags::empty()), "as the driver answers");
        drop(guard);
    });
}

#[test]
fn the_methods_of_bitflags_1_are_there() {
    let mut flags = ContextFlags::empty();
    flags.insert(ContextFlags::MAP_HOST);
    flags |= ContextFlags::SCHED_SPIN;
    assert!(flags.contains(ContextFlags::MAP_HOST) && !flags.is_empty() && !flags.is_all());
    assert_eq!(ContextFlags::from_bits(0x100), None);
    assert_eq!(ContextFlags::from_bits_truncate(0x101), ContextFlags::SCHED_SPIN);
    assert_eq!(format!("{flags:?}"), "SCHED_SPIN | MAP_HOST");
    assert_eq!(custack::CudaFlags::empty().bits(), 0);
}
