//! From the launch of a kernel to the moment when who awaits it goes on, by each of custack's ways.

use super::LIBRARY;
use super::ordered::stream;
use crate::measure::{Bench, Run};
use crate::tasks::*;
use custack::context::UnownedContext;
use custack::launch;
use custack::module::Module;
use custack::stream::Stream;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{Thread, current, park};
use std::time::Duration;

/// As long as `cuda-async` does.
const SPIN: Duration = Duration::from_micros(20);

/// Waits for what is set on another thread.
struct Told(AtomicBool, Thread);

impl Told {
    fn new() -> Arc<Told> {
        Arc::new(Told(AtomicBool::new(false), current()))
    }

    fn tell(&self) {
        self.0.store(true, Ordering::Release);
        self.1.unpark();
    }

    fn wait(&self) {
        while !self.0.swap(false, Ordering::Acquire) {
            park();
        }
    }
}

/// An executor of one task, which parks its thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What is launched and awaited again and again.
#[derive(Clone, Copy)]
enum Kernel {
    Empty,
    Long,
}

/// The streams of earlier repetitions. `cuda-core` keeps its streams, too, and new ones are up to two per cent slower.
static STREAMS: Mutex<Vec<Stream>> = Mutex::new(Vec::new());

fn each(context: &UnownedContext, kernel: Kernel, run: &Run, wait: impl Fn(&Stream)) {
    let (source, name) = match kernel {
        Kernel::Empty => (EMPTY_KERNEL, c"empty"),
        Kernel::Long => (LONG_KERNEL, c"long"),
    };
    let module = context.scoped(|_| Module::load_from_string(source)).unwrap();
    let function = module.get_function(name).unwrap();
    let kept = STREAMS.lock().unwrap().pop();
    let stream = kept.unwrap_or_else(|| stream(context));
    context
        .scoped(|_| {
            run.time(|| {
                // SAFETY: the kernels take these, or nothing, and write nothing.
                match kernel {
                    Kernel::Empty => unsafe { launch!(function<<<1, 32, 0, stream>>>(0u64, 1u32)) },
                    Kernel::Long => unsafe { launch!(function<<<1, 1, 0, stream>>>()) },
                }
                .unwrap();
                wait(&stream);
            });
            Ok(())
        })
        .unwrap();
    STREAMS.lock().unwrap().push(stream);
}

type Way = fn(&UnownedContext, Kernel, &Run);

pub fn benches(context: &'static UnownedContext) -> Vec<Bench> {
    let ways: [(&str, Way); 4] = [
        (LIBRARY, |context, kernel, run| {
            each(context, kernel, run, |stream| stream.completion().unwrap().wait().unwrap());
        }),
        ("custack, spinning", |context, kernel, run| {
            let waker = Waker::from(Arc::new(Unpark(current())));
            each(context, kernel, run, |stream| {
                let mut future = stream.synchronize_async().spinning_for(SPIN);
                loop {
                    match Pin::new(&mut future).poll(&mut Context::from_waker(&waker)) {
                        Poll::Ready(result) => break result.unwrap(),
                        Poll::Pending => park(),
                    }
                }
            });
        }),
        ("custack, callback", |context, kernel, run| {
            let told = Told::new();
            each(context, kernel, run, |stream| {
                let tells = Arc::clone(&told);
                stream.add_callback(Box::new(move |_| tells.tell())).unwrap();
                told.wait();
            });
        }),
        ("custack, host function", |context, kernel, run| {
            let told = Told::new();
            each(context, kernel, run, |stream| {
                let tells = Arc::clone(&told);
                stream.launch_host_func(move || tells.tell()).unwrap();
                told.wait();
            });
        }),
    ];
    let of =
        |(task, kernel)| ways.map(|(way, each)| Bench::new(task, way, move |run| each(context, kernel, run)));
    [(AWAITED, Kernel::Empty), (LONG, Kernel::Long)].into_iter().flat_map(of).collect()
}
