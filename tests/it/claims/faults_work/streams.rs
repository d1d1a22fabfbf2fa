//! Operations on streams and events.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{Operation, stream};
use custack::context::CurrentContext;
use custack::event::{Event, EventFlags, EventRecordFlags};
use custack::memory::DeviceBuffer;
use custack::stream::{
    BorrowedStream, CaptureMode, LegacyStream, PerThreadStream, StreamWaitEventFlags, SynchronizationPolicy,
    ThreadCaptureMode,
};

pub(super) const OPERATIONS: &[(&str, Operation)] = &[
    ("a stream", || {
        let stream = stream()?;
        stream.add_callback(Box::new(|_| {}))?;
        let _ = (stream.get_flags()?, stream.get_priority()?, stream.id()?, stream.is_done()?);
        stream.synchronize()
    }),
    ("events", || {
        let (stream, start) = (stream()?, Event::new(EventFlags::DEFAULT)?);
        start.record(&stream)?;
        stream.wait_event(&start, StreamWaitEventFlags::DEFAULT)?;
        let end = Event::new(EventFlags::DEFAULT)?;
        end.record(&stream)?;
        end.synchronize()?;
        end.elapsed_time_f32(&start).map(|_| ())
    }),
    ("a host function", || {
        let stream = stream()?;
        stream.launch_host_func(|| {})?;
        stream.synchronize()
    }),
    ("a scope of work that borrows", || {
        let (mut stream, mut there) = (stream()?, DeviceBuffer::from_slice(&[1u32])?);
        let (value, mut seen, mut back) = ([7u32], false, [0u32]);
        stream.sync_scope(|scope| {
            scope.launch_host_func(|| seen = true)?;
            scope.copy_from(&mut there[..], &value[..])
        })?;
        stream.sync_scope(|scope| scope.copy_to(&there[..], &mut back[..]))?;
        assert_eq!((seen, back), (true, [7]));
        Ok(())
    }),
    ("default streams", || {
        let context = CurrentContext::get_current()?;
        for stream in [&*LegacyStream::of(&context), &PerThreadStream::of(&context)] {
            stream.launch_host_func(|| {})?;
            let _ = (stream.get_flags()?, stream.get_priority()?, stream.id()?, stream.is_done()?);
            Event::new(EventFlags::DEFAULT)?.record(stream)?;
            stream.synchronize()?;
        }
        Ok(())
    }),
    ("a borrowed stream", || {
        let stream = stream()?;
        unsafe { BorrowedStream::from_raw(stream.as_raw()) }?.synchronize()
    }),
    ("streams that fork and join", || {
        let (main, other) = (stream()?, stream()?);
        main.fork([&other])?;
        main.join([&other])?;
        main.synchronize()
    }),
    ("attributes of streams", || {
        let (a, b) = (stream()?, stream()?);
        a.set_synchronization_policy(SynchronizationPolicy::Yield)?;
        a.set_priority(-1)?;
        b.copy_attributes(&a)?;
        b.synchronization_policy().map(|_| ())
    }),
    ("events with flags", || {
        let (stream, event) = (stream()?, Event::new(EventFlags::DEFAULT)?);
        event.record_with_flags(&stream, EventRecordFlags::DEFAULT)?;
        event.synchronize()
    }),
    ("events of other processes", || {
        let event = Event::new(EventFlags::INTERPROCESS | EventFlags::DISABLE_TIMING)?;
        event.ipc_handle().map(|_| ())
    }),
    ("a stream that is shut down", || {
        let stream = stream()?;
        stream.launch_host_func(|| {})?;
        stream.shutdown().map_err(|(error, _)| error)
    }),
    ("the capture mode of a thread", || {
        let relaxed = ThreadCaptureMode::exchange(CaptureMode::Relaxed)?;
        let local = ThreadCaptureMode::exchange(CaptureMode::ThreadLocal)?;
        assert_eq!(local.previous(), Some(CaptureMode::Relaxed));
        drop(relaxed);
        Ok(())
    }),
];
