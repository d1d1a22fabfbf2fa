//! What a capture would be broken by is refused before the driver is asked.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{MODES, something, stream};
use crate::harness::{pushed, run, run_alone};
use custack::context::{
    CacheConfig, ContextHandle, CurrentContext, ResourceLimit, SharedMemoryConfig, UnownedContext,
};
use custack::driver::instrument;
use custack::error::{CudaError, CudaResult};
use custack::event::{Event, EventFlags};
use custack::function::LaunchConfig;
use custack::graph::{Capture, Graph, GraphExec, InstantiateFlags};
use custack::memory::array::{ArrayFormat, ArrayObject};
use custack::memory::{CopyDestination, DeviceBox, DeviceBuffer, LockedBuffer, UnifiedBox};
use custack::stream::{
    CaptureMode, CaptureStatus, LegacyStream, Stream, StreamFlags, StreamWaitEventFlags, ThreadCaptureMode,
};
use std::cell::RefCell;

/// Everything that is called while a stream captures.
struct Scene {
    context: UnownedContext,
    other: Stream,
    event: Event,
    buffer: DeviceBuffer<u32>,
    graph: RefCell<Graph>,
    exec: RefCell<GraphExec>,
}

impl Scene {
    fn new() -> Scene {
        let context = UnownedContext::clone(CurrentContext::get_current().unwrap().as_unowned());
        let (other, event) = (stream(), Event::new(EventFlags::DEFAULT).unwrap());
        event.record(&other).unwrap();
        other.synchronize().unwrap();
        let mut graph = Graph::new(&context).unwrap();
        graph.add_empty(&[]).unwrap();
        let exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        let buffer = DeviceBuffer::from_slice(&[1, 2, 3]).unwrap();
        Scene { context, other, event, buffer, graph: graph.into(), exec: exec.into() }
    }
}

type Call = fn(&Scene, &Stream) -> CudaResult<()>;

/// Forbidden to whom the mode says.
const UNSAFE: [(&str, Call); 14] = [
    ("device memory", |_, _| DeviceBox::new(&1u32).map(drop)),
    ("unified memory", |_, _| UnifiedBox::new(1u32).map(drop)),
    ("locked memory", |_, _| LockedBuffer::new(&1u32, 4).map(drop)),
    ("an array", |_, _| ArrayObject::new_1d(4, ArrayFormat::Float, 1).map(drop)),
    ("query of another stream", |scene, _| scene.other.is_done().map(drop)),
    ("wait for another stream", |scene, _| scene.other.synchronize()),
    ("query of an event", |scene, _| scene.event.query().map(drop)),
    ("wait for an event", |scene, _| scene.event.synchronize()),
    ("instantiate", |scene, _| scene.graph.borrow_mut().instantiate(InstantiateFlags::empty()).map(drop)),
    ("limit", |scene, _| scene.context.set_limit(ResourceLimit::StackSize, 2048)),
    ("limit of the current", |_, _| CurrentContext::set_resource_limit(ResourceLimit::StackSize, 2048)),
    ("cache", |scene, _| scene.context.set_cache_config(CacheConfig::PreferL1)),
    ("cache of the current", |_, _| CurrentContext::set_cache_config(CacheConfig::PreferL1)),
    ("shared memory", |scene, _| scene.context.set_shared_memory_config(SharedMemoryConfig::DefaultBankSize)),
];

/// Forbidden to all, in every mode.
const NEVER: [(&str, Call); 12] = [
    ("query", |_, stream| stream.is_done().map(drop)),
    ("wait", |_, stream| stream.synchronize()),
    ("flags", |_, stream| stream.get_flags().map(drop)),
    ("number", |_, stream| stream.id().map(drop)),
    ("callback", |_, stream| stream.add_callback(Box::new(|_| panic!("it was refused")))),
    ("launch", |scene, stream| scene.exec.borrow_mut().launch(stream)),
    ("upload", |scene, stream| scene.exec.borrow_mut().upload(stream)),
    ("policy", |_, stream| stream.synchronization_policy().map(drop)),
    ("priority", |_, stream| stream.set_priority(-1)),
    ("attributes", |scene, stream| scene.other.copy_attributes(stream)),
    ("context", |scene, _| scene.context.synchronize()),
    ("current context", |_, _| CurrentContext::synchronize()),
];

/// Allowed to all, in every mode.
const ALLOWED: [(&str, Call); 10] = [
    ("a stream", |_, _| Stream::new(StreamFlags::DEFAULT, None).map(drop)),
    ("an event", |_, _| Event::new(EventFlags::DEFAULT).map(drop)),
    ("record", |scene, _| scene.event.record(&scene.other)),
    ("priority", |_, stream| stream.get_priority().map(drop)),
    ("copy", |scene, _| scene.buffer.copy_to(&mut [0; 3])),
    ("callback elsewhere", |scene, _| scene.other.add_callback(Box::new(|_| {}))),
    ("launch elsewhere", |scene, _| scene.exec.borrow_mut().launch(&scene.other)),
    ("flags elsewhere", |scene, _| scene.other.get_flags().map(drop)),
    ("a module", |_, _| {
        custack::module::Module::load_from_bytes(crate::module::KERNELS.as_bytes()).map(drop)
    }),
    ("a graph", |scene, _| Graph::new(&scene.context).map(drop)),
];

