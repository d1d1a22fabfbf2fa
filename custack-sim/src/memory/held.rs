//! What is allocated, by address, and the view of it that kernels get.

use super::addresses::GRANULE;
use super::allocation::{Allocation, Kind};
use super::storage::Storage;
use super::view::{Region, View};
use crate::machine::Handle;
use crate::texture::Bound;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

#[derive(Default)]
pub(super) struct Held {
    by_address: BTreeMap<u64, Allocation>,
    /// How many bytes all that takes of the device's memory.
    used: usize,
    /// What is there of the memory of pools: where it begins, and its length.
    there: BTreeMap<u64, usize>,
    /// Textures and surfaces, and their contexts.
    bound: Arc<Bindings>,
    /// Made for the first launch after a change.
    view: Option<View>,
}

/// By handle.
pub(super) type Bindings = BTreeMap<u64, (Handle, Bound)>;

impl Deref for Held {
    type Target = BTreeMap<u64, Allocation>;

    fn deref(&self) -> &BTreeMap<u64, Allocation> {
        &self.by_address
    }
}

impl Held {
    pub(super) fn used(&self) -> usize {
        self.used
    }

    pub(super) fn insert(&mut self, address: u64, allocation: Allocation) {
        self.remove(address);
        self.used += allocation.counted();
        self.by_address.insert(address, allocation);
    }

    pub(super) fn remove(&mut self, address: u64) -> Option<Allocation> {
        self.view = None;
        let gone = self.by_address.remove(&address)?;
        self.used -= gone.counted();
        Some(gone)
    }

    /// Puts the contents of the allocation that begins here elsewhere; false if something uses them now.
    pub(super) fn moved(
        &mut self,
        start: u64,
        to: impl FnOnce(&Storage) -> std::io::Result<Storage>,
    ) -> std::io::Result<bool> {
        let Some(found) = self.by_address.get_mut(&start) else { return Ok(false) };
        if found.storage.shared().is_some() {
            return Ok(true);
        }
        self.view = None;
        let Some(storage) = Arc::get_mut(&mut found.storage) else { return Ok(false) };
        *storage = to(storage)?;
        Ok(true)
    }

    pub(super) fn set_flags(&mut self, address: u64, flags: u32) {
        if let Some(found) = self.by_address.get_mut(&address) {
            found.flags = flags;
        }
    }

    pub(super) fn bind(&mut self, handle: u64, context: Handle, bound: Bound) {
        self.view = None;
        Arc::make_mut(&mut self.bound).insert(handle, (context, bound));
    }

    pub(super) fn unbind(&mut self, handle: u64) {
        self.view = None;
        Arc::make_mut(&mut self.bound).remove(&handle);
    }

    /// Forgets those of the contexts for which this is true.
    pub(super) fn unbind_if(&mut self, of: impl Fn(Handle) -> bool) {
        if self.bound.values().any(|(context, _)| of(*context)) {
            self.view = None;
            Arc::make_mut(&mut self.bound).retain(|_, (context, _)| !of(*context));
        }
    }

    /// A stream has got to the allocation of these bytes of a pool.
    pub(super) fn comes_to_be(&mut self, at: u64, asked: usize) {
        self.view = None;
        self.there.insert(at, asked);
    }

    /// A stream has got to the free.
    pub(super) fn ceases_to_be(&mut self, at: u64) {
        self.view = None;
        self.there.remove(&at);
    }

    /// The last allocation that begins at the address or before.
    fn below(&self, address: u64) -> Option<(u64, &Allocation)> {
        self.by_address.range(..=address).next_back().map(|(start, found)| (*start, found))
    }

    /// The allocation that has this address.
    pub(super) fn at(&self, address: u64) -> Option<(u64, &Allocation)> {
        self.below(address).filter(|(start, found)| address - start < found.size as u64)
    }

    /// The allocation that contains all these bytes, and their offset in it; else what is wrong.
    pub(super) fn find(&self, address: u64, size: usize) -> Result<(&Allocation, usize), String> {
        let there = self.there.range(..=address).next_back().map(|(at, asked)| (*at, *asked));
        let below = self.below(address);
        check((address, size), below.map(|(start, found)| Extent::of(start, found)), there)?;
        let (start, found) = below.ok_or_else(|| nowhere(address, size))?;
        Ok((found, (address - start) as usize))
    }

    /// The view without the device memory of these contexts.
    pub(super) fn view(&mut self, closed: &BTreeMap<Handle, usize>) -> View {
        let view = self.whole_view();
        let closed_at = |(start, found): (&u64, &Allocation)| {
            let is_devices = matches!(found.kind, Kind::Device | Kind::Variable | Kind::Graph);
            let device = closed.get(&found.context).filter(|_| is_devices)?;
            Some((*start, found.size as u64, *device))
        };
        if closed.is_empty() {
            view
        } else {
            view.without(self.by_address.iter().filter_map(closed_at).collect())
        }
    }

    fn whole_view(&mut self) -> View {
        if let Some(view) = &self.view {
            return view.clone();
        }
        let own = self.by_address.iter().filter(|(_, found)| found.kind != Kind::Pool);
        let own = own.map(|(start, it)| Region::new(*start, it.size, *start, Arc::clone(&it.storage)));
        let of_pools = self.there.iter().filter_map(|(at, asked)| {
            let (start, chunk) = self.at(*at)?;
            Some(Region::new(*at, *asked, start, Arc::clone(&chunk.storage)))
        });
        let extents = self.by_address.iter().map(|(start, found)| Extent::of(*start, found));
        let view = View::new(own.chain(of_pools).collect(), extents.collect(), Arc::clone(&self.bound));
        self.view.insert(view).clone()
    }
}

/// What the sentences on a wrong address say of an allocation.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    pub(super) start: u64,
    size: usize,
    pooled: bool,
}

impl Extent {
    fn of(start: u64, found: &Allocation) -> Extent {
        Extent { start, size: found.size, pooled: found.kind == Kind::Pool }
    }
}

/// Whether work may touch these bytes, now that its stream is there; given the last allocation and the last memory of a
/// pool that begin at the address or before.
pub(super) fn check(
    (address, size): (u64, usize),
    below: Option<Extent>,
    there: Option<(u64, usize)>,
) -> Result<(), String> {
    let Some(found) = below else { return Err(nowhere(address, size)) };
    let at = address - found.start;
    if found.pooled && at < found.size as u64 {
        return match there {
            // Past the end of what was asked for is more likely meant than what other memory of the pool has next.
            Some((at, asked)) if address - at < asked as u64 + GRANULE => within((address, size), at, asked),
            _ => Err(format!(
                "{size} bytes at {address:#x} of a pool, where no memory is now: it is past the end of some, or its stream \
                 has not allocated it yet, or has freed it"
            )),
        };
    }
    if at >= found.size as u64 + GRANULE {
        return Err(nowhere(address, size));
    }
    within((address, size), found.start, found.size)
}

fn nowhere(address: u64, size: usize) -> String {
    format!("{size} bytes at {address:#x}, where nothing is allocated")
}

pub(super) fn within((address, size): (u64, usize), start: u64, have: usize) -> Result<(), String> {
    let at = (address - start) as usize;
    if at.checked_add(size).is_some_and(|end| end <= have) {
        return Ok(());
    }
    Err(format!("{size} bytes at {at} of an allocation of {have} bytes at {start:#x}"))
}
