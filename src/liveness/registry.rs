//! The registry: from the handle value that the driver answers back to the context it stands for.
//!
//! The driver gives a destroyed context's handle to a later one, so a value may have stood for many contexts; the
//! registry keeps the latest. What custack ended stays known as ended for as long as the driver has not destroyed it,
//! so it is never taken for a context of other code. A thread that uses contexts it entered itself finds them in its
//! own shadow stack and never comes here; no lock is held across a driver call.

use super::life::Phase;
use super::record::{Handle, Origin, Record, make_record};
use crate::driver::ffi::{CUcontext, CUdevice};
use lazy_static::lazy_static;
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

struct Known {
    latest: Handle,
    /// How many living `PrimaryContext`s there are of it.
    shares: u64,
    /// How many shares of earlier ids the driver counts yet, because leases or memory keep them.
    kept: u64,
    /// How many of such shares were ever given back.
    released: u64,
    /// The first id under which the driver's context of today was known.
    since: u64,
}

impl Known {
    fn new(latest: Handle, shares: u64) -> Known {
        Known { latest, shares, kept: 0, released: 0, since: latest.id() }
    }
}

#[derive(Default)]
struct Registry {
    by_raw: HashMap<usize, Known>,
    /// Records that serve no context now.
    idle: Vec<&'static Record>,
    /// By id, which of all destroyed contexts those were whose records may serve others by now.
    died: HashMap<u64, u64>,
    records: usize,
    last_id: u64,
}

lazy_static! {
    static ref REGISTRY: RwLock<Registry> = RwLock::new(Registry::default());
}

fn read() -> RwLockReadGuard<'static, Registry> {
    REGISTRY.read().unwrap_or_else(PoisonError::into_inner)
}

fn write() -> RwLockWriteGuard<'static, Registry> {
    REGISTRY.write().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    /// Ids start at 1 and are never used again.
    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn begin(&mut self, raw: CUcontext, device: Option<CUdevice>, origin: Origin) -> Handle {
        let record = self.idle.pop().unwrap_or_else(|| {
            self.records += 1;
            make_record(self.records)
        });
        let id = self.next_id();
        Handle::begin(record, id, raw, device, origin)
    }

    fn add(&mut self, raw: CUcontext, device: Option<CUdevice>, origin: Origin) -> Handle {
        let context = self.begin(raw, device, origin);
        self.put(context);
        context
    }

    /// Makes this the latest of its handle value. An earlier one that is alive yet was destroyed by other code; its record
    /// serves another unless memory counts on it.
    fn put(&mut self, latest: Handle) {
        let new = Known::new(latest, 0);
        let Some(known) = self.by_raw.get_mut(&latest.raw().addr()) else {
            self.by_raw.insert(latest.raw().addr(), new);
            return;
        };
        let before = known.latest;
        // A primary context of which memory keeps a share is the same one, whoever vouches for it now.
        let since = if known.kept > 0 { known.since } else { new.since };
        *known = Known { since, kept: known.kept, released: known.released, ..new };
        if !before.is_alive() {
            return;
        }
        before.record().count_death();
        if before.record().life.step(before.id(), Phase::Alive, Phase::Dead)
            && !before.record().life.is_pinned()
        {
            self.rest(before);
        }
    }

    /// The context is over, and its record may serve another. A scope may yet ask when it died.
    fn rest(&mut self, context: Handle) {
        self.died.insert(context.id(), context.record().died());
        self.idle.push(context.record());
    }

    fn latest(&mut self, context: Handle) -> Option<&mut Known> {
        self.by_raw.get_mut(&context.raw().addr()).filter(|known| known.latest == context)
    }
}

/// The latest context with this handle value, alive or not.
pub(crate) fn find(raw: CUcontext) -> Option<Handle> {
    read().by_raw.get(&raw.addr()).map(|known| known.latest)
}

/// Whether the driver has the context although custack has ended it.
pub(crate) fn is_ending(context: Handle) -> bool {
    matches!(context.phase(), Phase::Retiring | Phase::Destroying)
}

/// Takes note of a context that was created a moment ago; an earlier one with the same handle value is dead from now on.
pub(crate) fn created(raw: CUcontext, device: CUdevice) -> Handle {
    write().add(raw, Some(device), Origin::Created)
}