#[track_caller]
fn refused(name: &str, scene: &Scene, stream: &Stream, call: Call) {
    let (result, calls) = instrument::during(|| call(scene, stream));
    let error = result.expect_err(name);
    assert_eq!(error, CudaError::StreamCaptureUnsupported, "{name}");
    let said = crate::harness::said(error);
    assert!(said.contains("captures since") && said.contains("refused.rs"), "{name}: {said}");
    let asked = calls.total() - calls.of("cuThreadExchangeStreamCaptureMode") - calls.of("cuCtxGetCurrent");
    assert_eq!(asked, 0, "{name}: {calls}");
    assert_eq!(stream.capture_status(), Ok(CaptureStatus::Active), "{name}");
}

#[test]
fn what_would_break_a_capture_is_refused_and_breaks_nothing() {
    run_alone(|| {
        let _ctx = pushed();
        let scene = Scene::new();
        for mode in MODES {
            let mut graph = stream()
                .capture(mode, |capture| {
                    something(capture)?;
                    for (name, call) in NEVER {
                        refused(name, &scene, capture, call);
                    }
                    for (name, call) in UNSAFE {
                        match mode {
                            CaptureMode::Relaxed => assert_eq!(call(&scene, capture), Ok(()), "{name}"),
                            _ => refused(name, &scene, capture, call),
                        }
                        assert_eq!(capture.capture_status(), Ok(CaptureStatus::Active), "{name}");
                    }
                    for (name, call) in ALLOWED {
                        assert_eq!(call(&scene, capture), Ok(()), "{name}");
                        assert_eq!(capture.capture_status(), Ok(CaptureStatus::Active), "{name}");
                    }
                    Ok(())
                })
                .unwrap();
            assert_eq!(graph.nodes().unwrap().len(), 1, "{mode:?}");
        }
    });
}

#[test]
fn a_global_capture_is_broken_by_no_other_thread_and_one_of_a_thread_forbids_others_nothing() {
    run_alone(|| {
        let ctx = pushed();
        for mode in MODES {
            let mut graph = stream()
                .capture(mode, |capture| {
                    something(capture)?;
                    let stream: &Stream = capture;
                    std::thread::scope(|scope| {
                        scope
                            .spawn(|| {
                                let _current = ctx.enter().unwrap();
                                let made = ThreadCaptureMode::exchange(CaptureMode::Relaxed).unwrap();
                                let scene = Scene::new();
                                drop(made);
                                for (name, call) in NEVER {
                                    refused(name, &scene, stream, call);
                                }
                                for (name, call) in UNSAFE {
                                    match mode {
                                        CaptureMode::Global => refused(name, &scene, stream, call),
                                        _ => assert_eq!(call(&scene, stream), Ok(()), "{name}"),
                                    }
                                }
                                let _mine = ThreadCaptureMode::exchange(CaptureMode::ThreadLocal).unwrap();
                                for (name, call) in UNSAFE.into_iter().chain(ALLOWED) {
                                    assert_eq!(call(&scene, stream), Ok(()), "{name}");
                                }
                                assert_eq!(stream.capture_status(), Ok(CaptureStatus::Active));
                            })
                            .join()
                            .unwrap();
                    });
                    Ok(())
                })
                .unwrap();
            assert_eq!(graph.nodes().unwrap().len(), 1);
        }
    });
}

#[test]
fn a_threads_own_capture_forbids_what_another_threads_would_not() {
    run_alone(|| {
        let ctx = pushed();
        let scene = Scene::new();
        let (begun, has_begun) = std::sync::mpsc::channel();
        let (end, to_end) = std::sync::mpsc::channel::<()>();
        let ctx = &ctx;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let _current = ctx.enter().unwrap();
                let mut capturing = stream();
                let global = |capture: &Capture<'_>| {
                    begun.send(()).unwrap();
                    let _ = to_end.recv();
                    something(capture)
                };
                let mut graph = capturing.capture(CaptureMode::Global, global).unwrap();
                assert_eq!(graph.nodes().unwrap().len(), 1);
            });
            // Gone if this thread panics.
            let end = end;
            has_begun.recv().unwrap();
            let _mine = ThreadCaptureMode::exchange(CaptureMode::ThreadLocal).unwrap();
            let mut graph = Stream::new(StreamFlags::NON_BLOCKING, None)
                .unwrap()
                .capture(CaptureMode::ThreadLocal, |capture| {
                    for (name, call) in UNSAFE {
                        refused(name, &scene, capture, call);
                    }
                    something(capture)
                })
                .unwrap();
            assert_eq!(graph.nodes().unwrap().len(), 1);
            end.send(()).unwrap();
        });
    });
}

