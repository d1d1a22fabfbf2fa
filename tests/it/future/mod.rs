//! Futures that are ready when work is done.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

#[cfg(feature = "graph")]
mod captures;
pub(crate) mod contexts;
pub(crate) mod edges;
mod in_context;
pub(crate) mod lost;
mod orders;
mod pauses;
mod programs;
mod protocol;
mod said;
mod synchronize;
mod wakers;

use crate::harness::{owned_by, parked, pushed, run, run_alone};
use custack::context::{ContextStack, CurrentContext, wait_until_retired};
use custack::driver::instrument;
use custack::error::{CudaError, CudaResult};
use custack::event::{Event, EventFlags};
use custack::future::Completion;
#[cfg(feature = "graph")]
use custack::graph::{Graph, InstantiateFlags};
use custack::memory::{CopyDestination, DeviceBuffer};
use custack::stream::{LegacyStream, PerThreadStream, Stream, StreamFlags};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};
use std::time::{Duration, Instant};

pub(crate) fn stream() -> Stream {
    Stream::new(StreamFlags::NON_BLOCKING, None).unwrap()
}

/// Work that goes on until the sender is dropped.
pub(crate) fn held(stream: &Stream) -> Sender<()> {
    let (go, wait) = channel::<()>();
    stream.launch_host_func(move || assert!(wait.recv().is_err())).unwrap();
    go
}

/// Counts how often it is called.
pub(super) struct Counting(AtomicUsize);

impl Counting {
    pub(super) fn waker() -> (Arc<Counting>, Waker) {
        let counting = Arc::new(Counting(AtomicUsize::new(0)));
        (Arc::clone(&counting), counting.into())
    }

    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    #[track_caller]
    pub(super) fn reaches(&self, count: usize) {
        let begun = Instant::now();
        while self.count() < count {
            assert!(begun.elapsed().as_secs() < 20, "woken {} times", self.count());
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(self.count(), count);
    }
}

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A waker that calls this, once.
pub(super) struct Calling(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Calling {
    pub(super) fn waker(f: impl FnOnce() + Send + 'static) -> Waker {
        Arc::new(Calling(Mutex::new(Some(Box::new(f))))).into()
    }
}

impl Wake for Calling {
    fn wake(self: Arc<Self>) {
        let f = self.0.lock().unwrap().take();
        f.unwrap()();
    }
}

pub(crate) fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut std::task::Context::from_waker(waker))
}

/// A single-thread executor for one future.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let (mut future, waker) = (pin!(future), Arc::new(Unpark(std::thread::current())).into());
    loop {
        match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn a_completion_is_ready_when_the_work_is_done_and_not_before() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let (woken, waker) = Counting::waker();
        let go = held(&stream);
        let mut completion = stream.completion().unwrap();
        assert!(!completion.is_done());
        assert!(poll(&mut completion, &waker).is_pending());
        std::thread::sleep(Duration::from_millis(30));
        assert!(poll(&mut completion, &waker).is_pending());
        assert_eq!(woken.count(), 0);
        drop(go);
        woken.reaches(1);
        assert!(completion.is_done());
        assert_eq!(poll(&mut completion, &waker), Poll::Ready(Ok(())));
        assert_eq!(stream.is_done(), Ok(true));
    });
}

#[test]
fn each_completion_of_a_stream_is_about_the_work_before_it() {
    run(|| {
        let _ctx = pushed();
        let (stream, other) = (stream(), stream());
        let (woken, waker) = Counting::waker();
        let before = stream.completion().unwrap();
        let first = held(&stream);
        let mut between = stream.completion().unwrap();
        let second = held(&stream);
        let mut after = stream.completion().unwrap();
        for one in [&mut between, &mut after] {
            assert!(poll(one, &waker).is_pending());
        }
        before.wait().unwrap();
        assert!(!between.is_done() && !after.is_done());
        other.completion().unwrap().wait().unwrap();
        drop(first);
        between.wait().unwrap();
        assert!(!after.is_done());
        let count = woken.count();
        let (last, wakes) = Counting::waker();
        assert!(poll(&mut after, &wakes).is_pending());
        drop(second);
        last.reaches(1);
        assert_eq!((after.wait(), woken.count()), (Ok(()), count), "who polled last was woken");
    });
}

#[test]
fn completions_are_ready_one_by_one_in_whatever_order_they_are_polled() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let held: Vec<_> = (0..5).map(|_| (held(&stream), stream.completion().unwrap())).collect();
        let (mut go, mut all): (Vec<_>, Vec<_>) =
            held.into_iter().map(|(go, one)| (Some(go), Some(one))).unzip();
        for at in [3, 0, 4, 2, 1] {
            assert!(poll(all[at].as_mut().unwrap(), Waker::noop()).is_pending());
        }
        for at in 0..5 {
            assert!(all[at..].iter().flatten().all(|one| !one.is_done()));
            drop(go[at].take());
            assert_eq!(all[at].take().unwrap().wait(), Ok(()));
        }
    });
}

