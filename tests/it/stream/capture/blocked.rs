//! A driver that blocks while captures are in progress, as a stream that has no room for more work may: threads that use
//! other streams and events go on, and those that use the same ones do not wait for ever.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::harness::{parked, run, within};
use custack::context::Context;
use custack::driver::instrument;
use custack::error::{CudaError, CudaResult};
use custack::event::{Event, EventFlags};
use custack::memory::DeviceBuffer;
use custack::stream::{CaptureMode, Stream, StreamFlags, StreamWaitEventFlags};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

fn stream(context: &Context) -> Stream {
    context.create_stream(StreamFlags::NON_BLOCKING, None).unwrap()
}

fn event(context: &Context) -> Event {
    context.create_event(EventFlags::DISABLE_TIMING).unwrap()
}

/// What one thread uses, beside a capture in `origin`.
struct Things {
    origin: Stream,
    /// Recorded in the capture.
    forks: Event,
    /// In no capture, with memory in its order.
    stream: Stream,
    memory: DeviceBuffer<u32>,
    event: Event,
}

impl Things {
    fn new(context: &Context) -> Things {
        let [origin, stream] = [(); 2].map(|()| self::stream(context));
        let [forks, event] = [(); 2].map(|()| self::event(context));
        let memory = DeviceBuffer::from_slice_in(&[1u32; 8], &stream).unwrap();
        event.record(&stream).unwrap();
        unsafe { origin.begin_capture(CaptureMode::Relaxed) }.unwrap();
        forks.record(&origin).unwrap();
        Things { origin, forks, stream, memory, event }
    }

    /// The stream takes part in the capture, from here to its end.
    fn join(&self) -> CudaResult<()> {
        self.stream.wait_event(&self.forks, StreamWaitEventFlags::DEFAULT)?;
        self.event.record(&self.stream)?;
        self.origin.wait_event(&self.event, StreamWaitEventFlags::DEFAULT)
    }

    /// A capture of the stream itself.
    fn capture(&self) -> CudaResult<()> {
        unsafe {
            self.stream.begin_capture(CaptureMode::Relaxed)?;
            self.stream.end_capture().map(drop)
        }
    }

    /// All that threads do with such things.
    fn everything(self, context: &Context) {
        self.event.record(&self.stream).unwrap();
        self.stream.wait_event(&self.event, StreamWaitEventFlags::DEFAULT).unwrap();
        self.capture().unwrap();
        drop(self.memory);
        self.stream.wait_event(&self.forks, StreamWaitEventFlags::DEFAULT).unwrap();
        event(context).record(&self.stream).unwrap();
        self.event.record(&self.stream).unwrap();
        self.origin.wait_event(&self.event, StreamWaitEventFlags::DEFAULT).unwrap();
        unsafe { self.origin.end_capture() }.unwrap();
    }
}

type Call = fn(&Things) -> CudaResult<()>;

/// What blocks, and in which call of the driver.
const BLOCKED: [(&str, Call); 13] = [
    ("cuEventRecord", |it| it.event.record(&it.stream)),
    ("cuEventRecord", |it| it.forks.record(&it.stream)),
    ("cuEventRecord", |it| it.forks.record(&it.origin)),
    ("cuStreamWaitEvent", |it| it.stream.wait_event(&it.event, StreamWaitEventFlags::DEFAULT)),
    ("cuStreamWaitEvent", Things::join),
    ("cuStreamGetFlags", Things::join),
    ("cuStreamIsCapturing", Things::join),
    ("cuEventRecord", Things::join),
    ("cuEventCreate", Things::capture),
    ("cuEventRecord", Things::capture),
    ("cuStreamBeginCapture_v2", Things::capture),
    ("cuStreamIsCapturing", Things::capture),
    ("cuStreamEndCapture", Things::capture),
];

/// Makes the call on another thread, and `meanwhile` what this thread does while it is blocked.
fn blocked(context: &Context, (function, call): (&'static str, Call), meanwhile: impl FnOnce(&Things)) {
    let things = Things::new(context);
    let ((tell, is_blocked), (go_on, goes_on)) = (channel(), channel());
    thread::scope(|scope| {
        let things = &things;
        let blocked = scope.spawn(move || {
            instrument::wait_in(function, move || {
                tell.send(()).unwrap();
                goes_on.recv().unwrap();
            });
            call(things)
        });
        is_blocked.recv().unwrap();
        meanwhile(things);
        go_on.send(()).unwrap();
        assert_eq!(blocked.join().unwrap(), Ok(()), "{function}");
    });
    unsafe { things.origin.end_capture() }.unwrap();
}

#[test]
fn a_driver_that_blocks_in_one_thread_keeps_no_other_from_its_own_captures() {
    within(120, || {
        run(|| {
            let context = parked();
            for call in BLOCKED {
                blocked(&context, call, |_| Things::new(&context).everything(&context));
            }
        });
    });
}

#[test]
fn a_thread_that_uses_what_another_is_blocked_with_is_refused_in_the_end() {
    within(120, || {
        run(|| {
            let context = parked();
            let join: (&str, Call) = ("cuStreamWaitEvent", Things::join);
            blocked(&context, join, |it| {
                let refused = Err(CudaError::IllegalState);
                assert_eq!(it.forks.record(&stream(&context)), refused);
                assert_eq!(unsafe { it.stream.begin_capture(CaptureMode::Relaxed) }, refused);
            });
            let begin: (&str, Call) = ("cuStreamBeginCapture_v2", Things::capture);
            blocked(&context, begin, |it| {
                assert_eq!(unsafe { it.stream.end_capture() }.map(drop), Err(CudaError::IllegalState));
            });
            blocked(&context, END, |it| {
                assert_eq!(it.event.record(&it.stream), Err(CudaError::IllegalState));
            });
        });
    });
}

const END: (&str, Call) = ("cuStreamEndCapture", Things::capture);

#[test]
fn a_thread_waits_for_the_end_of_the_capture_that_has_what_it_uses_and_of_no_other() {
    within(60, || {
        run(|| {
            let context = parked();
            blocked(&context, END, |_| {
                let things = Things::new(&context);
                let (tell, is_ending) = channel();
                thread::scope(|scope| {
                    let things = &things;
                    scope.spawn(move || {
                        instrument::wait_in("cuStreamEndCapture", move || {
                            tell.send(()).unwrap();
                            thread::sleep(Duration::from_millis(50));
                        });
                        things.capture().unwrap();
                    });
                    is_ending.recv().unwrap();
                    assert_eq!(things.event.record(&things.stream), Ok(()));
                });
                unsafe { things.origin.end_capture() }.unwrap();
            });
        });
    });
}

#[test]
fn threads_that_record_one_event_beside_a_capture_do_not_wait_for_each_other() {
    within(60, || {
        run(|| {
            let context = parked();
            let record: (&str, Call) = ("cuEventRecord", |it| it.event.record(&it.stream));
            blocked(&context, record, |it| {
                assert_eq!(it.event.record(&stream(&context)), Ok(()));
            });
        });
    });
}
