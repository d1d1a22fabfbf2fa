//! The captures of streams that are in progress: what custack knows of them, so that a call that would break one can be
//! refused before the driver is asked, and so that a destructor breaks none.
//!
//! A capture is noted here from its beginning to its end, with its stream, the place in the source, and the streams and
//! events that it has spread to. Whoever has nothing to do with captures reads one number, on a line that is written
//! only when a capture begins or ends. A capture that other code began is not known here.

use super::destroy::Pin;
use crate::error::{CudaError, CudaResult};
use std::cell::Cell;
use std::fmt;
use std::mem;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// On lines of its own, because every call that a capture might forbid reads it.
#[repr(align(128))]
struct OwnLine(AtomicUsize);

static IN_PROGRESS: OwnLine = OwnLine(AtomicUsize::new(0));
static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());

thread_local! {
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// The number of the calling thread, from 1.
pub(crate) fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    if THREAD.get() == 0 {
        THREAD.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    THREAD.get()
}

/// What a capture forbids to threads whose own mode asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Forbids {
    /// To every thread.
    All,
    /// To the one that began it.
    Own,
    /// To none.
    None,
}

/// What says which capture it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Which {
    stream: usize,
    context: u64,
    since: &'static Location<'static>,
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {:#x} of context {} captures since {}", self.stream, self.context, self.since)
    }
}

/// A stream that captures.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member {
    pub(crate) stream: usize,
    /// The number of its context.
    pub(crate) context: u64,
    /// Whether the context's default stream would wait for it.
    pub(crate) blocking: bool,
}

struct Known {
    number: u64,
    which: Which,
    forbids: Forbids,
    thread: u64,
    /// Those that capture, the first one first.
    streams: Vec<Member>,
    /// Those that were last recorded in one of them.
    events: Vec<usize>,
    /// The contexts of the streams: what is captured is of them.
    pins: Vec<Pin>,
}

fn known() -> MutexGuard<'static, Vec<Known>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether any capture that custack knows of is in progress.
#[inline]
pub(crate) fn any() -> bool {
    IN_PROGRESS.0.load(Ordering::Relaxed) != 0
}

impl Known {
    fn has(&self, stream: usize) -> bool {
        self.streams.iter().any(|member| member.stream == stream)
    }
}

/// Notes a capture of the stream, which began a moment ago on this thread.
pub(crate) fn began(member: Member, pin: Pin, forbids: Forbids, since: &'static Location<'static>) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let which = Which { stream: member.stream, context: member.context, since };
    let (streams, pins, thread) = (vec![member], vec![pin], this_thread());
    known().push(Known { number, which, forbids, thread, streams, events: Vec::new(), pins });
    IN_PROGRESS.0.fetch_add(1, Ordering::SeqCst);
    number
}

/// A capture that is over.
pub(crate) struct Over {
    pub(crate) which: Which,
    pub(crate) pins: Vec<Pin>,
}

/// The capture is over.
pub(crate) fn ended(number: u64) -> Option<Over> {
    take(|capture| capture.number == number)
}

/// The capture that began in this stream, and is over.
pub(crate) fn ended_in(stream: usize) -> Option<Over> {
    take(|capture| capture.which.stream == stream)
}

fn take(is_it: impl Fn(&Known) -> bool) -> Option<Over> {
    let mut known = known();
    let at = known.iter().position(is_it)?;
    let Known { which, pins, .. } = known.swap_remove(at);
    IN_PROGRESS.0.fetch_sub(1, Ordering::SeqCst);
    Some(Over { which, pins })
}

/// The capture that the stream is in.
#[cold]
pub(crate) fn of_stream(stream: usize) -> Option<Which> {
    known().iter().find(|capture| capture.has(stream)).map(|capture| capture.which)
}

/// The capture that the event was last recorded in.
#[cold]
pub(crate) fn of_event(event: usize) -> Option<Which> {
    known().iter().find(|capture| capture.events.contains(&event)).map(|capture| capture.which)
}

/// The event was recorded in the stream.
#[cold]
pub(crate) fn recorded(event: usize, stream: usize) {
    for capture in known().iter_mut() {
        capture.events.retain(|other| *other != event);
        if capture.has(stream) {
            capture.events.push(event);
        }
    }
}

