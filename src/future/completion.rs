//! The future that is ready when work is done.

use super::inbox::Kept;
use super::outcome::{Failed, Place, told};
use super::reactor::{self, Work};
use super::submit::unwanted;
use crate::context::relax;
use crate::driver::{in_host_function, is_child, refuse_in_child, refuse_in_host_function, running};
#[cfg(doc)]
use crate::error::CudaError;
use crate::error::{CudaResult, keep_note};
use crate::liveness::Expected;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// The number of queries in the first poll. Each query takes 0.3 us where the driver's lock is free.
const LOOKS: u32 = 4;

/// A future that is ready when work on the device is done, with the work's error or a value; see the [module](super).
///
/// Dropping it cancels nothing: the work goes on, and what it uses is kept until it is done.
///
/// # Panics
///
/// Polling it again after it was ready panics.
#[must_use = "it tells when the work is done"]
pub struct Completion<T = ()> {
    slot: Arc<Place<T>>,
    spin: Duration,
    /// The work, until the thread that looks has it: from when the first poll gives way on, or this is asked or dropped.
    work: Kept<Box<dyn Work>>,
}

impl<T> Completion<T> {
    /// No thread polls the work yet.
    pub(super) fn new(slot: Arc<Place<T>>, work: Box<dyn Work>) -> Completion<T> {
        Completion { slot, spin: Duration::ZERO, work: Kept::new(Some(work)) }
    }

    /// Of work that is over.
    pub(super) fn ready(outcome: CudaResult<T>) -> Completion<T>
    where
        T: Send + 'static,
    {
        let slot = Arc::new(Place::new(unwanted));
        // No thread waits yet.
        drop(slot.complete(outcome.map_err(Failed::new)));
        Completion { slot, spin: Duration::ZERO, work: Kept::new(None) }
    }

    /// Whether it is ready: whether polling it would give a result. It becomes so soon after the work is done, at the
    /// earliest after it was first asked.
    #[must_use]
    #[inline]
    pub fn is_done(&self) -> bool {
        if is_child() {
            // Polling it gives the error of a child, and the threads that look are the parent's.
            return true;
        }
        self.have_looked_at();
        self.slot.is_done()
    }

    /// This future, whose first poll does not look by itself, because that was done a moment ago.
    pub(super) fn asked(self) -> Completion<T> {
        self.have_looked_at();
        self
    }

    /// Has the thread that looks care for the work.
    fn have_looked_at(&self) {
        self.work.hand_over(reactor::look_at);
    }

    /// Looks at the work a few times. Where many threads use the driver each question waits for its lock, and short work is
    /// over by the time that this has had it a few times: then no other thread asks about it, which would be in the way of
    /// those that submit more, and none is woken.
    fn look(&mut self) {
        // What the outcome has is noted when it is taken.
        let _note = keep_note();
        // So its questions break no capture.
        let _relaxed = running().and_then(relax);
        for _ in 0..LOOKS {
            if self.work.look(|work| work.is_over()) || self.slot.is_done() {
                return;
            }
        }
    }

    /// Looks at the work for this long at the most.
    fn spin(&mut self, time: Duration) {
        let (begun, _note) = (Instant::now(), keep_note());
        // So its questions break no capture.
        let _relaxed = running().and_then(relax);
        while !self.slot.is_done() && begun.elapsed() < time {
            self.work.look(|work| work.is_over());
            std::hint::spin_loop();
        }
    }

    /// Makes the first poll look by itself, for this long, before it gives way to other tasks: for work that takes
    /// microseconds, and threads that have nothing better to do. It asks the driver about the event all the while.
    #[inline]
    pub fn spinning_for(mut self, time: Duration) -> Completion<T> {
        self.spin = time;
        self
    }

    /// Waits on this thread until the work is done.
    ///
    /// # Errors
    ///
    /// The error of the work; [`NotPermitted`](CudaError::NotPermitted), without waiting, in a host function, a callback
    /// or a waker.
    ///
    /// ```
    /// use custack::stream::{Stream, StreamFlags};
    ///
    /// let _context = custack::quick_init()?;
    /// let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    /// stream.launch_host_func(|| println!("on the stream"))?;
    /// stream.completion()?.wait()?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[inline]
    pub fn wait(mut self) -> CudaResult<T> {
        refuse_in_host_function()?;
        // Short work is over by the end of the first poll, and needs nothing to be woken by.
        if let Poll::Ready(result) = Pin::new(&mut self).poll(&mut Context::from_waker(Waker::noop())) {
            return result;
        }
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        loop {
            match Pin::new(&mut self).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(result) => return result,
                Poll::Pending => woken.wait(),
            }
        }
    }
}

/// Wakes a thread that waits. It is not parked, because that is what an executor on the same thread may do.
#[derive(Default)]
struct Woken {
    state: Mutex<WokenState>,
    changed: Condvar,
}

#[derive(Default)]
struct WokenState {
    is_woken: bool,
    sleeps: bool,
}

impl Woken {
    fn state(&self) -> MutexGuard<'_, WokenState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self) {
        let mut state = self.state();
        while !std::mem::take(&mut state.is_woken) {
            state.sleeps = true;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.sleeps = false;
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        let sleeps = {
            let mut state = self.state();
            state.is_woken = true;
            state.sleeps
        };
        // A notification costs a system call even if no thread waits for it.
        if sleeps {
            self.changed.notify_one();
        }
    }
}

impl<T> Future for Completion<T> {
    type Output = CudaResult<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<CudaResult<T>> {
        // The threads that look at work are the parent's, and may have held locks.
        if let Err(error) = refuse_in_child() {
            return Poll::Ready(Err(error));
        }
        let spin = std::mem::take(&mut self.spin);
        // In a waker it would keep the thread that it waits for, and the driver refuses questions.
        if self.work.is_kept() && !in_host_function() {
            if spin.is_zero() {
                self.look();
            } else {
                self.spin(spin);
            }
        }
        let polled = self.slot.poll(context.waker());
        self.have_looked_at();
        polled.map(told)
    }
}

impl<T> Drop for Completion<T> {
    fn drop(&mut self) {
        if is_child() {
            return;
        }
        // What wakes a task may keep it, and this future with it.
        drop(self.slot.abandon(Expected::new));
        self.have_looked_at();
    }
}

impl<T> fmt::Debug for Completion<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion").field("is_done", &self.slot.is_done()).finish_non_exhaustive()
    }
}
