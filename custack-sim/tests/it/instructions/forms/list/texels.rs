//! What a read of a texture gives, and what a formatted store writes: with exact sums.

use super::super::exact::{F16, F32, Format, Mode, Number};
use super::super::object::{AddressMode, ArrayFormat, Object, Sampler, Shape};

/// Coordinates, of which a shape takes the first ones.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Floats([f32; 3]),
    Integers([i32; 3]),
}

/// What a thread reads: four channels, or one of the four elements around.
pub(super) fn read(object: &Object, layer: u32, place: Place, gathered: Option<usize>) -> [u32; 4] {
    let texture = object.texture.unwrap();
    let linear = texture.is_linear && matches!(place, Place::Floats(_));
    // Lines are read by integers in memory, and by floats in arrays.
    let is_float = matches!(place, Place::Floats(_));
    if object.shape == Shape::Buffer && is_float || object.shape == Shape::One && !is_float {
        return [0; 4];
    }
    let found = Around::new(object, &texture, layer, place, linear || gathered.is_some());
    let shown = |texel: Vec<u64>| -> [u32; 4] {
        let mut all = [0; 4];
        all.iter_mut().zip(texel).for_each(|(to, bits)| *to = number(object.format, &texture, bits));
        all
    };
    if let Some(channel) = gathered {
        // Of 8 bits with a sign it is as exact as a filtered one.
        let is_filtered = object.format == ArrayFormat::SignedInt8 && !texture.as_integer;
        let is_float_format = matches!(object.format, ArrayFormat::Float | ArrayFormat::Half);
        let one = |corner| match found.texel(corner).get(channel) {
            Some(bits) if is_filtered => mean(object.format, 256 * scaled(object.format, *bits)),
            _ => match shown(found.texel(corner))[channel] {
                // A NaN is the one that the device makes.
                bits if is_float_format && F32.is_nan(bits.into()) => 0x7fff_ffff,
                bits => bits,
            },
        };
        return [2, 3, 1, 0].map(one);
    }
    if !linear {
        return shown(found.texel(0));
    }
    let (mut all, weights) = ([0; 4], found.weights());
    for (channel, to) in all.iter_mut().enumerate().take(object.channels) {
        let sum = (0..8).filter(|corner| weights[*corner] > 0).map(|corner| {
            let bits = found.texel(corner)[channel];
            i128::from(weights[corner]) * scaled(object.format, bits)
        });
        *to = mean(object.format, sum.sum());
    }
    all
}

/// The elements around a place.
struct Around<'a> {
    object: &'a Object,
    texture: &'a Sampler,
    /// The first element on each axis, the part of the next one in 256ths, and what is read beyond.
    axes: Vec<(i64, u32, Option<AddressMode>)>,
    slice: usize,
}

