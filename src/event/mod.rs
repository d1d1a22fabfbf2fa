//! Events: markers in streams, to wait for and to measure time between.
//!
//! ```
//! use custack::event::{Event, EventFlags, EventStatus};
//! use custack::stream::{Stream, StreamFlags, StreamWaitEventFlags};
//!
//! let _context = custack::quick_init()?;
//! let (a, b) = (Stream::new(StreamFlags::NON_BLOCKING, None)?, Stream::new(StreamFlags::NON_BLOCKING, None)?);
//! let (start, end) = (Event::new(EventFlags::DEFAULT)?, Event::new(EventFlags::DEFAULT)?);
//!
//! start.record(&a)?;
//! b.wait_event(&start, StreamWaitEventFlags::DEFAULT)?; // what `b` gets now comes after the mark in `a`
//! end.record(&b)?;
//! end.synchronize()?;
//! assert_eq!(end.query()?, EventStatus::Ready);
//! println!("{} ms", end.elapsed_time_f32(&start)?);
//! # Ok::<(), custack::error::CudaError>(())
//! ```

// Raw handles from the caller.
#![allow(unsafe_code)]

mod awaited;
#[cfg(feature = "green")]
mod green;
#[cfg(feature = "processes")]
mod interprocess;
mod wait;
mod whole;

#[cfg(feature = "processes")]
pub use interprocess::IpcEventHandle;

use crate::context::in_call::a_graph_uses_an_event;
use crate::context::{Resource, UnownedContext, captures, refuse_in_legacy, refuse_unsafe};
use crate::driver::ffi::{CUevent, CUstream};
use crate::driver::{Driver, Held};
use crate::error::{CudaError, CudaResult, DropResult};
use crate::stream::{EventCall, Stream};
use bitflags::bitflags;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

bitflags! {
    /// Options for making an event.
    pub struct EventFlags: u32 {
        /// No flag.
        const DEFAULT = 0x0;
        /// A thread that waits for the event sleeps instead of spinning.
        const BLOCKING_SYNC = 0x1;
        /// The event cannot measure time; waiting for it is cheaper.
        const DISABLE_TIMING = 0x2;
        /// Other processes may wait for it; requires `DISABLE_TIMING`.
        const INTERPROCESS = 0x4;
    }
}

bitflags! {
    /// Flags of [`Event::record_with_flags`].
    pub struct EventRecordFlags: u32 {
        /// No flag.
        const DEFAULT = 0x0;
        /// In a capture: at each launch the graph records the event for waits outside the graph. Only
        /// `Capture::record_external` does that, because the graph has to keep the event.
        const EXTERNAL = 0x1;
    }
}

/// Whether the stream has reached an event's marker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EventStatus {
    /// It has, or the event was never recorded.
    Ready,
    /// It has not.
    NotReady,
}

/// A marker in a stream; see the [module](self).
///
/// It belongs to the context that was current when it was made, and works on any thread, whatever is current there. It
/// may be shared: by reference, or in an `Arc`.
#[repr(C)]
pub struct Event(Resource<CUevent>, Recorded);

/// Whether an event was recorded through custack, or was to be, so that custack knows in which capture, if in any.
#[derive(Debug, Default)]
struct Recorded(AtomicBool);

#[doc(hidden)]
impl From<Resource<CUevent>> for Event {
    #[inline]
    fn from(event: Resource<CUevent>) -> Event {
        Event(event, Recorded::default())
    }
}

impl UnownedContext {
    /// Makes an event in this context, whatever is current.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed), without a driver call;
    /// [`InvalidContext`](CudaError::InvalidContext) for a null handle; [`InvalidValue`](CudaError::InvalidValue) for
    /// flags that cannot be combined.
    ///
    /// ```
    /// use custack::context::{ContextStack, CurrentContext};
    /// use custack::event::{EventFlags, EventStatus};
    ///
    /// let context = custack::quick_init()?;
    /// ContextStack::pop()?;
    /// let event = context.create_event(EventFlags::DISABLE_TIMING)?;
    /// assert_eq!(event.query()?, EventStatus::Ready);
    /// assert!(CurrentContext::get_current()?.is_null());
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuEventCreate")]
    #[inline]
    pub fn create_event(&self, flags: EventFlags) -> CudaResult<Event> {
        let make = |driver: &Driver| driver.event_create(flags.bits());
        Resource::make_in(self, make, destroy).map(Event::from)
    }
}

