//! All pools, and how calls and the work of streams change them.

use super::Memory;
use super::held::within;
use super::order::{Freed, StreamKey};
use super::pool::{CHUNK, Made, PIECE, Piece, Place, Pool, State};
use crate::machine::Handle;
use crate::shared::Name;
use crate::stream::Moment;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The handle of the first pool; those of the others are as many steps behind it as their numbers say.
const FIRST_HANDLE: usize = 0x5349_5000_0000;
const HANDLE_STEP: usize = 0x40;
/// Default pools come first: those of devices, those of managed memory at devices, and those of the other places.
const MOST_DEVICES: usize = 64;
const OF_HOST: usize = 2 * MOST_DEVICES;
const MANAGED_AT_HOST: usize = OF_HOST + 1;
const MANAGED_ANYWHERE: usize = OF_HOST + 2;
const OF_NODE: usize = OF_HOST + 3;
const MANAGED_AT_NODE: usize = OF_HOST + 4;
const DEFAULTS: usize = OF_HOST + 5;

#[derive(Default)]
pub(super) struct Pools {
    by_handle: BTreeMap<usize, Pool>,
    /// Which pool stands for a default one, by the default one's handle.
    current: BTreeMap<usize, usize>,
    made: usize,
}

/// What the default pool of this number is made as.
fn made_as(number: usize) -> Option<Made> {
    let (place, managed) = match number {
        0..MOST_DEVICES => (Place::Device(number), false),
        MOST_DEVICES..OF_HOST => (Place::Device(number - MOST_DEVICES), true),
        OF_HOST => (Place::Host, false),
        MANAGED_AT_HOST => (Place::Host, true),
        MANAGED_ANYWHERE => (Place::Anywhere, true),
        OF_NODE => (Place::Node, false),
        MANAGED_AT_NODE => (Place::Node, true),
        _ => return None,
    };
    Some(Made { place, managed, shared: false, most: 0 })
}

/// The default pool of memory of a kind at a place.
pub(super) fn default_at(place: Place, managed: bool) -> usize {
    let number = match (place, managed) {
        (Place::Device(device), false) => device,
        (Place::Device(device), true) => MOST_DEVICES + device,
        (Place::Host, false) => OF_HOST,
        (Place::Host, true) => MANAGED_AT_HOST,
        (Place::Anywhere, _) => MANAGED_ANYWHERE,
        (Place::Node, false) => OF_NODE,
        (Place::Node, true) => MANAGED_AT_NODE,
    };
    FIRST_HANDLE + number * HANDLE_STEP
}

impl Memory {
    pub(super) fn pool(&mut self, handle: usize) -> Option<&mut Pool> {
        let made = made_as(handle.wrapping_sub(FIRST_HANDLE) / HANDLE_STEP);
        if let Some(made) = made.filter(|made| handle == default_at(made.place, made.managed)) {
            self.pools.by_handle.entry(handle).or_insert_with(|| Pool::new(made));
        }
        self.pools.by_handle.get_mut(&handle).filter(|pool| !pool.destroyed)
    }

    pub(super) fn is_default(&mut self, handle: usize) -> bool {
        self.pool(handle).is_some() && is_default(handle)
    }

    /// Whether this was a pool's handle; the driver remembers those, and dereferences any other value.
    pub(super) fn was_pool(&self, handle: usize) -> bool {
        let number = handle.wrapping_sub(FIRST_HANDLE) / HANDLE_STEP;
        handle >= FIRST_HANDLE && handle % HANDLE_STEP == 0 && number <= DEFAULTS + self.pools.made
    }

    pub(super) fn create_pool(&mut self, made: Made) -> usize {
        self.pools.made += 1;
        let handle = FIRST_HANDLE + (DEFAULTS + self.pools.made) * HANDLE_STEP;
        self.pools.by_handle.insert(handle, Pool::new(made));
        handle
    }

    /// Destroys a pool: its handle is invalid at once, and it is removed with the last of its memory.
    pub(super) fn destroy_pool(&mut self, handle: usize) {
        if let Some(pool) = self.pools.by_handle.get_mut(&handle) {
            pool.destroyed = true;
        }
        self.pools.current.retain(|_, current| *current != handle);
        self.after_wait();
    }

    pub(crate) fn current_pool(&self, device: usize) -> usize {
        self.current_at(Place::Device(device), false)
    }

