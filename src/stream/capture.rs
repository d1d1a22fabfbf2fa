//! The capture status of a stream, and the capture mode of a thread. Capturing itself is in [`graph`](crate::graph).

use super::Stream;
use crate::context::captures::{self, Member};
use crate::context::{Pin, Resource, restore_mode};
use crate::driver::ffi::{CUevent, CUstream};
use crate::driver::{Driver, Held, driver};
use crate::error::{CudaError, CudaResult, keep_note};
use crate::liveness::wait_for_calls;
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// The mode of a capture, or of a thread: which threads a capture forbids calls that cannot be captured (allocating,
/// freeing, waiting, querying), and by which captures a thread is affected.
///
/// A forbidden call fails and breaks the capture. If custack knows of the capture, it refuses the call before the
/// driver is called, and the capture is not broken. Destructors are never affected. A call or a destructor of another
/// thread at the very moment when a `Global` capture begins may break it, and the capture returns that; what other modes
/// forbid to no other thread does not.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CaptureMode {
    /// A capture forbids them to all threads; a thread is affected by all such captures. The initial mode of a thread.
    Global = 0,
    /// A capture forbids them to the thread that began it; a thread is affected by its own captures.
    ThreadLocal = 1,
    /// A capture forbids them to no thread; a thread is affected only by calls that necessarily conflict.
    Relaxed = 2,
}

/// The capture status of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CaptureStatus {
    /// It is not capturing.
    None,
    /// It is capturing.
    Active,
    /// A forbidden call has broken its capture, which must still be ended.
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
    /// Whether the stream is capturing: because the capture began here, or because the stream joined it by an event.
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
    #[inline]
    pub fn capture_status(&self) -> CudaResult<CaptureStatus> {
        CaptureStatus::from_raw(self.inner.with(Driver::stream_is_capturing)?)
    }

    /// The driver's id of the stream's capture, never reused in this process; `None` if it has none, or a broken one.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    #[cfg(feature = "graph")]
    #[doc(alias(
        "cuStreamGetCaptureInfo",
        "cuStreamGetCaptureInfo_v2",
        "cuStreamGetCaptureInfo_v3",
        "capture_info"
    ))]
    #[inline]
    pub fn capture_id(&self) -> CudaResult<Option<u64>> {
        let info = self.inner.with(Driver::stream_get_capture_info)?;
        Ok((CaptureStatus::from_raw(info.status)? == CaptureStatus::Active).then_some(info.id))
    }
}

impl Stream {
    /// What must be known about the stream during a capture. It is queried before, because querying the flags would
    /// break the capture.
    #[inline]
    pub(crate) fn member(&self) -> CudaResult<(Member, Pin)> {
        let (flags, pin) =
            self.inner.with_pin(|driver, stream| match driver.stream_is_capturing(stream)? {
                0 => driver.stream_get_flags(stream),
                _ => Err(CudaError::IllegalState
                    .note(format_args!("to begin a capture in a stream that other code captures"))),
            })?;
        let blocking = flags & super::StreamFlags::NON_BLOCKING.bits() == 0;
        let stream = self.key();
        let by = Arc::as_ptr(&self.inner).addr();
        let (context, raw_context) = (self.context().id(), self.context().as_raw().addr());
        Ok((Member { stream, context, raw_context, blocking, by }, pin))
    }
}

/// A driver call with an event and a stream.
pub(crate) type EventCall<'a> = dyn Fn(&Driver, Held<'_, CUevent>, Held<'_, CUstream>) -> CudaResult<()> + 'a;

impl Stream {
    /// Records an event by `record`, and notes in which capture that was, if any.
    #[inline]
    pub(crate) fn recording(
        &self,
        event: &Resource<CUevent>,
        record: impl Fn(&Driver, Held<'_, CUevent>, Held<'_, CUstream>) -> CudaResult<()>,
    ) -> CudaResult<()> {
        let mut is_known = false;
        let recorded = self.unless_captures(event, &record, &mut is_known);
        if cfg!(feature = "graph") && is_known {
            self.recording_in_captures(event, &record)
        } else {
            recorded
        }
    }