impl Event {
    /// Makes an event in the current context.
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](CudaError::InvalidContext) if no context is current;
    /// [`InvalidValue`](CudaError::InvalidValue) for flags that exclude each other.
    #[doc(alias = "cuEventCreate")]
    #[inline]
    pub fn new(flags: EventFlags) -> CudaResult<Event> {
        let make = |driver: &Driver| driver.event_create(flags.bits());
        Resource::make(make, destroy).map(Event::from)
    }

    /// Makes an event in a context, whatever is current.
    #[inline]
    pub(crate) fn in_context(context: &UnownedContext, flags: EventFlags) -> CudaResult<Event> {
        let make = |driver: &Driver| driver.event_create(flags.bits());
        Resource::make_in(context, make, destroy).map(Event::from)
    }

    /// Puts the marker after the work that the stream has now; an earlier marker of this event is forgotten.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](CudaError::InvalidHandle) if the stream belongs to another context;
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    #[doc(alias = "cuEventRecord")]
    #[inline]
    pub fn record(&self, stream: &Stream) -> CudaResult<()> {
        self.is_of_the_context_of(stream)?;
        if stream.is_legacy() {
            return self.record_by_default(stream, &Driver::event_record);
        }
        self.recording(stream, Driver::event_record)
    }

    /// Like [`record`](Self::record), with flags (CUDA 11.1 and later).
    ///
    /// # Errors
    ///
    /// Like [`record`](Self::record); [`IllegalState`](CudaError::IllegalState) for `EXTERNAL`.
    #[doc(alias = "cuEventRecordWithFlags")]
    #[inline]
    pub fn record_with_flags(&self, stream: &Stream, flags: EventRecordFlags) -> CudaResult<()> {
        if flags.contains(EventRecordFlags::EXTERNAL) {
            return Err(refuse_external("record"));
        }
        self.is_of_the_context_of(stream)?;
        let record = |driver: &Driver, event: Held<'_, CUevent>, stream: Held<'_, CUstream>| {
            driver.event_record_with_flags(event, stream, flags.bits())
        };
        if stream.is_legacy() {
            self.record_by_default(stream, &record)
        } else {
            self.recording(stream, record)
        }
    }

    #[cold]
    fn record_by_default(&self, stream: &Stream, record: &EventCall<'_>) -> CudaResult<()> {
        let what = "record an event in a legacy stream";
        refuse_in_legacy(stream.context(), what)?;
        // The call is published as one in the stream when this asks. Not before: for a lock that it takes others wait for calls.
        self.recording(stream, |driver, event, held| {
            refuse_in_legacy(stream.context(), what)?;
            record(driver, event, held)
        })
    }

    #[inline]
    fn recording(
        &self,
        stream: &Stream,
        record: impl Fn(&Driver, Held<'_, CUevent>, Held<'_, CUstream>) -> CudaResult<()>,
    ) -> CudaResult<()> {
        // Before the call, whose result would be moved once more otherwise, which takes longer than this.
        self.is_recorded_now();
        stream.recording(&self.0, record)
    }

    /// It is recorded through custack.
    #[inline]
    fn is_recorded_now(&self) {
        let Recorded(recorded) = &self.1;
        // Written once: threads may share the event.
        if !recorded.load(Ordering::Relaxed) {
            recorded.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it was recorded through custack. Otherwise nothing is known of its marker.
    #[inline]
    fn is_known(&self) -> bool {
        self.1.0.load(Ordering::Relaxed)
    }

    #[inline]
    fn is_of_the_context_of(&self, stream: &Stream) -> CudaResult<()> {
        if self.0.context().shares_with(stream.context()) {
            return Ok(());
        }
        let (here, there) = (self.0.context(), stream.context());
        Err(CudaError::InvalidHandle
            .note(format_args!("to record an event of {here} in a stream of {there}")))
    }

    /// Whether the stream has reached the marker.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed); the error of work that failed.
    #[doc(alias = "cuEventQuery")]
    #[inline]
    pub fn query(&self) -> CudaResult<EventStatus> {
        let what = "query an event";
        self.refuse_while_captured(what)?;
        let query = |driver: &Driver, event: Held<'_, CUevent>| {
            // Again, now that the call is published: who records the event in a capture waits for it.
            captures::refuse_of(event.address(), what)?;
            driver.event_query(event)
        };
        match self.0.with(query) {
            Ok(()) => Ok(EventStatus::Ready),
            Err(CudaError::NotReady) => Ok(EventStatus::NotReady),
            Err(error) => Err(error),
        }
    }

    /// Waits until the stream has reached the marker.
    ///
    /// # Errors
    ///
    /// Like [`query`](Self::query).
    #[doc(alias = "cuEventSynchronize")]
    #[inline]
    pub fn synchronize(&self) -> CudaResult<()> {
        let what = "wait for an event";
        self.refuse_while_captured(what)?;
        self.0.wait(|driver, event| {
            captures::refuse_of(event.address(), what)?;
            driver.event_synchronize(event)
        })
    }

    /// Milliseconds from `start` to this event, with a resolution of about half a microsecond.
    ///
    /// # Errors
    ///
    /// [`NotReady`](CudaError::NotReady) if one of them has not been reached;
    /// [`InvalidHandle`](CudaError::InvalidHandle) if one was never recorded, was made without timing, or belongs to
    /// another context.
    #[doc(alias("cuEventElapsedTime", "cuEventElapsedTime_v2"))]
    #[inline]
    pub fn elapsed_time_f32(&self, start: &Event) -> CudaResult<f32> {
        captures::refuse_of(start.0.raw().addr(), "measure from an event")?;
        captures::refuse_of(self.0.raw().addr(), "measure to an event")?;
        let asked = self.0.with_both(&start.0, |driver, end, start| driver.event_elapsed_time(start, end));
        asked.inspect_err(|error| {
            if *error == CudaError::NotReady {
                error.note(format_args!("to measure the time between two events"));
            }
        })
    }

    /// The time from `start` to this event, with a resolution of about half a microsecond.
    ///
    /// # Errors
    ///
    /// Like [`elapsed_time_f32`](Self::elapsed_time_f32); [`InvalidValue`](CudaError::InvalidValue) if `start` came
    /// after this event.
    #[doc(alias("cuEventElapsedTime", "cuEventElapsedTime_v2"))]
    #[inline]
    pub fn elapsed_time(&self, start: &Event) -> CudaResult<Duration> {
        let millis = self.elapsed_time_f32(start)?;
        Duration::try_from_secs_f64(f64::from(millis) / 1000.0).map_err(|_| {
            CudaError::InvalidValue
                .note(format_args!("to measure from an event that came {} ms later", -millis))
        })
    }

    /// The event's context.
    #[inline]
    pub fn context(&self) -> &UnownedContext {
        self.0.context()
    }

    /// The driver's handle.
    #[inline]
    pub fn as_raw(&self) -> CUevent {
        self.0.raw()
    }

    /// Gives up ownership: the event is not destroyed, and whoever has the handle owns it.
    #[inline]
    pub fn into_raw(self) -> CUevent {
        self.0.into_raw()
    }

    /// Takes ownership of an event of the current context.
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](CudaError::InvalidContext) if no context is current.
    ///
    /// # Safety
    ///
    /// The handle is that of an event of the current context, and nothing else will destroy it.
    #[inline]
    pub unsafe fn from_raw(raw: CUevent) -> CudaResult<Event> {
        let context = UnownedContext::of_this_thread()?;
        // SAFETY: as the caller guarantees.
        Ok(Event::from(unsafe { Resource::new(raw, context, destroy) }))
    }

    /// Destroys the event; if that fails, returns the error and the event.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
    #[doc(alias("cuEventDestroy", "cuEventDestroy_v2"))]
    #[inline]
    pub fn drop(event: Event) -> DropResult<Event> {
        event.0.drop().map_err(|(error, inner)| (error, Event::from(inner)))
    }

    /// Refuses a call that would break a capture in progress.
    #[inline]
    fn refuse_while_captured(&self, what: &'static str) -> CudaResult<()> {
        captures::refuse_of(self.0.raw().addr(), what)?;
        refuse_unsafe(what)
    }

    #[inline]
    pub(crate) fn inner(&self) -> &Resource<CUevent> {
        &self.0
    }

    /// For a node of a graph, whose launches do not name the event.
    #[inline]
    pub(crate) fn in_graph(&self) -> &Resource<CUevent> {
        a_graph_uses_an_event();
        &self.0
    }
}

/// Refuses what would become a node of a graph that does not keep the event; `what` is what was asked.
#[cold]
fn refuse_external(what: &'static str) -> CudaError {
    CudaError::IllegalState.note(format_args!(
        "to {what} an event for what is outside of a graph, which has to keep the event: Capture::{what}_external does that"
    ))
}

/// Destroys an event, and removes it from the list of captures, because the driver may reuse its handle.
#[inline]
fn destroy(driver: &Driver, event: Held<'_, CUevent>) -> CudaResult<()> {
    captures::forget_event(event.address());
    driver.event_destroy(event)
}

impl fmt::Debug for Event {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("raw", &self.as_raw()).field("context", self.context()).finish()
    }
}
