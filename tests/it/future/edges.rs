//! Completions at the edges: owners that go in between, destructors and subscribers that wait, calls that fail.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{Calling, Counting, block_on, held, poll, stream};
use crate::harness::{OnReport, owned_by, parked, pushed, run_alone, within};
use custack::context::wait_until_retired;
use custack::driver::instrument::{self, When};
use custack::error::CudaError;
use custack::event::{Event, EventFlags};
use custack::future::Completion;
use custack::stream::{CaptureMode, LegacyStream, PerThreadStream, Stream, StreamFlags};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::{Duration, Instant};

/// Calls this when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        self.0();
    }
}

/// Runs alone, and fails if it hangs.
fn soon(test: impl FnOnce() + Send + 'static) {
    within(60, || run_alone(test));
}

#[test]
fn an_owner_that_goes_while_work_is_submitted_takes_nothing_along() {
    soon(|| {
        let ctx = parked();
        let working = ctx.scoped(|_| Ok(stream())).unwrap();
        let kept = Arc::new(());
        let value = Arc::clone(&kept);
        let go = held(&working);
        let submitted = working.enqueue_async(|_| {
            drop(ctx);
            Ok(value)
        });
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(Arc::strong_count(&kept), 2, "the work is not done");
        drop(go);
        assert_eq!(submitted.unwrap().wait().map(drop), Ok(()));
        owned_by(&kept, 1);
        drop(working);
    });
}

/// Submits work within the submission of other work, so deep.
fn nest(stream: &Stream, depth: usize, innermost: &mut dyn FnMut(), all: &mut Vec<Completion<usize>>) {
    let submitted = stream.enqueue_async(|stream| {
        if depth > 1 {
            nest(stream, depth - 1, innermost, all)
        } else {
            innermost()
        }
        Ok(depth)
    });
    all.push(submitted.unwrap());
}

#[test]
fn an_owner_that_goes_within_many_submissions_at_once_takes_none_along() {
    // More than a thread has places for.
    const DEPTH: usize = 12;
    soon(|| {
        let ctx = parked();
        let (working, before) = (ctx.scoped(|_| Ok(stream())).unwrap(), instrument::contexts_alive());
        let (mut owner, mut all) = (Some(ctx), Vec::new());
        let go = held(&working);
        let mut innermost = || {
            drop(owner.take());
            // Nothing of it waits for this thread.
            wait_until_retired().unwrap();
        };
        nest(&working, DEPTH, &mut innermost, &mut all);
        assert_eq!(instrument::contexts_alive(), before, "the work is not done");
        drop(go);
        for (at, submitted) in all.into_iter().enumerate() {
            assert_eq!(submitted.wait(), Ok(at + 1));
        }
        drop(working);
        let begun = Instant::now();
        while instrument::contexts_alive() == before && begun.elapsed().as_secs() < 20 {
            std::thread::yield_now();
        }
        assert_eq!(instrument::contexts_alive(), before - 1);
    });
}

#[test]
fn work_whose_end_could_not_be_marked_is_awaited_by_its_stream_and_others_do_not_wait_for_that() {
    soon(|| {
        let _ctx = pushed();
        let stream = stream();
        let kept = Arc::new(());
        let value = Arc::clone(&kept);
        let first = held(&stream);
        let begun = Instant::now();
        let unmarked = stream
            .enqueue_async(|_| {
                instrument::fail_times(Some("cuEventRecord"), 1, 20, 999, When::Before);
                Ok(value)
            })
            .unwrap();
        assert!(instrument::disarm(), "it was asked for once");
        assert!(begun.elapsed().as_secs() < 10, "the call does not wait");
        let marked = stream.completion().unwrap();
        let second = held(&stream);
        drop(first);
        marked.wait().unwrap();
        assert!(!unmarked.is_done(), "the stream has more work");
        assert_eq!(Arc::strong_count(&kept), 2);
        drop(second);
        assert_eq!(unmarked.wait().map(drop), Ok(()));
        owned_by(&kept, 1);
    });
}

#[test]
fn work_of_a_default_stream_whose_end_could_not_be_marked_is_waited_for() {
    soon(|| {
        let ctx = pushed();
        let (legacy, of_thread) = (LegacyStream::of(&ctx), PerThreadStream::of(&ctx));
        for stream in [&*legacy as &Stream, &*of_thread] {
            let kept = Arc::new(());
            let value = Arc::clone(&kept);
            let go = held(stream);
            let has_ended = Arc::new(AtomicBool::new(false));
            let ends = Arc::clone(&has_ended);
            let ending = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(50));
                ends.store(true, Ordering::SeqCst);
                drop(go);
            });
            let unmarked = stream.enqueue_async(|_| {
                instrument::fail(Some("cuEventRecord"), 1, 999, When::Before);
                Ok(value)
            });
            assert!(has_ended.load(Ordering::SeqCst), "the call did not wait for the work");
            ending.join().unwrap();
            let unmarked = unmarked.unwrap();
            assert!(unmarked.is_done());
            assert_eq!(unmarked.wait().map(drop), Ok(()));
            owned_by(&kept, 1);
        }
    });
}

