//! Captures by hand whose stream or context is dropped, or given away: each is ended at once, and reported.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{MODES, is_free, something, stream};
use crate::harness::{device, is_simulated, other, parked, pushed, run, run_alone, skip, start, table};
use crate::report::reported;
use custack::context::{ContextStack, CurrentContext, GreenContext, PrimaryContext, wait_until_retired};
use custack::driver::instrument;
use custack::error::CudaError;
use custack::graph::{Capture, Graph};
use custack::launch;
use custack::memory::{CopyDestination, DeviceBuffer};
use custack::stream::{BorrowedStream, CaptureMode, CaptureStatus, PerThreadStream, Stream, StreamFlags};
use std::ptr;
use tracing::Level;

/// One report, of a lost capture that was begun in this file.
#[track_caller]
fn says_so(said: &[(Level, String)], why: &str) {
    assert_eq!(said.len(), 1, "{said:?}");
    let text = &said[0].1;
    assert!(text.contains("capture lost") && text.contains("lost.rs") && text.contains(why), "{text}");
    assert!(text.contains("Ok(())"), "{text}");
}

/// Nothing is forbidden to this thread or another.
#[track_caller]
fn nothing_is_forbidden() {
    drop(DeviceBuffer::from_slice(&[1u32]).unwrap());
    CurrentContext::synchronize().unwrap();
}

#[test]
fn a_stream_that_memory_shares_ends_its_capture_when_it_is_dropped() {
    run_alone(|| {
        let _ctx = pushed();
        for mode in MODES {
            for by_hand in [false, true] {
                let home = stream();
                let memory = DeviceBuffer::from_slice_in(&[7u32; 4], &home).unwrap();
                home.synchronize().unwrap();
                let raw = home.as_raw();
                unsafe { home.begin_capture(mode) }.unwrap();
                let said = reported(|| match by_hand {
                    true => Stream::drop(home).unwrap(),
                    false => drop(home),
                });
                says_so(&said, "a stream is dropped");
                nothing_is_forbidden();
                // The memory keeps the stream, which can be used again.
                let mut status = 9;
                assert_eq!(unsafe { (table().cuStreamIsCapturing)(raw, &mut status) }, 0);
                assert_eq!(status, 0, "{mode:?}");
                let mut back = [0; 4];
                memory.copy_to(&mut back).unwrap();
                assert_eq!(back, [7; 4]);
            }
        }
    });
}

#[test]
fn a_stream_that_is_dropped_in_a_host_function_ends_its_capture_soon_after() {
    run_alone(|| {
        let _ctx = pushed();
        let other = stream();
        for shared in [false, true] {
            let home = stream();
            let memory = shared.then(|| DeviceBuffer::from_slice_in(&[7u32; 4], &home).unwrap());
            home.synchronize().unwrap();
            unsafe { home.begin_capture(CaptureMode::Global) }.unwrap();
            let (dropped, wait) = std::sync::mpsc::channel();
            let drops = move || {
                drop(home);
                dropped.send(()).unwrap();
            };
            other.launch_host_func(drops).unwrap();
            wait.recv().unwrap();
            wait_until_retired().unwrap();
            nothing_is_forbidden();
            drop(memory);
        }
    });
}

#[test]
fn a_context_that_is_dropped_ends_the_captures_that_were_begun_in_it_by_hand() {
    run_alone(|| {
        let _below = pushed();
        for (at, mode) in MODES.into_iter().enumerate() {
            let (ctx, alive) = (parked(), instrument::contexts_alive());
            let capturing = ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
            let with_memory = at == 1;
            let memory = with_memory.then(|| DeviceBuffer::from_slice_in(&[1u32], &capturing).unwrap());
            unsafe { capturing.begin_capture(mode) }.unwrap();
            let said = reported(|| drop(ctx));
            says_so(&said, "a context is dropped");
            nothing_is_forbidden();
            assert_eq!(capturing.capture_status(), Err(CudaError::ContextIsDestroyed));
            assert_eq!(unsafe { capturing.end_capture() }.unwrap_err(), CudaError::ContextIsDestroyed);
            let kept = i64::from(!with_memory);
            assert_eq!(instrument::contexts_alive(), alive - kept, "only memory keeps it");
            drop((capturing, memory));
            wait_until_retired().unwrap();
            assert_eq!(instrument::contexts_alive(), alive - 1);
        }
    });
}

