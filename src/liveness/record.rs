//! Records and handles: what custack knows of one context, and the plain value that everybody copies.

// Follows the table of records, which are never freed.
#![allow(unsafe_code)]

use super::life::{Life, NOBODY, OwnLine, Phase};
use super::registry;
use crate::driver::ffi::{CUcontext, CUdevice};
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// How custack came to know a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// Created by this crate, and owned by a [`Context`](crate::context::Context).
    Created,
    /// A device's primary context, retained by a [`PrimaryContext`](crate::context::PrimaryContext).
    Primary,
    /// Made by other code. Its lifetime is that code's business: custack cannot know when it is destroyed.
    Foreign,
}

/// No device has this number.
const UNKNOWN: CUdevice = -1;

/// What is known of one context while the driver has it; afterwards the record serves another. It is never freed, so
/// that a handle may look at it at any time.
pub(super) struct Record {
    pub(super) life: Life,
    /// Its place in the table of all records, from 1; 0 for the two that stand for no context.
    number: u16,
    /// The driver's handle of the context that it serves now.
    raw: AtomicUsize,
    /// Which of all destroyed contexts it was, from 1; see [`deaths`].
    died: AtomicU64,
    /// The device whose primary context it is; [`UNKNOWN`] of a context that was created.
    primary_of: AtomicI32,
}

/// Stands behind handles of nothing and of what was never met alive.
static NONE: Record = Record::new(0);

impl Record {
    const fn new(number: u16) -> Record {
        Record {
            life: Life::of(AtomicU64::new(0), AtomicUsize::new(0)),
            number,
            raw: AtomicUsize::new(0),
            died: AtomicU64::new(0),
            primary_of: AtomicI32::new(UNKNOWN),
        }
    }

    pub(super) fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// The handle of the context that the record serves now, under an id that the caller has read from it.
    pub(super) fn handle(&'static self, id: u64) -> Handle {
        let primary_of = self.primary_of.load(Ordering::Relaxed);
        let origin = if primary_of == UNKNOWN { Origin::Created } else { Origin::Primary };
        Handle { record: self, id, raw: self.raw.load(Ordering::Relaxed), device: primary_of, origin }
    }

    /// Before the life ends, so that whoever sees it over sees the number.
    pub(super) fn count_death(&self) {
        self.died.store(DEATHS.0.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    }

    pub(super) fn died(&self) -> u64 {
        self.died.load(Ordering::SeqCst)
    }

    /// What is to be done at the driver to end the context: the device to release the primary context of, or `None` to
    /// destroy one that was created.
    pub(super) fn primary_of(&self) -> Option<CUdevice> {
        Some(self.primary_of.load(Ordering::Relaxed)).filter(|device| *device != UNKNOWN)
    }
}

/// All records by number, for memory, which keeps the number of its context in spare bits of its address.
static BY_NUMBER: [AtomicPtr<Record>; 1 << 16] = [const { AtomicPtr::new(ptr::null_mut()) }; 1 << 16];

/// Makes the record with this number; numbers beyond the table have records too, under number 0.
pub(super) fn make_record(number: usize) -> &'static Record {
    let number = u16::try_from(number).unwrap_or(0);
    let record: &'static Record = Box::leak(Box::new(Record::new(number)));
    if number != 0 {
        BY_NUMBER[usize::from(number)].store(ptr::from_ref(record).cast_mut(), Ordering::Release);
    }
    record
}

/// On a line of its own: scopes read it, and must not wait for those who write what happens to lie beside it.
static DEATHS: OwnLine<AtomicU64> = OwnLine(AtomicU64::new(0));

/// How many contexts have been destroyed.
#[inline]
pub(crate) fn deaths() -> u64 {
    DEATHS.0.load(Ordering::Relaxed)
}

/// A context as custack knows it: a record and an id, and what never changes beside them. The context is alive while
/// the record says so for this id. Plain data, so that a handle costs nothing to copy and nothing to drop.
#[derive(Clone, Copy)]
pub(crate) struct Handle {
    /// Not a reference: Rust 1.85 lets none to a static with atomics stand in a constant such as [`NONE`](Handle::NONE).
    record: *const Record,
    pub(super) id: u64,
    raw: usize,
    device: CUdevice,
    origin: Origin,
}

