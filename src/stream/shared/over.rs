//! The wait for work that uses memory which belongs to the program again afterwards.

use super::Shared;
use crate::context::{Pin, ask_until_over, refuse_in_context, relax, unbroken};
use crate::driver::ffi::CUstream;
use crate::driver::{Driver, Held, driver};
use crate::error::CudaResult;
use crate::liveness::WAITS;

const WHAT: &str = "wait for work that uses memory of the program";

impl Shared {
    /// Waits until the work is over that the stream has now, outside of captures, whatever fails and
    /// however often. The pin is of its context.
    ///
    /// # Errors
    ///
    /// Those of the first attempt.
    #[inline]
    pub(crate) fn wait_until_over(&self, pin: &Pin) -> CudaResult<()> {
        let waited = self.synchronize(pin);
        if waited.is_err() {
            let _ = self.ask_until_over(pin, None);
        }
        waited
    }

    /// Asks in every way whether the work is over that the stream has now, after a wait has failed; see
    /// [`ask_until_over`].
    #[cold]
    pub(super) fn ask_until_over(&self, pin: &Pin, rounds: Option<u32>) -> CudaResult<()> {
        let _relaxed = driver().ok().and_then(relax);
        let the_stream = || self.synchronize(pin);
        let an_event = || self.wait_for_event_or_stream(pin);
        let its_context = || {
            let context = pin.context();
            let _call = refuse_in_context(context, WHAT)?;
            context.dispose(Driver::ctx_synchronize).unwrap_or(Ok(()))
        };
        let query = || {
            let call = self.enter_breaking(WHAT)?;
            self.stream.with_pinned_in(&call, pin, Driver::stream_query).unwrap_or(Ok(()))
        };
        ask_until_over(&[&the_stream, &an_event, &its_context, &query], rounds)
    }

    #[inline]
    fn synchronize(&self, pin: &Pin) -> CudaResult<()> {
        let call = self.enter_as(WAITS, WHAT)?;
        let wait = |driver: &Driver, stream: Held<'_, CUstream>| {
            unbroken(driver, || driver.stream_synchronize(stream))
        };
        // Without an answer other code has destroyed the context, for which the driver ends its work.
        self.stream.with_pinned_in(&call, pin, wait).unwrap_or(Ok(()))
    }
}
