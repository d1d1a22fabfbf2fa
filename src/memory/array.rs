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
mod descriptor;
#[cfg(feature = "rustacuda")]
mod raw;
mod texel;

pub use descriptor::{ArrayDescriptor, ArrayFormat, ArrayObjectFlags};
pub use texel::{Half, Texel};

use crate::context::{Resource, UnownedContext, refuse_unsafe};
use crate::driver::Driver;
use crate::driver::ffi::CUarray;
use crate::error::{CudaError, CudaResult, DropResult};
use std::fmt;
use std::os::raw::c_uint;

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
    #[inline]
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
    #[inline]
    pub fn new(dims: [usize; 3], format: ArrayFormat, num_channels: c_uint) -> CudaResult<ArrayObject> {
        ArrayObject::plain(dims, format, num_channels, ArrayObjectFlags::new())
    }

    /// A one-dimensional array.
    ///
    /// # Errors
    ///
    /// Those of [`from_descriptor`](Self::from_descriptor).
    #[inline]
    pub fn new_1d(width: usize, format: ArrayFormat, num_channels: c_uint) -> CudaResult<ArrayObject> {
        ArrayObject::plain([width, 0, 0], format, num_channels, ArrayObjectFlags::new())
    }

    /// A two-dimensional array.
    ///
    /// # Errors
    ///
    /// Those of [`from_descriptor`](Self::from_descriptor).
    #[inline]
    pub fn new_2d(dims: [usize; 2], format: ArrayFormat, num_channels: c_uint) -> CudaResult<ArrayObject> {
        ArrayObject::plain([dims[0], dims[1], 0], format, num_channels, ArrayObjectFlags::new())
    }

    /// A layered two-dimensional array.
    ///
    /// # Errors
    ///
    /// Those of [`from_descriptor`](Self::from_descriptor).
    #[inline]
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
    #[inline]
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
    #[inline]
    pub fn new_cubemap(side: usize, format: ArrayFormat, num_channels: c_uint) -> CudaResult<ArrayObject> {
        ArrayObject::plain([side, side, 6], format, num_channels, ArrayObjectFlags::CUBEMAP)
    }

    /// Several cube maps.
    ///
    /// # Errors
    ///
    /// Those of [`from_descriptor`](Self::from_descriptor).
    #[inline]
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
    #[inline]
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
    #[inline]
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
    #[inline]
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
