//! Events of other processes.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::event;
use crate::driver::process::{child, child_succeeds};
use crate::harness::{current, parked, pushed, run};
use crate::memory::interprocess::{from_text, have_none, to_text};
use custack::error::CudaError;
use custack::event::{Event, EventFlags, EventStatus, IpcEventHandle};
use custack::stream::{StreamFlags, StreamWaitEventFlags};

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

#[test]
fn another_process_waits_for_an_event() {
    if have_none("another_process_waits_for_an_event") {
        return;
    }
    run(|| {
        let ctx = parked();
        let event = ctx.create_event(FOR_OTHERS).unwrap();
        event.record(&ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap()).unwrap();
        let bytes = event.ipc_handle().unwrap().to_bytes();
        let text = to_text(&bytes);
        child_succeeds("event of another process", &[("CUSTACK_TEST_EVENT", &text)]);
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
        let stream = ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        event.synchronize().unwrap();
        stream.wait_event(&event, StreamWaitEventFlags::DEFAULT).unwrap();
        event.record(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(event.query(), Ok(EventStatus::Ready));
        assert_eq!(event.ipc_handle(), Err(CudaError::InvalidHandle));
        assert!(Event::drop(event).is_ok());
    });
}
