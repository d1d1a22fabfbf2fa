//! Green contexts: entering them, what is made in them, and every order of drops.

use crate::harness::{current, device, drain, is_simulated, other, parked, run, run_alone, start};
use custack::context::{
    ContextStack, CurrentContext, GreenContext, Origin, PrimaryContext, wait_until_retired,
};
use custack::device::{SmResource, SmSplitFlags, WorkqueueScope};
use custack::driver::instrument;
use custack::error::CudaError;
use custack::event::{Event, EventFlags, EventStatus};
use custack::graph::InstantiateFlags;
use custack::memory::{CopyDestination, DeviceBuffer};
use custack::sim;
use custack::stream::{CaptureMode, CaptureStatus, Stream, StreamFlags};
use std::mem;

/// All multiprocessors of the first device.
pub(super) fn all() -> SmResource {
    start();
    device().sm_resource().unwrap()
}

/// A part of about an eighth of the device.
pub(super) fn part() -> SmResource {
    all().split(1, all().count() / 8).unwrap().groups[0]
}

pub(crate) fn green() -> GreenContext {
    GreenContext::new(&part()).unwrap()
}

/// How many green contexts the driver has.
fn at_the_driver(before: i64) -> i64 {
    wait_until_retired().unwrap();
    instrument::contexts_alive() - before
}

#[test]
fn a_split_rounds_up_and_leaves_a_rest() {
    run(|| {
        let all = all();
        let split = all.split(2, all.min_partition() + 1).unwrap();
        assert_eq!(split.groups.len(), 2);
        for group in &split.groups {
            assert_eq!(group.count() % all.alignment(), 0);
            assert!(group.count() > all.min_partition() && group.device() == device());
            assert_eq!((group.min_partition(), group.alignment()), (0, 0));
            assert_eq!(group.split(1, 1).unwrap_err(), CudaError::InvalidResourceConfiguration);
        }
        assert_eq!(split.groups[0].count(), split.groups[1].count());
        let rest = split.rest.unwrap();
        assert_eq!(rest.count() + 2 * split.groups[0].count(), all.count());
        assert!(all.split(1, all.count()).unwrap().rest.is_none());
        let fine = all.split_with(SmSplitFlags::IGNORE_SM_COSCHEDULING, u32::MAX, 1).unwrap();
        assert!(fine.groups.len() > all.split(u32::MAX, 1).unwrap().groups.len());
    });
}

#[test]
fn a_split_that_cannot_be_says_what_was_asked() {
    run(|| {
        let all = all();
        let error = all.split(1, all.count() + 1).unwrap_err();
        assert_eq!(error, CudaError::InvalidResourceConfiguration);
        assert!(crate::harness::said(error).contains(&format!("at least {}", all.count() + 1)), "{error}");
        assert_eq!(all.split(0, 8).unwrap_err(), CudaError::InvalidValue);
        let both = SmSplitFlags::IGNORE_SM_COSCHEDULING | SmSplitFlags::MAX_POTENTIAL_CLUSTER_SIZE;
        assert_eq!(all.split_with(both, 1, 8).unwrap_err(), CudaError::InvalidValue);
        assert_eq!(GreenContext::of_parts(&[]).unwrap_err(), CudaError::InvalidValue);
    });
}

#[test]
fn a_green_context_has_its_part_and_the_primary_context_all() {
    run(|| {
        let mut green = green();
        assert_eq!(green.sm_resource().unwrap().count(), part().count());
        assert_eq!(green.handle().device_resource().unwrap().count(), part().count());
        assert_eq!(green.primary().device_resource().unwrap().count(), all().count());
        assert_eq!((green.device(), green.handle().device()), (device(), Ok(device())));
        assert_eq!(green.handle().origin(), Origin::Green);
        assert_eq!(green.driver_id(), green.handle().driver_id());
        assert_ne!(green.driver_id(), green.primary().driver_id());
        assert!(green.to_string().starts_with("green context "), "{green}");
        assert!(current().is_null(), "nothing is made current");
        let inside = green.scoped(|current| current.handle().device_resource()).unwrap();
        assert_eq!(inside.count(), part().count());
    });
}