impl<'a> Around<'a> {
    fn new(
        object: &'a Object,
        texture: &'a Sampler,
        layer: u32,
        place: Place,
        is_between: bool,
    ) -> Around<'a> {
        let per = if object.shape == Shape::CubeLayered { 6 } else { 1 };
        let is_beyond = object.is_layered() && layer as usize >= object.size[2] / per;
        let layer = if object.is_layered() { (layer as usize).min(object.size[2] / per - 1) } else { 0 };
        let dimensions = match object.shape {
            Shape::One | Shape::OneLayered | Shape::Buffer => 1,
            Shape::Three => 3,
            _ => 2,
        };
        let (mut slice, mut modes) = (layer * per, texture.address_modes);
        let axes = match place {
            // A layer that there is not is beyond the texture, too.
            Place::Integers(_) if is_beyond => vec![(-1, 0, None)],
            Place::Integers(at) => at[..dimensions].iter().map(|at| (i64::from(*at), 0, None)).collect(),
            Place::Floats(mut at) => {
                if matches!(object.shape, Shape::Cube | Shape::CubeLayered) {
                    let (face, on) = face(at);
                    (slice, at, modes) = (slice + face, [on[0], on[1], 0.0], [AddressMode::Clamp; 3]);
                }
                // A line is a plane of one row, and is read at the upper edge of it.
                let planes = if object.shape == Shape::One { 2 } else { dimensions };
                if object.shape == Shape::One {
                    at[1] = 0.0;
                }
                let axis = |axis: usize| {
                    let normalized = texture.is_normalized;
                    let (first, next) =
                        step(at[axis], object.size[axis], modes[axis], normalized, is_between);
                    (first, next, Some(modes[axis]))
                };
                (0..planes).map(axis).collect()
            }
        };
        Around { object, texture, axes, slice }
    }

    /// The channels of a corner, whose bits say on which axes it is the next element.
    fn texel(&self, corner: usize) -> Vec<u64> {
        let mut at = [0, 0, self.slice];
        for (axis, (first, _, mode)) in self.axes.iter().enumerate() {
            let (place, size) = (first + (corner >> axis & 1) as i64, self.object.size[axis] as i64);
            at[axis] = match mode {
                _ if (0..size).contains(&place) => place,
                Some(AddressMode::Clamp) => place.clamp(0, size - 1),
                Some(AddressMode::Wrap) => place.rem_euclid(size),
                Some(AddressMode::Mirror) => {
                    let place = place.rem_euclid(2 * size);
                    place.min(2 * size - 1 - place)
                }
                None => return vec![0; self.object.channels],
                _ => return self.border(),
            } as usize;
        }
        self.object.texel(at)
    }

    /// The border as an element has it.
    fn border(&self) -> Vec<u64> {
        let is_integer = self.texture.as_integer;
        let size = 8 * self.object.channel_size() as u32;
        let bits = |color: f32| -> u64 {
            use ArrayFormat::*;
            let unit = |least: f32| f64::from(color.clamp(least, 1.0));
            match self.object.format {
                Float => color.to_bits().into(),
                Half => F16.round(F32.decode(color.to_bits().into()), Mode::Zero),
                UnsignedInt8 | UnsignedInt16 if !is_integer => {
                    (unit(0.0) as f32 * ((1u32 << size) - 1) as f32) as u64
                }
                SignedInt8 | SignedInt16 if !is_integer => {
                    let most = ((1u32 << (size - 1)) - 1) as f32;
                    (unit(-1.0) as f32 * most).round() as i64 as u64 & (u64::MAX >> (64 - size))
                }
                _ => u64::from(color.to_bits()) & (u64::MAX >> (64 - size)),
            }
        };
        self.texture.border_color[..self.object.channels].iter().map(|color| bits(*color)).collect()
    }

    /// Parts of the corners in 256ths: what is on either side in the third dimension is divided in the first one and then in
    /// the second, and rounded each time.
    fn weights(&self) -> [u32; 8] {
        let part = |axis: usize| self.axes.get(axis).map_or(0, |it| it.1);
        let mut all = [0; 8];
        for (side, whole) in [256 - part(2), part(2)].into_iter().enumerate() {
            let right = (whole * part(0) + 128) / 256;
            let left = whole - right;
            // Of two that are as near, the corners get more that are equal in both.
            let (both, below) = ((right * part(1) + 128) / 256, (left * part(1) + 127) / 256);
            all[4 * side..][..4].copy_from_slice(&[left - below, right - both, below, both]);
        }
        all
    }
}

/// The first element, and the part of the next one in 256ths.
fn step(at: f32, size: usize, mode: AddressMode, normalized: bool, is_between: bool) -> (i64, u32) {
    let mut at = if at.is_subnormal() { 0.0 } else { f64::from(at) };
    let repeats = match mode {
        AddressMode::Wrap => 1.0,
        AddressMode::Mirror => 2.0,
        _ => 0.0,
    };
    if repeats > 0.0 {
        at = if at.is_finite() { at - repeats * (at / repeats).floor() } else { 0.0 };
    }
    if normalized && is_between {
        // It has 21 bits behind the point.
        at = (at * 2_097_152.0).floor() * size as f64 / 2_097_152.0;
    } else if normalized {
        at *= size as f64;
        if repeats > 0.0 && at == repeats * size as f64 {
            // What is just before the beginning is in the last element of what repeats.
            return (at as i64 - 1, 0);
        }
    }
    if !is_between {
        return (at.floor() as i64, 0);
    }
    let parts = ((at * 256.0 + 0.5).floor() as i64).saturating_sub(128);
    (parts.div_euclid(256), parts.rem_euclid(256) as u32)
}

/// The face of a cube, and where on it; of axes that are as long as each other the last one counts.
fn face([x, y, z]: [f32; 3]) -> (usize, [f32; 2]) {
    let [ax, ay, az] = [x.abs(), y.abs(), z.abs()];
    let (face, longest, s, t) = match (az >= ax && az >= ay, ay >= ax) {
        (true, _) if z >= 0.0 => (4, az, x, -y),
        (true, _) => (5, az, -x, -y),
        (_, true) if y >= 0.0 => (2, ay, x, z),
        (_, true) => (3, ay, x, -z),
        _ if x >= 0.0 => (0, ax, -z, -y),
        _ => (1, ax, z, -y),
    };
    (face, [s, t].map(|at| if longest == 0.0 { 0.5 } else { (at / longest + 1.0) / 2.0 }))
}

fn signed(bits: u64, size: u32) -> i32 {
    ((bits << (64 - 8 * size)) as i64 >> (64 - 8 * size)) as i32
}

