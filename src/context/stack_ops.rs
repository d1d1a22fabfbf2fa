//! The operations on this thread's stack: push, pop, set, and the restoration that ends a scope. Each is one driver
//! call in the normal case; the rest of this file handles the other cases.
//!
//! There are two. A call fails: then it is undone if it took effect after all (a driver call may return the error of
//! earlier work *and* do its own), so that the stack is as it was. Or other code has changed the stack: then what
//! matters is that the right context is current, and no handle is ever passed to the driver just to find out.

mod sweep;

pub(super) use sweep::{clear_destroyed, clear_pushed, release_guard, undo_hold};

use super::restore::Known;
use crate::driver::ffi::CUcontext;
use crate::driver::{Driver, Failed, Live, driver, running};
use crate::error::{CudaError, CudaResult, keep_note};
use crate::liveness::{Handle, registry};
use crate::report;
use crate::shadow_stack::{self, Entry, How};
use std::panic::Location;
use std::ptr;

/// Pushes the context, undone if that fails, and adds an entry; returns its serial number.
///
/// The entry is written after the call because writing it before made the calls a tenth slower on threads that share
/// the context.
#[inline]
pub(super) fn push_entry(
    driver: &Driver,
    context: &Handle,
    how: How,
    location: &'static Location<'static>,
    guards: u32,
) -> CudaResult<u64> {
    match context.hazard(|live| driver.try_push(live)) {
        Some(Ok(())) => Ok(shadow_stack::push(context, how, location, guards)),
        Some(Err(failed)) => Err(push_failed(driver, *context, failed)),
        None => Err(refusal(*context)),
    }
}

/// Runs outside the hazard: a report runs the program's code, which may destroy the context and wait for that hazard.
#[cold]
fn push_failed(driver: &Driver, context: Handle, failed: Failed) -> CudaError {
    let error = failed.of("cuCtxPushCurrent_v2");
    undo_push(driver, context);
    error
}

/// After a call that failed, and may have added an entry all the same.
#[cold]
fn undo_push(driver: &Driver, context: Handle) {
    // Like a scope, so that what was destroyed before the call stays.
    shadow_stack::push(&context, How::Pushed, Location::caller(), 1);
    let added = shadow_stack::top();
    shadow_stack::pop();
    sweep::restore_quietly(driver, added.as_ref(), Known::UNSURE);
}

/// Like [`push_entry`], for a caller that has a lease.
#[inline(never)]
pub(super) fn push_leased(
    driver: &Driver,
    context: &Handle,
    live: Live<'_>,
    location: &'static Location<'static>,
) -> CudaResult<u64> {
    driver.try_push(live).map_err(|failed| push_failed(driver, *context, failed))?;
    Ok(shadow_stack::push(context, How::Entered, location, 1))
}

/// Refuses to make a green context current by its handle: it is current on one thread at a time, which only its owner
/// can ensure.
#[inline]
pub(super) fn refuse_green(context: &Handle) -> CudaResult<()> {
    if context.is_green() { Err(only_its_owner(*context)) } else { Ok(()) }
}

#[cold]
fn only_its_owner(context: Handle) -> CudaError {
    if !context.is_alive() {
        return refusal(context);
    }
    CudaError::NotPermitted
        .note(format_args!("to make {context} current by a handle: only its owner enters a green context"))
}

/// Why a handle without a living context is refused.
#[cold]
pub(super) fn refusal(context: Handle) -> CudaError {
    if context.is_none() {
        return CudaError::InvalidContext.note(format_args!("to use a null handle, which has no context"));
    }
    CudaError::ContextIsDestroyed.note(format_args!("to use {context:#}"))
}

/// `ContextStack::push`.
#[track_caller]
#[inline]
pub(super) fn push(context: &Handle) -> CudaResult<()> {
    refuse_green(context)?;
    match push_entry(driver()?, context, How::Pushed, Location::caller(), 0) {
        Ok(_) => Ok(()),
        Err(error) => Err(no_push(*context, error)),
    }
}

/// The driver's error for pushing NULL differs from that of other calls without a context.
#[cold]
fn no_push(context: Handle, error: CudaError) -> CudaError {
    if context.is_none() {
        return CudaError::InvalidValue.note(format_args!("to push a null handle"));
    }
    error
}

