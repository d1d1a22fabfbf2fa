//! Retirement: what cannot be destroyed here and now is destroyed soon after, by a thread of custack's own.
//!
//! Three things come here: what is dropped in a host function, where the driver refuses every call; what is dropped
//! while its thread ends; and a context whose owner let go while a call was using it. They go into a queue, and one
//! thread, started at first need, does them in the order in which they came, and sleeps until there is more. It does not
//! poll, and asks no events. It works under the relaxed capture mode, so that it breaks nobody's capture.
//!
//! Why always that thread, and not the next call of the program's that could: destroying may wait for the device's
//! work, and so for a host function that waits for the very thread that makes the call. A thread that dropped nothing
//! is never made to wait.

use super::queue::{Queue, State};
use super::sync::{Condvar, Mutex};
use crate::driver;
use crate::error::{CudaError, CudaResult};
use crate::report;
use std::cell::Cell;

type Job = Box<dyn FnOnce() + Send>;

static QUEUE: Queue<Job> = Queue::of(Mutex::new(State::new()), Condvar::new());

/// Has the job done soon after, on an ordinary thread.
#[cold]
pub(crate) fn retire(job: impl FnOnce() + Send + 'static) {
    QUEUE.push(Box::new(job));
    if !start() {
        report::warn(format_args!(
            "no thread could be started for what was retired; the next one will try again"
        ));
    }
}

/// Sees that there is a thread; false if none can be had.
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
            // A driver that is too old to have such modes has none to change, and what is freed here may break a capture.
            let _ = driver.thread_exchange_stream_capture_mode(driver::RELAXED);
        }
        report::contained(job);
        QUEUE.done();
    }
}

/// Waits until everything is destroyed that was retired before.
pub(crate) fn wait() -> CudaResult<()> {
    driver::refuse_in_host_function()?;
    if IS_WORKER.get() {
        // A report runs code of the program's here, and would wait for the very job that it is about.
        return Err(CudaError::NotPermitted
            .note(format_args!("to wait on the thread that destroys what was retired")));
    }
    while !QUEUE.wait() {
        if !start() {
            let error = CudaError::OperatingSystemError;
            return Err(error.note(format_args!("to start a thread for what was retired")));
        }
    }
    Ok(())
}
