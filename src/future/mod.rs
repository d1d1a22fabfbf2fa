//! Waiting for the device without a thread: futures that are ready when work is done.
//!
//! A [`Completion`] is a future for any executor, and needs nothing but `std::task`. It is made from a
//! [stream](Stream::completion), an [event](Event::completion), or a [launch](crate::graph::GraphExec::launch_async) of a
//! graph. [`InContextExt::in_context`] runs a whole future in a context, whatever thread polls it.
//!
//! ```
//! use custack::future::InContextExt;
//! use custack::memory::{AsyncCopyDestination, CopyDestination, DeviceBuffer, LockedBuffer};
//! use custack::stream::{Stream, StreamFlags};
//!
//! let context = custack::quick_init()?;
//! let task = async {
//!     let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
//!     let here = LockedBuffer::new(&7u32, 1000)?;
//!     let mut there = DeviceBuffer::from_slice(&[0u32; 1000])?;
//!     let copied = stream.enqueue_async(|stream| {
//!         // SAFETY: both buffers are moved into the result, which is kept until the copy is done.
//!         unsafe { there.async_copy_from(&*here, stream) }?;
//!         Ok((here, there))
//!     })?;
//!     let (_here, there) = copied.await?;
//!     let mut back = [0; 1000];
//!     there.copy_to(&mut back)?;
//!     Ok(back[999])
//! };
//! // Any executor will do. This one uses one thread, and parks it while there is nothing to do.
//! assert_eq!(block_on(task.in_context(&context))??, 7);
//! # use std::future::Future;
//! # use std::pin::pin;
//! # use std::sync::Arc;
//! # use std::task::{Context, Poll, Wake};
//! # struct Unpark(std::thread::Thread);
//! # impl Wake for Unpark { fn wake(self: Arc<Self>) { self.0.unpark() } }
//! # fn block_on<F: Future>(future: F) -> F::Output {
//! #     let (mut future, waker) = (pin!(future), Arc::new(Unpark(std::thread::current())).into());
//! #     loop {
//! #         match future.as_mut().poll(&mut Context::from_waker(&waker)) {
//! #             Poll::Ready(output) => return output,
//! #             Poll::Pending => std::thread::park(),
//! #         }
//! #     }
//! # }
//! # Ok::<(), custack::error::CudaError>(())
//! ```
//!
//! # In a task
//!
//! Calls that wait, such as `synchronize`, `copy_to` and `DeviceBuffer::from_slice_in`, block the thread, and with it the
//! executor. In their place are `synchronize_async`, and asynchronous copies from and to page-locked memory.
//!
//! So do some destructors: freeing memory that is not in the order of a stream, page-locked memory too, and unloading a module
//! wait for all work of the context. Have such values made once, kept beside the tasks, or dropped where blocking is allowed
//! (as by tokio's `spawn_blocking`); memory [in the order of a stream](crate::memory::DeviceBuffer::uninitialized_in) is freed
//! without waiting.
//!
//! A [`DevicePointer`](crate::memory::DevicePointer) is not `Send`, so a future that keeps one over an `.await` is none for an
//! executor of several threads: take it from its buffer where it is used.
//!
//! # What is certain
//!
//! * A completion always becomes ready: with the error of work that failed, too, and if the context is in error, when the
//!   driver calls no callbacks any more.
//! * It belongs to the work, not to the future: dropping or forgetting a future early frees nothing that the work uses.
//!   What [`enqueue_async`](Stream::enqueue_async) returns, and the context, are kept until the work is done, and until the
//!   future was polled, asked or dropped: forgotten before that, it keeps them for ever. If the driver fails to tell whether
//!   the work is done, the future has that error, and the value is kept on. A value that nobody awaits any more is dropped
//!   on a background thread of custack's ([`wait_until_retired`](crate::context::wait_until_retired) waits for the work and
//!   for that).
//! * It is never part of a capture that custack knows of, and breaks none: on a capturing stream it is refused with
//!   [`StreamCaptureUnsupported`](CudaError::StreamCaptureUnsupported). Only [`Synchronize::spinning_for`] can break a capture,
//!   one that other code began without custack, and that the stream becomes part of while the poll spins.
//! * Work in a legacy stream cannot be asked about while a blocking stream captures. What begins such a capture while the work is
//!   submitted delays its completion until the capture is over; so do not await it within the capture.
//! * Wakers are called on a thread of custack's, without a lock. A waker that panics is reported. Driver calls, and waiting
//!   for completions, are refused in wakers as in [callbacks](Stream::add_callback), and what a waker drops is destroyed
//!   soon after. A waker that takes long delays all others, as with any executor.
//!
//! # How it works, and what it costs
//!
//! The stream records an event, of which it keeps a few for that. The first poll asks up to four times
//! whether the event is reached: where many threads use the driver, short work is over by then. From then on a thread of
//! custack's looks; while the work of many streams is awaited, up to four threads share it. At first it looks without a
//! pause, for up to 200 us while the work that it sees takes no longer, and for 10 us where work takes long. Then it looks
//! ever less often, in steps of an eighth of the time it has waited so far, at least once a millisecond; with more than 32
//! awaited streams less often. Where the last four pieces of work took long, it leaves the next one alone for most of that, up to
//! 0.4 ms at once. So short work is noticed at once, unless it comes after long work, and long work after an eighth more of its
//! time at the most. A thread needs a tenth of a core at the most for work that
//! takes a millisecond, also for thousands of streams, and sleeps while nothing is awaited. A first poll that
//! spins ([`Synchronize::spinning_for`], [`Completion::spinning_for`]) needs it only for work that takes longer. Callbacks of
//! the driver would be slower for short work, would hold up the stream while they run, and do not come at all once a context is in error.

