//! Elements as numbers.

use super::super::arith::half::{F16, Short};
use super::super::arith::round::Rounding;
use crate::sim::texture::{Bound, Channel, Sampler};

/// Reads elements of a texture.
pub(super) struct Texels<'a, F> {
    pub(super) bound: &'a Bound,
    pub(super) sampler: &'a Sampler,
    pub(super) load: F,
}

impl<E, F: FnMut(u64, usize) -> Result<u32, E>> Texels<'_, F> {
    /// The address of an element; `None` for one that linear memory does not have.
    fn address(&self, [x, y, slice]: [usize; 3]) -> u64 {
        let grid = &self.bound.grid;
        let at = slice * grid.pitch[1] + y * grid.pitch[0] + x * self.bound.element();
        grid.address.wrapping_add(at as u64)
    }

    /// The channels of an element, each as it is in memory; the border has none.
    fn raw(&mut self, at: [usize; 3]) -> Result<[u32; 4], E> {
        let (address, size) = (self.address(at), self.bound.channel.size());
        let mut found = [0; 4];
        for (channel, to) in found.iter_mut().enumerate().take(self.bound.channels) {
            *to = (self.load)(address + (channel * size) as u64, size)?;
        }
        Ok(found)
    }

    pub(super) fn floats(&mut self, at: Option<[usize; 3]>) -> Result<[f32; 4], E> {
        let mut found = match at {
            Some(at) => self.raw(at)?.map(|raw| float(self.bound.channel, raw)),
            None => self.border(),
        };
        if self.bound.grid.is_linear && at.is_none() {
            return Ok(found);
        }
        for (channel, to) in found.iter_mut().enumerate().skip(self.bound.channels) {
            *to = if channel == 3 { 1.0 } else { 0.0 };
        }
        Ok(found)
    }

    pub(super) fn integers(&mut self, at: Option<[usize; 3]>) -> Result<[u32; 4], E> {
        let mut found = match at {
            Some(at) => self.raw(at)?.map(|raw| integer(self.bound.channel, raw)),
            None => self.border().map(f32::to_bits),
        };
        if self.bound.grid.is_linear && at.is_none() {
            return Ok(found);
        }
        for (channel, to) in found.iter_mut().enumerate().skip(self.bound.channels) {
            *to = u32::from(channel == 3);
        }
        Ok(found)
    }

    fn border(&self) -> [f32; 4] {
        if self.bound.grid.is_linear { [0.0; 4] } else { self.sampler.border }
    }
}

/// A small integer is normalised.
fn float(channel: Channel, raw: u32) -> f32 {
    match channel {
        Channel::Float => f32::from_bits(raw),
        Channel::Half => F16::widen(raw as u16),
        Channel::Unsigned(1) => raw as f32 / 255.0,
        Channel::Unsigned(_) => raw as f32 / 65535.0,
        Channel::Signed(1) => (f32::from(raw as i8) / 127.0).max(-1.0),
        Channel::Signed(_) => (f32::from(raw as i16) / 32767.0).max(-1.0),
    }
}

fn integer(channel: Channel, raw: u32) -> u32 {
    match channel {
        Channel::Signed(1) => raw as i8 as u32,
        Channel::Signed(2) => raw as i16 as u32,
        _ => raw,
    }
}

/// What a formatted store writes for a register: integers are clamped to what the channel holds, and floats rounded.
pub(in super::super) fn store_converted(channel: Channel, value: u32) -> u32 {
    let signed = |low: i32, high: i32| (value as i32).clamp(low, high) as u32;
    match channel {
        Channel::Float | Channel::Unsigned(4) | Channel::Signed(4) => value,
        Channel::Half => F16::round(f32::from_bits(value).into(), Rounding::Nearest).into(),
        Channel::Unsigned(1) => value.min(0xff),
        Channel::Unsigned(_) => value.min(0xffff),
        Channel::Signed(1) => signed(-0x80, 0x7f),
        Channel::Signed(_) => signed(-0x8000, 0x7fff),
    }
}
