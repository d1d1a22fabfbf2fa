//! Work that borrows.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::stream;
use crate::harness::{current, parked, pushed, run, run_alone, within};
use custack::context::wait_until_retired;
use custack::driver::instrument::{self, When, during};
use custack::error::{CudaError, CudaResult};
use custack::launch;
use custack::memory::{CopyDestination, DeviceBuffer};
use custack::stream::{Stream, StreamFlags, SyncScope};
use static_assertions::assert_impl_all;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

assert_impl_all!(SyncScope<'static, 'static>: Sync, std::fmt::Debug);

fn slowly(count: &AtomicUsize) {
    std::thread::sleep(Duration::from_millis(20));
    count.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn work_that_borrows_is_done_when_the_scope_returns() {
    run(|| {
        let (ctx, other) = (parked(), pushed());
        let mut stream = ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let mut there = ctx.device_buffer(&[0u32; 4]).unwrap();
        let (values, count, mut told) = ([1u32, 2, 3, 4], AtomicUsize::new(0), String::new());
        let answer = stream.sync_scope(|scope| {
            scope.launch_host_func(|| slowly(&count))?;
            scope.launch_host_func(|| slowly(&count))?;
            scope.copy_from(&mut there[..], &values[..])?;
            scope.launch_host_func(|| told.push_str("done"))?;
            Ok(7)
        });
        assert_eq!((answer, count.into_inner(), told.as_str()), (Ok(7), 2, "done"));
        let mut back = [0u32; 4];
        stream.sync_scope(|scope| scope.copy_to(&there[1..3], &mut back[..2])).unwrap();
        assert_eq!(back, [2, 3, 0, 0]);
        assert_eq!(current(), other.as_raw());
    });
}

#[test]
fn a_scope_waits_also_if_its_closure_fails_or_panics() {
    run(|| {
        let _ctx = pushed();
        let mut stream = stream();
        let count = AtomicUsize::new(0);
        let failed: CudaResult<()> = stream.sync_scope(|scope| {
            scope.launch_host_func(|| slowly(&count))?;
            Err(CudaError::NotFound)
        });
        assert_eq!((failed, count.load(Ordering::SeqCst)), (Err(CudaError::NotFound), 1));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            stream.sync_scope(|scope| -> CudaResult<()> {
                scope.launch_host_func(|| slowly(&count))?;
                panic!("on purpose, in a scope");
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(count.load(Ordering::SeqCst), 2);
        stream.synchronize().unwrap();
    });
}

#[test]
fn a_panic_in_a_borrowing_function_goes_no_further() {
    run(|| {
        let _ctx = pushed();
        let mut stream = stream();
        let count = AtomicUsize::new(0);
        stream
            .sync_scope(|scope| {
                scope.launch_host_func(|| panic!("on purpose, in a host function of a scope"))?;
                scope.launch_host_func(|| slowly(&count))
            })
            .unwrap();
        assert_eq!(count.into_inner(), 1);
    });
}

#[test]
fn the_closures_error_comes_before_that_of_the_work() {
    run(|| {
        let _ctx = pushed();
        let mut stream = stream();
        for (of_closure, expected) in
            [(Err(CudaError::NotFound), CudaError::NotFound), (Ok(()), CudaError::LaunchFailed)]
        {
            instrument::fail(Some("cuStreamSynchronize"), 1, 719, When::After);
            assert_eq!(stream.sync_scope(|_| of_closure), Err(expected));
            assert!(!instrument::disarm());
        }
    });
}

#[test]
fn a_scope_whose_driver_fails_to_wait_waits_all_the_same() {
    run(|| {
        let _ctx = pushed();
        let mut stream = stream();
        let count = AtomicUsize::new(0);
        instrument::fail(Some("cuStreamSynchronize"), 1, 719, When::Before);
        let failed = stream.sync_scope(|scope| scope.launch_host_func(|| slowly(&count)));
        assert_eq!((failed, count.into_inner()), (Err(CudaError::LaunchFailed), 1));
    });
}

#[test]
fn a_scope_costs_four_calls_besides_its_work() {
    run(|| {
        let (ctx, _other) = (parked(), pushed());
        let mut stream = ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let (_, calls) = during(|| stream.sync_scope(|_| Ok(())));
        assert_eq!(
            calls.to_string(),
            "cuStreamSynchronize, cuStreamIsCapturing, cuThreadExchangeStreamCaptureMode x2"
        );
    });
}

#[test]
fn the_context_of_a_scope_may_be_dropped_in_it() {
    run_alone(|| {
        let ctx = pushed();
        let mut stream = stream();
        let count = AtomicUsize::new(0);
        let answer = stream.sync_scope(|scope| {
            scope.launch_host_func(|| slowly(&count))?;
            drop(ctx);
            assert_eq!(scope.launch_host_func(|| slowly(&count)), Err(CudaError::ContextIsDestroyed));
            Ok(())
        });
        assert_eq!((answer, count.into_inner()), (Ok(()), 1));
        assert_eq!(stream.sync_scope(|_| Ok(())), Err(CudaError::ContextIsDestroyed));
        wait_until_retired().unwrap();
    });
}

#[test]
fn a_refused_borrowing_function_is_dropped_and_the_scope_ends() {
    within(20, || {
        run(|| {
            let _ctx = pushed();
            let mut stream = stream();
            for when in [When::Before, When::After] {
                let count = AtomicUsize::new(0);
                let (go, wait) = channel::<()>();
                let answer = stream.sync_scope(|scope| {
                    scope.launch_host_func(move || wait.recv().unwrap())?;
                    instrument::fail(Some("cuLaunchHostFunc"), 1, 719, when);
                    let refused = scope.launch_host_func(|| slowly(&count));
                    go.send(()).unwrap();
                    refused
                });
                assert_eq!((answer, count.into_inner()), (Err(CudaError::LaunchFailed), 0));
            }
        });
    });
}

#[test]
fn a_scope_takes_kernels_and_threads() {
    run(|| {
        let ctx = parked();
        let module = ctx.load_module(crate::module::KERNELS.as_bytes()).unwrap();
        let mut stream = ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let mut number = ctx.device_box(&27u32).unwrap();
        let pointer = number.as_device_ptr();
        let count = AtomicUsize::new(0);
        stream
            .sync_scope(|scope| {
                std::thread::scope(|threads| {
                    for _ in 0..4 {
                        threads.spawn(|| scope.launch_host_func(|| slowly(&count)).unwrap());
                    }
                });
                let stream = unsafe { scope.stream() };
                unsafe { launch!(module.collatz<<<1, 1, 0, stream>>>(pointer, 1u32)) }
            })
            .unwrap();
        let mut steps = 0;
        number.copy_to(&mut steps).unwrap();
        assert_eq!((steps, count.into_inner()), (111, 4));
    });
}

#[test]
fn functions_of_a_failed_context_are_not_called_after_their_scope() {
    crate::driver::process::child_succeeds("scope in error", &[]);
}

/// What the test above runs in a process of its own.
pub(crate) fn in_error() {
    run_alone(|| {
        let ctx = pushed();
        let mut stream = stream();
        let module = ctx.load_module(crate::module::KERNELS.as_bytes()).unwrap();
        let count = AtomicUsize::new(0);
        let ordered = DeviceBuffer::from_slice_in(&[1u32; 3], &stream).unwrap();
        let answer = stream.sync_scope(|scope| {
            let stream: &Stream = unsafe { scope.stream() };
            unsafe { launch!(module.trapped<<<1, 1, 0, stream>>>()) }?;
            scope.launch_host_func(|| slowly(&count))
        });
        assert_eq!((answer, count.into_inner()), (Err(CudaError::LaunchFailed), 0));
        let lost = ordered.copy_to(&mut [0; 3]);
        assert_eq!(lost, Err(CudaError::LaunchFailed), "and it does not wait for ever");
        drop((module, ordered, stream));
        drop(ctx);
    });
}

#[cfg(feature = "graph")]
#[test]
fn a_stream_that_captures_has_no_scope() {
    use custack::stream::{CaptureMode, CaptureStatus};
    run(|| {
        let _ctx = pushed();
        let (mut stream, mut joined) = (stream(), stream());
        unsafe { stream.begin_capture(CaptureMode::Relaxed) }.unwrap();
        stream.fork([&joined]).unwrap();
        for capturing in [&mut stream, &mut joined] {
            let refused = capturing.sync_scope(|_| -> CudaResult<()> { panic!("it is not called") });
            assert_eq!(
                refused,
                Err(CudaError::StreamCaptureUnsupported),
                "a graph would keep what is borrowed"
            );
            assert_eq!(capturing.capture_status(), Ok(CaptureStatus::Active));
        }
        stream.join([&joined]).unwrap();
        assert_eq!(unsafe { stream.end_capture() }.unwrap().nodes(), Ok(vec![]));
        stream.sync_scope(|_| Ok(())).unwrap();
    });
}
