//! What is reported through `tracing`, and that a report does no harm.

use crate::harness::{OnReport, current, other, parked, pushed, run, run_alone, within};
use custack::context::{ContextStack, CurrentContext, PrimaryContext};
use custack::driver::instrument::{self, When};
use custack::error::CudaError;
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};

type Lines = Arc<Mutex<Vec<(Level, String)>>>;

/// Collects custack's reports.
fn keep(lines: Lines) -> impl Subscriber + Send + Sync {
    OnReport(move |event: &Event<'_>| {
        struct Message(String);
        impl Visit for Message {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                if field.name() == "message" {
                    self.0 = format!("{value:?}");
                }
            }
        }
        let mut message = Message(String::new());
        event.record(&mut message);
        lines.lock().unwrap().push((*event.metadata().level(), message.0));
    })
}

/// Runs `f` with a subscriber of its own, and returns what was reported on this thread.
pub(crate) fn reported(f: impl FnOnce()) -> Vec<(Level, String)> {
    let lines = Lines::default();
    tracing::subscriber::with_default(keep(lines.clone()), f);
    lines.lock().unwrap().clone()
}

/// Like [`reported`], for a whole thread, including its end.
fn reported_by_a_thread(f: impl FnOnce() + Send) -> Vec<(Level, String)> {
    let lines = Lines::default();
    std::thread::scope(|scope| {
        let body = || {
            // Stays the thread's subscriber until its very end.
            std::mem::forget(tracing::subscriber::set_default(keep(lines.clone())));
            f();
        };
        std::thread::Builder::new()
            .name("worker".to_owned())
            .spawn_scoped(scope, body)
            .unwrap()
            .join()
            .unwrap();
    });
    let lines = lines.lock().unwrap();
    lines.clone()
}

#[track_caller]
fn one(lines: &[(Level, String)], level: Level, parts: &[&str]) {
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0].0, level, "{lines:?}");
    for part in parts {
        assert!(lines[0].1.contains(part), "{part} is missing in {}", lines[0].1);
    }
}

#[test]
fn nothing_is_reported_when_nothing_goes_wrong() {
    run(|| {
        let lines = reported(|| {
            let (a, b) = (pushed(), parked());
            b.scoped(|_| a.synchronize()).unwrap();
            ContextStack::pop().unwrap();
        });
        assert_eq!(lines, []);
    });
}

#[test]
fn a_destroy_that_fails_in_a_drop_is_reported_and_loses_nothing() {
    run(|| {
        let ctx = parked();
        let handle = ctx.get_unowned();
        let lines = reported(|| {
            instrument::fail_times(Some("cuCtxDestroy_v2"), 1, 2, 719, When::Before);
            drop(ctx);
        });
        one(&lines, Level::WARN, &["destroying", "CUDA_ERROR_LAUNCH_FAILED"]);
        assert!(!handle.is_alive(), "dead permanently");
        other::destroy(handle.as_raw());
    });
}

#[test]
fn a_release_that_fails_in_a_drop_is_reported() {
    run_alone(|| {
        let primary = PrimaryContext::retain(crate::harness::device()).unwrap();
        let lines = reported(|| {
            instrument::fail(Some("cuDevicePrimaryCtxRelease_v2"), 1, 719, When::Before);
            drop(primary);
        });
        one(&lines, Level::WARN, &["primary context", "could not be released"]);
        // The driver still counts the share; it is released through the table.
        let release = crate::harness::table().cuDevicePrimaryCtxRelease_v2;
        #[allow(unsafe_code)]
        // SAFETY: no pointers.
        let status = unsafe { release(0) };
        assert_eq!(status, 0);
        // custack does not count it any more: the next share is the only one, and the handles die with it.
        let next = PrimaryContext::retain(crate::harness::device()).unwrap();
        let handle = next.get_unowned();
        drop(next);
        assert!(!handle.is_alive());
    });
}

#[test]
fn a_pop_that_fails_when_a_guard_is_dropped_is_reported() {
    run(|| {
        let ctx = parked();
        let guard = ctx.enter().unwrap();
        let lines = reported(|| {
            instrument::fail(Some("cuCtxPopCurrent_v2"), 1, 719, When::Before);
            drop(guard);
        });
        one(&lines, Level::WARN, &["leaving context", "CUDA_ERROR_LAUNCH_FAILED"]);
    });
}

#[test]
fn a_foreign_change_within_a_scope_is_reported_at_debug_level() {
    run(|| {
        let (a, b) = (parked(), parked());
        let lines = reported(|| {
            let _guard = a.enter().unwrap();
            other::set(b.as_raw());
        });
        one(&lines, Level::DEBUG, &["other code changed this thread's context stack"]);
    });
}

#[test]
fn a_thread_that_ends_with_pushed_contexts_is_reported_with_their_locations() {
    run(|| {
        let ctx = parked();
        let lines = reported_by_a_thread(|| {
            ContextStack::push(&ctx).unwrap();
            std::mem::forget(ctx.enter().unwrap());
        });
        one(
            &lines,
            Level::WARN,
            &["a thread ended with contexts on its stack", "pushed at", "report.rs", "held by a guard"],
        );
    });
}

#[test]
fn a_worker_that_set_a_context_and_ends_is_no_warning() {
    run(|| {
        let ctx = parked();
        let lines = reported_by_a_thread(|| CurrentContext::set_current(&ctx).unwrap());
        one(&lines, Level::DEBUG, &["set at"]);
    });
}

#[test]
fn a_thread_that_ends_with_an_empty_stack_reports_nothing() {
    run(|| {
        let ctx = parked();
        let lines = reported_by_a_thread(|| {
            ContextStack::push(&ctx).unwrap();
            ContextStack::pop().unwrap();
            ctx.synchronize().unwrap();
        });
        assert_eq!(lines, []);
    });
}

#[test]
fn a_subscriber_that_panics_does_no_harm() {
    run(|| {
        let ctx = parked();
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                std::mem::forget(tracing::subscriber::set_default(OnReport(|_: &Event<'_>| {
                    panic!("a subscriber that panics, on purpose")
                })));
                let _guard = ctx.enter().unwrap();
                instrument::fail(Some("cuCtxPopCurrent_v2"), 1, 719, When::Before);
                ContextStack::push(&ctx).unwrap();
                panic!("and the thread panics too");
            });
            assert!(worker.join().is_err(), "it ends by its own panic, and the process lives");
        });
        ctx.synchronize().unwrap();
    });
}

#[test]
fn a_subscriber_may_destroy_the_context_that_a_report_is_about() {
    run_alone(|| {
        within(20, || {
            let owner = parked();
            let handle = owner.get_unowned();
            let owner = Mutex::new(Some(owner));
            let drops = OnReport(move |_: &Event<'_>| {
                let owner = owner.lock().unwrap().take();
                drop(owner);
            });
            tracing::subscriber::with_default(drops, || {
                instrument::fail_times(None, 1, 2, 999, When::Before);
                assert_eq!(ContextStack::push(&handle), Err(CudaError::UnknownError));
            });
            assert!(!handle.is_alive(), "reported, and dropped");
            assert!(current().is_null());
        });
    });
}
