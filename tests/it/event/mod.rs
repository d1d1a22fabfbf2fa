//! Events.

#[cfg(all(
    feature = "future",
    feature = "graph",
    feature = "green",
    feature = "nvrtc",
    feature = "processes",
    feature = "texture"
))]
pub(crate) mod interprocess;

use crate::harness::{current, parked, pushed, run, times};
use custack::driver::instrument::during;
use custack::error::CudaError;
use custack::event::{Event, EventFlags, EventRecordFlags, EventStatus};
use custack::stream::{Stream, StreamFlags, StreamWaitEventFlags};
use std::sync::mpsc::channel;
use std::time::Duration;

fn stream() -> Stream {
    Stream::new(StreamFlags::NON_BLOCKING, None).unwrap()
}

fn event() -> Event {
    Event::new(EventFlags::DEFAULT).unwrap()
}

#[test]
fn an_event_that_was_never_recorded_is_ready() {
    run(|| {
        assert_eq!(Event::new(EventFlags::DEFAULT).unwrap_err(), CudaError::InvalidContext);
        let ctx = pushed();
        let event = event();
        assert_eq!((event.query(), event.synchronize()), (Ok(EventStatus::Ready), Ok(())));
        assert_eq!(event.context(), &ctx.get_unowned());
    });
}

#[test]
fn an_event_is_ready_when_the_stream_has_come_to_it() {
    run(|| {
        let _ctx = pushed();
        let (stream, event) = (stream(), event());
        let (go, wait) = channel::<()>();
        stream.add_callback(Box::new(move |_| wait.recv().unwrap())).unwrap();
        event.record(&stream).unwrap();
        assert_eq!(event.query(), Ok(EventStatus::NotReady));
        go.send(()).unwrap();
        event.synchronize().unwrap();
        assert_eq!(event.query(), Ok(EventStatus::Ready));
    });
}

#[test]
fn a_stream_waits_for_an_event_lent_or_given() {
    run(|| {
        let _ctx = pushed();
        let (first, second, third) = (stream(), stream(), stream());
        let event = event();
        let (go, wait) = channel::<()>();
        first.add_callback(Box::new(move |_| wait.recv().unwrap())).unwrap();
        event.record(&first).unwrap();
        second.wait_event(&event, StreamWaitEventFlags::DEFAULT).unwrap();
        third.wait_event(event, StreamWaitEventFlags::DEFAULT).unwrap();
        let (tell, told) = channel();
        for (number, stream) in [(2, &second), (3, &third)] {
            let tell = tell.clone();
            stream.add_callback(Box::new(move |_| tell.send(number).unwrap())).unwrap();
        }
        assert!(told.recv_timeout(Duration::from_millis(20)).is_err());
        go.send(()).unwrap();
        let mut came = [told.recv().unwrap(), told.recv().unwrap()];
        came.sort_unstable();
        assert_eq!(came, [2, 3]);
    });
}

#[test]
fn times_grow_from_mark_to_mark() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let marks = [event(), event(), event()];
        for mark in &marks {
            mark.record(&stream).unwrap();
            stream.add_callback(Box::new(|_| std::thread::sleep(Duration::from_millis(5)))).unwrap();
        }
        stream.synchronize().unwrap();
        let near = marks[1].elapsed_time_f32(&marks[0]).unwrap();
        let far = marks[2].elapsed_time_f32(&marks[0]).unwrap();
        assert!(near > 4.0 && far > near + 4.0 && far < 10_000.0, "{near} {far}");
    });
}

