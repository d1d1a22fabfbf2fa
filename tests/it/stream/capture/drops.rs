//! What is dropped while a stream captures is destroyed, is not in the graph, and breaks nothing.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{MODES, is_free, something, stream};
use crate::harness::{is_simulated, parked, pushed, run, run_alone, table};
use custack::context::wait_until_retired;
use custack::driver::instrument::{self, When};
use custack::error::CudaError;
use custack::event::{Event, EventFlags};
use custack::graph::{Graph, GraphExec, InstantiateFlags};
use custack::memory::array::{ArrayFormat, ArrayObject};
use custack::memory::{DeviceBuffer, LockedBuffer, UnifiedBuffer};
use custack::module::Module;
use custack::sim;
use custack::stream::{CaptureMode, CaptureStatus, Stream};
use std::any::Any;

type Thing = Box<dyn Any + Send>;

/// One of each, made in the current context.
fn things() -> Vec<(&'static str, Thing)> {
    let context = stream().context().clone();
    let mut graph = Graph::new(&context).unwrap();
    graph.add_empty(&[]).unwrap();
    let exec: GraphExec = graph.instantiate(InstantiateFlags::empty()).unwrap();
    let event = Event::new(EventFlags::DEFAULT).unwrap();
    vec![
        ("device memory", Box::new(DeviceBuffer::from_slice(&[1u32]).unwrap())),
        ("unified memory", Box::new(UnifiedBuffer::from_slice(&[1u32]).unwrap())),
        ("locked memory", Box::new(LockedBuffer::new(&1u32, 2).unwrap())),
        ("an array", Box::new(ArrayObject::new_1d(4, ArrayFormat::Float, 1).unwrap())),
        ("a stream", Box::new(stream())),
        ("an event", Box::new(event)),
        ("a module", Box::new(Module::load_from_bytes(crate::module::KERNELS.as_bytes()).unwrap())),
        ("a graph", Box::new(graph)),
        ("an executable", Box::new(exec)),
        ("a context", Box::new(parked())),
    ]
}

fn left() -> (usize, usize, i64) {
    let simulated = if is_simulated() { (sim::objects(), sim::allocations()) } else { (0, 0) };
    (simulated.0, simulated.1, instrument::contexts_alive())
}

/// No more is left than before; what earlier tests used may have gone too. The driver and the retirement thread may take
/// a while.
#[track_caller]
fn nothing_is_left(before: (usize, usize, i64)) {
    let begun = std::time::Instant::now();
    let more = |now: (usize, usize, i64)| now.0 > before.0 || now.1 > before.1 || now.2 > before.2;
    while more(left()) {
        assert!(begun.elapsed().as_secs() < 10, "{:?} are left, and there were {before:?}", left());
        wait_until_retired().unwrap();
    }
}

#[test]
fn what_is_dropped_in_a_capture_is_destroyed_and_breaks_nothing() {
    run_alone(|| {
        let _ctx = pushed();
        for mode in MODES {
            let mut capturing = stream();
            let before = left();
            let things = things();
            let mut graph = capturing
                .capture(mode, |capture| {
                    something(capture)?;
                    for (name, thing) in things {
                        drop(thing);
                        assert_eq!(capture.capture_status(), Ok(CaptureStatus::Active), "{name}, {mode:?}");
                    }
                    Ok(())
                })
                .unwrap();
            assert_eq!(graph.nodes().unwrap().len(), 1, "{mode:?}");
            drop(graph);
            nothing_is_left(before);
        }
    });
}

