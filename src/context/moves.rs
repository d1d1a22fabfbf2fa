//! The moves of the stack: push, pop, set, and the restoring that ends a scope. Each is one driver call when all is
//! well; the rest of this file is what happens when it is not.
//!
//! Two things can go wrong. A call fails: then it is undone if it took effect after all (a driver call may return the
//! error of earlier work *and* do its own), so that the stack is as it was. Or other code has moved the stack since:
//! then what counts is that the right context is current, and no handle is ever tried on the driver to find out.

use super::book;
use super::known;
use super::model::{self, Entry, How};
use super::unowned::{Origin, UnownedContext};
use crate::driver::ffi::CUcontext;
use crate::driver::{Driver, Failed, driver};
use crate::error::{CudaError, CudaResult};
use crate::report;
use std::panic::Location;
use std::ptr;

/// `cuCtxPushCurrent`, undone if it fails, and a note of it. Gives the number of the entry, and 0 if the book is closed.
///
/// The note is written after the call, not before it, which would be as simple: on threads that share the context the
/// calls were a tenth slower then.
#[inline]
pub(super) fn enter(
    driver: &Driver,
    context: &UnownedContext,
    how: How,
    place: &'static Location<'static>,
    guards: u32,
) -> CudaResult<u64> {
    match context.protect_or_not(|live| driver.try_push(live)) {
        Some(Ok(())) => Ok(book::push(context, how, place, guards)),
        other => Err(not_pushed(driver, context, other)),
    }
}

#[cold]
fn not_pushed(driver: &Driver, context: &UnownedContext, answer: Option<Result<(), Failed>>) -> CudaError {
    let Some(Err(failed)) = answer else { return context.refusal() };
    let error = failed.of("cuCtxPushCurrent_v2");
    let was_current = model::top().is_some_and(|top| ptr::eq(top.context.as_raw(), context.as_raw()));
    if !was_current && on_top(driver, context.as_raw()) == Ok(true) {
        let _ = driver.ctx_pop_current();
    }
    error
}

pub(super) fn on_top(driver: &Driver, raw: CUcontext) -> CudaResult<bool> {
    Ok(ptr::eq(driver.ctx_get_current()?, raw))
}

/// `ContextStack::push`.
#[track_caller]
#[inline]
pub(super) fn push(context: &UnownedContext) -> CudaResult<()> {
    match enter(driver()?, context, How::Pushed, Location::caller(), 0) {
        Ok(_) => Ok(()),
        Err(error) => Err(no_push(context, error)),
    }
}

/// The driver's answer to pushing NULL is not its answer to other calls without a context.
#[cold]
fn no_push(context: &UnownedContext, error: CudaError) -> CudaError {
    if context.is_null() {
        return CudaError::InvalidValue.note(format_args!("to push a null handle"));
    }
    error
}

/// `ContextStack::pop`.
#[inline]
pub(super) fn pop() -> CudaResult<UnownedContext> {
    let driver = driver()?;
    if !book::top_is_unheld() {
        return pop_slowly(driver);
    }
    match driver.try_pop() {
        Ok(raw) if book::top_has(raw) => {
            // Copied here and not before the call: what was written a moment ago, in pieces, can be read whole only
            // when it has reached the cache, and the driver's locked count would wait for that.
            let context = book::top_context();
            book::pop();
            Ok(context)
        }
        other => popped_other(driver, other),
    }
}

#[cold]
fn pop_slowly(driver: &Driver) -> CudaResult<UnownedContext> {
    match model::top() {
        None => pop_unknown(driver),
        Some(top) if top.guards > 0 => Err(held(&top, "pop")),
        Some(_) => popped_other(driver, driver.try_pop()),
    }
}

/// After a pop under which the book's top is not yet taken off.
#[cold]
fn popped_other(driver: &Driver, popped: Result<CUcontext, Failed>) -> CudaResult<UnownedContext> {
    let Some(top) = model::top() else { return pop_unknown(driver) };
    let raw = match popped.map_err(|failed| failed.of("cuCtxPopCurrent_v2")) {
        Ok(raw) => raw,
        // Other code has popped what was ours.
        Err(CudaError::InvalidContext) if driver.ctx_get_current().is_ok_and(|raw| raw.is_null()) => {
            book::pop();
            return Err(CudaError::InvalidContext.note(format_args!("to pop from an empty stack")));
        }
        Err(error) => {
            undo_pop(driver, &top);
            return Err(error);
        }
    };
    if ptr::eq(raw, top.context.as_raw()) {
        book::pop();
        return Ok(top.context);
    }
    // Foreign code has moved the stack. If it replaced our entry, ours is gone; if it pushed on it, ours is there yet.
    report::debug(format_args!(
        "popped {raw:p} where {} was expected: other code moved this thread's context stack",
        top.context
    ));
    if on_top(driver, top.context.as_raw()) != Ok(true) {
        book::pop();
    }
    Ok(known::find(raw).unwrap_or_else(|| known::add(raw, None, Origin::Foreign)))
}