#[test]
fn times_need_two_recorded_timed_events() {
    run(|| {
        let _ctx = pushed();
        let (stream, start, end) = (stream(), event(), event());
        assert_eq!(end.elapsed_time_f32(&start), Err(CudaError::InvalidHandle));
        start.record(&stream).unwrap();
        assert_eq!(end.elapsed_time_f32(&start), Err(CudaError::InvalidHandle));
        let untimed = Event::new(EventFlags::DISABLE_TIMING).unwrap();
        untimed.record(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(untimed.elapsed_time_f32(&start), Err(CudaError::InvalidHandle));
        let (go, wait) = channel::<()>();
        stream.add_callback(Box::new(move |_| wait.recv().unwrap())).unwrap();
        end.record(&stream).unwrap();
        assert_eq!(end.elapsed_time_f32(&start), Err(CudaError::NotReady));
        go.send(()).unwrap();
        stream.synchronize().unwrap();
        assert!(end.elapsed_time_f32(&start).unwrap() > 0.0);
    });
}

#[test]
fn an_event_is_recorded_in_streams_of_its_own_context() {
    run(|| {
        let (a, b) = (parked(), parked());
        let in_a = a.scoped(|_| Stream::new(StreamFlags::NON_BLOCKING, None)).unwrap();
        let in_b = b.scoped(|_| Stream::new(StreamFlags::NON_BLOCKING, None)).unwrap();
        let event = a.scoped(|_| Event::new(EventFlags::DEFAULT)).unwrap();
        assert_eq!(event.record(&in_b), Err(CudaError::InvalidHandle));
        event.record(&in_a).unwrap();
        // Waiting for it is for everyone.
        in_b.wait_event(&event, StreamWaitEventFlags::DEFAULT).unwrap();
        in_b.synchronize().unwrap();
    });
}

#[test]
fn flags_that_do_not_go_together_are_refused() {
    run(|| {
        let _ctx = pushed();
        assert_eq!(Event::new(EventFlags::INTERPROCESS).unwrap_err(), CudaError::InvalidValue);
        for flags in [EventFlags::BLOCKING_SYNC, EventFlags::BLOCKING_SYNC | EventFlags::DISABLE_TIMING] {
            Event::new(flags).unwrap();
        }
    });
}

#[test]
fn an_event_that_outlives_its_context_is_inert() {
    run(|| {
        let ctx = pushed();
        let (event, stream) = (event(), stream());
        drop(ctx);
        assert_eq!(event.query(), Err(CudaError::ContextIsDestroyed));
        assert_eq!(event.record(&stream), Err(CudaError::ContextIsDestroyed));
        assert!(Event::drop(event).is_ok());
    });
}

#[test]
#[allow(unsafe_code)]
fn an_event_that_could_not_be_destroyed_comes_back() {
    use custack::driver::instrument::{self, When};
    run(|| {
        let _ctx = pushed();
        let event = event();
        instrument::fail(Some("cuEventDestroy_v2"), 1, 719, When::Before);
        let (error, event) = Event::drop(event).unwrap_err();
        assert_eq!(error, CudaError::LaunchFailed);
        let raw = event.into_raw();
        // SAFETY: an event of the current context that no one else has.
        let again = unsafe { Event::from_raw(raw) }.unwrap();
        assert_eq!(again.as_raw(), raw);
        assert!(Event::drop(again).is_ok());
    });
}

#[test]
fn events_are_recorded_with_flags() {
    run(|| {
        let _ctx = pushed();
        let (stream, event) = (stream(), event());
        event.record_with_flags(&stream, EventRecordFlags::DEFAULT).unwrap();
        event.synchronize().unwrap();
        // There is nothing outside of which it could be.
        let external = event.record_with_flags(&stream, EventRecordFlags::EXTERNAL);
        assert_eq!(external, Err(CudaError::IllegalState));
        assert_eq!(stream.wait_event(&event, StreamWaitEventFlags::EXTERNAL), Err(CudaError::IllegalState));
        // SAFETY: any bits can be asked for.
        #[allow(unsafe_code)]
        let odd = unsafe {
            (EventRecordFlags::from_bits_unchecked(2), StreamWaitEventFlags::from_bits_unchecked(2))
        };
        assert_eq!(event.record_with_flags(&stream, odd.0), Err(CudaError::InvalidValue));
        assert_eq!(stream.wait_event(&event, odd.1), Err(CudaError::InvalidValue));
        let far = parked();
        let far = far.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let (refused, calls) = during(|| event.record_with_flags(&far, EventRecordFlags::DEFAULT));
        assert_eq!((refused, calls.total()), (Err(CudaError::InvalidHandle), 0));
    });
}

#[test]
fn times_are_durations_that_do_not_run_backwards() {
    run(|| {
        let _ctx = pushed();
        let (stream, start, end) = (stream(), event(), event());
        start.record(&stream).unwrap();
        stream.launch_host_func(|| std::thread::sleep(Duration::from_millis(5))).unwrap();
        end.record(&stream).unwrap();
        assert_eq!(end.elapsed_time(&start), Err(CudaError::NotReady));
        stream.synchronize().unwrap();
        let time = end.elapsed_time(&start).unwrap();
        assert!(time > Duration::from_millis(4) && time < Duration::from_secs(10), "{time:?}");
        assert_eq!(start.elapsed_time(&end), Err(CudaError::InvalidValue));
    });
}

#[test]
fn a_stream_is_done_as_soon_as_its_last_event_has_passed() {
    run(|| {
        let _ctx = pushed();
        let (stream, blocking) = (stream(), Stream::new(StreamFlags::DEFAULT, None).unwrap());
        for stream in [&stream, &blocking] {
            for _ in 0..times(50, 500) {
                let event = event();
                stream.add_callback(Box::new(|_| ())).unwrap();
                event.record(stream).unwrap();
                while event.query() != Ok(EventStatus::Ready) {}
                assert_eq!(stream.is_done(), Ok(true));
                event.record(stream).unwrap();
                event.synchronize().unwrap();
                assert_eq!(stream.is_done(), Ok(true));
            }
        }
    });
}

#[test]
fn events_are_made_in_contexts_that_are_not_current() {
    run(|| {
        let (ctx, other) = (parked(), pushed());
        let (event, calls) = during(|| ctx.create_event(EventFlags::BLOCKING_SYNC));
        assert_eq!(calls.to_string(), "cuCtxPushCurrent_v2, cuCtxPopCurrent_v2, cuEventCreate");
        assert_eq!(event.unwrap().context(), &ctx.get_unowned());
        assert_eq!(current(), other.as_raw());
        assert_eq!(ctx.create_event(EventFlags::INTERPROCESS).unwrap_err(), CudaError::InvalidValue);
        let handle = ctx.get_unowned();
        drop(ctx);
        let (refused, calls) = during(|| handle.create_event(EventFlags::DEFAULT));
        assert_eq!((refused.unwrap_err(), calls.total()), (CudaError::ContextIsDestroyed, 0));
    });
}

#[test]
fn a_program_asks_for_elapsed_time_and_a_profiler_by_any_name() {
    run(|| {
        let table = crate::harness::table();
        #[allow(unsafe_code)]
        // SAFETY: the pointers are of locals, and the events live.
        unsafe {
            assert_eq!(((table.cuProfilerStart)(), (table.cuProfilerStop)()), (201, 201));
            let _ctx = pushed();
            assert_eq!(((table.cuProfilerStart)(), (table.cuProfilerStop)()), (0, 0));
            let (stream, begun, ended) = (stream(), event(), event());
            begun.record(&stream).unwrap();
            ended.record(&stream).unwrap();
            stream.synchronize().unwrap();
            let mut millis = -1.0;
            assert_eq!((table.cuEventElapsedTime_v2)(&mut millis, begun.as_raw(), ended.as_raw()), 0);
            assert!(millis >= 0.0, "{millis}");
            let never = event();
            assert_eq!((table.cuEventElapsedTime_v2)(&mut millis, begun.as_raw(), never.as_raw()), 400);
        }
    });
}
