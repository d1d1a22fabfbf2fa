//! The elements of textures as numbers.

use super::super::arith::half::{F16, Short};
use super::super::arith::round::Rounding;
use crate::texture::{Bound, Channel, Sampler};

/// What is read at a coordinate.
#[derive(Debug, Clone, Copy)]
pub(super) enum Found {
    /// The element in this column, row and slice.
    Element([usize; 3]),
    Border,
    Nothing,
}

/// Reads elements of a texture.
pub(super) struct Texels<'a, F> {
    pub(super) bound: &'a Bound,
    pub(super) sampler: &'a Sampler,
    pub(super) load: F,
}

impl<E, F: FnMut(u64, usize) -> Result<u32, E>> Texels<'_, F> {
    /// The channels of an element as they are in memory. Channels that the element does not have are 0.
    pub(super) fn raw(&mut self, at: Found) -> Result<[u32; 4], E> {
        let mut found = [0; 4];
        let Bound { grid, channel, channels, .. } = *self.bound;
        let [x, y, slice] = match at {
            Found::Element(at) => at,
            Found::Border => {
                let border = self.sampler.border;
                let convert = |border: f32| as_element(channel, self.sampler.as_integer, border);
                found.iter_mut().zip(border).take(channels).for_each(|(to, from)| *to = convert(from));
                return Ok(found);
            }
            Found::Nothing => return Ok(found),
        };
        let offset = slice * grid.pitch[1] + y * grid.pitch[0] + x * self.bound.element();
        let (address, size) = (grid.address.wrapping_add(offset as u64), channel.size());
        for (at, to) in found.iter_mut().enumerate().take(channels) {
            *to = (self.load)(address + (at * size) as u64, size)?;
        }
        Ok(found)
    }

    /// The result of a read without filtering.
    pub(super) fn read(&mut self, at: Found) -> Result<[u32; 4], E> {
        let (channel, as_integer) = (self.bound.channel, self.sampler.as_integer);
        let bits = |raw| if as_integer { integer(channel, raw) } else { float(channel, raw).to_bits() };
        Ok(self.raw(at)?.map(bits))
    }

    /// The same of an element that is gathered: a NaN is the one that the device makes, and normalised integers of 8 bits with
    /// a sign are as exact as filtered ones.
    pub(super) fn gathered(&mut self, at: Found) -> Result<[u32; 4], E> {
        let (channel, as_integer) = (self.bound.channel, self.sampler.as_integer);
        if matches!(channel, Channel::Float | Channel::Half) {
            let one = |bits: u32| if f32::from_bits(bits).is_nan() { 0x7fff_ffff } else { bits };
            return Ok(self.read(at)?.map(one));
        }
        if channel != Channel::Signed(1) || as_integer {
            return self.read(at);
        }
        Ok(self.raw(at)?.map(|raw| filtered(channel, as_integer, filterable(channel, raw))))
    }
}

/// The border colour as a value of the element's type: an unsigned one is truncated, and a signed one rounded.
fn as_element(channel: Channel, as_integer: bool, border: f32) -> u32 {
    match channel {
        Channel::Float => border.to_bits(),
        Channel::Half => F16::round(border.into(), Rounding::Zero).into(),
        Channel::Unsigned(size) if as_integer => border.to_bits() & (u32::MAX >> (32 - 8 * size)),
        Channel::Signed(_) if as_integer => border.to_bits(),
        Channel::Unsigned(size) => (border.clamp(0.0, 1.0) * most(size, false)) as u32,
        Channel::Signed(size) => (border.clamp(-1.0, 1.0) * most(size, true)).round() as i32 as u32,
    }
}

/// The integer that a normalised channel maps to 1.
fn most(size: usize, signed: bool) -> f32 {
    match (size, signed) {
        (1, false) => 255.0,
        (1, true) => 127.0,
        (_, false) => 65535.0,
        (_, true) => 32767.0,
    }
}

