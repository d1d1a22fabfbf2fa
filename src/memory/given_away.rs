//! Memory that was given away as an address, and what is needed to free it: [`cuda_free`](super::cuda_free) and the
//! constructors from raw parts find its [`Allocation`] here.

use super::allocation::{Allocation, Kind};
use crate::context::UnownedContext;
use lazy_static::lazy_static;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

lazy_static! {
    /// By address, with the size of each.
    static ref GIVEN: RwLock<BTreeMap<u64, (usize, Allocation)>> = RwLock::new(BTreeMap::new());
}

/// Gives the memory away and returns its address.
pub(super) fn give(allocation: Allocation, size: usize) -> u64 {
    let address = allocation.address();
    if allocation.is_spent() {
        return address;
    }
    let mut all = GIVEN.write().unwrap_or_else(PoisonError::into_inner);
    let before = all.insert(address, (size, allocation));
    drop(all);
    // An earlier allocation at this address was freed by other code: the driver has reused the address.
    before.into_iter().for_each(|(_, gone)| std::mem::forget(gone));
    address
}

/// Takes the memory back, with its size; `None` if custack did not give it away.
pub(super) fn take(address: u64) -> Option<(usize, Allocation)> {
    GIVEN.write().unwrap_or_else(PoisonError::into_inner).remove(&address)
}

/// The owner of the memory at this address: taken back if it was given away, else foreign.
pub(super) fn owned(kind: Kind, address: u64) -> Allocation {
    take(address).map_or_else(|| Allocation::foreign(kind, address), |(_, allocation)| allocation)
}

/// The context of the memory that was given away and contains this address; a null handle if there is none.
pub(super) fn context_at(address: u64) -> UnownedContext {
    let all = GIVEN.read().unwrap_or_else(PoisonError::into_inner);
    let below = all.range(..=address).next_back();
    let found = below.filter(|(start, (size, _))| address - **start < *size as u64);
    found.map_or_else(UnownedContext::none, |(_, (_, allocation))| allocation.context().clone())
}
