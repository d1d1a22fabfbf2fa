//! Removes entries whose scope is over, and those of destroyed contexts, where the end of a scope
//! is not the normal one; and looks whether the top is what it should be. What fails is tried again
//! before the thread's next call.

use crate::context::restore::{Known, restore};
use crate::driver::ffi::CUcontext;
use crate::driver::{Driver, Failed, do_first, driver_to_drop};
use crate::error::{CudaError, CudaResult, keep_note, twice};
use crate::liveness::{Handle, Origin};
use crate::report;
use crate::shadow_stack::{self, Entry, How};
use std::panic::Location;
use std::ptr;

/// Removes a guard where more than one entry may be affected.
#[cold]
pub(in crate::context) fn release_guard(serial: u64, made_entry: bool) {
    shadow_stack::release_guard(serial, made_entry);
    if let Ok(driver) = driver_to_drop() {
        sweep(driver, false, None);
    }
}

/// Pops what ended scopes left, as far as no living guard holds it, and what was destroyed within them and thereby
/// comes to the top. The first entry may have been removed, or popped, already.
#[cold]
pub(super) fn sweep(driver: &Driver, mut scope_is_over: bool, mut popped: Option<CudaResult<CUcontext>>) {
    let _note = keep_note();
    while let Some(entry) = shadow_stack::take_ended(scope_is_over) {
        if entry.has_to_be_looked_at() && !(scope_is_over && entry.died_within()) {
            shadow_stack::put_back(&entry.into_looked_at());
            restore_quietly(driver, None, Known::default());
            continue;
        }
        scope_is_over |= entry.has_ended();
        // Whether what other code put there is still there, the entry below it shows.
        let gone = !entry.context.is_alive() && driver.is_current(entry.context.raw()) == Ok(true);
        if entry.how == How::Found && popped.is_none() && !gone {
            continue;
        }
        let popped = popped.take().unwrap_or_else(|| driver.ctx_pop_current());
        if after_pop(driver, &entry, popped).is_err() {
            return;
        }
        entry.let_go();
    }
}

/// After the pop of an entry that was removed from the shadow stack.
fn after_pop(driver: &Driver, entry: &Entry, popped: CudaResult<CUcontext>) -> CudaResult<()> {
    let context = entry.context;
    match popped {
        Ok(raw) if ptr::eq(raw, context.raw()) => Ok(()),
        Ok(raw) => {
            shadow_stack::probe_soon();
            let restored = restore_or_later(driver, Some(entry), Known::popped(raw));
            report::debug(format_args!(
                "the scope of {context} ended and {raw:p} was on top: other code changed this thread's context stack"
            ));
            restored
        }
        Err(error) => {
            let restored = restore_or_later(driver, Some(entry), Known::UNSURE);
            if error != CudaError::InvalidContext {
                report::warn(format_args!("leaving {context}: {error:?}"));
            }
            restored
        }
    }
}

/// Makes the driver's stack what the shadow stack says; see [`restore`]. If that fails, it is tried
/// again before the thread's next call, and the entry `gone` stays in the shadow stack until then.
fn restore_or_later(driver: &Driver, gone: Option<&Entry>, known: Known) -> CudaResult<()> {
    restore(driver, gone, known).map_err(|error| {
        if let Some(gone) = gone {
            shadow_stack::put_back(&gone.clone().into_ended());
        }
        do_first(restore_again);
        error.note_instead(format_args!("to restore this thread's context stack, after a call that failed"))
    })
}

fn restore_again(driver: &'static Driver) -> CudaResult<()> {
    let (mut scope_is_over, mut known) = (false, Known::last());
    while let Some(gone) = shadow_stack::take_ended(scope_is_over) {
        if gone.has_to_be_looked_at() && !(scope_is_over && gone.died_within()) {
            shadow_stack::put_back(&gone.into_looked_at());
            continue;
        }
        scope_is_over |= gone.has_ended();
        restore_or_later(driver, Some(&gone), known)?;
        gone.let_go();
        known = Known::default();
        if gone.is_tombstone() && !shadow_stack::top_has(gone.context.raw()) {
            clear_found(driver, gone.context)?;
        }
    }
    restore_or_later(driver, None, known)
}

