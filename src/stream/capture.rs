//! What can be asked of any stream about captures, and the mode of a thread. Capturing itself is written where
//! [graphs](crate::graph) are.

use super::Stream;
use crate::context::captures::{self, Member};
use crate::context::{Mode, Pin};
use crate::driver::ffi::CUstream;
use crate::driver::{Driver, Held, driver};
use crate::error::{CudaError, CudaResult};
use crate::report;
use std::fmt;
use std::marker::PhantomData;

/// What a capture forbids while it is in progress, of the calls that cannot be captured and that the graph would lack
/// (allocating, freeing, waiting, asking); and of a thread, what captures may forbid it.
///
/// Such a call fails where it is forbidden, and breaks the capture. custack refuses it before the driver is asked, where it
/// knows of the capture, and then nothing is broken. What a destructor does is never forbidden.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CaptureMode {
    /// To every thread; of a thread: what any capture forbids. What threads begin with.
    Global = 0,
    /// To the thread that began it; of a thread: what its own captures forbid.
    ThreadLocal = 1,
    /// To none; of a thread: nothing but what necessarily conflicts.
    Relaxed = 2,
}

/// Whether a stream captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CaptureStatus {
    /// It does not.
    None,
    /// It does.
    Active,
    /// It did, and a forbidden call has broken the capture, which yet has to be ended.
    Invalidated,
}

impl CaptureStatus {
    fn from_raw(status: u32) -> CudaResult<CaptureStatus> {
        match status {
            0 => Ok(CaptureStatus::None),
            1 => Ok(CaptureStatus::Active),
            2 => Ok(CaptureStatus::Invalidated),
            other => Err(CudaError::UnexpectedValue { function: "cuStreamIsCapturing", value: other.into() }),
        }
    }
}

impl Stream {
    /// Whether the stream captures: begun here, or joined to the capture of another by an event.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    ///
    /// ```
    /// use custack::stream::{CaptureStatus, Stream, StreamFlags};
    ///
    /// let _context = custack::quick_init()?;
    /// let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    /// assert_eq!(stream.capture_status()?, CaptureStatus::None);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuStreamIsCapturing")]
    pub fn capture_status(&self) -> CudaResult<CaptureStatus> {
        CaptureStatus::from_raw(self.inner.with(Driver::stream_is_capturing)?)
    }

    /// The driver's number of the capture that the stream is in, never used again in this process; `None` if it is in
    /// none, or in one that is broken.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    #[doc(alias("cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v2", "cuStreamGetCaptureInfo_v3"))]
    pub fn capture_id(&self) -> CudaResult<Option<u64>> {
        let info = self.inner.with(Driver::stream_get_capture_info)?;
        Ok((CaptureStatus::from_raw(info.status)? == CaptureStatus::Active).then_some(info.id))
    }
}

impl Stream {
    /// What is to be known of the stream while it captures, before it does: then to ask for its flags would break the
    /// capture.
    pub(crate) fn member(&self) -> CudaResult<(Member, Pin)> {
        let (flags, pin) =
            self.inner.with_pin(|driver, stream| match driver.stream_is_capturing(stream)? {
                0 => driver.stream_get_flags(stream),
                _ => Err(CudaError::IllegalState
                    .note(format_args!("to begin a capture in a stream that other code captures"))),
            })?;
        let blocking = flags & super::StreamFlags::NON_BLOCKING.bits() == 0;
        let stream = self.key();
        Ok((Member { stream, context: self.context().id(), blocking }, pin))
    }
}

impl Stream {
    /// Waits for an event, by `wait`, and notes if the stream joins the capture that the event is of.
    #[inline]
    pub(crate) fn waiting(&self, event: usize, wait: impl FnOnce() -> CudaResult<()>) -> CudaResult<()> {
        if captures::any() { self.waiting_in_captures(event, wait) } else { wait() }
    }

    #[cold]
    fn waiting_in_captures(&self, event: usize, wait: impl FnOnce() -> CudaResult<()>) -> CudaResult<()> {
        let stream = self.key();
        self.refuse_by_default("wait for an event in a legacy stream")?;
        captures::refuse_merge(stream, event)?;
        if captures::of_event(event).is_none() || captures::of_stream(stream).is_some() {
            return wait();
        }
        // Asked now, because it cannot be when it is capturing. What other code captures is not known here.
        let member = match self.member() {
            Err(CudaError::IllegalState) => return wait(),
            member => member?,
        };
        wait()?;
        captures::joined(member.0, event, member.1);
        Ok(())
    }
}

/// Destroys a stream. A capture that began in it and was not ended is lost with it: that is ended, and reported.
pub(super) fn destroy(driver: &Driver, stream: Held<'_, CUstream>) -> CudaResult<()> {
    if captures::any() {
        let at = stream.address();
        let lost = captures::ended_in(at);
        if let Some(lost) = &lost {
            let ended = end_and_discard(driver, stream);
            report::warn(format_args!(
                "a stream is destroyed, and its capture lost: {}: {ended:?}",
                lost.which
            ));
        }
        captures::forget_stream(at);
        return driver.stream_destroy(stream);
    }
    driver.stream_destroy(stream)
}

/// Ends a capture whose graph nobody wants.
fn end_and_discard(driver: &Driver, stream: Held<'_, CUstream>) -> CudaResult<()> {
    driver.end_capture(stream).and_then(|graph| driver.discard_graph(graph))
}

/// A thread's [`CaptureMode`], until this is dropped: then it is what it was before.
///
/// It is of the thread that made it, and goes with the scope that has it.
///
/// ```
/// use custack::stream::{CaptureMode, ThreadCaptureMode};
///
/// let _context = custack::quick_init()?;
/// let relaxed = ThreadCaptureMode::exchange(CaptureMode::Relaxed)?;
/// assert_eq!(relaxed.previous(), Some(CaptureMode::Global));
/// // What captures on this and other threads forbid is allowed here.
/// drop(relaxed);
/// # Ok::<(), custack::error::CudaError>(())
/// ```
pub struct ThreadCaptureMode {
    mode: Mode<'static>,
    not_send: PhantomData<*const ()>,
}

impl ThreadCaptureMode {
    /// Gives this thread the mode.
    ///
    /// # Errors
    ///
    /// What the driver answers.
    #[doc(alias = "cuThreadExchangeStreamCaptureMode")]
    pub fn exchange(mode: CaptureMode) -> CudaResult<ThreadCaptureMode> {
        let mode = Mode::exchange(driver()?, mode as u32)?;
        Ok(ThreadCaptureMode { mode, not_send: PhantomData })
    }

    /// The mode that was before, and that will be again; `None` if other code has given the thread one without a name.
    pub fn previous(&self) -> Option<CaptureMode> {
        let modes = [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];
        modes.into_iter().find(|mode| *mode as u32 == self.mode.before())
    }
}

impl fmt::Debug for ThreadCaptureMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadCaptureMode").field("previous", &self.previous()).finish()
    }
}
