//! Claimed a context: first its life, then, when nothing uses it any more, the driver's context.

// Vouches for a handle that no other thread can destroy.
#![allow(unsafe_code)]

use super::green;
use super::lease::LeaseOn;
use super::life::Phase;
use super::promised;
use super::record::{Handle, Origin, Record, count_death};
use super::registry;
use super::thread::PARTICIPANTS;
use crate::driver::ffi::CUcontext;
use crate::driver::{Driver, Live, driver_to_drop, is_child};
use crate::error::{CudaError, CudaResult, twice};
use crate::fence;
use crate::report;

impl Handle {
    /// Ends the life of the context: every handle is dead from here on. Returns true to the one caller that ended it,
    /// which then [claims](Self::claim) it.
    pub(crate) fn end_life(&self) -> bool {
        let ended = self.record().life.step(self.id, Phase::Alive, Phase::Retiring);
        if ended {
            count_death();
        }
        ended
    }

    /// Claims the right to destroy the retiring context; `None` if leases or pins are out. Whoever gives back the last
    /// of them claims it then.
    pub(crate) fn claim(&self) -> Option<Claimed> {
        claim(self.record(), self.id)
    }
}

pub(super) fn claim(record: &'static Record, id: u64) -> Option<Claimed> {
    // The threads whose uses it would wait for are the parent's, and the parent's driver has the context.
    if is_child() {
        return None;
    }
    let at = record.address();
    let claimed =
        record.life.claim(id, fence::heavy, || PARTICIPANTS.wait_for_hazards(at), || PARTICIPANTS.leased(at));
    claimed.then(|| Claimed(record.handle(id)))
}

/// A claimed context: no thread uses it or can begin to, the driver still has it, and the owner of this value destroys
/// it.
#[must_use = "the claimed context must be destroyed"]
#[derive(Debug)]
pub(crate) struct Claimed(Handle);

impl Claimed {
    pub(crate) fn context(&self) -> Handle {
        self.0
    }

    /// The handle, for the calls that destroy the context.
    fn live(&self) -> Live<'_> {
        // SAFETY: only the owner of this value can destroy the context, and it does so in `finish` alone.
        unsafe { Live::new(self.0.raw()) }
    }

    /// Destroys the context, or releases the share of a primary one. The top `own` entries of this thread's stack are
    /// this context's, before and after the call.
    ///
    /// The context is dead to custack whatever the result: a call that failed may have done its work.
    pub(crate) fn finish(self, own: usize) -> CudaResult<()> {
        let result = driver_to_drop().and_then(|driver| match self.0.record().origin() {
            (Origin::Primary, device) => {
                registry::release_begins(self.0);
                driver.primary_ctx_release(device)
            }
            (Origin::Green, _) => green::destroy(driver, self.0),
            _ => {
                // A destructor has no other chance, so a failure is retried once.
                twice(|| Hold::new(driver, self.live(), own)).and_then(Hold::destroy)
            }
        });
        self.over(result)
    }

    /// Like [`finish`](Self::finish), for a created context that the caller already holds on its stack.
    pub(crate) fn finish_held(self, hold: Hold<'_>) -> CudaResult<()> {
        let result = hold.destroy();
        self.over(result)
    }

    /// Like [`finish`](Self::finish), but reports a failure instead of returning it.
    pub(crate) fn finish_quietly(self, own: usize) {
        let context = self.0;
        if let Err(error) = self.finish(own) {
            report::warn(format_args!("{context} could not be destroyed: {error:?}"));
        }
    }

    fn over(self, result: CudaResult<()>) -> CudaResult<()> {
        registry::destroyed(self.0);
        if self.0.is_green() {
            green::destroyed(self.0);
        }
        if promised::has_of(self.0) && !self.is_kept_by_others() {
            promised::drop_of(self.0);
        }
        match result {
            // The process is exiting, and the driver has released everything already.
            Err(CudaError::Deinitialized) => Ok(()),
            result => result,
        }
    }
}

