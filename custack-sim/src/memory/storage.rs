//! The bytes of an allocation, which any number of threads use at once, without a lock.

// Allocations are raw memory, because the program gets pointers to page-locked and managed memory.
#![allow(unsafe_code)]

use super::Shared;
use super::block::{Block, NoRoom, Owner, check_room, collected};
use super::words::{self, Word};
use std::mem::MaybeUninit;
use std::sync::{Arc, OnceLock};

/// The number of words that the threads of a warp read or write at once.
pub(crate) const ROW: usize = 32;

const PAGE: usize = 1 << 16;
/// Pages are in groups, because the list of all pages of a large allocation would be large itself.
const GROUP: usize = 1 << 10;
/// Larger device memory is stored in pages.
const MOST_WHOLE: usize = 1 << 24;

pub(super) struct Storage {
    size: usize,
    bytes: Bytes,
}

enum Bytes {
    Whole(Block),
    /// The program's own, at this address. It keeps them as long as they are registered or used, as CUDA asks.
    Programs(usize),
    /// In pages, allocated when written: a program may allocate more than a laptop has.
    Pages(Box<[OnceLock<Group>]>),
    /// Beginnings of others, one after the other.
    Parts(Vec<Part>),
}

/// The beginning of a storage as a part of another one.
pub(super) struct Part {
    at: usize,
    size: usize,
    storage: Arc<Storage>,
}

impl Part {
    pub(super) fn new(at: usize, size: usize, storage: Arc<Storage>) -> Part {
        Part { at, size, storage }
    }
}

/// The part that has this byte, or else the last one.
fn part_of(parts: &[Part], at: usize) -> &Part {
    &parts[parts.partition_point(|part| part.at <= at) - 1]
}

type Group = Box<[OnceLock<Block>]>;

/// A number of cells that are still empty.
fn unmade<T>(count: usize) -> Result<Box<[OnceLock<T>]>, NoRoom> {
    collected(count, (0..count).map(|_| OnceLock::new())).map(Vec::into_boxed_slice)
}

/// What is there, or else what this makes. Of threads that make it at once, one makes what stays.
fn made<T>(it: &OnceLock<T>, make: impl FnOnce() -> Result<T, NoRoom>) -> Result<&T, NoRoom> {
    if it.get().is_none() {
        let _ = it.set(make()?);
    }
    it.get().ok_or(NoRoom)
}

/// How many bytes there are from this one to the end of its page.
fn rest_of_page(at: usize) -> usize {
    PAGE - at % PAGE
}

impl Storage {
    /// Zeros; at an address that the host can use, if it is asked for. `None` if there is no room, or for no bytes.
    pub(super) fn new(size: usize, at_host_address: bool) -> Option<Storage> {
        let bytes = if !at_host_address && size > MOST_WHOLE {
            Bytes::Pages(unmade(size.div_ceil(PAGE * GROUP)).ok()?)
        } else {
            Bytes::Whole(Block::new(size)?)
        };
        Some(Storage { size, bytes })
    }

    /// Zeros at an address that the host can use, of which there may be more than it has.
    pub(super) fn managed(size: usize) -> Option<Storage> {
        if size <= MOST_WHOLE {
            return Storage::new(size, true);
        }
        Some(Storage { size, bytes: Bytes::Whole(Block::unreserved(size)?) })
    }

    fn is_unreserved(&self) -> bool {
        matches!(&self.bytes, Bytes::Whole(block) if block.is_unreserved())
    }

    /// Memory that other processes have, too.
    pub(super) fn of_processes(shared: Shared) -> Storage {
        let size = shared.size();
        let block = Block { start: shared.start(), owner: Owner::Processes(shared) };
        Storage { size, bytes: Bytes::Whole(block) }
    }

    /// What other processes find it by, if they may have it, too.
    pub(super) fn shared(&self) -> Option<&Shared> {
        match &self.bytes {
            Bytes::Whole(Block { owner: Owner::Processes(shared), .. }) => Some(shared),
            _ => None,
        }
    }

    /// Writes what is there to memory of the same size that has only zeros.
    pub(super) fn copy_to_zeros(&self, to: &Storage) -> Result<(), NoRoom> {
        let mut at = 0;
        while at < self.size {
            let count = self.contiguous(at);
            if self.find(at).is_some() {
                self.copy_to(at, (to, at), count)?;
            }
            at += count;
        }
        Ok(())
    }

    pub(super) fn of_program(start: usize, size: usize) -> Storage {
        Storage { size, bytes: Bytes::Programs(start) }
    }

