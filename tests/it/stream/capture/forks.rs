//! Captures that spread to other streams, and come back or not.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{counter, is_free, something, stream};
use crate::harness::{is_simulated, owned_by, parked, pushed, run, run_alone, table};
use custack::driver::instrument::{self, When};
use custack::error::{CudaError, CudaResult};
use custack::event::{Event, EventFlags};
use custack::graph::{Capture, InstantiateFlags};
use custack::stream::{CaptureMode, CaptureStatus, Stream, StreamFlags, StreamWaitEventFlags};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;

const WAIT: StreamWaitEventFlags = StreamWaitEventFlags::DEFAULT;

fn event() -> Event {
    Event::new(EventFlags::DISABLE_TIMING).unwrap()
}

#[test]
fn a_fork_is_captured_beside_its_origin_and_joined() {
    run(|| {
        let _ctx = pushed();
        let (mut a, mut b, mut c) = (stream(), stream(), stream());
        let (count, counts) = counter();
        let mut graph = a
            .capture(CaptureMode::ThreadLocal, |a| {
                something(a)?;
                a.fork(&mut b, |b| {
                    assert_eq!(b.capture_id()?, a.capture_id()?);
                    b.launch_host_func(counts)?;
                    b.fork(&mut c, something)
                })?;
                something(a)
            })
            .unwrap();
        // The first, then two one after the other, then the last behind both.
        assert_eq!((graph.nodes().unwrap().len(), graph.root_nodes().unwrap().len()), (4, 1));
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        exec.launch(&c).unwrap();
        c.synchronize().unwrap();
        assert_eq!(count.load(std::sync::atomic::Ordering::SeqCst), 1);
        [a, b, c].iter_mut().for_each(is_free);
    });
}

#[test]
fn a_fork_is_joined_whatever_its_closure_does() {
    run(|| {
        let _ctx = pushed();
        let (mut a, mut b) = (stream(), stream());
        let result = a.capture(CaptureMode::ThreadLocal, |a| {
            a.fork(&mut b, |b| something(b).and(Err(CudaError::NotFound)))
        });
        assert_eq!(result.unwrap_err(), CudaError::NotFound, "and not that it is not joined");
        let mut graph = a
            .capture(CaptureMode::ThreadLocal, |a| {
                assert_eq!(
                    a.fork(&mut b, |b| something(b).and(Err(CudaError::NotFound))),
                    Err(CudaError::NotFound)
                );
                let panics = |b: &Capture<'_>| -> CudaResult<()> {
                    something(b)?;
                    panic!("on purpose, in a fork")
                };
                let mut c = stream();
                let result = catch_unwind(AssertUnwindSafe(|| a.fork(&mut c, panics)));
                assert!(result.is_err());
                Ok(())
            })
            .unwrap();
        assert_eq!(graph.nodes().unwrap().len(), 2);
        is_free(&mut a);
        is_free(&mut b);
    });
}

#[test]
fn until_the_capture_is_over_a_forked_stream_captures() {
    run(|| {
        let _ctx = pushed();
        let (mut a, mut b) = (stream(), stream());
        a.capture(CaptureMode::Relaxed, |a| {
            a.fork(&mut b, something)?;
            assert_eq!(b.capture_status(), Ok(CaptureStatus::Active));
            assert_eq!(b.synchronize(), Err(CudaError::StreamCaptureUnsupported));
            assert_eq!(a.fork(&mut b, something), Err(CudaError::IllegalState));
            let result = b.capture(CaptureMode::Relaxed, something);
            assert_eq!(result.unwrap_err(), CudaError::IllegalState);
            assert_eq!(a.capture_status(), Ok(CaptureStatus::Active));
            Ok(())
        })
        .unwrap();
        is_free(&mut b);
    });
}