#[test]
fn a_scope_makes_it_current_and_restores() {
    run(|| {
        let (outer, mut green) = (parked(), green());
        let scope = outer.enter().unwrap();
        let within = green.enter().unwrap();
        assert_eq!(current(), within.as_raw_context());
        assert_eq!(CurrentContext::get_current().unwrap(), *within.handle());
        assert_eq!(CurrentContext::get_device().unwrap(), device());
        CurrentContext::synchronize().unwrap();
        drop(within);
        assert_eq!(current(), outer.as_raw());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = green.scoped(|_| -> Result<(), CudaError> { panic!("in the scope") });
        }));
        assert!(panicked.is_err());
        assert_eq!(current(), outer.as_raw());
        drop(scope);
        assert_eq!(ContextStack::depth(), 0);
    });
}

#[test]
fn guards_may_be_dropped_in_any_order() {
    run(|| {
        let (outer, mut one, mut two) = (parked(), green(), green());
        let first = one.enter().unwrap();
        let middle = outer.enter().unwrap();
        let last = two.enter().unwrap();
        let (of_two, of_one) = (last.as_raw_context(), first.as_raw_context());
        drop(middle);
        assert_eq!(current(), of_two);
        drop(first);
        assert_eq!(current(), of_two);
        drop(last);
        assert!(current().is_null());
        let again = one.enter().unwrap();
        assert_eq!(current(), of_one);
        drop(again);
    });
}

#[test]
fn a_scope_costs_two_calls_and_two_looks_where_it_is_current() {
    run(|| {
        let mut green = green();
        let (entered, calls) = instrument::during(|| green.enter().map(drop));
        entered.unwrap();
        assert_eq!(calls.to_string(), "cuCtxPushCurrent_v2, cuCtxPopCurrent_v2");
        mem::forget(green.enter().unwrap());
        let (entered, calls) = instrument::during(|| green.enter().map(drop));
        entered.unwrap();
        assert_eq!(calls.to_string(), "cuCtxGetCurrent x2");
        assert_eq!(current(), green.as_raw_context());
        let raw = green.as_raw_context();
        drop(green);
        assert_eq!(drain(), [raw], "a forgotten guard holds its entry");
    });
}

#[test]
fn only_its_owner_makes_it_current() {
    run(|| {
        let mut green = green();
        let handle = green.handle().clone();
        assert_eq!(handle.enter().unwrap_err(), CudaError::NotPermitted);
        assert_eq!(handle.bind(), Err(CudaError::NotPermitted));
        assert_eq!(handle.synchronize(), Err(CudaError::NotPermitted));
        assert_eq!(ContextStack::push(&handle), Err(CudaError::NotPermitted));
        assert_eq!(CurrentContext::set_current(&handle), Err(CudaError::NotPermitted));
        assert!(current().is_null());
        let within = green.enter().unwrap();
        handle.synchronize().unwrap();
        drop(handle.enter().unwrap());
        assert_eq!(current(), within.as_raw_context());
        drop(within);
        drop(green);
        assert_eq!(handle.enter().unwrap_err(), CudaError::ContextIsDestroyed);
        assert_eq!(ContextStack::push(&handle), Err(CudaError::ContextIsDestroyed));
    });
}

#[test]
fn it_may_go_to_another_thread_unless_a_forgotten_guard_holds_it() {
    run(|| {
        let mut green = green();
        drop(green.enter().unwrap());
        mem::forget(green.enter().unwrap());
        let raw = green.as_raw_context();
        let mut green = std::thread::scope(|scope| {
            let there = scope.spawn(move || {
                let error = green.enter().map(drop).unwrap_err();
                assert_eq!(error, CudaError::HeldByGuard);
                green
            });
            there.join().unwrap()
        });
        drop(green.enter().unwrap());
        assert_eq!(drain(), [raw]);
        let mut green = std::thread::spawn(move || {
            let mut other = self::green();
            mem::forget(other.enter().unwrap());
            drop(green);
            other
        })
        .join()
        .unwrap();
        drop(green.enter().expect("the thread that had it has ended"));
        assert!(current().is_null());
    });
}