/// The living context with this handle value; one of other code's if it is not known. Looked up and noted under one
/// lock, so that threads which meet it at once get the same.
pub(crate) fn meet(raw: CUcontext, device: Option<CUdevice>) -> Handle {
    let mut registry = write();
    let known = registry.by_raw.get(&raw.addr()).map(|known| known.latest).filter(Handle::is_alive);
    known.unwrap_or_else(|| registry.add(raw, device, Origin::Foreign))
}

/// A handle value that was found on a stack and whose context, never met, is destroyed, or may be.
pub(crate) fn add_dead(raw: CUcontext) -> Handle {
    let mut registry = write();
    if let Some(known) = registry.by_raw.get(&raw.addr()) {
        return known.latest;
    }
    let context = Handle::dead(registry.next_id(), raw);
    registry.put(context);
    context
}

/// What is known of a device's primary context before it is retained: that the driver has it under an earlier id, and
/// how many shares were given back by then.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Before(u64);

pub(crate) fn before_retain(device: CUdevice) -> Option<Before> {
    let of_device = |known: &&Known| {
        known.latest.origin() == Origin::Primary && known.latest.device() == Some(device) && known.kept > 0
    };
    read().by_raw.values().find(of_device).map(|known| Before(known.released))
}

/// Counts one more share of a primary context.
///
/// If it is dead under its latest id and the driver had it all the time since [`before_retain`], what was made in it
/// under that id is still there; see [`successor`].
pub(crate) fn retained(raw: CUcontext, device: CUdevice, before: Option<Before>) -> Handle {
    let mut registry = write();
    let known = registry.by_raw.get_mut(&raw.addr());
    // Whoever met it before, as foreign or as primary, keeps a good handle.
    if let Some(known) = known.filter(|known| known.latest.is_alive()) {
        known.latest = known.latest.now_primary(device);
        known.shares += 1;
        return known.latest;
    }
    let latest = registry.begin(raw, Some(device), Origin::Primary);
    let new = Known::new(latest, 1);
    let known = registry.by_raw.entry(raw.addr()).or_insert_with(|| Known::new(latest, 0));
    if known.kept > 0 && before == Some(Before(known.released)) {
        (known.latest, known.shares) = (latest, 1);
    } else {
        *known = Known { kept: known.kept, released: known.released, ..new };
    }
    latest
}

/// Counts one share less. With the last one the context's life ends, under the same lock, so that a retain that comes
/// between begins a new one; true then, and the caller sees to its release.
pub(crate) fn released(context: Handle) -> bool {
    let mut registry = write();
    let Some(known) = registry.latest(context) else { return false };
    known.shares = known.shares.saturating_sub(1);
    let last = known.shares == 0 && context.end_life();
    known.kept += u64::from(last);
    last
}

/// Counts one share less that was given away: the context lives on in other hands.
pub(crate) fn given_away(context: Handle) {
    if let Some(known) = write().latest(context) {
        known.shares = known.shares.saturating_sub(1);
    }
}

/// The living context that the driver has in common with this one, which is dead under its own id.
pub(crate) fn successor(context: Handle) -> Option<Handle> {
    let registry = read();
    let known = registry.by_raw.get(&context.raw().addr())?;
    (known.since <= context.id() && known.latest.is_alive()).then_some(known.latest)
}

/// A share of an earlier id is about to be given back.
pub(super) fn release_begins(context: Handle) {
    if let Some(known) = write().by_raw.get_mut(&context.raw().addr()) {
        known.kept = known.kept.saturating_sub(1);
        known.released += 1;
    }
}

/// Which of all destroyed contexts this was, whose record may serve another by now; 0 for one that was never met alive.
pub(super) fn died(id: u64) -> u64 {
    read().died.get(&id).copied().unwrap_or(0)
}

/// The driver has destroyed the context, or let go of the share, and the record may serve another.
pub(super) fn destroyed(context: Handle) {
    let mut registry = write();
    if context.record().life.step(context.id(), Phase::Destroying, Phase::Dead) {
        registry.rest(context);
    }
}