#[test]
fn an_awaited_stream_gives_its_value_after_the_work() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let done = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&done);
        let value = block_on(async {
            let enqueued = stream.enqueue_async(|stream| {
                let buffer = DeviceBuffer::from_slice_in(&[5u32; 64], stream)?;
                stream.launch_host_func(move || {
                    std::thread::sleep(Duration::from_millis(20));
                    count.fetch_add(1, Ordering::SeqCst);
                })?;
                Ok(buffer)
            })?;
            enqueued.await
        });
        assert_eq!(done.load(Ordering::SeqCst), 1);
        let mut back = [0; 64];
        value.unwrap().copy_to(&mut back).unwrap();
        assert_eq!(back, [5; 64]);
        assert_eq!(block_on(stream.synchronize_async()), Ok(()));
        let refused: CudaResult<Completion<u8>> = stream.enqueue_async(|_| Err(CudaError::NotFound));
        assert_eq!(refused.unwrap_err(), CudaError::NotFound, "the closure's own");
    });
}

#[test]
fn waiting_on_this_thread_and_spinning_give_the_same() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        for spin in [0, 1, 100_000] {
            let done = Arc::new(AtomicBool::new(false));
            let does = Arc::clone(&done);
            let work = move || {
                std::thread::sleep(Duration::from_millis(2));
                does.store(true, Ordering::SeqCst);
            };
            stream.launch_host_func(work).unwrap();
            let completion = stream.completion().unwrap().spinning_for(Duration::from_micros(spin));
            assert_eq!(completion.wait(), Ok(()));
            assert!(done.load(Ordering::SeqCst));
            assert_eq!(stream.is_done(), Ok(true));
        }
        // A spinning poll finds short work done.
        let (woken, waker) = Counting::waker();
        let mut completion = stream.completion().unwrap().spinning_for(Duration::from_secs(10));
        assert_eq!(poll(&mut completion, &waker), Poll::Ready(Ok(())));
        assert_eq!(woken.count(), 0);
    });
}

#[test]
fn the_first_poll_of_work_that_is_done_is_ready_and_wakes_nobody() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let (woken, waker) = Counting::waker();
        for _ in 0..100 {
            let mut completion = stream.completion().unwrap();
            stream.synchronize().unwrap();
            assert_eq!(poll(&mut completion, &waker), Poll::Ready(Ok(())));
        }
        assert_eq!(woken.count(), 0);
    });
}

#[test]
#[should_panic(expected = "polled after it was ready")]
fn polling_after_it_was_ready_panics() {
    run(|| {
        let _ctx = pushed();
        let (_, waker) = Counting::waker();
        let mut completion = stream().completion().unwrap().spinning_for(Duration::from_secs(10));
        assert!(poll(&mut completion, &waker).is_ready());
        let _ = poll(&mut completion, &waker);
    });
}

#[test]
fn an_event_is_awaited_where_it_stands_now() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let event = Event::new(EventFlags::DISABLE_TIMING).unwrap();
        event.completion().unwrap().wait().unwrap();
        let first = held(&stream);
        event.record(&stream).unwrap();
        let awaited = event.completion().unwrap();
        let second = held(&stream);
        event.record(&stream).unwrap();
        assert!(!awaited.is_done());
        drop(event);
        drop(first);
        awaited.wait().unwrap();
        assert_eq!(stream.is_done(), Ok(false), "the later marker is not reached");
        drop(second);
    });
}

#[cfg(feature = "graph")]
#[test]
fn graphs_are_awaited_too() {
    run(|| {
        let ctx = pushed();
        let stream = stream();
        let count = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&count);
        let mut graph = Graph::new(&ctx).unwrap();
        let counting = move || {
            std::thread::sleep(Duration::from_millis(5));
            counts.fetch_add(1, Ordering::SeqCst);
        };
        graph.add_host_func(&[], counting).unwrap();
        let mut exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
        exec.upload_async(&stream).unwrap().wait().unwrap();
        for launch in 1..=3 {
            block_on(exec.launch_async(&stream).unwrap()).unwrap();
            assert_eq!(count.load(Ordering::SeqCst), launch);
        }
        let last = exec.launch_async(&stream).unwrap();
        drop((exec, graph));
        last.wait().unwrap();
        owned_by(&count, 1);
        assert_eq!(count.load(Ordering::SeqCst), 4);
    });
}

