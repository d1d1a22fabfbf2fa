//! The future that waits until a stream has done its work.

use super::completion::{Completion, LOOKS};
use super::submit::{WHAT, ends_all_work};
use crate::context::{self, relax};
use crate::driver::{in_host_function, refuse_in_child, running};
use crate::error::{CudaError, CudaResult};
use crate::stream::{Stream, refuse_while_capturing};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Waits until all work is done that a stream has when this is first polled; see
/// [`Stream::synchronize_async`].
///
/// The first poll asks the stream a few times, or for as long as it [spins](Self::spinning_for), and records an event only
/// if there is still work then. So short work costs no event, and work that another thread submits to the stream during the
/// first poll is waited for as well.
///
/// # Panics
///
/// Polling it again after it was ready panics.
#[must_use = "it does nothing until it is polled"]
pub struct Synchronize<'a> {
    stream: &'a Stream,
    spin: Duration,
    state: State,
}

enum State {
    New,
    Submitted(Completion),
    Over,
}

impl<'a> Synchronize<'a> {
    pub(super) fn new(stream: &'a Stream) -> Synchronize<'a> {
        Synchronize { stream, spin: Duration::ZERO, state: State::New }
    }

    /// Makes the first poll ask by itself, for this long, before it gives way to other tasks: for work that takes
    /// microseconds, and threads that have nothing better to do.
    ///
    /// ```
    /// use custack::stream::Stream;
    /// use std::time::Duration;
    ///
    /// async fn short_work(stream: &Stream) -> custack::error::CudaResult<()> {
    ///     stream.launch_host_func(|| println!("on the stream"))?;
    ///     stream.synchronize_async().spinning_for(Duration::from_micros(50)).await
    /// }
    /// # use custack::stream::StreamFlags;
    /// # let _context = custack::quick_init()?;
    /// # drop(short_work(&Stream::new(StreamFlags::NON_BLOCKING, None)?));
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    pub fn spinning_for(mut self, time: Duration) -> Synchronize<'a> {
        self.spin = time;
        self
    }

    /// Asks the stream itself a few times. Nothing that this thread submits can come later meanwhile, so no event is needed
    /// to tell that work apart. `None` if there is work still, or if the stream does not say.
    fn ask(&self) -> Option<CudaResult<()>> {
        // A default stream is another one on each thread, or waits for other streams; in a waker the driver refuses questions.
        if self.stream.is_default() || in_host_function() {
            return None;
        }
        let pin = self.stream.context().pin().ok()?;
        // So the questions break no capture of another stream.
        let _relaxed = running().and_then(relax);
        let begun = Instant::now();
        let mut looks = 0;
        while looks < LOOKS || begun.elapsed() < self.spin {
            match self.ask_once(&pin) {
                Ok(()) => return Some(Ok(())),
                Err(error) if ends_all_work(error) => return Some(Err(error)),
                Err(CudaError::NotReady) => {}
                Err(_) => return None,
            }
            looks += 1;
            std::hint::spin_loop();
        }
        None
    }

    /// The question would break a capture of the stream: none that custack knows of begins meanwhile, and whether there is
    /// another one is asked before.
    fn ask_once(&self, pin: &context::Pin) -> CudaResult<()> {
        let shared = self.stream.inner();
        let _uncaptured = shared.uncaptured(WHAT)?;
        let asked = shared.with_pinned(pin, |driver, stream| {
            refuse_while_capturing(driver, stream)?;
            driver.stream_query(stream)
        });
        asked.unwrap_or(Err(CudaError::ContextIsDestroyed))
    }
}

impl Future for Synchronize<'_> {
    type Output = CudaResult<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<CudaResult<()>> {
        if let State::New = self.state {
            // The driver is the parent's.
            let result = refuse_in_child().err().map(Err).or_else(|| self.ask());
            let submitted = match result {
                Some(result) => Err(result),
                None => self.stream.completion().map_err(Err),
            };
            match submitted {
                Ok(completion) => self.state = State::Submitted(completion.asked()),
                Err(result) => {
                    self.state = State::Over;
                    return Poll::Ready(result);
                }
            }
        }
        let State::Submitted(completion) = &mut self.state else {
            panic!("waiting for a stream was polled after it was ready");
        };
        let polled = Pin::new(completion).poll(context);
        if polled.is_ready() {
            self.state = State::Over;
        }
        polled
    }
}

impl fmt::Debug for Synchronize<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Synchronize").field("stream", &self.stream).finish_non_exhaustive()
    }
}
