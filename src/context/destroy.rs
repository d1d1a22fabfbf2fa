//! Destroying a context, so that afterwards it is known whether it is destroyed, and nothing stale is current.

use super::liveness::Killed;
use super::model;
use super::moves;
use super::pins::{self, Later};
use super::unowned::UnownedContext;
use crate::driver::ffi::CUcontext;
use crate::driver::{Driver, driver};
use crate::error::{CudaError, CudaResult};
use crate::report;
use std::ptr;

/// Destroys the context unless it is gone, and clears it off the top of this thread's stack.
pub(super) fn destroy(context: &UnownedContext) -> CudaResult<()> {
    let driver = driver()?;
    let Some(killed) = context.take_life() else {
        return Ok(());
    };
    let killed = match pins::put_off(context, Later::Destroy(killed)) {
        Some(Later::Destroy(killed)) => killed,
        _ => {
            moves::clear_stale(driver, context);
            return Ok(());
        }
    };
    let result = destroy_held(driver, killed.wait(), context.as_raw());
    if !context.is_alive() {
        moves::clear_stale(driver, context);
    }
    match result {
        // The process is ending, and with it the driver has let go of everything.
        Err(CudaError::Deinitialized) => Ok(()),
        result => result,
    }
}

/// Destroys while this thread's stack holds the handle, so that the memory behind it stays good and the driver can
/// be asked, if it returns an error, whether it has destroyed the context all the same.
///
/// The driver takes one entry off when it destroys a context that is current; so there are two on top, of which one
/// may be the thread's own.
pub(super) fn destroy_held(driver: &Driver, killed: Killed, raw: CUcontext) -> CudaResult<()> {
    let held = driver.ctx_get_current().and_then(|top| {
        let mut hold = Hold { driver, raw, own_on_top: ptr::eq(top, raw), pushed: 0 };
        hold.push(&killed)?;
        if !hold.own_on_top {
            hold.push(&killed)?;
        }
        Ok(hold)
    });
    let hold = match held {
        Ok(hold) => hold,
        Err(error) => {
            killed.revive();
            return Err(error);
        }
    };
    let result = driver.ctx_destroy(killed.live());
    let gone = result.is_ok() || driver.ctx_get_current_api_version() == Err(CudaError::ContextIsDestroyed);
    if gone {
        // What is left of it on this thread's stack is stale, and goes; custack's own entries with the book's.
        if !hold.own_on_top {
            hold.pop_all();
        }
        return match result {
            Err(CudaError::InvalidContext | CudaError::ContextIsDestroyed) => Ok(()),
            result => result,
        };
    }
    hold.let_go();
    killed.revive();
    result
}

/// Entries that are there for a moment only, to keep the memory behind a handle.
struct Hold<'a> {
    driver: &'a Driver,
    raw: CUcontext,
    /// The context was current before.
    own_on_top: bool,
    pushed: u32,
}

impl Hold<'_> {
    /// One more entry; if that fails, none is left.
    fn push(&mut self, killed: &Killed) -> CudaResult<()> {
        let result = self.driver.ctx_push_current(killed.live());
        let Err(error) = result else {
            self.pushed += 1;
            return Ok(());
        };
        if !self.own_on_top {
            self.pop_all();
        } else if !self.own_twice()
            && self.driver.ctx_pop_current().is_ok()
            && moves::on_top(self.driver, self.raw) != Ok(true)
        {
            // The push had not happened, and that pop has taken the thread's own entry: it comes back.
            let _ = self.driver.ctx_push_current(killed.live());
        }
        Err(error)
    }

    fn let_go(self) {
        if !self.own_on_top {
            return self.pop_all();
        }
        for _ in 0..self.pushed {
            let _ = self.driver.ctx_pop_current();
        }
    }

    /// Whether the thread's own entry has another of the same context below it. Then a pop cannot tell whether a push
    /// had happened, and what is there stays: a push that fails has as a rule done nothing.
    fn own_twice(&self) -> bool {
        model::below_top().is_some_and(|below| ptr::eq(below.as_raw(), self.raw))
    }

    /// Takes the handle off while it is on top: where none of the entries is the thread's own.
    fn pop_all(&self) {
        if let Err(error) = moves::pop_while_current(self.driver, self.raw) {
            report::warn(format_args!(
                "{:p} is held on the stack and could not be taken off: {error}",
                self.raw
            ));
        }
    }
}

/// Keeps a context from being destroyed while it exists.
#[derive(Debug)]
pub(crate) struct Pin(UnownedContext);

impl UnownedContext {
    /// Keeps the context from being destroyed.
    pub(crate) fn pin(&self) -> CudaResult<Pin> {
        pins::add(self).map(|()| Pin(self.clone()))
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let result = match (pins::remove(&self.0), driver()) {
            (Some(Later::Destroy(killed)), Ok(driver)) => {
                destroy_held(driver, killed.wait(), self.0.as_raw())
            }
            (Some(Later::Release(killed, device)), Ok(driver)) => {
                let _gone = killed.wait();
                driver.primary_ctx_release(device)
            }
            _ => Ok(()),
        };
        match result {
            Ok(()) | Err(CudaError::Deinitialized) => {}
            Err(error) => report::warn(format_args!("{} could not be destroyed: {error}", self.0)),
        }
    }
}
