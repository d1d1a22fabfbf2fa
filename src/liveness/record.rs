//! Records and handles: what custack knows about a context, and the plain value that stands for it.

// Follows the table of records, which are never freed.
#![allow(unsafe_code)]

use super::life::{Holder, Life, NO_ID, OwnLine, Phase};
use crate::driver::ffi::{CUcontext, CUdevice};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// Where a context came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// Created by this crate, and owned by a [`Context`](crate::context::Context).
    Created,
    /// A device's primary context, retained by a [`PrimaryContext`](crate::context::PrimaryContext).
    Primary,
    /// A [green](crate::context::GreenContext) context, created by this crate.
    Green,
    /// Made by other code, which also decides its lifetime: custack cannot know when it is destroyed.
    Foreign,
}

/// No device has this number.
const UNKNOWN: CUdevice = -1;

/// The kind of a green context.
const GREEN: CUdevice = -2;

/// What custack knows about a context while the driver has it; afterwards the record serves another. Records are never
/// freed, so a handle may read its record at any time.
pub(super) struct Record {
    pub(super) life: Life,
    /// Its index in the table of all records, from 1; 0 for the record of [`Handle::NONE`] and those beyond the table.
    number: u16,
    /// The raw handle of the context that it serves now.
    raw: AtomicUsize,
    /// The thread that has this context on its stack, if it is a green one.
    pub(super) holder: Holder,
    /// What kind of context it is, and on which device, in one number: see [`kind`].
    kind: AtomicI32,
}

/// The record of null handles, and of handles to contexts that were destroyed before custack saw them.
static NONE: Record = Record::new(0);

impl Record {
    const fn new(number: u16) -> Record {
        Record {
            life: Life::of(AtomicU64::new(0), AtomicUsize::new(0)),
            number,
            raw: AtomicUsize::new(0),
            holder: Holder::of(AtomicU64::new(0)),
            kind: AtomicI32::new(UNKNOWN),
        }
    }

    pub(super) fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// The handle of the context that the record serves now, whose id the caller has read from it.
    pub(super) fn handle(&'static self, id: u64) -> Handle {
        let (origin, device) = of_kind(self.kind.load(Ordering::Relaxed));
        Handle {
            record: NonNull::from(self),
            id,
            raw: self.raw.load(Ordering::Relaxed),
            device,
            origin: origin as u32,
        }
    }

    /// How to end the context at the driver: release the primary context of this device, or destroy a context that was
    /// created, or a green one.
    pub(super) fn origin(&self) -> (Origin, CUdevice) {
        of_kind(self.kind.load(Ordering::Relaxed))
    }
}

/// The number of a kind of context: that of the device of a primary context, from 0; [`GREEN`], or [`UNKNOWN`] for a context
/// that was created. The device of these two is not asked here.
fn kind(origin: Origin, device: CUdevice) -> CUdevice {
    match origin {
        Origin::Primary => device,
        Origin::Green => GREEN,
        Origin::Created | Origin::Foreign => UNKNOWN,
    }
}

fn of_kind(kind: CUdevice) -> (Origin, CUdevice) {
    match kind {
        UNKNOWN => (Origin::Created, UNKNOWN),
        GREEN => (Origin::Green, UNKNOWN),
        device => (Origin::Primary, device),
    }
}

/// Numbers are below this; those from here on are for what else memory remembers in the same bits.
pub(crate) const NUMBERS: u16 = 1 << 15;

/// How many contexts have a number at most: 0 is none.
pub(crate) const MOST_NUMBERED: u16 = NUMBERS - 1;

/// All records by number: memory keeps the number of its context in the spare bits of its address.
static BY_NUMBER: [AtomicPtr<Record>; NUMBERS as usize] =
    [const { AtomicPtr::new(ptr::null_mut()) }; NUMBERS as usize];

/// Makes the record with this number; records beyond the table get number 0.
pub(super) fn make_record(number: usize) -> &'static Record {
    let number = u16::try_from(number).ok().filter(|number| *number < NUMBERS).unwrap_or(0);
    let record: &'static Record = Box::leak(Box::new(Record::new(number)));
    if number != 0 {
        BY_NUMBER[usize::from(number)].store(ptr::from_ref(record).cast_mut(), Ordering::Release);
    }
    record
}

/// On a cache line of its own: scopes read it and must not wait for writes to a neighbour.
static DEATHS: OwnLine<AtomicU64> = OwnLine(AtomicU64::new(0));

/// How many contexts have died. A death is counted after the life has ended: a thread that finds the number unchanged has
/// seen every death that was over when it looked.
#[inline]
pub(crate) fn deaths() -> u64 {
    DEATHS.0.load(Ordering::Relaxed)
}

