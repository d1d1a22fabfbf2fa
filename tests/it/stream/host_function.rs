//! Functions that a stream calls once, and what becomes of them when it does not.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::stream;
use crate::harness::{is_simulated, parked, pushed, run, run_alone};
use custack::context::{Context, CurrentContext, PrimaryContext, wait_until_retired};
use custack::driver::instrument::{self, When};
use custack::error::CudaError;
use custack::launch;
use custack::memory::DeviceBuffer;
use custack::stream::{Stream, StreamFlags};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

thread_local! {
    /// What a function that a driver call ran has left.
    static LEFT: Cell<Option<(Option<Context>, Stream)>> = const { Cell::new(None) };
}

#[test]
fn host_functions_run_once_in_their_order() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let seen = Arc::new(Mutex::new(Vec::new()));
        for number in 0..20 {
            let seen = Arc::clone(&seen);
            stream.launch_host_func(move || seen.lock().unwrap().push(number)).unwrap();
        }
        stream.synchronize().unwrap();
        assert_eq!(*seen.lock().unwrap(), (0..20).collect::<Vec<_>>());
        assert_eq!(Arc::strong_count(&seen), 1, "each is dropped when it was called");
    });
}

#[test]
fn a_host_function_costs_a_question_and_the_call() {
    run(|| {
        let (ctx, _other) = (parked(), pushed());
        let stream = ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let (result, calls) = instrument::during(|| stream.launch_host_func(|| {}));
        assert_eq!(result, Ok(()));
        assert_eq!(calls.to_string(), "cuLaunchHostFunc, cuStreamIsCapturing");
        stream.synchronize().unwrap();
    });
}

#[test]
fn in_a_host_function_every_call_is_refused_and_what_it_drops_is_destroyed_soon_after() {
    run_alone(|| {
        let (ctx, other) = (pushed(), parked());
        let (stream, last) = (stream(), stream());
        let buffer = DeviceBuffer::from_slice(&[1u8]).unwrap();
        let (tell, told) = channel();
        let handle = ctx.get_unowned();
        let all_of_it = move || {
            let answers = (CurrentContext::synchronize(), handle.synchronize(), last.launch_host_func(|| {}));
            drop((last, buffer, other));
            tell.send(answers).unwrap();
        };
        stream.launch_host_func(all_of_it).unwrap();
        let refused = Err(CudaError::NotPermitted);
        assert_eq!(told.recv().unwrap(), (refused, refused, refused));
        stream.synchronize().unwrap();
        wait_until_retired().unwrap();
    });
}

#[test]
fn a_panic_in_a_host_function_goes_no_further() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        stream.launch_host_func(|| panic!("on purpose, in a host function")).unwrap();
        let (tell, told) = channel();
        stream.launch_host_func(move || tell.send(()).unwrap()).unwrap();
        told.recv().unwrap();
        stream.synchronize().unwrap();
    });
}

#[test]
fn a_refused_host_function_is_dropped_once_and_never_called() {
    run(|| {
        let ctx = pushed();
        let stream = stream();
        let (go, wait) = channel::<()>();
        stream.launch_host_func(move || wait.recv().unwrap()).unwrap();
        let held = Arc::new(AtomicUsize::new(0));
        for function in ["cuStreamIsCapturing", "cuLaunchHostFunc"] {
            for when in [When::Before, When::After] {
                let captured = Arc::clone(&held);
                instrument::fail(Some(function), 1, 719, when);
                let call = move || {
                    captured.fetch_add(1, Ordering::SeqCst);
                };
                assert_eq!(stream.launch_host_func(call), Err(CudaError::LaunchFailed));
                assert_eq!(Arc::strong_count(&held), 1, "{function} {when:?}: it is dropped at once");
            }
        }
        go.send(()).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(held.load(Ordering::SeqCst), 0);
        drop(ctx);
        let captured = Arc::clone(&held);
        assert_eq!(stream.launch_host_func(move || drop(captured)), Err(CudaError::ContextIsDestroyed));
        assert_eq!(Arc::strong_count(&held), 1);
    });
}