#[test]
fn what_is_made_in_it_is_the_primary_context_s() {
    run(|| {
        let mut green = green();
        let primary = green.primary().get_unowned();
        let (buffer, event, stream) = green
            .scoped(|_| {
                let buffer = DeviceBuffer::from_slice(&[1u32, 2, 3])?;
                let event = Event::new(EventFlags::DEFAULT)?;
                let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
                Ok::<_, CudaError>((buffer, event, stream))
            })
            .unwrap();
        assert_eq!((event.context(), stream.context()), (&primary, &primary));
        assert!(green.has(&stream).unwrap());
        let share = PrimaryContext::retain(device()).unwrap();
        drop(green);
        let mut back = [0; 3];
        buffer.copy_to(&mut back).unwrap();
        assert_eq!(back, [1, 2, 3]);
        event.record(&stream).unwrap();
        event.synchronize().unwrap();
        drop((stream, event, buffer));
        drop(share);
    });
}

#[test]
fn streams_of_the_primary_context_are_not_its() {
    run(|| {
        let (green, other) = (green(), green());
        let own = green.create_stream(Some(-100)).unwrap();
        let plain = green.primary().create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let has = |green: &GreenContext| [green.has(&own).unwrap(), green.has(&plain).unwrap()];
        assert_eq!((has(&green), has(&other)), ([true, false], [false, false]));
        assert_eq!(own.get_flags().unwrap(), StreamFlags::NON_BLOCKING);
        let range = green.primary().stream_priority_range().unwrap();
        assert_eq!(own.get_priority().unwrap(), range.greatest);
        assert_eq!(own.device().unwrap(), device());
    });
}

#[test]
fn settings_are_the_primary_context_s() {
    run_alone(|| {
        use custack::context::{ContextFlags, ResourceLimit};
        let mut green = green();
        let primary = green.primary().get_unowned();
        let before = primary.limit(ResourceLimit::PrintfFifoSize).unwrap();
        let twice = 2 * before;
        green
            .scoped(|current| {
                current.handle().set_limit(ResourceLimit::PrintfFifoSize, twice)?;
                assert_eq!(current.handle().limit(ResourceLimit::PrintfFifoSize), Ok(twice));
                current.handle().flags()
            })
            .map(|flags| assert!(flags.contains(ContextFlags::MAP_HOST)))
            .unwrap();
        assert_eq!(primary.limit(ResourceLimit::PrintfFifoSize), Ok(twice));
        primary.set_limit(ResourceLimit::PrintfFifoSize, before).unwrap();
    });
}

#[test]
fn events_of_the_whole_come_after_all_its_work_and_before_later_work() {
    run(|| {
        let (green, aside) = (green(), green());
        let streams = [green.create_stream(None).unwrap(), green.create_stream(None).unwrap()];
        let beside = aside.create_stream(None).unwrap();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let done = green.primary().create_event(EventFlags::DISABLE_TIMING).unwrap();
        let of_aside = green.primary().create_event(EventFlags::DISABLE_TIMING).unwrap();
        let wait = std::sync::Mutex::new(wait);
        streams[1].launch_host_func(move || wait.lock().unwrap().recv().unwrap()).unwrap();
        green.record_event(&done).unwrap();
        aside.record_event(&of_aside).unwrap();
        of_aside.synchronize().unwrap();
        assert_eq!(done.query(), Ok(EventStatus::NotReady), "another's work is not waited for");
        aside.wait_event(&done).unwrap();
        let (told, hear) = std::sync::mpsc::channel();
        beside.launch_host_func(move || told.send(()).unwrap()).unwrap();
        assert!(hear.try_recv().is_err());
        go.send(()).unwrap();
        done.synchronize().unwrap();
        hear.recv().unwrap();
        beside.synchronize().unwrap();
        green.synchronize().unwrap();
    });
}

#[test]
fn whole_contexts_record_their_own_events_and_wait_for_any() {
    run(|| {
        let (here, there) = (parked(), parked());
        let event = here.create_event(EventFlags::DISABLE_TIMING).unwrap();
        here.record_event(&event).unwrap();
        there.wait_event(&event).unwrap();
        assert_eq!(there.record_event(&event), Err(CudaError::InvalidHandle));
        let green = green();
        assert_eq!(green.record_event(&event), Err(CudaError::InvalidHandle));
        green.wait_event(&event).unwrap();
        green.primary().wait_event(&event).unwrap();
        drop(here);
        assert_eq!(there.wait_event(&event), Err(CudaError::ContextIsDestroyed));
        event.synchronize().unwrap_err();
    });
}

