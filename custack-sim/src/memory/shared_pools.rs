//! Pools whose memory other processes open: the pool by a descriptor, and pieces of it under a handle.

use super::allocation::{Allocation, Kind};
use super::mapped::DESCRIPTOR;
use super::pool::{Made, PIECE, Place, State};
use super::storage::Storage;
use super::{Memory, lock};
use crate::machine::*;
use crate::shared::{Bytes, Content, Part, Shared};
use std::io;

const KIND: [u8; 8] = *b"SIMPIECE";
const OWN_PLACE: Place = Place::Device(0);

impl Memory {
    /// Memory for a pool, which other processes can open if it was made for that.
    pub(super) fn chunk(made: Made, size: usize) -> Option<Allocation> {
        let shared = made.shared.then(|| Shared::new(Content::Memory, size).ok()).flatten();
        match shared {
            Some(shared) => Some(Allocation::shared(Kind::Pool, 0, Storage::of_processes(shared))),
            None => Allocation::new(Kind::Pool, 0, size),
        }
    }

    /// A descriptor of the pool; `None` if it was not made for that.
    fn pool_descriptor(&mut self, handle: usize) -> Option<io::Result<i32>> {
        let pool = self.pool(handle).filter(|pool| pool.made.shared && pool.opened.is_none())?;
        if pool.exported.is_none() {
            match Shared::new(Content::Pool, size_of::<u64>()) {
                Ok(shared) => pool.exported = Some(shared),
                Err(error) => return Some(Err(error)),
            }
        }
        pool.exported.as_ref().map(Shared::descriptor)
    }

    /// The piece of an exported pool that begins here.
    fn shared_piece(&mut self, address: u64) -> Option<Part> {
        let (start, piece, handle, _) = self.piece_at(address)?;
        let State::Used { asked, .. } = piece.state else { return None };
        self.pool(handle)?.exported.as_ref()?;
        let (chunk, found) = self.held.at(address)?;
        let of = found.storage.shared()?.name().ok()?;
        (start == address).then_some(Part { of, at: address - chunk, size: asked as u64 })
    }

    /// Where the pool has this memory already.
    fn open_piece(&mut self, handle: usize, part: &Part) -> Option<u64> {
        let pool = self.pool(handle)?;
        let used = |at: &u64| pool.pieces.get(at).is_some_and(|it| matches!(it.state, State::Used { .. }));
        pool.open.iter().find(|(at, open)| *open == part && used(at)).map(|(at, _)| *at)
    }

    /// Puts a piece of another pool into this one, whose memory it is as long as it is used. `None` without addresses.
    fn add_piece(&mut self, handle: usize, (part, shared): (Part, Shared), context: Handle) -> Option<u64> {
        let asked = shared.size();
        let size = (asked as u64).next_multiple_of(PIECE);
        let at = self.addresses.allocate(size as usize)?;
        let storage = Storage::of_processes(shared);
        self.held.insert(at, Allocation::shared(Kind::Pool, 0, storage));
        if let Some(pool) = self.pool(handle) {
            pool.add(at, size);
            pool.give(at, size, asked, context);
            pool.open.insert(at, part);
        }
        self.comes_to_be(at, asked);
        Some(at)
    }
}

impl Machine {
    pub(super) fn export_pool(&mut self, has_out: bool, pool: usize, kind: u32, flags: u64) -> Answer<i32> {
        self.may_wait()?;
        self.check_pool(pool)?;
        let asked = has_out && kind == DESCRIPTOR && flags == 0;
        let found = asked.then(|| lock().pool_descriptor(pool)).flatten();
        match found {
            Some(Ok(descriptor)) => Ok(descriptor),
            Some(Err(why)) => self.refuse(NOT_SUPPORTED, format_args!("to share a pool: {why}")),
            None => {
                let why = format!(
                    "a handle of type {kind} of a pool not made for such, flags {flags:#x}, or NULL for it"
                );
                self.refuse(INVALID_VALUE, why)
            }
        }
    }

    pub(super) fn import_pool(&mut self, descriptor: i32, kind: u32, flags: u64) -> Answer<usize> {
        self.ready()?;
        if kind != DESCRIPTOR || flags != 0 {
            let why = format!("to open a pool by a handle of type {kind}, with flags {flags:#x}");
            return self.refuse(INVALID_VALUE, why);
        }
        let found = Shared::of_descriptor(Content::Pool, descriptor).and_then(|shared| shared.name());
        // Whatever number it has here.
        let name = match found {
            Ok(name) => name.of_file(),
            Err(why) => {
                return self
                    .refuse(UNKNOWN, format_args!("the descriptor {descriptor} is not of a pool: {why}"));
            }
        };
        if let Some(pool) = lock().opened_pool(&name) {
            return Ok(pool);
        }
        let made = Made { place: OWN_PLACE, managed: false, shared: true, most: 0 };
        let mut memory = lock();
        let handle = memory.create_pool(made);
        if let Some(pool) = memory.pool(handle) {
            pool.opened = Some(name);
        }
        Ok(handle)
    }

    pub(super) fn export_piece(&mut self, has_out: bool, address: u64) -> Answer<Bytes> {
        self.ready()?;
        self.may_wait()?;
        let found = has_out.then(|| lock().shared_piece(address)).flatten();
        match found {
            Some(part) => Ok(part.to_bytes(KIND)),
            None => {
                let why = format!("no memory of a pool that was exported begins at {address:#x}, or NULL");
                self.refuse(INVALID_VALUE, why)
            }
        }
    }

    pub(super) fn import_piece(&mut self, has_out: bool, pool: usize, data: &Bytes) -> Answer<u64> {
        self.check_pool(pool)?;
        let is_opened = lock().pool(pool).is_some_and(|pool| pool.opened.is_some());
        let part = Part::from_bytes(KIND, data).filter(|_| has_out && is_opened);
        let Some(part) = part else {
            return self
                .refuse(INVALID_VALUE, "not memory of a pool, for a pool that was not opened, or NULL");
        };
        if let Some(address) = lock().open_piece(pool, &part) {
            return Ok(address);
        }
        let shared = match Shared::open_part(&part) {
            Ok(shared) => shared,
            Err(why) => {
                let why = format!("process {} does not have the memory: {why}", part.of.process);
                return self.refuse(INVALID_VALUE, why);
            }
        };
        let context = self.top()?;
        let added = lock().add_piece(pool, (part, shared), context);
        match added {
            Some(address) => Ok(address),
            None => self.refuse(OUT_OF_MEMORY, format_args!("there are no {} addresses left", part.size)),
        }
    }
}
