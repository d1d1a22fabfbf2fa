//! What other threads do with what a capture has, in the moment in which it is ended. The NVIDIA driver crashes at such a
//! call, and so the simulated one counts it as a misuse.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "the memory lives until the end of the test")]

use crate::harness::{device, pushed, run_alone, times};
use custack::context::{ContextHandle, CurrentContext, PrimaryContext};
use custack::error::{CudaError, CudaResult};
use custack::event::{Event, EventFlags};
use custack::graph::{Graph, InstantiateFlags};
use custack::memory::*;
use custack::stream::{
    CaptureMode, LegacyStream, Stream, StreamFlags, StreamWaitEventFlags, ThreadCaptureMode,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

const WAIT: StreamWaitEventFlags = StreamWaitEventFlags::DEFAULT;

pub(super) fn event() -> Event {
    Event::new(EventFlags::DISABLE_TIMING).unwrap()
}

/// Captures again and again into which `joined` is taken, while another thread makes the call in each mode of its own.
pub(super) fn beside_captures(flags: StreamFlags, joined: &Stream, forks: &Event, call: &(dyn Fn() + Sync)) {
    let context = CurrentContext::get_current().unwrap();
    let mut origin = Stream::new(flags, None).unwrap();
    let joins = event();
    for theirs in [CaptureMode::Relaxed, CaptureMode::Global] {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let _here = context.enter().unwrap();
                let _mode = ThreadCaptureMode::exchange(theirs).unwrap();
                while !over.load(Ordering::SeqCst) {
                    call();
                }
            });
            for round in 0..times(2, 12) {
                // Short ones: a call may find no capture before it, and be made at the end.
                for _ in 0..8 {
                    let _ = origin.capture(CaptureMode::Relaxed, |_| Ok(()));
                }
                // The other thread's calls break some of these.
                let _ = origin.capture(CaptureMode::Relaxed, |capture| {
                    forks.record(capture)?;
                    joined.wait_event(forks, WAIT)?;
                    if round % 2 == 0 {
                        joins.record(joined)?;
                        capture.wait_event(&joins, WAIT)?;
                    }
                    Ok(())
                });
            }
            over.store(true, Ordering::SeqCst);
        });
    }
}

pub(super) fn in_both_kinds_of_streams(test: impl Fn(StreamFlags, &Stream, &Arc<Event>) + Send + Sync) {
    run_alone(|| {
        let _ctx = pushed();
        for flags in [StreamFlags::NON_BLOCKING, StreamFlags::DEFAULT] {
            test(flags, &Stream::new(flags, None).unwrap(), &Arc::new(event()));
        }
    });
}

/// Each call alone, because an earlier one may wait for the end of the capture.
fn beside_each(flags: StreamFlags, stream: &Stream, forks: &Event, calls: &[&(dyn Fn() + Sync)]) {
    calls.iter().for_each(|call| beside_captures(flags, stream, forks, call));
}

/// The answer is not looked at: nearly all of these calls may be refused.
pub(super) fn whatever<T>(_: CudaResult<T>) {}

#[test]
fn no_call_on_a_stream_meets_the_end_of_its_capture() {
    in_both_kinds_of_streams(|flags, stream, forks| {
        let (own, other) = (event(), Stream::new(flags, None).unwrap());
        let nothing = Graph::new(&CurrentContext::get_current().unwrap())
            .unwrap()
            .instantiate(InstantiateFlags::empty())
            .unwrap();
        let nothing = Mutex::new(nothing);
        beside_each(
            flags,
            stream,
            forks,
            &[
                &|| whatever(stream.synchronize()),
                &|| whatever(stream.is_done()),
                &|| whatever(stream.get_flags()),
                &|| whatever(stream.id()),
                &|| whatever(stream.synchronization_policy()),
                &|| whatever(stream.set_priority(0)),
                &|| whatever(stream.copy_attributes(&other)),
                &|| whatever(other.copy_attributes(stream)),
                &|| whatever(stream.capture_status().and(stream.capture_id())),
                &|| whatever(stream.launch_host_func(|| {})),
                &|| whatever(own.record(stream).and(own.query())),
                &|| whatever(own.record(stream).and(own.synchronize())),
                &|| whatever(own.record(&other).and(stream.wait_event(&own, WAIT))),
                &|| whatever(stream.fork([&other])),
                &|| whatever(stream.join([&other])),
                &|| whatever(nothing.lock().unwrap().launch(stream)),
            ],
        );
    });
}

#[test]
fn no_call_on_an_event_meets_the_end_of_its_capture() {
    in_both_kinds_of_streams(|flags, stream, forks| {
        let (own, other) = (event(), Stream::new(flags, None).unwrap());
        beside_each(
            flags,
            stream,
            forks,
            &[
                &|| whatever(forks.record(&other)),
                &|| whatever(forks.query()),
                &|| whatever(forks.synchronize()),
                &|| whatever(other.wait_event(&**forks, WAIT)),
                &|| whatever(forks.record(stream)),
                &|| {
                    let passing = event();
                    whatever(passing.record(stream));
                },
                &|| whatever(own.record(&other).and(own.synchronize())),
            ],
        );
    });
}