pub(super) fn count_death() {
    DEATHS.0.fetch_add(1, Ordering::SeqCst);
}

/// A handle to a context: a record, an id, and what never changes. The context is alive while the record says so for
/// this id. Handles are plain data, so copying and dropping one costs nothing.
#[derive(Clone, Copy)]
pub(crate) struct Handle {
    /// Not a reference: Rust 1.85 allows no reference to a static with atomics in a constant such as
    /// [`NONE`](Handle::NONE).
    record: NonNull<Record>,
    pub(super) id: u64,
    raw: usize,
    device: CUdevice,
    /// Not the enum, whose spare values would serve enclosing options and results as their tags: those are then copied in
    /// small pieces, and the next read of a pair of them waits for both. That was a twentieth of memory in stream order.
    origin: u32,
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
    /// The null handle.
    pub(crate) const NONE: Handle = {
        // SAFETY: a static is not at address 0.
        let record = unsafe { NonNull::new_unchecked((&raw const NONE).cast_mut()) };
        Handle { record, id: NO_ID, raw: 0, device: UNKNOWN, origin: Origin::Foreign as u32 }
    };

    /// Begins the life of a context in this record.
    pub(super) fn begin(
        record: &'static Record,
        id: u64,
        raw: CUcontext,
        device: Option<CUdevice>,
        origin: Origin,
    ) -> Handle {
        record.raw.store(raw.addr(), Ordering::Relaxed);
        let device = device.unwrap_or(UNKNOWN);
        record.kind.store(kind(origin, device), Ordering::Relaxed);
        record.holder.begin();
        record.life.begin(id);
        Handle { record: NonNull::from(record), id, raw: raw.addr(), device, origin: origin as u32 }
    }

    /// A context that was destroyed before custack saw it.
    pub(super) fn dead(id: u64, raw: CUcontext) -> Handle {
        Handle { id, raw: raw.addr(), ..Handle::NONE }
    }

    /// The same living context, now known to be the primary context of this device.
    pub(super) fn now_primary(self, device: CUdevice) -> Handle {
        self.record().kind.store(kind(Origin::Primary, device), Ordering::Relaxed);
        Handle { device, origin: Origin::Primary as u32, ..self }
    }

    #[inline]
    pub(super) fn record(&self) -> &'static Record {
        // SAFETY: made from a `&'static Record` or from the address of a static.
        unsafe { self.record.as_ref() }
    }

    #[inline]
    pub(crate) fn is_alive(&self) -> bool {
        self.record().life.is_alive(self.id)
    }

    /// Whether the driver no longer has the context.
    #[inline]
    pub(crate) fn is_dead(&self) -> bool {
        self.record().life.is_dead(self.id)
    }

    pub(super) fn phase(&self) -> Phase {
        self.record().life.phase(self.id)
    }

    /// Like [`phase`](Self::phase), after the moment in which a thread claims the context.
    #[inline]
    pub(super) fn settled_phase(&self) -> Phase {
        self.record().life.settled_phase(self.id)
    }

    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        self.raw == 0
    }

    /// The raw handle, valid only while the context lives.
    #[inline]
    pub(crate) fn raw(&self) -> CUcontext {
        self.raw as CUcontext
    }

    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn origin(&self) -> Origin {
        // As declared.
        match self.origin {
            0 => Origin::Created,
            1 => Origin::Primary,
            2 => Origin::Green,
            _ => Origin::Foreign,
        }
    }

    pub(crate) fn device(&self) -> Option<CUdevice> {
        (self.device != UNKNOWN).then_some(self.device)
    }

    /// A number for the context, valid as long as the driver has it; 0 if it has none.
    #[inline]
    pub(crate) fn number(&self) -> u16 {
        self.record().number
    }

    /// The handle of the pinned context that has this number; the null handle for 0.
    #[inline]
    pub(crate) fn numbered(number: u16) -> Handle {
        let Some(at) = BY_NUMBER.get(usize::from(number)) else { return Handle::NONE };
        let at = at.load(Ordering::Acquire);
        // SAFETY: records in the table are never freed.
        let record: Option<&'static Record> = unsafe { at.as_ref() };
        record.map_or(Handle::NONE, |record| record.handle(record.life.id()))
    }
}

impl fmt::Display for Handle {
    /// For example `context 3 on device 0`, plus what is special about it; `{:#}` omits whether it is destroyed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.write_str("no context");
        }
        match self.origin() {
            Origin::Created => write!(f, "context {}", self.id)?,
            Origin::Primary => write!(f, "primary context {}", self.id)?,
            Origin::Green => write!(f, "green context {}", self.id)?,
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