// SAFETY: the pointer stands for a `&'static Record`, and records are shared.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl PartialEq for Handle {
    #[inline]
    fn eq(&self, other: &Handle) -> bool {
        self.id == other.id && self.raw == other.raw
    }
}

impl Eq for Handle {}

impl Handle {
    /// Stands for no context.
    pub(crate) const NONE: Handle =
        Handle { record: &raw const NONE, id: NOBODY, raw: 0, device: UNKNOWN, origin: Origin::Foreign };

    /// A context that begins to live in this record.
    pub(super) fn begin(
        record: &'static Record,
        id: u64,
        raw: CUcontext,
        device: Option<CUdevice>,
        origin: Origin,
    ) -> Handle {
        record.raw.store(raw.addr(), Ordering::Relaxed);
        let device = device.unwrap_or(UNKNOWN);
        let primary_of = if origin == Origin::Primary { device } else { UNKNOWN };
        record.primary_of.store(primary_of, Ordering::Relaxed);
        record.life.begin(id);
        Handle { record, id, raw: raw.addr(), device, origin }
    }

    /// A context that was never met alive, and is destroyed.
    pub(super) fn dead(id: u64, raw: CUcontext) -> Handle {
        Handle { id, raw: raw.addr(), ..Handle::NONE }
    }

    /// The same living context, of which more is known now.
    pub(super) fn now_primary(self, device: CUdevice) -> Handle {
        self.record().primary_of.store(device, Ordering::Relaxed);
        Handle { device, origin: Origin::Primary, ..self }
    }

    #[inline]
    pub(super) fn record(&self) -> &'static Record {
        // SAFETY: made of a `&'static Record`, or of the address of a static.
        unsafe { &*self.record }
    }

    #[inline]
    pub(crate) fn is_alive(&self) -> bool {
        self.record().life.is_alive(self.id)
    }

    /// Whether the context is dead, and died when more contexts had than `since`.
    pub(crate) fn died_after(&self, since: u64) -> bool {
        if self.is_alive() {
            return false;
        }
        let died = self.record().died();
        // Read before this: so long as the record serves no later context, it is this one's.
        let died = if self.record().life.id() == self.id { died } else { registry::died(self.id) };
        died > since
    }

    pub(super) fn phase(&self) -> Phase {
        self.record().life.phase(self.id)
    }

    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        self.raw == 0
    }

    /// The driver's handle, good only while the context lives.
    #[inline]
    pub(crate) fn raw(&self) -> CUcontext {
        self.raw as CUcontext
    }

    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }

    pub(crate) fn device(&self) -> Option<CUdevice> {
        (self.device != UNKNOWN).then_some(self.device)
    }

    /// A number for the context, the same as long as the driver has it; 0 if it has none.
    #[inline]
    pub(crate) fn number(&self) -> u16 {
        self.record().number
    }

    /// The handle of the pinned context that has this number; nothing for 0.
    #[inline]
    pub(crate) fn numbered(number: u16) -> Handle {
        let at = BY_NUMBER[usize::from(number)].load(Ordering::Acquire);
        // SAFETY: records in the table are never freed.
        let record: Option<&'static Record> = unsafe { at.as_ref() };
        record.map_or(Handle::NONE, |record| record.handle(record.life.id()))
    }
}

impl fmt::Display for Handle {
    /// Such as `context 3 on device 0`, with what is special about it; `{:#}` leaves out whether it is destroyed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.write_str("no context");
        }
        match self.origin {
            Origin::Created => write!(f, "context {}", self.id)?,
            Origin::Primary => write!(f, "primary context {}", self.id)?,
            Origin::Foreign => write!(f, "foreign context {} ({:p})", self.id, self.raw())?,
        }
        if let Some(device) = self.device() {
            write!(f, " on device {device}")?;
        }
        if f.alternate() || self.is_alive() { Ok(()) } else { f.write_str(", destroyed") }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
