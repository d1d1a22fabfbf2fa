//! What textures and surfaces are of, in the driver's form.

use crate::driver::ffi::{CUDA_RESOURCE_DESC, CUarray};
use crate::error::{CudaError, CudaResult};
use crate::memory::array::{ArrayFormat, ArrayObject, Texel};

const ARRAY: u32 = 0;
const LINEAR: u32 = 2;
const ROWS: u32 = 3;

/// What a texture or a surface is of, as the driver says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextureResource {
    /// An array.
    Array(CUarray),
    /// Memory without a shape.
    #[non_exhaustive]
    Linear {
        /// The address.
        address: u64,
        /// The type of a channel.
        format: ArrayFormat,
        /// Channels of an element.
        channels: u32,
        /// The size.
        bytes: usize,
    },
    /// Rows.
    #[non_exhaustive]
    Rows {
        /// The address.
        address: u64,
        /// The type of a channel.
        format: ArrayFormat,
        /// Channels of an element.
        channels: u32,
        /// Elements of a row.
        width: usize,
        /// Rows.
        height: usize,
        /// Bytes from row to row.
        pitch: usize,
    },
}

impl TextureResource {
    #[inline]
    pub(super) fn of(function: &'static str, raw: &CUDA_RESOURCE_DESC) -> CudaResult<TextureResource> {
        let CUDA_RESOURCE_DESC { devPtr: address, numChannels: channels, width, height, .. } = *raw;
        let format = || ArrayFormat::from_number(function, raw.format);
        match raw.resType {
            ARRAY => Ok(TextureResource::Array(address as CUarray)),
            LINEAR => Ok(TextureResource::Linear { address, format: format()?, channels, bytes: width }),
            ROWS => {
                let (format, pitch) = (format()?, raw.pitchInBytes);
                Ok(TextureResource::Rows { address, format, channels, width, height, pitch })
            }
            other => Err(CudaError::UnexpectedValue { function, value: other.into() }),
        }
    }
}

#[inline]
pub(super) fn of_array(array: &ArrayObject) -> CudaResult<CUDA_RESOURCE_DESC> {
    array.handle().usable()?;
    let address = array.handle().raw().addr() as u64;
    Ok(CUDA_RESOURCE_DESC { resType: ARRAY, devPtr: address, ..CUDA_RESOURCE_DESC::default() })
}

#[inline]
pub(super) fn linear<T: Texel>(address: u64, count: usize) -> CUDA_RESOURCE_DESC {
    CUDA_RESOURCE_DESC {
        resType: LINEAR,
        devPtr: address,
        format: T::FORMAT.number(),
        numChannels: T::CHANNELS,
        width: count * size_of::<T>(),
        ..CUDA_RESOURCE_DESC::default()
    }
}

#[inline]
pub(super) fn rows<T: Texel>(address: u64, [width, height]: [usize; 2], pitch: usize) -> CUDA_RESOURCE_DESC {
    CUDA_RESOURCE_DESC { resType: ROWS, width, height, pitchInBytes: pitch, ..linear::<T>(address, width) }
}