    /// Waits for an event by `wait`, and notes whether the stream joins the event's capture. `recorded` is whether the event
    /// was recorded by [`recording`](Self::recording) before.
    #[inline]
    pub(crate) fn waiting(
        &self,
        event: &Resource<CUevent>,
        recorded: bool,
        wait: impl Fn(&Driver, Held<'_, CUevent>, Held<'_, CUstream>) -> CudaResult<()>,
    ) -> CudaResult<()> {
        let mut is_known = false;
        let waited = self.unless_captures(event, &wait, &mut is_known);
        if cfg!(feature = "graph") && is_known {
            self.waiting_in_captures(event, recorded, &wait)
        } else {
            waited
        }
    }

    /// Makes this stream, which nothing else uses, wait for an event that must not be of a capture; `what` is what was
    /// asked.
    #[cfg(feature = "future")]
    pub(crate) fn wait_uncaptured(&self, event: &Resource<CUevent>, what: &'static str) -> CudaResult<()> {
        let wait = |driver: &Driver, event: Held<'_, CUevent>, stream: Held<'_, CUstream>| {
            driver.stream_wait_event(stream, event, 0)
        };
        let mut is_known = false;
        let waited = self.unless_captures(event, wait, &mut is_known);
        if !is_known {
            return waited;
        }
        let _alone = captures::one_at_a_time();
        captures::refuse_of(event.raw().addr(), what)?;
        event.with_both(&self.inner, wait)
    }

    /// Makes the call, unless captures are in progress, which `is_known` tells. That is looked up when the call is
    /// published: who adds the stream or the event to a capture later waits for the call. (It is no `Option` of the result:
    /// moving the result once more took as long as all of custack's part of the call.)
    #[inline]
    fn unless_captures(
        &self,
        event: &Resource<CUevent>,
        call: impl Fn(&Driver, Held<'_, CUevent>, Held<'_, CUstream>) -> CudaResult<()>,
        is_known: &mut bool,
    ) -> CudaResult<()> {
        event.with_both(&self.inner, |driver, event, stream| {
            *is_known = captures::any();
            if *is_known { Ok(()) } else { call(driver, event, stream) }
        })
    }

    #[cold]
    fn recording_in_captures(&self, event: &Resource<CUevent>, record: &EventCall<'_>) -> CudaResult<()> {
        let (stream, at) = (self.key(), event.raw().addr());
        let _alone = captures::one_at_a_time();
        captures::will_be_recorded(at, stream);
        // Other threads, which knew of no capture, record it or wait for it.
        wait_for_calls(|[event, with]| event == at && with != 0);
        let recorded = event.with_both(&self.inner, record);
        match recorded {
            Ok(()) => captures::recorded(at, stream),
            Err(_) => captures::may_be_recorded(at, stream),
        }
        recorded
    }

    #[cold]
    fn waiting_in_captures(
        &self,
        event: &Resource<CUevent>,
        recorded: bool,
        wait: &EventCall<'_>,
    ) -> CudaResult<()> {
        let (stream, at) = (self.key(), event.raw().addr());
        let wait = || event.with_both(&self.inner, wait);
        let _call;
        if self.is_legacy() {
            _call = self.refuse_by_default("wait for an event in a legacy stream")?;
        }
        // Dropped after the locks, because that may destroy the context.
        let _unused: Pin;
        let _alone = captures::one_at_a_time();
        captures::refuse_merge(stream, at)?;
        if recorded {
            captures::refuse_outside(stream, at)?;
        }
        if captures::of_event(at).is_none() || captures::of_stream(stream).is_some() {
            return wait();
        }
        // Queried now, because that is forbidden during the capture. Captures of other code are not known here.
        let (member, pin) = match self.member() {
            Err(CudaError::IllegalState) => return wait(),
            member => member?,
        };
        let blocking = member.blocking;
        let beginning = self.inner.beginning();
        if captures::of_stream(stream).is_some() {
            _unused = pin;
            return wait();
        }
        if let Err(pin) = captures::joins(member, at, pin) {
            _unused = pin;
            return wait();
        }
        let waited = self.inner.will_capture(&beginning, blocking).and_then(|()| wait());
        // A driver that fails may have made the stream part of the capture all the same, and one that succeeds may not, if it
        // had failed to record the event.
        let joined = {
            let _note = keep_note();
            self.inner.with(Driver::stream_is_capturing).map_or(waited.is_ok(), |status| status != 0)
        };
        if !joined {
            captures::forget_stream(stream);
        }
        #[cfg(feature = "graph")]
        if joined {
            self.inner.keep_green_in_capture();
        }
        waited
    }
}

