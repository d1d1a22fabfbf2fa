//! Work whose end is awaited: from the call that submits it to the future's outcome.

use super::Completion;
use super::reactor::{self, Submitted};
use super::slot::Slot;
use crate::context::Pin;
use crate::driver::as_host_function;
use crate::error::{CudaError, CudaResult};
use crate::event::{Event, EventFlags};
use crate::liveness::retire;
use crate::report;
use crate::stream::{Stream, refuse_while_capturing};
use std::mem;
use std::sync::Arc;

const WHAT: &str = "await the work of a stream";

/// Calls `f`, which submits work to the stream, and awaits all that the stream has then. Whatever can fail is done before
/// `f` is called, except recording an event.
pub(super) fn submit<T: Send + 'static>(
    stream: &Stream,
    f: impl FnOnce() -> CudaResult<T>,
) -> CudaResult<Completion<T>> {
    stream.refuse_in_capture(WHAT)?;
    stream.inner().with(refuse_while_capturing)?;
    let context = stream.present_context()?;
    reactor::start()?;
    let event = context.create_event(EventFlags::DISABLE_TIMING)?;
    let pin = context.pin()?;
    let value = f()?;
    let completion = Completion::new();
    let slot = Arc::clone(&completion.slot);
    let Err(refused) = event.record_uncaptured(stream, WHAT) else {
        reactor::submit(stream, Box::new(Work { event, pin, value, slot }));
        return Ok(completion);
    };
    // The work is submitted, so its end is the outcome all the same.
    let waited = if may_go_on(refused) { Err(refused) } else { stream.synchronize() };
    match waited {
        Err(error) if may_go_on(error) => return Err(never_freed(value, error)),
        waited => wake(slot, waited.map(|()| value)),
    }
    Ok(completion)
}

/// What is used by work that can neither be awaited nor waited for, and that may have become part of a graph.
fn never_freed<T>(value: T, error: CudaError) -> CudaError {
    if mem::needs_drop::<T>() {
        report::warn(format_args!("what the work of a stream uses is never freed: {error}"));
    }
    mem::forget(value);
    error
}

/// Whether an error says nothing about the work.
fn may_go_on(error: CudaError) -> bool {
    is_of_capture(error) || matches!(error, CudaError::NotPermitted | CudaError::IllegalState)
}

/// Whether a call was refused because of a capture.
fn is_of_capture(error: CudaError) -> bool {
    (CudaError::StreamCaptureUnsupported.code()..=CudaError::CapturedEvent.code()).contains(&error.code())
}

struct Work<T> {
    event: Event,
    pin: Pin,
    value: T,
    slot: Arc<Slot<CudaResult<T>>>,
}

impl<T: Send + 'static> Submitted for Work<T> {
    fn result(&self) -> Option<CudaResult<()>> {
        match self.event.query_pinned(&self.pin) {
            Some(Err(CudaError::NotReady)) => None,
            // The next look may find the capture ended.
            Some(Err(error)) if may_go_on(error) => None,
            Some(result) => Some(result),
            None => Some(Err(CudaError::ContextIsDestroyed)),
        }
    }

    fn finish(self: Box<Self>, result: CudaResult<()>) {
        let Work { event, pin, value, slot } = *self;
        // All else goes first: who is woken finds nothing left of it.
        match result {
            Ok(()) => {
                drop(event);
                // Destroying a context may wait, and other work is awaited here.
                as_host_function(|| drop(pin));
                wake(slot, Ok(value));
            }
            Err(error) => {
                // Work that did not fail may be going on, if only the question failed.
                retire(move || {
                    let _ = event.synchronize_pinned(&pin);
                    drop((value, event, pin));
                });
                wake(slot, Err(error));
            }
        }
    }
}

/// Sets the outcome and wakes who waits. Wakers and values are the program's, so what they drop is destroyed elsewhere: on
/// this thread other work is awaited.
fn wake<T>(slot: Arc<Slot<CudaResult<T>>>, outcome: CudaResult<T>) {
    let wake = || {
        if let Some(waker) = slot.complete(outcome) {
            waker.wake();
        }
        drop(slot);
    };
    if !report::contained(|| as_host_function(wake)) {
        report::warn(format_args!(
            "a waker, or the destructor of a value that nobody awaits any more, panicked"
        ));
    }
}
