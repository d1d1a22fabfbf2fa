//! `UnownedContext`: handles, their operations, and their behaviour after the owner is dropped.

// Wraps raw handles.
#![allow(unsafe_code)]

use crate::harness::{current, device, drain, other, parked, pushed, run, run_alone, skip};
use custack::context::{
    CacheConfig, ContextFlags, ContextStack, CurrentContext, Origin, ResourceLimit, SharedMemoryConfig,
    UnownedContext,
};
use custack::driver::instrument;
use custack::error::{CudaError, CudaResult};
use custack::sim;
use std::collections::HashSet;
use std::ptr::null_mut;

/// An operation that takes a handle, with its name.
type Operation = (&'static str, fn(&UnownedContext) -> CudaResult<()>);

/// All operations on handles.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        ("push", |ctx| ContextStack::push(ctx).and_then(|()| ContextStack::pop().map(drop))),
        ("set_current", |ctx| {
            let saved = CurrentContext::get_current()?;
            CurrentContext::set_current(ctx)?;
            CurrentContext::set_current(&saved)
        }),
        ("bind", |ctx| ctx.scoped(|_| ctx.bind())),
        ("enter", |ctx| ctx.enter().map(drop)),
        ("scoped", |ctx| ctx.scoped(|_| Ok(()))),
        ("synchronize", |ctx| ctx.synchronize()),
        ("get_api_version", |ctx| ctx.get_api_version().map(drop)),
        ("driver_id", |ctx| ctx.driver_id().map(drop)),
        ("flags", |ctx| ctx.flags().map(drop)),
        ("set_flags", |ctx| ctx.set_flags(ContextFlags::SCHED_SPIN)),
        ("limit", |ctx| ctx.limit(ResourceLimit::StackSize).map(drop)),
        ("set_limit", |ctx| ctx.set_limit(ResourceLimit::StackSize, 2048)),
        ("cache_config", |ctx| ctx.cache_config().map(drop)),
        ("set_cache_config", |ctx| ctx.set_cache_config(CacheConfig::PreferL1)),
        ("shared_memory_config", |ctx| ctx.shared_memory_config().map(drop)),
        ("set_shared_memory_config", |ctx| {
            ctx.set_shared_memory_config(SharedMemoryConfig::FourByteBankSize)
        }),
        ("stream_priority_range", |ctx| ctx.stream_priority_range().map(drop)),
        ("reset_persisting_l2_cache", |ctx| ctx.reset_persisting_l2_cache()),
        ("sm_count", |ctx| ctx.sm_count().map(drop)),
        ("enable_peer_access", |ctx| expect(ctx.enable_peer_access(ctx), CudaError::PeerAccessUnsupported)),
        ("disable_peer_access", |ctx| expect(ctx.disable_peer_access(ctx), CudaError::PeerAccessNotEnabled)),
    ]
}

/// Turns the error that a call normally returns into success.
fn expect(result: CudaResult<()>, error: CudaError) -> CudaResult<()> {
    match result {
        Err(found) if found == error => Ok(()),
        other => other,
    }
}

#[test]
fn every_operation_works_from_an_empty_stack_and_leaves_it_empty() {
    run(|| {
        let ctx = parked();
        for (name, operation) in operations() {
            assert_eq!(operation(&ctx), Ok(()), "{name}");
            assert!(current().is_null(), "{name}");
            assert_eq!(ContextStack::depth(), 0, "{name}");
        }
    });
}

#[test]
fn every_operation_leaves_another_current_context_as_it_was() {
    run(|| {
        let (ctx, a, b) = (parked(), pushed(), pushed());
        for (name, operation) in operations() {
            assert_eq!(operation(&ctx), Ok(()), "{name}");
            assert_eq!((current(), ContextStack::depth()), (b.as_raw(), 2), "{name}");
        }
        assert_eq!(drain(), [b.as_raw(), a.as_raw()]);
    });
}

#[test]
fn every_operation_works_on_the_current_context() {
    run(|| {
        let ctx = pushed();
        for (name, operation) in operations() {
            assert_eq!(operation(&ctx), Ok(()), "{name}");
            assert_eq!((current(), ContextStack::depth()), (ctx.as_raw(), 1), "{name}");
        }
        assert_eq!(drain(), [ctx.as_raw()]);
    });
}

