//! Work whose end is awaited: from the call that submits it to the future's outcome.

use super::Completion;
use super::outcome::{Failed, Outcome, Place};
use super::reactor::{self, Work};
use crate::context::{Pin, UnownedContext, is_lost};
use crate::driver::ffi::CUstream;
use crate::driver::{Driver, Held, as_host_function};
use crate::error::{CudaError, CudaResult};
use crate::event::Event;
use crate::liveness::{Lease, retire};
use crate::report;
use crate::stream::{Shared, Spare, Stream, refuse_while_capturing};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Weak};
use std::time::Instant;

const WHAT: &str = "await the work of a stream";

/// Calls `f`, which submits work to the stream, and awaits all that the stream has then. Whatever can fail is done before
/// `f` is called, except recording an event. If `f` is the `program`'s it may have begun a capture that custack does not
/// know of, so the stream is asked again.
pub(super) fn submit<T: Send + 'static>(
    stream: &Stream,
    program: bool,
    f: impl FnOnce() -> CudaResult<T>,
) -> CudaResult<Completion<T>> {
    let unmarked = Unmarked::prepare(stream)?;
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => unmarked.mark(stream, program, value),
        Ok(Err(error)) => {
            unmarked.unused(stream);
            Err(error)
        }
        Err(panic) => {
            unmarked.unused(stream);
            resume_unwind(panic)
        }
    }
}

/// What marks the end of a stream's work, before it does. It is not dropped but [`unused`](Self::unused).
///
/// The context has a lease and no pin yet: pins are counted where all threads count them.
pub(super) struct Unmarked {
    event: Event,
    context: UnownedContext,
    lease: Lease,
}

/// What a stream has answered.
pub(super) enum Asked {
    /// Its work is over, with this result.
    Over(CudaResult<()>),
    GoesOn,
    /// Nothing.
    Refused,
}

impl Unmarked {
    pub(super) fn prepare(stream: &Stream) -> CudaResult<Unmarked> {
        stream.refuse_in_capture(WHAT)?;
        stream.inner().with(refuse_while_capturing)?;
        let context = stream.present_context()?;
        reactor::start()?;
        let lease = context.lease()?;
        // Had before anything is submitted or asked, because that fails once the owner of the context is gone.
        let event = Event::spare(stream.inner().spare(), &context)?;
        Ok(Unmarked { event, context, lease })
    }

    /// Gives back what marks nothing. The context, if its owner is gone, is destroyed elsewhere: that waits for work, and the
    /// work may wait for this task.
    pub(super) fn unused(self, stream: &Stream) {
        let Unmarked { event, context: _, lease } = self;
        as_host_function(|| drop((event.keep(stream.inner().spare()), lease)));
    }

    /// Asks the stream, which is no default stream, about its work. That would break a capture of the stream: none that custack
    /// knows of begins meanwhile. One of other code cannot be kept from beginning, so whether there is one is asked once, by
    /// [`prepare`](Self::prepare), and not with every question.
    pub(super) fn ask(&self, stream: &Stream) -> Asked {
        let shared = stream.inner();
        let Ok(uncaptured) = shared.uncaptured(WHAT) else { return Asked::Refused };
        let query = || shared.with_leased(&uncaptured, &self.lease, Driver::stream_query);
        match query() {
            Ok(()) => Asked::Over(Ok(())),
            Err(CudaError::NotReady) => Asked::GoesOn,
            Err(error) if is_lost(query) => Asked::Over(Err(error)),
            Err(_) => Asked::Refused,
        }
    }

    /// Marks the end of the work that the stream has now. The work uses the value.
    pub(super) fn mark<T: Send + 'static>(
        self,
        stream: &Stream,
        program: bool,
        value: T,
    ) -> CudaResult<Completion<T>> {
        let pin = Pin::new(&self.context, self.lease.live());
        let marked = self.event.record_pinned(stream, &pin, program, WHAT);
        let captured = marked.is_err_and(CudaError::is_of_capture);
        // By another stream: a legacy stream is part of no capture, and can be asked when that one is over.
        let elsewhere = captured && stream.is_legacy() && !stream.context().is_null();
        match marked {
            Err(refused) if captured && !elsewhere => {
                as_host_function(|| drop(pin));
                self.unused(stream);
                return Err(never_freed(value, refused));
            }
            // A per-thread stream is another one on another thread, which cannot ask about it.
            Err(unmarked) if stream.is_default() && !elsewhere => {
                as_host_function(|| drop(pin));
                self.unused(stream);
                return waited_for(stream, value, unmarked);
            }
            _ => {}
        }
        let Unmarked { event, context: _, lease } = self;
        drop(lease);
        let mark = if marked.is_ok() {
            Mark::Event(event)
        } else {
            // The work is submitted, so its end is the outcome all the same. The stream is asked, and may have more work by
            // then.
            as_host_function(|| drop(event));
            Mark::Stream(Arc::clone(stream.inner()))
        };
        let spare = stream.inner().spare();
        let slot = Arc::new(Place::new(unwanted));
        let open = Open { mark, pin, value, spare: Arc::clone(spare), slot: Some(Arc::clone(&slot)) };
        let of = Arc::downgrade(stream.inner());
        let work = Box::new(Submitted { of, at: Instant::now(), open: Some(open) });
        Ok(Completion::new(slot, work))
    }
}