#[test]
fn a_thread_that_says_that_it_knows_what_it_does_is_refused_nothing_but_what_conflicts() {
    run_alone(|| {
        let _ctx = pushed();
        let scene = Scene::new();
        stream()
            .capture(CaptureMode::Global, |capture| {
                something(capture)?;
                let relaxed = ThreadCaptureMode::exchange(CaptureMode::Relaxed)?;
                assert_eq!(relaxed.previous(), Some(CaptureMode::Global));
                for (name, call) in UNSAFE {
                    assert_eq!(call(&scene, capture), Ok(()), "{name}");
                }
                for (name, call) in NEVER {
                    refused(name, &scene, capture, call);
                }
                drop(relaxed);
                refused(UNSAFE[0].0, &scene, capture, UNSAFE[0].1);
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn a_threads_mode_is_restored_after_a_panic_too() {
    run(|| {
        let _ctx = pushed();
        let result = std::panic::catch_unwind(|| {
            let _outer = ThreadCaptureMode::exchange(CaptureMode::ThreadLocal).unwrap();
            let inner = ThreadCaptureMode::exchange(CaptureMode::Relaxed).unwrap();
            assert_eq!(inner.previous(), Some(CaptureMode::ThreadLocal));
            panic!("on purpose, with two modes");
        });
        assert!(result.is_err());
        let now = ThreadCaptureMode::exchange(CaptureMode::Relaxed).unwrap();
        assert_eq!(now.previous(), Some(CaptureMode::Global));
    });
}

#[test]
fn a_threads_mode_is_restored_in_whatever_order_its_guards_are_dropped() {
    run(|| {
        let _ctx = pushed();
        let now = || ThreadCaptureMode::exchange(CaptureMode::Relaxed).unwrap().previous();
        let modes = [CaptureMode::ThreadLocal, CaptureMode::Relaxed, CaptureMode::ThreadLocal];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut guards = modes.map(|mode| Some(ThreadCaptureMode::exchange(mode).unwrap()));
            for dropped in order {
                guards[dropped] = None;
                let latest = guards.iter().rposition(Option::is_some);
                assert_eq!(now(), Some(latest.map_or(CaptureMode::Global, |at| modes[at])), "{order:?}");
            }
        }
    });
}

#[test]
fn events_of_a_capture_are_not_asked_while_it_is_in_progress() {
    run(|| {
        let _ctx = pushed();
        let (event, outside) =
            (Event::new(EventFlags::DEFAULT).unwrap(), Event::new(EventFlags::DEFAULT).unwrap());
        outside.record(&stream()).unwrap();
        stream()
            .capture(CaptureMode::Relaxed, |capture| {
                event.record(capture)?;
                let asked = [
                    event.query().map(drop),
                    event.synchronize(),
                    event.elapsed_time_f32(&outside).map(drop),
                    outside.elapsed_time_f32(&event).map(drop),
                ];
                assert_eq!(asked, [Err(CudaError::CapturedEvent); 4]);
                assert!(crate::harness::said(CudaError::CapturedEvent).contains("captures since"));
                assert_eq!(capture.capture_status(), Ok(CaptureStatus::Active));
                // Recorded elsewhere it is an event as all are.
                event.record(&stream())?;
                event.synchronize()
            })
            .unwrap();
        event.synchronize().unwrap();
        // The driver may give the handle of a destroyed event to a new one.
        stream()
            .capture(CaptureMode::Relaxed, |capture| {
                for _ in 0..10 {
                    let event = Event::new(EventFlags::DEFAULT)?;
                    event.query()?;
                    event.record(capture)?;
                }
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn nothing_waits_for_a_blocking_stream_that_captures() {
    run(|| {
        let _ctx = pushed();
        let mut buffer = DeviceBuffer::from_slice(&[1u32, 2]).unwrap();
        let mut blocking = Stream::new(StreamFlags::DEFAULT, None).unwrap();
        let mut refused = |capture: &custack::graph::Capture<'_>| {
            let answers = [
                buffer.copy_to(&mut [0; 2]),
                buffer.copy_from(&[3, 4]),
                unsafe { DeviceBuffer::<u32>::zeroed(2) }.map(drop),
            ];
            assert_eq!(answers, [Err(CudaError::StreamCaptureImplicit); 3]);
            let (legacy, event) = (LegacyStream::of(capture.context()), Event::new(EventFlags::DEFAULT)?);
            let module = custack::module::Module::load_from_bytes(crate::module::KERNELS.as_bytes())?;
            let answers = [
                legacy.synchronize(),
                legacy.is_done().map(drop),
                legacy.launch_host_func(|| {}),
                legacy.add_callback(Box::new(|_| {})),
                legacy.wait_event(&event, StreamWaitEventFlags::DEFAULT),
                event.record(&legacy),
                unsafe { custack::launch!(module.count_up<<<1, 1, 0, legacy>>>(1u32)) },
            ];
            assert_eq!(answers, [Err(CudaError::StreamCaptureImplicit); 7]);
            assert_eq!(capture.capture_status(), Ok(CaptureStatus::Active));
            Ok(())
        };
        blocking.capture(CaptureMode::Relaxed, &mut refused).unwrap();
        // One that has joined is one too.
        stream().capture(CaptureMode::Relaxed, |capture| capture.fork(&mut blocking, &mut refused)).unwrap();
        stream().capture(CaptureMode::Relaxed, |_| buffer.copy_to(&mut [0; 2])).unwrap();
    });
}

#[test]
fn a_stream_captures_once_at_a_time() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        unsafe { stream.begin_capture(CaptureMode::ThreadLocal) }.unwrap();
        let again = unsafe { stream.begin_capture(CaptureMode::ThreadLocal) };
        assert_eq!(again, Err(CudaError::IllegalState));
        assert!(crate::harness::said(CudaError::IllegalState).contains("refused.rs"));
        assert_eq!(stream.capture_status(), Ok(CaptureStatus::Active));
        unsafe { stream.end_capture() }.unwrap();
    });
}

#[test]
fn what_is_called_once_is_refused_by_a_stream_that_captures_and_dropped_once() {
    use crate::harness::table;
    use std::sync::Arc;
    run(|| {
        let _ctx = pushed();
        let held = Arc::new(());
        let twice = |stream: &Stream| {
            let (a, b) = (Arc::clone(&held), Arc::clone(&held));
            let function = stream.launch_host_func(move || panic!("it was refused, with {a:?}"));
            // A stream that other code captures is asked first, because a graph would call the function again.
            assert_eq!(function, Err(CudaError::StreamCaptureUnsupported));
            assert_eq!(stream.capture_status(), Ok(CaptureStatus::Active));
            let callback = stream.add_callback(Box::new(move |_| panic!("it was refused, with {b:?}")));
            assert_eq!((callback.is_err(), Arc::strong_count(&held)), (true, 1), "each is dropped at once");
        };
        let (mut ours, mut joined, theirs) = (stream(), stream(), stream());
        let mut graph = ours
            .capture(CaptureMode::ThreadLocal, |capture| {
                twice(capture);
                capture.fork(&mut joined, |joined| {
                    twice(joined);
                    Ok(())
                })
            })
            .unwrap();
        assert_eq!(graph.nodes(), Ok(vec![]));
        assert_eq!(unsafe { (table().cuStreamBeginCapture_v2)(theirs.as_raw(), 1) }, 0);
        twice(&theirs);
        // The callback is the driver's to refuse here, which breaks the capture.
        assert_eq!(unsafe { theirs.end_capture() }.unwrap_err(), CudaError::StreamCaptureInvalidated);
        theirs.synchronize().unwrap();
    });
}

#[test]
fn a_launch_of_nothing_breaks_no_capture() {
    run(|| {
        let _ctx = pushed();
        let module = custack::module::Module::load_from_bytes(crate::module::KERNELS.as_bytes()).unwrap();
        let count_up = module.get_function(c"count_up").unwrap();
        let mut graph = stream()
            .capture(CaptureMode::Relaxed, |capture| {
                something(capture)?;
                for (grid, block) in [((0, 1, 1), (1, 1, 1)), ((1, 1, 1), (0, 1, 1)), ((1, 1, 0), (1, 1, 1))]
                {
                    let configured = LaunchConfig::new(grid, block);
                    let (refused, calls) = instrument::during(|| unsafe {
                        let plain = custack::launch!(count_up<<<grid, block, 0, capture>>>(1u32));
                        [plain, custack::launch!(count_up<<<configured, capture>>>(1u32))]
                    });
                    assert_eq!((refused, calls.total()), ([Err(CudaError::InvalidValue); 2], 0));
                    let said = crate::harness::said(CudaError::InvalidValue);
                    assert!(said.contains("count_up") && said.contains("captures since"), "{said}");
                    // In another stream the driver is asked, as ever.
                    let other = stream();
                    let asked = unsafe { custack::launch!(count_up<<<grid, block, 0, other>>>(1u32)) };
                    assert_eq!(asked, Err(CudaError::InvalidValue));
                }
                assert_eq!(capture.capture_status(), Ok(CaptureStatus::Active));
                Ok(())
            })
            .unwrap();
        assert_eq!(graph.nodes().unwrap().len(), 1);
    });
}
