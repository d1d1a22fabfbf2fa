//! Which contexts custack knows, by the driver's handle: the way from a handle that the driver answers back to the
//! context it stands for.
//!
//! The driver gives the same handle value to a later context, so each value has one [`Record`] for good, and its
//! latest context. A thread that uses contexts it entered itself finds them in its own model and never comes here;
//! no lock is held across a driver call.

use super::liveness::{Killed, Record};
use super::unowned::{Origin, UnownedContext};
use crate::driver::ffi::{CUcontext, CUdevice};
use lazy_static::lazy_static;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

struct Known {
    latest: UnownedContext,
    /// How many `PrimaryContext`s hold it.
    retains: u64,
}

lazy_static! {
    static ref KNOWN: RwLock<HashMap<usize, Known>> = RwLock::new(HashMap::new());
}

fn read() -> RwLockReadGuard<'static, HashMap<usize, Known>> {
    KNOWN.read().unwrap_or_else(PoisonError::into_inner)
}

fn write() -> RwLockWriteGuard<'static, HashMap<usize, Known>> {
    KNOWN.write().unwrap_or_else(PoisonError::into_inner)
}

/// Ids start at 1 and are never used again.
fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The latest context with this handle, alive or not.
pub(super) fn find(raw: CUcontext) -> Option<UnownedContext> {
    read().get(&raw.addr()).map(|known| known.latest.clone())
}

/// Takes note of a context that is alive; an earlier one with the same handle is dead from now on.
pub(super) fn add(raw: CUcontext, device: Option<CUdevice>, origin: Origin) -> UnownedContext {
    let mut known = write();
    let context = fresh(&known, raw, device, origin);
    context.record().bring_to_life(context.id());
    known.insert(raw.addr(), Known { latest: context.clone(), retains: 0 });
    context
}

/// A handle that was found on a stack and whose context, never met, is destroyed.
pub(super) fn add_dead(raw: CUcontext) -> UnownedContext {
    let mut known = write();
    if let Some(known) = known.get(&raw.addr()) {
        return known.latest.clone();
    }
    let context = fresh(&known, raw, None, Origin::Foreign);
    known.insert(raw.addr(), Known { latest: context.clone(), retains: 0 });
    context
}

/// Counts one more holder of a primary context.
pub(super) fn retained(raw: CUcontext, device: CUdevice) -> UnownedContext {
    let mut known = write();
    let same = known.get(&raw.addr()).filter(|known| known.latest.is_alive());
    let (retains, id) = same.map_or((0, None), |known| (known.retains, Some(known.latest.id())));
    let mut context = fresh(&known, raw, Some(device), Origin::Primary);
    match id {
        // Whoever met it before, as foreign or as primary, keeps a good handle.
        Some(id) => context = context.with_id(id),
        None => context.record().bring_to_life(context.id()),
    }
    known.insert(raw.addr(), Known { latest: context.clone(), retains: retains + 1 });
    context
}

/// Counts one holder less. With the last one the context loses its life, under the same lock, so that a retain
/// that comes between begins a new one.
pub(super) fn released(context: &UnownedContext) -> Option<Killed> {
    let mut known = write();
    let known = known.get_mut(&context.as_raw().addr()).filter(|known| known.latest == *context)?;
    known.retains = known.retains.saturating_sub(1);
    if known.retains == 0 { context.take_life() } else { None }
}

/// Counts one holder less who gave its share away: the context lives on in other hands.
pub(super) fn given_away(context: &UnownedContext) {
    if let Some(known) = write().get_mut(&context.as_raw().addr()).filter(|known| known.latest == *context) {
        known.retains = known.retains.saturating_sub(1);
    }
}

/// Takes [`released`] back: the driver did not let go.
pub(super) fn not_released(context: &UnownedContext) {
    if let Some(known) = write().get_mut(&context.as_raw().addr()).filter(|known| known.latest == *context) {
        known.retains += 1;
    }
}

fn fresh(
    known: &HashMap<usize, Known>,
    raw: CUcontext,
    device: Option<CUdevice>,
    origin: Origin,
) -> UnownedContext {
    let record = match known.get(&raw.addr()) {
        Some(known) => known.latest.record(),
        None => Box::leak(Box::new(Record::new(raw.addr()))),
    };
    UnownedContext::new(record, next_id(), device, origin)
}
