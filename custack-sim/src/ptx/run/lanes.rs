//! What an instruction works on: the lanes of a warp that execute it, their registers, and all state spaces.

use super::super::{Space, types::Class};
use super::fault::{Access, Fault, Thread};
use super::local::Local;
use super::registers::{ALL, Reg, Registers, WARP, are_few, each};
use super::shared::Others;
use super::{LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW, unfold};
use crate::machine::Handle;
use crate::memory::{Region, View, Word};

pub(in super::super) struct Lanes<'a> {
    pub(in super::super) registers: &'a mut Registers,
    /// The lanes that execute the instruction.
    pub(in super::super) mask: u32,
    pub(super) shared: &'a mut [u8],
    pub(super) others: Others<'a>,
    pub(super) local: &'a mut Local,
    /// Where the frame of the present function begins in local memory.
    pub(in super::super) frame: usize,
    pub(super) parameters: &'a [u8],
    pub(super) view: &'a View,
    /// The context, by which textures and surfaces are found.
    pub(super) context: Handle,
    /// The region that the last access was in, where the next one is likely to be.
    pub(super) region: Option<&'a Region>,
    /// The number in the block of the first lane's thread.
    pub(super) first: u32,
    pub(super) block: [u32; 3],
    pub(super) ctaid: [u32; 3],
}

/// Values that are stored as bytes in shared, local and parameter memory.
pub(in super::super) trait Bytes: Word {
    fn of(bytes: &[u8]) -> Self;
    fn put(self, into: &mut [u8]);
}

macro_rules! bytes {
    ($($ty:ty)*) => {
        $(impl Bytes for $ty {
            #[inline]
            fn of(bytes: &[u8]) -> $ty {
                bytes.try_into().map_or(0, <$ty>::from_le_bytes)
            }

            #[inline]
            fn put(self, into: &mut [u8]) {
                into.copy_from_slice(&self.to_le_bytes());
            }
        })*
    };
}

bytes!(u8 u16 u32 u64 u128);

/// The lanes of a mask.
#[inline]
pub(in super::super) fn lanes_of(mask: u32) -> impl Iterator<Item = usize> {
    let mut left = mask;
    std::iter::from_fn(move || {
        let lane = left.trailing_zeros();
        left &= left.wrapping_sub(1);
        (lane < 32).then_some(lane as usize)
    })
}

/// Whether the addresses are those of consecutive values of this size, lane by lane.
#[inline]
fn are_in_a_row(addresses: &[u64; WARP], size: usize) -> bool {
    let mut differ = 0;
    for lane in 0..WARP {
        differ |= addresses[lane] ^ addresses[0].wrapping_add((lane * size) as u64);
    }
    differ == 0
}

impl<'a> Lanes<'a> {
    #[inline]
    pub(in super::super) fn get<V: super::registers::Lane>(&self, from: Reg) -> [V; WARP] {
        self.registers.get(from)
    }

    /// The value of a register in one lane.
    #[inline]
    pub(in super::super) fn one<V: super::registers::Lane>(&self, from: Reg, lane: usize) -> V {
        V::one(self.registers, from.at, lane)
    }

    /// Sets a register in one lane.
    #[inline]
    pub(in super::super) fn put<V: super::registers::Lane>(&mut self, to: Reg, lane: usize, value: V) {
        value.put(self.registers, to.at, lane);
    }

    /// Sets the register in the lanes that execute the instruction.
    #[inline]
    pub(in super::super) fn set<V: super::registers::Lane>(&mut self, to: Reg, values: &[V; WARP]) {
        self.registers.set(to, values, self.mask);
    }

    /// The sum of a register and an offset, in each lane.
    #[inline]
    pub(in super::super) fn addresses(&self, base: Reg, offset: i64) -> [u64; WARP] {
        if are_few(self.mask) {
            let mut addresses = [0; WARP];
            for lane in lanes_of(self.mask) {
                addresses[lane] = match base.class {
                    Class::B64 => self.one::<u64>(base, lane).wrapping_add_signed(offset),
                    _ => self.one::<u32>(base, lane).wrapping_add(offset as u32).into(),
                };
            }
            return addresses;
        }
        match base.class {
            Class::B64 => {
                let base = self.get::<u64>(base);
                each(|lane| base[lane].wrapping_add_signed(offset))
            }
            _ => {
                let base = self.get::<u32>(base);
                each(|lane| u64::from(base[lane].wrapping_add(offset as u32)))
            }
        }
    }

    #[cold]
    pub(super) fn thread(&self, lane: usize) -> Thread {
        Thread { tid: unfold((self.first + lane as u32).into(), self.block), ctaid: self.ctaid }
    }

    /// Refuses an address that is not a multiple of the size.
    #[inline]
    pub(in super::super) fn check_aligned(
        &self,
        lane: usize,
        address: u64,
        size: usize,
    ) -> Result<(), Fault> {
        if address % size as u64 == 0 { Ok(()) } else { Err(self.thread(lane).misaligned(address, size)) }
    }