mod completion;
#[cfg(feature = "graph")]
mod graph;
mod in_context;
mod inbox;
mod outcome;
mod pace;
mod reactor;
mod slot;
mod submit;
mod synchronize;

/// What the slot and the inbox are made of; the model checker has its own.
mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    pub(super) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
}

pub use completion::Completion;
pub use in_context::{InContext, InContextExt};
pub use synchronize::Synchronize;

#[cfg(doc)]
use crate::error::CudaError;
use crate::error::CudaResult;
use crate::event::Event;
use crate::stream::Stream;

impl Stream {
    /// A future that is ready when all work that the stream has now is done.
    ///
    /// It does not keep the stream. It keeps its context at the driver until the work is done, as memory does.
    ///
    /// # Errors
    ///
    /// Of the call: [`StreamCaptureUnsupported`](CudaError::StreamCaptureUnsupported) if the stream is capturing;
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed);
    /// [`OperatingSystemError`](CudaError::OperatingSystemError) if no thread can be started. Of the future: the error of
    /// work that failed; [`ContextIsDestroyed`](CudaError::ContextIsDestroyed) if other code has destroyed the context.
    ///
    /// ```
    /// use custack::stream::{Stream, StreamFlags};
    ///
    /// let _context = custack::quick_init()?;
    /// let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    /// stream.launch_host_func(|| println!("first"))?;
    /// let first = stream.completion()?;
    /// let task = async { first.await };
    /// # drop(task);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuEventRecord", "cuEventQuery", "completion_future", "checked_completion_future"))]
    #[inline]
    pub fn completion(&self) -> CudaResult<Completion> {
        submit::submit(self, false, || Ok(()))
    }

    /// Waits, without a thread, until all work is done that the stream has when this is first polled. That poll can
    /// [spin](Synchronize::spinning_for).
    ///
    /// # Errors
    ///
    /// Those of [`completion`](Self::completion), and of the work.
    ///
    /// ```
    /// # use custack::stream::{Stream, StreamFlags};
    /// async fn task(stream: &Stream) -> custack::error::CudaResult<()> {
    ///     stream.launch_host_func(|| println!("on the stream"))?;
    ///     stream.synchronize_async().await
    /// }
    /// # let _context = custack::quick_init()?;
    /// # drop(task(&Stream::new(StreamFlags::NON_BLOCKING, None)?));
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuStreamSynchronize", "cuEventRecord", "cuEventQuery"))]
    #[inline]
    pub fn synchronize_async(&self) -> Synchronize<'_> {
        Synchronize::new(self)
    }

    /// Calls a closure that submits work to the stream; the future is ready when the work is done, with the closure's
    /// value.
    ///
    /// The value is kept until the work is done, whatever becomes of the future, so it is where to put what the work uses:
    /// buffers, events, a graph. If the work fails, it is dropped after that. If another thread makes the stream part of a
    /// capture while the closure runs, that is an error, and the value is never dropped, because a graph may use it. If the
    /// driver fails to record an event in a default stream, which no other thread can ask about, this call waits for the
    /// work; only if that fails too, that is an error, and the value is never dropped.
    ///
    /// # Errors
    ///
    /// Those of [`completion`](Self::completion), before the closure is called, then the closure's own. What is wrong with
    /// the work is the future's result.
    ///
    /// ```
    /// use custack::memory::DeviceBuffer;
    /// use custack::stream::{Stream, StreamFlags};
    ///
    /// let _context = custack::quick_init()?;
    /// let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    /// let filled = stream.enqueue_async(|stream| DeviceBuffer::from_slice_in(&[1, 2, 3], stream))?;
    /// let buffer = filled.wait()?;
    /// assert_eq!(buffer.len(), 3);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuEventRecord", "cuEventQuery"))]
    #[inline]
    pub fn enqueue_async<T, F>(&self, f: F) -> CudaResult<Completion<T>>
    where
        T: Send + 'static,
        F: FnOnce(&Stream) -> CudaResult<T>,
    {
        submit::submit(self, true, || f(self))
    }
}

impl Event {
    /// A future that is ready when the event's present marker is reached, whatever becomes of the event; at once if it
    /// was never recorded.
    ///
    /// # Errors
    ///
    /// Of the call: [`CapturedEvent`](CudaError::CapturedEvent) if it was recorded in a capture in progress that custack
    /// knows of;
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed);
    /// [`OperatingSystemError`](CudaError::OperatingSystemError) if no thread can be started. Of the future: as for
    /// [`Stream::completion`].
    ///
    /// ```
    /// use custack::event::{Event, EventFlags};
    /// use custack::stream::{Stream, StreamFlags};
    ///
    /// let _context = custack::quick_init()?;
    /// let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    /// let event = Event::new(EventFlags::DISABLE_TIMING)?;
    /// event.record(&stream)?;
    /// event.completion()?.wait()?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuStreamWaitEvent", "cuEventQuery"))]
    #[inline]
    pub fn completion(&self) -> CudaResult<Completion> {
        // A stream of its own, because in one that other completions use, this one would come after them.
        let waiting = self.context().create_stream(crate::stream::StreamFlags::NON_BLOCKING, None)?;
        self.awaited_by(&waiting)?;
        waiting.completion()
    }
}
