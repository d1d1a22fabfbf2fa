//! Memory in the order of streams that other threads capture at the same moment.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::harness::{device, pushed, run_alone};
use crate::stream::stream;
use custack::context::{Context, ContextFlags, ContextStack, CurrentContext, wait_until_retired};
use custack::driver::instrument::{self, When};
use custack::error::{CudaError, CudaResult};
use custack::event::{Event, EventFlags};
use custack::memory::array::{ArrayFormat, ArrayObject};
use custack::memory::*;
use custack::stream::{
    BorrowedStream, CaptureMode, CaptureStatus, Stream, StreamFlags, StreamWaitEventFlags, ThreadCaptureMode,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

const ROUNDS: usize = 300;

fn event() -> Event {
    Event::new(EventFlags::DISABLE_TIMING).unwrap()
}

#[test]
fn a_stream_that_another_thread_joins_to_a_capture_gives_no_memory() {
    run_alone(|| {
        let _ctx = pushed();
        let context = CurrentContext::get_current().unwrap();
        let (mut origin, joining) = (stream(), stream());
        let (forks, joins) = (event(), event());
        // Odd: it is the other thread's turn.
        let (turn, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let their_turn = || turn.load(Ordering::SeqCst) % 2 == 1;
        thread::scope(|scope| {
            scope.spawn(|| {
                let _here = context.enter().unwrap();
                while !over.load(Ordering::SeqCst) {
                    if their_turn() {
                        let _ = joining.wait_event(&forks, StreamWaitEventFlags::DEFAULT);
                        drop(unsafe { DeviceBuffer::<u8>::uninitialized_in(64, &joining) });
                        let _ = joins.record(&joining);
                        turn.fetch_add(1, Ordering::SeqCst);
                    }
                    thread::yield_now();
                }
            });
            for _ in 0..ROUNDS {
                let captured = origin.capture(CaptureMode::ThreadLocal, |capture| {
                    turn.fetch_add(1, Ordering::SeqCst);
                    forks.record(capture)?;
                    while their_turn() {
                        thread::yield_now();
                    }
                    capture.wait_event(&joins, StreamWaitEventFlags::DEFAULT)
                });
                if let Ok(mut graph) = captured {
                    assert_eq!(graph.nodes(), Ok(vec![]));
                }
                while their_turn() {
                    thread::yield_now();
                }
            }
            over.store(true, Ordering::SeqCst);
        });
    });
}

#[test]
fn a_stream_that_waited_for_an_event_recorded_elsewhere_meanwhile_is_not_taken_to_capture() {
    run_alone(|| {
        let _ctx = pushed();
        let context = CurrentContext::get_current().unwrap();
        let (mut origin, waiting, outside) = (stream(), stream(), stream());
        let (shared, joins) = (event(), event());
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let _here = context.enter().unwrap();
                while !over.load(Ordering::SeqCst) {
                    shared.record(&outside).unwrap();
                }
            });
            for _ in 0..ROUNDS {
                let _ = origin
                    .capture(CaptureMode::Relaxed, |capture| {
                        shared.record(capture)?;
                        waiting.wait_event(&shared, StreamWaitEventFlags::DEFAULT)?;
                        if waiting.capture_status()? == CaptureStatus::None {
                            drop(unsafe { DeviceBuffer::<u8>::uninitialized_in(64, &waiting) }?);
                            return Ok(());
                        }
                        joins.record(&waiting)?;
                        capture.wait_event(&joins, StreamWaitEventFlags::DEFAULT)
                    })
                    .unwrap();
            }
            over.store(true, Ordering::SeqCst);
        });
    });
}

#[test]
fn a_copy_is_done_when_it_returns_and_in_no_capture_that_begins_meanwhile() {
    run_alone(|| {
        let _ctx = pushed();
        let context = CurrentContext::get_current().unwrap();
        let mut home = stream();
        let buffer = DeviceBuffer::from_slice_in(&[7u8; 4096], &home).unwrap();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let _here = context.enter().unwrap();
                let _relaxed = ThreadCaptureMode::exchange(CaptureMode::Relaxed).unwrap();
                while !over.load(Ordering::SeqCst) {
                    let mut back = [0; 4096];
                    if buffer.copy_to(&mut back[..]).is_ok() {
                        assert!(back == [7; 4096], "it was not copied");
                    }
                }
            });
            for _ in 0..ROUNDS {
                // A wait of the other thread may break it.
                if let Ok(mut graph) = home.capture(CaptureMode::ThreadLocal, |_| Ok(())) {
                    assert_eq!(graph.nodes(), Ok(vec![]));
                }
            }
            over.store(true, Ordering::SeqCst);
        });
    });
}