    pub(super) fn current_at(&self, place: Place, managed: bool) -> usize {
        let default = default_at(place, managed);
        self.pools.current.get(&default).copied().unwrap_or(default)
    }

    /// Accepts the pools of the device. One of managed memory is not what other memory is allocated from.
    pub(crate) fn set_current_pool(&mut self, device: usize, handle: usize) -> bool {
        let managed = self.pool(handle).is_some_and(|pool| pool.made.managed);
        self.set_current_at(Place::Device(device), managed, handle)
    }

    /// Accepts the pools of memory of this kind at the place.
    pub(super) fn set_current_at(&mut self, place: Place, managed: bool, handle: usize) -> bool {
        let Some(pool) = self.pool(handle).filter(|pool| pool.opened.is_none()) else { return false };
        let fits = (pool.made.place, pool.made.managed) == (place, managed);
        if fits {
            self.pools.current.insert(default_at(place, managed), handle);
        }
        fits
    }

    /// Pools that the program has made and not destroyed.
    pub(crate) fn count_pools(&self) -> usize {
        let own = |(handle, pool): &(&usize, &Pool)| !is_default(**handle) && pool.opened.is_none();
        self.pools.by_handle.iter().filter(own).filter(|(_, pool)| !pool.destroyed).count()
    }

    /// An address in the pool and what the stream has to wait for before it uses it, or why there is none.
    pub(super) fn allocate_in(
        &mut self,
        handle: usize,
        asked: usize,
        context: Handle,
        stream: StreamKey,
    ) -> Result<(u64, Vec<Arc<Moment>>), String> {
        let size = (asked as u64).checked_next_multiple_of(PIECE).unwrap_or(u64::MAX);
        let order = self.order.of(stream);
        let Some(pool) = self.pool(handle) else { return Err("there is no such pool".to_owned()) };
        let own = |freed: &[Freed]| freed.iter().all(|freed| freed.stream == stream);
        let after = |freed: &[Freed]| freed.iter().all(|freed| order.is_after(freed));
        let came = |freed: &[Freed]| freed.iter().all(|freed| freed.moment.time().is_some());
        let [events, opportunistic, internal] = pool.reuse.map(|on| on != 0);
        let found = pool
            .find(size, own)
            .or_else(|| pool.find(size, after).filter(|_| events))
            .or_else(|| pool.find(size, came).filter(|_| opportunistic))
            .or_else(|| pool.find(size, |_| true).filter(|_| internal));
        let (at, waits) = match found {
            Some(found) => found,
            None => (self.grow(handle, size)?, Vec::new()),
        };
        if let Some(pool) = self.pool(handle) {
            pool.give(at, size, asked, context);
        }
        Ok((at, waits))
    }

    /// Adds a chunk, as large as needed; returns its address.
    fn grow(&mut self, handle: usize, size: u64) -> Result<u64, String> {
        let none = || Err(format!("there are no {size} bytes left"));
        let Some(chunk) = size.checked_next_multiple_of(CHUNK) else { return none() };
        let Some(pool) = self.pool(handle) else { return none() };
        let (made, most) = (pool.made, pool.made.most);
        if most != 0 && pool.reserved + chunk > most.next_multiple_of(CHUNK) {
            return Err(format!(
                "{size} bytes of a pool that is limited to {} and has reserved {}",
                most.next_multiple_of(CHUNK),
                pool.reserved
            ));
        }
        if !self.has_room(chunk) {
            return none();
        }
        let Some(allocation) = Memory::chunk(made, chunk as usize) else { return none() };
        let Some(at) = self.addresses.allocate(chunk as usize) else { return none() };
        self.held.insert(at, allocation);
        if let Some(pool) = self.pool(handle) {
            pool.add(at, chunk);
        }
        Ok(at)
    }

    /// The stream has got to the allocation.
    pub(super) fn comes_to_be(&mut self, at: u64, asked: usize) {
        self.held.comes_to_be(at, asked);
    }

    /// The stream has got to the free.
    pub(super) fn ceases_to_be(&mut self, at: u64) {
        self.held.ceases_to_be(at);
    }

    /// The context that the memory of a pool at this address was allocated in, if it is used.
    pub(super) fn user_of(&self, at: u64) -> Option<Handle> {
        self.pools.by_handle.values().find_map(|pool| match pool.pieces.get(&at)?.state {
            State::Used { context, .. } => Some(context),
            State::Free(_) => None,
        })
    }