/// What an instruction gets of a channel.
fn number(format: ArrayFormat, texture: &Sampler, bits: u64) -> u32 {
    use ArrayFormat::*;
    let is_integer = texture.as_integer;
    match format {
        Half => widened(bits),
        SignedInt8 if is_integer => signed(bits, 1) as u32,
        SignedInt16 if is_integer => signed(bits, 2) as u32,
        UnsignedInt8 if !is_integer => (bits as f32 / 255.0).to_bits(),
        UnsignedInt16 if !is_integer => (bits as f32 / 65535.0).to_bits(),
        SignedInt8 => (signed(bits, 1) as f32 / 127.0).max(-1.0).to_bits(),
        SignedInt16 => (signed(bits, 2) as f32 / 32767.0).max(-1.0).to_bits(),
        _ => bits as u32,
    }
}

fn widened(bits: u64) -> u32 {
    match F16.decode(bits) {
        Number::Nan => ((bits & 0x8000) << 16 | 0x7f80_0000 | (bits & 0x3ff) << 13) as u32,
        number => F32.round(number, Mode::Nearest) as u32,
    }
}

/// A channel as an integer: of floats that are tame, in units of 2 to the power of -40.
fn scaled(format: ArrayFormat, bits: u64) -> i128 {
    use ArrayFormat::*;
    let float = |format: Format| match format.decode(bits) {
        Number::Finite(negative, mantissa, exponent) => {
            let value = (mantissa << (exponent + 40)) as i128;
            if negative { -value } else { value }
        }
        _ => panic!("no element that is filtered is infinite"),
    };
    match format {
        Float => float(F32),
        Half => float(F16),
        SignedInt8 => signed(bits, 1).into(),
        SignedInt16 => signed(bits, 2).into(),
        _ => bits.into(),
    }
}

/// What an instruction gets of a sum of 256 parts. Floats are rounded to the nearest, and away from zero if two are as near;
/// integers have 16 bits, and of those of 8 bits with a sign the sum is a little smaller.
fn mean(format: ArrayFormat, sum: i128) -> u32 {
    use ArrayFormat::*;
    let number = Number::Finite(sum < 0, sum.unsigned_abs(), -48);
    let near = |value: i128, by: i128| (2 * value + by).div_euclid(2 * by) as f32;
    match format {
        Float => F32.round(number, Mode::Away) as u32,
        Half => (Format(8, 10).round(number, Mode::Away) << 13) as u32,
        UnsignedInt8 => (near(sum * 257, 256) / 65535.0).to_bits(),
        UnsignedInt16 => (near(sum, 256) / 65535.0).to_bits(),
        SignedInt8 => {
            let less = sum as f64 / 256.0 * (32767.0 / 127.0) * (1.0 - 1e-7);
            (((less + 0.5).floor() as f32).clamp(-32767.0, 32767.0) / 32767.0).to_bits()
        }
        _ => (near(sum, 256).clamp(-32767.0, 32767.0) / 32767.0).to_bits(),
    }
}

/// How far a filtered channel may be from the reference, where no exact rule is known: floats lose what is behind the last
/// bit of the greatest element, and integers of 8 bits with a sign are one of two neighbours.
pub(super) fn bound(object: &Object, layer: u32, at: [f32; 3], channel: usize) -> f64 {
    use ArrayFormat::*;
    let found = Around::new(object, object.texture.as_ref().unwrap(), layer, Place::Floats(at), true);
    let size = |corner: usize| scaled(object.format, found.texel(corner)[channel]).unsigned_abs() as f64;
    let greatest = (0..8).map(size).fold(0.0, f64::max) / (1u64 << 40) as f64;
    if object.shape == Shape::Three {
        // Weights of a device differ by one of 256, in each corner.
        return match object.format {
            Float | Half => 8.0 * greatest / 256.0,
            _ => 8.0 / 256.0,
        };
    }
    match object.format {
        Float => greatest / f64::from(1 << 23),
        Half => greatest / f64::from(1 << 10) + 1.0 / f64::from(1 << 24),
        _ => 1.01 / 32767.0,
    }
}

/// What a formatted store writes for a register.
pub(super) fn stored(format: ArrayFormat, word: u32) -> u64 {
    use ArrayFormat::*;
    let clamped = |least: i32, most: i32| (word as i32).clamp(least, most) as u64;
    match format {
        Half => match F32.decode(word.into()) {
            Number::Nan => 0x7fff | u64::from(word >> 16 & 0x8000),
            Number::Infinite(negative) => 0x7bff | u64::from(negative) << 15,
            number => {
                let bits = F16.round(number, Mode::Nearest);
                if bits & 0x7fff == 0x7c00 { bits - 1 } else { bits }
            }
        },
        UnsignedInt8 => word.min(0xff).into(),
        UnsignedInt16 => word.min(0xffff).into(),
        SignedInt8 => clamped(-0x80, 0x7f) & 0xff,
        SignedInt16 => clamped(-0x8000, 0x7fff) & 0xffff,
        _ => word.into(),
    }
}

/// A float of 16 bits, nearest to one of 32.
pub(super) fn shortened(bits: u32) -> u64 {
    match F32.decode(bits.into()) {
        Number::Nan => 0x7fff,
        number => F16.round(number, Mode::Nearest),
    }
}