/// A pop where the book is empty: if there is anything, other code put it there. It is asked about before it is
/// taken off, because afterwards the driver may free it.
fn pop_unknown(driver: &Driver) -> CudaResult<UnownedContext> {
    let current = current(driver)?;
    if current.is_null() {
        return Err(CudaError::InvalidContext.note(format_args!("to pop from an empty stack")));
    }
    driver.ctx_pop_current()?;
    Ok(current)
}

#[cold]
fn undo_pop(driver: &Driver, top: &Entry) {
    let below_is_same = model::below_top().is_some_and(|below| below == top.context);
    if below_is_same || on_top(driver, top.context.as_raw()) != Ok(false) {
        return;
    }
    let put_back = top.context.protect(|live| driver.ctx_push_current(live));
    if put_back.and_then(|pushed| pushed).is_err() {
        // A destroyed context cannot be put back; the failed pop has taken it off, and so does the book.
        book::pop();
    }
}

/// `CurrentContext::set_current`.
#[track_caller]
#[inline]
pub(super) fn set(context: &UnownedContext) -> CudaResult<()> {
    if book::is_top(context) && context.is_alive() {
        // Whatever comes of it, the book stays as it is.
        let driver = driver()?;
        return match context.protect_or_not(|live| driver.try_set(live)) {
            Some(Ok(())) => Ok(()),
            Some(Err(failed)) => Err(failed.of("cuCtxSetCurrent")),
            None => Err(context.refusal()),
        };
    }
    set_other(context, Location::caller())
}

#[inline(never)]
fn set_other(context: &UnownedContext, place: &'static Location<'static>) -> CudaResult<()> {
    let top = model::top();
    let same = top.as_ref().is_some_and(|top| top.context == *context);
    if let Some(top) = top.as_ref().filter(|top| top.guards > 0 && !same) {
        return Err(held(top, "replace"));
    }
    if context.is_null() {
        driver()?.ctx_unset_current().inspect_err(|_| undo_unset(top.as_ref()))?;
        book::pop();
        return Ok(());
    }
    context.usable()?;
    let driver = driver()?;
    let set = context.protect(|live| driver.ctx_set_current(live))?;
    set.inspect_err(|_| undo_set(driver, context, top.as_ref()))?;
    if !same {
        model::set_top(context, place);
    }
    Ok(())
}

#[cold]
fn undo_set(driver: &Driver, context: &UnownedContext, before: Option<&Entry>) {
    match before {
        Some(before) if before.context != *context && on_top(driver, context.as_raw()) == Ok(true) => {
            let _ = before.context.protect(|live| driver.ctx_set_current(live));
        }
        None if on_top(driver, context.as_raw()) == Ok(true) => {
            let _ = driver.ctx_unset_current();
        }
        _ => {}
    }
}

#[cold]
fn undo_unset(before: Option<&Entry>) {
    if let (Some(before), Ok(driver)) = (before, driver()) {
        undo_pop(driver, before);
    }
}

#[cold]
fn held(top: &Entry, what: &str) -> CudaError {
    CudaError::HeldByGuard.note(format_args!("to {what} {}, entered at {}", top.context, top.place))
}

/// `CurrentContext::get_current`.
#[inline]
pub(super) fn current(driver: &Driver) -> CudaResult<UnownedContext> {
    let raw = driver.try_get().map_err(|failed| failed.of("cuCtxGetCurrent"))?;
    if book::top_has(raw) {
        let context = book::top_context();
        if context.is_alive() {
            return Ok(context);
        }
    }
    identify(driver, raw)
}

/// The context behind a handle that is current on this thread, which the book does not know as alive.
#[cold]
fn identify(driver: &Driver, raw: CUcontext) -> CudaResult<UnownedContext> {
    if raw.is_null() {
        return Ok(UnownedContext::null());
    }
    let top = model::top();
    if let Some(top) = top.as_ref().filter(|top| ptr::eq(top.context.as_raw(), raw) && top.context.is_alive())
    {
        return Ok(top.context.clone());
    }
    let found = known::find(raw);
    if let Some(known) = found.as_ref().filter(|known| known.is_alive()) {
        return Ok(known.clone());
    }
    if let Some(top) = top.filter(|top| ptr::eq(top.context.as_raw(), raw)) {
        return Ok(top.context);
    }
    // A stale handle, or another context that got the same one. It is current, so the driver holds it and can be
    // asked about it without harm.
    match driver.ctx_get_current_api_version() {
        Err(CudaError::ContextIsDestroyed) => Ok(known::add_dead(raw)),
        Err(error) if found.is_some() => Err(error),
        _ => Ok(known::add(raw, driver.ctx_get_device().ok(), Origin::Foreign)),
    }
}

