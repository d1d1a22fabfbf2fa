//! The driver fails at every call that green contexts make: the error comes back, and nothing is lost.

use crate::claims::faults::sweep;
use crate::harness::{current, device, pushed, run_alone};
use custack::context::{ContextStack, GreenContext, PrimaryContext, wait_until_retired};
use custack::device::SmResource;
use custack::driver::instrument::{self, When};
use custack::error::{CudaError, CudaResult};
use custack::event::{Event, EventFlags};
use std::cell::RefCell;

/// What the operations work on, made once, so that only their own calls fail.
struct Things {
    part: SmResource,
    green: GreenContext,
    event: Event,
}

thread_local! {
    static THINGS: RefCell<Option<Things>> = const { RefCell::new(None) };
}

fn with<R>(f: impl FnOnce(&mut Things) -> R) -> R {
    THINGS.with_borrow_mut(|things| f(things.as_mut().unwrap()))
}

type Operation = (&'static str, fn() -> CudaResult<()>);

const OPERATIONS: &[Operation] = &[
    ("sm_resource", || with(|it| it.green.device()).sm_resource().map(drop)),
    ("split", || with(|it| it.green.sm_resource())?.split(1, 1).map(drop)),
    ("device_resource", || with(|it| it.green.primary().device_resource()).map(drop)),
    ("new", || GreenContext::new(&with(|it| it.part)).map(drop)),
    ("enter", || with(|it| it.green.enter().map(drop))),
    ("create_stream", || with(|it| it.green.create_stream(None)).map(drop)),
    ("has", || with(|it| it.green.has(&it.green.create_stream(None)?)).map(drop)),
    ("driver_id", || with(|it| it.green.driver_id()).map(drop)),
    ("synchronize", || with(|it| it.green.synchronize())),
    ("record_event", || with(|it| it.green.record_event(&it.event))),
    ("wait_event", || with(|it| it.green.wait_event(&it.event))),
    ("record_event of a context", || with(|it| it.green.primary().record_event(&it.event))),
    ("wait_event of a context", || with(|it| it.green.primary().wait_event(&it.event))),
];

/// Functions whose error need not be returned: destructors call them, or they restore the stack.
const UNSEEN: [&str; 6] = [
    "cuGreenCtxDestroy",
    "cuDevicePrimaryCtxRelease_v2",
    "cuStreamDestroy_v2",
    "cuCtxPopCurrent_v2",
    "cuCtxGetCurrent",
    "cuDevicePrimaryCtxGetState",
];

#[test]
fn every_operation_on_green_contexts_survives_a_fault_at_every_call() {
    run_alone(|| {
        let all = device().sm_resource().unwrap();
        let part = all.split(1, all.count() / 8).unwrap().groups[0];
        let green = GreenContext::new(&part).unwrap();
        let event = green.primary().create_event(EventFlags::DISABLE_TIMING).unwrap();
        THINGS.set(Some(Things { part, green, event }));
        let base = pushed();
        let mut runs = 0;
        for (name, operation) in OPERATIONS {
            operation().unwrap();
            let before = (instrument::contexts_alive(), instrument::primary_retains());
            runs += sweep(operation, |result, error, fault| {
                let unseen = UNSEEN.iter().any(|function| fault.starts_with(function));
                assert!(result == Err(error) || result == Ok(()) && unseen, "{name}, {fault}: {result:?}");
                assert_eq!((current(), ContextStack::depth()), (base.as_raw(), 1), "{name}, {fault}");
                wait_until_retired().unwrap();
                // A driver that refuses to give a share back keeps it.
                if fault.starts_with("cuDevicePrimaryCtxRelease_v2") && fault.ends_with("Before") {
                    crate::harness::other::release_primary();
                }
                // The driver destroys a green context only after its streams.
                let now = (instrument::contexts_alive(), instrument::primary_retains());
                assert_eq!(now, before, "{name}, {fault}");
                assert_eq!(operation(), Ok(()), "{name} again after {fault}");
            });
        }
        assert!(runs >= 14 * OPERATIONS.len() as u64, "{runs} runs");
        THINGS.take();
        drop(base);
    });
}

#[test]
fn destroying_a_green_context_survives_a_fault_at_every_call() {
    run_alone(|| {
        let all = device().sm_resource().unwrap();
        let share = PrimaryContext::retain(device()).unwrap();
        let before = instrument::contexts_alive();
        for code in [1, 2, 201, 709, 719, 999, 4711] {
            for when in [When::Before, When::After] {
                let name = format!("{code} {when:?}");
                let mut green = GreenContext::new(&all).unwrap();
                drop(green.enter().unwrap());
                let handle = green.handle().clone();
                instrument::fail(Some("cuGreenCtxDestroy"), 1, code, when);
                if let Err((error, green)) = GreenContext::drop(green) {
                    assert_eq!(Some(error), CudaError::from_code(code), "{name}");
                    drop(green);
                }
                assert!(!handle.is_alive() && !instrument::disarm(), "{name}");
                assert_eq!(instrument::contexts_alive(), before, "{name}");
                assert!(current().is_null() && ContextStack::depth() == 0, "{name}");
            }
        }
        drop(share);
    });
}
