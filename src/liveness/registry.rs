//! The registry: from a raw handle that the driver returns to the context it stands for now.
//!
//! The driver reuses the raw handle of a destroyed context, so one raw handle may have stood for many contexts; the
//! registry keeps the latest. A context whose life custack has ended stays registered as such until the driver has
//! destroyed it, so it is never mistaken for a context of other code. A thread that uses contexts it entered itself
//! finds them in its shadow stack and does not need the registry. No lock is held across a driver call.

use super::green::Green;
use super::life::Phase;
use super::record::{Handle, NUMBERS, Origin, Record, count_death, make_record};
use super::thread::PARTICIPANTS;
use crate::driver::ffi::{CUcontext, CUdevice};
use crate::driver::{Counted, OrOwn, is_child};
use crate::fence;
use lazy_static::lazy_static;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

struct Registration {
    latest: Handle,
    /// How many living `PrimaryContext`s share it.
    shares: u64,
    /// How many shares of earlier ids the driver still counts, because leases or memory keep them.
    kept: u64,
    /// The first id of the context that the driver has now.
    since: u64,
}

impl Registration {
    fn new(latest: Handle, shares: u64) -> Registration {
        Registration { latest, shares, kept: 0, since: latest.id() }
    }
}

#[derive(Default)]
struct Registry {
    by_raw: HashMap<usize, Registration>,
    /// The green contexts that the driver has, by their ids.
    greens: HashMap<u64, Green>,
    /// Records that serve no context now; those without a number are last.
    idle: VecDeque<&'static Record>,
    records: usize,
    last_id: u64,
}

lazy_static! {
    static ref REGISTRY: RwLock<Registry> = RwLock::new(Registry::default());
}

fn read() -> OrOwn<RwLockReadGuard<'static, Registry>, Registry> {
    if is_child() {
        return OrOwn::Own(Registry::of_child());
    }
    OrOwn::Locked(REGISTRY.read().unwrap_or_else(PoisonError::into_inner), Counted::new())
}

fn write() -> OrOwn<RwLockWriteGuard<'static, Registry>, Registry> {
    if is_child() {
        return OrOwn::Own(Registry::of_child());
    }
    OrOwn::Locked(REGISTRY.write().unwrap_or_else(PoisonError::into_inner), Counted::new())
}

impl Registry {
    /// For one use in the child of a fork, where no context is made. A handle made in it is none of the parent's, whose ids
    /// and numbers of records are lower.
    fn of_child() -> Registry {
        static IDS: AtomicU64 = AtomicU64::new(1 << 48);
        let last_id = IDS.fetch_add(1 << 8, Ordering::Relaxed);
        Registry { last_id, records: NUMBERS.into(), ..Registry::default() }
    }

    /// Ids start at 1 and are never used again.
    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn begin(&mut self, raw: CUcontext, device: Option<CUdevice>, origin: Origin) -> Handle {
        let record = self.idle.pop_front().unwrap_or_else(|| {
            self.records += 1;
            make_record(self.records)
        });
        let id = self.next_id();
        Handle::begin(record, id, raw, device, origin)
    }

    fn add(&mut self, raw: CUcontext, device: Option<CUdevice>, origin: Origin) -> Handle {
        let context = self.begin(raw, device, origin);
        self.register(context, 0);
        context
    }

    /// Registers this as the latest context of its raw handle. If an earlier one is still alive, other code destroyed
    /// it; its record is recycled unless a call or memory still uses it.
    fn register(&mut self, latest: Handle, shares: u64) {
        let new = Registration::new(latest, shares);
        let Some(registration) = self.by_raw.get_mut(&latest.raw().addr()) else {
            self.by_raw.insert(latest.raw().addr(), new);
            return;
        };
        let before = registration.latest;
        // The driver has had a primary context all along of which memory or a lease keeps a share.
        let since = if registration.kept > 0 { registration.since } else { new.since };
        *registration = Registration { since, kept: registration.kept, ..new };
        if !before.is_alive() {
            return;
        }
        if before.record().life.step(before.id(), Phase::Alive, Phase::Dead) {
            count_death();
            fence::heavy();
            // Leases first, because a thread with one may pin the context.
            if !PARTICIPANTS.leased(before.record().address()) && !before.record().life.is_pinned() {
                self.recycle(before);
            }
        }
    }

    /// The context is dead and its record may serve another.
    fn recycle(&mut self, context: Handle) {
        match context.number() {
            0 => self.idle.push_back(context.record()),
            _ => self.idle.push_front(context.record()),
        }
    }

    fn latest(&mut self, context: Handle) -> Option<&mut Registration> {
        self.by_raw.get_mut(&context.raw().addr()).filter(|registration| registration.latest == context)
    }
}

