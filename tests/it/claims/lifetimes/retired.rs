//! After one `wait_until_retired` nothing is left of what was dropped and is in use by no work.

use crate::future::{held, poll, stream};
use crate::harness::{is_simulated, parked, pushed, run_alone, within};
use custack::context::{Context, ContextStack, PrimaryContext, wait_until_retired};
use custack::driver::instrument::{self, When};
use custack::error::CudaResult;
use custack::future::InContextExt;
use custack::graph::{FillParams, Graph, InstantiateFlags};
use custack::memory::{DeviceBuffer, LockedBuffer};
use custack::sim;
use custack::stream::{CaptureMode, LegacyStream, Stream};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::Waker;
use std::time::Duration;

/// What there is in the process, on a GPU only the contexts.
fn left() -> (usize, usize, i64, i64) {
    let contexts = (instrument::contexts_alive(), instrument::primary_retains());
    if is_simulated() {
        (sim::objects(), sim::allocations(), contexts.0, contexts.1)
    } else {
        (0, 0, contexts.0, contexts.1)
    }
}

/// Does it many times. Each time a value is handed to it, and everything is gone after one wait.
fn leaves_nothing(does: impl Fn(Arc<()>) + Send + 'static) {
    within(100, || {
        run_alone(move || {
            // A GPU's driver takes a large part of a second for each context.
            for round in 0..if is_simulated() { 40 } else { 3 } {
                let (value, before) = (Arc::new(()), left());
                does(Arc::clone(&value));
                wait_until_retired().unwrap();
                assert_eq!((left(), Arc::strong_count(&value)), (before, 1), "in round {round}");
            }
        });
    });
}

/// Work that takes a while.
fn work(stream: &Stream) -> CudaResult<()> {
    stream.launch_host_func(|| std::thread::sleep(Duration::from_micros(300)))
}

#[test]
fn nothing_is_left_of_completions_that_are_dropped_whatever_was_done_with_them() {
    leaves_nothing(|value| {
        let ctx = pushed();
        for polls in 0..3 {
            let (stream, value) = (stream(), Arc::clone(&value));
            let mut one = stream.enqueue_async(|on| work(on).map(|()| value)).unwrap();
            match polls {
                0 => {}
                1 => _ = one.is_done(),
                _ => _ = poll(&mut one, Waker::noop()),
            }
            let more = stream.completion().unwrap();
            // In any order, and by another thread.
            drop(stream);
            std::thread::spawn(move || drop((one, more))).join().unwrap();
        }
        drop(ctx);
    });
}

#[test]
fn nothing_is_left_of_a_completion_whose_work_is_done_before_it_is_dropped() {
    leaves_nothing(|value| {
        let ctx = pushed();
        let stream = stream();
        let keeps = (value, LockedBuffer::new(&0u32, 10).unwrap(), DeviceBuffer::from_slice(&[1u8]).unwrap());
        let completion = stream.enqueue_async(|_| Ok(keeps)).unwrap();
        ctx.synchronize().unwrap();
        drop((completion, stream, ctx));
    });
}

#[test]
fn nothing_is_left_of_other_futures_that_are_dropped_while_they_wait() {
    leaves_nothing(|value| {
        let ctx = parked();
        let stream = ctx.scoped(|_| Ok(stream())).unwrap();
        let mut graph = Graph::new(&ctx).unwrap();
        let mut executable = graph.instantiate(InstantiateFlags::empty()).unwrap();
        work(&stream).unwrap();
        let mut synchronizing = stream.synchronize_async();
        let _ = poll(&mut synchronizing, Waker::noop());
        let launched = executable.launch_async(&stream).unwrap();
        let event = ctx.create_event(custack::event::EventFlags::DISABLE_TIMING).unwrap();
        event.record(&stream).unwrap();
        let reached = event.completion().unwrap();
        let on = &stream;
        let mut task = Box::pin(async move { on.enqueue_async(|_| Ok(value))?.await }.in_context(&ctx));
        let _ = poll(&mut task, Waker::noop());
        drop((synchronizing, launched, event, reached, task));
        drop((stream, executable, graph, ctx));
    });
}

#[test]
fn nothing_is_left_of_a_share_that_a_dropped_completion_keeps() {
    leaves_nothing(|value| {
        let primary = PrimaryContext::retain(crate::harness::device()).unwrap();
        let stream = primary.scoped(|_| Ok(stream())).unwrap();
        work(&stream).unwrap();
        drop((stream.enqueue_async(|_| Ok(value)).unwrap(), stream, primary));
    });
}

