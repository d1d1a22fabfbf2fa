//! Every kind of bad input in one table: a typed error whose text says what was asked, and nothing changes.

use crate::harness::{current, device, drain, parked, pushed, run};
use custack::context::{
    CacheConfig, Context, ContextFlags, ContextStack, CurrentContext, ResourceLimit, UnownedContext,
};
use custack::device::{Device, DeviceAttribute};
use custack::driver::instrument;
use custack::error::{CudaError, CudaResult};

/// The call, the error it returns, a part of the text, and how many driver calls it may make.
type Row<'a> = (&'a str, Box<dyn Fn() -> CudaResult<()> + 'a>, CudaError, &'a str, u64);

fn rows<'a>(
    dead: &'a UnownedContext,
    none: &'a UnownedContext,
    ctx: &'a Context,
    device: Device,
) -> Vec<Row<'a>> {
    let two = ContextFlags::SCHED_SPIN | ContextFlags::SCHED_YIELD;
    let unknown = ContextFlags::from_bits_truncate(0) | ContextFlags::all();
    vec![
        ("device", Box::new(|| Device::get_device(77).map(drop)), CudaError::InvalidDevice, "device 77", 2),
        (
            "two schedules",
            Box::new(move || Context::create_and_push(two, device).map(drop)),
            CudaError::InvalidValue,
            "SCHED_SPIN | SCHED_YIELD",
            0,
        ),
        (
            "all flags",
            Box::new(move || Context::create_and_push(unknown, device).map(drop)),
            CudaError::InvalidValue,
            "more than one scheduling flag",
            0,
        ),
        (
            "limit value",
            Box::new(|| CurrentContext::set_resource_limit(ResourceLimit::MaxL2FetchGranularity, 4096)),
            CudaError::InvalidValue,
            "MaxL2FetchGranularity to 4096",
            1,
        ),
        (
            "limit",
            Box::new(|| CurrentContext::get_resource_limit(ResourceLimit::__Nonexhaustive).map(drop)),
            CudaError::InvalidValue,
            "ResourceLimit::__Nonexhaustive, which stands for nothing",
            0,
        ),
        (
            "config",
            Box::new(|| CurrentContext::set_cache_config(CacheConfig::__Nonexhaustive)),
            CudaError::InvalidValue,
            "CacheConfig::__Nonexhaustive, which stands for nothing",
            0,
        ),
        (
            "attribute",
            Box::new(move || device.get_attribute(DeviceAttribute::__NonExhaustive).map(drop)),
            CudaError::InvalidValue,
            "DeviceAttribute::__NonExhaustive, which stands for nothing",
            0,
        ),
        (
            "PCI address",
            Box::new(|| Device::by_pci_bus_id("somewhere").map(drop)),
            CudaError::InvalidValue,
            "\"somewhere\"",
            1,
        ),
        ("push null", Box::new(|| ContextStack::push(none)), CudaError::InvalidValue, "a null handle", 0),
        ("enter null", Box::new(|| none.enter().map(drop)), CudaError::InvalidContext, "a null handle", 0),
        ("sync null", Box::new(|| none.synchronize()), CudaError::InvalidContext, "a null handle", 0),
        ("push dead", Box::new(|| ContextStack::push(dead)), CudaError::ContextIsDestroyed, "context ", 0),
        (
            "set dead",
            Box::new(|| CurrentContext::set_current(dead)),
            CudaError::ContextIsDestroyed,
            "on device 0",
            0,
        ),
        ("enter dead", Box::new(|| dead.enter().map(drop)), CudaError::ContextIsDestroyed, "destroyed", 0),
        (
            "pop held",
            Box::new(|| ctx.scoped(|_| ContextStack::pop().map(drop))),
            CudaError::HeldByGuard,
            "bad_input.rs",
            2,
        ),
    ]
}

#[test]
fn every_bad_input_is_refused_by_name_and_changes_nothing() {
    run(|| {
        let dead = parked().get_unowned();
        let none = CurrentContext::get_current().unwrap();
        let ctx = pushed();
        let alive = instrument::contexts_alive;
        let _ = alive;
        for (name, call, error, text, most_calls) in rows(&dead, &none, &ctx, device()) {
            let (result, calls) = instrument::during(call);
            assert_eq!(result, Err(error), "{name}");
            assert!(crate::harness::said(error).contains(text), "{name}: {error}");
            assert!(calls.total() <= most_calls, "{name}: {calls}");
            assert_eq!((current(), ContextStack::depth()), (ctx.as_raw(), 1), "{name}");
        }
        ctx.synchronize().unwrap();
        assert_eq!(drain(), [ctx.as_raw()]);
    });
}

#[test]
fn the_error_of_an_empty_stack_says_so() {
    run(|| {
        let error = ContextStack::pop().unwrap_err();
        assert_eq!(error, CudaError::InvalidContext);
        assert!(crate::harness::said(error).contains("empty stack"), "{error}");
    });
}
