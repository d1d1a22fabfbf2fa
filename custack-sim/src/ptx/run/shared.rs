//! Shared memory: that of the block, and that of the other blocks of its cluster.
//!
//! The upper bits of an address are the rank of its block in the cluster, and the lower bits the offset, as on the
//! device. A block without a cluster has rank 0.

use super::super::Space;
use super::WINDOW;
use super::fault::{Access, Fault, LAUNCH_FAILED};
use super::lanes::{Bytes, Lanes, lanes_of};
use super::registers::{ALL, WARP};

/// The distance between the shared memory of two consecutive ranks, in addresses.
const PART: u64 = 1 << 24;
/// The number of ranks for which the window of generic addresses has room. No cluster has as many blocks.
const MOST_RANKS: u32 = (WINDOW / PART) as u32;

/// The address in the cluster's shared memory of an offset in that of one block.
pub(super) fn address_of(rank: u32, offset: u64) -> u64 {
    PART * u64::from(rank) + offset
}

/// The rank of the block whose shared memory has this address, which may be a generic one.
pub(in super::super) fn rank_of(address: u64) -> u32 {
    (address % WINDOW / PART) as u32
}

/// The address in the shared memory of the block of this rank that has the same offset as another address, which may
/// be generic.
pub(in super::super) fn in_rank(address: u64, rank: u32) -> u64 {
    address - address % WINDOW + address_of(rank % MOST_RANKS, address % PART)
}

/// The place of a block in its cluster.
#[derive(Debug, Default, Clone, Copy)]
pub(in super::super) struct Place {
    pub(in super::super) rank: u32,
    /// The number of blocks of the cluster.
    pub(super) blocks: u32,
    /// The blocks of the cluster that have ended, as bits.
    pub(super) ended: u32,
}

impl Place {
    fn base(self) -> u64 {
        address_of(self.rank, 0)
    }

    /// Splits the cluster's shared memory into the block's own and that of the other blocks.
    #[inline]
    pub(super) fn split(self, shared: &mut [u8]) -> (&mut [u8], Others<'_>) {
        if self.blocks <= 1 {
            return (shared, Others { place: self, before: &mut [], behind: &mut [] });
        }
        let each = shared.len() / self.blocks as usize;
        let (before, rest) = shared.split_at_mut(each * self.rank as usize);
        let (own, behind) = rest.split_at_mut(each);
        (own, Others { place: self, before, behind })
    }
}

/// The shared memory of the other blocks of the cluster: of the lower ranks, and of the higher ranks.
pub(in super::super) struct Others<'a> {
    pub(in super::super) place: Place,
    before: &'a mut [u8],
    behind: &'a mut [u8],
}

impl Lanes<'_> {
    /// Whether an address in the cluster's shared memory is in the block's own.
    pub(in super::super) fn is_own(&self, address: u64) -> bool {
        self.others.place.blocks <= 1 || rank_of(address) == self.others.place.rank
    }

    /// The bytes in the shared memory of a block of the cluster that a lane accesses.
    #[inline]
    pub(super) fn in_space(
        &mut self,
        space: Space,
        lane: usize,
        at: u64,
        size: usize,
        access: Access,
    ) -> Result<&mut [u8], Fault> {
        if space == Space::Shared || self.is_own(at) {
            return self.in_shared(lane, at, size, access);
        }
        self.in_other(lane, at, size, access)
    }

    fn in_other(&mut self, lane: usize, at: u64, size: usize, access: Access) -> Result<&mut [u8], Fault> {
        let (rank, offset, length) = (rank_of(at), (at % PART) as usize, self.shared.len());
        let Place { rank: own, blocks, ended } = self.others.place;
        if at % size as u64 != 0 {
            return Err(self.thread(lane).misaligned(at, size));
        }
        if rank >= blocks || offset >= length || length - offset < size {
            let shown = if rank >= blocks { at } else { offset as u64 };
            return Err(self.thread(lane).beyond(access, Space::Shared, shown, size, length));
        }
        if ended >> rank & 1 != 0 {
            let why = format!("shared memory of block {rank} of its cluster, which has ended");
            return Err(Fault { status: LAUNCH_FAILED, ..self.thread(lane).illegal(access, &why) });
        }
        let (memory, from) = match rank.checked_sub(own + 1) {
            None => (&mut *self.others.before, rank as usize * length),
            Some(behind) => (&mut *self.others.behind, behind as usize * length),
        };
        Ok(&mut memory[from + offset..from + offset + size])
    }

    /// The bytes in the block's own shared memory that a lane accesses. The address has the block's rank or none.
    #[inline]
    fn in_shared(&mut self, lane: usize, at: u64, size: usize, access: Access) -> Result<&mut [u8], Fault> {
        let (length, base) = (self.shared.len(), self.others.place.base());
        let at = if at ^ base < PART { at ^ base } else { at };
        if at % size as u64 != 0 {
            return Err(self.thread(lane).misaligned(at, size));
        }
        if at as usize >= length || length - (at as usize) < size {
            return Err(self.thread(lane).beyond(access, Space::Shared, at, size, length));
        }
        Ok(&mut self.shared[at as usize..at as usize + size])
    }

    /// Whether all lanes' addresses are in shared memory, and aligned.
    #[inline]
    fn fit_shared(&self, addresses: &[u64; WARP], size: usize) -> bool {
        let (mut all, mut most) = (0, 0);
        for address in addresses {
            all |= address;
            most = most.max(*address);
        }
        all % size as u64 == 0
            && most <= (self.shared.len() as u64).wrapping_sub(size as u64)
            && self.shared.len() >= size
    }

    #[inline]
    pub(in super::super) fn load_shared<T: Bytes>(
        &mut self,
        addresses: &[u64; WARP],
    ) -> Result<[T; WARP], Fault> {
        let mut values = [T::default(); WARP];
        if self.mask == ALL && self.fit_shared(addresses, size_of::<T>()) {
            for lane in 0..WARP {
                let at = addresses[lane] as usize;
                values[lane] = T::of(&self.shared[at..at + size_of::<T>()]);
            }
            return Ok(values);
        }
        for lane in lanes_of(self.mask) {
            values[lane] = T::of(self.in_shared(lane, addresses[lane], size_of::<T>(), Access::Read)?);
        }
        Ok(values)
    }

    #[inline]
    pub(in super::super) fn store_shared<T: Bytes>(
        &mut self,
        addresses: &[u64; WARP],
        values: &[T; WARP],
    ) -> Result<(), Fault> {
        if self.mask == ALL && self.fit_shared(addresses, size_of::<T>()) {
            for lane in 0..WARP {
                let at = addresses[lane] as usize;
                values[lane].put(&mut self.shared[at..at + size_of::<T>()]);
            }
            return Ok(());
        }
        for lane in lanes_of(self.mask) {
            let into = self.in_shared(lane, addresses[lane], size_of::<T>(), Access::Write)?;
            values[lane].put(into);
        }
        Ok(())
    }
}
