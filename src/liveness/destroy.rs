//! Ending a context: its life first, then, when nothing uses it any more, the context at the driver.

// Vouches for a handle that nobody else can destroy.
#![allow(unsafe_code)]

use super::lease::Of;
use super::life::Phase;
use super::record::{Handle, Record};
use super::registry;
use super::thread::PARTICIPANTS;
use crate::driver::ffi::CUcontext;
use crate::driver::{Driver, Live, driver};
use crate::error::{CudaError, CudaResult};
use crate::fence;
use crate::report;

impl Handle {
    /// Ends the life of the context; from here on every handle is dead, for good. True for the one caller who ended it,
    /// and who then [claims](Self::claim) it.
    pub(crate) fn end_life(&self) -> bool {
        if !self.is_alive() {
            return false;
        }
        self.record().count_death();
        self.record().life.step(self.id, Phase::Alive, Phase::Retiring)
    }

    /// The right to end the retiring context at the driver; `None` if leases or pins are out, the last of which sees
    /// to it.
    pub(crate) fn claim(&self) -> Option<Ending> {
        claim(self.record(), self.id)
    }
}

pub(super) fn claim(record: &'static Record, id: u64) -> Option<Ending> {
    let at = record.address();
    let claimed =
        record.life.claim(id, fence::heavy, || PARTICIPANTS.wait_for_hazards(at), || PARTICIPANTS.leased(at));
    claimed.then(|| Ending(record.handle(id)))
}

/// A context that nobody uses or can begin to use, and that the driver has yet: the one who has this ends it there.
#[must_use = "the context is to be ended"]
#[derive(Debug)]
pub(crate) struct Ending(Handle);

impl Ending {
    pub(crate) fn context(&self) -> Handle {
        self.0
    }

    /// The handle, for the calls that end the context.
    fn live(&self) -> Live<'_> {
        // SAFETY: only the one holder of this value can destroy the context, and it does so in `finish` alone.
        unsafe { Live::new(self.0.raw()) }
    }

    /// Destroys the context, or gives the share of a primary one back. `own` tells how many entries on top of this
    /// thread's stack are this context's; they are there afterwards too.
    ///
    /// Whatever comes of it, the context is over for custack: a call that failed may have done its work.
    pub(crate) fn finish(self, own: usize) -> CudaResult<()> {
        let result = driver().and_then(|driver| match self.0.record().primary_of() {
            Some(device) => {
                registry::release_begins(self.0);
                driver.primary_ctx_release(device)
            }
            None => {
                // A destructor has no later, so what fails is tried once more.
                let hold = || Hold::take(driver, self.live(), own);
                hold().or_else(|_| hold()).and_then(Hold::destroy)
            }
        });
        self.over(result)
    }

    /// As [`finish`](Self::finish), for a created context that the caller holds on its stack already.
    pub(crate) fn finish_held(self, hold: Hold<'_>) -> CudaResult<()> {
        let result = hold.destroy();
        self.over(result)
    }

    /// As [`finish`](Self::finish), where nobody is there to be told of a failure.
    pub(crate) fn finish_quietly(self, own: usize) {
        let context = self.0;
        if let Err(error) = self.finish(own) {
            report::warn(format_args!("{context} could not be destroyed: {error}"));
        }
    }

    fn over(self, result: CudaResult<()>) -> CudaResult<()> {
        registry::destroyed(self.0);
        match result {
            // The process is ending, and with it the driver has let go of everything.
            Err(CudaError::Deinitialized) => Ok(()),
            result => result,
        }
    }
}

/// Entries on this thread's stack that hold the handle of a context that is to be destroyed, so that the memory behind
/// it stays good, and the driver can be asked, if it returns an error, whether it has destroyed the context all the
/// same.
///
/// The driver takes one entry off when it destroys a context that is current; so there is one more on top than there
/// are of the thread's own, and two if there are none.
pub(crate) struct Hold<'a> {
    driver: &'a Driver,
    raw: CUcontext,
    own: usize,
}

impl<'a> Hold<'a> {
    /// Puts the entries there; if that fails, none is left. `own` tells how many entries on top of this thread's stack
    /// are the context's.
    pub(crate) fn take(driver: &'a Driver, live: Live<'_>, own: usize) -> CudaResult<Hold<'a>> {
        let more = if own > 0 { 1 } else { 2 };
        let pushed = (0..more).try_for_each(|_| driver.ctx_push_current(live));
        pushed.map(|()| Hold { driver, raw: live.raw(), own }).inspect_err(|_| {
            if let Err(error) = driver.set_run(live, own) {
                report_left(live.raw(), error);
            }
        })
    }

    /// Takes the entries off, of a context that is retiring. The thread's own are not touched: the context may be
    /// destroyed by now, and they are what keeps its memory.
    pub(crate) fn let_go(self, context: Handle) {
        let (driver, own) = (self.driver, self.own);
        self.take_off(|| context.lease(Of::Retiring, |live| driver.set_run(live, own)));
    }

    /// A pop that failed may have taken one of several, and no top tells: then `again` makes them as many as they were,
    /// unless the context is destroyed.
    fn take_off(self, again: impl FnOnce() -> Option<CudaResult<()>>) {
        let result = match self.own {
            0 => self.driver.pop_while_current(self.raw),
            _ => match self.driver.ctx_pop_current() {
                Ok(_) => Ok(()),
                Err(error) => again().unwrap_or(Err(error)),
            },
        };
        if let Err(error) = result {
            report_left(self.raw, error);
        }
    }

    /// Destroys; a call that failed and did nothing is tried again once.
    fn destroy(self) -> CudaResult<()> {
        let driver = self.driver;
        let raw = self.raw;
        // SAFETY: this thread's stack holds the handle, until it is taken off.
        let live = || unsafe { Live::new(raw) };
        let destroyed = || driver.ctx_get_current_api_version() == Err(CudaError::ContextIsDestroyed);
        let mut result = driver.ctx_destroy(live());
        let mut gone = result.is_ok() || destroyed();
        if !gone {
            result = driver.ctx_destroy(live());
            gone = result.is_ok() || destroyed();
        }
        // Destroying has taken one entry, and where the thread has entries of its own there was one to take.
        if self.own == 0 || !gone {
            let own = self.own;
            self.take_off(|| (!gone).then(|| driver.set_run(live(), own)));
        }
        match result {
            // Other code had destroyed it.
            Err(CudaError::InvalidContext | CudaError::ContextIsDestroyed) if gone => Ok(()),
            result => result,
        }
    }
}

#[cold]
fn report_left(raw: CUcontext, error: CudaError) {
    report::warn(format_args!("{raw:p} is held on the stack and could not be taken off: {error}"));
}
