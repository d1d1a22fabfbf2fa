//! What an array is made of: the type and the number of its channels, its extent and its flags.

use crate::driver::ffi::CUDA_ARRAY3D_DESCRIPTOR as Raw;
use crate::error::{CudaError, CudaResult};
use bitflags::bitflags;
use std::os::raw::c_uint;

/// The type of an array's channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayFormat {
    /// Unsigned, 8 bits.
    UnsignedInt8,
    /// Unsigned, 16 bits.
    UnsignedInt16,
    /// Unsigned, 32 bits.
    UnsignedInt32,
    /// Signed, 8 bits.
    SignedInt8,
    /// Signed, 16 bits.
    SignedInt16,
    /// Signed, 32 bits.
    SignedInt32,
    /// A float of 16 bits.
    Half,
    /// A float of 32 bits.
    Float,
}

const FORMATS: [(ArrayFormat, u32); 8] = [
    (ArrayFormat::UnsignedInt8, 0x01),
    (ArrayFormat::UnsignedInt16, 0x02),
    (ArrayFormat::UnsignedInt32, 0x03),
    (ArrayFormat::SignedInt8, 0x08),
    (ArrayFormat::SignedInt16, 0x09),
    (ArrayFormat::SignedInt32, 0x0a),
    (ArrayFormat::Half, 0x10),
    (ArrayFormat::Float, 0x20),
];

impl ArrayFormat {
    /// The driver's number.
    pub(crate) fn number(self) -> u32 {
        FORMATS.iter().find(|(format, _)| *format == self).map_or(0, |(_, number)| *number)
    }

    pub(crate) fn from_number(function: &'static str, number: u32) -> CudaResult<ArrayFormat> {
        let found = FORMATS.iter().find(|(_, known)| *known == number);
        let unexpected = CudaError::UnexpectedValue { function, value: number.into() };
        found.map(|(format, _)| *format).ok_or(unexpected)
    }

    /// Bytes of a channel.
    #[inline]
    pub fn channel_size(self) -> usize {
        match self {
            ArrayFormat::UnsignedInt8 | ArrayFormat::SignedInt8 => 1,
            ArrayFormat::UnsignedInt16 | ArrayFormat::SignedInt16 | ArrayFormat::Half => 2,
            ArrayFormat::UnsignedInt32 | ArrayFormat::SignedInt32 | ArrayFormat::Float => 4,
        }
    }
}

bitflags! {
    /// How an array is used.
    #[derive(Default)]
    pub struct ArrayObjectFlags: c_uint {
        /// The third dimension counts layers.
        const LAYERED = 0x1;
        /// Surfaces may be bound to it.
        const SURFACE_LDST = 0x2;
        /// The six square faces of a cube, or several times six.
        const CUBEMAP = 0x4;
        /// Textures gather from it.
        const TEXTURE_GATHER = 0x8;
    }
}

impl ArrayObjectFlags {
    /// No flag.
    #[inline]
    pub fn new() -> ArrayObjectFlags {
        ArrayObjectFlags::default()
    }
}

/// The properties of an array.
#[derive(Clone, Copy, Debug)]
pub struct ArrayDescriptor {
    dims: [usize; 3],
    format: ArrayFormat,
    num_channels: c_uint,
    flags: ArrayObjectFlags,
}

impl ArrayDescriptor {
    /// A descriptor with this many elements in each dimension (0 for a dimension that the array does not have), and
    /// this many channels per element.
    #[inline]
    pub fn new(
        dims: [usize; 3],
        format: ArrayFormat,
        num_channels: c_uint,
        flags: ArrayObjectFlags,
    ) -> ArrayDescriptor {
        ArrayDescriptor { dims, format, num_channels, flags }
    }

    /// A descriptor with one channel and no flags.
    #[inline]
    pub fn from_dims_format(dims: [usize; 3], format: ArrayFormat) -> ArrayDescriptor {
        ArrayDescriptor::new(dims, format, 1, ArrayObjectFlags::new())
    }

    /// Width, height and depth.
    #[inline]
    pub fn dims(&self) -> [usize; 3] {
        self.dims
    }

    /// Sets width, height and depth.
    #[inline]
    pub fn set_dims(&mut self, dims: [usize; 3]) {
        self.dims = dims;
    }

    /// Elements in a row.
    #[inline]
    pub fn width(&self) -> usize {
        self.dims[0]
    }

    /// Sets the elements in a row.
    #[inline]
    pub fn set_width(&mut self, width: usize) {
        self.dims[0] = width;
    }

    /// Rows, or 0.
    #[inline]
    pub fn height(&self) -> usize {
        self.dims[1]
    }

    /// Sets the rows.
    #[inline]
    pub fn set_height(&mut self, height: usize) {
        self.dims[1] = height;
    }

    /// Slices or layers, or 0.
    #[inline]
    pub fn depth(&self) -> usize {
        self.dims[2]
    }

    /// Sets the slices or layers.
    #[inline]
    pub fn set_depth(&mut self, depth: usize) {
        self.dims[2] = depth;
    }

    /// The type of the channels.
    #[inline]
    pub fn format(&self) -> ArrayFormat {
        self.format
    }

    /// Sets the type of the channels.
    #[inline]
    pub fn set_format(&mut self, format: ArrayFormat) {
        self.format = format;
    }

    /// Channels of an element.
    #[inline]
    pub fn num_channels(&self) -> c_uint {
        self.num_channels
    }

    /// Sets the channels of an element.
    #[inline]
    pub fn set_num_channels(&mut self, num_channels: c_uint) {
        self.num_channels = num_channels;
    }

    /// The flags.
    #[inline]
    pub fn flags(&self) -> ArrayObjectFlags {
        self.flags
    }

    /// Sets the flags.
    #[inline]
    pub fn set_flags(&mut self, flags: ArrayObjectFlags) {
        self.flags = flags;
    }

    pub(super) fn to_driver(self) -> Raw {
        let [width, height, depth] = self.dims;
        Raw {
            Width: width,
            Height: height,
            Depth: depth,
            Format: self.format.number(),
            NumChannels: self.num_channels,
            Flags: self.flags.bits(),
        }
    }

    /// What is wrong with the descriptor itself; the driver knows the device's limits.
    pub(super) fn wrong(&self) -> Option<&'static str> {
        let [width, height, depth] = self.dims;
        let layered = self.flags.contains(ArrayObjectFlags::LAYERED);
        let faces = if layered { depth % 6 == 0 && depth > 0 } else { depth == 6 };
        let cube = self.flags.contains(ArrayObjectFlags::CUBEMAP);
        match () {
            () if width == 0 => Some("its width is 0"),
            () if depth > 0 && height == 0 && !layered => Some("it has a depth, no height and no layers"),
            () if cube && width != height => Some("the faces of a cube are square"),
            () if cube && !faces => Some("a cube has six faces"),
            () if ![1, 2, 4].contains(&self.num_channels) => Some("an element has 1, 2 or 4 channels"),
            () => None,
        }
    }
}