/// The work of a stream about which only this thread can ask, and whose end could not be marked: this thread waits for it.
fn waited_for<T: Send + 'static>(
    stream: &Stream,
    value: T,
    unmarked: CudaError,
) -> CudaResult<Completion<T>> {
    match stream.synchronize() {
        Ok(()) => Ok(Completion::ready(Ok(value))),
        Err(error) if is_lost(|| stream.synchronize()) => Ok(Completion::ready(Err(error))),
        Err(_) => Err(never_freed(value, unmarked)),
    }
}

/// What is used by work that cannot be awaited, because it may have become part of a graph, or because the driver fails
/// again and again.
fn never_freed<T>(value: T, error: CudaError) -> CudaError {
    if mem::needs_drop::<T>() {
        report::warn(format_args!("what the work of a stream uses is never freed: {error:?}"));
    }
    mem::forget(value);
    error
}

/// Whether a question was refused, and says nothing.
fn is_refused(error: CudaError) -> bool {
    error.is_of_capture()
        || matches!(error, CudaError::NotReady | CudaError::NotPermitted | CudaError::IllegalState)
}

/// What tells that work is done.
enum Mark {
    Event(Event),
    /// It is not a per-thread stream.
    Stream(Arc<Shared>),
}

/// Work that may be going on, with what it uses.
struct Submitted<T> {
    of: Weak<Shared>,
    at: Instant,
    /// `None` when it is over.
    open: Option<Open<T>>,
}

struct Open<T> {
    mark: Mark,
    pin: Pin,
    value: T,
    /// Where the event goes when it has marked the end.
    spare: Arc<Spare>,
    /// Where the outcome goes; `None` once it is an error, while the work may be going on.
    slot: Option<Arc<Place<T>>>,
}

impl<T> Open<T> {
    fn result(&self) -> CudaResult<()> {
        let asked = match &self.mark {
            Mark::Event(event) => event.query_pinned(&self.pin),
            Mark::Stream(stream) => {
                let call = stream.enter_breaking(WHAT)?;
                let query = |driver: &Driver, stream: Held<'_, CUstream>| {
                    // Captures of other code are not known here, and this breaks none.
                    refuse_while_capturing(driver, stream)?;
                    driver.stream_query(stream)
                };
                stream.with_pinned_in(&call, &self.pin, query)
            }
        };
        asked.unwrap_or_else(|| self.pin.context().gone())
    }
}

impl<T: Send + 'static> Work for Submitted<T> {
    fn of(&self) -> &Weak<Shared> {
        &self.of
    }

    fn submitted_at(&self) -> Instant {
        self.at
    }

    fn is_over(&mut self) -> bool {
        let Some(open) = &mut self.open else { return true };
        match open.result() {
            Err(error) if is_refused(error) => {
                if error.is_of_capture() {
                    // The thread that waits for what is expected may be the one that captures.
                    drop(open.slot.as_ref().and_then(|slot| slot.take_kept()));
                }
                false
            }
            Err(error) if !is_lost(|| open.result()) => {
                // Only the question failed, so the work may be going on.
                if let Some(slot) = open.slot.take() {
                    give(slot, Err(error));
                }
                false
            }
            result => {
                if let Some(open) = self.open.take() {
                    over(open, result);
                }
                true
            }
        }
    }
}

/// Gives the outcome of work that is over. All else goes first: who is woken finds nothing left of it.
fn over<T: Send + 'static>(open: Open<T>, result: CudaResult<()>) {
    let Open { mark, pin, value, spare, slot } = open;
    as_host_function(|| match mark {
        Mark::Event(event) if result.is_ok() => drop((event.keep(&spare), spare, pin)),
        Mark::Event(event) => drop((event, spare, pin)),
        Mark::Stream(stream) => drop((stream, spare, pin)),
    });
    match (slot, result) {
        (Some(slot), Ok(())) => give(slot, Ok(value)),
        (Some(slot), Err(error)) => {
            dispose(value);
            give(slot, Err(error));
        }
        (None, _) => dispose(value),
    }
}

/// Sets the outcome and wakes whoever waits for it. If no one does any more, the value is disposed of.
fn give<T: Send + 'static>(slot: Arc<Place<T>>, outcome: CudaResult<T>) {
    as_host_function(|| {
        let Some(waker) = slot.complete(outcome.map_err(Failed::new)) else { return };
        if !report::contained(|| waker.wake()) {
            report::warn(format_args!("a waker panicked"));
        }
    });
}

/// For an outcome that nobody awaits any more.
pub(super) fn unwanted<T: Send + 'static>(outcome: Outcome<T>) {
    if let Ok(value) = outcome {
        dispose(value);
    }
}

/// Drops what is the program's on a thread where it may make driver calls and wait, which neither one that looks at work nor
/// one that calls wakers may.
fn dispose<V: Send + 'static>(value: V) {
    if mem::needs_drop::<V>() {
        as_host_function(|| retire(move || drop(value)));
    }
}