#[test]
fn destroying_a_context_waits_for_its_host_functions() {
    run(|| {
        let ctx = pushed();
        let stream = stream();
        let done = Arc::new(AtomicUsize::new(0));
        for _ in 0..3 {
            let count = Arc::clone(&done);
            let slowly = move || {
                std::thread::sleep(Duration::from_millis(10));
                count.fetch_add(1, Ordering::SeqCst);
            };
            stream.launch_host_func(slowly).unwrap();
        }
        Context::drop(ctx).unwrap();
        assert_eq!((done.load(Ordering::SeqCst), Arc::strong_count(&done)), (3, 1));
    });
}

#[test]
fn a_host_function_of_a_primary_context_that_others_keep_is_called() {
    run_alone(|| {
        let ours = PrimaryContext::retain(crate::harness::device()).unwrap();
        let mut raw = std::ptr::null_mut();
        let table = crate::harness::table();
        assert_eq!(unsafe { (table.cuDevicePrimaryCtxRetain)(&mut raw, 0) }, 0);
        let stream = ours.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let (go, wait) = channel::<()>();
        let (tell, told) = channel();
        stream
            .launch_host_func(move || {
                wait.recv().unwrap();
                tell.send(()).unwrap();
            })
            .unwrap();
        let (tell, told_second) = channel();
        stream.launch_host_func(move || tell.send(()).unwrap()).unwrap();
        drop(ours);
        go.send(()).unwrap();
        told.recv().unwrap();
        told_second.recv().unwrap();
        drop(stream);
        assert_eq!(unsafe { (table.cuDevicePrimaryCtxRelease_v2)(0) }, 0);
    });
}

#[test]
fn host_functions_in_a_failed_context_are_dropped_with_it() {
    // On a GPU such an error takes the process with it: a process of its own.
    crate::driver::process::child_succeeds("host functions in error", &[]);
}

/// What the test above runs in a process of its own.
pub(crate) fn in_error() {
    run_alone(|| {
        // Last with memory of an earlier life of the primary context, which goes after the latest one.
        for (primary, earlier) in [(false, false), (true, false), (true, true)] {
            let retain = || PrimaryContext::retain(crate::harness::device()).unwrap();
            let memory = earlier.then(|| retain().device_buffer(&[1u8]).unwrap());
            let (created, retained) = ((!primary).then(parked), primary.then(retain));
            let owner = created.as_ref().map(Context::get_unowned);
            let ctx = owner.or_else(|| retained.as_ref().map(|shared| shared.get_unowned())).unwrap();
            let module = ctx.load_module(crate::module::KERNELS.as_bytes()).unwrap();
            let stream = ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
            let (called, told) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
            unsafe { launch!(module.trapped<<<1, 1, 0, stream>>>()) }.unwrap();
            for _ in 0..3 {
                let count = Arc::clone(&called);
                // The driver may know of the error by now, or not.
                let _ = stream.launch_host_func(move || {
                    count.fetch_add(1, Ordering::SeqCst);
                });
            }
            let tell = Arc::clone(&told);
            let _ = stream.add_callback(Box::new(move |status| tell.lock().unwrap().push(status)));
            assert_eq!(stream.synchronize(), Err(CudaError::LaunchFailed));
            let late = Arc::clone(&called);
            assert!(stream.launch_host_func(move || drop(late)).is_err());
            drop((stream, module));
            drop((created, retained));
            drop(memory);
            wait_until_retired().unwrap();
            assert!(!ctx.is_alive());
            assert_eq!(
                (called.load(Ordering::SeqCst), Arc::strong_count(&called)),
                (0, 1),
                "primary: {primary}, with memory of an earlier life: {earlier}"
            );
            assert!(told.lock().unwrap().iter().all(|status| *status == Err(CudaError::LaunchFailed)));
            if !is_simulated() {
                return; // no context can be made any more
            }
        }
    });
}

