//! From the launch of an empty kernel to the moment when who awaits it goes on, by each of custack's ways.

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

fn each(context: &UnownedContext, run: &Run, wait: impl Fn(&Stream)) {
    let module = context.scoped(|_| Module::load_from_string(EMPTY_KERNEL)).unwrap();
    let (empty, stream) = (module.get_function(c"empty").unwrap(), stream(context));
    context
        .scoped(|_| {
            run.time(|| {
                // SAFETY: the kernel takes these and does nothing.
                unsafe { launch!(empty<<<1, 32, 0, stream>>>(0u64, 1u32)) }.unwrap();
                wait(&stream);
            });
            Ok(())
        })
        .unwrap();
}

type Way = fn(&UnownedContext, &Run);

pub fn benches(context: &'static UnownedContext) -> Vec<Bench> {
    let ways: [(&str, Way); 4] = [
        (LIBRARY, |context, run| each(context, run, |stream| stream.completion().unwrap().wait().unwrap())),
        ("custack, spinning", |context, run| {
            each(context, run, |stream| stream.completion().unwrap().spinning_for(SPIN).wait().unwrap());
        }),
        ("custack, callback", |context, run| {
            let told = Told::new();
            each(context, run, |stream| {
                let tells = Arc::clone(&told);
                stream.add_callback(Box::new(move |_| tells.tell())).unwrap();
                told.wait();
            });
        }),
        ("custack, host function", |context, run| {
            let told = Told::new();
            each(context, run, |stream| {
                let tells = Arc::clone(&told);
                stream.launch_host_func(move || tells.tell()).unwrap();
                told.wait();
            });
        }),
    ];
    ways.map(|(way, of)| Bench::new(AWAITED, way, move |run| of(context, run))).into()
}
