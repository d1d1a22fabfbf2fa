//! The capture status of a stream, and the capture mode of a thread. Capturing itself is in [`graph`](crate::graph).

use super::Stream;
use crate::context::restore_mode;
use crate::driver::{Driver, driver};
use crate::error::{CudaError, CudaResult};
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;

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
