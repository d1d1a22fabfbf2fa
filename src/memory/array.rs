//! Arrays: device memory in the order in which textures and surfaces read it.
//!
//! ```
//! use custack::memory::array::{ArrayFormat, ArrayObject};
//!
//! let _context = custack::quick_init()?;
//! let array = ArrayObject::new_2d([3, 2], ArrayFormat::Float, 1)?;
//! array.copy_from(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
//! let mut back = [0.0f32; 6];
//! array.copy_to(&mut back)?;
//! assert_eq!(back, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
//! # Ok::<(), custack::error::CudaError>(())
//! ```

// Makes and destroys what it owns.
#![allow(unsafe_code)]

mod copies;
#[cfg(feature = "rustacuda")]
mod raw;
mod texel;

pub use texel::{Half, Texel};

use crate::context::{Resource, UnownedContext, refuse_unsafe};
use crate::driver::Driver;
use crate::driver::ffi::{CUDA_ARRAY3D_DESCRIPTOR as Raw, CUarray};
use crate::error::{CudaError, CudaResult, DropResult};
use bitflags::bitflags;
use std::fmt;
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
    pub fn new(
        dims: [usize; 3],
        format: ArrayFormat,
        num_channels: c_uint,
        flags: ArrayObjectFlags,
    ) -> ArrayDescriptor {
        ArrayDescriptor { dims, format, num_channels, flags }
    }

    /// A descriptor with one channel and no flags.
    pub fn from_dims_format(dims: [usize; 3], format: ArrayFormat) -> ArrayDescriptor {
        ArrayDescriptor::new(dims, format, 1, ArrayObjectFlags::new())
    }

    /// Width, height and depth.
    pub fn dims(&self) -> [usize; 3] {
        self.dims
    }

    /// Sets width, height and depth.
    pub fn set_dims(&mut self, dims: [usize; 3]) {
        self.dims = dims;
    }

    /// Elements in a row.
    pub fn width(&self) -> usize {
        self.dims[0]
    }

    /// Sets the elements in a row.
    pub fn set_width(&mut self, width: usize) {
        self.dims[0] = width;
    }

    /// Rows, or 0.
    pub fn height(&self) -> usize {
        self.dims[1]
    }

    /// Sets the rows.
    pub fn set_height(&mut self, height: usize) {
        self.dims[1] = height;
    }

    /// Slices or layers, or 0.
    pub fn depth(&self) -> usize {
        self.dims[2]
    }

    /// Sets the slices or layers.
    pub fn set_depth(&mut self, depth: usize) {
        self.dims[2] = depth;
    }

    /// The type of the channels.
    pub fn format(&self) -> ArrayFormat {
        self.format
    }

    /// Sets the type of the channels.
    pub fn set_format(&mut self, format: ArrayFormat) {
        self.format = format;
    }

    /// Channels of an element.
    pub fn num_channels(&self) -> c_uint {
        self.num_channels
    }

    /// Sets the channels of an element.
    pub fn set_num_channels(&mut self, num_channels: c_uint) {
        self.num_channels = num_channels;
    }

    /// The flags.
    pub fn flags(&self) -> ArrayObjectFlags {
        self.flags
    }

    /// Sets the flags.
    pub fn set_flags(&mut self, flags: ArrayObjectFlags) {
        self.flags = flags;
    }

    fn to_driver(self) -> Raw {
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
    fn wrong(&self) -> Option<&'static str> {
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

/// An array; see the [module](self).
///
/// It belongs to the context that was current when it was made, and works on any thread, whatever is current there.
#[repr(C)]
pub struct ArrayObject {
    // At offset 0: existing programs read it there.
    handle: Resource<CUarray>,
    made: ArrayDescriptor,
}

impl ArrayObject {
    /// Makes an array in the current context.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue) for an invalid descriptor, before the driver is called, where
    /// RustaCUDA panics in debug builds; and from the driver for one that the device does not support.
    #[doc(alias("cuArray3DCreate", "cuArray3DCreate_v2"))]
    pub fn from_descriptor(descriptor: &ArrayDescriptor) -> CudaResult<ArrayObject> {
        if let Some(wrong) = descriptor.wrong() {
            return Err(
                CudaError::InvalidValue.note(format_args!("to create an array of {descriptor:?}: {wrong}"))
            );
        }
        refuse_unsafe("make an array")?;
        let raw = descriptor.to_driver();
        let handle = Resource::make(|driver: &Driver| driver.array_create(&raw), Driver::array_destroy)?;
        Ok(ArrayObject { handle, made: *descriptor })
    }

    fn plain(
        dims: [usize; 3],
        format: ArrayFormat,
        num_channels: c_uint,
        flags: ArrayObjectFlags,
    ) -> CudaResult<Self> {
        ArrayObject::from_descriptor(&ArrayDescriptor::new(dims, format, num_channels, flags))
    }

    /// An array of up to three dimensions.
    ///
    /// # Errors
    ///
    /// Those of [`from_descriptor`](Self::from_descriptor).
    pub fn new(dims: [usize; 3], format: ArrayFormat, num_channels: c_uint) -> CudaResult<ArrayObject> {
        ArrayObject::plain(dims, format, num_channels, ArrayObjectFlags::new())
    }

    /// A one-dimensional array.
    ///
    /// # Errors
    ///
    /// Those of [`from_descriptor`](Self::from_descriptor).
    pub fn new_1d(width: usize, format: ArrayFormat, num_channels: c_uint) -> CudaResult<ArrayObject> {
        ArrayObject::plain([width, 0, 0], format, num_channels, ArrayObjectFlags::new())
    }

    /// A two-dimensional array.
    ///
    /// # Errors
    ///
    /// Those of [`from_descriptor`](Self::from_descriptor).
    pub fn new_2d(dims: [usize; 2], format: ArrayFormat, num_channels: c_uint) -> CudaResult<ArrayObject> {
        ArrayObject::plain([dims[0], dims[1], 0], format, num_channels, ArrayObjectFlags::new())
    }

    /// A layered two-dimensional array.
    ///
    /// # Errors
    ///
    /// Those of [`from_descriptor`](Self::from_descriptor).
    pub fn new_layered(
        dims: [usize; 2],
        num_layers: usize,
        format: ArrayFormat,
        num_channels: c_uint,
    ) -> CudaResult<ArrayObject> {
        ArrayObject::plain([dims[0], dims[1], num_layers], format, num_channels, ArrayObjectFlags::LAYERED)
    }

    /// A layered one-dimensional array.
    ///
    /// # Errors
    ///
    /// Those of [`from_descriptor`](Self::from_descriptor).
    pub fn new_layered_1d(
        width: usize,
        num_layers: usize,
        format: ArrayFormat,
        num_channels: c_uint,
    ) -> CudaResult<ArrayObject> {
        ArrayObject::plain([width, 0, num_layers], format, num_channels, ArrayObjectFlags::LAYERED)
    }

    /// A cube map of six faces.
    ///
    /// # Errors
    ///
    /// Those of [`from_descriptor`](Self::from_descriptor).
    pub fn new_cubemap(side: usize, format: ArrayFormat, num_channels: c_uint) -> CudaResult<ArrayObject> {
        ArrayObject::plain([side, side, 6], format, num_channels, ArrayObjectFlags::CUBEMAP)
    }

    /// Several cube maps.
    ///
    /// # Errors
    ///
    /// Those of [`from_descriptor`](Self::from_descriptor).
    pub fn new_layered_cubemap(
        side: usize,
        num_layers: usize,
        format: ArrayFormat,
        num_channels: c_uint,
    ) -> CudaResult<ArrayObject> {
        let flags = ArrayObjectFlags::CUBEMAP | ArrayObjectFlags::LAYERED;
        ArrayObject::plain([side, side, num_layers.saturating_mul(6)], format, num_channels, flags)
    }

    /// The array's properties, according to the driver.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed);
    /// [`UnexpectedValue`](CudaError::UnexpectedValue) for a format without a name.
    #[doc(alias("cuArray3DGetDescriptor", "cuArray3DGetDescriptor_v2"))]
    pub fn descriptor(&self) -> CudaResult<ArrayDescriptor> {
        let raw = self.handle.with(Driver::array_get_descriptor)?;
        // SAFETY: any bits are valid; the driver may have newer flags.
        let flags = unsafe { ArrayObjectFlags::from_bits_unchecked(raw.Flags) };
        let dims = [raw.Width, raw.Height, raw.Depth];
        let format = ArrayFormat::from_number("cuArray3DGetDescriptor_v2", raw.Format)?;
        Ok(ArrayDescriptor::new(dims, format, raw.NumChannels, flags))
    }

    /// What it was made as.
    pub(crate) fn made(&self) -> &ArrayDescriptor {
        &self.made
    }

    pub(crate) fn handle(&self) -> &Resource<CUarray> {
        &self.handle
    }

    /// The array's context.
    pub fn context(&self) -> &UnownedContext {
        self.handle.context()
    }

    /// Destroys the array; if that fails, returns the error and the array.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
    #[doc(alias = "cuArrayDestroy")]
    #[allow(clippy::result_large_err, reason = "it gives back what it was given")]
    pub fn drop(array: ArrayObject) -> DropResult<ArrayObject> {
        let ArrayObject { handle, made } = array;
        handle.drop().map_err(|(error, handle)| (error, ArrayObject { handle, made }))
    }
}

impl fmt::Debug for ArrayObject {
    /// Prints its descriptor, or why it cannot be read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.descriptor().fmt(f)
    }
}