#[cfg(feature = "graph")]
#[test]
fn custack_holds_no_lock_while_a_host_function_waits_for_one_of_the_program() {
    use custack::event::{Event, EventFlags};
    use custack::graph::{Graph, InstantiateFlags};
    use custack::stream::CaptureMode;
    crate::harness::within(60, || {
        run(|| {
            let ctx = pushed();
            let stream = stream();
            let of_program = Arc::new(Mutex::new(0));
            let (for_function, for_callback) = (Arc::clone(&of_program), Arc::clone(&of_program));
            let held = of_program.lock().unwrap();
            let (tell, told) = channel();
            stream
                .launch_host_func(move || {
                    tell.send(()).unwrap();
                    *for_function.lock().unwrap() += 1;
                })
                .unwrap();
            // It is being called now, and waits for what this thread has.
            told.recv().unwrap();
            let calls = || {
                let (mut other, event) = (super::stream(), Event::new(EventFlags::DEFAULT).unwrap());
                event.record(&other).unwrap();
                other.wait_event(&event, custack::stream::StreamWaitEventFlags::DEFAULT).unwrap();
                event.query().unwrap();
                other.is_done().unwrap();
                assert_eq!(stream.is_done(), Ok(false));
                stream.launch_host_func(|| {}).unwrap();
                other.fork([&stream]).unwrap();
                drop(unsafe { DeviceBuffer::<u8>::uninitialized_in(4096, &other) }.unwrap());
                let mut graph = Graph::new(&ctx).unwrap();
                graph.add_host_func(&[], || {}).unwrap();
                drop(graph.instantiate(InstantiateFlags::empty()).unwrap());
                other.capture(CaptureMode::Relaxed, |capture| capture.launch_host_func(|| {})).unwrap();
                ctx.scoped(|current| current.stream_priority_range().map(drop)).unwrap();
            };
            calls();
            std::thread::scope(|scope| {
                let current = || {
                    let _current = ctx.enter().unwrap();
                    calls();
                };
                scope.spawn(current).join().unwrap();
            });
            stream.add_callback(Box::new(move |_| *for_callback.lock().unwrap() += 10)).unwrap();
            drop(held);
            stream.synchronize().unwrap();
            assert_eq!(*of_program.lock().unwrap(), 11);
        });
    });
}

#[test]
fn the_end_of_a_context_drops_no_host_function_of_another_even_if_that_is_about_to_end() {
    if !is_simulated() {
        let test = "the_end_of_a_context_drops_no_host_function_of_another";
        return crate::harness::skip(test, "the NVIDIA driver may block in the call that launches");
    }
    run_alone(|| {
        for ends in [false, true] {
            let (other, ctx) = (parked(), parked());
            let stream = other.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
            let kept = other.scoped(|_| DeviceBuffer::from_slice(&[1u8])).unwrap();
            let (release, released) = channel();
            let called = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&called);
            // The driver destroys a context when all work is done, so this work begins later.
            instrument::wait_in("cuCtxPopCurrent_v2", move || {
                let submit = move || {
                    stream.launch_host_func(move || released.recv().unwrap()).unwrap();
                    stream
                        .launch_host_func(move || assert_eq!(count.fetch_add(1, Ordering::SeqCst), 0))
                        .unwrap();
                    ((!ends).then_some(other), stream)
                };
                let left = std::thread::spawn(submit).join().unwrap();
                LEFT.set(Some(left));
            });
            drop(ctx);
            release.send(()).unwrap();
            LEFT.take();
            drop(kept);
            wait_until_retired().unwrap();
            assert_eq!((called.load(Ordering::SeqCst), Arc::strong_count(&called)), (1, 1), "ends: {ends}");
        }
    });
}
