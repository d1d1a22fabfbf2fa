//! Removes entries whose scope is over, and those of destroyed contexts, where the end of a scope is not the normal one.

use crate::context::restore;
use crate::driver::ffi::CUcontext;
use crate::driver::{Driver, driver};
use crate::error::{CudaError, CudaResult, keep_note, twice};
use crate::liveness::{Handle, Origin};
use crate::report;
use crate::shadow_stack::{self, How, NEVER};
use std::ptr;

/// Removes a guard where more than one entry may be affected.
#[cold]
pub(in crate::context) fn release_guard(serial: u64, made_entry: bool) {
    shadow_stack::release_guard(serial, made_entry);
    if let Ok(driver) = driver() {
        sweep(driver, NEVER, None);
    }
}

/// Pops what ended scopes left, as far as no living guard holds it, and what was destroyed within them and thereby
/// comes to the top. The first pop may have been made already.
#[cold]
pub(super) fn sweep(driver: &Driver, mut since: u64, mut popped: Option<CudaResult<CUcontext>>) {
    let _note = keep_note();
    while let Some(entry) = shadow_stack::take_ended(since) {
        since = since.min(entry.since);
        // Other code pops what it put there, unless that is destroyed.
        let gone = !entry.context.is_alive() && driver.is_current(entry.context.raw()) == Ok(true);
        if entry.how == How::Found && popped.is_none() && !gone {
            continue;
        }
        let popped = popped.take().unwrap_or_else(|| driver.ctx_pop_current());
        if let Err(error) = restore::after_leaving(driver, &entry, popped) {
            shadow_stack::put_back(&entry);
            report::warn(format_args!("{} could not be popped from the stack: {error:?}", entry.context));
            return;
        }
    }
}

/// After this thread ended a context: no destroyed context stays current here, unless a guard holds it.
pub(in crate::context) fn clear_destroyed(driver: &Driver, destroyed: Handle) {
    while let Some(top) = shadow_stack::top().filter(|top| top.guards == 0 && top.is_tombstone()) {
        // Entries below with the same handle stay until they are on top.
        let raw = top.context.raw();
        match twice(|| driver.is_current(raw)) {
            Ok(true) => {}
            _ => break,
        }
        shadow_stack::pop();
        let popped = driver.ctx_pop_current();
        if let Err(error) = restore::after_leaving(driver, &top, popped) {
            shadow_stack::put_back(&top);
            report::warn(format_args!(
                "{} stays current because it could not be popped: {error:?}",
                top.context
            ));
            return;
        }
    }
    let own = shadow_stack::top().is_some_and(|top| {
        ptr::eq(top.context.raw(), destroyed.raw()) && (top.how != How::Found || top.guards > 0)
    });
    if !own {
        clear_found(driver, destroyed);
    }
    sweep(driver, NEVER, None);
}

/// Pops a destroyed context that other code made current. A primary context is queried first: other code may have a
/// share of its own, and then it is not destroyed.
fn clear_found(driver: &Driver, destroyed: Handle) {
    let primary = destroyed.origin() == Origin::Primary;
    if primary && driver.ctx_get_current_api_version() != Err(CudaError::ContextIsDestroyed) {
        return;
    }
    shadow_stack::forget_found();
    if driver.pop_while_current(destroyed.raw()).is_err() {
        report::warn(format_args!(
            "{destroyed} stays current where other code put it, and could not be popped"
        ));
    }
}