#[test]
fn streams_spread_a_capture_by_events_and_must_come_back() {
    run(|| {
        let _ctx = pushed();
        let (mut a, b) = (stream(), stream());
        let mut b = b;
        let by_hand = |a: &Capture<'_>, b: &Stream, joins: bool| -> CudaResult<()> {
            let (forks, back) = (event(), event());
            forks.record(a)?;
            b.wait_event(&forks, WAIT)?;
            assert_eq!(b.synchronize(), Err(CudaError::StreamCaptureUnsupported));
            let module = custack::module::Module::load_from_bytes(crate::module::KERNELS.as_bytes())?;
            unsafe { custack::launch!(module.count_up<<<1, 1, 0, b>>>(1u32)) }?;
            a.keep(module)?;
            if joins {
                back.record(b)?;
                a.wait_event(&back, WAIT)?;
            }
            Ok(())
        };
        let mut graph = a.capture(CaptureMode::ThreadLocal, |a| by_hand(a, &b, true)).unwrap();
        assert_eq!(graph.nodes().unwrap().len(), 1);
        let lost = a.capture(CaptureMode::ThreadLocal, |a| by_hand(a, &b, false));
        assert_eq!(lost.unwrap_err(), CudaError::StreamCaptureUnjoined);
        is_free(&mut a);
        is_free(&mut b);
    });
}

#[test]
fn a_capture_cannot_wait_for_what_is_outside() {
    run(|| {
        let _ctx = pushed();
        let (mut a, other, outside) = (stream(), stream(), event());
        outside.record(&other).unwrap();
        let over = event();
        a.capture(CaptureMode::ThreadLocal, |a| over.record(a)).unwrap();
        // What custack has recorded outside is known, and breaks nothing.
        let mut graph = a
            .capture(CaptureMode::ThreadLocal, |a| {
                something(a)?;
                for event in [&outside, &over] {
                    let (refused, calls) = instrument::during(|| a.wait_event(event, WAIT));
                    assert_eq!((refused, calls.total()), (Err(CudaError::StreamCaptureIsolation), 0));
                    let said = crate::harness::said(CudaError::StreamCaptureIsolation);
                    assert!(said.contains("captures since") && said.contains("forks.rs"), "{said}");
                }
                let origin: &Stream = a;
                assert_eq!(origin.join([&other]), Err(CudaError::StreamCaptureIsolation));
                assert_eq!(a.capture_status(), Ok(CaptureStatus::Active));
                // The same event is of the capture when it is recorded there.
                outside.record(a)?;
                a.wait_event(&outside, WAIT)
            })
            .unwrap();
        assert_eq!(graph.nodes().unwrap().len(), 1);
        // What other code has recorded is not known.
        let unknown = event();
        assert_eq!(unsafe { (table().cuEventRecord)(unknown.as_raw(), other.as_raw()) }, 0);
        let result = a.capture(CaptureMode::ThreadLocal, |a| {
            assert_eq!(a.wait_event(&unknown, WAIT), Err(CudaError::StreamCaptureIsolation));
            Ok(())
        });
        let error = result.unwrap_err();
        assert_eq!(error, CudaError::StreamCaptureInvalidated);
        assert!(crate::harness::said(error).contains("cuStreamWaitEvent"));
        is_free(&mut a);
    });
}

#[test]
fn two_captures_are_not_joined_and_neither_is_broken() {
    run(|| {
        let _ctx = pushed();
        let (mut a, mut b, event) = (stream(), stream(), event());
        let mut inner = None;
        let mut outer = a
            .capture(CaptureMode::Relaxed, |a| {
                something(a)?;
                event.record(a)?;
                let graph = b.capture(CaptureMode::Relaxed, |b| {
                    something(b)?;
                    assert_eq!(b.wait_event(&event, WAIT), Err(CudaError::StreamCaptureMerge));
                    assert!(crate::harness::said(CudaError::StreamCaptureMerge).contains("forks.rs"));
                    Ok(())
                })?;
                inner = Some(graph);
                Ok(())
            })
            .unwrap();
        assert_eq!((outer.nodes().unwrap().len(), inner.unwrap().nodes().unwrap().len()), (1, 1));
    });
}

#[test]
fn a_capture_spreads_to_streams_of_other_contexts() {
    run(|| {
        let (here, there) = (pushed(), parked());
        let (mut a, mut b) =
            (stream(), there.scoped(|_| Stream::new(StreamFlags::NON_BLOCKING, None)).unwrap());
        let (count, counts) = counter();
        let mut graph =
            a.capture(CaptureMode::ThreadLocal, |a| a.fork(&mut b, |b| b.launch_host_func(counts))).unwrap();
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        exec.launch(&a).unwrap();
        a.synchronize().unwrap();
        assert_eq!(count.load(std::sync::atomic::Ordering::SeqCst), 1);
        // What is of a context whose owner is gone is not launched.
        drop((b, there));
        assert_eq!(exec.launch(&a), Err(CudaError::ContextIsDestroyed));
        assert_eq!(graph.instantiate(InstantiateFlags::empty()).unwrap_err(), CudaError::ContextIsDestroyed);
        drop((graph, exec));
        owned_by(&count, 1);
        here.synchronize().unwrap();
    });
}

