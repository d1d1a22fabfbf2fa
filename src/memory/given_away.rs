//! Memory that was given away as an address, and what is needed to free it: [`cuda_free`](super::cuda_free) and the
//! constructors from raw parts find its [`Allocation`] here.

use super::allocation::{Allocation, Kind};
use crate::context::UnownedContext;
use crate::driver::{read, write};
use std::mem;
use std::sync::RwLock;

struct Given {
    address: u64,
    size: usize,
    allocation: Allocation,
}

/// In the order of the addresses. Of a `BTreeMap` the code alone would be a twentieth of this crate's, and programs give
/// few pieces away.
static GIVEN: RwLock<Vec<Given>> = RwLock::new(Vec::new());

/// The index of what begins at this address, or where it would be inserted.
#[inline]
fn find(all: &[Given], address: u64) -> Result<usize, usize> {
    all.binary_search_by_key(&address, |given| given.address)
}

/// Gives the memory away and returns its address.
#[inline]
pub(super) fn give(allocation: Allocation, size: usize) -> u64 {
    let address = allocation.address();
    if allocation.is_spent() {
        return address;
    }
    let given = Given { address, size, allocation };
    let mut all = write(&GIVEN);
    match find(&all, address) {
        // That was freed by other code: the driver has reused the address.
        Ok(at) => mem::forget(mem::replace(&mut all[at], given)),
        Err(at) => all.insert(at, given),
    }
    address
}

/// Takes the memory back, with its size; `None` if custack did not give it away.
#[inline]
pub(super) fn take(address: u64) -> Option<(usize, Allocation)> {
    let mut all = write(&GIVEN);
    let given = find(&all, address).ok().map(|at| all.remove(at))?;
    Some((given.size, given.allocation))
}

/// The owner of the memory at this address: taken back if it was given away, else foreign.
#[inline]
pub(super) fn owned(kind: Kind, address: u64) -> Allocation {
    take(address).map_or_else(|| Allocation::foreign(kind, address), |(_, allocation)| allocation)
}

/// The context of the memory that was given away and contains this address; a null handle if there is none.
#[inline]
pub(super) fn context_at(address: u64) -> UnownedContext {
    let all = read(&GIVEN);
    let below = find(&all, address).or_else(|at| at.checked_sub(1).ok_or(at));
    let found = below.ok().map(|at| &all[at]).filter(|given| address - given.address < given.size as u64);
    found.map_or_else(UnownedContext::none, |given| given.allocation.context().clone())
}