/// `ContextStack::pop`.
#[inline]
pub(super) fn pop() -> CudaResult<Handle> {
    let driver = driver()?;
    if !shadow_stack::top_is_unheld() {
        return pop_slowly(driver);
    }
    match driver.try_pop() {
        Ok(raw) if shadow_stack::top_has(raw) => {
            // Copied here and not before the call: the entry was just written in pieces, so reading it whole would wait
            // until it has reached the cache, and the locked increment in the driver would wait for that.
            let context = shadow_stack::top_context();
            shadow_stack::pop();
            Ok(context)
        }
        other => popped_other(driver, other),
    }
}

/// Pops where there is no entry, or where a guard holds the top one.
#[cold]
fn pop_slowly(driver: &Driver) -> CudaResult<Handle> {
    match shadow_stack::top() {
        None => pop_unknown(driver),
        Some(top) => Err(held(&top, "pop")),
    }
}

/// After a pop for which the top entry has not been removed yet.
#[cold]
fn popped_other(driver: &Driver, popped: Result<CUcontext, Failed>) -> CudaResult<Handle> {
    let Some(top) = shadow_stack::top() else { return pop_unknown(driver) };
    let raw = match popped.map_err(|failed| failed.of("cuCtxPopCurrent_v2")) {
        Ok(raw) => raw,
        // Other code has popped our entry.
        Err(CudaError::InvalidContext) if driver.ctx_get_current().is_ok_and(|raw| raw.is_null()) => {
            shadow_stack::pop();
            return Err(CudaError::InvalidContext.note(format_args!("to pop from an empty stack")));
        }
        Err(error) => {
            sweep::restore_quietly(driver, None, Known::UNSURE);
            return Err(error);
        }
    };
    if ptr::eq(raw, top.context.raw()) {
        shadow_stack::pop();
        return Ok(top.context);
    }
    // Other code has changed the stack. If it replaced our entry, ours is gone; if it pushed on it, ours is still
    // there.
    report::debug(format_args!(
        "popped {raw:p} where {} was expected: other code changed this thread's context stack",
        top.context
    ));
    if driver.is_current(top.context.raw()) != Ok(true) {
        shadow_stack::pop();
        if let Some(held) = held_below(driver, Some(raw)) {
            put_back_held(driver, &held);
            return Err(self::held(&held, "pop"));
        }
    }
    // A context without a living handle may have been destroyed, and freed by this very pop, so the driver cannot be
    // asked. If it is found current later, it is registered as a foreign context.
    Ok(registry::find(raw).unwrap_or_else(|| registry::add_dead(raw)))
}

/// The topmost entry that a guard holds, if other code has popped everything above it. That entry is on top, or was
/// until custack popped this handle a moment ago.
#[cold]
fn held_below(driver: &Driver, popped: Option<CUcontext>) -> Option<Entry> {
    let (at, held) = shadow_stack::topmost_held()?;
    let now = driver.ctx_get_current().ok()?;
    let raw = held.context.raw();
    let uncovered = match popped {
        Some(popped) => ptr::eq(popped, raw) && !shadow_stack::has_from(at, now),
        None => ptr::eq(now, raw) && !shadow_stack::has_from(at + 1, now),
    };
    uncovered.then_some(held)
}

/// Makes the entry that a guard holds current again, and removes what other code has popped.
#[cold]
fn put_back_held(driver: &Driver, held: &Entry) {
    while shadow_stack::top().is_some_and(|top| top.serial != held.serial) {
        shadow_stack::pop();
    }
    sweep::restore_quietly(driver, None, Known::UNSURE);
}

/// Pops where the shadow stack is empty: whatever is on top was put there by other code. It is identified before it is
/// popped, because afterwards the driver may free it.
fn pop_unknown(driver: &Driver) -> CudaResult<Handle> {
    let current = current(driver)?;
    if current.is_none() {
        return Err(CudaError::InvalidContext.note(format_args!("to pop from an empty stack")));
    }
    driver.ctx_pop_current()?;
    Ok(current)
}

/// `CurrentContext::set_current`.
#[track_caller]
#[inline]
pub(super) fn set(context: &Handle) -> CudaResult<()> {
    // First, because it may restore the stack.
    let driver = driver()?;
    if shadow_stack::is_top(context) && context.is_alive() && !shadow_stack::guard_near_top() {
        // The shadow stack stays as it is, whatever the result.
        return match context.hazard(|live| driver.try_set(live)) {
            Some(Ok(())) => Ok(()),
            Some(Err(failed)) => Err(failed.of("cuCtxSetCurrent")),
            None => Err(refusal(*context)),
        };
    }
    set_other(driver, *context, Location::caller())
}

