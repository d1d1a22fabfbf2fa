//! Captures: what they forbid, and that nothing leaves one open.
//!
//! A capture in the global mode forbids calls to all threads, so the tests that have one run alone.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

mod blocked;
mod drops;
mod elsewhere;
mod ends;
mod ends_beside_graphs;
mod forks;
pub(crate) mod lost;
mod meanwhile;
mod refused;
mod refused_end;
mod unscoped;

use super::stream;
use crate::harness::{owned_by, pushed, run, run_alone, table};
use custack::driver::instrument;
use custack::error::{CudaError, CudaResult};
use custack::graph::{Capture, Graph, InstantiateFlags};
use custack::stream::{CaptureMode, CaptureStatus, Stream, StreamFlags};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) const MODES: [CaptureMode; 3] =
    [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

/// A counter, and a function that counts in it.
pub(super) fn counter() -> (Arc<AtomicUsize>, impl FnMut() + Send + 'static) {
    let count = Arc::new(AtomicUsize::new(0));
    let here = Arc::clone(&count);
    let counts = move || {
        here.fetch_add(1, Ordering::SeqCst);
    };
    (count, counts)
}

/// One node, so that there is something.
pub(super) fn something(capture: &Capture<'_>) -> CudaResult<()> {
    capture.launch_host_func(|| {})
}

/// Breaks the stream's capture, as other code does.
pub(super) fn broken_by_other_code(stream: &Stream) {
    assert_eq!(unsafe { (table().cuStreamSynchronize)(stream.as_raw()) }, 900);
    assert_eq!(stream.capture_status(), Ok(CaptureStatus::Invalidated));
}

/// The stream is as it was before any capture: it can be captured, and waited for.
#[track_caller]
pub(super) fn is_free(stream: &mut Stream) {
    assert_eq!(stream.capture_status(), Ok(CaptureStatus::None));
    let mut graph = stream.capture(CaptureMode::ThreadLocal, something).unwrap();
    assert_eq!(graph.nodes().unwrap().len(), 1);
    stream.synchronize().unwrap();
}

#[test]
fn what_is_captured_runs_at_every_launch_and_not_before() {
    run(|| {
        let _ctx = pushed();
        let mut stream = stream();
        let (count, counts) = counter();
        let mut graph = stream
            .capture(CaptureMode::ThreadLocal, |capture| {
                assert_eq!(capture.capture_status(), Ok(CaptureStatus::Active));
                assert!(capture.capture_id().unwrap().is_some());
                capture.launch_host_func(counts)
            })
            .unwrap();
        assert_eq!((stream.capture_status(), stream.capture_id()), (Ok(CaptureStatus::None), Ok(None)));
        stream.synchronize().unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 0);
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        for launches in 1..=3 {
            exec.launch(&stream).unwrap();
            stream.synchronize().unwrap();
            assert_eq!(count.load(Ordering::SeqCst), launches);
        }
        drop((graph, exec));
        owned_by(&count, 1);
    });
}