/// The latest context with this raw handle, alive or not.
pub(crate) fn find(raw: CUcontext) -> Option<Handle> {
    read().by_raw.get(&raw.addr()).map(|registration| registration.latest)
}

/// Whether the driver still has the context, although custack has ended its life.
pub(crate) fn is_retiring(context: Handle) -> bool {
    matches!(context.phase(), Phase::Retiring | Phase::Claiming | Phase::Destroying)
}

/// Registers a context that was just created; an earlier one with the same raw handle is dead from now on.
pub(crate) fn created(raw: CUcontext, device: CUdevice) -> Handle {
    write().add(raw, Some(device), Origin::Created)
}

/// Registers a green context that was just created.
pub(super) fn created_green(raw: CUcontext, device: CUdevice, green: Green) -> Handle {
    let mut registry = write();
    let context = registry.add(raw, Some(device), Origin::Green);
    registry.greens.insert(context.id(), green);
    context
}

/// What is known of a green context that the driver has.
pub(super) fn green(context: Handle) -> Option<Green> {
    read().greens.get(&context.id()).copied()
}

/// The driver has destroyed the green context.
pub(super) fn forget_green(context: Handle) -> Option<Green> {
    write().greens.remove(&context.id())
}

/// The living context with this raw handle; if none is registered, a foreign one is. Both happen under one lock, so
/// that threads which do this at once get the same handle.
pub(crate) fn find_or_add(raw: CUcontext, device: Option<CUdevice>) -> Handle {
    let mut registry = write();
    let registration =
        registry.by_raw.get(&raw.addr()).map(|registration| registration.latest).filter(Handle::is_alive);
    registration.unwrap_or_else(|| registry.add(raw, device, Origin::Foreign))
}

/// Makes a dead handle for a raw one that was found on a stack and was never registered, and whose context is, or may
/// be, destroyed.
pub(crate) fn add_dead(raw: CUcontext) -> Handle {
    let mut registry = write();
    if let Some(registration) = registry.by_raw.get(&raw.addr()) {
        return registration.latest;
    }
    let context = Handle::dead(registry.next_id(), raw);
    registry.register(context, 0);
    context
}

/// Registers one more share of a primary context, which the driver has counted.
///
/// If its latest id is dead but a share of an earlier one is kept, what was made under that id still exists; see
/// [`successor`].
pub(crate) fn retained(raw: CUcontext, device: CUdevice) -> Handle {
    let mut registry = write();
    let registration = registry.by_raw.get_mut(&raw.addr());
    // Handles from before, foreign or primary, stay valid.
    if let Some(registration) = registration.filter(|registration| registration.latest.is_alive()) {
        registration.latest = registration.latest.now_primary(device);
        registration.shares += 1;
        return registration.latest;
    }
    let latest = registry.begin(raw, Some(device), Origin::Primary);
    registry.register(latest, 1);
    latest
}

/// Removes a share. The last one ends the context's life under the same lock, so that a concurrent retain begins a new
/// life. Returns true if it was the last; the caller then releases the context.
pub(crate) fn released(context: Handle) -> bool {
    let mut registry = write();
    let Some(registration) = registry.latest(context) else { return false };
    registration.shares = registration.shares.saturating_sub(1);
    let last = registration.shares == 0 && context.end_life();
    registration.kept += u64::from(last);
    last
}

/// Removes a share that was given away: the context lives on.
pub(crate) fn given_away(context: Handle) {
    if let Some(registration) = write().latest(context) {
        registration.shares = registration.shares.saturating_sub(1);
    }
}

/// The living context that is the same driver context as this one, whose own id is dead.
pub(crate) fn successor(context: Handle) -> Option<Handle> {
    let registry = read();
    let registration = registry.by_raw.get(&context.raw().addr())?;
    (registration.since <= context.id() && registration.latest.is_alive()).then_some(registration.latest)
}

/// A share of an earlier id is about to be released.
pub(super) fn release_begins(context: Handle) {
    if let Some(registration) = write().by_raw.get_mut(&context.raw().addr()) {
        registration.kept = registration.kept.saturating_sub(1);
    }
}

/// The driver has destroyed the context, or released the share, so the record may serve another. Nothing is known of the raw
/// handle any more, unless shares of earlier ids are kept.
pub(super) fn destroyed(context: Handle) {
    let mut registry = write();
    if context.record().life.step(context.id(), Phase::Destroying, Phase::Dead) {
        registry.recycle(context);
        if registry.latest(context).is_some_and(|registration| registration.kept == 0) {
            registry.by_raw.remove(&context.raw().addr());
        }
    }
}