#[test]
fn the_last_share_of_a_primary_context_ends_captures_by_hand_and_an_earlier_one_does_not() {
    run_alone(|| {
        let _below = pushed();
        let first = PrimaryContext::retain(device()).unwrap();
        let second = first.clone();
        let capturing = first.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        unsafe { capturing.begin_capture(CaptureMode::Global) }.unwrap();
        let said = reported(|| drop(first));
        assert!(said.is_empty(), "{said:?}");
        assert_eq!(capturing.capture_status(), Ok(CaptureStatus::Active));
        let said = reported(|| drop(second));
        says_so(&said, "a context is dropped");
        nothing_is_forbidden();
    });
}

#[test]
fn a_context_that_is_dropped_on_another_thread_ends_a_capture_of_this_one() {
    run_alone(|| {
        let _below = pushed();
        let ctx = parked();
        let capturing = ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        unsafe { capturing.begin_capture(CaptureMode::Global) }.unwrap();
        std::thread::scope(|scope| scope.spawn(|| drop(ctx)).join().unwrap());
        nothing_is_forbidden();
    });
}

#[test]
fn a_capture_that_is_begun_while_its_context_is_dropped_is_ended() {
    run_alone(|| {
        let _below = pushed();
        // A real driver takes a third of a second for a context.
        for _ in 0..if is_simulated() { 200 } else { 20 } {
            let ctx = parked();
            let capturing = ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let begun = unsafe { capturing.begin_capture(CaptureMode::Global) };
                    assert!(matches!(begun, Ok(()) | Err(CudaError::ContextIsDestroyed)), "{begun:?}");
                });
                drop(ctx);
            });
            nothing_is_forbidden();
        }
    });
}

#[test]
fn a_capture_in_a_stream_of_somebody_else_is_lost_with_the_value_that_it_was_begun_in() {
    run_alone(|| {
        let ctx = pushed();
        for mode in MODES {
            let mut owner = stream();
            let borrowed = unsafe { BorrowedStream::from_raw(owner.as_raw()) }.unwrap();
            let again = borrowed.clone();
            unsafe { borrowed.begin_capture(mode) }.unwrap();
            drop(borrowed);
            assert_eq!(owner.capture_status(), Ok(CaptureStatus::Active));
            let said = reported(|| drop(again));
            says_so(&said, "a stream is dropped");
            is_free(&mut owner);
            // What its owner lends it may give back without harm.
            unsafe { owner.begin_capture(mode) }.unwrap();
            drop(owner.to_borrowed());
            assert_eq!(owner.capture_status(), Ok(CaptureStatus::Active));
            drop(unsafe { owner.end_capture() }.unwrap());

            let here = PerThreadStream::of(&ctx);
            unsafe { here.begin_capture(mode) }.unwrap();
            let said = reported(|| drop(here));
            says_so(&said, "a stream is dropped");
            nothing_is_forbidden();
            let again = PerThreadStream::of(&ctx);
            assert_eq!(again.capture_status(), Ok(CaptureStatus::None));
            again.synchronize().unwrap();
        }
    });
}

thread_local! {
    static TO_THE_END: std::cell::RefCell<Option<PerThreadStream>> = const { std::cell::RefCell::new(None) };
}

#[test]
fn a_capture_in_a_per_thread_stream_is_over_when_its_thread_is() {
    run_alone(|| {
        let ctx = pushed();
        std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    let here = PerThreadStream::of(&ctx);
                    unsafe { here.begin_capture(CaptureMode::ThreadLocal) }.unwrap();
                    TO_THE_END.set(Some(here));
                })
                .join()
                .unwrap();
        });
        nothing_is_forbidden();
    });
}