/// Ends a scope that made an entry.
#[inline]
pub(super) fn leave(context: &UnownedContext, serial: u64) {
    if !book::top_has_one_guard(serial) {
        return step_off(serial, true);
    }
    // The usual end: our entry is on top, and the popped handle is the check.
    let Ok(driver) = driver() else { return };
    match driver.try_pop() {
        Ok(raw) if ptr::eq(raw, context.as_raw()) => {
            if book::pop() {
                sweep();
            }
        }
        other => {
            model::step_off(serial, true);
            sweep_after(driver, Some(other.map_err(|failed| failed.of("cuCtxPopCurrent_v2"))));
        }
    }
}

/// Ends a guard's standing where more than one entry may be concerned.
#[cold]
pub(super) fn step_off(serial: u64, made_entry: bool) {
    if model::step_off(serial, made_entry) {
        sweep();
    }
}

/// Takes off what ended scopes have left, as far as no living guard stands on it.
#[cold]
pub(super) fn sweep() {
    if let Ok(driver) = driver() {
        sweep_after(driver, None);
    }
}

/// As [`sweep`], where the first pop has been made already.
#[cold]
fn sweep_after(driver: &Driver, mut popped: Option<CudaResult<CUcontext>>) {
    while let Some((entry, below)) = model::take_doomed() {
        let popped = popped.take().unwrap_or_else(|| driver.ctx_pop_current());
        match take_off(driver, &entry.context, below.as_ref(), popped) {
            Ok(()) => {}
            Err(error) => {
                report::warn(format_args!("{} could not be taken off the stack: {error}", entry.context));
                book::put_back(&entry);
                return;
            }
        }
    }
}

/// Ends the driver's side of an entry after its pop: sees that what was current before is current again.
pub(super) fn take_off(
    driver: &Driver,
    gone: &UnownedContext,
    below: Option<&UnownedContext>,
    popped: CudaResult<CUcontext>,
) -> CudaResult<()> {
    match popped {
        Ok(raw) if ptr::eq(raw, gone.as_raw()) => Ok(()),
        Ok(raw) => {
            settle(driver, gone, below, raw);
            Ok(())
        }
        // The stack is empty: other code has popped what was ours. Nothing is left to restore.
        Err(CudaError::InvalidContext) if driver.ctx_get_current().is_ok_and(|raw| raw.is_null()) => Ok(()),
        // The error of earlier work, or a pop that did not happen: the top tells.
        Err(error) => {
            report::warn(format_args!("leaving {gone}: {error}"));
            let same_below = below.is_some_and(|below| ptr::eq(below.as_raw(), gone.as_raw()));
            if same_below || on_top(driver, gone.as_raw()) != Ok(true) {
                return Ok(());
            }
            driver.ctx_pop_current().map(|_| ())
        }
    }
}

/// After a pop that gave another handle than ours: other code replaced our entry, pushed on it, or popped it.
#[cold]
fn settle(driver: &Driver, gone: &UnownedContext, below: Option<&UnownedContext>, popped: CUcontext) {
    report::debug(format_args!(
        "the scope of {gone} ended and {popped:p} was on top: other code moved this thread's context stack"
    ));
    let Ok(mut now) = driver.ctx_get_current() else { return };
    if below.is_some_and(|below| ptr::eq(below.as_raw(), now)) {
        return;
    }
    if ptr::eq(now, gone.as_raw()) {
        // Something lay above our entry, and that pop has taken it; this one takes ours.
        if driver.ctx_pop_current().is_err() {
            return;
        }
        now = driver.ctx_get_current().unwrap_or(now);
    }
    let Some(below) = below.filter(|below| !ptr::eq(below.as_raw(), now)) else { return };
    match below.protect(|live| driver.ctx_set_current(live)) {
        Ok(Ok(())) => {}
        Ok(Err(error)) | Err(error) => {
            report::warn(format_args!("{below} could not be made current again: {error}"));
        }
    }
}

/// After a context was destroyed by this thread: neither it nor another destroyed one stays current here.
pub(super) fn clear_stale(driver: &Driver, destroyed: &UnownedContext) {
    let mut next = Some(destroyed.as_raw());
    while let Some(raw) = next {
        if let Err(error) = pop_while_current(driver, raw) {
            report::warn(format_args!(
                "a destroyed context stays current, as it could not be taken off: {error}"
            ));
            break;
        }
        model::forget_tops(raw);
        next = model::top().filter(|top| !top.context.is_alive()).map(|top| top.context.as_raw());
        next = next.filter(|stale| driver.ctx_get_current().is_ok_and(|top| ptr::eq(top, *stale)));
    }
    sweep();
}

/// Pops while the handle is current; a failed call is tried again once.
pub(super) fn pop_while_current(driver: &Driver, raw: CUcontext) -> CudaResult<()> {
    let mut failures = 0;
    loop {
        let step = match driver.ctx_get_current() {
            Ok(top) if !ptr::eq(top, raw) => return Ok(()),
            Ok(_) => driver.ctx_pop_current().map(|_| ()),
            Err(error) => Err(error),
        };
        if let Err(error) = step {
            failures += 1;
            if failures > 1 {
                return Err(error);
            }
        }
    }
}
