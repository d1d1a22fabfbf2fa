//! What wakers do, and how many there may be.

use super::{Calling, Counting, block_on, held, poll, stream};
use crate::harness::{owned_by, parked, pushed, run, run_alone, within};
use custack::context::{Context, CurrentContext, wait_until_retired};
use custack::driver::instrument;
use custack::error::{CudaError, CudaResult};
use custack::memory::DeviceBuffer;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{ThreadId, current, yield_now};
use std::time::{Duration, Instant};

#[test]
fn the_last_waker_is_called_and_the_others_are_not() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let wakers = [Counting::waker(), Counting::waker(), Counting::waker()];
        let go = held(&stream);
        let mut completion = stream.completion().unwrap();
        for (_, waker) in &wakers {
            assert!(poll(&mut completion, waker).is_pending());
        }
        drop(go);
        wakers[2].0.reaches(1);
        assert_eq!((wakers[0].0.count(), wakers[1].0.count()), (0, 0));
        for (counting, waker) in wakers {
            drop(waker);
            owned_by(&counting, 1);
        }
    });
}

#[test]
fn a_waker_may_drop_the_last_owners_and_is_refused_driver_calls() {
    within(60, || {
        run_alone(|| {
            let before = instrument::contexts_alive();
            let ctx: Context = parked();
            let working = ctx.scoped(|_| Ok(stream())).unwrap();
            let buffer = ctx.scoped(|_| DeviceBuffer::from_slice(&[1u8; 64])).unwrap();
            let (tell, told) = channel();
            let go = held(&working);
            let mut completion = working.completion().unwrap();
            let owned = (working, buffer, ctx);
            let waker = Calling::waker(move || {
                let waited = owned.0.completion().map(drop);
                let answer = (CurrentContext::get_current().map(drop), waited, wait_until_retired());
                drop(owned);
                tell.send(answer).unwrap();
            });
            assert!(poll(&mut completion, &waker).is_pending());
            drop((waker, go));
            let refused = Err(CudaError::NotPermitted);
            assert_eq!(told.recv().unwrap(), (refused, refused, refused));
            drop(completion);
            let begun = Instant::now();
            while instrument::contexts_alive() != before {
                wait_until_retired().unwrap();
                assert!(begun.elapsed().as_secs() < 10, "the context is left");
            }
        });
    });
}

#[test]
fn a_waker_that_panics_harms_no_other_completion() {
    run(|| {
        let _ctx = pushed();
        let streams = [stream(), stream()];
        let go: Vec<_> = streams.iter().map(held).collect();
        let mut completions = streams.each_ref().map(|stream| stream.completion().unwrap());
        let (woken, waker) = Counting::waker();
        assert!(poll(&mut completions[0], &Calling::waker(|| panic!("by a waker"))).is_pending());
        assert!(poll(&mut completions[1], &waker).is_pending());
        drop(go);
        woken.reaches(1);
        completions.into_iter().for_each(|one| assert_eq!(one.wait(), Ok(())));
        streams[0].completion().unwrap().wait().unwrap();
    });
}

#[test]
fn no_completion_of_many_threads_is_lost() {
    // As many as a GPU does in a second, and fewer where an interpreter does it.
    let each = if crate::harness::is_simulated() { 300 } else { 6_250 };
    within(200, move || {
        run_alone(move || {
            let ctx = parked();
            let values = Arc::new(());
            std::thread::scope(|scope| {
                for _ in 0..16 {
                    scope.spawn(|| {
                        let stream = ctx.scoped(|_| Ok(stream())).unwrap();
                        let mut open = Vec::new();
                        for number in 0..each {
                            let value = (number, Arc::clone(&values));
                            let completion = stream.enqueue_async(|_| Ok(value)).unwrap();
                            match number % 3 {
                                0 => assert_eq!(block_on(completion).unwrap().0, number),
                                1 => drop(completion),
                                _ => open.push((number, completion)),
                            }
                        }
                        for (number, completion) in open {
                            assert_eq!(completion.wait().unwrap().0, number);
                        }
                    });
                }
            });
            owned_by(&values, 1);
        });
    });
}

/// Tells on which thread it is dropped, and what a driver call answers there.
struct Tells(Sender<(ThreadId, CudaResult<()>)>);

impl Drop for Tells {
    fn drop(&mut self) {
        let _ = self.0.send((current().id(), CurrentContext::get_current().map(drop)));
    }
}

#[test]
fn a_value_that_nobody_awaits_is_dropped_on_a_thread_that_may_make_driver_calls() {
    within(60, || {
        run(|| {
            let _ctx = pushed();
            let (stream, other) = (stream(), stream());
            let (tell, told) = channel();
            let enqueued = || stream.enqueue_async(|_| Ok(Tells(tell.clone()))).unwrap();
            // Before its work is done, and when its outcome is there.
            let go = held(&stream);
            let early = enqueued();
            drop(early);
            drop(go);
            let late = enqueued();
            while !late.is_done() {
                yield_now();
            }
            drop(late);
            // Before or after, as it comes.
            (0..200).for_each(|_| drop(enqueued()));
            // In the waker of another one. A driver may call one host function at a time, so the first to end comes first.
            let (go_other, go) = (held(&other), held(&stream));
            let own = enqueued();
            let waker = Calling::waker(move || drop(own));
            let mut waking = other.completion().unwrap();
            assert!(poll(&mut waking, &waker).is_pending());
            drop(go_other);
            while !waking.is_done() {
                yield_now();
            }
            drop(go);
            for _ in 0..203 {
                let (thread, answer) = told.recv_timeout(Duration::from_secs(20)).expect("a value is kept");
                assert_eq!(answer, Ok(()));
                assert_ne!(thread, current().id());
            }
        });
    });
}