#[test]
fn no_call_without_a_stream_meets_the_end_of_a_capture() {
    in_both_kinds_of_streams(|flags, stream, forks| {
        let context = CurrentContext::get_current().unwrap();
        let (memory, own) = (Mutex::new(DeviceBuffer::from_slice(&[1u32; 64]).unwrap()), event());
        let default = LegacyStream::of(&context);
        beside_each(
            flags,
            stream,
            forks,
            &[
                &|| whatever(context.synchronize()),
                &|| whatever(CurrentContext::synchronize()),
                &|| whatever(memory.lock().unwrap().copy_from(&[2; 64])),
                &|| whatever(memory.lock().unwrap().copy_to(&mut [0; 64])),
                &|| whatever(memory.lock().unwrap().fill(7)),
                &|| whatever(default.synchronize()),
                &|| whatever(default.is_done()),
                &|| whatever(own.record(&default)),
                &|| whatever(default.wait_event(&own, WAIT)),
                &|| whatever(default.launch_host_func(|| {})),
            ],
        );
    });
}

#[test]
fn no_memory_of_a_stream_meets_the_end_of_its_capture() {
    in_both_kinds_of_streams(|flags, stream, forks| {
        let memory = Mutex::new(DeviceBuffer::from_slice_in(&[1u32; 64], stream).unwrap());
        let other = Stream::new(flags, None).unwrap();
        beside_each(
            flags,
            stream,
            forks,
            &[
                &|| drop(unsafe { DeviceBuffer::<u8>::uninitialized_in(64, stream) }),
                &|| whatever(memory.lock().unwrap().copy_to(&mut [0; 64])),
                &|| whatever(memory.lock().unwrap().also_used_in(&other)),
                &|| {
                    whatever(
                        DeviceBuffer::from_slice_in(&[1u8; 8], &other).and_then(|it| it.also_used_in(stream)),
                    )
                },
            ],
        );
    });
}

#[test]
fn no_destructor_meets_the_end_of_a_capture() {
    in_both_kinds_of_streams(|flags, _, _| {
        let context = CurrentContext::get_current().unwrap();
        let mut origin = Stream::new(flags, None).unwrap();
        let (give, take) = std::sync::mpsc::channel::<(Event, Stream)>();
        thread::scope(|scope| {
            scope.spawn(move || {
                let _here = context.enter().unwrap();
                for (event, stream) in take {
                    drop(event);
                    drop(stream);
                }
            });
            for _ in 0..times(2, 12) {
                let (forks, joined) = (event(), Stream::new(flags, None).unwrap());
                let _ = origin.capture(CaptureMode::Relaxed, |capture| {
                    forks.record(capture)?;
                    joined.wait_event(&forks, WAIT)?;
                    give.send((forks, joined)).unwrap();
                    Ok(())
                });
            }
            drop(give);
        });
    });
}

#[test]
fn a_primary_context_that_is_retained_again_is_known_to_capture() {
    run_alone(|| {
        for _ in 0..times(2, 12) {
            let first = PrimaryContext::retain(device()).unwrap();
            let mut origin = first.create_stream(StreamFlags::DEFAULT, None).unwrap();
            let before = first.as_unowned().id();
            let (mut second, over) = (None, AtomicBool::new(false));
            thread::scope(|scope| {
                let captured = origin.capture(CaptureMode::Relaxed, |_| {
                    // The capture keeps the context at the driver, where the next share finds it.
                    drop(first);
                    let again = PrimaryContext::retain(device())?;
                    assert_ne!(again.as_unowned().id(), before);
                    assert_eq!(again.synchronize(), Err(CudaError::StreamCaptureUnsupported));
                    let (handle, over) = (again.as_unowned().clone(), &over);
                    scope.spawn(move || {
                        while !over.load(Ordering::SeqCst) {
                            whatever(handle.synchronize());
                        }
                    });
                    second = Some(again);
                    Ok(())
                });
                over.store(true, Ordering::SeqCst);
                // The stream's own handle of the context is dead.
                assert_eq!(captured.map(|_| ()), Err(CudaError::ContextIsDestroyed));
            });
        }
    });
}

#[test]
fn calls_have_their_turn_between_the_ends_of_many_captures() {
    run_alone(|| {
        let _ctx = pushed();
        let context = CurrentContext::get_current().unwrap();
        let mut memory = DeviceBuffer::from_slice(&[1u32; 64]).unwrap();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let _here = context.enter().unwrap();
                    // The copy waits for such a stream, and so for the end of its capture.
                    let mut stream = Stream::new(StreamFlags::DEFAULT, None).unwrap();
                    while !over.load(Ordering::SeqCst) {
                        whatever(stream.capture(CaptureMode::Relaxed, |_| Ok(())));
                    }
                });
            }
            for _ in 0..10 * times(2, 12) {
                // It may be refused while one captures; that the captures do not come to an end is not true.
                assert_ne!(memory.copy_from(&[2; 64]), Err(CudaError::IllegalState));
            }
            over.store(true, Ordering::SeqCst);
        });
    });
}

#[test]
fn a_copy_waits_for_no_capture_of_streams_that_it_does_not_wait_for() {
    run_alone(|| {
        let _ctx = pushed();
        let context = CurrentContext::get_current().unwrap();
        let busy = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        let mut memory = DeviceBuffer::from_slice(&[1u32; 64]).unwrap();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        busy.launch_host_func(move || {
            let _ = wait.recv();
        })
        .unwrap();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            // Each capture waits a moment for this call when it is ended. It is refused while one is in progress.
            scope.spawn(|| {
                while context.synchronize() == Err(CudaError::StreamCaptureUnsupported)
                    && !over.load(Ordering::SeqCst)
                {
                    thread::yield_now();
                }
            });
            scope.spawn(|| {
                let _here = context.enter().unwrap();
                let mut stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
                while !over.load(Ordering::SeqCst) {
                    whatever(stream.capture(CaptureMode::Relaxed, |_| Ok(())));
                }
            });
            (0..times(2, 12)).for_each(|_| memory.copy_from(&[2; 64]).unwrap());
            over.store(true, Ordering::SeqCst);
            drop(go);
        });
    });
}
