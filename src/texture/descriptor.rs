//! How textures read.

use crate::driver::ffi::CUDA_TEXTURE_DESC;
use crate::driver::{Numbered, numbered};
use crate::error::CudaResult;

numbered! {
    /// What is read where the coordinates are outside of the texture.
    #[non_exhaustive]
    pub enum AddressMode {
        /// The texture is repeated; with normalised coordinates only.
        Wrap = 0,
        /// The nearest element at the edge.
        Clamp = 1,
        /// The texture is repeated, every other time as in a mirror; with normalised coordinates only.
        Mirror = 2,
        /// The [colour of the border](TextureDescriptor::border_color).
        Border = 3,
    }
}

numbered! {
    /// What is made of the elements around the coordinates.
    #[non_exhaustive]
    pub enum FilterMode {
        /// The element that has the coordinates.
        Point = 0,
        /// The weighted mean of the two, four or eight elements around them. The weights have 8 bits behind the point.
        Linear = 1,
    }
}

/// What kernels get of integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReadMode {
    /// Integers.
    Element,
    /// Floats: unsigned integers of 8 and 16 bits from 0.0 to 1.0, signed ones from -1.0 to 1.0.
    NormalizedFloat,
}

/// How a texture reads: `CUDA_TEXTURE_DESC`.
///
/// ```
/// use custack::texture::{AddressMode, FilterMode, TextureDescriptor};
///
/// let smooth = TextureDescriptor::new()
///     .filter(FilterMode::Linear)
///     .normalized_coordinates(true)
///     .address_mode(AddressMode::Mirror);
/// assert_eq!(smooth.address_modes, [AddressMode::Mirror; 3]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct TextureDescriptor {
    /// What is read outside, in each dimension.
    pub address_modes: [AddressMode; 3],
    /// The filter.
    pub filter: FilterMode,
    /// What kernels get of integers.
    pub read: ReadMode,
    /// Whether coordinates go from 0.0 to 1.0, and not to the number of elements.
    pub normalized_coordinates: bool,
    /// What is read outside in the mode [`Border`](AddressMode::Border).
    pub border_color: [f32; 4],
}

const READ_AS_INTEGER: u32 = 0x1;
const NORMALIZED_COORDINATES: u32 = 0x2;

impl Default for TextureDescriptor {
    #[inline]
    fn default() -> TextureDescriptor {
        TextureDescriptor {
            address_modes: [AddressMode::Clamp; 3],
            filter: FilterMode::Point,
            read: ReadMode::Element,
            normalized_coordinates: false,
            border_color: [0.0; 4],
        }
    }
}

impl TextureDescriptor {
    /// Reads elements as they are, those at the edge for what is outside.
    #[inline]
    pub fn new() -> TextureDescriptor {
        TextureDescriptor::default()
    }

    /// Sets what is read outside, in all dimensions.
    #[must_use]
    #[inline]
    pub fn address_mode(self, mode: AddressMode) -> TextureDescriptor {
        TextureDescriptor { address_modes: [mode; 3], ..self }
    }

    /// Sets what is read outside, in each dimension.
    #[must_use]
    #[inline]
    pub fn address_modes(self, address_modes: [AddressMode; 3]) -> TextureDescriptor {
        TextureDescriptor { address_modes, ..self }
    }

    /// Sets the filter.
    #[must_use]
    #[inline]
    pub fn filter(self, filter: FilterMode) -> TextureDescriptor {
        TextureDescriptor { filter, ..self }
    }

    /// Sets what kernels get of integers.
    #[must_use]
    #[inline]
    pub fn read(self, read: ReadMode) -> TextureDescriptor {
        TextureDescriptor { read, ..self }
    }

    /// Sets whether coordinates go from 0.0 to 1.0, and not to the number of elements.
    #[must_use]
    #[inline]
    pub fn normalized_coordinates(self, normalized_coordinates: bool) -> TextureDescriptor {
        TextureDescriptor { normalized_coordinates, ..self }
    }

    /// Sets what is read outside in the mode [`Border`](AddressMode::Border).
    #[must_use]
    #[inline]
    pub fn border_color(self, border_color: [f32; 4]) -> TextureDescriptor {
        TextureDescriptor { border_color, ..self }
    }

    #[inline]
    pub(super) fn raw(&self) -> CUDA_TEXTURE_DESC {
        let integers = if self.read == ReadMode::Element { READ_AS_INTEGER } else { 0 };
        let normalized = if self.normalized_coordinates { NORMALIZED_COORDINATES } else { 0 };
        CUDA_TEXTURE_DESC {
            addressMode: self.address_modes.map(|mode| mode as u32),
            filterMode: self.filter as u32,
            flags: integers | normalized,
            borderColor: self.border_color,
            ..CUDA_TEXTURE_DESC::default()
        }
    }

    #[inline]
    pub(super) fn of(raw: &CUDA_TEXTURE_DESC) -> CudaResult<TextureDescriptor> {
        const FUNCTION: &str = "cuTexObjectGetTextureDesc";
        let [x, y, z] = raw.addressMode.map(|mode| AddressMode::named(FUNCTION, mode));
        let is_integer = raw.flags & READ_AS_INTEGER != 0;
        Ok(TextureDescriptor {
            address_modes: [x?, y?, z?],
            filter: FilterMode::named(FUNCTION, raw.filterMode)?,
            read: if is_integer { ReadMode::Element } else { ReadMode::NormalizedFloat },
            normalized_coordinates: raw.flags & NORMALIZED_COORDINATES != 0,
            border_color: raw.borderColor,
        })
    }
}