#[test]
fn default_streams_are_awaited_too() {
    run(|| {
        let ctx = pushed();
        let _other = pushed();
        assert_eq!(LegacyStream::of(&ctx).completion().unwrap().wait(), Ok(()));
        assert_eq!(PerThreadStream::of(&ctx).completion().unwrap().wait(), Ok(()));
    });
}

#[test]
fn a_completion_works_with_anything_current_and_leaves_the_stack_as_it_was() {
    run(|| {
        let (ctx, other) = (parked(), pushed());
        let stream = ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        stream.completion().unwrap().wait().unwrap();
        assert_eq!((ContextStack::depth(), CurrentContext::get_current().unwrap()), (1, other.get_unowned()));
        std::thread::scope(|scope| {
            let elsewhere = || {
                stream.completion().unwrap().wait().unwrap();
                assert_eq!(ContextStack::depth(), 0);
            };
            scope.spawn(elsewhere).join().unwrap();
        });
    });
}

#[test]
fn nothing_is_done_while_nothing_is_awaited() {
    run_alone(|| {
        let _ctx = pushed();
        let stream = stream();
        stream.completion().unwrap().wait().unwrap();
        wait_until_retired().unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let ((), calls) = instrument::during_on_all_threads(|| std::thread::sleep(Duration::from_millis(50)));
        assert_eq!(calls.total(), 0, "{calls}");
    });
}

#[test]
fn long_work_is_looked_at_ever_less_often() {
    run_alone(|| {
        let _ctx = pushed();
        let (stream, other) = (stream(), stream());
        let (go, _held) = (held(&stream), held(&other));
        let mut all: Vec<_> = (0..50).map(|_| stream.completion().unwrap()).collect();
        assert!(all.iter_mut().all(|one| poll(one, Waker::noop()).is_pending()));
        let begun = Instant::now();
        let (looks, calls) = instrument::during_on_all_threads(|| {
            let looked = || instrument::calls_of_all_threads().of("cuEventQuery");
            let before = looked();
            while begun.elapsed() < Duration::from_millis(100) || looked() - before <= 10 {
                assert!(begun.elapsed().as_secs() < 20, "no more looks");
                std::thread::sleep(Duration::from_millis(1));
            }
            looked() - before
        });
        // The thread that looks sets its capture mode first.
        assert!(calls.total() - calls.of("cuEventQuery") <= 1, "{calls}");
        // At first without a pause, then at most one look for each millisecond, at one event of the stream.
        assert!(u128::from(looks) < 900 + begun.elapsed().as_millis(), "{calls}");
        drop(go);
        all.into_iter().for_each(|one| one.wait().unwrap());
    });
}

#[test]
fn a_completion_costs_these_calls() {
    run_alone(|| {
        let _ctx = pushed();
        let stream = stream();
        let (result, calls) = instrument::during(|| stream.completion());
        let of = |name| calls.of(name);
        assert_eq!(
            (of("cuEventCreate"), of("cuEventRecord"), of("cuStreamIsCapturing")),
            (1, 1, 1),
            "{calls}"
        );
        assert!(calls.total() <= 5, "and one for what is current: {calls}");
        result.unwrap().wait().unwrap();
        // The event is used again.
        let again = || stream.completion().and_then(|one| one.wait());
        let (result, calls) = instrument::during_on_all_threads(again);
        assert_eq!(result, Ok(()));
        let queries = calls.of("cuEventQuery");
        assert_eq!((calls.of("cuEventRecord"), calls.of("cuStreamIsCapturing")), (1, 1), "{calls}");
        // Two more set the capture mode, in which the first poll asks, and set it back.
        assert!(queries > 0 && calls.total() - queries <= 5, "{calls}");
    });
}

#[test]
fn who_spins_asks_and_no_other_thread_does() {
    run_alone(|| {
        let _ctx = pushed();
        let stream = stream();
        let spin = || stream.completion().unwrap().spinning_for(Duration::from_secs(10)).wait();
        spin().unwrap();
        let (here, all) = (|| instrument::during(spin), instrument::during_on_all_threads);
        let ((result, by_this), by_all) = all(here);
        assert_eq!(result, Ok(()));
        assert!(by_this.of("cuEventQuery") > 0, "{by_this}");
        assert_eq!(by_this.of("cuThreadExchangeStreamCaptureMode"), 2, "{by_this}");
        assert_eq!(by_this.total(), by_all.total(), "{by_all}");
    });
}

#[test]
fn completions_go_to_other_threads_and_are_shared() {
    use static_assertions::{assert_impl_all, assert_not_impl_any};
    assert_impl_all!(Completion: Send, Sync, Unpin);
    assert_impl_all!(Completion<std::cell::Cell<u8>>: Send, Sync, Unpin);
    assert_not_impl_any!(Completion<std::rc::Rc<u8>>: Send, Sync);
    assert!(std::mem::size_of::<Completion>() <= 48);
}