#[test]
fn nothing_is_left_of_what_a_callback_or_an_ending_thread_drops() {
    thread_local! {
        static AT_THE_END: RefCell<Vec<(Arc<()>, Stream, Context)>> = const { RefCell::new(Vec::new()) };
    }
    leaves_nothing(|value| {
        let ctx = pushed();
        let calling = stream();
        let (owned, other) = ((stream(), Arc::clone(&value)), parked());
        calling.add_callback(Box::new(move |_| drop((owned, other)))).unwrap();
        calling.synchronize().unwrap();
        let thread = std::thread::spawn(move || {
            let ctx = pushed();
            AT_THE_END.with_borrow_mut(|all| all.push((value, stream(), ctx)));
            ContextStack::pop().unwrap();
        });
        thread.join().unwrap();
        drop((calling, ctx));
    });
}

#[test]
fn nothing_is_left_of_memory_in_the_order_of_a_stream_that_goes_before_it() {
    leaves_nothing(|_| {
        let ctx = pushed();
        let (home, mut capturing) = (stream(), stream());
        let buffer = DeviceBuffer::from_slice_in(&[1u8; 64], &home).unwrap();
        let other = DeviceBuffer::from_slice_in(&[1u8; 64], &capturing).unwrap();
        drop(home);
        // Its free would become part of the capture.
        capturing
            .capture(CaptureMode::ThreadLocal, |_| {
                drop(other);
                Ok(())
            })
            .map(drop)
            .unwrap();
        drop((ctx, capturing, buffer));
    });
}

#[test]
fn nothing_is_left_of_a_context_whose_owner_went_while_another_thread_used_it() {
    leaves_nothing(|_| {
        let ctx = parked();
        let (handle, stream) = (ctx.get_unowned(), ctx.scoped(|_| Ok(stream())).unwrap());
        work(&stream).unwrap();
        let (begin, begun) = channel();
        let waiting = std::thread::spawn(move || {
            begin.send(()).unwrap();
            let _ = handle.synchronize();
        });
        begun.recv().unwrap();
        drop((ctx, stream));
        waiting.join().unwrap();
    });
}

#[test]
fn nothing_is_left_of_what_an_executable_kept_later_once_the_context_has_no_work() {
    leaves_nothing(|value| {
        let ctx = pushed();
        let stream = stream();
        let mut graph = Graph::new(&ctx).unwrap();
        let buffer = DeviceBuffer::from_slice(&[0u8; 16]).unwrap();
        let fill = FillParams::elements(buffer.as_ptr() as u64, 7, 1, 16);
        // SAFETY: the buffer is dropped after the last launch.
        let node = unsafe { graph.add_fill(&[], &fill, ()) }.unwrap();
        let mut executable = graph.instantiate(InstantiateFlags::empty()).unwrap();
        // SAFETY: the same buffer.
        unsafe { executable.set_fill(&mut graph, node, &fill, value) }.unwrap();
        work(&stream).unwrap();
        executable.launch(&stream).unwrap();
        drop((executable, graph));
        ctx.synchronize().unwrap();
        drop((buffer, stream, ctx));
    });
}

#[test]
fn the_wait_is_not_for_work_of_a_completion_that_somebody_has() {
    within(100, || {
        run_alone(|| {
            let _ctx = pushed();
            let (one, two) = (stream(), stream());
            let go = held(&one);
            let kept = one.completion().unwrap();
            drop(two.completion().unwrap());
            wait_until_retired().unwrap();
            assert!(!kept.is_done());
            wait_until_retired().unwrap();
            assert!(!kept.is_done());
            drop(go);
            kept.wait().unwrap();
        });
    });
}

#[test]
fn the_wait_ends_where_a_capture_or_the_driver_keeps_custack_from_learning_that_work_is_done() {
    within(100, || {
        run_alone(|| {
            let ctx = pushed();
            let legacy = LegacyStream::of(&ctx);
            let capturing = Stream::new(custack::stream::StreamFlags::DEFAULT, None).unwrap();
            let working = stream();
            let go = held(&working);
            drop(working.completion().unwrap());
            let end = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(5));
                drop(go);
            });
            wait_until_retired().unwrap();
            assert!(
                end.is_finished() || working.is_done().unwrap(),
                "the work of what was dropped is waited for"
            );
            end.join().unwrap();
            // Its end cannot be marked, nor asked about, before the capture is over.
            // SAFETY: nothing is captured, and the capture is ended below.
            let kept =
                legacy.enqueue_async(|_| unsafe { capturing.begin_capture(CaptureMode::Relaxed) }).unwrap();
            drop(kept);
            wait_until_retired().unwrap();
            // SAFETY: it was begun above.
            unsafe { capturing.end_capture() }.map(drop).unwrap();
            // The question is asked on this thread and refused.
            let go = held(&working);
            instrument::fail_times(Some("cuEventQuery"), 1, 3, 999, When::Before);
            let mut failing = working.completion().unwrap();
            assert!(poll(&mut failing, Waker::noop()).is_ready());
            instrument::disarm();
            drop(failing);
            wait_until_retired().unwrap();
            drop(go);
        });
    });
}
