//! Completions whose work fails, whose futures go early, whose context goes, and driver calls that fail.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{Calling, Counting, held, poll, stream};
use crate::harness::{is_simulated, owned_by, parked, pushed, run, run_alone, within};
use custack::context::{ContextStack, PrimaryContext, wait_until_retired};
use custack::driver::instrument::{self, When};
use custack::error::{CudaError, CudaResult};
use custack::event::{Event, EventFlags};
use custack::future::Completion;
use custack::launch;
use custack::sim;
use custack::stream::{Stream, StreamFlags};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::Poll;
use std::time::{Duration, Instant};

#[test]
fn what_the_work_uses_is_kept_whatever_becomes_of_the_future() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let kept = Arc::new(());
        for forget in [false, true] {
            let go = held(&stream);
            let value = Arc::clone(&kept);
            let mut completion = stream.enqueue_async(|_| Ok(value)).unwrap();
            let (woken, waker) = Counting::waker();
            assert!(poll(&mut completion, &waker).is_pending());
            if forget {
                std::mem::forget(completion);
            } else {
                drop(completion);
                drop(waker);
                owned_by(&woken, 1);
            }
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(Arc::strong_count(&kept), 2, "the work is not done");
            drop(go);
            if forget {
                woken.reaches(1);
                // The forgotten future has it, as any forgotten owner would.
                assert_eq!(Arc::strong_count(&kept), 2);
            } else {
                owned_by(&kept, 1);
                assert_eq!(woken.count(), 0);
            }
        }
    });
}

#[test]
fn a_context_stays_at_the_driver_until_what_is_awaited_in_it_is_done() {
    within(60, || {
        run_alone(|| {
            let before = instrument::contexts_alive();
            let ctx = parked();
            let working = ctx.scoped(|_| Ok(stream())).unwrap();
            let kept = Arc::new(());
            let value = Arc::clone(&kept);
            let go = held(&working);
            let completion = working.enqueue_async(|_| Ok(value)).unwrap();
            drop((working, ctx));
            assert_eq!((instrument::contexts_alive(), Arc::strong_count(&kept)), (before + 1, 2));
            drop(go);
            assert_eq!(completion.wait().map(drop), Ok(()), "the work did not fail");
            owned_by(&kept, 1);
            let begun = Instant::now();
            while instrument::contexts_alive() != before {
                wait_until_retired().unwrap();
                assert!(begun.elapsed().as_secs() < 10, "the context is left");
            }
        });
    });
}

#[test]
fn errors_of_work_arrive_although_the_driver_makes_no_callback() {
    crate::driver::process::child_succeeds("completion in error", &[]);
}

/// What the test above runs in a process of its own, because on a GPU such an error takes the process with it.
pub(crate) fn in_error() {
    run_alone(|| {
        let ctx = pushed();
        let (working, other) = (stream(), stream());
        let module = ctx.load_module(crate::module::KERNELS.as_bytes()).unwrap();
        // Else the launch would load it, which may wait for all work of the context, and so for this thread.
        module.get_function(c"trapped").unwrap().load().unwrap();
        let kept = Arc::new(());
        let value = Arc::clone(&kept);
        let go = held(&other);
        let elsewhere = other.completion().unwrap();
        let failing = working
            .enqueue_async(|stream| {
                unsafe { launch!(module.trapped<<<1, 1, 0, stream>>>()) }?;
                Ok(value)
            })
            .unwrap();
        assert_eq!(failing.wait().map(drop), Err(CudaError::LaunchFailed));
        owned_by(&kept, 1);
        drop(go);
        assert_eq!(elsewhere.wait(), Err(CudaError::LaunchFailed), "the whole context is in error");
        // Later ones fail at the call or when they are awaited.
        assert_eq!(working.completion().and_then(|one| one.wait()), Err(CudaError::LaunchFailed));
        drop((module, working, other));
        drop(ctx);
    });
}

#[test]
fn a_context_that_other_code_destroys_ends_the_waiting() {
    if !is_simulated() {
        return crate::harness::skip(
            "a_context_that_other_code_destroys_ends_the_waiting",
            "the NVIDIA driver would crash when what was in the context is used",
        );
    }
    run_alone(|| {
        let device = crate::harness::device();
        let primary = PrimaryContext::retain(device).unwrap();
        let working = primary.scoped(|_| Ok(stream())).unwrap();
        let kept = Arc::new(());
        let value = Arc::clone(&kept);
        let go = held(&working);
        let completion = working.enqueue_async(|_| Ok(value)).unwrap();
        let (sender, resetting) = channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // Waits for the work.
                let reset = unsafe { (crate::harness::table().cuDevicePrimaryCtxReset_v2)(0) };
                sender.send(reset).unwrap();
            });
            std::thread::sleep(Duration::from_millis(20));
            drop(go);
            assert_eq!(resetting.recv(), Ok(0));
        });
        let result = completion.wait().map(drop);
        assert!(
            matches!(result, Ok(()) | Err(CudaError::ContextIsDestroyed | CudaError::InvalidHandle)),
            "{result:?}"
        );
        owned_by(&kept, 1);
        drop(working);
        drop(primary);
    });
}