impl Claimed {
    /// Whether this was a share of a primary context that other code has a share of, too: its work goes on.
    fn is_kept_by_others(&self) -> bool {
        self.0.origin() == Origin::Primary
            && self.0.device().is_some_and(|device| {
                let state = driver_to_drop().and_then(|driver| driver.primary_ctx_get_state(device));
                state.is_ok_and(|(_, active)| active)
            })
    }
}

/// Entries on this thread's stack that hold the handle of a context while it is destroyed. They keep the memory behind
/// the handle valid, so that after an error the driver can be asked whether it destroyed the context all the same.
///
/// Destroying a current context pops one entry. So one more is pushed than the thread has itself, or two if it has
/// none.
pub(crate) struct Hold<'a> {
    driver: &'a Driver,
    raw: CUcontext,
    own: usize,
}

impl<'a> Hold<'a> {
    /// Pushes the entries; if that fails, none is left. The top `own` entries of this thread's stack are the context's
    /// already.
    pub(crate) fn new(driver: &'a Driver, live: Live<'_>, own: usize) -> CudaResult<Hold<'a>> {
        let more = if own > 0 { 1 } else { 2 };
        let pushed = (0..more).try_for_each(|_| driver.ctx_push_current(live));
        pushed.map(|()| Hold { driver, raw: live.raw(), own }).inspect_err(|_| {
            if let Err(error) = driver.set_run(live, own) {
                report_not_popped(live.raw(), error);
            }
        })
    }

    /// Pops the entries of a context that is retiring. The thread's own entries stay: the context may be destroyed by
    /// now, and they keep its memory valid.
    pub(crate) fn release(self, context: Handle) {
        let (driver, own) = (self.driver, self.own);
        self.pop_entries(|| Some(driver.set_run(context.lease(LeaseOn::Retiring)?.live(), own)));
    }

    /// A pop that failed may have popped one of several equal entries, which the top does not show. `again` then
    /// restores their number, unless the context is destroyed.
    fn pop_entries(self, again: impl FnOnce() -> Option<CudaResult<()>>) {
        let result = match self.own {
            0 => self.driver.pop_while_current(self.raw),
            _ => match self.driver.ctx_pop_current() {
                Ok(_) => Ok(()),
                Err(error) => again().unwrap_or(Err(error)),
            },
        };
        if let Err(error) = result {
            report_not_popped(self.raw, error);
        }
    }

    /// Destroys the context; a call that failed without effect is retried once.
    fn destroy(self) -> CudaResult<()> {
        let driver = self.driver;
        let raw = self.raw;
        // SAFETY: this thread's stack holds the handle until its entries are popped.
        let live = || unsafe { Live::new(raw) };
        // Where the driver does not answer, it may have destroyed the context, and must not be
        // asked to a second time.
        let ask = || match driver.ctx_get_current_api_version() {
            Ok(_) => Some(false),
            Err(error) => (error == CudaError::ContextIsDestroyed).then_some(true),
        };
        let destroyed = || ask().or_else(ask).unwrap_or(true);
        let mut result = driver.ctx_destroy(live());
        let mut gone = result.is_ok() || destroyed();
        if !gone {
            result = driver.ctx_destroy(live());
            gone = result.is_ok() || destroyed();
        }
        // Destroying popped one entry; where the thread has entries of its own, that was the extra one.
        if self.own == 0 || !gone {
            let own = self.own;
            // Only where the thread has entries of its own: then the context is not destroyed.
            self.pop_entries(|| Some(driver.set_run(live(), own)));
        }
        match result {
            // Other code has destroyed it.
            Err(CudaError::InvalidContext | CudaError::ContextIsDestroyed) if gone => Ok(()),
            result => result,
        }
    }
}

#[cold]
fn report_not_popped(raw: CUcontext, error: CudaError) {
    report::warn(format_args!("{raw:p} could not be popped from the stack: {error:?}"));
}