/// Destroys a stream. A capture that began in it and was not ended is ended, and reported as lost.
pub(super) fn destroy(driver: &Driver, stream: Held<'_, CUstream>) -> CudaResult<()> {
    #[cfg(feature = "graph")]
    if captures::any() {
        return destroy_capturing(driver, stream);
    }
    driver.stream_destroy(stream)
}

/// Ends the capture that began in a stream, destroys its graph, and then the stream: with it ends a capture that the driver
/// would not end, which is listed until then.
#[cfg(feature = "graph")]
fn destroy_capturing(driver: &Driver, stream: Held<'_, CUstream>) -> CudaResult<()> {
    let at = stream.address();
    let lost = captures::end_lost_in(at).map(|lost| {
        let ended = driver.end_capture(stream).and_then(|graph| driver.discard_graph(graph));
        (lost, ended)
    });
    // Before the driver gives the handle to another stream.
    captures::forget_stream(at);
    let destroyed = driver.stream_destroy(stream);
    let Some((lost, ended)) = lost else { return destroyed };
    let which = lost.which;
    // Before the report, in which a subscriber may wait for what uses the capture's streams.
    let _pins = lost.into_pins();
    crate::report::warn(format_args!("a stream is destroyed, and its capture lost: {which}: {ended:?}"));
    destroyed
}

/// A guard of this thread's [`CaptureMode`]; dropping it restores the previous mode.
///
/// If guards are not dropped in the reverse order, the mode of the latest one stays until that is dropped, and then the
/// mode from before all that are gone is restored.
///
/// It cannot leave the thread.
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
    driver: &'static Driver,
    number: u64,
    previous: u32,
    not_send: PhantomData<*const ()>,
}

/// A guard of this thread that has not been undone.
#[derive(Debug, Clone, Copy)]
struct Exchanged {
    number: u64,
    previous: u32,
    /// The guard is dropped, but a later one is not.
    ended: bool,
}

thread_local! {
    /// This thread's guards, the latest last.
    static EXCHANGED: RefCell<Vec<Exchanged>> = const { RefCell::new(Vec::new()) };
}

impl ThreadCaptureMode {
    /// Sets this thread's mode.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
    #[doc(alias("cuThreadExchangeStreamCaptureMode", "exchange_capture_mode"))]
    #[inline]
    pub fn exchange(mode: CaptureMode) -> CudaResult<ThreadCaptureMode> {
        let driver = driver()?;
        let previous = driver.thread_exchange_stream_capture_mode(mode as u32)?;
        let push = |all: &RefCell<Vec<Exchanged>>| {
            let mut all = all.borrow_mut();
            let number = all.last().map_or(1, |last| last.number + 1);
            all.push(Exchanged { number, previous, ended: false });
            number
        };
        // A thread that is ending has no list any more; such a guard has the number 0.
        let number = EXCHANGED.try_with(push).unwrap_or(0);
        Ok(ThreadCaptureMode { driver, number, previous, not_send: PhantomData })
    }

    /// The mode that was set before; `None` if it has no name here.
    #[inline]
    pub fn previous(&self) -> Option<CaptureMode> {
        let modes = [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];
        modes.into_iter().find(|mode| *mode as u32 == self.previous)
    }

    /// Ends this guard; returns the mode to restore, or `None` while a later guard lives.
    fn end(&self, all: &mut Vec<Exchanged>) -> Option<u32> {
        let own = all.iter_mut().find(|exchanged| exchanged.number == self.number);
        let Some(own) = own else { return Some(self.previous) };
        own.ended = true;
        let mut restored = None;
        while let Some(last) = all.last().filter(|last| last.ended) {
            restored = Some(last.previous);
            all.pop();
        }
        restored
    }
}

impl Drop for ThreadCaptureMode {
    fn drop(&mut self) {
        let end = EXCHANGED.try_with(|all| self.end(&mut all.borrow_mut()));
        if let Some(mode) = end.unwrap_or(Some(self.previous)) {
            restore_mode(self.driver, mode);
        }
    }
}

impl fmt::Debug for ThreadCaptureMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadCaptureMode").field("previous", &self.previous()).finish()
    }
}
