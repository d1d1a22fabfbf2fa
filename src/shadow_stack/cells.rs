//! An entry in plain cells, which a scope reads and writes one by one.

use super::entry::{Entry, How};
use crate::liveness::Handle;
use std::cell::Cell;
use std::panic::Location;

/// An [`Entry`], a cell for each field.
pub(super) struct Cells {
    pub(super) context: Cell<Handle>,
    pub(super) location: Cell<&'static Location<'static>>,
    pub(super) serial: Cell<u64>,
    pub(super) guards: Cell<u32>,
    pub(super) how: Cell<How>,
    pub(super) ended_from: Cell<u64>,
    pub(super) looked_at: Cell<u64>,
    pub(super) was_dead: Cell<bool>,
    pub(super) look: Cell<bool>,
    pub(super) takes: Cell<bool>,
}

impl Cells {
    pub(super) const fn new() -> Cells {
        Cells {
            context: Cell::new(Handle::NONE),
            location: Cell::new(Location::caller()),
            serial: Cell::new(0),
            guards: Cell::new(0),
            how: Cell::new(How::Set),
            ended_from: Cell::new(0),
            looked_at: Cell::new(0),
            was_dead: Cell::new(false),
            look: Cell::new(false),
            takes: Cell::new(false),
        }
    }

    pub(super) fn get(&self) -> Entry {
        Entry {
            context: self.context.get(),
            how: self.how.get(),
            location: self.location.get(),
            guards: self.guards.get(),
            ended_from: self.ended_from.get(),
            looked_at: self.looked_at.get(),
            was_dead: self.was_dead.get(),
            look: self.look.get(),
            takes: self.takes.get(),
            serial: self.serial.get(),
        }
    }

    #[inline]
    pub(super) fn set(&self, entry: &Entry) {
        self.context.set(entry.context);
        self.how.set(entry.how);
        self.location.set(entry.location);
        self.guards.set(entry.guards);
        self.ended_from.set(entry.ended_from);
        self.looked_at.set(entry.looked_at);
        self.was_dead.set(entry.was_dead);
        self.look.set(entry.look);
        self.takes.set(entry.takes);
        self.serial.set(entry.serial);
    }
}