#[inline(never)]
fn set_other(driver: &Driver, context: Handle, location: &'static Location<'static>) -> CudaResult<()> {
    let top = shadow_stack::top();
    let same = top.as_ref().is_some_and(|top| top.context == context);
    if !same {
        refuse_green(&context)?;
    }
    if let Some(top) = top.as_ref().filter(|top| top.guards > 0 && !same) {
        return Err(held(top, "replace"));
    }
    if context.is_alive() && top.as_ref().is_some_and(|top| top.guards > 0) {
        // It is current already, unless other code has changed the stack.
        return sweep::look(driver, driver.try_get(), context);
    }
    if (context.is_none() || context.is_alive()) && shadow_stack::guard_near_top() {
        if let Some(held) = held_below(driver, None) {
            return Err(self::held(&held, "replace"));
        }
    }
    if context.is_none() {
        driver.ctx_unset_current().inspect_err(|_| sweep::restore_quietly(driver, None, Known::UNSURE))?;
        shadow_stack::pop();
        return Ok(());
    }
    let set = context.hazard(|live| driver.ctx_set_current(live)).ok_or_else(|| refusal(context))?;
    set.inspect_err(|_| match top {
        Some(_) => sweep::restore_quietly(driver, None, Known::default()),
        None => undo_push(driver, context),
    })?;
    if !same {
        shadow_stack::set_top(context, location);
    }
    Ok(())
}

#[cold]
fn held(top: &Entry, what: &str) -> CudaError {
    let Entry { context, how, location, .. } = top;
    CudaError::HeldByGuard.note(format_args!("to {what} {context}, {how} at {location}"))
}

/// `CurrentContext::get_current`.
#[inline]
pub(super) fn current(driver: &Driver) -> CudaResult<Handle> {
    let raw = driver.try_get().map_err(|failed| failed.of("cuCtxGetCurrent"))?;
    if shadow_stack::top_has(raw) {
        let context = shadow_stack::top_context();
        if context.is_alive() {
            return Ok(context);
        }
    }
    identify(driver, raw)
}

/// The context of a raw handle that is current on this thread, and whose entry in the shadow stack is missing or dead.
#[cold]
fn identify(driver: &Driver, raw: CUcontext) -> CudaResult<Handle> {
    if raw.is_null() {
        return Ok(Handle::NONE);
    }
    let found = registry::find(raw);
    // A context that custack has ended but the driver still has is dead, not foreign.
    if let Some(found) = found.filter(|found| found.is_alive() || registry::is_retiring(*found)) {
        return Ok(found);
    }
    if let Some(top) = shadow_stack::top().filter(|top| ptr::eq(top.context.raw(), raw)) {
        return Ok(top.context);
    }
    // A stale handle, or a new context with the same raw handle. It is current, so the driver holds it and can be asked
    // about it safely.
    match driver.ctx_get_current_api_version() {
        Err(CudaError::ContextIsDestroyed) => Ok(registry::add_dead(raw)),
        Err(error) if found.is_some() => Err(error),
        _ => Ok(registry::find_or_add(raw, driver.ctx_get_device().ok())),
    }
}

/// Ends a scope of the program that found its context current: other code may have changed the
/// stack in it.
#[inline]
pub(super) fn look_again(context: &Handle) {
    let Some(driver) = running() else { return };
    match driver.try_get() {
        Ok(raw) if ptr::eq(raw, context.raw()) => {}
        odd => sweep::look_closely(driver, odd, *context),
    }
}

/// Ends a scope that made an entry.
#[inline]
pub(super) fn leave(context: &Handle, serial: u64) {
    if !shadow_stack::top_has_one_guard(serial) {
        return release_guard(serial, true);
    }
    // The normal end: our entry is on top, and the popped handle confirms it.
    let Some(driver) = running() else { return };
    match driver.try_pop() {
        Ok(raw) if ptr::eq(raw, context.raw()) => {
            if shadow_stack::pop_scope_entry() {
                sweep::sweep(driver, true, None);
            }
        }
        other => {
            let _note = keep_note();
            shadow_stack::release_guard(serial, true);
            sweep::sweep(driver, false, Some(other.map_err(|failed| failed.of("cuCtxPopCurrent_v2"))));
        }
    }
}
