//! The captures of streams that are in progress: what custack knows of them, so that a call that would break one can be
//! refused before the driver is called, and so that a destructor breaks none.
//!
//! A capture is listed here from its beginning to its end, with its stream, its source location, and the streams and
//! events that it has spread to. Calls read numbers first, on a cache line that is written only when a capture begins or
//! ends. Captures of other code are not listed.
//!
//! Between a look at the list and the driver call another thread may begin a capture, or have a stream join one. So a call that
//! would break it ([`enter_breaking`](super::in_call::enter_breaking)), or whose work must not become part of it
//! ([`enter_uncaptured`](super::in_call::enter_uncaptured)), is published before it looks, and waited for. What a capture forbids
//! to other threads by its mode, whatever stream they use, is not: such a call may break a capture in the global mode that begins
//! at that moment.

mod ending;
mod lost;
mod refuse;
mod turn;

pub(crate) use ending::{Ending, end, ending, remove};
pub(super) use ending::{are_ending, ending_elsewhere};
pub(crate) use ending::{end_in, end_lost_in};
pub(crate) use lost::{ByHand, give_away, lose_in, lose_of_context, lose_of_value};
pub(super) use refuse::{forbid, refuse_forbidden, refuse_implicit, refuse_waiting};
pub(crate) use refuse::{refuse_in, refuse_merge, refuse_of, refuse_outside};
pub(crate) use turn::Turn;

use super::destroy::Pin;
use super::key::{key_of_legacy_stream, key_of_whole_context, may_be_of_any_capture, this_thread};
use crate::driver::{Locked, lock};
use std::collections::BTreeSet;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, Weak};

/// On cache lines of their own, because every call that a capture might forbid reads them.
#[repr(align(128))]
struct Numbers {
    in_progress: AtomicUsize,
    /// Those of them that are being ended.
    ending: AtomicUsize,
}

static NUMBERS: Numbers = Numbers { in_progress: AtomicUsize::new(0), ending: AtomicUsize::new(0) };
static LIST: Mutex<Vec<InProgress>> = Mutex::new(Vec::new());

/// The threads to which a capture forbids calls, if their own mode lets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Forbids {
    /// Every thread.
    All,
    /// The thread that began it.
    Own,
    /// No thread.
    None,
}

/// The description of a capture in notes.
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

/// A stream that is capturing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member {
    pub(crate) stream: usize,
    /// The number of its context.
    pub(crate) context: u64,
    /// The address of its context.
    pub(crate) raw_context: usize,
    /// Whether the context's default stream would wait for it.
    pub(crate) blocking: bool,
    /// Which of several values for this stream began or joined the capture: its address.
    pub(crate) by: usize,
}

struct InProgress {
    number: u64,
    which: Which,
    forbids: Forbids,
    thread: u64,
    /// The capturing streams; the capture began in the first.
    streams: Vec<Member>,
    /// The events that were last recorded in one of these streams.
    events: Vec<usize>,
    /// The keys of all streams and events that ever were part of it, and of its contexts.
    parts: BTreeSet<usize>,
    /// The contexts of the streams, and so of the graph's nodes.
    pins: Vec<Pin>,
    /// The thread that is ending it.
    ended_by: Option<u64>,
    /// Of one that was begun by hand or that a closure has left: what can end it, as long as that lives.
    by_hand: Option<Weak<dyn ByHand>>,
    /// Whether a closure has left it, because the driver would not end it. Its graph has no owner, so it can only be lost.
    left: bool,
    /// Whether all of its beginning is listed, so that another thread may end it by hand.
    begun: bool,
}

/// The list; in the child of a fork none of the parent's captures is in progress.
fn list() -> Locked<'static, Vec<InProgress>> {
    lock(&LIST)
}

/// Whether any capture that custack knows of is in progress.
#[inline]
pub(crate) fn any() -> bool {
    NUMBERS.in_progress.load(Ordering::Relaxed) != 0
}

impl InProgress {
    fn add(&mut self, member: Member, pin: Pin) {
        self.parts.extend([member.stream, key_of_whole_context(member.raw_context)]);
        if member.blocking {
            self.parts.insert(key_of_legacy_stream(member.raw_context));
        }
        self.streams.push(member);
        self.pins.push(pin);
    }

    fn has_part(&self, key: usize) -> bool {
        self.parts.contains(&key) || may_be_of_any_capture(key)
    }

    fn has(&self, stream: usize) -> bool {
        self.streams.iter().any(|member| member.stream == stream)
    }

    /// Whether the program ends it by a call.
    fn is_by_hand(&self) -> bool {
        self.by_hand.is_some() && self.begun && !self.left
    }
}

/// Adds a capture of the stream, which is about to begin on this thread: what is asked in between finds it. One that is
/// begun by hand can be lost.
pub(crate) fn begins(
    member: Member,
    pin: Pin,
    forbids: Forbids,
    since: &'static Location<'static>,
    by_hand: Option<Weak<dyn ByHand>>,
) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let which = Which { stream: member.stream, context: member.context, since };
    let mut capture = InProgress {
        number,
        which,
        forbids,
        thread: this_thread(),
        streams: Vec::new(),
        events: Vec::new(),
        parts: BTreeSet::new(),
        pins: Vec::new(),
        ended_by: None,
        by_hand,
        left: false,
        begun: false,
    };
    capture.add(member, pin);
    list().push(capture);
    NUMBERS.in_progress.fetch_add(1, Ordering::SeqCst);
    number
}

