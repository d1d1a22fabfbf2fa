//! Events of other processes.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::event;
use crate::driver::process::{child, child_succeeds};
use crate::harness::{current, parked, pushed, run};
use crate::memory::interprocess::{from_text, have_none, to_text};
use custack::error::CudaError;
use custack::event::{Event, EventFlags, EventStatus, IpcEventHandle};
use custack::stream::{Stream, StreamFlags, StreamWaitEventFlags};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

const FOR_OTHERS: EventFlags = EventFlags::INTERPROCESS.union(EventFlags::DISABLE_TIMING);

#[test]
fn an_event_for_others_has_a_handle_that_goes_as_bytes() {
    run(|| {
        let (ctx, other) = (parked(), pushed());
        let event = ctx.create_event(FOR_OTHERS).unwrap();
        let handle = event.ipc_handle().unwrap();
        assert_eq!(event.ipc_handle().unwrap(), handle);
        assert_eq!(IpcEventHandle::from_bytes(handle.to_bytes()), handle);
        assert_eq!(current(), other.as_raw());
        drop(ctx);
        assert_eq!(event.ipc_handle(), Err(CudaError::ContextIsDestroyed));
    });
}

#[test]
fn what_is_not_for_others_has_no_handle_and_is_not_opened() {
    run(|| {
        let ctx = pushed();
        assert_eq!(event().ipc_handle(), Err(CudaError::InvalidHandle));
        let event = Event::new(FOR_OTHERS).unwrap();
        let handle = event.ipc_handle().unwrap();
        let garbage = IpcEventHandle::from_bytes([0x5a; 64]);
        for (handle, error) in [(handle, CudaError::InvalidContext), (garbage, CudaError::MapFailed)] {
            assert_eq!(unsafe { Event::open(handle) }.unwrap_err(), error);
            assert_eq!(unsafe { ctx.open_event(handle) }.unwrap_err(), error);
        }
    });
}

/// What two processes tell each other by making files.
struct Signs(PathBuf);

impl Signs {
    fn give(&self, sign: &str) {
        std::fs::write(self.0.join(sign), "").unwrap();
    }

    fn is_given(&self, sign: &str) -> bool {
        self.0.join(sign).exists()
    }

    #[track_caller]
    fn await_one(&self, sign: &str) {
        let begun = Instant::now();
        while !self.is_given(sign) {
            assert!(begun.elapsed().as_secs() < 60, "the other process has not given the sign: {sign}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Work that goes on until the sender is dropped.
fn held(stream: &Stream) -> Sender<()> {
    let (go, wait) = channel::<()>();
    stream.launch_host_func(move || assert!(wait.recv().is_err())).unwrap();
    go
}

#[test]
fn another_process_waits_for_an_event_and_this_one_for_what_it_records() {
    if have_none("another_process_waits_for_an_event_and_this_one_for_what_it_records") {
        return;
    }
    run(|| {
        let ctx = parked();
        let event = ctx.create_event(FOR_OTHERS).unwrap();
        let stream = ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let go = held(&stream);
        event.record(&stream).unwrap();
        let text = to_text(&event.ipc_handle().unwrap().to_bytes());
        let folder = std::env::temp_dir().join(format!("custack-test-event-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let signs = Signs(folder.clone());
        let path = folder.to_str().unwrap().to_owned();
        std::thread::scope(|scope| {
            let variables = [("CUSTACK_TEST_EVENT", text.as_str()), ("CUSTACK_TEST_SIGNS", path.as_str())];
            let child = scope.spawn(move || child_succeeds("event of another process", &variables));
            signs.await_one("it waits");
            // Were it not to wait, it would be through by then, and would miss the next sign.
            std::thread::sleep(Duration::from_millis(100));
            signs.give("the work ends");
            drop(go);
            signs.await_one("it has recorded");
            assert_eq!(event.query(), Ok(EventStatus::NotReady), "the other process's work goes on");
            signs.give("its work may end");
            event.synchronize().unwrap();
            assert!(signs.is_given("its work ends"), "this process did not wait for the other's work");
            child.join().unwrap();
        });
        std::fs::remove_dir_all(folder).unwrap();
        let (status, text) = child("event of another process", &[("CUSTACK_TEST_EVENT", "")]);
        assert!(!status.success(), "{text}");
    });
}

/// What the test above runs in a process of its own.
pub(crate) fn open() {
    run(|| {
        let text = std::env::var("CUSTACK_TEST_EVENT").unwrap();
        let bytes = from_text(&text);
        let ctx = parked();
        let event = unsafe { ctx.open_event(IpcEventHandle::from_bytes(bytes.try_into().unwrap())) }.unwrap();
        let signs = Arc::new(Signs(std::env::var_os("CUSTACK_TEST_SIGNS").unwrap().into()));
        let stream = ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        assert_eq!(event.query(), Ok(EventStatus::NotReady), "the other process's work goes on");
        stream.wait_event(&event, StreamWaitEventFlags::DEFAULT).unwrap();
        let (saw, seen) = channel();
        let there = Arc::clone(&signs);
        stream.launch_host_func(move || saw.send(there.is_given("the work ends")).unwrap()).unwrap();
        signs.give("it waits");
        event.synchronize().unwrap();
        assert!(signs.is_given("the work ends"), "the thread did not wait");
        stream.synchronize().unwrap();
        assert_eq!(seen.recv(), Ok(true), "the stream did not wait");
        let go = held(&stream);
        event.record(&stream).unwrap();
        signs.give("it has recorded");
        signs.await_one("its work may end");
        std::thread::sleep(Duration::from_millis(50));
        signs.give("its work ends");
        drop(go);
        stream.synchronize().unwrap();
        assert_eq!(event.query(), Ok(EventStatus::Ready));
        assert_eq!(event.ipc_handle(), Err(CudaError::InvalidHandle));
        assert!(Event::drop(event).is_ok());
    });
}