#[test]
fn a_capture_is_not_broken_by_an_event_of_the_whole() {
    run(|| {
        let green = green();
        let mut stream = green.create_stream(None).unwrap();
        let event = green.primary().create_event(EventFlags::DISABLE_TIMING).unwrap();
        let graph = stream.capture(CaptureMode::Relaxed, |capture| {
            assert_eq!(green.record_event(&event), Err(CudaError::StreamCaptureUnsupported));
            assert_eq!(green.wait_event(&event), Err(CudaError::StreamCaptureUnsupported));
            assert_eq!(green.primary().record_event(&event), Err(CudaError::StreamCaptureUnsupported));
            assert_eq!(green.synchronize(), Err(CudaError::StreamCaptureUnsupported));
            assert_eq!(capture.capture_status(), Ok(CaptureStatus::Active));
            capture.launch_host_func(|| {})
        });
        assert_eq!(graph.unwrap().nodes().unwrap().len(), 1);
        green.record_event(&event).unwrap();
    });
}

#[test]
fn the_driver_destroys_it_after_its_last_stream() {
    run_alone(|| {
        let before = instrument::contexts_alive();
        let share = PrimaryContext::retain(device()).unwrap();
        let mut green = green();
        let handle = green.handle().clone();
        let made = green.create_stream(None).unwrap();
        let inside = green.scoped(|_| Stream::new(StreamFlags::DEFAULT, None)).unwrap();
        assert_eq!(at_the_driver(before), 1);
        drop(green);
        assert!(!handle.is_alive());
        assert_eq!(handle.driver_id(), Err(CudaError::ContextIsDestroyed));
        made.synchronize().unwrap();
        drop(made);
        assert_eq!(at_the_driver(before), 1);
        Stream::drop(inside).unwrap();
        assert_eq!(at_the_driver(before), 0);
        drop(share);
    });
}

#[test]
fn every_order_of_drops_leaves_nothing() {
    #[derive(Clone, Copy)]
    enum What {
        Green,
        Stream,
        Inside,
        Memory,
        Share,
    }
    use What::{Green, Inside, Memory, Share, Stream as Own};
    let mut orders = vec![vec![]];
    for what in [Green, Own, Inside, Memory, Share] {
        let longer = orders.iter().flat_map(|order: &Vec<What>| {
            (0..=order.len()).map(move |at| {
                let mut longer = order.clone();
                longer.insert(at, what);
                longer
            })
        });
        orders = longer.collect();
    }
    assert_eq!(orders.len(), 120);
    run_alone(|| {
        for (number, order) in orders.iter().enumerate() {
            // A real driver takes a large part of a second for each life of the primary context.
            let _lives =
                (!is_simulated() && number % 12 != 0).then(|| PrimaryContext::retain(device()).unwrap());
            let (before, objects, memory) =
                (instrument::contexts_alive(), sim::objects(), sim::allocations());
            let retains = instrument::primary_retains();
            let mut share = Some(PrimaryContext::retain(device()).unwrap());
            let mut green = green();
            let mut own = Some(green.create_stream(None).unwrap());
            let made = green.scoped(|_| {
                let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
                Ok::<_, CudaError>((stream, DeviceBuffer::from_slice(&[7u32; 100])?))
            });
            let (stream, buffer) = made.unwrap();
            let (mut green, mut inside, mut buffer) = (Some(green), Some(stream), Some(buffer));
            for what in order {
                match what {
                    Green => drop(green.take()),
                    Own => drop(own.take()),
                    Inside => drop(inside.take()),
                    Memory => drop(buffer.take()),
                    Share => drop(share.take()),
                }
            }
            assert_eq!((at_the_driver(before), instrument::primary_retains()), (0, retains));
            if is_simulated() {
                assert_eq!((sim::objects(), sim::allocations()), (objects, memory));
            }
        }
    });
}

#[test]
fn a_drop_in_a_host_function_and_at_the_end_of_a_thread_is_made_good() {
    run_alone(|| {
        let before = instrument::contexts_alive();
        let share = PrimaryContext::retain(device()).unwrap();
        let stream = share.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let (dropped, streams) = (green(), green());
        let own = streams.create_stream(None).unwrap();
        stream.launch_host_func(move || drop((dropped, streams, own))).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(at_the_driver(before), 0);
        thread_local! {
            static LEFT: std::cell::RefCell<Option<(GreenContext, Stream)>> = const { std::cell::RefCell::new(None) };
        }
        std::thread::spawn(|| {
            let green = green();
            let stream = green.create_stream(None).unwrap();
            LEFT.set(Some((green, stream)));
        })
        .join()
        .unwrap();
        assert_eq!(at_the_driver(before), 0);
        drop((stream, share));
    });
}

