//! Retirement: custack's own thread destroys what cannot be destroyed here and now.
//!
//! Three things are retired: what is dropped in a host function, where the driver refuses every call; what is dropped
//! while its thread ends; and a context whose owner is dropped while a call uses it. They are queued, and one thread,
//! started when first needed, destroys them in order and sleeps while the queue is empty. It does not poll and queries
//! no events. It runs in the relaxed capture mode, so it invalidates no stream capture.
//!
//! Why a thread of its own, and not the program's next call: destroying may wait for the device's work, and so for a
//! host function that waits for the very thread that makes that call. A thread that dropped nothing must not wait.

use super::queue::{Queue, State};
use super::sync::{Condvar, Mutex};
use crate::driver;
use crate::error::{CudaError, CudaResult};
use crate::report;
use std::cell::Cell;

type Job = Box<dyn FnOnce() + Send>;

static QUEUE: Queue<Job> = Queue::of(Mutex::new(State::new()), Condvar::new());

/// Queues the job; it runs soon after, on an ordinary thread.
#[cold]
pub(crate) fn retire(job: impl FnOnce() + Send + 'static) {
    queue(Box::new(job));
}

fn queue(job: Box<dyn FnOnce() + Send>) {
    if driver::is_child() {
        // No driver would take it, and the queue may be locked for ever.
        return std::mem::forget(job);
    }
    QUEUE.push(job);
    if !start() {
        report::warn(format_args!(
            "no thread could be started to destroy what was retired; the next retirement will try again"
        ));
    }
}

/// What nobody awaits any more, and is retired when its work is done: [`wait`] waits until this is dropped.
pub(crate) struct Expected(());

impl Expected {
    pub(crate) fn new() -> Expected {
        QUEUE.expect();
        Expected(())
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        if !driver::is_child() {
            QUEUE.done();
        }
    }
}

/// Makes sure that the thread runs; returns false if it cannot be started.
fn start() -> bool {
    if !QUEUE.wants_worker() {
        return true;
    }
    let started = std::thread::Builder::new().name("custack retirement".to_owned()).spawn(run).is_ok();
    if !started {
        QUEUE.has_no_worker();
    }
    started
}

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

fn run() {
    IS_WORKER.set(true);
    let mut relaxed = false;
    loop {
        let job = QUEUE.next();
        if let Some(driver) = driver::running().filter(|_| !std::mem::replace(&mut relaxed, true)) {
            // A driver too old to have capture modes cannot be switched; what is freed here may then invalidate a
            // capture.
            let _ = driver.thread_exchange_stream_capture_mode(driver::RELAXED);
        }
        report::contained(job);
        QUEUE.done();
    }
}

/// Waits until everything that was retired before is destroyed, and all that is expected.
pub(crate) fn wait() -> CudaResult<()> {
    driver::refuse_in_child()?;
    driver::refuse_in_host_function()?;
    if IS_WORKER.get() {
        // A report runs the program's code on this thread, which would wait for the very job that the report is about.
        return Err(CudaError::NotPermitted
            .note(format_args!("to wait on the thread that destroys what was retired")));
    }
    while !QUEUE.wait() {
        if !start() {
            let error = CudaError::OperatingSystemError;
            return Err(error.note(format_args!("to start the thread that destroys what was retired")));
        }
    }
    Ok(())
}
