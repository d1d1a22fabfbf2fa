//! Functions of the program that a stream calls.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::stream;
use crate::harness::{pushed, run, within};
use custack::context::CurrentContext;
use custack::error::CudaError;
use custack::launch;
use custack::memory::{CopyDestination, DeviceBuffer};
use custack::stream::{Stream, StreamFlags};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
fn callbacks_run_once_in_their_order_with_the_status() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let seen = Arc::new(Mutex::new(Vec::new()));
        for number in 0..20 {
            let seen = Arc::clone(&seen);
            stream.add_callback(Box::new(move |status| seen.lock().unwrap().push((number, status)))).unwrap();
        }
        stream.synchronize().unwrap();
        let expected: Vec<_> = (0..20).map(|number| (number, Ok(()))).collect();
        assert_eq!(*seen.lock().unwrap(), expected);
    });
}

#[test]
fn a_stream_is_done_when_its_work_is_and_the_program_goes_on_meanwhile() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let (go, wait) = channel::<()>();
        stream.add_callback(Box::new(move |_| wait.recv().unwrap())).unwrap();
        assert_eq!(stream.is_done(), Ok(false));
        go.send(()).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(stream.is_done(), Ok(true));
    });
}

#[test]
fn in_a_callback_every_driver_call_is_refused() {
    run(|| {
        let ctx = pushed();
        let handle = ctx.get_unowned();
        let stream = stream();
        let (tell, told) = channel();
        let call = move |_| {
            let answers = (
                CurrentContext::synchronize(),
                handle.synchronize(),
                Stream::new(StreamFlags::DEFAULT, None),
            );
            tell.send((answers.0, answers.1, answers.2.err())).unwrap();
        };
        stream.add_callback(Box::new(call)).unwrap();
        let (a, b, c) = told.recv().unwrap();
        assert_eq!(a, Err(CudaError::NotPermitted));
        assert_eq!((b, c), (Err(CudaError::NotPermitted), Some(CudaError::NotPermitted)));
        stream.synchronize().unwrap();
    });
}

#[test]
fn a_panic_in_a_callback_goes_no_further() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        stream.add_callback(Box::new(|_| panic!("on purpose, in a callback"))).unwrap();
        let called = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&called);
        stream
            .add_callback(Box::new(move |_| {
                count.fetch_add(1, Ordering::SeqCst);
            }))
            .unwrap();
        stream.synchronize().unwrap();
        assert_eq!(called.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_refused_callback_is_dropped_and_not_kept() {
    run(|| {
        let ctx = pushed();
        let stream = stream();
        drop(ctx);
        let held = Arc::new(());
        let captured = Arc::clone(&held);
        assert!(stream.add_callback(Box::new(move |_| drop(captured))).is_err());
        assert_eq!(Arc::strong_count(&held), 1);
    });
}

#[test]
fn a_callback_that_the_driver_took_and_then_refused_is_not_called() {
    use custack::driver::instrument::{self, When};

    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let (go, wait) = channel::<()>();
        stream.add_callback(Box::new(move |_| wait.recv().unwrap())).unwrap();
        let held = Arc::new(AtomicUsize::new(0));
        let captured = Arc::clone(&held);
        let call = move |_| {
            captured.fetch_add(1, Ordering::SeqCst);
        };
        instrument::fail(Some("cuStreamAddCallback"), 1, 719, When::After);
        assert_eq!(stream.add_callback(Box::new(call)), Err(CudaError::LaunchFailed));
        assert_eq!(Arc::strong_count(&held), 1, "it is dropped at once");
        go.send(()).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(held.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn a_callback_may_panic_with_what_panics_when_dropped() {
    struct Grenade;

    impl Drop for Grenade {
        fn drop(&mut self) {
            panic!("on purpose, in what a callback panicked with");
        }
    }

    run(|| {
        let _ctx = pushed();
        let stream = stream();
        stream.add_callback(Box::new(|_| std::panic::panic_any(Grenade))).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(stream.is_done(), Ok(true));
    });
}

#[test]
fn other_streams_get_and_do_work_while_a_callback_takes_long() {
    within(30, || {
        run(|| {
            let ctx = pushed();
            let module = ctx.load_module(crate::module::KERNELS.as_bytes()).unwrap();
            let (long, other) = (stream(), stream());
            let mut number = DeviceBuffer::from_slice(&[27u32]).unwrap();
            let over = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&over);
            let takes_long = move |_| {
                std::thread::sleep(Duration::from_millis(100));
                count.fetch_add(1, Ordering::SeqCst);
            };
            long.add_callback(Box::new(takes_long)).unwrap();
            let pointer = number.as_device_ptr();
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for _ in 0..20 {
                            unsafe { launch!(module.count_up<<<1, 1, 0, other>>>(1u32)) }.unwrap();
                        }
                    });
                }
            });
            unsafe { launch!(module.collatz<<<1, 1, 0, other>>>(pointer, 1u32)) }.unwrap();
            other.synchronize().unwrap();
            long.synchronize().unwrap();
            let mut back = [0];
            number.copy_to(&mut back).unwrap();
            assert_eq!((back, over.load(Ordering::SeqCst)), ([111], 1));
        });
    });
}