#[test]
fn a_destroyed_one_that_is_current_is_popped_where_it_is_dropped() {
    run(|| {
        let mut green = green();
        let raw = green.as_raw_context();
        mem::forget(green.enter().unwrap());
        other::push(raw);
        assert_eq!(other::pop(), Ok(raw));
        assert_eq!(current(), raw);
        drop(green);
        assert_eq!(CurrentContext::synchronize(), Err(CudaError::ContextIsDestroyed));
        assert_eq!(CurrentContext::get_device(), Ok(device()));
        assert_eq!(drain(), [raw]);
    });
}

#[test]
fn a_graph_keeps_the_green_context_in_whose_stream_it_was_captured() {
    run_alone(|| {
        let before = instrument::contexts_alive();
        let share = PrimaryContext::retain(device()).unwrap();
        let green = green();
        let mut stream = green.create_stream(None).unwrap();
        let mut graph =
            stream.capture(CaptureMode::Relaxed, |capture| capture.launch_host_func(|| {})).unwrap();
        let executable = graph.instantiate(InstantiateFlags::empty()).unwrap();
        drop((green, stream));
        assert_eq!(at_the_driver(before), 1);
        assert_eq!(graph.instantiate(InstantiateFlags::empty()).unwrap_err(), CudaError::ContextIsDestroyed);
        drop(graph);
        assert_eq!(at_the_driver(before), 1);
        drop(executable);
        assert_eq!(at_the_driver(before), 0);
        drop(share);
    });
}

#[test]
fn a_driver_that_is_too_old_says_which_version_has_it() {
    run(|| {
        let _ctx = crate::harness::pushed();
        instrument::fail(Some("cuDeviceGetDevResource"), 1, 36, instrument::When::Before);
        let error = device().sm_resource().unwrap_err();
        assert_eq!(error, CudaError::CallRequiresNewerDriver);
        let text = crate::harness::said(error);
        assert!(text.contains("cuDeviceGetDevResource") && text.contains("CUDA 12.4"), "{text}");
    });
}

#[test]
fn what_came_after_the_driver_is_refused_with_the_version_that_has_it() {
    run(|| {
        let ctx = crate::harness::pushed();
        let stream = ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        match stream.device_resource() {
            Err(CudaError::CallRequiresNewerDriver) => {
                let text = crate::harness::said(stream.device_resource().unwrap_err());
                assert!(text.contains("cuStreamGetDevResource") && text.contains("CUDA 13.1"), "{text}");
                for config in [ctx.workqueue_config(), device().workqueue_config()] {
                    assert_eq!(config.map(drop), Err(CudaError::InvalidResourceType));
                    let text = crate::harness::said(device().workqueue_config().unwrap_err());
                    assert!(text.contains("work queues, which came with CUDA 13.1"), "{text}");
                }
            }
            part => {
                assert_eq!(part.unwrap().count(), all().count());
                let green = green();
                let of_part = green.create_stream(None).unwrap().device_resource().unwrap();
                assert_eq!(of_part.count(), green.sm_resource().unwrap().count());
                let config = ctx.workqueue_config().unwrap();
                assert!(config.concurrency_limit() > 0, "{config:?}");
                assert_eq!(config.scope(), WorkqueueScope::DeviceContexts);
            }
        }
        drop(stream);
        drop(ctx);
    });
}

#[test]
fn what_was_made_in_an_unrelated_context_is_refused_before_the_driver_is_asked() {
    run(|| {
        let (green, unrelated) = (green(), parked());
        let stream = green.create_stream(None).unwrap();
        let event = unrelated.create_event(EventFlags::DEFAULT).unwrap();
        let (results, calls) = instrument::during(|| (event.record(&stream), green.record_event(&event)));
        let refused = Err(CudaError::InvalidHandle);
        assert_eq!((results, calls.to_string()), ((refused, refused), String::new()));
    });
}