/// Like [`restore_or_later`], after a call whose own error is returned.
pub(super) fn restore_quietly(driver: &Driver, gone: Option<&Entry>, known: Known) {
    let _note = keep_note();
    if let Err(error) = restore_or_later(driver, gone, known) {
        report::warn(format_args!("this thread's context stack could not be restored: {error:?}"));
    }
}

/// Compares the top with what is current, and restores the stack if it differs.
#[cold]
pub(super) fn look(driver: &Driver, current: Result<CUcontext, Failed>, context: Handle) -> CudaResult<()> {
    if current.as_ref().is_ok_and(|raw| ptr::eq(*raw, context.raw())) {
        return Ok(());
    }
    shadow_stack::probe_soon();
    restore_or_later(driver, None, Known::default())?;
    report::debug(format_args!(
        "{context} was not current any more: other code changed this thread's context stack"
    ));
    Ok(())
}

/// Like [`look`], at the end of a scope.
#[cold]
pub(super) fn look_closely(driver: &Driver, current: Result<CUcontext, Failed>, context: Handle) {
    let _note = keep_note();
    if let Err(error) = look(driver, current, context) {
        report::warn(format_args!("{context} could not be made current again: {error:?}"));
    }
}

/// After a [`Hold`](crate::liveness::Hold) that failed, and may have left its entries: two, or one
/// where the thread has its own.
#[cold]
pub(in crate::context) fn undo_hold(driver: &Driver, context: Handle, own: usize) {
    if own == 0 {
        shadow_stack::push_ended(&context, Location::caller());
    }
    let depth = shadow_stack::depth();
    super::undo_push(driver, context);
    if shadow_stack::depth() == depth {
        sweep(driver, false, None);
    }
}

/// After this thread ended a context: no destroyed context stays current here, unless a guard holds it.
pub(in crate::context) fn clear_destroyed(driver: &Driver, destroyed: Handle) {
    while let Some(top) = shadow_stack::top().filter(|top| top.guards == 0 && top.is_tombstone()) {
        // Entries below with the same handle stay until they are on top.
        let raw = top.context.raw();
        let popped = match twice(|| driver.is_current(raw)) {
            Ok(true) => driver.ctx_pop_current(),
            Ok(false) => break,
            Err(error) => Err(error),
        };
        shadow_stack::take();
        if after_pop(driver, &top, popped).is_err() {
            return;
        }
        top.let_go();
    }
    let own = shadow_stack::top().is_some_and(|top| {
        ptr::eq(top.context.raw(), destroyed.raw()) && (top.how != How::Found || top.guards > 0)
    });
    if !own && clear_found(driver, destroyed).is_err() {
        return report::warn(format_args!("{destroyed} stays current for now, as it could not be popped"));
    }
    sweep(driver, false, None);
}

/// After this thread destroyed a context without a word of the program: what that pushed goes.
pub(in crate::context) fn clear_pushed(driver: &Driver, destroyed: Handle) {
    let pushed = destroyed.origin() == Origin::Created && !shadow_stack::top_has(destroyed.raw());
    if pushed && clear_found(driver, destroyed).is_err() {
        report::warn(format_args!("{destroyed} stays current for now, as it could not be popped"));
    }
}

/// Pops a destroyed context that is current without an entry of custack's: other code made it so, or
/// destroying it did. A primary context is queried first: other code may have a share of its own, and
/// then it is not destroyed. What cannot be popped is an ended entry from here on.
#[track_caller]
fn clear_found(driver: &Driver, destroyed: Handle) -> CudaResult<()> {
    let primary = destroyed.origin() == Origin::Primary;
    if primary && driver.ctx_get_current_api_version() != Err(CudaError::ContextIsDestroyed) {
        return Ok(());
    }
    shadow_stack::forget_found();
    driver.pop_while_current(destroyed.raw()).inspect_err(|_| {
        shadow_stack::push_ended(&destroyed, Location::caller());
        do_first(restore_again);
    })
}