    /// Frees memory of a pool: for the stream at once, for all when this has come.
    pub(super) fn free_in(&mut self, at: u64, freed: Option<Freed>) {
        let pools = self.pools.by_handle.values_mut();
        let of = |pool: &&mut Pool| {
            pool.pieces.get(&at).is_some_and(|piece| matches!(piece.state, State::Used { .. }))
        };
        if let Some(pool) = pools.into_iter().find(of) {
            pool.take(at, freed);
        }
    }

    /// Frees memory of a pool, which nothing uses any more.
    pub(super) fn free_at_once(&mut self, at: u64) {
        self.ceases_to_be(at);
        self.free_in(at, None);
    }

    /// The program has waited for something: unused memory beyond the thresholds goes back to the device.
    pub(crate) fn after_wait(&mut self) {
        self.release_beyond(|pool| if pool.destroyed { 0 } else { pool.threshold });
        self.pools.by_handle.retain(|_, pool| !pool.destroyed || pool.reserved > 0);
    }

    /// Gives all unused memory of all pools back, because the device has no other left.
    pub(super) fn release_unused(&mut self) {
        self.release_beyond(|_| 0);
    }

    fn release_beyond(&mut self, keep: impl Fn(&Pool) -> u64) {
        let mut gone = Vec::new();
        for pool in self.pools.by_handle.values_mut() {
            pool.settle();
            gone.append(&mut pool.release(keep(pool)));
        }
        self.give_back(gone);
    }

    pub(super) fn trim_pool(&mut self, handle: usize, keep: u64) {
        let gone = self.pool(handle).map_or(Vec::new(), |pool| pool.release(keep));
        self.give_back(gone);
    }

    fn give_back(&mut self, gone: Vec<(u64, u64)>) {
        for (at, size) in gone {
            self.held.remove(at);
            self.addresses.release(at, size as usize);
        }
    }

    /// How many pieces of pools the program has and has not freed.
    pub(super) fn count_pieces(&self) -> usize {
        let pieces = self.pools.by_handle.values().flat_map(|pool| pool.pieces.values());
        pieces.filter(|piece| matches!(piece.state, State::Used { .. })).count()
    }

    /// The pool that was opened under this name, if it is not destroyed.
    pub(super) fn opened_pool(&self, name: &Name) -> Option<usize> {
        let mut pools = self.pools.by_handle.iter();
        pools.find(|(_, pool)| pool.opened == Some(*name) && !pool.destroyed).map(|(handle, _)| *handle)
    }

    fn piece_of(&self, address: u64) -> Option<(u64, &Piece, usize, &Pool)> {
        self.pools.by_handle.iter().find_map(|(handle, pool)| {
            let (at, piece) = pool.pieces.range(..=address).next_back()?;
            (address - at < piece.size).then_some((*at, piece, *handle, pool))
        })
    }

    /// The piece of a pool that has this address, where it begins, and the pool and what it was made as.
    pub(super) fn piece_at(&self, address: u64) -> Option<(u64, &Piece, usize, Made)> {
        self.piece_of(address).map(|(at, piece, handle, pool)| (at, piece, handle, pool.made))
    }

    pub(super) fn pool_at(&self, address: u64) -> Option<&Pool> {
        self.piece_of(address).map(|(.., pool)| pool)
    }

    /// Whether a call may name these bytes of a pool's chunk.
    pub(super) fn check_used(&self, address: u64, size: usize) -> Result<(), String> {
        let found = self.piece_of(address);
        match found.map(|(at, piece, _, pool)| (at, piece, pool)) {
            Some((at, _, pool)) if !pool.is_reached() => Err(format!(
                "{size} bytes at {address:#x} of a pool at {at:#x}, to which no device has access"
            )),
            Some((at, Piece { state: State::Used { asked, .. }, .. }, _)) => {
                within((address, size), at, *asked)
            }
            Some((at, ..)) => Err(format!(
                "{size} bytes at {address:#x}, and what a pool had at {at:#x} was freed in a stream"
            )),
            None => Err(format!("{size} bytes at {address:#x}, where nothing is allocated")),
        }
    }
}

/// Whether a pool's handle is that of one that a device has from the beginning.
pub(super) fn is_default(handle: usize) -> bool {
    handle < FIRST_HANDLE + DEFAULTS * HANDLE_STEP
}

pub(crate) fn default_pool(device: usize) -> usize {
    default_at(Place::Device(device), false)
}