/// The channel as a float; integers of 8 and 16 bits are normalised.
fn float(channel: Channel, raw: u32) -> f32 {
    match channel {
        Channel::Float => f32::from_bits(raw),
        // A NaN keeps its bits.
        Channel::Half if raw & 0x7c00 == 0x7c00 => {
            f32::from_bits((raw & 0x8000) << 16 | 0x7f80_0000 | (raw & 0x3ff) << 13)
        }
        Channel::Half => F16::widen(raw as u16),
        Channel::Unsigned(size) => raw as f32 / most(size, false),
        Channel::Signed(size) => (integer(channel, raw) as i32 as f32 / most(size, true)).max(-1.0),
    }
}

fn integer(channel: Channel, raw: u32) -> u32 {
    match channel {
        Channel::Signed(1) => raw as i8 as u32,
        Channel::Signed(2) => raw as i16 as u32,
        _ => raw,
    }
}

/// The channel as a number that can be filtered: integers are not normalised yet.
pub(super) fn filterable(channel: Channel, raw: u32) -> f64 {
    match channel {
        Channel::Float | Channel::Half => float(channel, raw).into(),
        Channel::Unsigned(_) => raw.into(),
        Channel::Signed(_) => (integer(channel, raw) as i32).into(),
    }
}

/// The result of a filtered read. Ties are rounded up, also to halves. Normalised integers are rounded to 16 bits, and
/// for signed ones of 8 bits an H200 is just below the quotient.
pub(super) fn filtered(channel: Channel, as_integer: bool, sum: f64) -> u32 {
    const JUST_BELOW: f64 = 1.0 - 1e-7;
    let nearest = |value: f64| (value + 0.5).floor();
    let unsigned = |value: f64| (nearest(value) as f32 / 65535.0).to_bits();
    let signed = |value: f64| (nearest(value).clamp(-32767.0, 32767.0) as f32 / 32767.0).to_bits();
    match channel {
        Channel::Unsigned(_) if as_integer => nearest(sum) as u32,
        Channel::Signed(_) if as_integer => nearest(sum) as i32 as u32,
        Channel::Unsigned(1) => unsigned(sum * 257.0),
        Channel::Unsigned(_) => unsigned(sum),
        Channel::Signed(1) => signed(sum * (32767.0 / 127.0) * JUST_BELOW),
        Channel::Signed(_) => signed(sum),
        Channel::Half => away(sum, 29 + 13).to_bits(),
        Channel::Float => away(sum, 29).to_bits(),
    }
}

/// Clears the low bits of the fraction, of which there are `bits`, and rounds to the nearest; ties away from zero.
fn away(value: f64, bits: u32) -> f32 {
    if !value.is_finite() {
        return value as f32;
    }
    let half = 1u64 << (bits - 1);
    f64::from_bits((value.to_bits() + half) & !(2 * half - 1)) as f32
}

/// The value that a formatted store writes: integers are clamped to the channel's range, and floats are rounded.
pub(in super::super) fn store_converted(channel: Channel, value: u32) -> u32 {
    const MOST_HALF: f64 = 65504.0;
    let signed = |low: i32, high: i32| (value as i32).clamp(low, high) as u32;
    match channel {
        Channel::Float | Channel::Unsigned(4) | Channel::Signed(4) => value,
        Channel::Half => {
            if f32::from_bits(value).is_nan() {
                return 0x7fff | value >> 16 & 0x8000;
            }
            let value = f64::from(f32::from_bits(value)).clamp(-MOST_HALF, MOST_HALF);
            F16::round(value, Rounding::Nearest).into()
        }
        Channel::Unsigned(1) => value.min(0xff),
        Channel::Unsigned(_) => value.min(0xffff),
        Channel::Signed(1) => signed(-0x80, 0x7f),
        Channel::Signed(_) => signed(-0x8000, 0x7fff),
    }
}