#[test]
fn a_graph_that_is_never_launched_frees_what_it_keeps() {
    run(|| {
        let _ctx = pushed();
        let mut stream = stream();
        let (count, counts) = counter();
        let kept = Arc::clone(&count);
        let capture =
            |capture: &Capture<'_>| capture.keep(kept).and_then(|()| capture.launch_host_func(counts));
        let graph = stream.capture(CaptureMode::ThreadLocal, capture).unwrap();
        assert_eq!(Arc::strong_count(&count), 3);
        assert!(Graph::drop(graph).is_ok());
        owned_by(&count, 1);
        assert_eq!(count.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn a_capture_ends_after_the_closures_error_which_wins() {
    run(|| {
        let _ctx = pushed();
        let mut stream = stream();
        let (count, counts) = counter();
        let failing = |capture: &Capture<'_>| {
            capture.launch_host_func(counts)?;
            Err(CudaError::NotFound)
        };
        assert_eq!(stream.capture(CaptureMode::ThreadLocal, failing).unwrap_err(), CudaError::NotFound);
        owned_by(&count, 1);
        is_free(&mut stream);
        // Also if the capture is broken, which would be an error of its own.
        let broken = |capture: &Capture<'_>| {
            broken_by_other_code(capture);
            Err(CudaError::NotFound)
        };
        assert_eq!(stream.capture(CaptureMode::ThreadLocal, broken).unwrap_err(), CudaError::NotFound);
        is_free(&mut stream);
    });
}

#[test]
fn a_capture_ends_after_a_panic_which_goes_on() {
    run(|| {
        let _ctx = pushed();
        let mut stream = stream();
        for broken in [false, true] {
            let (count, counts) = counter();
            let result = catch_unwind(AssertUnwindSafe(|| {
                stream.capture(CaptureMode::ThreadLocal, |capture| {
                    capture.launch_host_func(counts)?;
                    if broken {
                        broken_by_other_code(capture);
                    }
                    panic!("on purpose, in a capture")
                })
            }));
            let panic = *result.unwrap_err().downcast::<&str>().unwrap();
            assert_eq!(panic, "on purpose, in a capture");
            owned_by(&count, 1);
            is_free(&mut stream);
        }
    });
}

#[test]
fn a_broken_capture_is_ended_and_says_what_has_broken_it() {
    run(|| {
        let _ctx = pushed();
        let mut stream = stream();
        let module = custack::module::Module::load_from_bytes(crate::module::KERNELS.as_bytes()).unwrap();
        let result = stream.capture(CaptureMode::ThreadLocal, |capture| {
            // A launch that cannot be breaks a capture, whatever comes of its error.
            let launched = unsafe { custack::launch!(module.count_up<<<1, 5000, 0, capture>>>(1u32)) };
            assert_eq!(launched, Err(CudaError::InvalidValue));
            Ok(())
        });
        let error = result.unwrap_err();
        assert_eq!(error, CudaError::StreamCaptureInvalidated);
        let said = crate::harness::said(error);
        assert!(said.contains("cuLaunchKernel") && said.contains("capture.rs"), "{said}");
        is_free(&mut stream);

        let result = stream.capture(CaptureMode::ThreadLocal, |capture| {
            broken_by_other_code(capture);
            Ok(())
        });
        let said = crate::harness::said(result.unwrap_err());
        assert!(said.contains("other code"), "{said}");
        is_free(&mut stream);
    });
}

#[test]
fn a_capture_can_go_on_in_a_graph_that_is_there() {
    run(|| {
        let ctx = pushed();
        let mut stream = stream();
        let mut graph = Graph::new(&ctx).unwrap();
        let (a, b) = (graph.add_empty(&[]).unwrap(), graph.add_empty(&[]).unwrap());
        let after = [(a, Default::default()), (b, Default::default())];
        let (count, counts) = counter();
        stream
            .capture_into(&mut graph, &after, CaptureMode::ThreadLocal, |capture| {
                let mut found = capture.dependencies().unwrap();
                found.sort();
                assert_eq!(found, after, "keys of before are keys of now");
                capture.launch_host_func(counts)
            })
            .unwrap();
        let nodes = graph.nodes().unwrap();
        assert_eq!(nodes.len(), 3);
        assert_eq!(graph.dependencies(nodes[2]).unwrap().len(), 2);
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 1);
        assert!(Graph::drop(graph).is_ok(), "it is there once, and destroyed once");
    });
}

#[test]
fn a_graph_is_its_owners_again_after_an_error_or_a_panic_and_gone_with_a_broken_capture() {
    run(|| {
        let ctx = pushed();
        let mut stream = stream();
        let mut graph = Graph::new(&ctx).unwrap();
        let a = graph.add_empty(&[]).unwrap();
        let failing = |capture: &Capture<'_>| something(capture).and(Err(CudaError::NotFound));
        let result = stream.capture_into(&mut graph, &[], CaptureMode::ThreadLocal, failing);
        assert_eq!(result, Err(CudaError::NotFound));
        let result = catch_unwind(AssertUnwindSafe(|| {
            stream.capture_into(&mut graph, &[(a, Default::default())], CaptureMode::ThreadLocal, |_| {
                panic!("on purpose")
            })
        }));
        assert!(result.is_err());
        assert_eq!(graph.nodes().unwrap().len(), 2, "one was captured before the error");
        is_free(&mut stream);
        let result = stream.capture_into(&mut graph, &[], CaptureMode::ThreadLocal, |capture| {
            broken_by_other_code(capture);
            Ok(())
        });
        assert_eq!(result, Err(CudaError::StreamCaptureInvalidated));
        assert_eq!(graph.nodes(), Err(CudaError::InvalidHandle), "the driver has destroyed it");
        is_free(&mut stream);
        let mut other = Graph::new(&ctx).unwrap();
        let result =
            stream.capture_into(&mut other, &[(a, Default::default())], CaptureMode::ThreadLocal, something);
        assert_eq!(result, Err(CudaError::InvalidHandle), "a node of another graph");
        is_free(&mut stream);
    });
}

#[test]
fn dependencies_can_be_asked_and_updated() {
    use custack::graph::{Dependencies, EdgeData};
    run(|| {
        let _ctx = pushed();
        let mut stream = stream();
        let mut graph = stream
            .capture(CaptureMode::ThreadLocal, |capture| {
                assert_eq!(capture.dependencies(), Ok(vec![]));
                something(capture)?;
                let first = capture.dependencies()?;
                assert_eq!(first.len(), 1);
                something(capture)?;
                let second = capture.dependencies()?;
                assert_ne!(first, second);
                capture.update_dependencies(Dependencies::Set, &first)?;
                assert_eq!(capture.dependencies()?, first);
                something(capture)?;
                capture.update_dependencies(Dependencies::Add, &second)?;
                assert_eq!(capture.dependencies()?.len(), 2);
                capture.update_dependencies(Dependencies::Set, &[])?;
                assert_eq!(capture.dependencies(), Ok(vec![]));
                Ok(())
            })
            .unwrap();
        let nodes = graph.nodes().unwrap();
        let edge = EdgeData::default();
        let mut edges = graph.edges().unwrap();
        edges.sort();
        assert_eq!(edges, [(nodes[0], nodes[1], edge), (nodes[0], nodes[2], edge)]);
        // The keys of a capture are keys of its graph, and of no other.
        let result = stream.capture(CaptureMode::ThreadLocal, |capture| {
            capture.update_dependencies(Dependencies::Set, &[(nodes[0], edge)])
        });
        assert_eq!(result.unwrap_err(), CudaError::InvalidHandle);
        is_free(&mut stream);
    });
}

#[test]
fn what_is_recordable_is_recorded() {
    run(|| {
        let _ctx = pushed();
        let capture =
            |capture: &Capture<'_>| capture.record(something).and_then(|()| capture.record(something));
        let mut graph = stream().capture(CaptureMode::ThreadLocal, capture).unwrap();
        assert_eq!((graph.nodes().unwrap().len(), graph.root_nodes().unwrap().len()), (2, 1));
    });
}

#[test]
fn a_capture_costs_others_nothing() {
    run_alone(|| {
        let _ctx = pushed();
        let (mut capturing, other) = (stream(), stream());
        let calls = |stream: &Stream| {
            let module = custack::module::Module::load_from_bytes(crate::module::KERNELS.as_bytes()).unwrap();
            instrument::during(|| unsafe {
                custack::launch!(module.count_up<<<1, 1, 0, stream>>>(1u32)).unwrap();
            })
            .1
        };
        let before = calls(&other);
        capturing
            .capture(CaptureMode::Relaxed, |_| {
                assert_eq!(calls(&other), before);
                let ((), calls) = instrument::during(|| other.synchronize().unwrap());
                assert_eq!(calls.to_string(), "cuStreamSynchronize");
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn what_would_join_a_stream_to_a_capture_unseen_is_refused_and_breaks_nothing() {
    use custack::memory::{CopyDestination, DeviceBuffer, LockedBuffer, LockedFlags, PitchedBuffer};
    run_alone(|| {
        let _ctx = pushed();
        let make = || Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        let (mut home, mut other, third) = (make(), make(), make());
        let mut ordered = DeviceBuffer::from_slice_in(&[7u32; 4], &home).unwrap();
        let mut plain = DeviceBuffer::from_slice(&[0u32; 4]).unwrap();
        let shared = DeviceBuffer::from_slice_in(&[1u32], &third).unwrap();
        home.synchronize().unwrap();
        third.synchronize().unwrap();
        shared.also_used_in(&home).unwrap();
        let mut host = [0u32; 4];
        let unsupported = CudaError::StreamCaptureUnsupported;
        let graph = home.capture(CaptureMode::Global, |capture| {
            // The memory's home captures, so that another stream that comes after it would be captured too.
            let copied = other.sync_scope(|scope| scope.copy_to(&*ordered, &mut host));
            assert_eq!(copied, Err(unsupported));
            assert_eq!(plain.copy_from(&ordered), Err(unsupported));
            assert_eq!(ordered.copy_from(&plain), Err(unsupported));
            // By hand it is not freed, and is as it was; a destructor has it freed soon after.
            let (error, back) = DeviceBuffer::drop(shared).unwrap_err();
            assert_eq!((error, back.len()), (unsupported, 1));
            drop(back);
            assert_eq!(PitchedBuffer::from_slice(&[1u32, 2], 2).unwrap_err(), unsupported);
            let locked = unsafe { LockedBuffer::<u8>::uninitialized_with(4, LockedFlags::empty()) };
            assert_eq!(locked.unwrap_err(), unsupported);
            assert_eq!(capture.capture_status(), Ok(CaptureStatus::Active));
            Ok(())
        });
        assert_eq!(graph.unwrap().nodes().unwrap().len(), 0);
        assert_eq!(host, [0; 4]);
        other.sync_scope(|scope| scope.copy_to(&*ordered, &mut host)).unwrap();
        assert_eq!(host, [7; 4]);
    });
}

#[test]
fn what_is_recordable_may_do_what_it_likes_and_breaks_nothing() {
    use custack::graph::Recordable;
    struct Forgets(Arc<AtomicUsize>);
    struct Panics;
    impl Recordable for Forgets {
        fn record(self, capture: &Capture<'_>) -> CudaResult<()> {
            let here = Arc::clone(&self.0);
            capture.launch_host_func(move || {
                here.fetch_add(1, Ordering::SeqCst);
            })?;
            assert!(capture.synchronize().is_err() && capture.is_done().is_err());
            // What a graph needs it keeps itself, so that nothing is missing if this is forgotten.
            std::mem::forget(capture.to_borrowed());
            std::mem::forget(self.0);
            Ok(())
        }
    }
    impl Recordable for Panics {
        fn record(self, _: &Capture<'_>) -> CudaResult<()> {
            panic!("on purpose, in what was to be recorded")
        }
    }
    run(|| {
        let _ctx = pushed();
        let mut stream = stream();
        let count = Arc::new(AtomicUsize::new(0));
        let mut exec = stream
            .capture_executable(CaptureMode::ThreadLocal, InstantiateFlags::empty(), |capture| {
                let panicked = catch_unwind(AssertUnwindSafe(|| capture.record(Panics)));
                assert!(panicked.is_err());
                capture.record(Forgets(Arc::clone(&count)))
            })
            .unwrap();
        exec.launch(&stream).unwrap();
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 2);
        drop(exec);
        owned_by(&count, 2);
        is_free(&mut stream);
    });
}