#[test]
fn what_other_threads_drop_breaks_no_global_capture() {
    run_alone(|| {
        let ctx = pushed();
        let mut capturing = stream();
        let before = left();
        let made = std::sync::Mutex::new(things());
        let mut graph = capturing
            .capture(CaptureMode::Global, |capture| {
                something(capture)?;
                let stream: &Stream = capture;
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        let _current = ctx.enter().unwrap();
                        for (name, thing) in made.lock().unwrap().drain(..) {
                            drop(thing);
                            assert_eq!(stream.capture_status(), Ok(CaptureStatus::Active), "{name}");
                        }
                    });
                });
                assert_eq!(capture.capture_status(), Ok(CaptureStatus::Active));
                Ok(())
            })
            .unwrap();
        assert_eq!(graph.nodes().unwrap().len(), 1);
        drop(graph);
        nothing_is_left(before);
    });
}

#[test]
fn a_capture_of_other_code_is_no_reason_to_leak() {
    run_alone(|| {
        let _ctx = pushed();
        let capturing = stream();
        let before = left();
        let things = things();
        assert_eq!(unsafe { (crate::harness::table().cuStreamBeginCapture_v2)(capturing.as_raw(), 0) }, 0);
        // custack does not know of it, so it may be broken, as by any program; but nothing is lost.
        drop(things);
        let mut graph = std::ptr::null_mut();
        assert_eq!(
            unsafe { (crate::harness::table().cuStreamEndCapture)(capturing.as_raw(), &mut graph) },
            901
        );
        nothing_is_left(before);
    });
}

#[test]
fn a_context_that_is_dropped_in_a_capture_of_its_own_ends_it() {
    run_alone(|| {
        let below = pushed();
        for mode in MODES {
            let ctx = pushed();
            let mut capturing = stream();
            let alive = instrument::contexts_alive();
            let result = capturing.capture(mode, |capture| {
                something(capture)?;
                drop(ctx);
                assert_eq!(capture.capture_status(), Err(CudaError::ContextIsDestroyed));
                Ok(())
            });
            assert_eq!(result.unwrap_err(), CudaError::ContextIsDestroyed);
            wait_until_retired().unwrap();
            assert_eq!(instrument::contexts_alive(), alive - 1, "nothing keeps it");
            drop(capturing);
            let mut other = below.scoped(|_| Ok(stream())).unwrap();
            is_free(&mut other);
        }
    });
}

#[test]
fn a_stream_that_is_dropped_while_it_captures_ends_its_capture_and_says_so() {
    run_alone(|| {
        let ctx = pushed();
        let before = left();
        for elsewhere in [false, true] {
            let capturing = stream();
            unsafe { capturing.begin_capture(CaptureMode::Global) }.unwrap();
            if elsewhere {
                std::thread::spawn(move || drop(capturing)).join().unwrap();
            } else {
                let said = crate::report::reported(|| drop(capturing));
                assert_eq!(said.len(), 1, "{said:?}");
                assert!(said[0].1.contains("capture lost") && said[0].1.contains("drops.rs"), "{said:?}");
            }
            // Nothing is forbidden any more.
            drop(DeviceBuffer::from_slice(&[1u32]).unwrap());
            nothing_is_left(before);
        }
        let (capturing, alive) = (stream(), instrument::contexts_alive());
        unsafe { capturing.begin_capture(CaptureMode::Global) }.unwrap();
        drop(ctx);
        drop(capturing);
        wait_until_retired().unwrap();
        assert_eq!(instrument::contexts_alive(), alive - 1, "its capture keeps a context until it is lost");
    });
}

#[test]
fn what_a_capture_keeps_is_destroyed_when_nothing_can_use_it() {
    run(|| {
        let _ctx = pushed();
        let mut capturing = stream();
        let buffer = DeviceBuffer::from_slice(&[1u32]).unwrap();
        let inner: Stream = stream();
        let graph =
            capturing.capture(CaptureMode::ThreadLocal, |capture| capture.keep((buffer, inner))).unwrap();
        drop(graph);
        wait_until_retired().unwrap();
    });
}