#[test]
fn streams_that_fork_and_join_without_a_closure_are_known_to_capture() {
    run(|| {
        let _ctx = pushed();
        let (mut a, mut b) = (stream(), stream());
        let mut graph = a
            .capture(CaptureMode::Relaxed, |a| {
                let origin: &Stream = a;
                something(a)?;
                origin.fork([&b])?;
                assert_eq!(b.synchronize(), Err(CudaError::StreamCaptureUnsupported));
                assert_eq!(b.launch_host_func(|| {}), Err(CudaError::StreamCaptureUnsupported));
                assert_eq!(b.capture_id(), a.capture_id());
                origin.join([&b])
            })
            .unwrap();
        assert_eq!(graph.nodes().unwrap().len(), 1);
        is_free(&mut a);
        is_free(&mut b);
    });
}

#[test]
fn a_per_thread_stream_that_captures_is_that_threads() {
    use custack::stream::PerThreadStream;
    run(|| {
        let ctx = pushed();
        let here = PerThreadStream::of(&ctx);
        unsafe { here.begin_capture(CaptureMode::Relaxed) }.unwrap();
        assert_eq!(here.synchronize(), Err(CudaError::StreamCaptureUnsupported));
        std::thread::scope(|scope| {
            scope.spawn(|| PerThreadStream::of(&ctx).synchronize().unwrap()).join().unwrap();
        });
        let mut graph = unsafe { here.end_capture() }.unwrap();
        assert_eq!(graph.nodes(), Ok(vec![]));
        here.synchronize().unwrap();
    });
}

#[test]
fn a_per_thread_stream_that_captures_is_that_of_one_context() {
    use custack::stream::PerThreadStream;
    run(|| {
        let contexts: [_; 5] = std::array::from_fn(|_| parked());
        for (at, ctx) in contexts.iter().enumerate() {
            let here = PerThreadStream::of(ctx);
            unsafe { here.begin_capture(CaptureMode::Relaxed) }.unwrap();
            for (other_at, other) in contexts.iter().enumerate() {
                let expected = if at == other_at { Err(CudaError::StreamCaptureUnsupported) } else { Ok(()) };
                assert_eq!(PerThreadStream::of(other).synchronize(), expected, "{at}, {other_at}");
            }
            drop(unsafe { here.end_capture() }.unwrap());
        }
    });
}

#[test]
fn a_legacy_stream_is_not_captured() {
    use custack::stream::LegacyStream;
    run(|| {
        let ctx = pushed();
        let legacy = LegacyStream::of(&ctx);
        assert_eq!(
            unsafe { legacy.begin_capture(CaptureMode::Relaxed) },
            Err(CudaError::StreamCaptureUnsupported)
        );
        legacy.synchronize().unwrap();
    });
}

#[test]
fn a_stream_that_does_not_join_a_capture_because_its_context_goes_destroys_nothing_while_others_wait() {
    run_alone(|| {
        let _ctx = pushed();
        let (capturing, forked) = (stream(), event());
        unsafe { capturing.begin_capture(CaptureMode::Relaxed) }.unwrap();
        forked.record(&capturing).unwrap();
        // A context takes a GPU long.
        for _ in 0..if is_simulated() { 1000 } else { 10 } {
            let other = parked();
            let joins = other.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
            let together = Barrier::new(2);
            let calls = std::thread::scope(|scope| {
                let _dropped = scope.spawn(|| {
                    together.wait();
                    drop(other);
                });
                instrument::fail(Some("cuStreamGetFlags"), 1, 999, When::Before);
                together.wait();
                let (waited, calls) = instrument::during(|| joins.wait_event(&forked, WAIT));
                waited.unwrap_err();
                instrument::disarm();
                calls
            });
            // Destroying a context waits for the device, and this thread keeps others from recording events.
            assert_eq!(calls.of("cuCtxDestroy_v2"), 0);
        }
        drop(unsafe { capturing.end_capture() }.unwrap());
    });
}
