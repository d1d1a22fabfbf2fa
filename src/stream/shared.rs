//! The handle that a stream shares with the memory that is allocated in its order.

// A number is turned back into a reference to its stream.
#![allow(unsafe_code)]

mod in_capture;
mod over;

use super::mark::destroy_mark;
use super::spare::Spare;
use crate::context::captures;
use crate::context::in_call::{InCall, enter_breaking, enter_uncaptured, of_graph};
use crate::context::{Pin, Resource, relax};
use crate::driver::ffi::{CU_STREAM_LEGACY, CUevent, CUstream};
use crate::driver::{Driver, Held, driver, lock, refuse_in_child};
use crate::error::{CudaError, CudaResult};
use crate::liveness::{BREAKS, NUMBERS, WAITS};
use crate::report;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// A stream's handle. Memory whose home the stream is is freed in it, so the stream is destroyed when the program has
/// dropped it and all such memory is freed.
#[derive(Debug)]
pub(crate) struct Shared {
    stream: Resource<CUstream>,
    /// An event for others to wait for; made when first needed. It is only recorded in this stream, so a thread that
    /// finds a later marker than its own waits for more, never for less.
    mark: OnceLock<Box<Resource<CUevent>>>,
    /// An event that is recorded before the stream begins or joins a capture, if memory is in its order.
    before_capture: OnceLock<Box<Resource<CUevent>>>,
    /// Set when the first memory is allocated in its order.
    number: OnceLock<u16>,
    /// What marks the end of its awaited work; made when work is awaited for the first time.
    spare: OnceLock<Arc<Spare>>,
    /// Keeps the green context that the stream is of: the driver destroys it after the stream.
    green: Option<Pin>,
    /// Other code owns the stream now, and what shares it here does not destroy it.
    given_away: AtomicBool,
}

/// How many times the driver is asked in every way whether memory is used, before that is kept for
/// ever.
const ROUNDS: u32 = 8;

/// The flag for an event without timing.
const DISABLE_TIMING: u32 = 2;

/// Streams by number, from [`NUMBERS`] on: lower numbers belong to contexts.
static BY_NUMBER: [AtomicPtr<Shared>; NUMBERS as usize] =
    [const { AtomicPtr::new(ptr::null_mut()) }; NUMBERS as usize];

/// Numbers that are free again, and how many were used so far.
static NUMBERED: Mutex<(Vec<u16>, u16)> = Mutex::new((Vec::new(), 0));

impl Shared {
    #[inline]
    pub(super) fn new(stream: Resource<CUstream>, green: Option<Pin>) -> Shared {
        Shared {
            stream,
            mark: OnceLock::new(),
            before_capture: OnceLock::new(),
            number: OnceLock::new(),
            spare: OnceLock::new(),
            green,
            given_away: AtomicBool::new(false),
        }
    }

    /// The handle of a stream that nothing shares any more, and what keeps its green context.
    #[inline]
    pub(super) fn into_stream(mut self) -> (Resource<CUstream>, Option<Pin>) {
        (self.stream.take(), self.green.take())
    }

    /// Other code owns the stream from here on.
    pub(super) fn give_away(&self) {
        self.given_away.store(true, Ordering::Relaxed);
    }

    /// The number of this stream, which it keeps as long as it lives.
    ///
    /// # Errors
    ///
    /// [`NotSupported`](CudaError::NotSupported) if 32768 streams have one.
    #[inline]
    pub(crate) fn number(self: &Arc<Self>) -> CudaResult<u16> {
        match self.number.get() {
            Some(number) => Ok(*number),
            None => self.take_number(),
        }
    }

    #[cold]
    fn take_number(self: &Arc<Self>) -> CudaResult<u16> {
        refuse_in_child()?;
        let mut numbered = lock(&NUMBERED);
        // Another thread may have been here first.
        if let Some(number) = self.number.get() {
            return Ok(*number);
        }
        let (free, given) = &mut *numbered;
        let number = free.pop().or_else(|| {
            let next = *given;
            *given = NUMBERS.min(next + 1);
            (next < NUMBERS).then_some(next)
        });
        let Some(number) = number else {
            return Err(CudaError::NotSupported
                .note(format_args!("to allocate memory in the order of more than {NUMBERS} streams")));
        };
        BY_NUMBER[usize::from(number)].store(Arc::as_ptr(self).cast_mut(), Ordering::Release);
        Ok(*self.number.get_or_init(|| NUMBERS + number))
    }

    /// The stream with this number; `None` if it is the number of a context.
    ///
    /// # Safety
    ///
    /// What has the number lives meanwhile.
    #[inline]
    pub(crate) unsafe fn numbered(number: u16) -> Option<Arc<Shared>> {
        let at = BY_NUMBER.get(usize::from(number.checked_sub(NUMBERS)?))?.load(Ordering::Acquire);
        // SAFETY: the caller guarantees that it lives, and a stream with a number is in an `Arc`.
        unsafe {
            Arc::increment_strong_count(at);
            Some(Arc::from_raw(at))
        }
    }

    pub(crate) fn spare(&self) -> &Arc<Spare> {
        self.spare.get_or_init(Arc::default)
    }

    #[inline]
    pub(super) fn mark(&self) -> CudaResult<&Resource<CUevent>> {
        self.event(&self.mark)
    }

