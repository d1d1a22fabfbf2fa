//! Restores the stack after a driver call that failed, or where other code has changed the stack.

use crate::driver::ffi::CUcontext;
use crate::driver::{Driver, Live};
use crate::error::{CudaError, CudaResult, keep_note};
use crate::liveness::{Handle, LeaseOn};
use crate::report;
use crate::shadow_stack::{self, Entry};
use std::ptr;

/// After a push that failed: pops what it may have pushed.
#[cold]
pub(super) fn after_push(driver: &Driver, live: Live<'_>) -> CudaResult<()> {
    let _note = keep_note();
    let own = shadow_stack::run(live.raw());
    if driver.is_current(live.raw())? { driver.set_run(live, own) } else { Ok(()) }
}

/// After a pop that failed, whose entry is still in the shadow stack: pushes again what it may have popped.
#[cold]
pub(super) fn after_pop(driver: &Driver, top: &Entry) {
    let _note = keep_note();
    let raw = top.context.raw();
    let run = shadow_stack::run(raw);
    if run < 2 && driver.is_current(raw) != Ok(false) {
        return;
    }
    let put_back = top.context.hazard(|live| driver.set_run(live, run));
    if put_back.is_none() && run < 2 {
        // A destroyed context cannot be pushed again; the failed pop removed it, so the shadow stack does too.
        shadow_stack::pop();
    }
}

/// After a set that failed: makes the previous context current again.
#[cold]
pub(super) fn after_set(driver: &Driver, context: Handle, before: Option<&Entry>) {
    let _note = keep_note();
    if driver.is_current(context.raw()) != Ok(true) {
        return;
    }
    match before {
        Some(before) if !ptr::eq(before.context.raw(), context.raw()) => {
            let restored = before.context.hazard(|live| driver.ctx_set_current(live));
            if restored.is_none() && driver.ctx_pop_current().is_ok() {
                // A destroyed context cannot be made current again; the failed set replaced it.
                shadow_stack::pop();
            }
        }
        None => drop(driver.ctx_unset_current()),
        _ => {}
    }
}

/// After the pop of an entry that was removed from the shadow stack: makes sure that what was current before is current
/// again.
pub(super) fn after_leaving(driver: &Driver, entry: &Entry, popped: CudaResult<CUcontext>) -> CudaResult<()> {
    let gone = entry.context;
    match popped {
        Ok(raw) if ptr::eq(raw, gone.raw()) => Ok(()),
        Ok(raw) => {
            after_foreign_code(driver, gone, raw);
            Ok(())
        }
        // The stack is empty: other code has popped our entry. Nothing is left to restore.
        Err(CudaError::InvalidContext) if driver.ctx_get_current().is_ok_and(|raw| raw.is_null()) => Ok(()),
        // Either the error of earlier work, or a pop without effect: the top tells which, or the length of the run.
        Err(error) => {
            report::warn(format_args!("leaving {gone}: {error:?}"));
            if driver.is_current(gone.raw()) != Ok(true) {
                return Ok(());
            }
            let below = shadow_stack::run(gone.raw());
            // Freeing memory may have entered a context whose owner is dropped and which the driver still has.
            match gone.lease(LeaseOn::Retiring) {
                Some(lease) => driver.set_run(lease.live(), below),
                None if below > 0 => Ok(()),
                None => driver.pop_while_current(gone.raw()),
            }
        }
    }
}

/// After a pop that returned another handle than ours: other code replaced our entry, pushed on it, or popped it.
#[cold]
fn after_foreign_code(driver: &Driver, gone: Handle, popped: CUcontext) {
    report::debug(format_args!(
        "the scope of {gone} ended and {popped:p} was on top: other code changed this thread's context stack"
    ));
    shadow_stack::probe_soon();
    let below = shadow_stack::top().map(|below| below.context);
    let Ok(mut now) = driver.ctx_get_current() else { return };
    if below.is_some_and(|below| ptr::eq(below.raw(), now)) {
        return;
    }
    if ptr::eq(now, gone.raw()) {
        // That pop removed an entry above ours; this one removes ours.
        if driver.ctx_pop_current().is_err() {
            return;
        }
        now = driver.ctx_get_current().unwrap_or(now);
    }
    let Some(below) = below.filter(|below| !ptr::eq(below.raw(), now)) else { return };
    match below.hazard(|live| driver.ctx_set_current(live)) {
        Some(Ok(())) => {}
        Some(Err(error)) => report::warn(format_args!("{below} could not be made current again: {error:?}")),
        None => report::warn(format_args!("{below} could not be made current again: it is destroyed")),
    }
}