#[test]
fn a_capture_in_the_per_thread_stream_of_another_thread_is_lost_with_its_context() {
    run_alone(|| {
        let _below = pushed();
        for thread_ends in [true, false] {
            let (ctx, alive) = (parked(), instrument::contexts_alive());
            let (begun, wait) = std::sync::mpsc::channel();
            let (end, ends) = std::sync::mpsc::channel::<()>();
            std::thread::scope(|scope| {
                let context = ctx.get_unowned();
                let captures = scope.spawn(move || {
                    let here = PerThreadStream::of(&context);
                    unsafe { here.begin_capture(CaptureMode::Global) }.unwrap();
                    begun.send(()).unwrap();
                    if thread_ends {
                        std::mem::forget(here);
                    } else {
                        ends.recv().unwrap();
                    }
                });
                wait.recv().unwrap();
                if thread_ends {
                    captures.join().unwrap();
                }
                drop(ctx);
                wait_until_retired().unwrap();
                assert_eq!(instrument::contexts_alive(), alive - 1, "nothing keeps it");
                nothing_is_forbidden();
                let _ = end.send(());
            });
        }
    });
}

#[test]
fn a_capture_in_a_failed_context_is_lost_with_that() {
    // On a GPU such an error takes the process with it: a process of its own.
    crate::driver::process::child_succeeds("a capture in error", &[]);
}

/// What the test above runs in a process of its own.
pub(crate) fn in_error() {
    run_alone(|| {
        let _below = pushed();
        let ctx = parked();
        let module = ctx.load_module(crate::module::KERNELS.as_bytes()).unwrap();
        let new = || ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let (capturing, fails) = (new(), new());
        unsafe { capturing.begin_capture(CaptureMode::Global) }.unwrap();
        unsafe { launch!(module.trapped<<<1, 1, 0, fails>>>()) }.unwrap();
        while fails.capture_status().is_ok() {
            std::thread::yield_now();
        }
        // The driver ends no capture in such a context, and does not say whether it captures.
        drop((fails, module));
        drop(ctx);
        match DeviceBuffer::from_slice(&[1u32]) {
            Ok(buffer) => drop(buffer),
            Err(error) => assert!(!is_simulated() && error == CudaError::LaunchFailed, "{error}"),
        }
        drop(capturing);
    });
}

#[test]
fn a_stream_that_is_given_away_takes_its_capture_along() {
    run_alone(|| {
        let _ctx = pushed();
        for shared in [false, true] {
            let home = stream();
            let memory = shared.then(|| DeviceBuffer::from_slice_in(&[7u32; 4], &home).unwrap());
            home.synchronize().unwrap();
            unsafe { home.begin_capture(CaptureMode::Relaxed) }.unwrap();
            let mut raw = ptr::null_mut();
            let said = reported(|| raw = home.into_raw());
            assert!(said.is_empty(), "{said:?}");
            let mut back = unsafe { Stream::from_raw(raw) }.unwrap();
            assert_eq!(back.capture_status(), Ok(CaptureStatus::Active));
            assert_eq!(unsafe { back.end_capture() }.unwrap().nodes(), Ok(vec![]));
            drop(memory);
            is_free(&mut back);
        }
    });
}

#[test]
fn a_stream_that_is_given_away_while_memory_shares_it_does_not_keep_its_green_context() {
    start();
    let Ok(resource) = device().sm_resource() else {
        return skip(
            "a_stream_that_is_given_away_while_memory_shares_it",
            "the driver has no green contexts",
        );
    };
    run_alone(|| {
        let before = instrument::contexts_alive();
        let green = GreenContext::new(&resource).unwrap();
        ContextStack::push(green.primary()).unwrap();
        let home = green.create_stream(None).unwrap();
        let memory = DeviceBuffer::from_slice_in(&[7u32; 4], &home).unwrap();
        let raw = home.into_raw();
        drop(memory);
        assert_eq!(unsafe { (table().cuStreamDestroy_v2)(raw) }, 0);
        ContextStack::pop().unwrap();
        drop(green);
        wait_until_retired().unwrap();
        assert_eq!(instrument::contexts_alive(), before);
    });
}

