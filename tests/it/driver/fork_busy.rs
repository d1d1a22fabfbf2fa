//! Processes that are forked while other threads are within custack: no call of the child waits for what they held.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::driver::process::child_succeeds;

#[cfg(unix)]
pub(crate) use scenario::{scenario, within};

#[cfg(not(unix))]
pub(crate) fn scenario() {}

#[cfg(not(unix))]
pub(crate) fn within() {}

#[cfg(unix)]
mod scenario {
    use crate::driver::fork::{fork, wait_for};
    use crate::library::CODE;
    use custack::context::{CurrentContext, PrimaryContext, UnownedContext};
    use custack::device::Device;
    use custack::driver;
    use custack::error::{CudaError, CudaResult};
    use custack::event::{Event, EventFlags};
    use custack::future::Completion;
    use custack::graph::{Graph, GraphExec, InstantiateFlags};
    use custack::library::{Kernel, Library};
    use custack::memory::{DeviceBuffer, DevicePointer, cuda_free, cuda_malloc};
    use custack::module::JitOptions;
    use custack::stream::{CaptureMode, Stream, StreamFlags, StreamWaitEventFlags};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Whether a call of this child was answered otherwise than by a refusal.
    static ANSWERED: AtomicBool = AtomicBool::new(false);

    #[track_caller]
    fn refused<T>(result: CudaResult<T>) {
        let answer = result.map(drop);
        if answer != Err(CudaError::NotInitialized) {
            ANSWERED.store(true, Ordering::Relaxed);
            println!("{}: {answer:?}", std::panic::Location::caller());
        }
    }

    unsafe extern "C" {
        fn _exit(status: i32) -> !;
    }

    /// Ends this child without the standard library's end of a program, which may wait for a thread of the parent.
    fn done(test: impl FnOnce()) -> ! {
        let done = catch_unwind(AssertUnwindSafe(test));
        unsafe { _exit(if done.is_ok() && !ANSWERED.load(Ordering::Relaxed) { 40 } else { 41 }) }
    }

    fn stream() -> Stream {
        Stream::new(StreamFlags::NON_BLOCKING, None).unwrap()
    }

    /// What the parent has when it forks, and the child uses and drops.
    struct Made {
        primary: PrimaryContext,
        stream: Stream,
        other: Stream,
        /// It captures, by hand.
        capturing: Stream,
        event: Event,
        ordered: DeviceBuffer<u32>,
        given: DevicePointer<u32>,
        graph: Graph,
        exec: GraphExec,
        kernel: Kernel,
        completion: Completion<()>,
    }

    impl Made {
        fn new() -> Made {
            let primary = PrimaryContext::retain(Device::get_device(0).unwrap()).unwrap();
            let (stream, other, capturing) = (stream(), stream(), stream());
            let ordered = DeviceBuffer::from_slice_in(&[1u32; 64], &stream).unwrap();
            ordered.also_used_in(&other).unwrap();
            let mut graph = Graph::new(&CurrentContext::get_current().unwrap()).unwrap();
            graph.add_host_func(&[], || ()).unwrap();
            let exec = graph.instantiate(InstantiateFlags::empty()).unwrap();
            let kernel =
                Library::load(CODE.as_bytes(), &JitOptions::new()).unwrap().kernel(c"count").unwrap();
            let event = Event::new(EventFlags::DEFAULT).unwrap();
            let completion = stream.completion().unwrap();
            let given = unsafe { cuda_malloc(64) }.unwrap();
            unsafe { capturing.begin_capture(CaptureMode::Relaxed) }.unwrap();
            Made { primary, stream, other, capturing, event, ordered, given, graph, exec, kernel, completion }
        }

        fn end(self) {
            drop(unsafe { self.capturing.end_capture() }.unwrap());
            unsafe { cuda_free(self.given) }.unwrap();
            self.completion.wait().unwrap();
        }

        /// What the child does: each call answers at once, and each drop returns.
        fn in_the_child(mut self) {
            let (stream, other) = (&self.stream, &self.other);
            refused(self.event.record(stream));
            refused(other.wait_event(&self.event, StreamWaitEventFlags::DEFAULT));
            refused(self.event.query());
            refused(self.event.synchronize());
            refused(stream.launch_host_func(|| ()));
            refused(stream.capture_status());
            refused(unsafe { stream.begin_capture(CaptureMode::Global) });
            refused(unsafe { stream.end_capture() });
            refused(unsafe { self.capturing.end_capture() });
            refused(self.capturing.capture_dependencies());
            refused(self.capturing.capture_status());
            refused(CurrentContext::synchronize());
            refused(stream.completion());
            refused(stream.synchronize());
            refused(self.ordered.also_used_in(&self.capturing));
            refused(self.ordered.move_to(other));
            refused(DeviceBuffer::from_slice_in(&[1u32], stream));
            refused(unsafe { cuda_malloc::<u32>(1) });
            refused(unsafe { cuda_free(self.given) });
            refused(self.graph.add_empty(&[]));
            refused(self.graph.nodes());
            refused(self.graph.instantiate(InstantiateFlags::empty()));
            refused(self.exec.launch(stream));
            refused(self.primary.try_clone());
            refused(PrimaryContext::retain(self.primary.device()));
            refused(self.kernel.function_in(&self.primary.get_unowned()));
            refused(Library::load(CODE.as_bytes(), &JitOptions::new()));
            let handle = self.primary.get_unowned();
            refused(handle.synchronize());
            refused(unsafe { UnownedContext::from_raw(handle.as_raw()) }.synchronize());
            refused(self.stream.capture(CaptureMode::Global, |_| Ok(())));
            refused(self.stream.sync_scope(|_| Ok(())));
            assert!(self.completion.is_done());
            refused(self.completion.wait());
            drop(self.graph);
            drop(self.exec);
            drop(self.ordered);
            drop(self.event);
            drop(self.capturing);
            drop(self.other);
            drop(self.stream);
            drop(self.kernel);
            drop(self.primary);
        }
    }