#[test]
fn memory_is_freed_after_its_use_in_a_stream_of_a_context_that_is_dropped() {
    run_alone(|| {
        let _ctx = pushed();
        let second = Context::create_and_push(ContextFlags::SCHED_AUTO, device()).unwrap();
        ContextStack::pop().unwrap();
        let (home, other) = (stream(), second.create_stream(StreamFlags::NON_BLOCKING, None).unwrap());
        let buffer = DeviceBuffer::from_slice_in(&[1u8; 4], &home).unwrap();
        buffer.also_used_in(&other).unwrap();
        home.synchronize().unwrap();
        let (go, wait) = channel::<()>();
        let (starts, started) = channel::<()>();
        other
            .launch_host_func(move || {
                starts.send(()).unwrap();
                let _ = wait.recv();
            })
            .unwrap();
        started.recv().unwrap();
        // The last that keeps the context destroys it, and waits for its work.
        let dropping = thread::spawn(move || {
            drop(second);
            drop(buffer);
        });
        thread::sleep(Duration::from_millis(100));
        assert_eq!(home.is_done(), Ok(false), "the other stream's work has not ended");
        drop(go);
        home.synchronize().unwrap();
        drop(other);
        dropping.join().unwrap();
        wait_until_retired().unwrap();
    });
}

#[test]
fn memory_is_not_freed_early_if_another_value_for_its_home_joins_a_capture() {
    run_alone(|| {
        let _ctx = pushed();
        let pool = MemoryPool::new(device(), &PoolProperties::new()).unwrap();
        let (mut origin, home) = (stream(), stream());
        let second = unsafe { BorrowedStream::from_raw(home.as_raw()) }.unwrap();
        let mut buffer = DeviceBuffer::from_slice_in(&[0u32; 4], (&pool, &home)).unwrap();
        home.synchronize().unwrap();
        let mut seen = LockedBuffer::new(&0u32, 4).unwrap();
        let (go, wait) = channel::<()>();
        home.launch_host_func(move || {
            let _ = wait.recv();
        })
        .unwrap();
        unsafe { buffer.async_fill(7, &home) }.unwrap();
        unsafe { buffer.async_copy_to(&mut seen, &home) }.unwrap();
        let (forks, joins) = (event(), event());
        origin
            .capture(CaptureMode::Relaxed, |capture| {
                forks.record(capture)?;
                second.wait_event(&forks, StreamWaitEventFlags::DEFAULT)?;
                drop(buffer);
                // The memory is reported and left to the pool: what it would have to wait for is not known.
                wait_until_retired()?;
                joins.record(&second)?;
                capture.wait_event(&joins, StreamWaitEventFlags::DEFAULT)
            })
            .unwrap();
        drop(go);
        home.synchronize().unwrap();
        assert_eq!(seen[..], [7; 4]);
    });
}

#[test]
fn a_capture_begins_while_a_free_waits_for_another_stream() {
    run_alone(|| {
        let _ctx = pushed();
        let (mut home, other) = (stream(), stream());
        let buffer = DeviceBuffer::from_slice_in(&[1u8; 4], &home).unwrap();
        buffer.also_used_in(&other).unwrap();
        let (go, wait) = channel::<()>();
        other
            .launch_host_func(move || {
                let _ = wait.recv();
            })
            .unwrap();
        let freeing = thread::spawn(move || {
            // Now only a wait on the host orders the free after the other stream's work.
            instrument::fail(Some("cuEventRecord"), 1, 2, When::Before);
            drop(buffer);
        });
        thread::sleep(Duration::from_millis(100));
        let mut graph = home.capture(CaptureMode::ThreadLocal, |_| Ok(())).unwrap();
        assert_eq!(graph.nodes(), Ok(vec![]));
        drop(go);
        freeing.join().unwrap();
        wait_until_retired().unwrap();
    });
}