#[test]
fn what_a_default_streams_work_uses_is_never_freed_if_the_driver_tells_nothing_at_all() {
    soon(|| {
        let ctx = pushed();
        let (legacy, of_thread) = (LegacyStream::of(&ctx), PerThreadStream::of(&ctx));
        for stream in [&*legacy as &Stream, &*of_thread] {
            let kept = Arc::new(());
            let value = Arc::clone(&kept);
            let go = held(stream);
            let unmarked = stream.enqueue_async(|_| {
                instrument::fail_times(None, 1, 100, 999, When::Before);
                Ok(value)
            });
            assert!(instrument::disarm());
            assert_eq!(unmarked.map(drop), Err(CudaError::UnknownError));
            drop(go);
            stream.completion().unwrap().wait().unwrap();
            assert_eq!(Arc::strong_count(&kept), 2, "it is unknown when the work is done");
        }
    });
}

#[test]
fn queries_that_fail_repeatedly_free_nothing_early_and_delay_no_other_work() {
    soon(|| {
        let _ctx = pushed();
        let (first, second) = (stream(), stream());
        let kept = Arc::new(());
        // A driver may call one host function at a time, so the first to end comes first.
        let begin = held(&first);
        let (value, go) = (Arc::clone(&kept), held(&second));
        let mut failing = second.enqueue_async(|_| Ok(value)).unwrap();
        assert!(poll(&mut failing, Waker::noop()).is_pending());
        let mut one = first.completion().unwrap();
        // Wakers run on the thread that asks, where the fault is armed.
        let arm = Calling::waker(|| {
            instrument::fail_times(Some("cuEventQuery"), 1, 5, 999, When::Before);
        });
        assert!(poll(&mut one, &arm).is_pending());
        drop(begin);
        assert_eq!(failing.wait().map(drop), Err(CudaError::UnknownError));
        wait_until_retired().unwrap();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(Arc::strong_count(&kept), 2, "the work is not done");
        first.completion().unwrap().wait().unwrap();
        drop(go);
        owned_by(&kept, 1);
    });
}

#[test]
fn a_destructor_of_a_value_may_wait_for_other_completions() {
    soon(|| {
        let ctx = parked();
        let (one, two) = ctx.scoped(|_| Ok((stream(), stream()))).unwrap();
        let (go, (tell, told)) = (held(&one), channel());
        let value = OnDrop(move || tell.send(two.completion().and_then(|two| two.wait())).unwrap());
        drop(one.enqueue_async(|_| Ok(value)).unwrap());
        drop(go);
        assert_eq!(told.recv(), Ok(Ok(())), "driver calls are allowed there");
        one.completion().unwrap().wait().unwrap();
    });
}

#[test]
fn waiting_on_the_thread_of_an_executor_takes_no_wake_up_from_it() {
    soon(|| {
        let _ctx = pushed();
        let (one, two) = (stream(), stream());
        let (first, second) = (held(&one), held(&two));
        let release = std::thread::spawn(move || {
            for held in [first, second] {
                std::thread::sleep(Duration::from_millis(30));
                drop(held);
            }
        });
        let (mut one, mut two) = (one.completion().unwrap(), Some(two.completion().unwrap()));
        let both = poll_fn(|cx| {
            let polled = poll(&mut one, cx.waker());
            if let Some(two) = two.take() {
                two.wait().unwrap();
            }
            polled
        });
        assert_eq!(block_on(both), Ok(()));
        release.join().unwrap();
    });
}

#[test]
fn a_waker_that_polls_a_spinning_completion_does_not_spin() {
    soon(|| {
        let _ctx = pushed();
        let (one, two, three) = (stream(), stream(), stream());
        let (go, forever) = (held(&one), held(&two));
        let mut spinning = two.completion().unwrap().spinning_for(Duration::MAX);
        let after = two.completion().unwrap();
        let (_, waker) = Counting::waker();
        let polls = Calling::waker(move || assert!(poll(&mut spinning, &waker).is_pending()));
        let mut first = one.completion().unwrap();
        assert!(poll(&mut first, &polls).is_pending());
        drop(go);
        first.wait().unwrap();
        three.completion().unwrap().wait().unwrap();
        drop(forever);
        after.wait().unwrap();
    });
}

