//! What things cost, in driver calls: the contract that makes scopes cheap.

use crate::harness::{parked, pushed, run};
use crate::unowned::operations;
use custack::context::{ContextStack, CurrentContext};
use custack::driver::account::during;
use custack::error::CudaError;

#[test]
fn a_scope_that_must_switch_costs_a_push_and_a_pop() {
    run(|| {
        let (a, _b) = (parked(), pushed());
        let (_, calls) = during(|| a.scoped(|_| Ok(())));
        assert_eq!(calls.to_string(), "cuCtxPushCurrent_v2, cuCtxPopCurrent_v2");
    });
}

#[test]
fn a_scope_from_an_empty_stack_costs_the_same() {
    run(|| {
        let ctx = parked();
        let (_, calls) = during(|| ctx.scoped(|_| Ok(())));
        assert_eq!(calls.to_string(), "cuCtxPushCurrent_v2, cuCtxPopCurrent_v2");
    });
}

#[test]
fn a_scope_whose_context_is_current_costs_one_question() {
    run(|| {
        let ctx = pushed();
        let (_, calls) = during(|| ctx.scoped(|_| Ok(())));
        assert_eq!(calls.to_string(), "cuCtxGetCurrent");
    });
}

#[test]
fn nested_scopes_of_one_context_push_once() {
    run(|| {
        let ctx = parked();
        let (_, calls) = during(|| ctx.scoped(|_| ctx.scoped(|_| ctx.scoped(|_| Ok(())))));
        assert_eq!(calls.to_string(), "cuCtxPushCurrent_v2, cuCtxPopCurrent_v2, cuCtxGetCurrent x2");
    });
}

#[test]
fn a_refused_call_costs_nothing() {
    run(|| {
        let handle = parked().get_unowned();
        let (result, calls) = during(|| handle.scoped(|_| Ok(())));
        assert_eq!((result, calls.total()), (Err(CudaError::ContextIsDestroyed), 0));
        let ctx = pushed();
        let guard = ctx.enter().unwrap();
        let (result, calls) = during(ContextStack::pop);
        assert_eq!((result.unwrap_err(), calls.total()), (CudaError::HeldByGuard, 0));
        drop(guard);
    });
}

#[test]
fn rustacudas_calls_cost_one_driver_call_each() {
    run(|| {
        let ctx = parked();
        let (_, calls) = during(|| ContextStack::push(&ctx).unwrap());
        assert_eq!(calls.to_string(), "cuCtxPushCurrent_v2");
        let (_, calls) = during(|| CurrentContext::get_current().unwrap());
        assert_eq!(calls.to_string(), "cuCtxGetCurrent");
        let (_, calls) = during(|| CurrentContext::set_current(&ctx).unwrap());
        assert_eq!(calls.to_string(), "cuCtxSetCurrent");
        let (_, calls) = during(|| CurrentContext::synchronize().unwrap());
        assert_eq!(calls.to_string(), "cuCtxSynchronize");
        let (_, calls) = during(|| ContextStack::pop().unwrap());
        assert_eq!(calls.to_string(), "cuCtxPopCurrent_v2");
    });
}

#[test]
fn every_method_costs_its_own_call_and_one_more_when_the_context_is_current() {
    run(|| {
        let ctx = pushed();
        // These are made of more than one call each.
        let composed = ["push", "set_current", "bind", "enter", "scoped"];
        for (name, operation) in operations() {
            let (result, calls) = during(|| operation(&ctx));
            assert_eq!(result, Ok(()), "{name}");
            if !composed.contains(&name) {
                assert!(calls.total() <= 2, "{name}: {calls}");
            }
        }
    });
}

#[test]
fn every_method_costs_its_own_call_a_push_and_a_pop_when_it_is_not() {
    run(|| {
        let ctx = parked();
        for (name, operation) in operations() {
            let (result, calls) = during(|| operation(&ctx));
            assert_eq!(result, Ok(()), "{name}");
            let most = if name == "bind" { 4 } else { 3 };
            assert!(calls.total() <= most, "{name}: {calls}");
        }
    });
}

#[test]
fn handles_are_made_cloned_and_dropped_without_a_call() {
    run(|| {
        let ctx = parked();
        let (_, calls) = during(|| {
            let handle = ctx.get_unowned();
            assert!(handle.clone() == handle && handle.is_alive());
            handle.device().unwrap()
        });
        assert_eq!(calls.total(), 0);
    });
}
