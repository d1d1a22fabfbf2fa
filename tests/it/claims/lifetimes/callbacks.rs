//! Owners, buffers and streams that are dropped in callbacks and during waiting calls.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{drop_in_callback, stream_of};
use crate::harness::{drain, is_simulated, parked, pushed, run, run_alone, start, within};
use custack::context::{Context, ContextStack, CurrentContext, PrimaryContext, wait_until_retired};
use custack::driver::instrument::{self};
use custack::error::CudaError;
use custack::event::{Event, EventFlags};
use custack::memory::{DeviceBox, DeviceBuffer, LockedBuffer, UnifiedBox, UnifiedBuffer};
use custack::module::Module;
use custack::sim;
use custack::stream::{Stream, StreamFlags};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

#[test]
fn a_callback_may_drop_the_owner_that_another_thread_waits_for() {
    run_alone(|| {
        within(20, || {
            let ctx = parked();
            let (handle, stream) = (ctx.get_unowned(), stream_of(&ctx));
            let go = drop_in_callback(&stream, ctx);
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| stream.synchronize());
                std::thread::sleep(Duration::from_millis(20));
                go();
                assert_eq!(waiting.join().unwrap(), Ok(()));
            });
            wait_until_retired().unwrap();
            assert!(!handle.is_alive());
            assert_eq!(stream.synchronize(), Err(CudaError::ContextIsDestroyed));
        });
    });
}

#[test]
fn a_callback_may_drop_the_last_memory_of_a_context_that_another_thread_waits_for() {
    run_alone(|| {
        within(20, || {
            let ctx = parked();
            let stream = stream_of(&ctx);
            let locked = ctx.scoped(|_| LockedBuffer::new(&0u8, 16)).unwrap();
            let go = drop_in_callback(&stream, locked);
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| stream.synchronize());
                std::thread::sleep(Duration::from_millis(20));
                drop(ctx);
                go();
                assert_eq!(waiting.join().unwrap(), Ok(()));
            });
            wait_until_retired().unwrap();
        });
    });
}

#[test]
fn what_a_callback_drops_is_destroyed_soon_after_without_a_wait() {
    run_alone(|| {
        let (objects, allocations) = (sim::objects(), sim::allocations());
        let keeps = parked();
        let ctx = parked();
        let handle = ctx.get_unowned();
        let things = keeps
            .scoped(|_| {
                let module = Module::load_from_bytes(crate::module::KERNELS.as_bytes())?;
                let event = Event::new(EventFlags::DEFAULT)?;
                let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
                let memory =
                    (DeviceBox::new(&1u8)?, DeviceBuffer::from_slice(&[1u8])?, UnifiedBox::new(1u8)?);
                Ok((module, event, stream, memory, LockedBuffer::new(&1u8, 4)?, UnifiedBuffer::new(&1u8, 4)?))
            })
            .unwrap();
        let stream = stream_of(&keeps);
        let go = drop_in_callback(&stream, (ctx, things));
        drop(stream);
        go();
        // No thread waits for the callback; once it has run, what it dropped can be waited for.
        within(20, move || {
            while handle.is_alive() {
                std::thread::yield_now();
            }
            assert!(handle.clone().synchronize().is_err());
            wait_until_retired().unwrap();
            assert!(!handle.is_alive(), "dead contexts stay dead");
        });
        keeps.synchronize().unwrap();
        wait_until_retired().unwrap();
        drop(keeps);
        if is_simulated() {
            assert_eq!((sim::objects(), sim::allocations()), (objects, allocations));
        }
    });
}

#[test]
fn in_a_callback_every_call_is_refused_without_asking() {
    run(|| {
        let ctx = pushed();
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        let (tell, told) = channel();
        let handle = ctx.get_unowned();
        let primary = PrimaryContext::retain(crate::harness::device()).unwrap();
        let callback = move |_| {
            let (answers, calls) = instrument::during(|| {
                let primary = PrimaryContext::drop(primary);
                let answers = [
                    handle.synchronize().err(),
                    handle.enter().err(),
                    handle.driver_id().err(),
                    ContextStack::push(&handle).err(),
                    ContextStack::pop().err(),
                    CurrentContext::get_current().err(),
                    CurrentContext::set_current(&handle).err(),
                    DeviceBuffer::from_slice(&[1u8]).err(),
                    Stream::new(StreamFlags::DEFAULT, None).err(),
                    wait_until_retired().err(),
                    primary.as_ref().err().map(|(error, _)| *error),
                    start().version().err(),
                ];
                let _ = start().to_string();
                let comes_back = primary.err().is_some_and(|(_, primary)| primary.is_alive());
                (answers, comes_back)
            });
            tell.send((answers, calls.total())).unwrap();
        };
        stream.add_callback(Box::new(callback)).unwrap();
        let ((answers, comes_back), calls) = told.recv().unwrap();
        assert_eq!(answers, [Some(CudaError::NotPermitted); 12]);
        assert!(comes_back, "refused before anything was done");
        assert_eq!(calls, 0);
        wait_until_retired().unwrap();
        drain();
    });
}

#[test]
fn dropping_an_owner_waits_for_no_other_threads_call() {
    run_alone(|| {
        let ctx = parked();
        let (handle, stream) = (ctx.get_unowned(), stream_of(&ctx));
        let (go, wait) = channel::<()>();
        stream
            .add_callback(Box::new(move |_| {
                let _ = wait.recv();
            }))
            .unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| stream.synchronize());
            std::thread::sleep(Duration::from_millis(50));
            let start = Instant::now();
            Context::drop(ctx).unwrap();
            assert!(start.elapsed() < Duration::from_secs(1), "it would have waited for ever");
            assert!(!handle.is_alive() && !waiting.is_finished());
            go.send(()).unwrap();
            assert_eq!(waiting.join().unwrap(), Ok(()));
        });
        wait_until_retired().unwrap();
    });
}

#[test]
fn retirement_invalidates_no_capture() {
    run_alone(|| {
        let table = crate::harness::table();
        let (begin, end, destroy) =
            (table.cuStreamBeginCapture_v2, table.cuStreamEndCapture, table.cuGraphDestroy);
        let ctx = pushed();
        let gone = parked();
        let things = gone
            .scoped(|_| Ok((DeviceBuffer::from_slice(&[1u8; 64])?, LockedBuffer::new(&0u8, 64)?)))
            .unwrap();
        let more = (DeviceBuffer::from_slice(&[1u8; 64]).unwrap(), Event::new(EventFlags::DEFAULT).unwrap());
        let (busy, captured) = (stream_of(&ctx), stream_of(&ctx));
        let go = drop_in_callback(&busy, (gone, things, more));
        const GLOBAL: u32 = 0;
        assert_eq!(unsafe { begin(captured.as_raw(), GLOBAL) }, 0);
        let frees = instrument::succeeded("cuMemFree_v2");
        go();
        // On this thread no call may be made that a capture forbids; the retirement thread has a mode of its own.
        while instrument::succeeded("cuMemFree_v2") < frees + 2 {
            std::thread::yield_now();
        }
        wait_until_retired().unwrap();
        let mut graph = std::ptr::null_mut();
        assert_eq!(unsafe { end(captured.as_raw(), &mut graph) }, 0, "901 if it was invalidated");
        assert!(!graph.is_null());
        assert_eq!(unsafe { destroy(graph) }, 0);
        busy.synchronize().unwrap();
        drop(ctx);
        drain();
    });
}