#[test]
fn a_waker_that_drops_a_value_and_panics_while_the_values_destructor_panics_ends_nothing() {
    soon(|| {
        let _ctx = pushed();
        let (one, two) = (stream(), stream());
        let go = [held(&one), held(&two)];
        let value = OnDrop(|| panic!("by a value"));
        let mut first = one.enqueue_async(|_| Ok(value)).unwrap();
        let other = two.completion().unwrap();
        let own = Arc::new(Mutex::new(None));
        let dropped = Arc::clone(&own);
        let waker = Calling::waker(move || {
            drop(dropped.lock().unwrap().take());
            panic!("by a waker");
        });
        assert!(poll(&mut first, &waker).is_pending());
        *own.lock().unwrap() = Some(first);
        drop(go);
        other.wait().unwrap();
        wait_until_retired().unwrap();
        two.completion().unwrap().wait().unwrap();
    });
}

#[cfg(feature = "tracing")]
#[test]
fn a_subscriber_that_waits_for_completions_stops_none() {
    crate::driver::process::child_succeeds("completion in a report", &[]);
}

/// What the test above runs in a process of its own, for a subscriber of all threads.
pub(crate) fn in_a_report() {
    soon(|| {
        let _ctx = pushed();
        let (one, two) = (stream(), Arc::new(Mutex::new(stream())));
        let (tell, told) = channel();
        let tell = Mutex::new(tell);
        let reported = move |_: &tracing::Event<'_>| {
            let waited = two.lock().unwrap().completion().and_then(|two| two.wait());
            let _ = tell.lock().unwrap().send(waited);
        };
        tracing::subscriber::set_global_default(OnReport(reported)).unwrap();
        let go = held(&one);
        let mut completion = one.completion().unwrap();
        assert!(poll(&mut completion, &Calling::waker(|| panic!("by a waker"))).is_pending());
        drop(go);
        assert_eq!(told.recv(), Ok(Err(CudaError::NotPermitted)));
        one.completion().unwrap().wait().unwrap();
    });
}

#[cfg(feature = "graph")]
#[test]
fn work_in_the_legacy_stream_breaks_no_capture_that_begins_at_the_same_time() {
    soon(|| {
        let ctx = parked();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut capturing = ctx.create_stream(StreamFlags::DEFAULT, None).unwrap();
                let begun = Instant::now();
                let mut result = Ok(());
                while begun.elapsed().as_secs() < 2 && result.is_ok() {
                    result = capturing.capture(CaptureMode::Relaxed, |c| c.launch_host_func(|| ())).map(drop);
                }
                stop.store(true, Ordering::SeqCst);
                assert_eq!(result, Ok(()));
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    let legacy = LegacyStream::of(&ctx);
                    let event = ctx.create_event(EventFlags::DISABLE_TIMING).unwrap();
                    let refused = |error| {
                        let is_refused =
                            [CudaError::StreamCaptureImplicit, CudaError::StreamCaptureUnsupported];
                        assert!(is_refused.contains(&error), "{error}");
                    };
                    while !stop.load(Ordering::SeqCst) {
                        let _ = legacy.completion().map_err(refused);
                        let _ = event.record(&legacy).map_err(refused);
                    }
                });
            }
        });
    });
}

#[test]
fn many_waiting_streams_are_looked_at_less_often_each() {
    soon(|| {
        let _ctx = pushed();
        let streams: Vec<Stream> = (0..300).map(|_| stream()).collect();
        let (gate, opener) = (stream(), Event::new(EventFlags::DISABLE_TIMING).unwrap());
        let go = held(&gate);
        opener.record(&gate).unwrap();
        let mut all: Vec<_> = streams
            .iter()
            .map(|one| {
                one.wait_event(&opener, custack::stream::StreamWaitEventFlags::DEFAULT).unwrap();
                one.completion().unwrap()
            })
            .collect();
        assert!(all.iter_mut().all(|one| poll(one, Waker::noop()).is_pending()));
        std::thread::sleep(Duration::from_millis(50));
        let ((), calls) =
            instrument::during_on_all_threads(|| std::thread::sleep(Duration::from_millis(100)));
        let looks = calls.of("cuEventQuery");
        assert!((30..7_000).contains(&looks), "32 streams in a millisecond, and some more: {calls}");
        drop(go);
        let done = AtomicUsize::new(0);
        for one in all {
            one.wait().unwrap();
            done.fetch_add(1, Ordering::Relaxed);
        }
        assert_eq!(done.into_inner(), 300);
    });
}