    /// The region of global memory that contains these bytes.
    #[inline]
    fn region(
        &mut self,
        lane: usize,
        address: u64,
        size: usize,
        access: Access,
    ) -> Result<&'a Region, Fault> {
        if address % size as u64 != 0 {
            return Err(self.thread(lane).misaligned(address, size));
        }
        if let Some(region) = self.region.filter(|region| region.contains(address, size)) {
            return Ok(region);
        }
        let found = self.view.find(address, size).map_err(|why| self.thread(lane).illegal(access, &why))?;
        self.region = Some(found);
        Ok(found)
    }

    #[inline]
    pub(in super::super) fn load_global<T: Word>(
        &mut self,
        addresses: &[u64; WARP],
    ) -> Result<[T; WARP], Fault> {
        let (mut values, size) = ([T::default(); WARP], size_of::<T>());
        if self.mask == ALL && are_in_a_row(addresses, size) {
            let region = self.region(0, addresses[0], size, Access::Read)?;
            if region.contains(addresses[0], WARP * size) && region.load_row(addresses[0], &mut values) {
                return Ok(values);
            }
        }
        for lane in lanes_of(self.mask) {
            values[lane] = self.region(lane, addresses[lane], size, Access::Read)?.load(addresses[lane]);
        }
        Ok(values)
    }

    #[inline]
    pub(in super::super) fn store_global<T: Word>(
        &mut self,
        addresses: &[u64; WARP],
        values: &[T; WARP],
    ) -> Result<(), Fault> {
        let size = size_of::<T>();
        if self.mask == ALL && are_in_a_row(addresses, size) {
            let region = self.region(0, addresses[0], size, Access::Write)?;
            if region.contains(addresses[0], WARP * size) && region.store_row(addresses[0], values) {
                return Ok(());
            }
        }
        for lane in lanes_of(self.mask) {
            let region = self.region(lane, addresses[lane], size, Access::Write)?;
            region.store(addresses[lane], values[lane]).map_err(|_| self.thread(lane).no_room())?;
        }
        Ok(())
    }

    /// Replaces a value in global memory in one indivisible step.
    pub(in super::super) fn update_global<T: Word>(
        &mut self,
        lane: usize,
        address: u64,
        f: impl FnMut(T) -> T,
    ) -> Result<T, Fault> {
        let region = self.region(lane, address, size_of::<T>(), Access::Write)?;
        region.update(address, f).map_err(|_| self.thread(lane).no_room())
    }

    /// The state space that an address is in, and its offset there; a generic address may be in any.
    #[inline]
    pub(in super::super) fn resolve(space: Space, address: u64) -> (Space, u64) {
        if space != Space::Generic {
            return (space, address);
        }
        for (window, space) in
            [(SHARED_WINDOW, Space::Cluster), (LOCAL_WINDOW, Space::Local), (PARAM_WINDOW, Space::Param)]
        {
            if address.wrapping_sub(window) < WINDOW {
                return (space, address - window);
            }
        }
        (Space::Global, address)
    }

    /// Whether all these generic addresses are in global memory.
    #[inline]
    pub(in super::super) fn are_global(&self, addresses: &[u64; WARP]) -> bool {
        let mut within = false;
        for address in addresses {
            within |= address.wrapping_sub(SHARED_WINDOW) < 3 * WINDOW;
        }
        !within
    }

    /// Reads a value for one lane, from any state space.
    pub(in super::super) fn load_one(
        &mut self,
        lane: usize,
        space: Space,
        address: u64,
        size: usize,
    ) -> Result<u128, Fault> {
        let (space, at) = Lanes::resolve(space, address);
        match space {
            Space::Shared | Space::Cluster => {
                let bytes = self.in_space(space, lane, at, size, Access::Read)?;
                Ok(u128::from_le_bytes(std::array::from_fn(|byte| bytes.get(byte).copied().unwrap_or(0))))
            }
            Space::Local => {
                let at = self.in_local(lane, at, size, Access::Read)?;
                Ok(self.local.load(lane, at, size))
            }
            Space::Param => {
                if at % size as u64 != 0 {
                    return Err(self.thread(lane).misaligned(at, size));
                }
                let found = usize::try_from(at).ok().and_then(|at| self.parameters.get(at..at + size));
                let Some(bytes) = found else {
                    let length = self.parameters.len();
                    return Err(self.thread(lane).beyond(Access::Read, space, at, size, length));
                };
                Ok(u128::from_le_bytes(std::array::from_fn(|byte| bytes.get(byte).copied().unwrap_or(0))))
            }
            _ => {
                let region = self.region(lane, at, size, Access::Read)?;
                Ok(match size {
                    1 => region.load::<u8>(at).into(),
                    2 => region.load::<u16>(at).into(),
                    4 => region.load::<u32>(at).into(),
                    8 => region.load::<u64>(at).into(),
                    _ => region.load::<u128>(at),
                })
            }
        }
    }

    pub(in super::super) fn store_one(
        &mut self,
        lane: usize,
        space: Space,
        address: u64,
        size: usize,
        value: u128,
    ) -> Result<(), Fault> {
        let (space, at) = Lanes::resolve(space, address);
        match space {
            Space::Shared | Space::Cluster => {
                let into = self.in_space(space, lane, at, size, Access::Write)?;
                into.copy_from_slice(&value.to_le_bytes()[..size]);
            }
            Space::Local => {
                let at = self.in_local(lane, at, size, Access::Write)?;
                self.local.store(lane, at, size, value);
            }
            Space::Param => {
                let why = format!("{size} bytes at {at:#x} of its parameters, which are constant");
                return Err(self.thread(lane).illegal(Access::Write, &why));
            }
            _ => {
                let region = self.region(lane, at, size, Access::Write)?;
                let stored = match size {
                    1 => region.store(at, value as u8),
                    2 => region.store(at, value as u16),
                    4 => region.store(at, value as u32),
                    8 => region.store(at, value as u64),
                    _ => region.store(at, value),
                };
                stored.map_err(|_| self.thread(lane).no_room())?;
            }
        }
        Ok(())
    }

    fn in_local(&self, lane: usize, at: u64, size: usize, access: Access) -> Result<usize, Fault> {
        if at % size as u64 != 0 {
            return Err(self.thread(lane).misaligned(at, size));
        }
        if self.local.contains(at, size) {
            return Ok(at as usize);
        }
        Err(self.thread(lane).beyond(access, Space::Local, at, size, self.local.size()))
    }
}
