//! What an executable keeps for nodes that are set after it was instantiated.
//!
//! The driver's user objects follow a graph into what is made from it, but none can be added to an executable. One that
//! is there from the beginning makes every launch slower, on an H200 by 0.3 us for each node. So custack keeps these
//! values itself. It learns when the last launch that may use them is over from an event, which it records after each
//! launch from then on. One event is enough, because the launches of an executable run one after the other.

use crate::context::in_call::InCall;
use crate::context::{Pin, is_lost, must_retire, relax};
use crate::driver::ffi::CUstream;
use crate::driver::{Driver, Held, driver};
use crate::error::{CudaError, CudaResult, keep_note, twice};
use crate::event::{Event, EventFlags};
use crate::liveness::{promised, retire};
use crate::report;
use crate::stream::{Stream, StreamFlags};
use std::any::Any;
use std::mem;

/// The kept values. They are dropped after the executable is, and after its last launch since the first was kept.
#[derive(Default)]
pub(super) struct Later {
    values: Vec<Box<dyn Any + Send>>,
    /// The contexts of the nodes, once it was launched in a stream of another one.
    contexts: Vec<Pin>,
    /// One for each context that it was launched in since then; that of the last launch is the last.
    marks: Vec<Mark>,
}

/// What tells when a launch in a stream of one context is over.
struct Mark {
    event: Event,
    /// Calls a function after the event. It is made with the event, because in the end the context's owner may be gone.
    calls: Stream,
    /// The event was recorded after the last launch.
    recorded: bool,
    // Dropped after what is in the context.
    pin: Pin,
}

impl Later {
    /// Keeps the value, unless it has no destructor.
    #[inline]
    pub(super) fn keep<T: Send + 'static>(later: &mut Option<Box<Later>>, value: T) {
        if mem::needs_drop::<T>() {
            later.get_or_insert_default().values.push(Box::new(value));
        }
    }

    /// Keeps the contexts of the nodes at the driver, as they are listed in `pins`, to which some may have been added
    /// since the last call.
    #[inline]
    pub(super) fn keep_contexts(later: &mut Option<Box<Later>>, pins: &[Pin]) -> CudaResult<()> {
        let contexts = &mut later.get_or_insert_default().contexts;
        for pin in &pins[contexts.len()..] {
            contexts.push(pin.another()?);
        }
        Ok(())
    }

    /// Launches in the stream, and notes after what the launch is over.
    #[inline(never)]
    pub(super) fn launched(
        &mut self,
        stream: &Stream,
        call: &InCall,
        launch: impl FnOnce() -> CudaResult<()>,
    ) -> CudaResult<()> {
        let mut mark = self.mark(stream)?;
        let launched = launch();
        let _note = keep_note();
        // Also after an error: the driver may have launched all the same. The list of captures need not know of the record, because
        // the stream is in none during the call, nor is the event ever.
        let record = || {
            mark.event.inner().with(|driver, event| {
                stream.inner().with_in(call, |_, stream| driver.event_record(event, stream))
            })
        };
        mark.recorded = twice(record).is_ok();
        self.marks.push(mark);
        launched
    }

    /// Takes the mark of the stream's context from the list, or makes it.
    #[inline]
    fn mark(&mut self, stream: &Stream) -> CudaResult<Mark> {
        let context = &stream.present_context()?;
        if let Some(at) = self.marks.iter().position(|mark| mark.pin.context() == context) {
            return Ok(self.marks.remove(at));
        }
        let pin = context.pin()?;
        let event = Event::in_context(context, EventFlags::DISABLE_TIMING)?;
        let calls = context.create_stream(StreamFlags::NON_BLOCKING, None)?;
        Ok(Mark { event, calls, recorded: false, pin })
    }
}

impl Drop for Later {
    #[inline]
    fn drop(&mut self) {
        let _note = keep_note();
        let last = self.marks.pop();
        let values = mem::take(&mut self.values);
        let mut contexts = mem::take(&mut self.contexts);
        if let Some(mark) = &last {
            // Destroying this one waits for the launch; and if the function below is never called, it is dropped only
            // when this one is destroyed.
            contexts.retain(|pin| pin.context() != mark.pin.context());
        }
        let drop_all = move || {
            // The contexts go after the values, which may be in them.
            let _contexts = contexts;
            if !report::contained(|| drop(values)) {
                report::warn(format_args!("what an executable graph kept panicked when it was dropped"));
            }
        };
        match last {
            None => drop_all(),
            Some(mark) if must_retire() => retire(move || mark.call_when_over(drop_all)),
            Some(mark) => mark.call_when_over(drop_all),
        }
    }
}

impl Mark {
    /// Calls the function once the launch is over, on this thread if it is already.
    #[inline]
    fn call_when_over(self, f: impl FnOnce() + Send + 'static) {
        let Ok(driver) = driver() else { return f() };
        let _relaxed = relax(driver);
        if self.recorded && self.is_over() {
            return f();
        }
        // If the driver never calls it, it is dropped, and what it owns with it, when the context is destroyed.
        let key = self.pin.context().promise(Box::new(f));
        if twice(|| self.ask_to_call(key)).is_err() {
            retire(move || self.call_when_all_is_over(key));
        }
    }

    /// For a mark that tells nothing, because it was not recorded, or in a capture that another thread had begun after
    /// the launch: waits for all work of the context.
    #[inline]
    fn call_when_all_is_over(self, key: u64) {
        let context = self.pin.context();
        match context.synchronize() {
            Ok(()) => promised::take(key).into_iter().for_each(|function| function()),
            // It is about to be destroyed, and the function is dropped with it.
            Err(CudaError::ContextIsDestroyed) => {}
            Err(error) => report::warn(format_args!(
                "what an executable graph kept is kept until {context} is destroyed: {error:?}"
            )),
        }
    }

    #[inline]
    fn is_over(&self) -> bool {
        // Without an answer other code has destroyed the context.
        let query = || self.event.inner().with_pinned(&self.pin, Driver::event_query).unwrap_or(Ok(()));
        query().is_ok() || is_lost(query)
    }

    #[inline]
    fn ask_to_call(&self, key: u64) -> CudaResult<()> {
        if !self.recorded {
            return Err(CudaError::NotReady
                .note(format_args!("to learn when a launch is over: no event was recorded after it")));
        }
        let gone = || self.pin.context().gone();
        let (event, calls) = (self.event.inner(), self.calls.inner());
        let waits = event.with_pinned(&self.pin, |driver, event| {
            let wait = |_: &Driver, stream: Held<'_, CUstream>| driver.stream_wait_event(stream, event, 0);
            calls.with_pinned(&self.pin, wait).unwrap_or_else(gone)
        });
        waits.unwrap_or_else(gone)?;
        self.calls.call_promised(key, &self.pin)
    }
}