#[test]
fn every_operation_refuses_a_destroyed_context_without_a_driver_call_on_any_thread() {
    run(|| {
        let base = pushed();
        let handle = parked().get_unowned();
        let refuse_all = |handle: &UnownedContext| {
            for (name, operation) in operations() {
                if name == "set_current" {
                    continue; // saves what is current first, with a call
                }
                let (result, calls) = instrument::during(|| operation(handle));
                assert_eq!(result, Err(CudaError::ContextIsDestroyed), "{name}");
                assert_eq!(calls.total(), 0, "{name}");
            }
            assert_eq!(CurrentContext::set_current(handle), Err(CudaError::ContextIsDestroyed));
        };
        refuse_all(&handle);
        std::thread::scope(|scope| scope.spawn(|| refuse_all(&handle)).join().unwrap());
        assert_eq!(drain(), [base.as_raw()]);
    });
}

#[test]
fn every_operation_refuses_a_null_handle() {
    run(|| {
        let none = CurrentContext::get_current().unwrap();
        for (name, operation) in operations() {
            match name {
                "set_current" => assert_eq!(operation(&none), Ok(()), "unbinds"),
                "push" => assert_eq!(operation(&none), Err(CudaError::InvalidValue)),
                _ => assert_eq!(operation(&none), Err(CudaError::InvalidContext), "{name}"),
            }
        }
        assert_eq!(none.device(), Err(CudaError::InvalidContext));
    });
}

#[test]
#[allow(
    clippy::mutable_key_type,
    reason = "hash and equality are of the handle's value and id, which never change"
)]
fn handles_of_the_same_context_are_equal() {
    run(|| {
        let (a, b) = (parked(), parked());
        let set: HashSet<_> =
            [a.get_unowned(), a.get_unowned().clone(), b.get_unowned()].into_iter().collect();
        assert_eq!(set.len(), 2);
        assert_eq!(*a, a.get_unowned());
        assert_ne!(*a, *b);
    });
}

#[test]
fn a_reused_handle_value_is_another_context() {
    run_alone(|| {
        sim::reuse_handles(true);
        let old = parked().get_unowned();
        let mut kept = Vec::new();
        // The driver reuses the value at once, or soon.
        let new = (0..8).find_map(|_| {
            let ctx = parked();
            if ctx.as_raw() == old.as_raw() {
                return Some(ctx);
            }
            kept.push(ctx);
            None
        });
        sim::reuse_handles(false);
        let Some(new) = new else {
            return skip("a_reused_handle_value_is_another_context", "the driver did not reuse the handle");
        };
        assert_ne!(old, *new);
        assert!(!old.is_alive() && new.is_alive());
        assert_eq!(old.synchronize(), Err(CudaError::ContextIsDestroyed));
        assert_eq!(ContextStack::push(&old), Err(CudaError::ContextIsDestroyed));
        new.synchronize().unwrap();
    });
}

#[test]
fn a_handle_has_its_device_after_the_context_is_destroyed() {
    run(|| {
        let handle = parked().get_unowned();
        assert_eq!(handle.device(), Ok(device()));
        assert!(handle.to_string().contains("destroyed"), "{handle}");
    });
}

#[test]
fn from_raw_finds_a_registered_context() {
    run(|| {
        let ctx = parked();
        // SAFETY: the context is alive.
        let again = unsafe { UnownedContext::from_raw(ctx.as_raw()) };
        assert_eq!((again.clone(), again.origin()), (ctx.get_unowned(), Origin::Created));
        // SAFETY: null is allowed.
        assert!(unsafe { UnownedContext::from_raw(null_mut()) }.is_null());
    });
}

#[test]
fn from_raw_of_a_foreign_context_is_usable() {
    run(|| {
        let raw = other::parked();
        // SAFETY: the context is alive until the end of the test.
        let handle = unsafe { UnownedContext::from_raw(raw) };
        assert_eq!(handle.origin(), Origin::Foreign);
        assert_eq!(handle.device(), Ok(device()));
        for (name, operation) in operations() {
            assert_eq!(operation(&handle), Ok(()), "{name}");
        }
        other::destroy(raw);
    });
}