#[test]
fn a_capture_of_a_closure_is_not_ended_by_hand() {
    run(|| {
        let ctx = pushed();
        let mut capturing = stream();
        let refused = |capture: &Capture<'_>| {
            let error = unsafe { capture.end_capture() }.unwrap_err();
            assert_eq!(error, CudaError::IllegalState);
            let said = crate::harness::said(error);
            assert!(said.contains("by hand") && said.contains("lost.rs"), "{said}");
            something(capture)
        };
        let mut graph = capturing.capture(CaptureMode::ThreadLocal, refused).unwrap();
        assert_eq!(graph.nodes().unwrap().len(), 1);
        let mut into = Graph::new(&ctx).unwrap();
        into.add_empty(&[]).unwrap();
        capturing.capture_into(&mut into, &[], CaptureMode::ThreadLocal, refused).unwrap();
        assert_eq!(into.nodes().unwrap().len(), 2);
        is_free(&mut capturing);
    });
}

#[test]
fn a_capture_that_is_given_away_with_its_stream_is_known_no_longer_and_another_still_is() {
    run_alone(|| {
        let (ctx, before) = (pushed(), instrument::contexts_alive());
        let (mut kept, given) = (stream(), stream());
        unsafe { kept.begin_capture(CaptureMode::Relaxed) }.unwrap();
        unsafe { given.begin_capture(CaptureMode::Relaxed) }.unwrap();
        let raw = given.into_raw();
        drop(unsafe { kept.end_capture() }.unwrap());
        is_free(&mut kept);
        let mut graph = ptr::null_mut();
        assert_eq!(unsafe { (table().cuStreamEndCapture)(raw, &mut graph) }, 0);
        assert_eq!(unsafe { (table().cuGraphDestroy)(graph) }, 0);
        assert_eq!(unsafe { (table().cuStreamDestroy_v2)(raw) }, 0);
        drop((kept, ctx));
        wait_until_retired().unwrap();
        assert_eq!(instrument::contexts_alive(), before - 1, "nothing keeps the context");
    });
}

#[test]
fn a_capture_whose_context_is_dropped_as_it_begins_does_not_begin() {
    run_alone(|| {
        let _below = pushed();
        for mode in MODES {
            let (ctx, alive) = (parked(), instrument::contexts_alive());
            let capturing = ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
            let drops = move || std::thread::spawn(move || drop(ctx)).join().unwrap();
            instrument::wait_in("cuStreamBeginCapture_v2", drops);
            let begun = unsafe { capturing.begin_capture(mode) };
            assert_eq!(begun, Err(CudaError::ContextIsDestroyed), "{mode:?}");
            nothing_is_forbidden();
            drop(capturing);
            wait_until_retired().unwrap();
            assert_eq!(instrument::contexts_alive(), alive - 1, "nothing keeps it");
        }
    });
}

#[test]
fn the_end_of_a_context_ends_no_capture_of_this_threads_stream_for_one_of_another_threads() {
    /// The handle that each thread's own stream of the current context has.
    const PER_THREAD: usize = 2;
    const RELAXED: u32 = 2;
    run_alone(|| {
        let _below = pushed();
        let ctx = parked();
        let (raw, kept) = (ctx.as_raw(), ctx.device_buffer(&[1u8]).unwrap());
        let (begun, wait) = std::sync::mpsc::channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let context = ctx.get_unowned();
            scope.spawn(move || {
                let here = PerThreadStream::of(&context);
                unsafe { here.begin_capture(CaptureMode::Relaxed) }.unwrap();
                begun.send(()).unwrap();
                let _ = ends.recv();
            });
            wait.recv().unwrap();
            other::push(raw);
            assert_eq!(unsafe { (table().cuStreamBeginCapture_v2)(PER_THREAD as _, RELAXED) }, 0);
            assert_eq!(other::pop(), Ok(raw));
            drop(ctx);
            wait_until_retired().unwrap();
            other::push(raw);
            let mut graph = ptr::null_mut();
            assert_eq!(unsafe { (table().cuStreamEndCapture)(PER_THREAD as _, &mut graph) }, 0);
            assert_eq!(unsafe { (table().cuGraphDestroy)(graph) }, 0);
            assert_eq!(other::pop(), Ok(raw));
            drop(end);
        });
        drop(kept);
    });
}