/// The capture that began in this stream, other than by hand: only what began it ends it.
pub(crate) fn of_closure(stream: usize) -> Option<Which> {
    let captures = list();
    let own = |capture: &&InProgress| capture.which.stream == stream && !capture.is_by_hand();
    captures.iter().find(own).map(|capture| capture.which)
}

/// The number of the capture that this stream is in, if that was begun by hand.
pub(crate) fn by_hand(stream: usize) -> Option<u64> {
    let captures = list();
    let own = |capture: &&InProgress| capture.is_by_hand() && capture.has(stream);
    captures.iter().find(own).map(|capture| capture.number)
}

/// Whether the capture of this number is in progress.
pub(crate) fn is_listed(number: u64) -> bool {
    list().iter().any(|capture| capture.number == number)
}

/// The capture that the stream is in.
#[cold]
pub(crate) fn of_stream(stream: usize) -> Option<Which> {
    list().iter().find(|capture| capture.has(stream)).map(|capture| capture.which)
}

/// The address of the value that began or joined the capture that the stream is in.
#[cold]
pub(crate) fn by_which_value(stream: usize) -> Option<usize> {
    let captures = list();
    let mut members = captures.iter().flat_map(|capture| &capture.streams);
    members.find(|member| member.stream == stream).map(|member| member.by)
}

/// The capture that the event was last recorded in.
#[cold]
pub(crate) fn of_event(event: usize) -> Option<Which> {
    list().iter().find(|capture| capture.events.contains(&event)).map(|capture| capture.which)
}

/// Whether the stream or the event is part of a capture.
#[cold]
pub(crate) fn concern(stream: usize, event: usize) -> bool {
    list().iter().any(|capture| capture.has(stream) || capture.events.contains(&event))
}

/// The event is about to be recorded in the stream: from then on it is part of the stream's capture, if that captures.
#[cold]
pub(crate) fn will_be_recorded(event: usize, stream: usize) {
    if let Some(capture) = list().iter_mut().find(|capture| capture.has(stream)) {
        capture.parts.insert(event);
        if !capture.events.contains(&event) {
            capture.events.push(event);
        }
    }
}

/// The event was recorded in the stream, and is part of no other capture. All under one lock, or a thread that looks in between
/// would query an event of a capture.
#[cold]
pub(crate) fn recorded(event: usize, stream: usize) {
    for capture in list().iter_mut() {
        let here = capture.has(stream);
        capture.events.retain(|other| *other != event);
        if here {
            capture.events.push(event);
        }
    }
}

/// The stream, whose context is pinned, is about to wait for the event, and so to join the event's capture. The pin is
/// returned if that capture has ended meanwhile.
#[cold]
pub(crate) fn joins(member: Member, event: usize, pin: Pin) -> Result<(), Pin> {
    let mut captures = list();
    let Some(capture) = captures.iter_mut().find(|capture| capture.events.contains(&event)) else {
        return Err(pin);
    };
    capture.add(member, pin);
    Ok(())
}

/// The graph of the capture that the stream is in uses something of the context that is pinned.
pub(crate) fn also_in(stream: usize, pin: Pin) {
    let mut captures = list();
    match captures.iter_mut().find(|capture| capture.has(stream)) {
        Some(capture) => capture.pins.push(pin),
        None => {
            // Dropping the pin may destroy its context, which must not happen under the lock.
            drop(captures);
            drop(pin);
        }
    }
}

/// All of the beginning of a capture by hand is listed, with these pins of what its graph uses. They are returned if the
/// capture is over, to be dropped without a lock.
#[must_use]
pub(crate) fn has_begun(number: u64, pins: Vec<Pin>) -> Vec<Pin> {
    let mut captures = list();
    let Some(capture) = captures.iter_mut().find(|capture| capture.number == number) else { return pins };
    capture.begun = true;
    capture.pins.extend(pins);
    Vec::new()
}

/// The stream, which did not begin the capture that it is in, has not joined it, or is destroyed.
#[cold]
pub(crate) fn forget_stream(stream: usize) {
    list().iter_mut().for_each(|capture| capture.streams.retain(|member| member.stream != stream));
}

/// The event is destroyed.
#[inline]
pub(crate) fn forget_event(event: usize) {
    if any() {
        forget_known_event(event);
    }
}

#[cold]
fn forget_known_event(event: usize) {
    list().iter_mut().for_each(|capture| capture.events.retain(|other| *other != event));
}

/// The capture that restricts this thread most, and why: [`Forbids::Own`] if it began here, else [`Forbids::All`].
#[cold]
pub(super) fn forbidding() -> Option<(Forbids, Which)> {
    let here = this_thread();
    let forbids = |capture: &InProgress| match capture.forbids {
        Forbids::None => None,
        _ if capture.thread == here => Some((Forbids::Own, capture.which)),
        Forbids::All => Some((Forbids::All, capture.which)),
        Forbids::Own => None,
    };
    let captures = list();
    let all: Vec<_> = captures.iter().filter_map(forbids).collect();
    let own = all.iter().find(|(forbids, _)| *forbids == Forbids::Own).copied();
    own.or_else(|| all.first().copied())
}

/// A capture of a stream of the context with this address; with `blocking` only of one that the default stream would wait for.
#[cold]
pub(super) fn of_context(context: usize, blocking: bool) -> Option<Which> {
    let is_one = |member: &Member| member.raw_context == context && (member.blocking || !blocking);
    let captures = list();
    captures.iter().find(|capture| capture.streams.iter().any(is_one)).map(|capture| capture.which)
}
