//! Events that mark the end of awaited work: in no capture, and in contexts that are pinned.

use super::{Event, EventFlags};
use crate::context::{Pin, UnownedContext};
use crate::driver::ffi::CUstream;
use crate::driver::{Driver, Held};
use crate::error::CudaResult;
use crate::stream::{Spare, Stream, refuse_while_capturing};

impl Event {
    /// One that has marked the end of other work, or a new one.
    #[inline]
    pub(crate) fn spare(spare: &Spare, context: &UnownedContext) -> CudaResult<Event> {
        match spare.take() {
            Some(event) => Ok(Event::from(event)),
            None => context.create_event(EventFlags::DISABLE_TIMING),
        }
    }

    /// To be used again, which is for events that no work records any more. One too many is given back.
    #[inline]
    pub(crate) fn keep(mut self, spare: &Spare) -> Option<Event> {
        spare.keep(self.0.take()).map(Event::from)
    }

    /// Records this event, which nothing else uses, in a stream of its context, which is pinned. The stream must not be
    /// capturing, and is `asked` whether it is; `what` is what was asked.
    #[inline]
    pub(crate) fn record_pinned(
        &self,
        stream: &Stream,
        pin: &Pin,
        asked: bool,
        what: &'static str,
    ) -> CudaResult<()> {
        let _uncaptured = stream.inner().uncaptured(what)?;
        let _call;
        if stream.is_legacy() {
            _call = stream.refuse_by_default(what)?;
        }
        let recorded = self.0.with_pinned(pin, |driver, event| {
            let record = |_: &Driver, inner: Held<'_, CUstream>| {
                if asked {
                    refuse_while_capturing(driver, inner)?;
                }
                driver.event_record(event, inner)
            };
            stream.inner().with_pinned(pin, record).unwrap_or_else(|| pin.context().gone())
        });
        recorded.unwrap_or_else(|| pin.context().gone())
    }

    /// Makes a stream that nothing else uses wait for the event's present marker.
    #[inline]
    pub(crate) fn awaited_by(&self, stream: &Stream) -> CudaResult<()> {
        stream.wait_uncaptured(&self.0, "await an event")
    }

    /// Like [`query`](Self::query), for an event that is in no capture, in a context that is pinned; `None` if other code
    /// has destroyed it.
    #[inline]
    pub(crate) fn query_pinned(&self, pin: &Pin) -> Option<CudaResult<()>> {
        self.0.with_pinned(pin, Driver::event_query)
    }
}
