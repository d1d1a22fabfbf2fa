//! Atomic operations: the lanes perform them one after the other, each in one indivisible step.

use super::super::Space;
use super::fault::Fault;
use super::lanes::{Bytes, Lanes, lanes_of};
use super::registers::WARP;

impl Lanes<'_> {
    /// Replaces the value at each lane's address by the result of `f`, and returns the old values.
    pub(in super::super) fn update<T: Bytes>(
        &mut self,
        space: Space,
        addresses: &[u64; WARP],
        f: impl Fn(usize, T) -> T,
    ) -> Result<[T; WARP], Fault> {
        let mut old = [T::default(); WARP];
        for lane in lanes_of(self.mask) {
            let (space, at) = Lanes::resolve(space, addresses[lane]);
            if space == Space::Global {
                old[lane] = self.update_global(lane, at, |value| f(lane, value))?;
                continue;
            }
            let size = size_of::<T>();
            let before = T::of(&self.load_one(lane, space, at, size)?.to_le_bytes()[..size]);
            let mut bytes = [0; 16];
            f(lane, before).put(&mut bytes[..size]);
            self.store_one(lane, space, at, size, u128::from_le_bytes(bytes))?;
            old[lane] = before;
        }
        Ok(old)
    }
}
