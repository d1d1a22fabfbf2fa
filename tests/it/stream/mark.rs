//! Streams that wait for each other.

use super::stream;
use crate::harness::{parked, pushed, run};
use custack::driver::instrument::during;
use custack::error::CudaError;
use custack::stream::{LegacyStream, PerThreadStream, Stream, StreamFlags};
use std::sync::mpsc::channel;
use std::time::Duration;

#[test]
fn forked_streams_wait_and_a_joining_one_waits_for_them() {
    run(|| {
        let _ctx = pushed();
        let (main, left, right) = (stream(), stream(), stream());
        for _ in 0..3 {
            let (go, wait) = channel::<()>();
            let (tell, told) = channel();
            let say = |stream: &Stream, word| {
                let tell = tell.clone();
                stream.launch_host_func(move || tell.send(word).unwrap()).unwrap();
            };
            main.launch_host_func(move || wait.recv().unwrap()).unwrap();
            say(&main, 1);
            main.fork([&left, &right]).unwrap();
            say(&left, 2);
            say(&right, 2);
            main.join([&left, &right]).unwrap();
            say(&main, 3);
            assert!(told.recv_timeout(Duration::from_millis(10)).is_err());
            go.send(()).unwrap();
            let came: Vec<_> = told.iter().take(4).collect();
            assert_eq!(came, [1, 2, 2, 3]);
        }
    });
}

#[test]
fn the_events_are_made_once_and_used_again() {
    run(|| {
        let (ctx, other) = (parked(), pushed());
        let [main, left] =
            [&ctx, &other].map(|ctx| ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap());
        let right = stream();
        main.fork([&left, &right]).unwrap();
        main.join([&left, &right]).unwrap();
        let (_, calls) = during(|| main.fork([&left, &right]).unwrap());
        assert_eq!(calls.to_string(), "cuStreamWaitEvent x2, cuEventRecord");
        let (_, calls) = during(|| main.join([&left, &right]).unwrap());
        assert_eq!(calls.to_string(), "cuStreamWaitEvent x2, cuEventRecord x2");
        let (_, calls) = during(|| (main.fork([]).unwrap(), main.join([]).unwrap()));
        assert_eq!(calls.total(), 0);
    });
}

#[test]
fn streams_of_any_kind_fork_and_join() {
    run(|| {
        let (ctx, other) = (parked(), pushed());
        let (legacy, mine) = (LegacyStream::of(&ctx), PerThreadStream::of(&ctx));
        let far = stream();
        let borrowed = far.to_borrowed();
        for _ in 0..2 {
            legacy.fork([&*mine, &borrowed]).unwrap();
            mine.join([&*legacy, &far]).unwrap();
            borrowed.fork([&*legacy]).unwrap();
        }
        for stream in [&*legacy, &mine, &far] {
            stream.synchronize().unwrap();
        }
        drop(other);
        assert_eq!(legacy.fork([&far]), Err(CudaError::ContextIsDestroyed));
        assert_eq!(legacy.join([&far]), Err(CudaError::ContextIsDestroyed));
        assert_eq!(far.fork([&*legacy]), Err(CudaError::ContextIsDestroyed));
    });
}

#[test]
fn many_threads_may_fork_one_stream() {
    run(|| {
        let ctx = parked();
        let main = ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let other = ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
                    for _ in 0..20 {
                        main.fork([&other]).unwrap();
                        main.join([&other]).unwrap();
                    }
                });
            }
        });
        main.synchronize().unwrap();
    });
}