    fn event<'a>(&self, made: &'a OnceLock<Box<Resource<CUevent>>>) -> CudaResult<&'a Resource<CUevent>> {
        if let Some(event) = made.get() {
            return Ok(event);
        }
        let make = |driver: &Driver| driver.event_create(DISABLE_TIMING);
        let event = Resource::make_in(self.stream.context(), make, destroy_mark)?;
        Ok(made.get_or_init(|| Box::new(event)))
    }

    /// Waits for the stream's work, up to the beginning of its capture if it captures; the pin is of
    /// its context. False if that cannot be waited for: the memory is then kept.
    pub(crate) fn wait_outside_capture(&self, pin: &Pin) -> bool {
        let Ok(driver) = driver() else { return true };
        let _relaxed = relax(driver);
        match self.wait_for_event_or_stream(pin) {
            Ok(()) => true,
            Err(error) => {
                report::debug(format_args!("waiting to free memory: {error:?}"));
                let captured = matches!(error, CudaError::StreamCaptureUnsupported | CudaError::IllegalState);
                !captured && self.ask_until_over(pin, Some(ROUNDS)).is_ok()
            }
        }
    }

    /// Makes the event that others wait for, and keeps the context at the driver.
    #[inline]
    pub(crate) fn prepare(&self) -> CudaResult<Pin> {
        self.mark()?;
        self.stream.context().pin()
    }

    /// Makes the other stream wait for the present work of this one.
    #[inline]
    pub(crate) fn before(&self, later: &Shared) -> CudaResult<()> {
        let mark = self.mark()?;
        mark.with_both(&self.stream, Driver::event_record)?;
        mark.with_both(&later.stream, |driver, mark, stream| driver.stream_wait_event(stream, mark, 0))
    }

    /// Like [`before`](Self::before), but also after the contexts' owners were dropped; the pins are of the contexts.
    pub(crate) fn before_at_last(&self, pin: &Pin, later: &Shared, later_pin: &Pin) -> CudaResult<()> {
        let Some(mark) = self.mark.get() else { return Ok(()) };
        let ordered = mark.with_pinned(pin, |driver, event| {
            let recorded = self.stream.with_pinned(pin, |driver, stream| driver.event_record(event, stream));
            recorded.unwrap_or(Ok(()))?;
            let waits =
                later.stream.with_pinned(later_pin, |_, stream| driver.stream_wait_event(stream, event, 0));
            waits.unwrap_or(Ok(()))
        });
        ordered.unwrap_or(Ok(()))
    }

    /// Whether it is the legacy stream of its context, which waits for blocking streams.
    #[inline]
    pub(super) fn is_legacy(&self) -> bool {
        self.stream.raw().addr() <= CU_STREAM_LEGACY.addr()
    }

    /// Makes a call that would break a capture of the stream, or of a blocking one if this is a legacy stream. Refused if there is
    /// such a capture, and none begins during the call, unless that is blocked in the driver; `what` is what was asked.
    #[inline]
    pub(crate) fn outside_capture<R>(
        &self,
        what: &'static str,
        f: impl FnOnce(&Driver, Held<'_, CUstream>) -> CudaResult<R>,
    ) -> CudaResult<R> {
        let call = self.enter_breaking(what)?;
        self.stream.with_in(&call, f)
    }

    /// Like [`outside_capture`](Self::outside_capture), for a call that waits for work.
    #[inline]
    pub(super) fn wait_outside_captures(
        &self,
        what: &'static str,
        wait: impl FnOnce(&Driver, Held<'_, CUstream>) -> CudaResult<()>,
    ) -> CudaResult<()> {
        let call = self.enter_as(WAITS, what)?;
        self.stream.with_in(&call, wait)
    }

    /// Begins a call that would break a capture.
    #[inline]
    pub(crate) fn enter_breaking(&self, what: &'static str) -> CudaResult<InCall> {
        self.enter_as(BREAKS, what)
    }

    /// Begins a launch of a graph, which would break a capture.
    #[inline]
    pub(crate) fn enter_launch(&self, what: &'static str) -> CudaResult<InCall> {
        self.enter_as(of_graph(), what)
    }

    #[inline]
    fn enter_as(&self, how: usize, what: &'static str) -> CudaResult<InCall> {
        let legacy = self.is_legacy().then(|| self.stream.context());
        enter_breaking(self.stream.key(), how, legacy, what)
    }

    /// Begins a short call whose work must not become part of a graph: until the result is dropped no capture begins in the
    /// stream. Refused if it is capturing already; `what` is what was asked.
    #[inline(always)]
    pub(crate) fn uncaptured(&self, what: &'static str) -> CudaResult<InCall> {
        enter_uncaptured(self.stream.key(), what)
    }
}

impl Deref for Shared {
    type Target = Resource<CUstream>;

    fn deref(&self) -> &Resource<CUstream> {
        &self.stream
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if *self.given_away.get_mut() {
            self.stream.give_up();
        } else if !self.stream.is_owned() {
            // The owner of the stream may destroy it now.
            captures::lose_of_value(ptr::from_ref(self).addr(), &|pin| self.end_lost(pin));
        }
        if let Some(number) = self.number.get() {
            let number = number - NUMBERS;
            BY_NUMBER[usize::from(number)].store(ptr::null_mut(), Ordering::Release);
            lock(&NUMBERED).0.push(number);
        }
    }
}