#[test]
fn whichever_call_of_a_submission_fails_nothing_is_lost() {
    run_alone(|| {
        let _ctx = pushed();
        for function in ["cuEventCreate", "cuEventRecord", "cuStreamIsCapturing", "cuCtxGetCurrent"] {
            for (nth, when) in [(1, When::Before), (1, When::After), (2, When::Before), (2, When::After)] {
                let (kept, objects) = (Arc::new(()), if is_simulated() { sim::objects() } else { 0 });
                // A stream keeps the events that it has used.
                let stream = stream();
                let value = Arc::clone(&kept);
                instrument::fail(Some(function), nth, 999, when);
                let mut called = false;
                let submitted = stream.enqueue_async(|_| {
                    called = true;
                    Ok(value)
                });
                let is_armed = instrument::disarm();
                match submitted {
                    Ok(completion) => assert_eq!(completion.wait().map(drop), Ok(()), "{function} {nth}"),
                    Err(error) => {
                        assert_eq!((error, called), (CudaError::UnknownError, false), "{function} {nth}");
                        assert!(!is_armed);
                    }
                }
                owned_by(&kept, 1);
                drop(stream);
                let begun = Instant::now();
                while is_simulated() && sim::objects() > objects {
                    wait_until_retired().unwrap();
                    assert!(begun.elapsed().as_secs() < 10, "{function} {nth} {when:?}: an event is left");
                }
            }
        }
    });
}

/// A way to make a completion.
type Operation<'a> = &'a dyn Fn(&Stream, Arc<()>) -> CudaResult<Completion<Arc<()>>>;

/// The others give no value, so this one goes with them.
fn with(kept: Arc<()>, stream: &Stream, awaited: CudaResult<Completion>) -> CudaResult<Completion<Arc<()>>> {
    awaited?.wait()?;
    stream.enqueue_async(|_| Ok(kept))
}

#[test]
fn any_driver_call_may_fail_with_any_code_before_or_after_its_work() {
    run_alone(|| {
        let ctx = pushed();
        let other = ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let event = Event::new(EventFlags::DISABLE_TIMING).unwrap();
        event.record(&other).unwrap();
        let operations: [(&str, Operation<'_>); 3] = [
            ("enqueue", &|stream, kept| stream.enqueue_async(|_| Ok(kept))),
            ("completion", &|stream, kept| with(kept, stream, stream.completion())),
            ("event", &|stream, kept| with(kept, stream, event.completion())),
        ];
        let objects = || if is_simulated() { sim::objects() } else { 0 };
        for (name, operation) in operations {
            // A stream that the driver fails to destroy may be destroyed, so that is not tried again.
            let spent = if name == "event" && is_simulated() { 7 } else { 0 };
            let before = objects() + spent;
            let stream = stream();
            for code in [1, 2, 201, 709, 719, 999, 4711] {
                for (nth, when) in (1..=14).flat_map(|nth| [(nth, When::Before), (nth, When::After)]) {
                    let kept = Arc::new(());
                    instrument::fail(None, nth, code, when);
                    let awaited = operation(&stream, Arc::clone(&kept));
                    instrument::disarm();
                    let result = awaited.and_then(|completion| completion.wait().map(drop));
                    let expected = CudaError::from_code(code).unwrap();
                    assert!(
                        matches!(result, Ok(()) | Err(CudaError::ContextIsDestroyed))
                            || result == Err(expected),
                        "{name}, {code} at {nth} {when:?}: {result:?}"
                    );
                    owned_by(&kept, 1);
                    assert_eq!(operation(&stream, kept).unwrap().wait().map(drop), Ok(()), "{name}");
                    assert_eq!(ContextStack::depth(), 1);
                }
            }
            // It keeps events that have marked the end of work, two if both were awaited at once.
            drop(stream);
            let begun = Instant::now();
            while objects() > before {
                wait_until_retired().unwrap();
                assert!(begun.elapsed().as_secs() < 10, "{name}: {} are left, of {before}", objects());
            }
        }
    });
}

#[test]
fn a_question_that_fails_is_the_outcome_and_the_value_is_kept_until_the_work_is_done() {
    run_alone(|| {
        let _ctx = pushed();
        let (first, second) = (stream(), stream());
        let kept = Arc::new(());
        // A driver may call one host function at a time, so the first to end comes first.
        let begin = held(&first);
        let (value, go) = (Arc::clone(&kept), held(&second));
        let mut failing = second.enqueue_async(|_| Ok(value)).unwrap();
        let mut one = first.completion().unwrap();
        // Wakers run on the thread that looks at the events, where the fault is armed.
        let (tell, told) = channel();
        let arm = Calling::waker(move || {
            instrument::fail(Some("cuEventQuery"), 1, 999, When::Before);
            tell.send(()).unwrap();
        });
        let (woken, waker) = Counting::waker();
        assert!(poll(&mut failing, &waker).is_pending());
        assert!(poll(&mut one, &arm).is_pending());
        drop(begin);
        told.recv().unwrap();
        woken.reaches(1);
        assert_eq!(
            poll(&mut failing, &waker).map(|result| result.map(drop)),
            Poll::Ready(Err(CudaError::UnknownError))
        );
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(Arc::strong_count(&kept), 2, "the work is not done");
        drop(go);
        owned_by(&kept, 1);
    });
}

#[test]
fn a_stream_that_is_dropped_first_is_awaited_all_the_same() {
    run(|| {
        let _ctx = pushed();
        let working = stream();
        let go = held(&working);
        let completion = working.completion().unwrap();
        drop(working);
        // Others may get the address of its handle.
        let others: Vec<_> = (0..8).map(|_| stream()).collect();
        others.iter().for_each(|other| other.completion().unwrap().wait().unwrap());
        assert!(!completion.is_done());
        drop(go);
        assert_eq!(completion.wait(), Ok(()));
    });
}
