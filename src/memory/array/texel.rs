//! The values that arrays and textures have as elements.

// Says of a type that it can be copied to the device.
#![allow(unsafe_code)]

use super::ArrayFormat;
use crate::memory::DeviceCopy;
use crate::sealed::Sealed;

/// An element of an array, or one of its channels: numbers of 8, 16 and 32 bits, [`Half`], and arrays of one, two or four
/// of these. All their bits are valid.
pub trait Texel: DeviceCopy + Copy + Sealed {
    /// The type of its channels.
    const FORMAT: ArrayFormat;
    /// How many channels it has: 1, 2 or 4.
    const CHANNELS: u32;
}

/// A float of 16 bits, as its bits.
///
/// ```
/// use custack::memory::array::Half;
///
/// assert_eq!(Half::from_bits(0x3c00).to_bits(), 0x3c00); // 1.0
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Half(u16);

impl Half {
    /// The float of these bits.
    pub const fn from_bits(bits: u16) -> Half {
        Half(bits)
    }

    /// Its bits.
    pub const fn to_bits(self) -> u16 {
        self.0
    }
}

// SAFETY: plain bits.
unsafe impl DeviceCopy for Half {}

macro_rules! texels {
    ($($ty:ty = $format:ident,)*) => {$(
        texels!(one $ty, 1, $format);
        texels!(one [$ty; 1], 1, $format);
        texels!(one [$ty; 2], 2, $format);
        texels!(one [$ty; 4], 4, $format);
    )*};
    (one $ty:ty, $channels:literal, $format:ident) => {
        impl Texel for $ty {
            const FORMAT: ArrayFormat = ArrayFormat::$format;
            const CHANNELS: u32 = $channels;
        }
    };
}

texels! {
    u8 = UnsignedInt8,
    u16 = UnsignedInt16,
    u32 = UnsignedInt32,
    i8 = SignedInt8,
    i16 = SignedInt16,
    i32 = SignedInt32,
    f32 = Float,
    Half = Half,
}

// Those that memory can be filled with are sealed beside that.
macro_rules! sealed {
    ($($ty:ty)*) => { $(impl Sealed for $ty {})* };
}

sealed! {
    [u16; 4] [i16; 4] [u32; 2] [u32; 4] [i32; 2] [i32; 4] [f32; 2] [f32; 4] Half [Half; 1] [Half; 2] [Half; 4]
}