#[test]
fn no_capture_begins_in_a_stream_in_which_a_copy_is_being_made() {
    run_alone(|| {
        let _ctx = pushed();
        let context = CurrentContext::get_current().unwrap();
        let mut home = stream();
        let buffer = DeviceBuffer::from_slice_in(&[5u8; 4], &home).unwrap();
        home.synchronize().unwrap();
        let (go, wait) = channel::<()>();
        home.launch_host_func(move || {
            let _ = wait.recv();
        })
        .unwrap();
        thread::scope(|scope| {
            let copying = scope.spawn(|| {
                let _here = context.enter().unwrap();
                let mut back = [0u8; 4];
                // The driver returns when the memory, which is not page-locked, is written.
                buffer.copy_to(&mut back[..]).map(|()| back)
            });
            thread::sleep(Duration::from_millis(100));
            let refused = home.capture(CaptureMode::ThreadLocal, |_| Ok(()));
            assert_eq!(refused.map(drop), Err(CudaError::IllegalState));
            drop(go);
            assert_eq!(copying.join().unwrap(), Ok([5; 4]));
        });
        let mut graph = home.capture(CaptureMode::ThreadLocal, |_| Ok(())).unwrap();
        assert_eq!(graph.nodes(), Ok(vec![]));
    });
}

#[test]
fn captures_begin_and_end_while_other_threads_make_calls_that_are_refused() {
    run_alone(|| {
        let _ctx = pushed();
        let context = CurrentContext::get_current().unwrap();
        let home = stream();
        let (over, refused) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let _here = context.enter().unwrap();
                    let _relaxed = ThreadCaptureMode::exchange(CaptureMode::Relaxed).unwrap();
                    while !over.load(Ordering::SeqCst) {
                        if unsafe { DeviceBuffer::<u8>::uninitialized_in(4, &home) }.is_err() {
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            let captured = (0..30).try_for_each(|_| {
                unsafe { home.begin_capture(CaptureMode::Relaxed) }?;
                thread::sleep(Duration::from_millis(1));
                assert_eq!(unsafe { home.end_capture() }?.nodes(), Ok(vec![]));
                Ok(())
            });
            over.store(true, Ordering::SeqCst);
            assert_eq!(captured, Ok::<_, CudaError>(()));
        });
        assert!(refused.into_inner() > 0);
    });
}

#[test]
fn a_capture_that_begins_while_a_call_without_a_stream_is_blocked_is_not_broken_and_the_call_is_done() {
    type Call = Box<dyn FnMut() -> CudaResult<()> + Send>;
    run_alone(|| {
        let _ctx = pushed();
        let context = CurrentContext::get_current().unwrap();
        let blocking = || Stream::new(StreamFlags::DEFAULT, None).unwrap();
        let (busy, mut origin) = (blocking(), blocking());
        let zeros = || DeviceBuffer::from_slice(&[0u8; 4096]).unwrap();
        let rows = || PitchedBuffer::from_slice(&[0u8; 64], 8).unwrap();
        let array = ArrayObject::new_1d(64, ArrayFormat::UnsignedInt8, 1).unwrap();
        let (mut written, mut copied, from, mut filled, read) = (zeros(), zeros(), zeros(), zeros(), zeros());
        let (mut written_rows, mut filled_rows) = (rows(), rows());
        let calls: [Call; 7] = [
            Box::new(move || written.copy_from(&[1; 4096])),
            Box::new(move || copied.copy_from(&from)),
            Box::new(move || filled.fill(1)),
            Box::new(move || read.copy_to(&mut [1; 4096])),
            Box::new(move || written_rows.copy_from(&[1; 64])),
            Box::new(move || filled_rows.fill(1)),
            Box::new(move || array.copy_from(&[1u8; 64])),
        ];
        for (index, mut call) in calls.into_iter().enumerate() {
            let (go, wait) = channel::<()>();
            busy.launch_host_func(move || {
                let _ = wait.recv();
            })
            .unwrap();
            thread::scope(|scope| {
                let calling = scope.spawn(|| {
                    let _here = context.enter().unwrap();
                    call()
                });
                // Until it is blocked.
                thread::sleep(Duration::from_millis(100));
                // Not in the capture: on a GPU none begins while a copy of memory that is not page-locked is blocked.
                scope.spawn(move || {
                    thread::sleep(Duration::from_millis(100));
                    drop(go);
                });
                let captured = origin.capture(CaptureMode::Relaxed, |_| {
                    while busy.is_done() != Ok(true) {
                        thread::yield_now();
                    }
                    thread::sleep(Duration::from_millis(50));
                    Ok(())
                });
                assert_eq!(captured.map(drop), Ok(()), "{index}");
                assert_eq!(calling.join().unwrap(), Ok(()), "{index}");
            });
        }
    });
}
