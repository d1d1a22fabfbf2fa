//! Which context each allocation is of: the way from an address, which is all that a slice knows, to the context in
//! which a copy is made.

use crate::context::{Pin, UnownedContext};
use lazy_static::lazy_static;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

struct Allocation {
    size: usize,
    context: UnownedContext,
    /// What host references are given out to keeps its context.
    pin: Option<Pin>,
}

lazy_static! {
    static ref ALLOCATIONS: RwLock<BTreeMap<u64, Allocation>> = RwLock::new(BTreeMap::new());
}

/// Takes note of an allocation; one that was at the same address is gone, with its context.
pub(super) fn note(address: u64, size: usize, context: &UnownedContext, pin: Option<Pin>) {
    let allocation = Allocation { size, context: context.clone(), pin };
    let mut all = ALLOCATIONS.write().unwrap_or_else(PoisonError::into_inner);
    let before = all.insert(address, allocation);
    drop(all);
    // Its pin, if it had one, calls the driver; not under the lock.
    drop(before);
}

/// Forgets the allocation of this context, and gives what pinned it.
pub(super) fn forget(address: u64, context: &UnownedContext) -> Option<Pin> {
    let mut all = ALLOCATIONS.write().unwrap_or_else(PoisonError::into_inner);
    all.get(&address).filter(|found| found.context == *context)?;
    all.remove(&address).and_then(|found| found.pin)
}

/// Gives up an allocation that a destructor could not free: nobody has a reference into it any more, and its context
/// takes it along.
pub(super) fn abandon(address: u64, context: &UnownedContext) {
    drop(forget(address, context));
}

/// The context of the allocation that has this address; a null handle for memory that custack did not allocate.
pub(super) fn context_at(address: u64) -> UnownedContext {
    let all = ALLOCATIONS.read().unwrap_or_else(PoisonError::into_inner);
    let below = all.range(..=address).next_back();
    let found = below.filter(|(start, found)| address - **start < found.size as u64);
    found.map_or_else(UnownedContext::none, |(_, found)| found.context.clone())
}
