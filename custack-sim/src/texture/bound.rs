//! What kernels know of a texture or a surface.

use crate::memory::{Array, channel_size};
use custack_sys::ffi::CUDA_TEXTURE_DESC;

/// The type of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
    Unsigned(usize),
    Signed(usize),
    Half,
    Float,
}

impl Channel {
    /// The one of this number.
    pub(super) fn numbered(format: u32) -> Option<Channel> {
        let size = channel_size(format)?;
        Some(match format {
            1..=3 => Channel::Unsigned(size),
            8..=10 => Channel::Signed(size),
            16 => Channel::Half,
            _ => Channel::Float,
        })
    }

    pub(crate) fn size(self) -> usize {
        match self {
            Channel::Unsigned(size) | Channel::Signed(size) => size,
            Channel::Half => 2,
            Channel::Float => 4,
        }
    }

    /// Whether it is an integer, whose reads may be normalised if it is small.
    pub(crate) fn is_integer(self) -> bool {
        matches!(self, Channel::Unsigned(_) | Channel::Signed(_))
    }
}

/// What is read outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outside {
    Wrap,
    Clamp,
    Mirror,
    Border,
}

/// Where the elements are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    pub(crate) address: u64,
    /// Elements of a row, rows, and slices, layers or faces; each is at least 1.
    pub(crate) size: [usize; 3],
    /// Bytes from row to row, and from slice to slice.
    pub(crate) pitch: [usize; 2],
    /// 1, 2 or 3, without layers and faces.
    pub(crate) dimensions: u8,
    pub(crate) is_layered: bool,
    pub(crate) is_cube: bool,
    /// Linear memory, outside of which zeros are read.
    pub(crate) is_linear: bool,
}

/// How a texture reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sampler {
    pub(crate) outside: [Outside; 3],
    pub(crate) is_linear: bool,
    pub(crate) is_normalized: bool,
    /// What is read is an integer, and not a float.
    pub(crate) as_integer: bool,
    pub(crate) border: [f32; 4],
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    pub(crate) grid: Grid,
    pub(crate) channel: Channel,
    pub(crate) channels: usize,
    /// `None` for a surface.
    pub(crate) sampler: Option<Sampler>,
}

impl Bound {
    /// Bytes of an element.
    pub(crate) fn element(&self) -> usize {
        self.channel.size() * self.channels
    }
}

impl Grid {
    pub(super) fn of_array(array: &Array) -> Grid {
        let [bytes, rows, slices] = array.extent();
        let [layered, cube] = [array.is_layered(), array.is_cube()];
        let has = |size: usize, dimension: u8| if size > 0 { dimension } else { 0 };
        let depth = if layered || cube { 0 } else { has(array.descriptor.Depth, 3) };
        Grid {
            address: array.address,
            size: [array.descriptor.Width, rows, slices],
            pitch: [bytes, bytes * rows],
            dimensions: depth.max(has(array.descriptor.Height, 2)).max(1),
            is_layered: layered,
            is_cube: cube,
            is_linear: false,
        }
    }

    /// Rows of memory.
    pub(super) fn of_rows(address: u64, size: [usize; 2], pitch: usize) -> Grid {
        Grid {
            address,
            size: [size[0], size[1], 1],
            pitch: [pitch, pitch * size[1]],
            dimensions: 2,
            is_layered: false,
            is_cube: false,
            is_linear: false,
        }
    }

    pub(super) fn of_memory(address: u64, elements: usize, bytes: usize) -> Grid {
        Grid {
            size: [elements, 1, 1],
            pitch: [bytes, bytes],
            dimensions: 1,
            is_linear: true,
            ..Grid::of_rows(address, [elements, 1], bytes)
        }
    }

    /// How many layers there are; a cube counts as one.
    pub(crate) fn layers(&self) -> usize {
        match (self.is_layered, self.is_cube) {
            (true, true) => self.size[2] / 6,
            (true, false) => self.size[2],
            _ => 1,
        }
    }
}

pub(super) const READ_AS_INTEGER: u32 = 0x1;
pub(super) const NORMALIZED_COORDINATES: u32 = 0x2;

impl Sampler {
    /// `None` for numbers that no mode has.
    pub(super) fn of(descriptor: &CUDA_TEXTURE_DESC, channel: Channel) -> Option<Sampler> {
        let is_normalized = descriptor.flags & NORMALIZED_COORDINATES != 0;
        let mut outside = [Outside::Clamp; 3];
        for (to, mode) in outside.iter_mut().zip(descriptor.addressMode) {
            *to = match mode {
                0 if is_normalized => Outside::Wrap,
                2 if is_normalized => Outside::Mirror,
                // Without normalised coordinates nothing repeats.
                0..=2 => Outside::Clamp,
                3 => Outside::Border,
                _ => return None,
            };
        }
        let wide = channel.size() == 4;
        let as_integer = channel.is_integer() && (wide || descriptor.flags & READ_AS_INTEGER != 0);
        (descriptor.filterMode <= 1).then_some(Sampler {
            outside,
            is_linear: descriptor.filterMode == 1,
            is_normalized,
            as_integer,
            border: descriptor.borderColor,
        })
    }
}