#[test]
fn memory_in_stream_order_that_is_dropped_in_a_capture_waits_for_the_work_before_it() {
    run_alone(|| {
        instrument::enable();
        let _ctx = pushed();
        let (mut home, other) = (stream(), stream());
        let frees = || instrument::calls_of_all_threads().of("cuMemFree_v2");
        for used_in_another in [false, true] {
            let before = frees();
            let memory = DeviceBuffer::from_slice_in(&[1u32; 1024], &home).unwrap();
            if used_in_another {
                memory.also_used_in(&other).unwrap();
            }
            let (go, wait) = std::sync::mpsc::channel::<()>();
            let user = if used_in_another { &other } else { &home };
            user.launch_host_func(move || wait.recv().unwrap_or_default()).unwrap();
            let graph = home.capture(CaptureMode::Global, |capture| {
                something(capture)?;
                drop(memory);
                std::thread::sleep(std::time::Duration::from_millis(50));
                assert_eq!(frees(), before, "used in another stream: {used_in_another}");
                go.send(()).unwrap();
                wait_until_retired()?;
                assert_eq!(frees(), before + 1);
                assert_eq!(capture.capture_status(), Ok(CaptureStatus::Active));
                Ok(())
            });
            assert_eq!(graph.unwrap().nodes().unwrap().len(), 1);
        }
    });
}

#[test]
fn memory_that_custacks_thread_frees_later_is_not_in_a_capture_that_has_begun_since() {
    run_alone(|| {
        let _ctx = pushed();
        let before = left();
        let (mut home, other) = (stream(), stream());
        let buffer = DeviceBuffer::from_slice_in(&[1u32], &home).unwrap();
        // Destroying a context waits for its work, and what is retired after it is freed after that.
        let slow = parked();
        let busy = slow.scoped(|_| Ok(stream())).unwrap();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        busy.launch_host_func(move || assert!(wait.recv().is_err())).unwrap();
        other.launch_host_func(move || drop((slow, buffer))).unwrap();
        other.synchronize().unwrap();
        let mut graph = home
            .capture(CaptureMode::Relaxed, |_| {
                drop(go);
                wait_until_retired()
            })
            .unwrap();
        assert_eq!(graph.nodes(), Ok(vec![]));
        drop((graph, busy, home, other));
        nothing_is_left(before);
    });
}

#[test]
fn an_event_that_is_dropped_in_a_capture_leaves_its_handle_to_others() {
    run(|| {
        let _ctx = pushed();
        let (capturing, outside) = (stream(), stream());
        unsafe { capturing.begin_capture(CaptureMode::Relaxed) }.unwrap();
        let event = Event::new(EventFlags::DISABLE_TIMING).unwrap();
        event.record(&capturing).unwrap();
        let raw = event.as_raw();
        // As if the driver had given the handle to the next event at once.
        instrument::fail(Some("cuEventDestroy_v2"), 1, 999, When::Before);
        drop(event);
        let next = unsafe { Event::from_raw(raw) }.unwrap();
        assert_eq!(unsafe { (table().cuEventRecord)(raw, outside.as_raw()) }, 0);
        assert_eq!(next.synchronize(), Ok(()));
        drop(unsafe { capturing.end_capture() }.unwrap());
    });
}

#[test]
fn what_is_dropped_where_the_driver_refuses_calls_breaks_no_capture_of_other_code() {
    run_alone(|| {
        let _ctx = pushed();
        let (capturing, other) = (stream(), stream());
        let before = left();
        let things = things();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let drops = move || {
            assert!(wait.recv().is_err());
            drop(things);
            tell.send(()).unwrap();
        };
        other.launch_host_func(drops).unwrap();
        const GLOBAL: u32 = 0;
        assert_eq!(unsafe { (table().cuStreamBeginCapture_v2)(capturing.as_raw(), GLOBAL) }, 0);
        drop(go);
        told.recv().unwrap();
        wait_until_retired().unwrap();
        let mut graph = std::ptr::null_mut();
        assert_eq!(unsafe { (table().cuStreamEndCapture)(capturing.as_raw(), &mut graph) }, 0);
        assert_eq!(unsafe { (table().cuGraphDestroy)(graph) }, 0);
        nothing_is_left(before);
    });
}
