//! `Context`: creation, destruction, giving ownership away.

// Raw handles are taken over.
#![allow(unsafe_code)]

use crate::harness::{current, device, drain, other, parked, pushed, run, run_alone};
use custack::context::wait_until_retired;
use custack::context::{Context, ContextFlags, ContextHandle, ContextStack, CurrentContext, Origin};
use custack::driver::instrument;
use custack::error::CudaError;
use std::cell::RefCell;
use std::ptr::null_mut;
use std::sync::mpsc::{Sender, channel};

#[test]
fn create_and_push_leaves_the_new_context_current() {
    run(|| {
        let ctx =
            Context::create_and_push(ContextFlags::MAP_HOST | ContextFlags::SCHED_AUTO, device()).unwrap();
        assert_eq!(current(), ctx.as_raw());
        assert_eq!((ctx.origin(), ctx.device().unwrap()), (Origin::Created, device()));
    });
}

#[test]
fn two_contexts_on_one_device_are_two() {
    run(|| {
        let (a, b) = (pushed(), pushed());
        assert_ne!(a, b);
        assert_ne!(a.as_raw(), b.as_raw());
        assert!(a.id() < b.id() && a.driver_id().unwrap() < b.driver_id().unwrap());
    });
}

#[test]
fn quick_init_twice_gives_two_contexts() {
    run(|| {
        let (a, b) = (custack::quick_init().unwrap(), custack::quick_init().unwrap());
        assert_ne!(a, b);
        assert!(a.flags().unwrap().contains(ContextFlags::MAP_HOST));
    });
}

#[test]
fn dropping_the_owner_destroys_once() {
    run_alone(|| {
        let before = instrument::contexts_alive();
        let ctx = pushed();
        assert_eq!(instrument::contexts_alive(), before + 1);
        drop(ctx);
        assert_eq!(instrument::contexts_alive(), before);
        assert!(current().is_null());
    });
}

#[test]
fn dropping_by_hand_succeeds_and_leaves_nothing() {
    run_alone(|| {
        let ctx = pushed();
        let handle = ctx.get_unowned();
        assert!(Context::drop(ctx).is_ok());
        assert!(!handle.is_alive());
        assert!(current().is_null());
    });
}

#[test]
fn dropping_leaves_the_callers_current_context_alone() {
    run(|| {
        let (a, b) = (parked(), pushed());
        drop(a);
        assert_eq!(current(), b.as_raw());
        assert_eq!(ContextStack::depth(), 1);
    });
}

#[test]
fn dropping_what_is_current_uncovers_what_was_below() {
    run(|| {
        let (a, b) = (pushed(), pushed());
        drop(b);
        assert_eq!(current(), a.as_raw());
        assert_eq!(ContextStack::depth(), 1);
    });
}

#[test]
fn dropping_what_was_pushed_twice_leaves_no_stale_context_current() {
    run(|| {
        let a = pushed();
        ContextStack::push(&a).unwrap();
        drop(a);
        assert!(current().is_null());
        assert_eq!(ContextStack::depth(), 0);
    });
}

#[test]
fn create_two_bind_the_first_drop_both_leaves_nothing_stale() {
    run(|| {
        let a = pushed();
        let b = pushed();
        a.bind().unwrap();
        drop(a);
        drop(b);
        assert!(current().is_null());
        assert_eq!(ContextStack::depth(), 0);
    });
}

#[test]
fn a_vector_of_contexts_dropped_in_any_order_leaves_nothing_stale() {
    run(|| {
        for reverse in [false, true] {
            let mut contexts: Vec<_> = (0..3).map(|_| pushed()).collect();
            if reverse {
                contexts.reverse();
            }
            drop(contexts);
            assert!(current().is_null());
            assert_eq!(ContextStack::depth(), 0);
        }
    });
}

#[test]
fn an_owner_dropped_on_another_thread_leaves_it_stale_here_and_harmless() {
    run(|| {
        let ctx = pushed();
        let handle = ctx.get_unowned();
        std::thread::scope(|scope| {
            scope.spawn(move || drop(ctx));
        });
        assert_eq!(CurrentContext::get_current().unwrap(), handle);
        assert_eq!(CurrentContext::synchronize(), Err(CudaError::ContextIsDestroyed));
        assert_eq!(ContextStack::pop().unwrap(), handle);
    });
}