/// The stream, of the context that is pinned, waits for the event, and so joins the capture that the event is of.
#[cold]
pub(crate) fn joined(member: Member, event: usize, pin: Pin) {
    let mut known = known();
    let capture = known.iter_mut().find(|capture| capture.events.contains(&event));
    let Some(capture) = capture.filter(|capture| !capture.has(member.stream)) else {
        // The pin may destroy its context, which is no business of the lock's.
        drop(known);
        return drop(pin);
    };
    capture.streams.push(member);
    capture.pins.push(pin);
}

/// The stream, which did not begin the capture that it is in, is destroyed.
#[cold]
pub(crate) fn forget_stream(stream: usize) {
    known().iter_mut().for_each(|capture| capture.streams.retain(|member| member.stream != stream));
}

/// The event is destroyed.
#[cold]
pub(crate) fn forget_event(event: usize) {
    known().iter_mut().for_each(|capture| capture.events.retain(|other| *other != event));
}

/// The capture that forbids this thread most, and what it forbids: [`Forbids::Own`] if it began here, else
/// [`Forbids::All`].
#[cold]
pub(super) fn forbidding() -> Option<(Forbids, Which)> {
    let here = this_thread();
    let forbids = |capture: &Known| match capture.forbids {
        Forbids::None => None,
        _ if capture.thread == here => Some((Forbids::Own, capture.which)),
        Forbids::All => Some((Forbids::All, capture.which)),
        Forbids::Own => None,
    };
    let known = known();
    let all: Vec<_> = known.iter().filter_map(forbids).collect();
    let own = all.iter().find(|(forbids, _)| *forbids == Forbids::Own).copied();
    own.or_else(|| all.first().copied())
}

/// The capture that a stream of this context is in, of any stream or of one that the default stream would wait for.
#[cold]
pub(super) fn of_context(context: u64, blocking: bool) -> Option<Which> {
    let is_one = |member: &Member| member.context == context && (member.blocking || !blocking);
    let known = known();
    known.iter().find(|capture| capture.streams.iter().any(is_one)).map(|capture| capture.which)
}

/// Refuses work in a stream that is not to be captured, if it captures; `what` is what was asked.
#[inline]
pub(crate) fn refuse_in(stream: usize, what: &'static str) -> CudaResult<()> {
    if any() { refuse_in_known(stream, what) } else { Ok(()) }
}

#[cold]
fn refuse_in_known(stream: usize, what: &'static str) -> CudaResult<()> {
    let Some(which) = of_stream(stream) else { return Ok(()) };
    Err(CudaError::StreamCaptureUnsupported.note(format_args!("to {what}: {which}")))
}

/// Refuses to look at an event that was last recorded in a capture that is in progress.
#[inline]
pub(crate) fn refuse_of(event: usize, what: &'static str) -> CudaResult<()> {
    if any() { refuse_of_known(event, what) } else { Ok(()) }
}

#[cold]
fn refuse_of_known(event: usize, what: &'static str) -> CudaResult<()> {
    let Some(which) = of_event(event) else { return Ok(()) };
    Err(CudaError::CapturedEvent.note(format_args!("to {what} that was recorded in a capture: {which}")))
}

/// Refuses what would make two captures one: a stream of one that waits for an event of the other.
#[inline]
pub(crate) fn refuse_merge(stream: usize, event: usize) -> CudaResult<()> {
    if any() { refuse_merge_known(stream, event) } else { Ok(()) }
}

#[cold]
fn refuse_merge_known(stream: usize, event: usize) -> CudaResult<()> {
    let known = known();
    let of_event = known.iter().find(|capture| capture.events.contains(&event));
    let of_stream = known.iter().find(|capture| capture.has(stream));
    let (Some(event), Some(stream)) = (of_event, of_stream) else { return Ok(()) };
    if event.number == stream.number {
        return Ok(());
    }
    let (event, stream) = (event.which, stream.which);
    mem::drop(known);
    Err(CudaError::StreamCaptureMerge
        .note(format_args!("to wait for an event of another capture: {stream}, and {event}")))
}
