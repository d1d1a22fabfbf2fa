//! Shared memory: the block's own, and that of the other blocks of its cluster.
//!
//! An address has the rank of its block above the offset in it, as on the device, where a block that is alone has rank 0.

use super::super::Space;
use super::WINDOW;
use super::fault::{Access, Fault, LAUNCH_FAILED};
use super::lanes::{Bytes, Lanes, lanes_of};
use super::registers::{ALL, WARP};

/// The addresses of each block of a cluster are so far from those of the block before it.
const PART: u64 = 1 << 24;
/// The window of generic addresses has room for so many blocks, which are more than any cluster has.
const MOST_RANKS: u32 = (WINDOW / PART) as u32;

/// Where an offset in the shared memory of a block is in that of its cluster.
pub(super) fn address_of(rank: u32, offset: u64) -> u64 {
    PART * u64::from(rank) + offset
}

/// The rank of the block whose shared memory has this address, which may be a generic one.
pub(in super::super) fn rank_of(address: u64) -> u32 {
    (address % WINDOW / PART) as u32
}

/// The address at which the block of this rank has what a block has at another one, which may be generic.
pub(in super::super) fn in_rank(address: u64, rank: u32) -> u64 {
    address - address % WINDOW + address_of(rank % MOST_RANKS, address % PART)
}

/// The place of a block in its cluster.
#[derive(Debug, Default, Clone, Copy)]
pub(in super::super) struct Place {
    pub(in super::super) rank: u32,
    /// How many blocks the cluster has.
    pub(super) blocks: u32,
    /// Those of them that have ended, as bits.
    pub(super) ended: u32,
}

impl Place {
    fn base(self) -> u64 {
        address_of(self.rank, 0)
    }

    /// The part of the cluster's shared memory that is the block's, and those of the others.
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

/// The shared memory of the blocks of the cluster that come before a block and behind it.
pub(in super::super) struct Others<'a> {
    pub(in super::super) place: Place,
    before: &'a mut [u8],
    behind: &'a mut [u8],
}

impl Lanes<'_> {
    /// Whether an address of the cluster's shared memory is one of the block's own.
    pub(in super::super) fn is_own(&self, address: u64) -> bool {
        self.others.place.blocks <= 1 || rank_of(address) == self.others.place.rank
    }

    /// The part of the shared memory of a block of the cluster that a lane uses.
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

    /// The part of the block's own shared memory that a lane uses. An address has the block's rank or none.
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