#[test]
fn a_context_moves_to_another_thread_and_is_dropped_there() {
    run(|| {
        let ctx = parked();
        let handle = ctx.get_unowned();
        std::thread::spawn(move || ctx.synchronize().unwrap()).join().unwrap();
        assert!(!handle.is_alive());
    });
}

#[test]
fn into_raw_gives_away_and_from_raw_takes_over() {
    run_alone(|| {
        let ctx = parked();
        let handle = ctx.get_unowned();
        let raw = ctx.into_raw();
        assert!(handle.is_alive(), "handles stay valid");
        // SAFETY: nothing else owns it.
        let again = unsafe { Context::from_raw(raw) }.unwrap();
        assert_eq!(again.get_unowned(), handle);
        drop(again);
        assert!(!handle.is_alive());
    });
}

#[test]
fn from_raw_adopts_a_context_of_other_code() {
    run_alone(|| {
        let raw = other::parked();
        // SAFETY: nothing else owns it.
        let ctx = unsafe { Context::from_raw(raw) }.unwrap();
        assert_eq!((ctx.origin(), ctx.device().unwrap()), (Origin::Foreign, device()));
        ctx.synchronize().unwrap();
        drop(ctx);
        assert!(current().is_null());
    });
}

#[test]
fn from_raw_of_null_is_refused() {
    run(|| {
        // SAFETY: null is allowed.
        let error = unsafe { Context::from_raw(null_mut()) }.unwrap_err();
        assert_eq!(error, CudaError::InvalidContext);
    });
}

#[test]
fn get_inner_is_the_drivers_handle() {
    run(|| {
        let ctx = pushed();
        assert_eq!(ctx.get_inner(), current());
        assert_eq!(ctx.get_unowned().get_inner(), current());
    });
}

#[test]
fn api_versions_are_those_of_the_interface() {
    run(|| {
        let ctx = parked();
        let version = Context::get_api_version(&ctx).unwrap();
        assert_eq!((version.major(), version.minor()), (3, 2));
        assert_eq!(ctx.get_unowned().get_api_version().unwrap(), version);
    });
}

#[test]
fn debug_shows_the_handle_and_the_device() {
    run(|| {
        let ctx = parked();
        let text = format!("{ctx:?}");
        assert!(text.contains("device: Some(0)") && text.contains("alive: true"), "{text}");
        assert!(ctx.to_string().starts_with("context "), "{}", ctx.to_string());
    });
}

#[test]
fn creating_with_an_unsupported_affinity_is_refused_and_leaves_nothing() {
    run_alone(|| {
        let flags = ContextFlags::SCHED_AUTO;
        if device().supports_exec_affinity().unwrap() {
            return drop(Context::create_and_push_with_sm_count(flags, device(), 16).unwrap());
        }
        let error = Context::create_and_push_with_sm_count(flags, device(), 16).unwrap_err();
        assert_eq!(error, CudaError::UnsupportedExecAffinity);
        assert_eq!(drain(), []);
    });
}

#[test]
fn what_is_dropped_as_its_thread_ends_is_destroyed_elsewhere_and_by_one_thread() {
    struct Last(Option<Context>, Sender<u64>);
    impl Drop for Last {
        fn drop(&mut self) {
            let ((), calls) = instrument::during(|| drop(self.0.take()));
            let _ = self.1.send(calls.of("cuCtxDestroy_v2"));
        }
    }
    thread_local! {
        // Destroyed after what the thread uses later.
        static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
    }
    run_alone(|| {
        let (tell, told) = channel();
        for _ in 0..3 {
            let alive = instrument::contexts_alive();
            let tell = tell.clone();
            let ends = move || {
                LAST.with(|_| ());
                LAST.set(Some(Last(None, tell)));
                let ctx = parked();
                ctx.synchronize().unwrap();
                LAST.with_borrow_mut(|last| last.as_mut().unwrap().0 = Some(ctx));
            };
            std::thread::spawn(ends).join().unwrap();
            assert_eq!(told.recv(), Ok(0), "not on the thread that ends");
            wait_until_retired().unwrap();
            assert_eq!(instrument::contexts_alive(), alive);
        }
        let names = std::fs::read_dir("/proc/self/task")
            .into_iter()
            .flatten()
            .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        let workers = names.filter(|name| name.starts_with("custack retire")).count();
        assert!(workers == 1 || !cfg!(target_os = "linux"), "{workers} threads destroy what is retired");
    });
}
