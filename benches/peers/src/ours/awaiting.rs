//! From the launch of a kernel to the moment when who awaits it goes on, by each of custack's ways.

use super::LIBRARY;
use super::newer::stream;
use crate::measure::{Bench, Run};
use crate::tasks::*;
use custack::context::UnownedContext;
use custack::launch;
use custack::module::Module;
use custack::stream::Stream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Thread, current, park};
use std::time::Duration;

/// Long enough for an empty kernel.
const SPIN: Duration = Duration::from_micros(50);

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

/// What is launched and awaited again and again.
#[derive(Clone, Copy)]
enum Kernel {
    Empty,
    Long,
}

fn each(context: &UnownedContext, kernel: Kernel, run: &Run, wait: impl Fn(&Stream)) {
    let (source, name) = match kernel {
        Kernel::Empty => (EMPTY_KERNEL, c"empty"),
        Kernel::Long => (LONG_KERNEL, c"long"),
    };
    let module = context.scoped(|_| Module::load_from_string(source)).unwrap();
    let (function, stream) = (module.get_function(name).unwrap(), stream(context));
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
}

type Way = fn(&UnownedContext, Kernel, &Run);

pub fn benches(context: &'static UnownedContext) -> Vec<Bench> {
    let ways: [(&str, Way); 4] = [
        (LIBRARY, |context, kernel, run| {
            each(context, kernel, run, |stream| stream.completion().unwrap().wait().unwrap());
        }),
        ("custack, spinning", |context, kernel, run| {
            each(context, kernel, run, |stream| {
                stream.completion().unwrap().spinning_for(SPIN).wait().unwrap();
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
    let of = |(task, kernel)| {
        ways.map(|(way, each)| Bench::new(task, way, move |run| each(context, kernel, run)))
    };
    [(AWAITED, Kernel::Empty), (LONG, Kernel::Long)].into_iter().flat_map(of).collect()
}