    /// Parts that begin where the one before ends; the first one at 0. Each is aligned for any word.
    pub(super) fn of_parts(parts: Vec<Part>) -> Storage {
        Storage { size: parts.iter().map(|part| part.size).sum(), bytes: Bytes::Parts(parts) }
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// The address of the first byte on the host, if they are all in one place.
    pub(super) fn start(&self) -> Option<usize> {
        match &self.bytes {
            Bytes::Whole(Block { start, .. }) | Bytes::Programs(start) => Some(*start),
            Bytes::Pages(_) | Bytes::Parts(_) => None,
        }
    }

    #[inline]
    fn has(&self, at: usize, size: usize) -> bool {
        at <= self.size && size <= self.size - at
    }

    /// The address of the byte on the host; `None` if it is in a page that nothing has written, and so is zero.
    #[inline]
    fn find(&self, at: usize) -> Option<usize> {
        match &self.bytes {
            Bytes::Whole(Block { start, .. }) | Bytes::Programs(start) => Some(start + at),
            Bytes::Pages(groups) => {
                let (page, within) = (at / PAGE, at % PAGE);
                let page = groups[page / GROUP].get()?[page % GROUP].get()?;
                Some(page.start + within)
            }
            Bytes::Parts(parts) => {
                let part = part_of(parts, at);
                part.storage.find(at - part.at)
            }
        }
    }

    /// The same, with the page if it is not there yet.
    #[inline]
    fn make(&self, at: usize) -> Result<usize, NoRoom> {
        match self.find(at) {
            Some(place) => Ok(place),
            None => self.make_page(at),
        }
    }

    #[cold]
    fn make_page(&self, at: usize) -> Result<usize, NoRoom> {
        match &self.bytes {
            Bytes::Whole(Block { start, .. }) | Bytes::Programs(start) => Ok(start + at),
            Bytes::Pages(groups) => {
                let (page, within) = (at / PAGE, at % PAGE);
                let group = made(&groups[page / GROUP], || unmade(GROUP))?;
                let page = made(&group[page % GROUP], || Block::new(PAGE).ok_or(NoRoom))?;
                Ok(page.start + within)
            }
            Bytes::Parts(parts) => {
                let part = part_of(parts, at);
                part.storage.make(at - part.at)
            }
        }
    }

    /// How many bytes from this one on are beside each other on the host.
    fn contiguous(&self, at: usize) -> usize {
        match &self.bytes {
            Bytes::Pages(_) => rest_of_page(at).min(self.size - at),
            Bytes::Parts(parts) => {
                let part = part_of(parts, at);
                let within = at - part.at;
                part.storage.contiguous(within).min(part.size.saturating_sub(within))
            }
            _ => self.size - at,
        }
    }

    /// Panics unless these are words of this memory, in one place. A word that is aligned is in one page.
    #[inline]
    fn check<T: Word>(&self, at: usize, place: usize, count: usize) {
        let fits = self.has(at, T::SIZE * count) && place % T::SIZE == 0;
        assert!(fits, "{count} words of {} bytes at {at} of {}, at {place:#x}", T::SIZE, self.size);
    }

    #[inline]
    pub(super) fn load<T: Word>(&self, at: usize) -> T {
        assert!(self.has(at, T::SIZE), "{} bytes at {at} of {}", T::SIZE, self.size);
        let Some(place) = self.find(at) else { return T::default() };
        self.check::<T>(at, place, 1);
        // SAFETY: the word was just found to be aligned and within, and `self` keeps it allocated. Kernels and copies use
        // it by atomics too, as the other functions here do; the program must not use it beside them, as CUDA demands.
        unsafe { T::load(place) }
    }

    #[inline]
    pub(super) fn store<T: Word>(&self, at: usize, value: T) -> Result<(), NoRoom> {
        assert!(self.has(at, T::SIZE), "{} bytes at {at} of {}", T::SIZE, self.size);
        let place = self.make(at)?;
        self.check::<T>(at, place, 1);
        // SAFETY: as in `load`.
        unsafe { T::store(place, value) };
        Ok(())
    }

    #[inline]
    pub(super) fn update<T: Word>(&self, at: usize, f: impl FnMut(T) -> T) -> Result<T, NoRoom> {
        assert!(self.has(at, T::SIZE), "{} bytes at {at} of {}", T::SIZE, self.size);
        let place = self.make(at)?;
        self.check::<T>(at, place, 1);
        // SAFETY: as in `load`.
        Ok(unsafe { T::update(place, f) })
    }

    /// Whether a row of words from here on is in one place, aligned. Programs' memory is aligned as its address is.
    #[inline]
    fn has_row<T: Word>(&self, at: usize) -> bool {
        let aligned = match &self.bytes {
            Bytes::Whole(_) => at % T::SIZE == 0,
            Bytes::Programs(start) => (start + at) % T::SIZE == 0,
            Bytes::Pages(_) => at % T::SIZE == 0 && rest_of_page(at) >= ROW * T::SIZE,
            Bytes::Parts(parts) => {
                self.has(at, ROW * T::SIZE) && {
                    let part = part_of(parts, at);
                    let within = at - part.at;
                    part.size - within >= ROW * T::SIZE && part.storage.has_row::<T>(within)
                }
            }
        };
        aligned && self.has(at, ROW * T::SIZE)
    }

    #[inline]
    pub(super) fn load_row<T: Word>(&self, at: usize, into: &mut [T; ROW]) -> bool {
        if !self.has_row::<T>(at) {
            return false;
        }
        match self.find(at) {
            None => *into = [T::default(); ROW],
            Some(place) => {
                self.check::<T>(at, place, ROW);
                for (lane, value) in into.iter_mut().enumerate() {
                    // SAFETY: as in `load`: all of the row was checked, and is in one page.
                    *value = unsafe { T::load(place + lane * T::SIZE) };
                }
            }
        }
        true
    }

    #[inline]
    pub(super) fn store_row<T: Word>(&self, at: usize, from: &[T; ROW]) -> bool {
        if !self.has_row::<T>(at) {
            return false;
        }
        let Ok(place) = self.make(at) else { return false };
        self.check::<T>(at, place, ROW);
        for (lane, value) in from.iter().enumerate() {
            // SAFETY: as in `load_row`.
            unsafe { T::store(place + lane * T::SIZE, *value) };
        }
        true
    }

    fn check_bytes(&self, at: usize, size: usize) {
        assert!(self.has(at, size), "{size} bytes at {at} of {}", self.size);
    }

    /// Reads bytes, which are not `into` itself; unwritten ones are zero.
    pub(super) fn read(&self, at: usize, into: &mut [u8]) {
        let (start, count) = (into.as_mut_ptr().cast::<MaybeUninit<u8>>(), into.len());
        // SAFETY: the same bytes, and only initialized ones are written.
        self.read_into(at, unsafe { std::slice::from_raw_parts_mut(start, count) });
    }

    /// The same, into what may not be initialized yet.
    pub(super) fn read_into(&self, at: usize, into: &mut [MaybeUninit<u8>]) {
        self.check_bytes(at, into.len());
        let mut done = 0;
        while done < into.len() {
            let count = self.contiguous(at + done).min(into.len() - done);
            let piece = &mut into[done..done + count];
            match self.find(at + done) {
                // SAFETY: `count` bytes are contiguous from there on, and `self` keeps them allocated.
                Some(place) => unsafe { words::read(place, piece.as_mut_ptr().cast(), count) },
                None => piece.fill(MaybeUninit::new(0)),
            }
            done += count;
        }
    }

    /// How many of these bytes are in pages that a write makes; one from elsewhere does not where that is not written.
    pub(super) fn missing(&self, at: usize, size: usize, from: Option<(&Storage, usize)>) -> usize {
        let (mut done, mut missing) = (0, 0);
        while done < size {
            let here = from.map_or(usize::MAX, |(from, from_at)| from.contiguous(from_at + done));
            let count = self.contiguous(at + done).min(here).min(size - done);
            let writes = from.is_none_or(|(from, from_at)| from.find(from_at + done).is_some());
            if writes && (self.is_unreserved() || self.find(at + done).is_none()) {
                missing += count;
            }
            done += count;
        }
        missing
    }

    /// Writes bytes, which are not `from` itself.
    pub(super) fn write(&self, at: usize, from: &[u8]) -> Result<(), NoRoom> {
        self.check_bytes(at, from.len());
        check_room(self.missing(at, from.len(), None))?;
        self.write_pages(at, from)
    }

    fn write_pages(&self, at: usize, from: &[u8]) -> Result<(), NoRoom> {
        let mut done = 0;
        while done < from.len() {
            let count = self.contiguous(at + done).min(from.len() - done);
            let (place, piece) = (self.make(at + done)?, &from[done..done + count]);
            // SAFETY: as in `read_into`.
            unsafe { words::write(place, piece.as_ptr(), count) };
            done += count;
        }
        Ok(())
    }

    /// Copies bytes to others, which may be some of the same storage, but not the same bytes. What is not written makes no
    /// page.
    pub(super) fn copy_to(
        &self,
        at: usize,
        (to, to_at): (&Storage, usize),
        size: usize,
    ) -> Result<(), NoRoom> {
        self.check_bytes(at, size);
        to.check_bytes(to_at, size);
        check_room(to.missing(to_at, size, Some((self, at))))?;
        let mut done = 0;
        while done < size {
            let (here, there) = (at + done, to_at + done);
            let count = self.contiguous(here).min(to.contiguous(there)).min(size - done);
            match self.find(here) {
                // SAFETY: as in `read_into`, on both sides.
                Some(place) => unsafe { words::copy(place, to.make(there)?, count) },
                None => to.fill(there, &[0], count)?,
            }
            done += count;
        }
        Ok(())
    }

    /// Fills with a pattern, over and over. Zeros make no page.
    pub(super) fn fill(&self, at: usize, pattern: &[u8], size: usize) -> Result<(), NoRoom> {
        self.check_bytes(at, size);
        let block = pattern.repeat((size.min(PAGE) / pattern.len()).max(1) + 1);
        let zeros = pattern.iter().all(|byte| *byte == 0);
        if !zeros || self.is_unreserved() {
            check_room(self.missing(at, size, None))?;
        }
        let mut done = 0;
        while done < size {
            let from = &block[done % pattern.len()..];
            let count = self.contiguous(at + done).min(from.len()).min(size - done);
            if !zeros || self.find(at + done).is_some() {
                self.write_pages(at + done, &from[..count])?;
            }
            done += count;
        }
        Ok(())
    }
}
