//! The future that waits until a stream has done its work.

use super::completion::Completion;
use super::submit::{Asked, Unmarked};
use crate::context::relax;
use crate::driver::{in_host_function, refuse_in_child, running};
use crate::error::CudaResult;
use crate::stream::Stream;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Waits until all work is done that a stream has when this is first polled; see [`Stream::synchronize_async`].
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
    Marked(Completion),
    Over,
}

impl<'a> Synchronize<'a> {
    pub(super) fn new(stream: &'a Stream) -> Synchronize<'a> {
        Synchronize { stream, spin: Duration::ZERO, state: State::New }
    }

    /// Makes the first poll look by itself, for this long, before it gives way to other tasks: for work that takes
    /// microseconds, and threads that have nothing better to do.
    ///
    /// It asks the stream, and records an event only if there is still work then, so short work costs none. Work that other
    /// threads submit to the stream during this poll is waited for, too. A capture that begins in the stream meanwhile refuses
    /// it. One of other code, which began without custack, may be broken if the stream becomes part of it meanwhile.
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
    #[doc(alias("cuStreamQuery"))]
    #[inline]
    pub fn spinning_for(mut self, time: Duration) -> Synchronize<'a> {
        self.spin = time;
        self
    }

    /// The first poll; `None` if the work is done.
    fn begin(&self) -> CudaResult<Option<Completion>> {
        // The driver is the parent's.
        refuse_in_child()?;
        let unmarked = Unmarked::prepare(self.stream)?;
        // A default stream also waits for others, or is another one on each thread. In a waker the driver refuses questions.
        let may_ask = !self.spin.is_zero() && !self.stream.is_default() && !in_host_function();
        let begun = Instant::now();
        // So the questions break no capture of another stream.
        let relaxed = if may_ask { running().and_then(relax) } else { None };
        let spins = relaxed.is_some();
        let mut ask = spins;
        while ask {
            match unmarked.ask(self.stream) {
                Asked::Over(result) => {
                    unmarked.unused(self.stream);
                    return result.map(|()| None);
                }
                Asked::GoesOn => ask = begun.elapsed() < self.spin,
                Asked::Refused => break,
            }
        }
        drop(relaxed);
        // Other code may have begun a capture during the questions.
        let completion = unmarked.mark(self.stream, spins, ())?;
        // What is left of the time is for the event, if the stream could not be asked.
        let rest = self.spin.saturating_sub(begun.elapsed());
        let was_asked = spins && rest.is_zero();
        Ok(Some(if was_asked { completion.asked() } else { completion.spinning_for(rest) }))
    }
}

impl Future for Synchronize<'_> {
    type Output = CudaResult<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<CudaResult<()>> {
        if let State::New = self.state {
            self.state = State::Over;
            match self.begin() {
                Ok(Some(completion)) => self.state = State::Marked(completion),
                over => return Poll::Ready(over.map(drop)),
            }
        }
        let State::Marked(completion) = &mut self.state else {
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