    static GOES_ON: AtomicBool = AtomicBool::new(true);

    /// Does something over and over, with the context current.
    fn busy<F: FnMut() + Send + 'static>(context: UnownedContext, mut f: F) -> std::thread::JoinHandle<()> {
        std::thread::spawn(move || {
            let _current = context.enter().unwrap();
            while GOES_ON.load(Ordering::Relaxed) {
                f();
            }
        })
    }

    pub(crate) fn scenario() {
        custack::init(custack::CudaFlags::empty()).unwrap();
        let owner = PrimaryContext::retain(Device::get_device(0).unwrap()).unwrap();
        let context = owner.get_unowned();
        let _current = context.enter().unwrap();
        let mut made = Some(Made::new());
        let busy_with = |f: fn()| busy(context.clone(), f);
        let threads = [
            busy_with(|| {
                let mut stream = stream();
                drop(
                    stream.capture(CaptureMode::Relaxed, |capture| capture.launch_host_func(|| ())).unwrap(),
                );
            }),
            busy_with(|| unsafe {
                let stream = stream();
                stream.begin_capture(CaptureMode::Relaxed).unwrap();
                stream.capture_dependencies().unwrap();
                drop(stream.end_capture().unwrap());
            }),
            busy_with(|| unsafe {
                let all: Vec<_> = (0..32).map(|_| cuda_malloc::<u32>(1).unwrap()).collect();
                all.into_iter().for_each(|memory| cuda_free(memory).unwrap());
            }),
            busy_with(|| {
                let (home, other) = (stream(), stream());
                let buffer = DeviceBuffer::from_slice_in(&[1u32; 8], &home).unwrap();
                buffer.also_used_in(&other).unwrap();
            }),
            busy_with(|| {
                let mut stream = stream();
                stream.launch_host_func(|| ()).unwrap();
                stream.sync_scope(|scope| scope.launch_host_func(|| ())).unwrap();
                stream.completion().unwrap().wait().unwrap();
            }),
            busy_with(|| {
                let (stream, event) = (stream(), Event::new(EventFlags::DEFAULT).unwrap());
                event.record(&stream).unwrap();
                stream.wait_event(&event, StreamWaitEventFlags::DEFAULT).unwrap();
                drop(PrimaryContext::retain(Device::get_device(0).unwrap()).unwrap());
            }),
        ];
        for _ in 0..300 {
            let process = unsafe { fork() };
            if process == 0 {
                let made = made.take().unwrap();
                done(|| made.in_the_child());
            }
            wait_for(process);
        }
        GOES_ON.store(false, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        made.unwrap().end();
    }

    /// The child leaves a capture and a scope that its parent is in.
    pub(crate) fn within() {
        let _context = custack::quick_init().unwrap();
        let mut stream = stream();
        let mut is_child = false;
        let captured = stream.capture(CaptureMode::Relaxed, |capture| {
            capture.launch_host_func(|| ())?;
            let process = unsafe { fork() };
            is_child = process == 0;
            if !is_child {
                wait_for(process);
            }
            Ok(())
        });
        if is_child {
            done(|| refused(captured));
        }
        drop(captured.unwrap());
        let (begin, borrowed) = (std::sync::Barrier::new(2), AtomicBool::new(false));
        let scoped = stream.sync_scope(|scope| {
            scope.launch_host_func(|| {
                begin.wait();
                borrowed.store(true, Ordering::Relaxed);
            })?;
            let process = unsafe { fork() };
            is_child = process == 0;
            if !is_child {
                wait_for(process);
                begin.wait();
            }
            Ok(())
        });
        if is_child {
            done(|| refused(scoped));
        }
        scoped.unwrap();
        assert!(borrowed.into_inner());
        assert!(driver::current().is_ok());
    }
}

#[test]
fn a_child_that_is_forked_during_calls_of_other_threads_never_hangs() {
    child_succeeds("fork while threads are busy", &[]);
}

#[test]
fn a_child_that_is_forked_within_a_capture_or_a_scope_leaves_it() {
    child_succeeds("fork within", &[]);
}
